//! What goes wrong around a client: its clock, its generator, its callers, its threads.

use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::thread;

use forbear::rand_core::{Rng, SeedableRng};
use forbear::testing::{ManualClock, ScriptedRng};
use forbear::{
    AtomicWindow, Backoff, Call, Clock, Config, Counts, Handle, Instant, Mode, Outcome, OverloadClient, Policy, Reply,
    Report, RetryingClient, Sleep, Step, Tally, Window,
};
use forbear_conformance::SharedClock;
use forbear_conformance::oracle::{self, Limits, World};
use forbear_std::{Client, LockedWindow, ThreadRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

/// The specification with a backoff, and a grace where asked for.
fn config(grace: Option<Duration>) -> Config {
    let builder = Config::overload().to_builder().backoff(Backoff::DEFAULT);
    grace.map_or(builder, |grace| builder.in_flight_grace(grace)).build().unwrap()
}

/// Runs a call to its end; the clock follows its waits.
fn run<W: Tally>(
    policy: &Policy<W>,
    clock: &ManualClock,
    rng: &mut impl Rng,
    mut send: impl FnMut() -> Reply,
) -> Report {
    let mut call = Call::new(policy);
    loop {
        match call.next(clock.now(), rng) {
            Step::Send { .. } => call.reply(clock.now(), send()),
            Step::Wait(wait) => clock.sleep(wait),
            Step::Done(report) => return report,
        }
    }
}

#[test]
fn a_year_at_changing_load() {
    const DAY: u64 = 86_400;
    let config = Config::resilient();
    let policy = Policy::new(config, Window::new());
    let mut world = World::new(config, Limits::plain(120));
    let clock = ManualClock::at(Instant::from_secs(5));
    let (mut random, mut calls, mut sent) = (Random::seed_from_u64(1), 0u64, 0u64);
    while clock.now().second() < 365 * DAY {
        // Busy and quiet hours, a quiet day a week, an outage of an hour each eleventh day.
        let now = clock.now().second();
        let (hour, day) = (now / 3_600 % 24, now / DAY);
        let pause = if day % 7 == 6 { 600_000 } else { [60_000, 20_000, 4_000, 12_000][hour as usize / 6] };
        let outage = day % 11 == 10 && hour == 13;
        let draws = [random.next_u64(); 1];
        let accepted = !outage && random.next_u64() % 100 < 97;
        let reply = if accepted { Reply::ACCEPTED } else { Reply::OVERLOADED };

        let (mut call, mut transcript) = (Call::new(&policy), oracle::Call::default());
        loop {
            let step = call.next(clock.now(), &mut ScriptedRng::new(&draws));
            match (step, transcript.next(&mut world, clock.now(), &mut ScriptedRng::new(&draws))) {
                (Step::Send { .. }, oracle::Step::Send { .. }) => {
                    sent += 1;
                    clock.advance(Duration::from_millis(random.next_u64() % 900));
                    call.reply(clock.now(), reply);
                    transcript.reply(&mut world, clock.now(), reply);
                }
                (Step::Wait(wait), oracle::Step::Wait(same)) if wait == same => clock.sleep(wait),
                (Step::Done(report), oracle::Step::Done(verdict)) if report.stop == verdict.stop => break,
                (step, other) => panic!("{step:?}, not {other:?}, on day {day}"),
            }
        }
        calls += 1;
        clock.advance(Duration::from_millis(pause + random.next_u64() % pause));
    }
    assert!(calls > 500_000 && sent > calls * 9 / 10, "{calls} calls, {sent} sends");
    assert_eq!(policy.counts(clock.now()), world.counts(clock.now()));
    clock.advance(Duration::from_secs(120));
    assert_eq!(policy.counts(clock.now()), Counts::ZERO);
}

#[test]
fn a_clock_that_freezes_keeps_every_limit() {
    let clock = ManualClock::at(Instant::from_secs(9));
    let mut client = OverloadClient::new(&clock, ScriptedRng::new(&[u64::MAX]), Config::overload());
    let mut sends = 0u32;
    for _ in 0..100_000 {
        client.call(|| {
            sends += 1;
            Reply::OVERLOADED
        });
    }
    assert_eq!(client.requests(), sends);
    assert!(f64::from(client.retries()) <= 0.1 * f64::from(sends) + 1.0);
}

#[test]
fn a_clock_that_jumps_keeps_the_counts() {
    fn jumps(window: impl Tally) {
        let policy = Policy::new(Config::overload(), window);
        let clock = ManualClock::at(Instant::from_secs(100_000));
        let mut ones = ScriptedRng::new(&[u64::MAX]);
        let mut call = |now: u64| {
            clock.set(Instant::from_secs(now));
            run(&policy, &clock, &mut ones, || Reply::ACCEPTED);
            policy.counts(clock.now()).requests
        };
        assert_eq!(call(100_000), 1);
        assert_eq!(call(100_000 - 86_400), 2, "a day back");
        assert_eq!(call(0), 3, "to the origin");
        assert_eq!(call(100_119), 4, "and on");
        assert_eq!(call(100_120), 2, "the first three are too old");
        assert_eq!(call(100_120 + (1 << 33)), 1, "far ahead");
        assert_eq!(call(100_121), 2, "back again");
        assert_eq!(call(100_239 + (1 << 33)), 3);
        assert_eq!(call(100_240 + (1 << 33)), 2);
    }
    jumps(Window::new());
    jumps(AtomicWindow::new());
    jumps(LockedWindow::<120>::new());
}

/// A clock that each reading moves by an uneven step, back too.
#[derive(Default)]
struct Uneven(AtomicU64);

impl Clock for Uneven {
    fn now(&self) -> Instant {
        let read = self.0.fetch_add(1, Ordering::Relaxed);
        let skew = [0, 700, 3_000, 1_100, 0, 12_000, 40][read as usize % 7];
        Instant::from_millis(100_000 + read / 50 + skew)
    }
}

impl Sleep for Uneven {
    fn sleep(&self, _: Duration) {}
}

#[test]
fn clocks_that_tick_unevenly_in_threads_lose_no_count() {
    const THREADS: u32 = 4;
    const CALLS: u32 = 5_000;
    let config = Config::overload().to_builder().no_throttle().retry_ratio(1e9).max_attempts(2).build().unwrap();
    let client = Client::with(Uneven::default(), ThreadRng, config, AtomicWindow::<3600>::of_len());
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || {
                for call in 0..CALLS {
                    let mut sends = 0;
                    let send = || {
                        sends += 1;
                        if call % 4 == 0 && sends == 1 { Err(()) } else { Ok(()) }
                    };
                    let classify =
                        |result: &Result<_, _>| if result.is_ok() { Reply::ACCEPTED } else { Reply::OVERLOADED };
                    client.call(send, classify).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let (calls, retries) = (THREADS * CALLS, THREADS * CALLS / 4);
    let counts = Counts { requests: calls + retries, accepts: calls, retries, ..Counts::ZERO };
    assert_eq!(client.counts(), counts);
}

#[test]
fn a_generator_of_zeros_throttles_whatever_it_may_and_never_waits() {
    let clock = ManualClock::new();
    let policy = Policy::new(config(None), Window::new());
    let mut zeros = ScriptedRng::new(&[0]);
    assert_eq!(run(&policy, &clock, &mut zeros, || Reply::OVERLOADED).attempts, 1);
    assert!(run(&policy, &clock, &mut zeros, || Reply::ACCEPTED).is_refused());
    assert_eq!(clock.now(), Instant::ORIGIN);
    clock.advance(Duration::from_secs(120));
    assert_eq!(run(&policy, &clock, &mut zeros, || Reply::ACCEPTED).attempts, 1, "what is idle recovers");
}

#[test]
fn a_generator_of_ones_is_never_throttled_and_waits_as_long_as_it_may() {
    let clock = ManualClock::new();
    let policy = Policy::new(config(None), Window::new());
    let mut ones = ScriptedRng::new(&[u64::MAX]);
    for _ in 0..1_000 {
        assert!(!run(&policy, &clock, &mut ones, || Reply::OVERLOADED).is_refused());
    }
    let clock = ManualClock::new();
    let mut client = RetryingClient::new(&clock, ones, Config::retrying());
    client.call(|| 503, |_| Reply::OVERLOADED);
    assert_eq!(clock.now(), Instant::from_millis(100 + 200));
}

#[test]
fn a_caller_that_panics_leaves_the_client_of_one_thread_usable() {
    let clock = ManualClock::new();
    let mut client = OverloadClient::new(&clock, ScriptedRng::new(&[u64::MAX]), Config::overload());
    let panicked = catch_unwind(AssertUnwindSafe(|| client.call(|| panic!("in a send"))));
    assert!(panicked.is_err());
    assert_eq!((client.requests(), client.accepts(), client.retries()), (1, 0, 0));
    assert_eq!(client.call(|| Reply::ACCEPTED), Outcome::Ok);
    assert_eq!((client.requests(), client.accepts()), (2, 1));
}

/// Threads of which some panic in an attempt: the others go on, and what was sent is counted.
fn callers_panic<W: Tally + Send + Sync + 'static>(window: W, grace: Option<Duration>) {
    let builder = Config::overload().to_builder().no_throttle().retry_ratio(1e9).max_attempts(2);
    let config = grace.map_or(builder, |grace| builder.in_flight_grace(grace)).build().unwrap();
    let client = Client::with(SharedClock::default(), ThreadRng, config, window);
    let threads: Vec<_> = (0..8)
        .map(|thread: u32| {
            let client = client.clone();
            thread::spawn(move || {
                for call in 0..100 {
                    let mut sends = 0;
                    let send = || {
                        sends += 1;
                        // On the first attempt of some, on the retry of others.
                        assert!(thread.is_multiple_of(2) || call < 50 || sends <= thread / 4, "a caller panics");
                        if call % 10 == 0 && sends == 1 || call == 50 { Err(()) } else { Ok(()) }
                    };
                    let classify =
                        |result: &Result<_, _>| if result.is_ok() { Reply::ACCEPTED } else { Reply::OVERLOADED };
                    let _ = client.call(send, classify);
                }
            })
        })
        .collect();
    let died = threads.into_iter().map(thread::JoinHandle::join).filter(Result::is_err).count() as u32;
    assert_eq!(died, 4);
    let counts = client.counts();
    assert_eq!((counts.waiting, counts.in_flight), (0, if grace.is_some() { 0 } else { counts.in_flight }));
    // Four threads end regularly: 100 calls, 10 retries, one call of which both attempts fail. The others get 50 calls and
    // 5 retries, and then one more attempt, or two, of which the last has no answer.
    let unanswered = if grace.is_some() { 0 } else { 4 };
    assert_eq!(counts.requests, 4 * 110 + 4 * 55 + 2 + unanswered);
    assert_eq!(counts.retries, 4 * 10 + 4 * 5 + 2);
    assert_eq!(counts.accepts, 4 * 99 + 4 * 50);
    assert_eq!(client.call(|| Ok::<_, ()>(7), |_| Reply::ACCEPTED).unwrap(), 7);
}

#[test]
fn callers_that_panic_on_threads_leave_the_client_usable_and_its_counts_right() {
    for grace in [None, Some(Duration::from_secs(1))] {
        callers_panic(AtomicWindow::<120>::of_len(), grace);
        callers_panic(LockedWindow::<120>::new(), grace);
    }
}

#[test]
fn a_thread_that_dies_between_admission_and_reply_stays_counted() {
    let client = Client::with(SharedClock::default(), ThreadRng, Config::overload(), AtomicWindow::new());
    let dying = client.clone();
    let died = thread::spawn(move || {
        let mut call = dying.begin();
        assert!(call.ready());
        panic!("before the reply");
    });
    assert!(died.join().is_err());
    let counts = client.counts();
    assert_eq!((counts.requests, counts.accepts, counts.waiting), (1, 0, 0));

    // With a grace one that was young is as if it had never been.
    let config = Config::overload().to_builder().in_flight_grace(Duration::from_secs(1)).build().unwrap();
    let client = Client::with(SharedClock::default(), ThreadRng, config, AtomicWindow::new());
    assert!(client.begin().ready());
    assert_eq!(client.counts(), Counts::ZERO);
}

#[test]
fn calls_dropped_while_they_wait_give_their_budget_back() {
    let policy = Policy::new(config(None), AtomicWindow::new());
    let mut ones = ScriptedRng::new(&[u64::MAX]);
    for _ in 0..1_000 {
        let mut call = Call::new(&policy);
        while !matches!(call.next(Instant::ORIGIN, &mut ones), Step::Wait(_) | Step::Done(_)) {
            call.reply(Instant::ORIGIN, Reply::OVERLOADED);
        }
    }
    let counts = policy.counts(Instant::ORIGIN);
    assert_eq!((counts.requests, counts.retries, counts.waiting), (1_000, 0, 0));
}

#[test]
fn a_mode_that_changes_under_waiting_calls_leaves_no_reservation() {
    for (decided, started) in [(Mode::Enforce, Mode::Off), (Mode::Off, Mode::Enforce), (Mode::Shadow, Mode::Off)] {
        let policy = Policy::new(config(None), Window::new());
        let mut ones = ScriptedRng::new(&[u64::MAX]);
        let mut call = Call::new(&policy);
        let _ = call.next(Instant::ORIGIN, &mut ones);
        call.reply(Instant::ORIGIN, Reply::OVERLOADED);
        policy.set_mode(decided);
        assert!(matches!(call.next(Instant::ORIGIN, &mut ones), Step::Wait(_)));
        policy.set_mode(started);
        assert!(matches!(call.next(Instant::ORIGIN, &mut ones), Step::Send { .. }));
        assert_eq!(policy.counts(Instant::ORIGIN).waiting, 0, "{decided:?}, then {started:?}");
    }
}

/// A client hands its generator's handle on, never its state.
#[test]
fn copies_of_the_generator_draw_one_sequence() {
    let (mut first, mut second) = (ThreadRng, ThreadRng);
    let drawn: Vec<u64> = (0..100).map(|at| if at % 2 == 0 { first.next_u64() } else { second.next_u64() }).collect();
    let mut unique = drawn.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), drawn.len());
}

