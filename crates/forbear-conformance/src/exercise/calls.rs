//! Whole calls that overlap, are dropped at any point, and see the mode and the clock change under them.

use core::convert::Infallible;
use core::time::Duration;

use forbear::rand_core::TryRng;
use forbear::{
    AtomicWindow, Backoff, Call, Config, Counts, Handle, Instant, Mode, Policy, Recovery, Reply, Step, Tally, Window,
};

use super::Choices;
use crate::invariants;
use crate::oracle::{self, Limits, Verdict, World};

/// Calls over a plain and a lock-free window at once, beside the oracle's.
pub fn combined(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let config = any_config(&mut choices);
    match choices.below(8) {
        0 => run::<1>(config, choices),
        1 => run::<2>(config, choices),
        2..=5 => run::<10>(config, choices),
        _ => run::<120>(config, choices),
    }
}

/// A configuration of everything there is, in any combination that is accepted.
fn any_config(choices: &mut Choices<'_>) -> Config {
    let seconds = |seconds: &[f64], choices: &mut Choices<'_>| Duration::from_secs_f64(choices.of(seconds));
    let mut builder = choices.of(&[Config::overload(), Config::retrying(), Config::resilient()]).to_builder();
    builder = match choices.below(8) {
        0 => builder.no_throttle(),
        _ => builder.k(choices.factor(&[2.0, 2.0, 1.1, 1.0, 0.5, 0.0, 10.0])),
    };
    builder = match choices.below(8) {
        0 => builder.no_budget(),
        _ => builder.retry_ratio(choices.factor(&[0.1, 0.1, 0.35, 0.6, 1.0, 0.0, 10.0])),
    };
    builder = match choices.below(4) {
        0 => builder.no_backoff(),
        1 => builder.backoff(Backoff::new(Duration::from_micros(1), Duration::MAX)),
        2 => builder.backoff(Backoff::new(Duration::from_millis(500), Duration::from_millis(50))),
        _ => builder.backoff(Backoff::DEFAULT),
    };
    builder = match choices.below(3) {
        0 => builder.no_recovery(),
        1 => builder.recovery(Recovery::DEFAULT),
        _ => {
            let (seconds, attempts) = (u16::from(choices.byte()) + 1, u16::from(choices.byte()) + 1);
            builder.recovery(Recovery::new(seconds, attempts).expect("1 or more"))
        }
    };
    builder = builder.max_attempts(choices.of(&[1, 2, 3, 3, 5, 8, u32::MAX]));
    builder = builder.min_requests(choices.of(&[0, 0, 1, 3, 10, u32::MAX]));
    builder = builder.retry_floor(choices.of(&[0, 0, 0, 1, 3, u32::MAX]));
    builder = builder.retry_after_jitter(choices.below(2) == 1);
    builder = builder.mode(choices.of(&[Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Shadow, Mode::Off]));
    if choices.below(2) == 1 {
        builder = builder.deadline(seconds(&[0.000_001, 0.1, 1.0, 5.0, 100.0], choices));
    }
    if choices.below(2) == 1 {
        builder = builder.max_retry_after(seconds(&[0.0, 0.5, 1.0, 30.0], choices));
    }
    builder = match choices.below(2) {
        1 => builder.in_flight_grace(seconds(&[0.5, 1.0, 2.0, 7.0], choices)),
        _ => builder.no_in_flight_grace(),
    };
    if choices.below(2) == 1
        && let Ok(config) = builder.attempt_timeout(seconds(&[0.25, 1.0, 3.0, 10.0], choices)).build()
    {
        return config;
    }
    builder.build().expect("all of these are allowed")
}

/// Any reply.
pub(super) fn reply(choices: &mut Choices<'_>) -> Reply {
    let kind = choices.of(&[
        Reply::ACCEPTED,
        Reply::OVERLOADED,
        Reply::OVERLOADED,
        Reply::TRANSIENT,
        Reply::UNREACHABLE,
        Reply::PERMANENT,
        Reply::OVERLOADED.once(),
    ]);
    match choices.below(8) {
        0 => kind.after(Duration::ZERO),
        1 => kind.after(Duration::from_millis(u64::from(choices.byte()) * 10)),
        2 => kind.after(choices.of(&[Duration::from_secs(30), Duration::MAX, Duration::from_nanos(1_500)])),
        _ => kind,
    }
}

/// A generator that gives one number and counts.
pub(super) struct Script {
    number: u64,
    drawn: usize,
}

