//! One client for all threads that talk to one backend.

use core::panic::AssertUnwindSafe;
use core::{fmt, mem};
use forbear::call::Progress;
use std::sync::Arc;
use std::{panic, thread};

use forbear::{
    Call, Clock, Config, Counts, Error, Handle, Instant, Mode, Policy, Reply, Report, Retry, Sleep, Step, Tally,
};

use crate::{SharedRng, SharedWindow, SystemClock, ThreadRng};

/// One client for all threads that talk to one backend.
///
/// A cheap handle: clones share the counts, the budget and the mode. Keep one for each backend, and for each criticality
/// where a service has several.
///
/// ```
/// use forbear_std::{Client, Reply};
///
/// let client = Client::default();
/// let answer = client.call(
///     || "42".parse::<i32>(), // one attempt; in earnest, a request
///     |result| match result {
///         Ok(_) => Reply::ACCEPTED,
///         Err(_) => Reply::PERMANENT,
///     },
/// );
/// assert_eq!(answer.unwrap(), 42);
/// assert_eq!(client.counts().accepts, 1);
/// ```
pub struct Client<C = SystemClock, R = ThreadRng, W = SharedWindow> {
    shared: Arc<Shared<C, W>>,
    rng: R,
    observer: Option<Arc<dyn Observer>>,
}

struct Shared<C, W> {
    clock: C,
    policy: Policy<W>,
}

/// Is told how each call ended: for logs, metrics, or a look at shadow mode.
///
/// Closures over `&Report` are observers.
///
/// ```
/// use forbear_std::{Client, Report, Reply};
///
/// let client = Client::default().observed(|report: &Report| eprintln!("{report}"));
/// let _ = client.call(|| Ok::<_, ()>(1), |_| Reply::ACCEPTED); // accepted on the first attempt
/// ```
pub trait Observer: Send + Sync {
    /// A call ended as the report says.
    fn ended(&self, report: &Report);
}

impl<F: Fn(&Report) + Send + Sync> Observer for F {
    fn ended(&self, report: &Report) {
        self(report);
    }
}

impl Client {
    /// A client of this configuration, over the window of two minutes, the system's clock and a generator per thread.
    pub fn new(config: Config) -> Self {
        Client::with(SystemClock, ThreadRng, config, SharedWindow::default())
    }
}

/// A client of [`Config::resilient`].
impl Default for Client {
    fn default() -> Self {
        Self::new(Config::resilient())
    }
}

impl<C, R, W> Client<C, R, W> {
    /// A client over another clock, generator or window: for tests, and for windows of another length.
    ///
    /// All calls and clones draw on in the one sequence of the generator, so one with a state of its own is put behind a
    /// handle, [`LockedRng`](crate::LockedRng). It does not compile without:
    ///
    /// ```compile_fail,E0277
    /// # use forbear_std::{Client, Config, SharedWindow, SystemClock};
    /// # use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};
    /// let rng = Xoshiro256PlusPlus::seed_from_u64(1); // every call would have the same jitter
    /// Client::with(SystemClock, rng, Config::resilient(), SharedWindow::<120>::default());
    /// ```
    pub fn with(clock: C, rng: R, config: Config, window: W) -> Self
    where
        R: SharedRng,
    {
        Self { shared: Arc::new(Shared { clock, policy: Policy::new(config, window) }), rng, observer: None }
    }

    /// This handle, and what is cloned from it, with an observer that is told of the end of each call. Several are told in
    /// the order in which they were added.
    ///
    /// A loop of the caller's own that is [dropped](Attempts) is reported, too, unless it was never asked for its first
    /// attempt.
    #[must_use]
    pub fn observed(mut self, observer: impl Observer + 'static) -> Self {
        self.observer = Some(match self.observer {
            Some(first) => Arc::new(move |report: &Report| {
                first.ended(report);
                observer.ended(report);
            }),
            None => Arc::new(observer),
        });
        self
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        self.shared.policy.config()
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.shared.clock
    }

    /// What is done with decisions now.
    pub fn mode(&self) -> Mode {
        self.shared.policy.mode()
    }

    /// Switches what is done with decisions, for all clones at once and for calls that run.
    pub fn set_mode(&self, mode: Mode) {
        self.shared.policy.set_mode(mode);
    }

