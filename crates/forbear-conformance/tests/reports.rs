//! Bugs that were reported against other retry and overload libraries: one test for each, with its public number and the
//! right value here, and its siblings where the bug is of a kind.

use core::cell::RefCell;
use core::time::Duration;

use forbear::budget::{RetryRatio, allows_retry};
use forbear::rand_core::{Rng, SeedableRng};
use forbear::testing::{ManualClock, ScriptedRng};
use forbear::{
    AtomicWindow, Backoff, Call, Clock, Config, Instant, Outcome, OverloadClient, Policy, Reply, Report, Sleep, Step,
    Stop, Tally, Window, grpc, http,
};
use forbear_std::{Client, ThreadRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

/// A generator that never throttles, and always waits as long as it may.
const ONES: ScriptedRng<'static> = ScriptedRng::new(&[u64::MAX]);

/// Runs a call to its end; the clock follows its waits.
fn run<W: Tally>(policy: &Policy<W>, clock: &ManualClock, mut send: impl FnMut() -> Reply) -> Report {
    let mut call = Call::new(policy);
    loop {
        match call.next(clock.now(), &mut ONES.clone()) {
            Step::Send { .. } => call.reply(clock.now(), send()),
            Step::Wait(wait) => clock.sleep(wait),
            Step::Done(report) => return report,
        }
    }
}

/// tower #857: a budget of 0.6 allowed every request a retry, since its inverse was cut to a whole number.
#[test]
fn tower_857_a_budget_is_not_rounded_to_whole_percents_or_requests() {
    for (ratio, requests, allowed) in
        [(0.6, 10, 6), (0.35, 10, 4), (0.15, 10, 2), (0.1, 10, 1), (0.01, 150, 2), (0.001, 999, 1), (1.5, 10, 15)]
    {
        let ratio = RetryRatio::new(ratio).unwrap();
        let retries = (0..).take_while(|retries| allows_retry(*retries, requests, ratio)).count();
        assert_eq!(retries, allowed, "{ratio:?} of {requests}");
    }
}

/// backon #231: a delay grew past the maximum before anything looked; jitter that is added after a limit is its sibling.
#[test]
fn backon_231_no_delay_is_above_the_maximum() {
    let mut random = Random::seed_from_u64(1);
    for (base, max) in [(100, 2_000), (2_000, 2_000), (3_000, 2_000)] {
        let (base, max) = (Duration::from_millis(base), Duration::from_millis(max));
        for sends in [1, 2, 5, 6, 7, 100, u32::MAX] {
            for draw in [0, u64::MAX, random.next_u64()] {
                assert!(Backoff::new(base, max).delay(sends, draw) <= max);
            }
        }
    }
}

/// backon PR #240: a minimum above the maximum was waited for all the same.
#[test]
fn backon_240_a_minimum_above_the_maximum_is_the_maximum() {
    let backoff = Backoff::new(Duration::from_secs(60), Duration::from_secs(1));
    assert_eq!((backoff.cap(1), backoff.cap(9)), (Duration::from_secs(1), Duration::from_secs(1)));
    let backoff = Backoff::new(Duration::MAX, Duration::ZERO);
    assert_eq!(backoff.delay(1, u64::MAX), Duration::ZERO);
}

/// mulligan #31, tryhard #24: the 32nd or the 64th doubling overflowed, into a panic or into no wait at all, whatever the
/// maximum was.
#[test]
fn mulligan_31_tryhard_24_no_attempt_overflows() {
    for sends in [31, 32, 33, 63, 64, 65, 127, 128, 129, u32::MAX - 1, u32::MAX] {
        assert_eq!(Backoff::DEFAULT.cap(sends), Duration::from_secs(2), "attempt {sends}");
        let widest = Backoff::new(Duration::from_secs(1), Duration::MAX);
        assert!(widest.cap(sends) >= Duration::from_secs(1 << 30), "attempt {sends}");
    }
    // A call of that many attempts comes to its end.
    let config = Config::retrying().to_builder().max_attempts(70).build().unwrap();
    assert_eq!(run(&Policy::new(config, ()), &ManualClock::new(), || Reply::OVERLOADED).attempts, 70);
}

/// kube #1488: an instant plus the longest duration is past the end of time.
#[test]
fn kube_1488_now_plus_the_longest_duration_is_the_last_instant() {
    let config = Config::resilient()
        .to_builder()
        .deadline(Duration::MAX)
        .attempt_timeout(Duration::MAX)
        .max_retry_after(Duration::MAX)
        .backoff(Backoff::new(Duration::MAX, Duration::MAX))
        .build()
        .unwrap();
    let clock = ManualClock::at(Instant::from_secs(1_700_000_000));
    let policy = Policy::new(config, Window::new());
    for reply in [Reply::OVERLOADED, Reply::OVERLOADED.after(Duration::MAX), Reply::ACCEPTED] {
        let report = run(&policy, &clock, || reply);
        assert!(report.attempts >= 1, "{report}");
    }
    assert_eq!(Instant::from_secs(1).saturating_add(Duration::MAX), Instant::from_origin(Duration::MAX));
}

/// backoff #42: a retry was started although the deadline would pass during its wait.
#[test]
fn backoff_42_nothing_starts_past_the_deadline() {
    let config = Config::retrying().to_builder().max_attempts(9).deadline(Duration::from_millis(250)).build().unwrap();
    let clock = ManualClock::new();
    let report = run(&Policy::new(config, ()), &clock, || Reply::OVERLOADED);
    // A wait of 100 ms; the next one, of 200 ms, would end at 300 ms.
    assert_eq!((report.stop, report.attempts, clock.now()), (Stop::Deadline, 2, Instant::from_millis(100)));

    // The time that sends take counts, and without a backoff too.
    for config in [config, config.to_builder().no_backoff().build().unwrap()] {
        let clock = ManualClock::new();
        let report = run(&Policy::new(config, ()), &clock, || {
            clock.advance(Duration::from_millis(251));
            Reply::OVERLOADED
        });
        assert_eq!((report.stop, report.attempts), (Stop::Deadline, 1));
    }

    // And where a server asks for a longer wait, that is not shortened to fit.
    let clock = ManualClock::new();
    let report = run(&Policy::new(config, ()), &clock, || Reply::OVERLOADED.after(Duration::from_millis(251)));
    assert_eq!((report.stop, report.attempts, clock.now()), (Stop::Deadline, 1, Instant::ORIGIN));
}

/// smithy-kotlin #805: a clock that was set back a day left a negative number of tokens, and calls waited for a day.
#[test]
fn smithy_kotlin_805_a_clock_set_back_a_day_stands_still() {
    let clock = ManualClock::at(Instant::from_secs(200_000));
    let mut client = OverloadClient::new(&clock, ONES, Config::overload());
    for _ in 0..20 {
        assert_eq!(client.call(|| Reply::ACCEPTED), Outcome::Ok);
    }
    clock.set(Instant::from_secs(200_000 - 86_400));
    assert_eq!((client.requests(), client.accepts()), (20, 20));
    let mut replies = [Reply::OVERLOADED, Reply::ACCEPTED].into_iter();
    assert_eq!(client.call(|| replies.next().unwrap()), Outcome::Ok, "a retry as before");
    assert_eq!((client.requests(), client.retries()), (22, 1));
    // Nothing expires until the clock has caught up, and then as ever.
    clock.set(Instant::from_secs(200_119));
    assert_eq!(client.requests(), 22);
    clock.set(Instant::from_secs(200_120));
    assert_eq!(client.requests(), 0);
}

/// aws-sdk-go-v2 #3550: a retry quota that was spent never filled again, however many requests succeeded.
#[test]
fn aws_sdk_go_v2_3550_a_spent_budget_comes_back() {
    let clock = ManualClock::new();
    let mut client = OverloadClient::new(&clock, ONES, Config::overload());
    assert_eq!(client.call(|| Reply::OVERLOADED), Outcome::Budget);
    assert_eq!(client.call(|| Reply::OVERLOADED), Outcome::Budget);
    assert_eq!((client.requests(), client.retries()), (3, 1));
    // With requests: 1 < 0.1 * 11.
    for _ in 0..7 {
        client.call(|| Reply::ACCEPTED);
    }
    let mut replies = [Reply::OVERLOADED, Reply::ACCEPTED].into_iter();
    assert_eq!(client.call(|| replies.next().unwrap()), Outcome::Ok);
    // And with time, of itself.
    clock.advance(Duration::from_secs(120));
    let mut replies = [Reply::OVERLOADED, Reply::ACCEPTED].into_iter();
    assert_eq!(client.call(|| replies.next().unwrap()), Outcome::Ok);
}

/// smithy-rs PR #4632: an acquisition that was refused cost tokens all the same, so the debt grew with every caller.
#[test]
fn smithy_rs_4632_what_is_refused_costs_nothing() {
    fn refused(window: &impl Tally) {
        window.request(1);
        let before = window.counts(1);
        for _ in 0..100 {
            assert_eq!(window.reserve(1, |_, _| false), Err(before));
        }
        assert_eq!(window.counts(1), before);
    }
    refused(&Window::new());
    refused(&AtomicWindow::new());

    // A retry that is given up while it waits gives its part back, however it ends.
    let policy = Policy::new(Config::resilient(), Window::new());
    for _ in 0..100 {
        let mut call = Call::new(&policy);
        let _ = call.next(Instant::ORIGIN, &mut ONES.clone());
        call.reply(Instant::ORIGIN, Reply::OVERLOADED);
        let _ = call.next(Instant::ORIGIN, &mut ONES.clone());
        drop(call);
        assert_eq!((policy.counts(Instant::ORIGIN).waiting, policy.counts(Instant::ORIGIN).retries), (0, 0));
    }
}

/// envoy #30205: if retries count only once they leave their backoff, a thousand requests that fail at once are all retried,
/// whatever the budget.
#[test]
fn envoy_30205_simultaneous_failures_share_one_budget() {
    fn storm<W: Tally>(window: W) {
        let config = Config::overload()
            .to_builder()
            .retry_ratio(0.2)
            .max_attempts(2)
            .no_throttle()
            .backoff(Backoff::DEFAULT)
            .build()
            .unwrap();
        let (policy, clock) = (Policy::new(config, window), ManualClock::new());
        let mut calls: Vec<_> = (0..1_000).map(|_| Call::new(&policy)).collect();
        for call in &mut calls {
            assert!(matches!(call.next(clock.now(), &mut ONES.clone()), Step::Send { .. }));
        }
        let waits = |call: &mut Call<_>| {
            call.reply(clock.now(), Reply::OVERLOADED);
            matches!(call.next(clock.now(), &mut ONES.clone()), Step::Wait(_))
        };
        let waiting = calls.iter_mut().map(waits).filter(|waits| *waits).count();
        assert_eq!((waiting, policy.counts(clock.now()).waiting), (200, 200));
        clock.advance(Duration::from_millis(100));
        for call in &mut calls {
            if matches!(call.next(clock.now(), &mut ONES.clone()), Step::Send { .. }) {
                call.reply(clock.now(), Reply::OVERLOADED);
                assert!(
                    matches!(call.next(clock.now(), &mut ONES.clone()), Step::Done(report) if report.attempts == 2)
                );
            }
        }
        let counts = policy.counts(clock.now());
        assert_eq!((counts.requests, counts.retries, counts.waiting), (1_200, 200, 0));
    }
    storm(Window::new());
    storm(AtomicWindow::new());
}

/// tower, backon: a generator that is copied together with its backoff gives every session the same jitter.
#[test]
fn tower_backon_no_two_sessions_share_their_jitter() {
    /// Keeps what it was asked to sleep.
    #[derive(Default)]
    struct Sleeps(RefCell<Vec<Duration>>);
    impl Clock for &Sleeps {
        fn now(&self) -> Instant {
            Instant::ORIGIN
        }
    }
    impl Sleep for &Sleeps {
        fn sleep(&self, delay: Duration) {
            self.0.borrow_mut().push(delay);
        }
    }
    let config = Config::retrying().to_builder().max_attempts(8).build().unwrap();
    let sleeps = Sleeps::default();
    let first = Client::with(&sleeps, ThreadRng, config, Window::new());
    let second = Client::with(&sleeps, ThreadRng, config, Window::new());
    let mut all = Vec::new();
    for client in [&first, &first.clone(), &second, &first] {
        let _ = client.call(|| Err::<(), _>(()), |_| Reply::OVERLOADED);
        all.push(sleeps.0.take());
    }
    for (at, session) in all.iter().enumerate() {
        assert_eq!(session.len(), 7);
        assert!(!all[..at].contains(session), "{all:?}");
    }
    // On another thread as well.
    let draws = || [(); 4].map(|()| ThreadRng.next_u64());
    assert_ne!(std::thread::spawn(draws).join().unwrap(), std::thread::spawn(draws).join().unwrap());
}

/// kratos #1709: after five idle minutes the window's own time lagged, and an event wiped out the one 100 ms before it.
#[test]
fn kratos_1709_events_after_an_idle_time_are_counted() {
    fn idle(window: &impl Tally) {
        window.request(7);
        let later = [Instant::from_millis(307_950), Instant::from_millis(308_050)];
        for event in later {
            window.request(event.second());
        }
        assert_eq!(window.counts(later[1].second()).requests, 2);
        assert_eq!(window.counts(307 + 10).requests, 1, "one has left a window of ten seconds");
    }
    idle(&Window::<10>::of_len());
    idle(&AtomicWindow::<10>::of_len());
}

/// rubyist/circuitbreaker PR #36: a full ring that was idle for a window lost one bucket only.
#[test]
fn rubyist_36_a_full_ring_is_empty_after_an_idle_window() {
    fn full(window: &impl Tally) {
        for second in 0..10 {
            window.request(second);
        }
        assert_eq!(window.counts(9).requests, 10);
        window.request(19);
        assert_eq!(window.counts(19).requests, 1);
        // Whatever the gap is a multiple of.
        let mut second = 19;
        for windows in [1, 2, 3, 1_000_000] {
            second += 10 * windows;
            window.request(second);
            assert_eq!(window.counts(second).requests, 1, "{windows} windows later");
        }
    }
    full(&Window::<10>::of_len());
    full(&AtomicWindow::<10>::of_len());
}

/// go-zero PR #340: a bucket began with its first event, so that 0.9 s and 1.8 s shared one.
#[test]
fn go_zero_340_buckets_are_whole_seconds() {
    let clock = ManualClock::at(Instant::from_millis(900));
    let mut client = OverloadClient::with_window(&clock, ONES, Config::overload(), Window::<2>::of_len());
    client.call(|| Reply::ACCEPTED);
    clock.set(Instant::from_millis(1_800));
    client.call(|| Reply::ACCEPTED);
    clock.set(Instant::from_millis(1_999));
    assert_eq!(client.requests(), 2);
    clock.set(Instant::from_millis(2_000));
    assert_eq!(client.requests(), 1);
    clock.set(Instant::from_millis(2_999));
    assert_eq!(client.requests(), 1);
    clock.set(Instant::from_millis(3_000));
    assert_eq!(client.requests(), 0);
}

/// envoy-mobile PR #811: the budget was a part of the requests still active, so it shrank as they failed: how many of six
/// were retried depended on their order.
#[test]
fn envoy_mobile_811_six_failures_at_ten_percent_are_retried_once() {
    // One after the other,
    let clock = ManualClock::new();
    let mut client = OverloadClient::new(&clock, ONES, Config::overload());
    let mut sends = 0;
    for _ in 0..6 {
        let send = || {
            sends += 1;
            Reply::OVERLOADED
        };
        assert_eq!(client.call(send), Outcome::Budget);
    }
    assert_eq!((sends, client.requests(), client.retries()), (7, 7, 1));

    // and all at once.
    let policy = Policy::new(Config::overload().to_builder().backoff(Backoff::DEFAULT).build().unwrap(), Window::new());
    let mut calls = [(); 6].map(|()| Call::new(&policy));
    for call in &mut calls {
        assert!(matches!(call.next(Instant::ORIGIN, &mut ONES.clone()), Step::Send { .. }));
    }
    let waits = calls.iter_mut().filter_map(|call| {
        call.reply(Instant::ORIGIN, Reply::UNREACHABLE);
        matches!(call.next(Instant::ORIGIN, &mut ONES.clone()), Step::Wait(_)).then_some(())
    });
    assert_eq!(waits.count(), 1);
}

/// relay PR #992: a Retry-After that was huge panicked; a negative one is its sibling.
#[test]
fn relay_992_any_time_to_come_back_is_taken() {
    for (text, seconds) in [
        ("-1", 0),
        ("-99999999999999999999999", 0),
        ("18446744073709551615", u64::MAX),
        ("99999999999999999999999", u64::MAX),
    ] {
        let wait = http::retry_after(text).unwrap();
        assert_eq!(wait, Duration::from_secs(seconds), "{text}");
        for config in [Config::retrying(), Config::resilient()] {
            // One that is obeyed as it is, and one that refuses to wait so long.
            let clock = ManualClock::at(Instant::from_secs(1));
            let report = run(&Policy::new(config, Window::new()), &clock, || Reply::OVERLOADED.after(wait));
            assert!(report.attempts >= 1 && !report.to_string().is_empty());
        }
    }
    assert_eq!(grpc::pushback("-9223372036854775809"), forbear::Retry::Never);
    assert_eq!(forbear_std::http::retry_after("Thu, 01 Jan 1970 00:00:00 GMT", None), Some(Duration::ZERO));
}