impl Script {
    pub(super) const fn new(number: u64) -> Self {
        Self { number, drawn: 0 }
    }

    pub(super) const fn drawn(&self) -> usize {
        self.drawn
    }
}

impl TryRng for Script {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|number| (number >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.drawn += 1;
        Ok(self.number)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.drawn += 1;
        bytes.fill(0);
        Ok(())
    }
}

/// A policy and the time at which a call of it may be dropped.
struct Client<W> {
    policy: Policy<W>,
    now: core::cell::Cell<Option<Instant>>,
}

impl<W: Tally> Handle for Client<W> {
    type Tally = W;
    type Settings = forbear::Config;

    fn policy(&self) -> &Policy<W> {
        &self.policy
    }

    fn now(&self) -> Option<Instant> {
        self.now.get()
    }
}

impl<W: Tally> Client<W> {
    fn new(config: Config, window: W) -> Self {
        Self { policy: Policy::new(config, window), now: None.into() }
    }
}

/// The same call three times over.
struct Triple<'c, const N: usize> {
    plain: Call<&'c Client<Window<N>>>,
    atomic: Call<&'c Client<AtomicWindow<N>>>,
    oracle: oracle::Call,
    begun: Option<Instant>,
    last: Option<Reply>,
    sent: u32,
    most: u32,
}

fn run<const N: usize>(config: Config, mut choices: Choices<'_>) {
    let plain = Client::new(config, Window::<N>::of_len());
    let atomic = Client::new(config, AtomicWindow::<N>::of_len());
    let mut world = World::new(config, Limits::plain(N as u64));
    let mut calls: Vec<Triple<'_, N>> = Vec::new();
    let mut now = Instant::from_millis(u64::from(choices.byte()) * 100);
    while !choices.is_over() {
        match choices.below(16) {
            0..=1 if calls.len() < 32 => {
                let once = choices.below(8) == 0;
                let (plain, atomic) = (Call::new(&plain), Call::new(&atomic));
                let (plain, atomic) = if once { (plain.once(), atomic.once()) } else { (plain, atomic) };
                calls.push(Triple {
                    plain,
                    atomic,
                    oracle: if once { oracle::Call::once() } else { oracle::Call::default() },
                    begun: None,
                    last: None,
                    sent: 0,
                    most: if once { 1 } else { config.max_attempts() },
                });
            }
            2..=6 if !calls.is_empty() => {
                let at = choices.below(calls.len());
                if calls[at].step(&mut world, now, &mut choices) {
                    calls.swap_remove(at);
                }
            }
            7..=10 if !calls.is_empty() => {
                let at = choices.below(calls.len());
                let reply = reply(&mut choices);
                calls[at].reply(&mut world, now, reply);
            }
            11 if !calls.is_empty() => {
                let call = calls.swap_remove(choices.below(calls.len()));
                let told = Some(now).filter(|_| choices.below(4) > 0);
                plain.now.set(told);
                atomic.now.set(told);
                call.oracle.dropped(&mut world, told);
                if choices.below(4) == 0 {
                    assert_eq!(call.plain.abandon(), call.atomic.abandon());
                }
            }
            12 => {
                world.mode = choices.of(&[Mode::Enforce, Mode::Enforce, Mode::Shadow, Mode::Off]);
                plain.policy.set_mode(world.mode);
                atomic.policy.set_mode(world.mode);
            }
            13..=14 => now = moved(&mut choices, now, N as u64),
            _ => {
                let counts = world.counts(now);
                assert_eq!(plain.policy.counts(now), counts, "plain counts");
                assert_eq!(atomic.policy.counts(now), counts, "lock-free counts");
                let p = world.reject_probability(counts);
                assert_eq!(plain.policy.reject_probability(now), p);
                invariants::waiting_is_what_waits(counts, calls.iter().filter(|call| call.oracle.is_waiting()).count());
                invariants::counts_are_sound(counts);
            }
        }
    }
    plain.now.set(Some(now));
    atomic.now.set(Some(now));
    for call in calls {
        call.oracle.dropped(&mut world, Some(now));
    }
    let counts = world.counts(now);
    assert_eq!(plain.policy.counts(now), counts, "plain counts at the end");
    assert_eq!(atomic.policy.counts(now), counts, "lock-free counts at the end");
    invariants::waiting_is_what_waits(counts, 0);
}

