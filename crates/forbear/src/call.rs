//! One call: the machine under every client, and the only place where the specification's steps stand in their order.

use core::time::Duration;

use rand_core::Rng;

use crate::backoff::{micros, part};
use crate::budget;
use crate::clock::Instant;
use crate::config::{Config, Mode};
use crate::counts::{Counts, Tally};
use crate::policy::Policy;
use crate::reply::{Reply, Retry};
use crate::report::{Report, Stop};
use crate::throttle;

/// What a call holds on to for as long as it lasts: the policy, and the time when nobody is there to tell it.
///
/// A policy is one, by reference; an adapter's own handle knows its clock as well.
pub trait Handle {
    /// The memory of the policy.
    type Tally: Tally;

    /// The policy of this call.
    fn policy(&self) -> &Policy<Self::Tally>;

    /// The time now, asked only when a call is dropped with an attempt in flight and a
    /// [grace](crate::ConfigBuilder::in_flight_grace) is configured.
    ///
    /// `None`, as for a plain policy, leaves that attempt counted: its age is not known.
    fn now(&self) -> Option<Instant> {
        None
    }
}

impl<W: Tally> Handle for Policy<W> {
    type Tally = W;

    fn policy(&self) -> &Self {
        self
    }
}

impl<H: Handle + ?Sized> Handle for &H {
    type Tally = H::Tally;

    fn policy(&self) -> &Policy<H::Tally> {
        (**self).policy()
    }

