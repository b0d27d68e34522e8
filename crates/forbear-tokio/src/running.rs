//! A call under way, of which the observer is told however it ends.

use core::fmt;
use core::panic::AssertUnwindSafe;
use std::{panic, thread};

use forbear::{Call, Clock, Handle, Reply, Report, Step, Tally};
use forbear_std::{Client, SharedRng};

/// A handle that leads to a client.
pub(crate) trait Owner: Handle + Clone {
    type Clock: Clock;
    type Rng: SharedRng;

    fn client(&self) -> &Client<Self::Clock, Self::Rng, Self::Tally>;
}

impl<C: Clock, R: SharedRng, W: Tally> Owner for &Client<C, R, W> {
    type Clock = C;
    type Rng = R;

    #[inline]
    fn client(&self) -> &Client<C, R, W> {
        self
    }
}

/// A [`Call`] with the client's clock, generator and observer.
///
/// The call settles its counts itself; what this adds is that the observer hears of the calls that are dropped, too.
pub(crate) struct Running<H: Owner>(Option<Call<H>>);

const ENDED: &str = "a call that has ended is not asked again";

impl<H: Owner> Running<H> {
    /// A call that has ended.
    #[cfg(feature = "grpc")]
    pub(crate) const ENDED: Self = Self(None);

    #[inline]
    pub(crate) fn new(handle: H) -> Self {
        Self(Some(Call::new(handle)))
    }

    pub(crate) fn once(mut self) -> Self {
        Self(self.0.take().map(Call::once))
    }

    /// What the call was made with, until it has ended.
    #[cfg(feature = "tower")]
    #[inline]
    pub(crate) fn handle(&self) -> &H {
        self.0.as_ref().expect(ENDED).handle()
    }

    /// How often the call was sent so far.
    #[inline]
    pub(crate) fn attempts(&self) -> u32 {
        self.0.as_ref().map_or(0, Call::attempts)
    }

    /// Tells what came back from the attempt in flight, if anything did, and asks what to do now. After [`Step::Done`] the
    /// call is gone.
    // Inlined, so that a report that nobody looks at is not made; so a loop calls it in one place.
    #[inline(always)]
    pub(crate) fn next(&mut self, reply: Option<Reply>) -> Step {
        let call = self.0.as_mut().expect(ENDED);
        let client = call.handle().client();
        let (now, mut rng) = (client.time(), client.rng());
        if let Some(reply) = reply {
            call.reply(now, reply);
        }
        let step = call.next(now, &mut rng);
        if let Step::Done(report) = &step {
            let ended = Ended(&mut self.0);
            ended.0.as_ref().expect(ENDED).handle().client().ended(report);
        }
        step
    }

    /// Tells what came back from the attempt in flight.
    pub(crate) fn reply(&mut self, reply: Reply) {
        let call = self.0.as_mut().expect(ENDED);
        let now = call.handle().client().time();
        call.reply(now, reply);
    }

    /// Whether the call has ended.
    #[cfg(feature = "grpc")]
    pub(crate) const fn has_ended(&self) -> bool {
        self.0.is_none()
    }

    /// Ends the call here, unless it has ended.
    #[inline]
    pub(crate) fn abandon(&mut self) -> Option<Report> {
        self.0.take().map(Self::cut_off)
    }

    /// In a thread that unwinds, a second panic out of a drop would end the process.
    #[cold]
    #[inline(never)]
    fn drop_unended(&mut self) {
        if thread::panicking() {
            let _ = panic::catch_unwind(AssertUnwindSafe(|| self.abandon()));
        } else {
            self.abandon();
        }
    }

    #[cold]
    fn cut_off(call: Call<H>) -> Report {
        let handle = call.handle().clone();
        let report = call.abandon();
        handle.client().ended(&report);
        report
    }
}

/// A call of which the observer is told: gone afterwards, even if that panics, and so told once.
struct Ended<'c, H: Owner>(&'c mut Option<Call<H>>);

impl<H: Owner> Drop for Ended<'_, H> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.0 = None;
    }
}

impl<H: Owner> Drop for Running<H> {
    #[inline]
    fn drop(&mut self) {
        // One that was never asked has not begun.
        if self.attempts() > 0 {
            self.drop_unended();
        }
    }
}

impl<H: Owner> fmt::Debug for Running<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("attempts", &self.attempts()).finish_non_exhaustive()
    }
}