impl<const N: usize> Triple<'_, N> {
    /// The next step of all three; whether the call is over.
    fn step(&mut self, world: &mut World, now: Instant, choices: &mut Choices<'_>) -> bool {
        let begun = *self.begun.get_or_insert(now);
        if self.oracle.is_in_flight() {
            self.last = Some(Reply::UNREACHABLE);
        }
        // To look moves the window on, so all three look, or none.
        let p = if choices.below(2) == 1 { self.look(world, now) } else { 0.5 };
        let draw = choices.draw(p);
        let [mut first, mut second, mut third] = [0; 3].map(|_| Script::new(draw));
        let step = self.plain.next(now, &mut first);
        assert_eq!(self.atomic.next(now, &mut second), step, "the windows differ");
        let expected = self.oracle.next(world, now, &mut third);
        let is = match step {
            Step::Send { within } => oracle::Step::Send { within },
            Step::Wait(wait) => oracle::Step::Wait(wait),
            Step::Done(report) => oracle::Step::Done(Verdict {
                stop: report.stop,
                attempts: report.attempts,
                accepts: report.accepts.into(),
                counts: report.counts,
                shadow: report.shadow,
            }),
        };
        let is = unasked_in_flight(is, world);
        assert_eq!(is, expected, "the step of a call under {:?}", world.config);
        assert_eq!([first.drawn(), second.drawn()], [third.drawn(); 2], "draws of {step:?}");
        let limits = world.config.to_builder().max_attempts(self.most).build().expect("one or more attempts");
        invariants::step_is_within_limits(&limits, begun, now, self.last, self.sent, &step);
        invariants::draws_are_counted(&limits, world.mode, self.last, &step, first.drawn());
        match step {
            Step::Send { .. } => self.sent += 1,
            Step::Wait(_) => {}
            Step::Done(report) => {
                assert!(!report.to_string().is_empty());
                assert_eq!(self.plain.next(now, &mut first), step, "asked again after the end");
                return true;
            }
        }
        false
    }

    /// The reject probability now, after a comparison of all counts.
    fn look(&self, world: &mut World, now: Instant) -> f64 {
        let counts = world.counts(now);
        invariants::counts_are_sound(counts);
        assert_eq!(self.plain.handle().policy.counts(now), counts, "plain counts");
        assert_eq!(self.atomic.handle().policy.counts(now), counts, "lock-free counts");
        let p = world.reject_probability(counts);
        assert_eq!(self.plain.handle().policy.reject_probability(now), p);
        p
    }

    fn reply(&mut self, world: &mut World, now: Instant, reply: Reply) {
        if self.oracle.is_in_flight() {
            self.last = Some(reply);
        }
        self.plain.reply(now, reply);
        self.atomic.reply(now, reply);
        self.oracle.reply(world, now, reply);
    }
}

/// A verdict without what is in flight where p is 0 whatever that is: it need not be known then.
fn unasked_in_flight(step: oracle::Step, world: &World) -> oracle::Step {
    match step {
        oracle::Step::Done(verdict) => {
            let counts = Counts { in_flight: 0, ..verdict.counts };
            let p = world.config.k().map_or(0.0, |k| oracle::reject_probability(counts.requests, counts.accepts, k));
            oracle::Step::Done(if p == 0.0 { Verdict { counts, ..verdict } } else { verdict })
        }
        other => other,
    }
}

/// Another time, not past what the lock-free window tells apart.
fn moved(choices: &mut Choices<'_>, now: Instant, length: u64) -> Instant {
    let on = |by: Duration| now.saturating_add(by);
    let back = |by: Duration| Instant::from_origin(now.since_origin().saturating_sub(by));
    let then = match choices.below(16) {
        0..=3 => on(Duration::from_millis(u64::from(choices.byte()))),
        4..=7 => on(Duration::from_millis(u64::from(choices.byte()) * 10)),
        8..=9 => on(Duration::from_secs(1)),
        10 => on(Duration::from_secs(length - 1)),
        11 => on(Duration::from_secs(length + u64::from(choices.byte() % 3))),
        12 => back(Duration::from_millis(u64::from(choices.byte()) * 10)),
        13 => back(Duration::from_secs(86_400)),
        14 => on(Duration::from_secs(choices.of(&[1 << 32, 1 << 33, 86_400]))),
        _ => on(Duration::from_micros(u64::from(choices.byte()))),
    };
    then.min(Instant::from_secs((1 << 35) - 2))
}