    /// Tells the observer, if there is one, how a call ended.
    ///
    /// For adapters that run the machine themselves; [`call`](Self::call) does it.
    #[inline]
    pub fn ended(&self, report: &Report) {
        if let Some(observer) = &self.observer {
            observer.ended(report);
        }
    }
}

impl<C: Clock, R: SharedRng, W: Tally> Client<C, R, W> {
    /// The generator.
    pub fn rng(&self) -> R {
        self.rng.clone()
    }

    /// The time as far as a call needs it: exact where a deadline depends on it, else coarse.
    #[inline]
    pub fn time(&self) -> Instant {
        if self.config().deadline().is_some() { self.shared.clock.now() } else { self.shared.clock.coarse() }
    }

    /// What the window holds now.
    pub fn counts(&self) -> Counts {
        self.shared.policy.counts(self.time())
    }

    /// The attempts in the window, now.
    pub fn requests(&self) -> u32 {
        self.counts().requests
    }

    /// The accepted ones in the window, now.
    pub fn accepts(&self) -> u32 {
        self.counts().accepts
    }

    /// The retries in the window, now.
    pub fn retries(&self) -> u32 {
        self.counts().retries
    }

    /// The probability that an attempt made now would be refused, in 0 to 1.
    pub fn reject_probability(&self) -> f64 {
        self.shared.policy.reject_probability(self.time())
    }

    /// A call as a loop of the caller's own: for sends that do not fit a closure.
    ///
    /// ```
    /// use forbear_std::{Client, Reply, http};
    ///
    /// let client = Client::default();
    /// let mut connection = [503, 200].into_iter(); // in earnest, something borrowed mutably
    ///
    /// let mut call = client.begin();
    /// let mut last = None;
    /// while call.ready() {
    ///     let status = connection.next().unwrap();
    ///     call.reply(http::status(status));
    ///     last = Some(Ok::<_, ()>(status));
    /// }
    /// assert_eq!(call.finish(last).unwrap(), 200);
    /// ```
    pub fn begin(&self) -> Attempts<'_, C, R, W> {
        Attempts { call: Some(Call::new(self)), client: self, report: None }
    }
}

impl<C: Sleep, R: SharedRng, W: Tally> Client<C, R, W> {
    /// One call: `send` is one attempt, `classify` says what its result means. Waits block the thread.
    ///
    /// After at least one reply the last result comes back untouched, whatever ended the retries: also an `Ok` that is no
    /// accept. Why it was not sent again is then told to the [observer](Self::observed) only. A blocking `send`
    /// cannot be cut: give it a timeout of its own; an attempt timeout of the configuration is not enforced here, and a
    /// deadline keeps the next attempt from starting.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if nothing was sent, [`Error::Failed`] with what the last send returned.
    ///
    /// # Panics
    ///
    /// Only where `send` or `classify` does. The attempt then stays counted, and the client usable; no observer is told.
    #[inline]
    pub fn call<T, E>(
        &self,
        mut send: impl FnMut() -> Result<T, E>,
        classify: impl Fn(&Result<T, E>) -> Reply,
    ) -> Result<T, Error<E>> {
        let (mut call, mut rng) = (Call::new(self), self.rng.clone());
        let now = self.time();
        let step = call.next(now, &mut rng);
        if !matches!(step, Step::Send { .. }) {
            let progress = call.progress();
            mem::forget(call);
            return self.go_on(progress, now, Some(step), None, send, classify);
        }
        let result = send();
        let (now, reply) = (self.time(), classify(&result));
        call.reply(now, reply);
        if reply.retry() != Retry::Never {
            let progress = call.progress();
            mem::forget(call);
            return self.go_on(progress, now, None, Some(result), send, classify);
        }
        // Most calls end here, with their first reply: a straight line, half the cost of a loop, and nobody to report to.
        let result = match result {
            Ok(value) if self.observer.is_none() => {
                mem::forget(call);
                return Ok(value);
            }
            result => result,
        };
        let report = call.abandon();
        self.ended(&report);
        report.resolve(Some(result))
    }