#[test]
fn the_longest_duration_is_good_for_every_parameter() {
    let set: [fn(forbear::ConfigBuilder) -> forbear::ConfigBuilder; 5] = [
        |builder| builder.deadline(Duration::MAX),
        |builder| builder.attempt_timeout(Duration::MAX),
        |builder| builder.max_retry_after(Duration::MAX),
        |builder| builder.backoff(Backoff::new(Duration::MAX, Duration::MAX)),
        |builder| builder.backoff(Backoff::new(Duration::from_millis(1), Duration::MAX)),
    ];
    for parameters in 1..32u32 {
        let mut builder = Config::resilient().to_builder().max_attempts(70).retry_floor(u32::MAX);
        for (at, set) in set.iter().enumerate() {
            if parameters >> at & 1 == 1 {
                builder = set(builder);
            }
        }
        let policy = Policy::new(builder.build().unwrap(), Window::new());
        for start in [Instant::ORIGIN, Instant::from_secs(u64::MAX / 2), Instant::from_origin(Duration::MAX)] {
            for reply in [Reply::OVERLOADED, Reply::OVERLOADED.after(Duration::MAX), Reply::TRANSIENT] {
                let clock = ManualClock::at(start);
                let report = run(&policy, &clock, &mut ScriptedRng::new(&[u64::MAX]), || reply);
                assert!(report.attempts <= 70 && !report.to_string().is_empty());
            }
        }
    }
    let refused = Config::resilient().to_builder().in_flight_grace(Duration::MAX).build();
    assert_eq!(refused.unwrap_err().field(), "in_flight_grace");
}

