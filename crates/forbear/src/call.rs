//! One call: the machine under every client, and the only place where the specification's steps stand in their order.

use core::time::Duration;
use core::{fmt, mem};

use rand_core::Rng;

use crate::backoff::{micros, part};
use crate::budget;
use crate::clock::{Instant, duration};
use crate::config::{Config, Mode};
use crate::counts::{Counts, Tally};
use crate::policy::Policy;
use crate::recovery::{PLAIN, Recovery};
use crate::reply::{Reply, Retry};
use crate::report::{Report, Stop};
use crate::settings::Settings;
use crate::throttle::{self, K};

/// What a call holds on to for as long as it lasts: the policy, and the time when nobody is there to tell it.
///
/// A policy is one, by reference; an adapter's own handle knows its clock as well.
pub trait Handle {
    /// The memory of the policy.
    type Tally: Tally;

    /// Where the policy has its configuration.
    type Settings: Settings;

    /// The policy of this call.
    fn policy(&self) -> &Policy<Self::Tally, Self::Settings>;

    /// The time now, asked only when a call is dropped with an attempt in flight and a
    /// [grace](crate::ConfigBuilder::in_flight_grace) is configured.
    ///
    /// `None`, as for a plain policy, leaves that attempt counted: its age is not known.
    fn now(&self) -> Option<Instant> {
        None
    }

    /// Settles the counts of a call that is dropped before its end: with an attempt in flight that was counted in second
    /// `asked` and sent at `since` with a `stake`, or with a retry [`RESERVED`].
    #[doc(hidden)]
    #[cold]
    fn settle(&self, asked: u64, since: Instant, stake: u8) {
        let policy = self.policy();
        let (config, window) = (policy.config(), policy.window());
        if stake == RESERVED {
            return window.release();
        }
        if asked == NOT_COUNTED {
            return;
        }
        let grace = config.in_flight_grace();
        if grace.is_some_and(|grace| self.now().is_some_and(|now| now.saturating_since(since) < grace)) {
            window.withdraw(asked);
        } else if config.recovery.is_some() {
            window.pace(|word| ((), Recovery::answered(word, false, stake)));
        }
    }
}

impl<W: Tally, S: Settings> Handle for Policy<W, S> {
    type Tally = W;
    type Settings = S;

    #[inline]
    fn policy(&self) -> &Self {
        self
    }
}

impl<H: Handle + ?Sized> Handle for &H {
    type Tally = H::Tally;
    type Settings = H::Settings;

    #[inline]
    fn policy(&self) -> &Policy<H::Tally, H::Settings> {
        (**self).policy()
    }

    #[inline]
    fn now(&self) -> Option<Instant> {
        (**self).now()
    }

    #[inline(always)]
    fn settle(&self, asked: u64, since: Instant, stake: u8) {
        (**self).settle(asked, since, stake);
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "the call goes on only as the step says"]
pub enum Step {
    /// Send one attempt now, cut it after `within` where the platform can, and tell [`Call::reply`] what came.
    ///
    /// One that was cut is [`Reply::UNREACHABLE`].
    Send {
        /// What the attempt may take: the smaller of the attempt timeout and what is left of the deadline.
        within: Option<Duration>,
    },
    /// Wait this long, and ask again. A platform whose timer is coarser rounds up.
    Wait(Duration),
    /// The call is over. What to give back is the last reply or error, if there was one.
    Done(Report),
}

/// A [`Step`] without its report.
enum Action {
    Send,
    Wait(Duration),
    End,
}

/// One call of any number of attempts, without I/O: it is told the time, draws from a generator that it is lent, and
/// answers what to do next.
///
/// Ask [`next`](Self::next) what to do, and after each [`Step::Send`] tell [`reply`](Self::reply) what came:
///
/// ```
/// use forbear::testing::{ManualClock, ScriptedRng};
/// use forbear::{Call, Clock, Config, Policy, Reply, Sleep, Step, Stop, Window};
///
/// let (clock, mut rng) = (ManualClock::new(), ScriptedRng::new(&[u64::MAX; 3]));
/// let policy = Policy::new(Config::resilient(), Window::new());
/// let mut replies = [Reply::OVERLOADED, Reply::ACCEPTED].into_iter();
///
/// let mut call = Call::new(&policy);
/// let report = loop {
///     match call.next(clock.now(), &mut rng) {
///         Step::Send { .. } => call.reply(clock.now(), replies.next().unwrap()),
///         Step::Wait(delay) => clock.sleep(delay),
///         Step::Done(report) => break report,
///     }
/// };
/// assert_eq!((report.stop, report.attempts), (Stop::Accepted, 2));
/// ```
///
/// The five steps of the specification, with what section 4 of the design adds for retries that wait:
///
/// 1. A retry is decided after a reply that may be retried, before its backoff: only if
///    `retries + waiting < ratio * requests`. It then is one of the `waiting` until it starts.
/// 2. When an attempt starts, p is computed from the window's counts,
/// 3. the attempt is counted as a request, and as a retry if it is one,
/// 4. exactly one number is drawn, and if that is below p the call ends unsent;
/// 5. the answer counts as an accept, in the second in which it came, if the backend did the work.
///
/// # Dropping
///
/// Dropped with a retry waiting, a call gives its reservation back. Dropped with an attempt in flight (a cancelled
/// future, an unwinding thread) it stays counted as a request without an accept: it was sent, and servers impose
/// timeouts by dropping, so forgetting it would blind the throttle just when a backend hangs. With
/// [`in_flight_grace`](crate::ConfigBuilder::in_flight_grace) an attempt younger than that is taken back out.
#[must_use = "a call does nothing until it is asked for its next step"]
pub struct Call<H: Handle> {
    handle: H,
    progress: Progress,
}

impl<H: Handle> Call<H> {
    /// A call that has not begun.
    #[inline]
    pub fn new(handle: H) -> Self {
        let progress = Progress::new(handle.policy().config());
        Self { handle, progress }
    }