    /// The rest of a call that does not end with its first reply.
    #[inline(never)]
    fn go_on<T, E>(
        &self,
        progress: Progress,
        mut now: Instant,
        mut step: Option<Step>,
        mut last: Option<Result<T, E>>,
        mut send: impl FnMut() -> Result<T, E>,
        classify: impl Fn(&Result<T, E>) -> Reply,
    ) -> Result<T, Error<E>> {
        let (mut call, mut rng) = (Call::resume(self, progress), self.rng.clone());
        loop {
            match step.take().unwrap_or_else(|| call.next(now, &mut rng)) {
                Step::Send { .. } => {
                    let result = send();
                    now = self.time();
                    call.reply(now, classify(&result));
                    last = Some(result);
                }
                Step::Wait(delay) => {
                    self.shared.clock.sleep(delay);
                    now = self.time();
                }
                Step::Done(report) => {
                    self.ended(&report);
                    return report.resolve(last);
                }
            }
        }
    }
}

/// Another handle of the same client.
impl<C, R: Clone, W> Clone for Client<C, R, W> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), rng: self.rng.clone(), observer: self.observer.clone() }
    }
}

impl<C: Clock, R, W: Tally> Handle for Client<C, R, W> {
    type Tally = W;
    type Settings = forbear::Config;

    #[inline]
    fn policy(&self) -> &Policy<W> {
        &self.shared.policy
    }

    #[inline]
    fn now(&self) -> Option<Instant> {
        Some(self.shared.clock.now())
    }
}

impl<C, R, W> fmt::Debug for Client<C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("policy", &self.shared.policy).finish_non_exhaustive()
    }
}

/// A call as a loop of the caller's own: ask [`ready`](Self::ready), send, tell [`reply`](Self::reply), until it is over.
///
/// Dropped before it is over, it ends there, and the observer is told so; one that was never asked has not begun, and
/// nobody is told.
#[must_use = "a call does nothing until it is asked whether it is ready"]
pub struct Attempts<'c, C: Clock, R, W: Tally> {
    /// Until it is over.
    call: Option<Call<&'c Client<C, R, W>>>,
    client: &'c Client<C, R, W>,
    /// Once it is over.
    report: Option<Report>,
}

impl<C: Sleep, R: SharedRng, W: Tally> Attempts<'_, C, R, W> {
    /// Whether to send an attempt now; blocks for as long as it has to wait. After false the call is over.
    ///
    /// Asked again without a [`reply`](Self::reply), it takes the attempt for one that got no answer.
    pub fn ready(&mut self) -> bool {
        while let Some(call) = &mut self.call {
            match call.next(self.client.time(), &mut self.client.rng()) {
                Step::Send { .. } => return true,
                Step::Wait(delay) => self.client.clock().sleep(delay),
                Step::Done(report) => {
                    self.call = None;
                    self.report = Some(report);
                    self.client.ended(&report);
                }
            }
        }
        false
    }

    /// Tells what came back from the attempt.
    pub fn reply(&mut self, reply: Reply) {
        if let Some(call) = &mut self.call {
            call.reply(self.client.time(), reply);
        }
    }

    /// The result of the call, given what the last attempt returned.
    ///
    /// Called before the call is over, it ends it: nothing more is sent. Where nothing was sent at all, that is a call
    /// [refused](Error::Refused) by its caller.
    ///
    /// # Errors
    ///
    /// As for [`Client::call`], and [`Error::TimedOut`] if `last` is `None` although something was sent.
    pub fn finish<T, E>(mut self, last: Option<Result<T, E>>) -> Result<T, Error<E>> {
        let report = self.report.or_else(|| self.abandon());
        report.expect("a call has a report or goes on").resolve(last)
    }
}

impl<C: Clock, R, W: Tally> Attempts<'_, C, R, W> {
    /// Ends the call here, unless it is over.
    fn abandon(&mut self) -> Option<Report> {
        let report = self.call.take()?.abandon();
        self.client.ended(&report);
        Some(report)
    }
}

impl<C: Clock, R, W: Tally> Drop for Attempts<'_, C, R, W> {
    fn drop(&mut self) {
        if self.call.as_ref().is_some_and(|call| call.attempts() > 0) {
            // In a thread that unwinds, a second panic out of a drop would end the process.
            let _ = match thread::panicking() {
                true => panic::catch_unwind(AssertUnwindSafe(|| self.abandon())).unwrap_or_default(),
                false => self.abandon(),
            };
        }
    }
}

impl<C: Clock, R, W: Tally> fmt::Debug for Attempts<'_, C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts = self.call.as_ref().map(Call::attempts).or(self.report.map(|report| report.attempts));
        f.debug_struct("Attempts").field("attempts", &attempts).field("report", &self.report).finish_non_exhaustive()
    }
}
