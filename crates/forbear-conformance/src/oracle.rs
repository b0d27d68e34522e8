//! The specification once more, as plainly as it can be written: a map of seconds, doubles, and no care for cost.
//!
//! [`Overload`] and [`Retrying`] are the two specifications, each as the one loop that it is. [`Call`] is the machine that
//! joins them, with every extension, in steps: so that calls can overlap, and end at any point. All are held against the
//! vectors as any client is.

use core::time::Duration;
use std::collections::BTreeMap;

use forbear::rand_core::Rng;
use forbear::{Clock, Config, Counts, Instant, Mode, Recovery, Reply, Retry, Sleep, Stop};

use crate::subject::{Client, Ended, Observed, Outcome, SharedClock, SharedScript, Subject};

/// A draw of the specification: the upper 53 bits.
fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 * 2f64.powi(-53)
}

/// Step 2 of the first specification.
pub fn reject_probability(requests: u32, accepts: u32, k: f64) -> f64 {
    ((f64::from(requests) - k * f64::from(accepts)) / (f64::from(requests) + 1.0)).max(0.0)
}

/// Step 4 of the first specification.
pub fn rejects(requests: u32, accepts: u32, k: f64, draw: u64) -> bool {
    unit(draw) < reject_probability(requests, accepts, k)
}

/// Step 1 of the first specification.
pub fn allows_retry(retries: u32, requests: u32, ratio: f64) -> bool {
    f64::from(retries) < ratio * f64::from(requests)
}

/// What a memory counts: its length, and where its counters end.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many seconds it holds.
    pub length: u64,
    /// The most that a second counts of anything.
    pub most: u64,
    /// The most attempts without an answer that a second tells apart.
    pub most_open: u64,
    /// The last second that it tells apart.
    pub last: u64,
}

impl Limits {
    /// Those of a plain window with `u32` counters.
    pub const fn plain(length: u64) -> Self {
        Self { length, most: u32::MAX as u64, most_open: u16::MAX as u64, last: u64::MAX }
    }

    /// Those of a plain window with `u16` counters.
    pub const fn compact(length: u64) -> Self {
        Self { most: u16::MAX as u64, ..Self::plain(length) }
    }

    /// Those of the lock-free window.
    pub const fn atomic(length: u64) -> Self {
        Self { length, most: (1 << 28) - 1, most_open: (1 << 28) - 1, last: (1 << 35) - 1 }
    }
}

/// What happened in one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    requests: u64,
    accepts: u64,
    retries: u64,
    open: u64,
}

/// A window as a map of seconds. The same operations as [`forbear::Tally`].
#[derive(Clone, Debug)]
pub struct Window {
    limits: Limits,
    newest: u64,
    seconds: BTreeMap<u64, Second>,
    waiting: u32,
}