    /// The same call, but never sent twice, whatever comes back: for what must not be repeated.
    pub fn once(mut self) -> Self {
        self.progress.course.most = 1;
        self
    }

    /// The handle that the call was made with.
    pub const fn handle(&self) -> &H {
        &self.handle
    }

    /// How often the call was sent so far.
    pub const fn attempts(&self) -> u32 {
        self.progress.course.attempts
    }

    /// Whether an attempt was sent and has no answer yet.
    pub const fn is_in_flight(&self) -> bool {
        matches!(self.progress.course.phase, Phase::InFlight)
    }

    /// What to do now.
    ///
    /// Asked with an attempt in flight, it takes that for one that got no answer. Asked after the end, it answers the
    /// same report again.
    // Inlined into the one or two loops of an adapter, where a healthy call costs half as much.
    #[inline(always)]
    pub fn next(&mut self, now: Instant, rng: &mut impl Rng) -> Step {
        let policy = self.handle.policy();
        match self.progress.advance(policy, now, rng) {
            Action::Send => Step::Send { within: self.progress.course.within(policy.config()) },
            Action::Wait(delay) => Step::Wait(delay),
            Action::End => Step::Done(self.progress.report(policy.config())),
        }
    }

    /// Tells what came back from the attempt in flight; without one it does nothing.
    #[inline(always)]
    pub fn reply(&mut self, now: Instant, reply: Reply) {
        self.progress.course.reply(self.handle.policy(), now, reply);
    }

    /// How far the call has come, to [`resume`](Self::resume) it from; whoever does must forget this one.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// A call that goes on where another one stood.
    #[doc(hidden)]
    pub const fn resume(handle: H, progress: Progress) -> Self {
        Self { handle, progress }
    }

    /// Ends the call here, whatever it would do next, and says how it stands. Its counts are settled as for one that is
    /// dropped.
    #[inline]
    pub fn abandon(self) -> Report {
        self.progress.report(self.handle.policy().config())
    }
}

impl<H: Handle> Drop for Call<H> {
    // Small enough to be inlined wherever a caller's code may unwind, so that the call need not be in memory for it.
    #[inline(always)]
    fn drop(&mut self) {
        let Course { phase, asked, latest, stake, .. } = self.progress.course;
        if matches!(phase, Phase::Reserved | Phase::InFlight) {
            self.handle.settle(asked, latest, stake);
        }
    }
}

impl<H: Handle> fmt::Debug for Call<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("progress", &self.progress).finish_non_exhaustive()
    }
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The next step is a retry, which is among the `waiting` of the window.
    Reserved,
    /// Sent at the `latest` time, and counted in the second `asked`.
    InFlight,
    /// The next step is the first attempt.
    New,
    /// The next step is a retry that was decided while the mode was off.
    Unreserved,
    /// Answered, as `accepted` and `retry` say.
    Replied,
    /// Ended: `stop`.
    Over,
}