    fn now(&self) -> Option<Instant> {
        (**self).now()
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

#[derive(Clone, Copy, Debug)]
enum State {
    /// The next step is an attempt; if it is a retry, whether the budget holds a reservation for it.
    Due { retry: Option<Reservation> },
    /// Sent at `since`, and counted in the second `asked` if it is counted.
    InFlight { asked: Option<u64>, since: Instant },
    /// Answered.
    Replied(Reply),
    /// Ended.
    Over(Stop),
}

/// Whether a retry is among the `waiting` of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reservation {
    Made,
    /// Decided while the mode was off.
    None,
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
#[derive(Debug)]
#[must_use = "a call does nothing until it is asked for its next step"]
pub struct Call<H: Handle> {
    handle: H,
    state: State,
    /// When the first attempt was asked for.
    begun: Instant,
    attempts: u32,
    most: u32,
    /// The counts that the last decision saw.
    seen: Counts,
    /// What would have ended the call, were it not for shadow mode.
    shadow: Option<Stop>,
}

impl<H: Handle> Call<H> {
    /// A call that has not begun.
    pub fn new(handle: H) -> Self {
        let most = handle.policy().config().max_attempts;
        Self {
            handle,
            state: State::Due { retry: None },
            begun: Instant::ORIGIN,
            attempts: 0,
            most,
            seen: Counts::ZERO,
            shadow: None,
        }
    }

    /// The same call, but never sent twice, whatever comes back: for what must not be repeated.
    pub fn once(mut self) -> Self {
        self.most = 1;
        self
    }

    /// The handle that the call was made with.
    pub const fn handle(&self) -> &H {
        &self.handle
    }

    /// How often the call was sent so far.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What to do now.
    ///
    /// Asked with an attempt in flight, it takes that for one that got no answer. Asked after the end, it answers the
    /// same report again.
    // Inlined into the one or two loops of an adapter, where a healthy call costs half as much.
    #[inline(always)]
    pub fn next(&mut self, now: Instant, rng: &mut impl Rng) -> Step {
        // Made here, in the caller's code, so that a report which nobody looks at is never made.
        match self.advance(now, rng) {
            Action::Send => Step::Send { within: self.within(now) },
            Action::Wait(delay) => Step::Wait(delay),
            Action::End => Step::Done(self.report()),
        }
    }

    #[inline(always)]
    fn advance(&mut self, now: Instant, rng: &mut impl Rng) -> Action {
        match self.state {
            State::Due { .. } => {}
            State::Replied(reply) if reply.retry() == Retry::Never => return self.end(settled(reply)),
            _ => {
                if let Some(action) = self.go_on(now, rng) {
                    return action;
                }
            }
        }
        self.attempt(now, rng)
    }

    /// What few calls come to: a reply that may be retried, or a question out of turn. `None` where an attempt is due.
    #[inline(never)]
    fn go_on(&mut self, now: Instant, rng: &mut impl Rng) -> Option<Action> {
        if let State::InFlight { .. } = self.state {
            self.reply(now, Reply::UNREACHABLE);
        }
        match self.state {
            State::Replied(reply) => self.decide(now, reply, rng),
            State::Due { .. } => None,
            State::InFlight { .. } | State::Over(_) => Some(Action::End),
        }
    }

    /// Tells what came back from the attempt in flight; without one it does nothing.
    #[inline]
    pub fn reply(&mut self, now: Instant, reply: Reply) {
        if let State::InFlight { asked, .. } = self.state {
            if let Some(asked) = asked {
                self.handle.policy().window().answer(asked, now.second(), reply.is_accepted());
            }
            self.state = State::Replied(reply);
        }
    }

    /// Ends the call here, whatever it would do next, and says how it stands. Its counts are settled as for one that is
    /// dropped.
    pub fn abandon(self) -> Report {
        self.report()
    }

    /// Steps 2 to 4: an attempt starts.
    #[inline(always)]
    fn attempt(&mut self, now: Instant, rng: &mut impl Rng) -> Action {
        let retry = match self.state {
            State::Due { retry } => retry,
            _ => None,
        };
        match retry {
            None => self.begun = now,
            Some(_) if self.end_of_time().is_some_and(|end| now > end) => return self.end(Stop::Deadline),
            Some(_) => {}
        }
        let policy = self.handle.policy();
        let (config, window, mode) = (policy.config(), policy.window(), policy.mode());

        let mut asked = None;
        if mode != Mode::Off {
            let second = now.second();
            let (mut seen, counted) = window.attempt(second, retry == Some(Reservation::Made));
            asked = Some(counted);
            self.state = State::InFlight { asked, since: now };
            // The usual case, for which nothing else need be known: no draw would be rejected.
            let k = config.k.filter(|k| !throttle::never_rejects(seen.requests, seen.accepts, *k));
            if k.is_some() && config.grace > 0 {
                // This attempt is among them by now, and is not judged by itself.
                seen.in_flight = window.in_flight(second, config.grace).saturating_sub(1);
            }
            self.seen = seen;
            if config.k.is_some() {
                let draw = rng.next_u64();
                let judged = seen.judged();
                if judged >= config.min_requests && k.is_some_and(|k| throttle::rejects(judged, seen.accepts, k, draw))
                {
                    if mode == Mode::Enforce {
                        if config.grace > 0 {
                            window.refuse(counted);
                        }
                        return self.end(Stop::Throttled);
                    }
                    self.shadow = self.shadow.or(Some(Stop::Throttled));
                }
            }
        } else if retry == Some(Reservation::Made) {
            window.release();
        }

        self.attempts = self.attempts.saturating_add(1);
        self.state = State::InFlight { asked, since: now };
        Action::Send
    }

    /// What an attempt that starts now may take.
    #[inline]
    fn within(&self, now: Instant) -> Option<Duration> {
        let left = self.end_of_time().map(|end| end.saturating_since(now));
        match (self.handle.policy().config().attempt_timeout(), left) {
            (Some(timeout), Some(left)) => Some(timeout.min(left)),
            (timeout, left) => timeout.or(left),
        }
    }

    /// When the deadline is.
    #[inline]
    fn end_of_time(&self) -> Option<Instant> {
        self.handle.policy().config().deadline().map(|deadline| self.begun.saturating_add(deadline))
    }

    /// Step 1, and how long to wait: a reply came, and says whether it may be retried.
    fn decide(&mut self, now: Instant, reply: Reply, rng: &mut impl Rng) -> Option<Action> {
        let policy = self.handle.policy();
        let (config, window, mode) = (policy.config(), policy.window(), policy.mode());
        let told = match reply.retry() {
            Retry::Never => return Some(self.end(settled(reply))),
            Retry::Backoff => None,
            Retry::After(wait) => Some(wait),
        };
        if self.attempts >= self.most {
            return Some(self.end(Stop::AttemptsSpent));
        }
        if told.is_some_and(|wait| config.max_retry_after().is_some_and(|longest| wait > longest)) {
            return Some(self.end(Stop::RetryAfter));
        }

        let mut reservation = Reservation::None;
        if mode != Mode::Off {
            let second = now.second();
            if let Err(counts) = window.reserve(second, |retries, requests| allows_retry(config, retries, requests)) {
                self.seen = counts;
                if mode == Mode::Enforce {
                    return Some(self.end(Stop::Budget));
                }
                self.shadow = self.shadow.or(Some(Stop::Budget));
                // Counted all the same, since it is sent all the same.
                let _ = window.reserve(second, |_, _| true);
            }
            reservation = Reservation::Made;
        }
        self.state = State::Due { retry: Some(reservation) };

        let wait = match (told, config.backoff) {
            (Some(wait), backoff) if config.retry_after_jitter => {
                let most = (micros(wait) / 2).max(backoff.map_or(0, |backoff| micros(backoff.cap(self.attempts))));
                wait.saturating_add(Duration::from_micros(part(most, rng.next_u64())))
            }
            (Some(wait), _) => wait,
            (None, Some(backoff)) => backoff.delay(self.attempts, rng.next_u64()),
            (None, None) => return None,
        };
        if self.end_of_time().is_some_and(|end| now.saturating_add(wait) > end) {
            return Some(self.end(Stop::Deadline));
        }
        Some(Action::Wait(wait))
    }

    /// Ends the call, and gives back the reservation of a retry that will not start.
    #[inline]
    fn end(&mut self, stop: Stop) -> Action {
        if let State::Due { retry: Some(Reservation::Made) } = self.state {
            self.handle.policy().window().release();
        }
        self.state = State::Over(stop);
        Action::End
    }

    /// How the call ended, or how it would if nobody asked it on.
    #[inline]
    fn report(&self) -> Report {
        let stop = match self.state {
            State::Over(stop) => stop,
            State::Replied(reply) if reply.retry() == Retry::Never => settled(reply),
            State::Due { .. } | State::InFlight { .. } | State::Replied(_) => Stop::Abandoned,
        };
        Report::new(stop, self.attempts, self.seen, self.shadow, self.handle.policy().config())
    }
}

/// What a reply that is never retried ends a call with.
const fn settled(reply: Reply) -> Stop {
    if reply.is_accepted() { Stop::Accepted } else { Stop::Final }
}

/// Step 1, with the floor of retries that are always allowed.
fn allows_retry(config: &Config, retries: u32, requests: u32) -> bool {
    retries < config.retry_floor
        || config.retry_ratio.is_none_or(|ratio| budget::allows_retry(retries, requests, ratio))
}

impl<H: Handle> Drop for Call<H> {
    #[inline]
    fn drop(&mut self) {
        let policy = self.handle.policy();
        match self.state {
            State::Due { retry: Some(Reservation::Made) } => policy.window().release(),
            State::InFlight { asked: Some(asked), since } => {
                let grace = policy.config().in_flight_grace();
                let young =
                    grace.is_some_and(|grace| self.handle.now().is_some_and(|now| now.saturating_since(since) < grace));
                if young {
                    policy.window().withdraw(asked);
                }
            }
            _ => {}
        }
    }
}
