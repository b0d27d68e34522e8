//! One client for all tasks and threads that talk to one backend.

use core::fmt;
use core::future::Future;
use core::ops::Deref;

use forbear::{Clock, Config, Error, Reply, Report, Step, Tally};
use forbear_std::{SharedRng, SharedWindow, SystemClock, ThreadRng};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::running::Running;

/// One client for all tasks and threads that talk to one backend.
///
/// A cheap handle around the [blocking client](forbear_std::Client), whose counts, mode and configuration it derefs to:
/// clones of either share everything, so that tasks and threads spend one budget. Keep one for each backend, and for each
/// criticality where a service has several.
///
/// ```
/// use forbear_tokio::{Client, Reply};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let client = Client::default();
/// let answer = client
///     .call(
///         || async { "42".parse::<i32>() }, // one attempt; in earnest, a request
///         |result| match result {
///             Ok(_) => Reply::ACCEPTED,
///             Err(_) => Reply::PERMANENT,
///         },
///     )
///     .await;
/// assert_eq!(answer.unwrap(), 42);
/// assert_eq!(client.counts().accepts, 1);
/// # });
/// ```
///
/// # Cancelling
///
/// Any future here may be dropped at any point. Dropped while a retry waits, a call gives its reservation in the budget
/// back. Dropped with an attempt in flight, it stays counted as a request without an accept: it was sent, and servers
/// impose timeouts by dropping futures, so forgetting it would blind the throttle just when a backend hangs. Where an
/// [`in_flight_grace`](forbear::ConfigBuilder::in_flight_grace) is configured, as in [`Config::resilient`], an attempt
/// younger than that is taken back out. So prefer [`attempt_timeout`](forbear::ConfigBuilder::attempt_timeout) to a timeout
/// around the call, and keep the grace below both.
///
/// No call boxes, spawns or allocates.
pub struct Client<C = SystemClock, R = ThreadRng, W = SharedWindow>(forbear_std::Client<C, R, W>);

impl Client {
    /// A client of this configuration, over the window of two minutes, the system's clock and a generator per thread.
    pub fn new(config: Config) -> Self {
        Self(forbear_std::Client::new(config))
    }
}

/// A client of [`Config::resilient`].
impl Default for Client {
    fn default() -> Self {
        Self(forbear_std::Client::default())
    }
}

impl<C, R, W> Client<C, R, W> {
    /// A client over another clock, generator or window, as [`forbear_std::Client::with`]: for tests, and for windows of
    /// another length. A generator with a state of its own is put behind a [`LockedRng`](crate::LockedRng).
    ///
    /// ```
    /// use forbear_tokio::{Client, Config, SharedWindow, ThreadRng, TokioClock};
    ///
    /// let client = Client::with(TokioClock::new(), ThreadRng, Config::resilient(), SharedWindow::<120>::default());
    /// assert_eq!(client.requests(), 0);
    /// ```
    pub fn with(clock: C, rng: R, config: Config, window: W) -> Self
    where
        R: SharedRng,
    {
        Self(forbear_std::Client::with(clock, rng, config, window))
    }

    /// This handle, and what is cloned from it, with an observer that is told of the end of each call. Several are told in
    /// the order in which they were added.
    ///
    /// Calls that are dropped are reported, too, unless they were never polled or asked for their first attempt.
    #[must_use]
    pub fn observed(self, observer: impl forbear_std::Observer + 'static) -> Self {
        Self(self.0.observed(observer))
    }

    /// The same client for blocking callers.
    pub const fn blocking(&self) -> &forbear_std::Client<C, R, W> {
        &self.0
    }
}

impl<C: Clock, R: SharedRng, W: Tally> Client<C, R, W> {
    /// One call: `send` is one attempt, `classify` says what its result means.
    ///
    /// Waits and limits need the timer of tokio's runtime, as `#[tokio::main]` has it. An attempt that is cut by the attempt timeout or the deadline is dropped, is [unreachable](Reply::UNREACHABLE), and
    /// *is sent again* while attempts, budget and deadline allow. For what must not be sent twice there is
    /// [`call_once`](Self::call_once).
    ///
    /// After at least one reply the last result comes back untouched, whatever ended the retries.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if nothing was sent, [`Error::TimedOut`] if no attempt had a result before it was cut,
    /// [`Error::Failed`] with what the last result was.
    pub async fn call<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        send: impl FnMut() -> F,
        classify: impl Fn(&Result<T, E>) -> Reply,
    ) -> Result<T, Error<E>> {
        self.run(Running::new(&self.0), send, classify).await
    }

    /// One call that is sent once at the most, whatever its reply says: for what must not be repeated.
    ///
    /// It is counted as any other, and refused where another would be; only that nothing, a timeout included, makes it be
    /// sent again.
    ///
    /// ```
    /// use forbear_tokio::{Client, Error, Reply};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let client = Client::default();
    /// let order = String::from("one of these");
    /// let answer = client.call_once(|| async move { Err::<(), _>(order) }, |_| Reply::OVERLOADED).await;
    /// assert!(matches!(answer, Err(Error::Failed { report, .. }) if report.attempts == 1));
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call).
    pub async fn call_once<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        send: impl FnOnce() -> F,
        classify: impl Fn(&Result<T, E>) -> Reply,
    ) -> Result<T, Error<E>> {
        let mut send = Some(send);
        let send = || send.take().expect("a call that is sent once was asked for a second attempt")();
        self.run(Running::new(&self.0).once(), send, classify).await
    }

    async fn run<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        mut running: Running<&forbear_std::Client<C, R, W>>,
        mut send: impl FnMut() -> F,
        classify: impl Fn(&Result<T, E>) -> Reply,
    ) -> Result<T, Error<E>> {
        let (mut last, mut reply) = (None, None);
        loop {
            match running.next(reply.take()) {
                Step::Send { within } => {
                    let result = match within {
                        Some(within) => timeout(within, send()).await.ok(),
                        None => Some(send().await),
                    };
                    reply = Some(result.as_ref().map_or(Reply::UNREACHABLE, &classify));
                    last = result.or(last);
                }
                Step::Wait(delay) => sleep(delay).await,
                Step::Done(report) => return report.resolve(last),
            }
        }
    }

    /// A call as a loop of the caller's own: for sends that borrow mutably.
    ///
    /// ```
    /// use forbear_tokio::{Client, Reply};
    ///
    /// struct Connection(u32);
    /// impl Connection {
    ///     async fn query(&mut self) -> Result<u32, u16> {
    ///         self.0 += 1;
    ///         if self.0 == 1 { Err(503) } else { Ok(self.0) }
    ///     }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// let client = Client::default();
    /// let mut connection = Connection(0);
    ///
    /// let mut call = client.begin();
    /// let mut last = None;
    /// while call.ready().await {
    ///     let Some(result) = call.limit(connection.query()).await else { continue }; // cut: no answer
    ///     call.reply(if result.is_ok() { Reply::ACCEPTED } else { Reply::OVERLOADED });
    ///     last = Some(result);
    /// }
    /// assert_eq!(call.finish(last).unwrap(), 2);
    /// # });
    /// ```
    pub fn begin(&self) -> Attempts<'_, C, R, W> {
        Attempts { call: Running::new(&self.0), due: None, cut: None, report: None }
    }
}