/// For [`Course::asked`]: the attempt was sent while the mode was off.
const NOT_COUNTED: u64 = u64::MAX;

/// For [`Course::stake`]: not an attempt but a reservation is at stake.
const RESERVED: u8 = PLAIN - 1;

/// For [`Course::wait`]: the reply is never retried, or after the backoff; below that it is a time in microseconds.
const NEVER: u64 = u64::MAX;
const BACKOFF: u64 = NEVER - 1;

/// How far a call has come, and the counts that its last decision saw, or the first that shadow mode passed over.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
#[repr(C)]
pub struct Progress {
    seen: Counts,
    course: Course,
}

/// How far a call has come.
///
/// What few calls come to takes it by value, and its fields stand side by side rather than in the variants of the phase:
/// so a call that goes well keeps it in registers. No more than 64 bytes, which devices copy without a call.
#[derive(Clone, Copy, Debug)]
struct Course {
    phase: Phase,
    /// When the first attempt was asked for.
    begun: Instant,
    /// The latest time that the call was told.
    latest: Instant,
    asked: u64,
    accepted: bool,
    /// What the attempt in flight costs the recovery.
    stake: u8,
    /// Whether and when the reply may be retried.
    wait: u64,
    stop: Stop,
    attempts: u32,
    most: u32,
    accepts: u16,
    /// What would have ended the call, were it not for shadow mode.
    shadow: Option<Stop>,
}

/// A reservation that is given back unless it is forgotten.
struct Held<'w, W: Tally>(bool, &'w W);

impl<W: Tally> Drop for Held<'_, W> {
    fn drop(&mut self) {
        if self.0 {
            self.1.release();
        }
    }
}

/// What a rare turn of a call changes, and what it comes to.
struct Turn {
    action: Option<Action>,
    phase: Phase,
    stop: Stop,
    shadow: Option<Stop>,
    seen: Option<Counts>,
}

impl Progress {
    #[inline]
    const fn new(config: &Config) -> Self {
        Self { course: Course::new(config), seen: Counts::ZERO }
    }

    #[inline(always)]
    fn advance<W: Tally, S: Settings>(&mut self, policy: &Policy<W, S>, now: Instant, rng: &mut impl Rng) -> Action {
        let course = &mut self.course;
        match course.phase {
            Phase::New => {}
            Phase::Replied if course.is_final() => return course.end(course.settled()),
            _ => {
                course.told(policy.config(), now);
                // What it leaves behind should the caller's generator panic is its own to settle.
                let before = *course;
                course.phase = Phase::Over;
                let turn = before.go_on(policy, now, rng);
                (course.phase, course.stop, course.shadow) = (turn.phase, turn.stop, turn.shadow);
                if turn.phase == Phase::Reserved {
                    course.stake = RESERVED;
                }
                if let Some(seen) = turn.seen {
                    self.seen = seen;
                }
                if let Some(action) = turn.action {
                    return action;
                }
            }
        }
        course.attempt(policy, now, rng, &mut self.seen)
    }

    /// How the call ended, or how it would if nobody asked it on.
    #[inline(always)]
    fn report(&self, config: &Config) -> Report {
        let course = &self.course;
        let stop = match course.phase {
            Phase::Over => course.stop,
            Phase::Replied if course.is_final() => course.settled(),
            _ => Stop::Abandoned,
        };
        Report::new(stop, course.attempts, course.accepts, self.seen, course.shadow, config)
    }
}

impl Course {
    #[inline]
    const fn new(config: &Config) -> Self {
        Self {
            phase: Phase::New,
            begun: Instant::ORIGIN,
            latest: Instant::ORIGIN,
            asked: NOT_COUNTED,
            accepted: false,
            stake: PLAIN,
            wait: NEVER,
            stop: Stop::Abandoned,
            attempts: 0,
            most: config.max_attempts,
            accepts: 0,
            shadow: None,
        }
    }

    /// What few calls come to: a retry, or a question out of turn. `None` where an attempt is to start.
    #[inline(never)]
    fn go_on<W: Tally, S: Settings>(mut self, policy: &Policy<W, S>, now: Instant, rng: &mut impl Rng) -> Turn {
        if self.phase == Phase::InFlight {
            self.reply(policy, now, Reply::UNREACHABLE);
        }
        let mut seen = None;
        let mut action = match self.phase {
            Phase::Replied => self.decide(policy, now, rng, &mut seen),
            Phase::New | Phase::Reserved | Phase::Unreserved => None,
            Phase::InFlight | Phase::Over => Some(Action::End),
        };
        // A retry is due, after its wait or without one.
        if action.is_none() && self.phase != Phase::New && self.is_late(policy.config(), Duration::ZERO) {
            action = Some(self.end_early(policy, Stop::Deadline));
        }
        Turn { action, phase: self.phase, stop: self.stop, shadow: self.shadow, seen }
    }