impl Window {
    /// An empty window.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, newest: 0, seconds: BTreeMap::new(), waiting: 0 }
    }

    /// A clock that steps back stands still.
    fn advance(&mut self, second: u64) -> u64 {
        self.newest = self.newest.max(second.min(self.limits.last));
        let Self { limits, newest, .. } = *self;
        self.seconds.retain(|second, _| newest - second < limits.length);
        newest
    }

    fn at(&mut self, second: u64) -> &mut Second {
        self.seconds.entry(second).or_default()
    }

    fn close(&mut self, asked: u64) {
        if let Some(second) = self.seconds.get_mut(&asked) {
            second.open = second.open.saturating_sub(1);
        }
    }

    /// [`forbear::Tally::counts`].
    pub fn counts(&mut self, second: u64) -> Counts {
        self.advance(second);
        let sum =
            |of: fn(&Second) -> u64| u32::try_from(self.seconds.values().map(of).sum::<u64>()).unwrap_or(u32::MAX);
        Counts {
            requests: sum(|second| second.requests),
            accepts: sum(|second| second.accepts),
            retries: sum(|second| second.retries),
            waiting: self.waiting,
            in_flight: 0,
        }
    }

    /// [`forbear::Tally::in_flight`].
    pub fn in_flight(&mut self, second: u64, grace: u8) -> u32 {
        let newest = self.advance(second);
        let young = self.seconds.range(newest.saturating_sub(u64::from(grace))..);
        u32::try_from(young.map(|(_, second)| second.open).sum::<u64>()).unwrap_or(u32::MAX)
    }

    /// [`forbear::Tally::request`].
    pub fn request(&mut self, second: u64) -> u64 {
        let newest = self.advance(second);
        let Limits { most, most_open, .. } = self.limits;
        let at = self.at(newest);
        at.requests = (at.requests + 1).min(most);
        at.open = (at.open + 1).min(most_open);
        newest
    }

    /// [`forbear::Tally::attempt`].
    pub fn attempt(&mut self, second: u64, reserved: bool) -> (Counts, u64) {
        let counts = self.counts(second);
        (counts, if reserved { self.retry(second) } else { self.request(second) })
    }

    /// [`forbear::Tally::refuse`].
    pub fn refuse(&mut self, asked: u64) {
        self.close(asked);
    }

    /// [`forbear::Tally::answer`].
    pub fn answer(&mut self, asked: u64, second: u64, accepted: bool) {
        let newest = self.advance(second);
        let most = self.limits.most;
        if accepted {
            let at = self.at(newest);
            at.accepts = (at.accepts + 1).min(most);
        }
        self.close(asked);
    }

    /// [`forbear::Tally::withdraw`]. A counter at its end stays there.
    pub fn withdraw(&mut self, asked: u64) {
        let most = self.limits.most;
        if let Some(second) = self.seconds.get_mut(&asked)
            && second.requests < most
        {
            second.requests = second.requests.saturating_sub(1);
        }
        self.close(asked);
    }

    /// [`forbear::Tally::reserve`].
    ///
    /// # Errors
    ///
    /// The counts that were not allowed.
    pub fn reserve(&mut self, second: u64, allowed: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
        let counts = self.counts(second);
        if allowed(counts.retries.saturating_add(counts.waiting), counts.requests) {
            self.waiting = self.waiting.saturating_add(1);
            Ok(())
        } else {
            Err(counts)
        }
    }

    /// [`forbear::Tally::retry`].
    pub fn retry(&mut self, second: u64) -> u64 {
        let newest = self.request(second);
        let most = self.limits.most;
        let at = self.at(newest);
        at.retries = (at.retries + 1).min(most);
        self.release();
        newest
    }

    /// [`forbear::Tally::release`].
    pub fn release(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }
}

/// The first specification.
#[derive(Debug)]
pub struct Overload {
    config: Config,
    window: Window,
    clock: SharedClock,
    rng: SharedScript,
}

impl Subject for Overload {
    const NAME: &'static str = "the plain first specification";

    fn client<const N: usize>(config: Config, clock: SharedClock, rng: SharedScript) -> Box<dyn Client> {
        Box::new(Self { config, window: Window::new(Limits::plain(N as u64)), clock, rng })
    }
}

impl Client for Overload {
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended {
        let (k, ratio) = (self.config.k().unwrap_or(0.0), self.config.retry_ratio().unwrap_or(f64::MAX));
        let ended = |outcome, attempts| Ended { outcome, attempts: Some(attempts) };
        for attempt in 0..self.config.max_attempts() {
            let second = self.clock.now().second();
            let Counts { requests, accepts, retries, .. } = self.window.counts(second);
            if attempt > 0 && !allows_retry(retries, requests, ratio) {
                return ended(Outcome::Budget, attempt);
            }
            let p = reject_probability(requests, accepts, k);
            let asked = if attempt > 0 { self.window.retry(second) } else { self.window.request(second) };
            if unit(self.rng.next_u64()) < p {
                return ended(Outcome::Throttled, attempt);
            }
            let accepted = send().is_accepted();
            self.window.answer(asked, self.clock.now().second(), accepted);
            if accepted {
                return ended(Outcome::Ok, attempt + 1);
            }
        }
        ended(Outcome::Failed, self.config.max_attempts())
    }

    fn observed(&self) -> Observed {
        let counts = self.window.clone().counts(self.clock.now().second());
        observed(&self.config, counts)
    }
}

fn observed(config: &Config, counts: Counts) -> Observed {
    let Counts { requests, accepts, retries, .. } = counts;
    let enough = counts.judged() >= config.min_requests();
    let p = config.k().filter(|_| enough).map_or(0.0, |k| reject_probability(counts.judged(), accepts, k));
    Observed { requests, accepts, retries, reject_probability: p }
}

/// The second specification.
#[derive(Debug)]
pub struct Retrying {
    config: Config,
    clock: SharedClock,
    rng: SharedScript,
}

impl Subject for Retrying {
    const NAME: &'static str = "the plain second specification";

    fn client<const N: usize>(config: Config, clock: SharedClock, rng: SharedScript) -> Box<dyn Client> {
        Box::new(Self { config, clock, rng })
    }
}

