//! A call under way, of which the observer is told however it ends.

use core::fmt;

use forbear::{Call, Clock, Handle, Reply, Report, Step, Tally};
use forbear_std::Client;
use rand_core::Rng;

/// A handle that leads to a client.
pub(crate) trait Owner: Handle + Clone {
    type Clock: Clock;
    type Rng: Rng + Clone;

    fn client(&self) -> &Client<Self::Clock, Self::Rng, Self::Tally>;
}

impl<C: Clock, R: Rng + Clone, W: Tally> Owner for &Client<C, R, W> {
    type Clock = C;
    type Rng = R;

    fn client(&self) -> &Client<C, R, W> {
        self
    }
}

/// A [`Call`] with the client's clock, generator and observer.
///
/// The call settles its counts itself; what this adds is that the observer hears of the calls that are dropped, too.
pub(crate) struct Running<H: Owner>(Option<Call<H>>);

impl<H: Owner> Running<H> {
    pub(crate) fn new(handle: H) -> Self {
        Self(Some(Call::new(handle)))
    }

    pub(crate) fn once(mut self) -> Self {
        Self(self.0.take().map(Call::once))
    }

    fn call(&mut self) -> &mut Call<H> {
        self.0.as_mut().expect("a call that has ended is not asked again")
    }

    /// What the call was made with, until it has ended.
    pub(crate) fn handle(&self) -> &H {
        self.0.as_ref().expect("a call that has ended is not asked again").handle()
    }

    /// How often the call was sent so far.
    pub(crate) fn attempts(&self) -> u32 {
        self.0.as_ref().map_or(0, Call::attempts)
    }

    /// What to do now. After [`Step::Done`] the call is gone.
    #[inline]
    pub(crate) fn next(&mut self) -> Step {
        let client = self.handle().client();
        let (now, mut rng) = (client.time(), client.rng());
        let step = self.call().next(now, &mut rng);
        self.passed(step)
    }

    /// Tells what came back from the attempt in flight.
    #[inline]
    pub(crate) fn reply(&mut self, reply: Reply) {
        let now = self.handle().client().time();
        self.call().reply(now, reply);
    }

    /// Tells what came back, and asks what to do now.
    #[cfg(feature = "tower")]
    #[inline]
    pub(crate) fn reply_then_next(&mut self, reply: Reply) -> Step {
        let client = self.handle().client();
        let (now, mut rng) = (client.time(), client.rng());
        let call = self.call();
        call.reply(now, reply);
        let step = call.next(now, &mut rng);
        self.passed(step)
    }

    #[inline]
    fn passed(&mut self, step: Step) -> Step {
        if let Step::Done(report) = &step {
            self.handle().client().ended(report);
            self.0 = None;
        }
        step
    }

    /// Ends the call here, unless it has ended.
    pub(crate) fn abandon(&mut self) -> Option<Report> {
        let call = self.0.take()?;
        let handle = call.handle().clone();
        let report = call.abandon();
        handle.client().ended(&report);
        Some(report)
    }
}

impl<H: Owner> Drop for Running<H> {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl<H: Owner> fmt::Debug for Running<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("attempts", &self.attempts()).finish_non_exhaustive()
    }
}