    /// Steps 2 to 4: an attempt starts.
    #[inline(always)]
    fn attempt<W: Tally, S: Settings>(
        &mut self,
        policy: &Policy<W, S>,
        now: Instant,
        rng: &mut impl Rng,
        last: &mut Counts,
    ) -> Action {
        let (config, window) = (policy.config(), policy.window());
        if self.phase == Phase::New {
            (self.begun, self.latest) = (now, now);
        }
        let mode = policy.mode();
        (self.asked, self.stake) = (NOT_COUNTED, PLAIN);
        if mode != Mode::Off {
            let second = now.second();
            let (mut seen, asked) = window.attempt(second, self.phase == Phase::Reserved);
            // From here on it is in flight, also for a caller's generator that panics.
            (self.phase, self.asked) = (Phase::InFlight, asked);
            // The usual case, for which nothing else need be known: no draw would be rejected.
            let k = config.k.filter(|k| !throttle::never_rejects(seen.requests, seen.accepts, *k));
            if k.is_some() && config.grace > 0 {
                // This attempt is among them by now, and is not judged by itself.
                seen.in_flight = window.in_flight(second, config.grace).saturating_sub(1);
            }
            if self.shadow.is_none() {
                *last = seen;
            }
            if config.k.is_some() {
                let draw = rng.next_u64();
                let stake = match k {
                    Some(k) => throttle(policy, k, seen.judged(), seen.accepts, asked, draw),
                    None => Some(PLAIN),
                };
                self.stake = match stake {
                    Some(stake) => stake,
                    None if mode == Mode::Enforce => {
                        if config.grace > 0 {
                            window.refuse(asked);
                        }
                        return self.end(Stop::Throttled);
                    }
                    None => {
                        self.shadow = self.shadow.or(Some(Stop::Throttled));
                        PLAIN
                    }
                };
            }
        } else if self.phase == Phase::Reserved {
            window.release();
        }

        self.attempts = self.attempts.saturating_add(1);
        self.phase = Phase::InFlight;
        Action::Send
    }

    /// Keeps the latest time, where anything depends on it: a clock that steps back stands still there.
    #[inline]
    fn told(&mut self, config: &Config, now: Instant) {
        if config.deadline().is_some() || config.grace > 0 {
            self.latest = now.max(self.latest);
        }
    }

    /// Step 5: the answer came.
    #[inline(always)]
    fn reply<W: Tally, S: Settings>(&mut self, policy: &Policy<W, S>, now: Instant, reply: Reply) {
        if self.phase == Phase::InFlight {
            if self.asked != NOT_COUNTED {
                let (config, window) = (policy.config(), policy.window());
                let second = now.second();
                // Without a grace nobody asks what is in flight: an answer that is no accept tells the window the time,
                // and in the second of its request not even that.
                if reply.is_accepted() || config.grace > 0 || second > self.asked {
                    window.answer(self.asked, second, reply.is_accepted());
                }
                if config.recovery.is_some() {
                    window.pace(|word| ((), Recovery::answered(word, reply.is_accepted(), self.stake)));
                }
            }
            if reply.retry() != Retry::Never {
                self.told(policy.config(), now);
            }
            self.accepted = reply.is_accepted();
            self.accepts = self.accepts.saturating_add(u16::from(reply.is_accepted()));
            self.wait = match reply.retry() {
                Retry::Never => NEVER,
                Retry::Backoff => BACKOFF,
                Retry::After(wait) => micros(wait).min(BACKOFF - 1),
            };
            self.phase = Phase::Replied;
        }
    }