impl Client for Retrying {
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended {
        let backoff = self.config.backoff().unwrap_or_default();
        let (base, max) = (backoff.base().as_secs_f64(), backoff.max().as_secs_f64());
        for sends in 1.. {
            let reply = send();
            let outcome = if reply.is_accepted() { Outcome::Ok } else { Outcome::Failed };
            if reply.retry() == Retry::Never || sends == self.config.max_attempts() {
                return Ended { outcome, attempts: Some(sends) };
            }
            let delay = match reply.retry() {
                Retry::After(told) => told_wait(told),
                _ => Duration::from_secs_f64(unit(self.rng.next_u64()) * max.min(base * 2f64.powi(sends as i32 - 1))),
            };
            self.clock.sleep(delay);
        }
        unreachable!("a call has an end")
    }

    fn observed(&self) -> Observed {
        Observed::default()
    }
}

/// A wait that a server asked for, in whole microseconds, rounded up: all but the last two of those that a `u64` holds.
pub fn told_wait(told: Duration) -> Duration {
    let micros = told.as_nanos().div_ceil(1_000).min(u128::from(u64::MAX - 2));
    Duration::from_micros(micros as u64)
}

/// What recovery goes by: when the last send was, what was refused here since, the jitter of the wait, and how often it
/// is halved.
#[derive(Clone, Copy, Debug)]
struct Pace {
    sent: u64,
    refused: u64,
    jitter: u64,
    level: u32,
}

impl Pace {
    /// A fresh client trusts its backend.
    const fn new() -> Self {
        Self { sent: 0, refused: 0, jitter: 0, level: 16 }
    }

    /// An accepted send halves the wait, one that is not makes it eight times as long. What that takes from the level is
    /// taken from an extra send when it is sent, and given back if it is accepted.
    fn answered(&mut self, accepted: bool, staked: Option<u32>) {
        self.level = match (accepted, staked) {
            (true, staked) => (self.level + 1 + staked.unwrap_or(0)).min(16),
            (false, None) => self.level.saturating_sub(3),
            (false, Some(_)) => self.level,
        };
    }

    /// Whether an attempt is sent that the formula refuses or not, and what is staked on it if it is an extra one.
    fn sends(&mut self, recovery: Recovery, second: u64, draw: u64, refused: bool) -> (bool, Option<u32>) {
        let wait = |whole: u16| {
            let spread = 0.75 + self.jitter as f64 / 64.0;
            (f64::from(whole) * spread / 2f64.powi(self.level as i32)).floor() as u64
        };
        let due = second.saturating_sub(self.sent) >= wait(recovery.seconds())
            && self.refused + 1 >= wait(recovery.attempts());
        if refused && !due {
            self.refused = (self.refused + 1).min((1 << 19) - 1);
            return (false, None);
        }
        let staked = refused.then_some(self.level.min(3));
        let level = self.level - staked.unwrap_or(0);
        *self = Self { sent: self.sent.max(second), refused: 0, jitter: draw >> 11 & 31, level };
        (true, staked)
    }
}

/// What all calls of one client share.
#[derive(Clone, Debug)]
pub struct World {
    /// The configuration.
    pub config: Config,
    /// What is done with decisions now.
    pub mode: Mode,
    /// The memory.
    pub window: Window,
    pace: Pace,
}

impl World {
    /// A world in which nothing happened.
    pub const fn new(config: Config, limits: Limits) -> Self {
        Self { config, mode: config.mode(), window: Window::new(limits), pace: Pace::new() }
    }

    fn grace(&self) -> u8 {
        self.config.in_flight_grace().map_or(0, |grace| grace.as_secs() as u8)
    }

    /// The counts now, as a policy tells them.
    pub fn counts(&mut self, now: Instant) -> Counts {
        let counts = self.window.counts(now.second());
        let in_flight = if self.grace() > 0 { self.window.in_flight(now.second(), self.grace()) } else { 0 };
        Counts { in_flight, ..counts }
    }

    /// The probability that an attempt with these counts is refused.
    pub fn reject_probability(&self, counts: Counts) -> f64 {
        observed(&self.config, counts).reject_probability
    }
}

/// Step 1 with the floor below it.
fn budget(config: Config) -> impl Fn(u32, u32) -> bool {
    move |retries, requests| {
        let Some(ratio) = config.retry_ratio() else { return true };
        retries < config.retry_floor() || allows_retry(retries, requests, ratio)
    }
}

/// What a call does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Sends.
    Send {
        /// What the attempt may take.
        within: Option<Duration>,
    },
    /// Waits.
    Wait(Duration),
    /// Has ended.
    Done(Verdict),
}

/// How a call ended: the fields of [`forbear::Report`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "forbear::Report explains the fields")]
pub struct Verdict {
    pub stop: Stop,
    pub attempts: u32,
    pub accepts: u32,
    pub counts: Counts,
    pub shadow: Option<Stop>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Fresh,
    Waiting { reserved: bool },
    Sent { asked: Option<u64>, staked: Option<u32> },
    Answered(Reply),
    Ended(Stop),
}

