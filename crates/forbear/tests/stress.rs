//! Real threads on one lock-free window, against ledgers that they keep beside it: when all have finished, every second
//! holds what was recorded in it, and no budget was overspent.
//!
//! Threads are spawned and joined, not scoped: the thread sanitizer mistakes the end of a scope for a race.
#![cfg(all(not(loom), target_has_atomic = "64"))]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};
use std::thread;

use forbear::budget::{self, RetryRatio};
use forbear::testing::ScriptedRng;
use forbear::{AtomicWindow, Call, Config, Instant, Policy, Recovery, Reply, Step, Stop, Tally};

const THREADS: u64 = 4;
/// The seconds begin here, so that a clock may lag.
const START: u64 = 100;

/// Runs `body` on every thread, all at once, and joins them.
fn on_threads<T: Send + 'static>(body: impl Fn(Draws) -> T + Clone + Send + 'static) -> Vec<T> {
    let start = Arc::new(Barrier::new(THREADS as usize));
    let threads: Vec<_> = (0..THREADS)
        .map(|seed| {
            let (body, start) = (body.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                body(Draws(seed))
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// A linear congruential generator: the tests need variety, not quality.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Takes one of `held` out, whichever.
    fn take(&mut self, held: &mut Vec<u64>) -> Option<u64> {
        let at = self.below(held.len().max(1) as u64) as usize;
        (at < held.len()).then(|| held.swap_remove(at))
    }
}

/// A clock that all threads move on, by one second every so many looks, and that each sees some seconds late at times.
#[derive(Clone)]
struct LaggingClock {
    looks: Arc<AtomicU64>,
    looks_per_second: u64,
}

impl LaggingClock {
    fn new(looks_per_second: u64) -> Self {
        Self { looks: Arc::default(), looks_per_second }
    }

    fn second(&self, draws: &mut Draws) -> u64 {
        let second = START + self.looks.fetch_add(1, Relaxed) / self.looks_per_second;
        second - draws.below(4).saturating_sub(1) * draws.below(3)
    }
}

/// What a thread recorded, by second.
#[derive(Default)]
struct Ledger {
    requests: BTreeMap<u64, i64>,
    retries: BTreeMap<u64, i64>,
    unanswered: BTreeMap<u64, i64>,
    accepts: u32,
    waiting: u32,
    last: u64,
}

impl Ledger {
    fn sum_of(ledgers: Vec<Self>) -> Self {
        let add = |all: &mut BTreeMap<u64, i64>, some: BTreeMap<u64, i64>| {
            some.into_iter().for_each(|(second, number)| *all.entry(second).or_default() += number);
        };
        ledgers.into_iter().fold(Self::default(), |mut all, ledger| {
            add(&mut all.requests, ledger.requests);
            add(&mut all.retries, ledger.retries);
            add(&mut all.unanswered, ledger.unanswered);
            all.accepts += ledger.accepts;
            all.waiting += ledger.waiting;
            all.last = all.last.max(ledger.last);
            all
        })
    }

    fn asked(&mut self, second: u64) {
        *self.requests.entry(second).or_default() += 1;
        *self.unanswered.entry(second).or_default() += 1;
    }
}

/// The part of `counts` in the `length` seconds that end with `now`.
fn within(counts: &BTreeMap<u64, i64>, now: u64, length: u64) -> u32 {
    let sum: i64 = counts.range(now + 1 - length..=now).map(|(_, number)| number).sum();
    u32::try_from(sum).unwrap()
}

/// Everything that a window can be told, in any order, by threads whose clocks lag; then every second is compared.
fn every_second_holds_what_was_recorded<const N: usize>(steps: u64, looks_per_second: u64) -> Ledger {
    let window = Arc::new(AtomicWindow::<N>::of_len());
    let clock = LaggingClock::new(looks_per_second);
    let shared = window.clone();
    let ledgers = on_threads(move |mut draws| {
        let (window, mut ledger, mut open) = (&*shared, Ledger::default(), Vec::new());
        for _ in 0..steps {
            let second = clock.second(&mut draws);
            ledger.last = ledger.last.max(second);
            match draws.below(9) {
                0..=3 => {
                    let asked = window.request(second);
                    ledger.asked(asked);
                    open.push(asked);
                }
                answer @ 4..=5 => {
                    if let Some(asked) = draws.take(&mut open) {
                        window.answer(asked, second, answer == 4);
                        ledger.accepts += u32::from(answer == 4);
                        *ledger.unanswered.entry(asked).or_default() -= 1;
                    }
                }
                6 => {
                    if let Some(asked) = draws.take(&mut open) {
                        window.withdraw(asked);
                        *ledger.requests.entry(asked).or_default() -= 1;
                        *ledger.unanswered.entry(asked).or_default() -= 1;
                    }
                }
                7 => {
                    if let Some(asked) = draws.take(&mut open) {
                        window.refuse(asked);
                        *ledger.unanswered.entry(asked).or_default() -= 1;
                    }
                }
                _ => {
                    if window.reserve(second, |retries, requests| retries < requests / 10).is_ok() {
                        ledger.waiting += 1;
                    }
                    if ledger.waiting > draws.below(4) as u32 {
                        ledger.waiting -= 1;
                        if draws.below(3) == 0 {
                            window.release();
                        } else {
                            let asked = window.retry(second);
                            ledger.asked(asked);
                            *ledger.retries.entry(asked).or_default() += 1;
                        }
                    }
                }
            }
            window.counts(second);
        }
        ledger
    });

    let ledger = Ledger::sum_of(ledgers);
    let young = (N as u64).min(8);
    assert_eq!(window.in_flight(ledger.last, 7), within(&ledger.unanswered, ledger.last, young));
    let mut accepts = u32::MAX;
    for now in ledger.last..=ledger.last + N as u64 {
        let counts = window.counts(now);
        assert_eq!(counts.requests, within(&ledger.requests, now, N as u64), "requests at {now}");
        assert_eq!(counts.retries, within(&ledger.retries, now, N as u64), "retries at {now}");
        assert_eq!(counts.waiting, ledger.waiting);
        assert!(counts.accepts <= accepts.min(ledger.accepts), "accepts at {now}");
        accepts = counts.accepts;
    }
    assert_eq!(accepts, 0, "all have left the window");
    ledger
}

#[test]
fn a_window_longer_than_the_run_holds_all() {
    let ledger = every_second_holds_what_was_recorded::<60>(20_000, 2_000);
    assert!(ledger.last < START + 60 && ledger.retries.len() > 20);
}

#[test]
fn a_window_whose_buckets_are_reused_at_once_holds_the_last_seconds() {
    let ledger = every_second_holds_what_was_recorded::<3>(20_000, 20);
    assert!(ledger.last > START + 3_000);
}

#[test]
fn a_window_of_one_second_holds_that() {
    every_second_holds_what_was_recorded::<1>(20_000, 20);
}

#[test]
fn accepts_are_all_counted() {
    let window = Arc::new(AtomicWindow::<60>::of_len());
    let clock = LaggingClock::new(4_000);
    let shared = window.clone();
    let accepts = on_threads(move |mut draws| {
        let mut accepts = 0;
        for _ in 0..20_000 {
            let asked = shared.request(clock.second(&mut draws));
            let accepted = draws.below(3) > 0;
            shared.answer(asked, clock.second(&mut draws), accepted);
            accepts += u32::from(accepted);
        }
        accepts
    });
    let counts = window.counts(START);
    assert_eq!((counts.requests, counts.accepts), (THREADS as u32 * 20_000, accepts.iter().sum()));
    assert_eq!(window.in_flight(START, 7), 0);
}

#[test]
fn a_budget_is_spent_to_the_last_unit_and_no_further() {
    const UNITS: u32 = 5_000;
    let window = Arc::new(AtomicWindow::<60>::of_len());
    window.request(START);
    let clock = LaggingClock::new(1_000);
    let shared = window.clone();
    on_threads(move |mut draws| {
        let mut waiting = 0;
        loop {
            let second = clock.second(&mut draws);
            if shared.reserve(second, |retries, _| retries < UNITS).is_err() {
                break;
            }
            waiting += 1;
            // Some start at once, some when many wait, and some are forgotten.
            while waiting > draws.below(8) {
                waiting -= 1;
                if draws.below(10) == 0 { shared.release() } else { _ = shared.retry(second) }
            }
        }
        (0..waiting).for_each(|_| _ = shared.retry(clock.second(&mut draws)));
    });
    // A retry that starts counts twice for a moment, so another thread may have been refused one unit too early.
    let left = THREADS as u32;
    let counts = window.counts(START);
    assert!(counts.retries <= UNITS && counts.retries + left >= UNITS, "{counts:?}");
    assert_eq!((counts.waiting, counts.requests), (0, 1 + counts.retries));
    for retries in counts.retries..UNITS {
        window.reserve(START, |counted, _| counted == retries).unwrap();
        window.retry(START);
    }
    assert!(window.reserve(START, |retries, _| retries < UNITS).is_err());
}

#[test]
fn a_ratio_is_kept() {
    let window = Arc::new(AtomicWindow::<60>::of_len());
    let clock = LaggingClock::new(3_000);
    let shared = window.clone();
    let allowed = |retries, requests| budget::allows_retry(retries, requests, RetryRatio::DEFAULT);
    on_threads(move |mut draws| {
        for _ in 0..20_000 {
            let second = clock.second(&mut draws);
            shared.request(second);
            if shared.reserve(second, allowed).is_ok() {
                shared.retry(clock.second(&mut draws));
            }
        }
    });
    let counts = window.counts(START);
    assert_eq!((counts.requests, counts.waiting), (THREADS as u32 * 20_000 + counts.retries, 0));
    assert!(allowed(counts.retries - 1, counts.requests), "{counts:?}");
    assert!(counts.retries > counts.requests / 11, "{counts:?}");
}

#[test]
fn calls_count_what_they_report() {
    let policy: &'static Policy<_> = Box::leak(Box::new(Policy::new(Config::overload(), AtomicWindow::new())));
    let clock = LaggingClock::new(5_000);
    let reports = on_threads(move |mut draws| {
        let (mut requests, mut accepts, mut retries) = (0, 0, 0);
        for _ in 0..10_000 {
            let draw = [draws.below(1 << 31) << 33];
            let mut rng = ScriptedRng::new(&draw);
            let mut call = Call::new(policy);
            let report = loop {
                match call.next(Instant::from_secs(clock.second(&mut draws)), &mut rng) {
                    Step::Send { .. } if draws.below(50) == 0 => break None,
                    Step::Send { .. } => {
                        let reply = if draws.below(4) == 0 { Reply::OVERLOADED } else { Reply::ACCEPTED };
                        call.reply(Instant::from_secs(clock.second(&mut draws)), reply);
                    }
                    Step::Wait(_) => unreachable!("there is no backoff"),
                    Step::Done(report) => break Some(report),
                }
            };
            // One that is dropped with an attempt in flight stays counted.
            let refused = report.is_some_and(|report| report.stop == Stop::Throttled);
            let counted = call.attempts() + u32::from(refused);
            requests += counted;
            retries += counted - 1;
            accepts += u32::from(report.is_some_and(|report| report.stop == Stop::Accepted));
        }
        (requests, accepts, retries)
    });
    let told = reports.into_iter().fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let counts = policy.counts(Instant::from_secs(START));
    assert_eq!((counts.requests, counts.accepts, counts.retries), told);
    assert_eq!(counts.waiting, 0);
    assert!(budget::allows_retry(counts.retries - 1, counts.requests, RetryRatio::DEFAULT), "{counts:?}");
}

/// The specification with extra sends paced, over K = 0: the formula refuses every draw of nothing once a request is
/// counted, as one is here.
fn recovering(recovery: Recovery) -> &'static Policy<AtomicWindow> {
    let config = Config::overload().to_builder().k(0.0).max_attempts(1).recovery(recovery).build().unwrap();
    let policy: &'static Policy<_> = Box::leak(Box::new(Policy::new(config, AtomicWindow::new())));
    policy.window().request(START);
    policy
}

/// A call that the formula refuses, or not.
fn call(
    policy: &'static Policy<AtomicWindow>,
    now: Instant,
    refused: bool,
) -> Option<Call<&'static Policy<AtomicWindow>>> {
    let mut call = Call::new(policy);
    let draw = [if refused { 0 } else { u64::MAX }];
    matches!(call.next(now, &mut ScriptedRng::new(&draw)), Step::Send { .. }).then_some(call)
}

/// Every attempt counts for the wait, so what several threads are sent is what one would be.
#[test]
fn without_an_accept_one_of_so_many_attempts_is_sent() {
    const STEPS: u64 = 400_000;
    // Three quarters of 32 attempts, whatever the time.
    let recovery = Recovery::new(1, 32).unwrap();
    let sent_of =
        |policy, steps| (0..steps).filter(|_| call(policy, Instant::from_secs(START), true).is_some()).count();
    let alone = sent_of(recovering(recovery), THREADS * STEPS);
    assert!((THREADS * STEPS / 24..THREADS * STEPS / 24 + 6).contains(&(alone as u64)), "{alone}");
    let policy = recovering(recovery);
    assert_eq!(on_threads(move |_| sent_of(policy, STEPS)).into_iter().sum::<usize>(), alone);
}

#[test]
fn without_an_accept_one_is_sent_in_each_wait() {
    let (sent, _, waits) = extra_sends(u64::MAX, 0);
    assert!((waits..=waits + 6).contains(&sent), "{sent} in {waits} waits");
}

#[test]
fn extra_sends_without_an_accept_are_no_more_than_accepts_and_waits() {
    for accepted_of_hundred in [0, 10, 30, 45, 60, 90] {
        for plain_one_in in [5, u64::MAX] {
            let (unaccepted, accepts, waits) = extra_sends(plain_one_in, accepted_of_hundred);
            let most = accepts + waits + 6;
            assert!(unaccepted <= most, "{unaccepted}, at the most {most}, at {accepted_of_hundred} %");
        }
    }
}

/// Calls that the formula refuses, but for one in so many, of which so many in a hundred are accepted, by threads whose
/// clocks lag. Returns the extra sends without an accept, the accepts of all sends, and how many full waits there were.
fn extra_sends(plain_one_in: u64, accepted_of_hundred: u64) -> (u64, u64, u64) {
    const LOOKS_PER_SECOND: u64 = 20;
    const STEPS: u64 = 20_000;
    // Three quarters of two seconds and of one attempt: a full wait is a second.
    let policy = recovering(Recovery::new(2, 1).unwrap());
    let clock = LaggingClock::new(LOOKS_PER_SECOND);
    let sums = on_threads(move |mut draws| {
        let (mut unaccepted, mut accepts, mut in_flight) = (0, 0, Vec::new());
        for _ in 0..STEPS {
            let plain = draws.below(plain_one_in) == 0;
            let now = Instant::from_secs(clock.second(&mut draws));
            if let Some(call) = call(policy, now, !plain) {
                unaccepted += u64::from(!plain);
                in_flight.push((call, plain));
            }
            // An answer takes a while, and some never come.
            if in_flight.len() as u64 > draws.below(8) {
                let (mut call, plain) = in_flight.swap_remove(0);
                if draws.below(100) < accepted_of_hundred {
                    call.reply(now, Reply::ACCEPTED);
                    unaccepted -= u64::from(!plain);
                    accepts += 1;
                } else if draws.below(2) == 0 {
                    call.reply(now, Reply::OVERLOADED);
                }
            }
        }
        (unaccepted, accepts)
    });
    let (unaccepted, accepts) = sums.into_iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    (unaccepted, accepts, THREADS * STEPS / LOOKS_PER_SECOND)
}