    /// Step 1, and how long to wait: a reply came, and says whether it may be retried.
    fn decide<W: Tally, S: Settings>(
        &mut self,
        policy: &Policy<W, S>,
        now: Instant,
        rng: &mut impl Rng,
        seen: &mut Option<Counts>,
    ) -> Option<Action> {
        let (config, window, mode) = (policy.config(), policy.window(), policy.mode());
        if self.is_final() {
            return Some(self.end(self.settled()));
        }
        if self.attempts >= self.most {
            return Some(self.end(Stop::AttemptsSpent));
        }
        let told = self.wait != BACKOFF;
        if told && self.wait > config.max_retry_after {
            return Some(self.end(Stop::RetryAfter));
        }

        self.phase = Phase::Unreserved;
        if mode != Mode::Off {
            let second = now.second();
            if let Err(mut counts) = window.reserve(second, |retries, requests| allows_retry(config, retries, requests))
            {
                if config.k.is_some() && config.grace > 0 {
                    counts.in_flight = window.in_flight(second, config.grace);
                }
                *seen = self.shadow.is_none().then_some(counts);
                if mode == Mode::Enforce {
                    return Some(self.end(Stop::Budget));
                }
                self.shadow = self.shadow.or(Some(Stop::Budget));
                // Counted all the same, since it is sent all the same.
                let _ = window.reserve(second, |_, _| true);
            }
            self.phase = Phase::Reserved;
        }

        // The generator is the caller's, and may panic.
        let held = Held(self.phase == Phase::Reserved, window);
        let cap = config.backoff.map_or(0, |backoff| backoff.cap_micros(self.attempts));
        let wait = match (told, config.backoff) {
            (true, _) if config.retry_after_jitter => {
                self.wait.saturating_add(part(cap.max(self.wait / 2), rng.next_u64()))
            }
            (true, _) => self.wait,
            (false, Some(_)) => part(cap, rng.next_u64()),
            (false, None) => 0,
        };
        mem::forget(held);
        if !told && config.backoff.is_none() {
            return None;
        }
        let wait = duration(wait);
        if self.is_late(config, wait) {
            return Some(self.end_early(policy, Stop::Deadline));
        }
        Some(Action::Wait(wait))
    }

    /// What an attempt that starts now may take.
    #[inline]
    fn within(&self, config: &Config) -> Option<Duration> {
        let left = self.end_of_time(config).map(|end| end.saturating_since(self.latest));
        match (config.attempt_timeout(), left) {
            (Some(timeout), Some(left)) => Some(timeout.min(left)),
            (timeout, left) => timeout.or(left),
        }
    }

    /// Whether what would start after a `wait` would start past the deadline.
    fn is_late(&self, config: &Config, wait: Duration) -> bool {
        self.end_of_time(config).is_some_and(|end| self.latest.saturating_add(wait) > end)
    }

    /// When the deadline is.
    #[inline]
    fn end_of_time(&self, config: &Config) -> Option<Instant> {
        config.deadline().map(|deadline| self.begun.saturating_add(deadline))
    }

    #[inline]
    fn end(&mut self, stop: Stop) -> Action {
        self.phase = Phase::Over;
        self.stop = stop;
        Action::End
    }

    /// Ends the call, and gives back the reservation of a retry that will not start.
    fn end_early<W: Tally, S: Settings>(&mut self, policy: &Policy<W, S>, stop: Stop) -> Action {
        if self.phase == Phase::Reserved {
            policy.window().release();
        }
        self.end(stop)
    }

    #[inline]
    const fn is_final(&self) -> bool {
        self.wait == NEVER
    }

    /// What a reply that is never retried ends a call with.
    #[inline]
    const fn settled(&self) -> Stop {
        if self.accepted { Stop::Accepted } else { Stop::Final }
    }
}

/// Steps 2 and 4, where p may be above 0, with what is never throttled and what recovery sends all the same: `None` if the
/// attempt is refused, else what it costs the recovery.
#[inline(never)]
fn throttle<W: Tally, S: Settings>(
    policy: &Policy<W, S>,
    k: K,
    judged: u32,
    accepts: u32,
    asked: u64,
    draw: u64,
) -> Option<u8> {
    let config = policy.config();
    if judged < config.min_requests || !throttle::may_reject(judged, accepts, k) {
        return Some(PLAIN);
    }
    let refused = throttle::rejects(judged, accepts, k, draw);
    match config.recovery {
        Some(recovery) => policy.window().pace(|word| recovery.attempt(word, asked, draw, refused)),
        None if refused => None,
        None => Some(PLAIN),
    }
}

/// Step 1, with the floor of retries that are always allowed.
fn allows_retry(config: &Config, retries: u32, requests: u32) -> bool {
    retries < config.retry_floor
        || config.retry_ratio.is_none_or(|ratio| budget::allows_retry(retries, requests, ratio))
}