/// One call of the machine that joins both specifications.
#[derive(Debug)]
pub struct Call {
    state: State,
    begun: Instant,
    /// A clock that steps back stands still at the latest time it told.
    latest: Instant,
    attempts: u32,
    accepts: u32,
    most: Option<u32>,
    counts: Counts,
    shadow: Option<Stop>,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            state: State::Fresh,
            begun: Instant::ORIGIN,
            latest: Instant::ORIGIN,
            attempts: 0,
            accepts: 0,
            most: None,
            counts: Counts::ZERO,
            shadow: None,
        }
    }
}

impl Call {
    /// A call that is sent once at the most.
    pub fn once() -> Self {
        Self { most: Some(1), ..Self::default() }
    }

    /// What to do now.
    pub fn next(&mut self, world: &mut World, now: Instant, rng: &mut impl Rng) -> Step {
        self.latest = self.latest.max(now);
        if let State::Sent { .. } = self.state {
            self.reply(world, now, Reply::UNREACHABLE);
        }
        match self.state {
            State::Fresh => {
                self.begun = now;
                self.start(world, now, None, rng)
            }
            State::Waiting { reserved } => self.start(world, now, Some(reserved), rng),
            State::Answered(reply) => self.consider(world, now, reply, rng),
            State::Sent { .. } => unreachable!("answered above"),
            State::Ended(stop) => self.end(stop),
        }
    }

    /// Takes what came back from the attempt in flight.
    pub fn reply(&mut self, world: &mut World, now: Instant, reply: Reply) {
        if let State::Sent { asked, staked } = self.state {
            self.latest = self.latest.max(now);
            if let Some(asked) = asked {
                world.window.answer(asked, now.second(), reply.is_accepted());
                world.pace.answered(reply.is_accepted(), staked);
            }
            self.accepts += u32::from(reply.is_accepted());
            self.state = State::Answered(reply);
        }
    }

    /// Drops the call, at a time that may not be known.
    pub fn dropped(self, world: &mut World, now: Option<Instant>) {
        match self.state {
            State::Waiting { reserved: true } => world.window.release(),
            State::Sent { asked: Some(asked), staked } => {
                let sent = self.latest;
                let grace = world.config.in_flight_grace();
                if grace.is_some_and(|grace| now.is_some_and(|now| now.saturating_since(sent) < grace)) {
                    world.window.withdraw(asked);
                } else {
                    world.pace.answered(false, staked);
                }
            }
            _ => {}
        }
    }