/// The blocking client around which this one is: its counts, mode and configuration are this one's.
impl<C, R, W> Deref for Client<C, R, W> {
    type Target = forbear_std::Client<C, R, W>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The same client, awaiting instead of blocking.
impl<C, R, W> From<forbear_std::Client<C, R, W>> for Client<C, R, W> {
    fn from(client: forbear_std::Client<C, R, W>) -> Self {
        Self(client)
    }
}

/// Another handle of the same client.
impl<C, R: Clone, W> Clone for Client<C, R, W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C, R, W> fmt::Debug for Client<C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A call as a loop of the caller's own: await [`ready`](Self::ready), send, tell [`reply`](Self::reply), until it is
/// over. [`Client::begin`] has an example.
#[must_use = "a call does nothing until it is asked whether it is ready"]
pub struct Attempts<'c, C: Clock, R: SharedRng, W: Tally> {
    call: Running<&'c forbear_std::Client<C, R, W>>,
    /// Until when the next attempt waits.
    due: Option<Instant>,
    /// When the attempt in flight is to be cut.
    cut: Option<Instant>,
    report: Option<Report>,
}

impl<C: Clock, R: SharedRng, W: Tally> Attempts<'_, C, R, W> {
    /// The same call, but never sent twice, whatever comes back.
    pub fn once(self) -> Self {
        Self { call: self.call.once(), ..self }
    }

    /// Waits for as long as the next attempt has to, and says whether to send it now. After false the call is over.
    ///
    /// Asked with an attempt in flight, it takes that for one that got no answer. It may be dropped while it waits, as by
    /// `select!`, and asked again: it then waits for the rest.
    pub async fn ready(&mut self) -> bool {
        loop {
            if let Some(due) = self.due {
                sleep_until(due).await;
                self.due = None;
            }
            if self.report.is_some() {
                return false;
            }
            match self.call.next(None) {
                Step::Send { within } => {
                    self.cut = within.map(|within| sleep(within).deadline());
                    return true;
                }
                Step::Wait(delay) => self.due = Some(sleep(delay).deadline()),
                Step::Done(report) => {
                    self.report = Some(report);
                    return false;
                }
            }
        }
    }

    /// When the attempt that [`ready`](Self::ready) waits for is due, if it waits.
    pub const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// When the attempt in flight has to be cut, where a timeout or a deadline is configured. [`limit`](Self::limit) does
    /// so.
    pub const fn cut(&self) -> Option<Instant> {
        self.cut
    }

    /// What `send` comes to; `None` if it has to be cut first: then it is dropped, and counts as unreachable.
    pub async fn limit<T>(&self, send: impl Future<Output = T>) -> Option<T> {
        match self.cut {
            Some(cut) => timeout(cut - Instant::now(), send).await.ok(),
            None => Some(send.await),
        }
    }

    /// Tells what came back from the attempt.
    pub fn reply(&mut self, reply: Reply) {
        if self.report.is_none() {
            self.call.reply(reply);
        }
    }

    /// The result of the call, given the last result that an attempt had.
    ///
    /// Called before the call is over, it ends it: nothing more is sent. Where nothing was sent at all, that is a call
    /// [refused](Error::Refused) by its caller.
    ///
    /// # Errors
    ///
    /// As for [`Client::call`].
    pub fn finish<T, E>(mut self, last: Option<Result<T, E>>) -> Result<T, Error<E>> {
        let report = self.report.or_else(|| self.call.abandon());
        report.expect("a call has a report or goes on").resolve(last)
    }
}

impl<C: Clock, R: SharedRng, W: Tally> fmt::Debug for Attempts<'_, C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("attempts", &self.call.attempts())
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
