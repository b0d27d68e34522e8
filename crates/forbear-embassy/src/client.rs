//! The client that all tasks share, and the attempts of one call.

use core::cell::RefCell;
use core::fmt;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use embassy_sync::blocking_mutex::Mutex;
use embassy_sync::blocking_mutex::raw::{NoopRawMutex, RawMutex};
use embassy_time::{Instant as Tick, Timer};
use forbear::{
    Call, Clock, Config, Counts, Error, Handle, Instant, Mode, Policy, Reply, Settings, Step, Tally, Window,
};
use rand_core::Rng;

use crate::clock::{EmbassyClock, tick_after};
use crate::shared::{Draw, Shared};

/// One client for a backend, shared by all tasks that call it: every method takes `&self`.
///
/// * `R` is the board's generator or one that is [seeded](crate::seed) differently on every device.
/// * `M` says who may share it: [`NoopRawMutex`] the tasks of one executor, a `CriticalSectionRawMutex` those of any,
///   interrupt executors too. It is locked for one look or one change, never while a request is in flight.
/// * `W` is the window: two minutes with `u32` counters, unless [`with_window`](Self::with_window) is given another.
/// * `S` is the configuration: a [`Config`], or a type that [`settings!`](crate::settings!) declares for a constant one,
///   which takes no RAM and leaves out of the firmware what it rules out.
///
/// ```
/// use forbear_embassy::{Client, Config, NoopRawMutex, Window, settings};
///
/// settings! { struct Cloud = Config::resilient().to_builder().max_attempts(2) }
///
/// fn client<R>(rng: R) -> Client<R, NoopRawMutex, Window, Cloud> {
///     Client::new(Cloud, rng)
/// }
/// ```
///
/// In a `StaticCell` it costs RAM alone. A `static` that is built in a constant costs its size in flash again.
pub struct Client<R, M: RawMutex = NoopRawMutex, W = Window, S = Config> {
    policy: Policy<Shared<M, W>, S>,
    rng: Mutex<M, RefCell<R>>,
}

impl<R, M: RawMutex, S> Client<R, M, Window, S> {
    /// A client over the window of two minutes.
    pub const fn new(settings: S, rng: R) -> Self {
        Self::with_window(settings, rng, Window::new())
    }
}

impl<R, M: RawMutex, W, S> Client<R, M, W, S> {
    /// A client over another window, such as `Window::<30, u16>::of_len()`, which takes less RAM.
    pub const fn with_window(settings: S, rng: R, window: W) -> Self {
        Self { policy: Policy::new(settings, Shared::new(window)), rng: Mutex::new(RefCell::new(rng)) }
    }

    /// The policy: its configuration and its mode.
    pub const fn policy(&self) -> &Policy<Shared<M, W>, S> {
        &self.policy
    }

    /// Switches what is done with decisions, for every call from its next step on.
    pub fn set_mode(&self, mode: Mode) {
        self.policy.set_mode(mode);
    }
}

impl<R, M: RawMutex, W: Tally, S: Settings> Client<R, M, W, S> {
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
    /// # use forbear_embassy::{Client, Error, NoopRawMutex, Reply, forbear::rand_core::Rng};
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
    pub fn begin(&self) -> Attempts<'_, R, M, W, S> {
        Attempts { call: Call::new(self), until: Tick::MIN }
    }
}

impl<R: Rng, M: RawMutex, W: Tally, S: Settings> Client<R, M, W, S> {
    /// One call: `send` is one attempt, `classify` says what its result means.
    ///
    /// `send` may borrow mutably, as the HTTP clients of firmware do. An attempt that takes longer than the configuration
    /// allows is dropped where it stands. After at least one reply the last result comes back untouched, whatever ended
    /// the retries, unless the last attempt was cut.
    ///
    /// An attempt that was cut is sent again, whatever `classify` would have said: what must not be repeated is for
    /// [`call_once`](Self::call_once).
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
            // Not `ready`: a future within this one, and what it is for when it is dropped and asked again, cost flash.
            loop {
                match call.step() {
                    Due::Later => Timer::at(call.until).await,
                    Due::Now => {
                        last = call.limit(pin!(send())).await;
                        call.reply(last.as_ref().map_or(Reply::UNREACHABLE, &classify));
                    }
                    Due::Never => break,
                }
            }
            call.finish(last)
        }
    }

    /// One call of one attempt, for what must not be sent twice, even after a timeout: it is counted, and may be refused,
    /// as any other.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call).
    #[allow(clippy::manual_async_fn, reason = "an async fn holds its arguments twice")]
    pub fn call_once<T, E>(
        &self,
        send: impl AsyncFnOnce() -> Result<T, E>,
        classify: impl Fn(&Result<T, E>) -> Reply,
    ) -> impl Future<Output = Result<T, Error<E>>> {
        async move {
            let mut call = self.begin().once();
            let mut last = None;
            if let Due::Now = call.step() {
                last = call.limit(pin!(send())).await;
                call.reply(last.as_ref().map_or(Reply::UNREACHABLE, classify));
                // What the reply comes to; there is nothing left to be due.
                call.step();
            }
            call.finish(last)
        }
    }
}

