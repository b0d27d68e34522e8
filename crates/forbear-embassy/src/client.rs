//! The client that all tasks share, and the attempts of one call.

use core::cell::RefCell;
use core::fmt;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use embassy_sync::blocking_mutex::Mutex;
use embassy_sync::blocking_mutex::raw::{NoopRawMutex, RawMutex};
use embassy_time::{Instant as Tick, Timer};
use forbear::{Call, Clock, Config, Counts, Error, Handle, Instant, Mode, Policy, Reply, Step, Tally, Window};
use rand_core::Rng;

use crate::clock::{EmbassyClock, tick_after};
use crate::shared::{Draw, Shared};

/// One client for a backend, shared by all tasks that call it: every method takes `&self`.
///
/// * `R` is the board's generator or one that is [seeded](crate::seed) differently on every device.
/// * `M` says who may share it: [`NoopRawMutex`] the tasks of one executor, a `CriticalSectionRawMutex` those of any,
///   interrupt executors too. It is locked for one look or one change, never while a request is in flight.
/// * `W` is the window: two minutes with `u32` counters, unless [`with_window`](Self::with_window) is given another.
///
/// In a `StaticCell` it costs RAM alone. A `static` that is built in a constant costs its size in flash again.
pub struct Client<R, M: RawMutex = NoopRawMutex, W = Window> {
    policy: Policy<Shared<M, W>>,
    rng: Mutex<M, RefCell<R>>,
}

impl<R, M: RawMutex> Client<R, M> {
    /// A client over the window of two minutes.
    pub const fn new(config: Config, rng: R) -> Self {
        Self::with_window(config, rng, Window::new())
    }
}

impl<R, M: RawMutex, W> Client<R, M, W> {
    /// A client over another window, such as `Window::<30, u16>::of_len()`, which takes less RAM.
    pub const fn with_window(config: Config, rng: R, window: W) -> Self {
        Self { policy: Policy::new(config, Shared::new(window)), rng: Mutex::new(RefCell::new(rng)) }
    }

    /// The policy: its configuration and its mode.
    pub const fn policy(&self) -> &Policy<Shared<M, W>> {
        &self.policy
    }

    /// Switches what is done with decisions, for every call from its next step on.
    pub fn set_mode(&self, mode: Mode) {
        self.policy.set_mode(mode);
    }
}

impl<R, M: RawMutex, W: Tally> Client<R, M, W> {
    /// What the window holds now.
    pub fn counts(&self) -> Counts {
        self.policy.counts(EmbassyClock.now())
    }

    /// The probability that an attempt made now would be refused, in 0 to 1.
    ///
    /// The one place where floating point is linked into the firmware; the policy decides without.
    pub fn reject_probability(&self) -> f64 {
        self.policy.reject_probability(EmbassyClock.now())
    }

    /// A call as a loop of the caller's own: for sends that do not fit a closure.
    ///
    /// ```
    /// use core::pin::pin;
    /// # use forbear_embassy::{Client, NoopRawMutex};
    /// # use forbear::{Error, Reply, rand_core::Rng};
    /// # async fn post() -> Result<(), Reply> { Ok(()) }
    /// async fn report<R: Rng>(api: &Client<R, NoopRawMutex>) -> Result<(), Error<Reply>> {
    ///     let mut call = api.begin();
    ///     let mut last = None;
    ///     while call.ready().await {
    ///         last = call.limit(pin!(post())).await;
    ///         match last {
    ///             Some(Ok(())) => call.reply(Reply::ACCEPTED),
    ///             Some(Err(reply)) => call.reply(reply),
    ///             None => call.reply(Reply::UNREACHABLE), // cut
    ///         }
    ///     }
    ///     call.finish(last)
    /// }
    /// ```
    pub fn begin(&self) -> Attempts<'_, R, M, W> {
        Attempts { call: Call::new(self), due: Tick::MIN, cut: Tick::MAX }
    }
}

impl<R: Rng, M: RawMutex, W: Tally> Client<R, M, W> {
    /// One call: `send` is one attempt, `classify` says what its result means.
    ///
    /// `send` may borrow mutably, as the HTTP clients of firmware do. An attempt that takes longer than the configuration
    /// allows is dropped where it stands. After at least one reply the last result comes back untouched, whatever ended
    /// the retries, unless the last attempt was cut.
    ///
    /// Nothing is locked while this waits, and dropped at any point it leaves the counts as [`Call`] says.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if nothing was sent, [`Error::TimedOut`] if the last attempt was cut, [`Error::Failed`] with
    /// what the last send returned.
    #[allow(clippy::manual_async_fn, reason = "an async fn holds its arguments twice")]
    pub fn call<T, E>(
        &self,
        mut send: impl AsyncFnMut() -> Result<T, E>,
        classify: impl Fn(&Result<T, E>) -> Reply,
    ) -> impl Future<Output = Result<T, Error<E>>> {
        async move {
            let mut call = self.begin();
            let mut last = None;
            while call.ready().await {
                last = call.limit(pin!(send())).await;
                call.reply(last.as_ref().map_or(Reply::UNREACHABLE, &classify));
            }
            call.finish(last)
        }
    }
}