    /// Whether a retry of this call waits to be started, and is counted as such.
    pub const fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { reserved: true })
    }

    /// Whether an attempt of this call has no answer yet.
    pub const fn is_in_flight(&self) -> bool {
        matches!(self.state, State::Sent { .. })
    }

    fn end(&mut self, stop: Stop) -> Step {
        self.state = State::Ended(stop);
        let Self { attempts, accepts, counts, shadow, .. } = *self;
        Step::Done(Verdict { stop, attempts, accepts, counts, shadow })
    }

    /// When the deadline is.
    fn deadline(&self, world: &World) -> Option<Instant> {
        world.config.deadline().map(|deadline| self.begun.saturating_add(deadline))
    }

    /// Steps 2 to 4.
    fn start(&mut self, world: &mut World, now: Instant, retry: Option<bool>, rng: &mut impl Rng) -> Step {
        let reserved = retry == Some(true);
        let deadline = self.deadline(world);
        if retry.is_some() && deadline.is_some_and(|deadline| self.latest > deadline) {
            if reserved {
                world.window.release();
            }
            return self.end(Stop::Deadline);
        }

        let (mut asked, mut staked) = (None, None);
        if world.mode == Mode::Off {
            if reserved {
                world.window.release();
            }
        } else {
            let second = now.second();
            let mut counts = world.window.counts(second);
            let k = world.config.k();
            let p = |requests, accepts| k.map_or(0.0, |k| reject_probability(requests, accepts, k));
            if world.grace() > 0 && p(counts.requests, counts.accepts) > 0.0 {
                counts.in_flight = world.window.in_flight(second, world.grace());
            }
            // What shadow mode passes over first is what it reports.
            if self.shadow.is_none() {
                self.counts = counts;
            }
            let counted = if reserved { world.window.retry(second) } else { world.window.request(second) };
            asked = Some(counted);
            if k.is_some() {
                let judged = counts.requests.saturating_sub(counts.in_flight);
                let p = if judged < world.config.min_requests() { 0.0 } else { p(judged, counts.accepts) };
                let draw = rng.next_u64();
                let mut refused = unit(draw) < p;
                if p > 0.0
                    && let Some(recovery) = world.config.recovery()
                {
                    let sends;
                    (sends, staked) = world.pace.sends(recovery, counted, draw, refused);
                    refused = !sends;
                }
                if refused {
                    if world.mode == Mode::Enforce {
                        world.window.refuse(counted);
                        return self.end(Stop::Throttled);
                    }
                    self.shadow = self.shadow.or(Some(Stop::Throttled));
                }
            }
        }

        self.attempts += 1;
        self.state = State::Sent { asked, staked };
        let left = deadline.map(|deadline| deadline.saturating_since(self.latest));
        Step::Send { within: world.config.attempt_timeout().into_iter().chain(left).min() }
    }

    /// Step 1, and the wait.
    fn consider(&mut self, world: &mut World, now: Instant, reply: Reply, rng: &mut impl Rng) -> Step {
        if reply.retry() == Retry::Never {
            return self.end(if reply.is_accepted() { Stop::Accepted } else { Stop::Final });
        }
        if self.attempts >= self.most.unwrap_or(world.config.max_attempts()) {
            return self.end(Stop::AttemptsSpent);
        }
        if let (Retry::After(told), Some(longest)) = (reply.retry(), world.config.max_retry_after())
            && told > longest
        {
            return self.end(Stop::RetryAfter);
        }

        let reserved = world.mode != Mode::Off;
        if reserved && let Err(mut counts) = world.window.reserve(now.second(), budget(world.config)) {
            let p = world.config.k().map_or(0.0, |k| reject_probability(counts.requests, counts.accepts, k));
            if world.grace() > 0 && p > 0.0 {
                counts.in_flight = world.window.in_flight(now.second(), world.grace());
            }
            if self.shadow.is_none() {
                self.counts = counts;
            }
            if world.mode == Mode::Enforce {
                return self.end(Stop::Budget);
            }
            self.shadow = self.shadow.or(Some(Stop::Budget));
            let _ = world.window.reserve(now.second(), |_, _| true);
        }
        self.state = State::Waiting { reserved };

        let cap = world.config.backoff().map(|backoff| {
            let doubled = 1u128.checked_shl(self.attempts - 1).unwrap_or(u128::MAX);
            backoff.base().as_micros().saturating_mul(doubled).min(backoff.max().as_micros())
        });
        // uniform(0, most) in whole microseconds, rounded up.
        let mut uniform = |most: u128| {
            let micros = (most * u128::from(rng.next_u64() >> 11)).div_ceil(1 << 53);
            Duration::from_micros(micros as u64)
        };
        let wait = match (reply.retry(), cap) {
            (Retry::After(told), cap) if world.config.retry_after_jitter() => {
                let told = told_wait(told);
                told.saturating_add(uniform((told.as_micros() / 2).max(cap.unwrap_or(0))))
                    .min(Duration::from_micros(u64::MAX))
            }
            (Retry::After(told), _) => told_wait(told),
            (_, Some(cap)) => uniform(cap),
            (_, None) => return self.start(world, now, Some(reserved), rng),
        };
        if self.deadline(world).is_some_and(|deadline| self.latest.saturating_add(wait) > deadline) {
            if reserved {
                world.window.release();
            }
            return self.end(Stop::Deadline);
        }
        Step::Wait(wait)
    }
}

/// The machine in the loop that every adapter is.
#[derive(Debug)]
pub struct Machine {
    world: World,
    clock: SharedClock,
    rng: SharedScript,
}

impl Subject for Machine {
    const NAME: &'static str = "the plain machine";

    fn client<const N: usize>(config: Config, clock: SharedClock, rng: SharedScript) -> Box<dyn Client> {
        Box::new(Self { world: World::new(config, Limits::plain(N as u64)), clock, rng })
    }
}

impl Client for Machine {
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended {
        let mut call = Call::default();
        loop {
            match call.next(&mut self.world, self.clock.now(), &mut self.rng) {
                Step::Send { .. } => {
                    let reply = send();
                    call.reply(&mut self.world, self.clock.now(), reply);
                }
                Step::Wait(delay) => self.clock.sleep(delay),
                Step::Done(verdict) => {
                    return Ended { outcome: verdict.stop.into(), attempts: Some(verdict.attempts) };
                }
            }
        }
    }

    fn observed(&self) -> Observed {
        let counts = self.world.clone().counts(self.clock.now());
        observed(&self.world.config, counts)
    }
}