impl<R, M: RawMutex, W: Tally, S: Settings> Handle for Client<R, M, W, S> {
    type Tally = Shared<M, W>;
    type Settings = S;

    fn policy(&self) -> &Policy<Shared<M, W>, S> {
        &self.policy
    }

    fn now(&self) -> Option<Instant> {
        Some(EmbassyClock.now())
    }
}

impl<R, M: RawMutex, W, S: Settings> fmt::Debug for Client<R, M, W, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// When an attempt is to be sent.
enum Due {
    Now,
    /// When the call's wait is over.
    Later,
    /// The call is over.
    Never,
}

/// A call as a loop of the caller's own: await [`ready`](Self::ready), send, tell [`reply`](Self::reply), until it is
/// over. [`Client::begin`] has an example.
#[must_use = "a call does nothing until it is asked whether it is ready"]
pub struct Attempts<'c, R, M: RawMutex, W: Tally, S: Settings = Config> {
    call: Call<&'c Client<R, M, W, S>>,
    /// Until when the next attempt waits, the first tick where it doesn't; or until when the attempt in flight may take,
    /// the last tick where that is not limited.
    until: Tick,
}

impl<R: Rng, M: RawMutex, W: Tally, S: Settings> Attempts<'_, R, M, W, S> {
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
            if !self.call.is_in_flight() && self.until > Tick::now() {
                Timer::at(self.until).await;
            }
            match self.step() {
                Due::Later => {}
                Due::Now => return true,
                Due::Never => return false,
            }
        }
    }

    /// When to send.
    fn step(&mut self) -> Due {
        let client = *self.call.handle();
        let due;
        (self.until, due) = match self.call.next(EmbassyClock.now(), &mut Draw(&client.rng)) {
            Step::Send { within } => (within.map_or(Tick::MAX, tick_after), Due::Now),
            Step::Wait(delay) => (tick_after(delay), Due::Later),
            Step::Done(_) => (Tick::MIN, Due::Never),
        };
        due
    }

    /// When the attempt that [`ready`](Self::ready) waits for is due, if it waits.
    pub fn due(&self) -> Option<Tick> {
        Some(self.until).filter(|&due| !self.call.is_in_flight() && due > Tick::MIN)
    }

    /// When the attempt in flight has to be cut, where a timeout or a deadline is configured. [`limit`](Self::limit) does
    /// so.
    pub fn cut(&self) -> Option<Tick> {
        Some(self.until).filter(|&cut| self.call.is_in_flight() && cut < Tick::MAX)
    }

    /// What `send` comes to; `None` if it has to be cut first: drop it then, and it counts as unreachable.
    ///
    /// Takes what may be moved, so that the future of `send` is held once and not twice: pin it where it is made, with
    /// [`pin!`](core::pin::pin).
    pub fn limit<F: Future + Unpin>(&self, send: F) -> Limited<F> {
        Limited { send, cut: self.cut().unwrap_or(Tick::MAX) }
    }

    /// Tells what came back from the attempt in flight; without one it does nothing.
    pub fn reply(&mut self, reply: Reply) {
        if self.call.is_in_flight() {
            self.call.reply(EmbassyClock.now(), reply);
            self.until = Tick::MIN;
        }
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

impl<R, M: RawMutex, W: Tally, S: Settings> fmt::Debug for Attempts<'_, R, M, W, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").field("call", &self.call).field("until", &self.until).finish_non_exhaustive()
    }
}

/// What [`Attempts::limit`] makes of a send.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Limited<F> {
    send: F,
    cut: Tick,
}

impl<F: Future + Unpin> Future for Limited<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        // The answer that is there wins over the time that is up.
        if let Poll::Ready(output) = Pin::new(&mut self.send).poll(context) {
            return Poll::Ready(Some(output));
        }
        if self.cut == Tick::MAX {
            return Poll::Pending;
        }
        if Tick::now() >= self.cut {
            return Poll::Ready(None);
        }
        // A timer of each look, as it is not needed but to be woken by: kept, it would cost as much as the rest of this.
        let _ = pin!(Timer::at(self.cut)).poll(context);
        Poll::Pending
    }
}