impl<R, M: RawMutex, W: Tally> Handle for Client<R, M, W> {
    type Tally = Shared<M, W>;

    fn policy(&self) -> &Policy<Shared<M, W>> {
        &self.policy
    }

    fn now(&self) -> Option<Instant> {
        Some(EmbassyClock.now())
    }
}

impl<R, M: RawMutex, W> fmt::Debug for Client<R, M, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// A call as a loop of the caller's own: await [`ready`](Self::ready), send, tell [`reply`](Self::reply), until it is
/// over. [`Client::begin`] has an example.
#[must_use = "a call does nothing until it is asked whether it is ready"]
pub struct Attempts<'c, R, M: RawMutex, W: Tally> {
    call: Call<&'c Client<R, M, W>>,
    /// Until when the next attempt waits; the first tick where it doesn't.
    due: Tick,
    /// When the attempt in flight is to be cut; the last tick where it isn't.
    cut: Tick,
}

impl<R: Rng, M: RawMutex, W: Tally> Attempts<'_, R, M, W> {
    /// The same call, but never sent twice, whatever comes back.
    pub fn once(self) -> Self {
        Self { call: self.call.once(), ..self }
    }

    /// Waits for as long as the next attempt has to, and says whether to send it now. After false the call is over.
    ///
    /// Asked with an attempt in flight, it takes that for one that got no answer. It may be dropped while it waits, as by
    /// `select`, and asked again: it then waits for the rest.
    pub async fn ready(&mut self) -> bool {
        loop {
            // A timer is never ready at its first look, and this may be asked for each look anew.
            if self.due > Tick::now() {
                Timer::at(self.due).await;
            }
            self.due = Tick::MIN;
            let client = *self.call.handle();
            match self.call.next(EmbassyClock.now(), &mut Draw(&client.rng)) {
                Step::Send { within } => {
                    self.cut = within.map_or(Tick::MAX, tick_after);
                    return true;
                }
                Step::Wait(delay) => self.due = tick_after(delay),
                Step::Done(_) => return false,
            }
        }
    }

    /// When the attempt that [`ready`](Self::ready) waits for is due, if it waits.
    pub fn due(&self) -> Option<Tick> {
        Some(self.due).filter(|&due| due > Tick::MIN)
    }

    /// When the attempt in flight has to be cut, where a timeout or a deadline is configured. [`limit`](Self::limit) does
    /// so.
    pub fn cut(&self) -> Option<Tick> {
        Some(self.cut).filter(|&cut| cut < Tick::MAX)
    }

    /// What `send` comes to; `None` if it has to be cut first: drop it then, and it counts as unreachable.
    ///
    /// Takes what may be moved, so that the future of `send` is held once and not twice: pin it where it is made, with
    /// [`pin!`](core::pin::pin).
    pub fn limit<F: Future + Unpin>(&self, send: F) -> Limited<F> {
        Limited { send, timer: self.cut().map(Timer::at) }
    }

    /// Tells what came back from the attempt.
    pub fn reply(&mut self, reply: Reply) {
        self.call.reply(EmbassyClock.now(), reply);
    }

    /// The result of the call, given the last result that an attempt had; `None` if that was cut.
    ///
    /// Called before the call is over, it ends it: nothing more is sent.
    ///
    /// # Errors
    ///
    /// As for [`Client::call`].
    pub fn finish<T, E>(self, last: Option<Result<T, E>>) -> Result<T, Error<E>> {
        self.call.abandon().resolve(last)
    }
}

impl<R, M: RawMutex, W: Tally> fmt::Debug for Attempts<'_, R, M, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").field("call", &self.call).field("due", &self.due).finish_non_exhaustive()
    }
}

/// What [`Attempts::limit`] makes of a send.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Limited<F> {
    send: F,
    timer: Option<Timer>,
}

impl<F: Future + Unpin> Future for Limited<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        // The answer that is there wins over the time that is up.
        if let Poll::Ready(output) = Pin::new(&mut self.send).poll(context) {
            return Poll::Ready(Some(output));
        }
        match &mut self.timer {
            Some(timer) => Pin::new(timer).poll(context).map(|()| None),
            None => Poll::Pending,
        }
    }
}