/// A handle whose clock has gone back to before the call.
struct Back<'p>(&'p Policy, Cell<Option<Instant>>);

impl Handle for Back<'_> {
    type Tally = Window;
    type Settings = forbear::Config;

    fn policy(&self) -> &Policy {
        self.0
    }

    fn now(&self) -> Option<Instant> {
        self.1.get()
    }
}

#[test]
fn a_call_dropped_before_it_was_sent_by_its_clock_is_young() {
    let policy = Policy::new(config(Some(Duration::from_secs(1))), Window::new());
    let handle = Back(&policy, Cell::new(Some(Instant::ORIGIN)));
    let mut call = Call::new(&handle);
    let _ = call.next(Instant::from_secs(50), &mut ScriptedRng::new(&[]));
    drop(call);
    assert_eq!(policy.counts(Instant::from_secs(50)).requests, 0);
}

#[test]
fn a_client_is_shared_without_copies_of_its_state() {
    // What the others have in flight does not throttle the first calls.
    let client = Arc::new(Client::new(Config::overload().to_builder().min_requests(4).build().unwrap()));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let client = Client::clone(&client);
            thread::spawn(move || client.call(|| Ok::<_, ()>(()), |_| Reply::ACCEPTED).unwrap())
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(client.requests(), 4);
}
