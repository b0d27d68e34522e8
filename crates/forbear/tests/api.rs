//! What a user of the core touches, value by value: configurations and their refusals, reports and errors as they read,
//! policies, the two clients, and what calls do between their steps.

use core::cell::Cell;
use core::error::Error as _;
use core::time::Duration;

use forbear::rand_core::Rng;
use forbear::testing::{ManualClock, ScriptedRng};
use forbear::{
    Answer, Backoff, Call, Clock, Config, ConfigError, Counts, Error, Instant, Mode, Outcome, OverloadClient, Policy,
    Recovery, Refused, Reply, Report, RetryingClient, Sleep, Step, Tally, Window,
};

const SECOND: Duration = Duration::from_secs(1);
const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

// Configuration

#[test]
fn the_presets_are_the_specifications_and_what_a_service_should_run() {
    let overload = Config::overload();
    assert_eq!((overload.k(), overload.retry_ratio(), overload.max_attempts()), (Some(2.0), Some(0.1), 3));
    assert_eq!((overload.backoff(), overload.recovery(), overload.in_flight_grace()), (None, None, None));
    assert_eq!((overload.min_requests(), overload.retry_floor(), overload.retry_after_jitter()), (0, 0, false));
    assert_eq!((overload.deadline(), overload.attempt_timeout(), overload.max_retry_after()), (None, None, None));
    assert_eq!(overload.mode(), Mode::Enforce);

    let retrying = Config::retrying();
    assert_eq!((retrying.k(), retrying.retry_ratio(), retrying.max_attempts()), (None, None, 3));
    assert_eq!(retrying.backoff(), Some(Backoff::new(ms(100), 2 * SECOND)));

    let resilient = Config::resilient();
    assert_eq!((resilient.k(), resilient.retry_ratio()), (Some(2.0), Some(0.1)));
    assert_eq!((resilient.backoff(), resilient.recovery()), (Some(Backoff::DEFAULT), Some(Recovery::DEFAULT)));
    assert_eq!((resilient.min_requests(), resilient.retry_after_jitter()), (2, true));
    assert_eq!((resilient.in_flight_grace(), resilient.max_retry_after()), (Some(SECOND), Some(30 * SECOND)));
}

#[test]
fn a_builder_sets_one_thing_at_a_time() {
    let preset = Config::resilient();
    let built = preset
        .to_builder()
        .k(1.5)
        .retry_ratio(0.3)
        .max_attempts(7)
        .backoff(Backoff::new(ms(3), ms(4)))
        .deadline(9 * SECOND)
        .attempt_timeout(5 * SECOND)
        .max_retry_after(ms(1_500))
        .retry_after_jitter(false)
        .min_requests(11)
        .retry_floor(13)
        .in_flight_grace(ms(1_001))
        .recovery(Recovery::new(20, 40).unwrap())
        .mode(Mode::Shadow)
        .build()
        .unwrap();
    assert_eq!((built.k(), built.retry_ratio(), built.max_attempts()), (Some(1.5), Some(0.3), 7));
    assert_eq!(built.backoff().map(|backoff| (backoff.base(), backoff.max())), Some((ms(3), ms(4))));
    assert_eq!((built.deadline(), built.attempt_timeout()), (Some(9 * SECOND), Some(5 * SECOND)));
    assert_eq!((built.max_retry_after(), built.retry_after_jitter()), (Some(ms(1_500)), false));
    assert_eq!((built.min_requests(), built.retry_floor()), (11, 13));
    assert_eq!(built.in_flight_grace(), Some(2 * SECOND), "whole seconds, rounded up");
    assert_eq!(built.recovery().map(|recovery| (recovery.seconds(), recovery.attempts())), Some((20, 40)));
    assert_eq!(built.mode(), Mode::Shadow);

    let bare = built.to_builder().no_throttle().no_budget().no_backoff().no_in_flight_grace().no_recovery();
    let bare = bare.build().unwrap();
    assert_eq!((bare.k(), bare.retry_ratio(), bare.backoff()), (None, None, None));
    assert_eq!((bare.in_flight_grace(), bare.recovery()), (None, None));
    assert_eq!((bare.max_attempts(), bare.deadline()), (7, Some(9 * SECOND)), "the rest stays");
}

#[test]
fn what_is_refused_names_its_field_its_value_and_what_is_allowed() {
    let builder = Config::resilient().to_builder();
    for (refused, text) in [
        (builder.k(-1.0), "k is -1.0, allowed: finite, 0 or more"),
        (builder.retry_ratio(f64::INFINITY), "retry_ratio is inf, allowed: finite, 0 or more"),
        (builder.max_attempts(0), "max_attempts is 0, allowed: 1 or more"),
        (builder.deadline(Duration::ZERO), "deadline is 0ns, allowed: more than 0 s"),
        (builder.attempt_timeout(Duration::ZERO), "attempt_timeout is 0ns, allowed: more than 0 s"),
        (builder.in_flight_grace(Duration::ZERO), "in_flight_grace is 0ns, allowed: more than 0 s, up to 7 s"),
        (builder.in_flight_grace(ms(7_001)), "in_flight_grace is 7.001s, allowed: more than 0 s, up to 7 s"),
        (
            builder.in_flight_grace(SECOND).attempt_timeout(SECOND),
            "in_flight_grace is 1s, allowed: less than attempt_timeout, in whole seconds (or no_in_flight_grace)",
        ),
    ] {
        let refused = refused.build().unwrap_err();
        assert_eq!(refused.to_string(), text);
        assert!(text.starts_with(refused.field()));
        assert_eq!(text.split_once(", allowed: ").unwrap().1, refused.allowed());
    }
}

#[test]
fn the_first_of_several_refusals_is_told() {
    let refused = Config::resilient().to_builder().max_attempts(0).k(-1.0).attempt_timeout(SECOND).build();
    assert_eq!(refused.as_ref().map_err(ConfigError::field), Err("max_attempts"));
    // A value that is set right afterwards does not excuse it.
    assert!(Config::resilient().to_builder().max_attempts(0).max_attempts(3).build().is_err());
}

#[test]
fn ends_of_what_is_allowed_are_allowed() {
    let builder = Config::resilient().to_builder();
    assert!(builder.in_flight_grace(ms(7_000)).build().is_ok());
    assert!(builder.in_flight_grace(Duration::from_nanos(1)).build().is_ok());
    assert!(builder.in_flight_grace(SECOND).attempt_timeout(SECOND + Duration::from_micros(1)).build().is_ok());
    assert!(builder.no_in_flight_grace().attempt_timeout(Duration::from_nanos(1)).build().is_ok());
    assert!(builder.deadline(Duration::from_nanos(1)).max_attempts(1).k(0.0).retry_ratio(0.0).build().is_ok());
    assert_eq!(builder.deadline(Duration::MAX).build().unwrap().deadline(), None, "584,000 years are no limit");
    for (seconds, attempts, is_allowed) in
        [(1, 1, true), (3_600, u16::MAX, true), (0, 1, false), (3_601, 1, false), (1, 0, false)]
    {
        assert_eq!(Recovery::new(seconds, attempts).is_some(), is_allowed, "{seconds} {attempts}");
    }
}

#[test]
fn a_grace_of_the_preset_gives_way_to_a_short_attempt() {
    let seven = Config::resilient().to_builder().in_flight_grace(7 * SECOND).build().unwrap();
    for (timeout, grace) in
        [(ms(800), 0), (SECOND, 0), (ms(1_001), 1), (2 * SECOND, 1), (7 * SECOND, 6), (ms(7_001), 7)]
    {
        let config = seven.to_builder().attempt_timeout(timeout).build().unwrap();
        assert_eq!(config.in_flight_grace(), Some(grace * SECOND).filter(|grace| !grace.is_zero()), "{timeout:?}");
    }
}

// Reports and errors

/// A report of a call over a window that has counted this much before.
fn ended(config: Config, before: Counts, rng: &[u64], replies: &[Reply]) -> Report {
    let policy = Policy::new(config, Window::new());
    let (window, clock) = (policy.window(), ManualClock::new());
    for number in 0..before.requests {
        window.request(0);
        if number < before.accepts {
            window.answer(0, 0, true);
        }
    }
    for _ in 0..before.waiting {
        window.reserve(0, |_, _| true).unwrap();
    }
    let (mut call, mut rng, mut replies) = (Call::new(&policy), ScriptedRng::new(rng), replies.iter());
    loop {
        match call.next(clock.now(), &mut rng) {
            Step::Send { .. } => call.reply(clock.now(), *replies.next().unwrap()),
            Step::Wait(wait) => clock.sleep(wait),
            Step::Done(report) => return report,
        }
    }
}

fn counted(requests: u32, accepts: u32) -> Counts {
    Counts { requests, accepts, ..Counts::ZERO }
}

#[test]
fn a_report_reads_as_one_sentence() {
    let overload = Config::overload();
    let shadow = overload.to_builder().mode(Mode::Shadow).build().unwrap();
    let limits = Config::retrying().to_builder().deadline(ms(10)).max_retry_after(SECOND).build().unwrap();
    let waiting = Counts { waiting: 2, ..counted(9, 9) };
    let (often, never) = (&[u64::MAX; 9], &[0; 9]);
    let far = Reply::OVERLOADED.after(2 * SECOND);
    let one_attempt = overload.to_builder().max_attempts(1).build().unwrap();
    for (report, stop, text) in [
        (ended(overload, counted(0, 0), often, &[Reply::ACCEPTED]), "accepted", "accepted on the first attempt"),
        (
            ended(overload, counted(0, 0), often, &[Reply::OVERLOADED, Reply::ACCEPTED]),
            "accepted",
            "accepted on attempt 2",
        ),
        (
            ended(overload, counted(0, 0), often, &[Reply::OVERLOADED.once()]),
            "final",
            "not retried after 1 attempt: the reply must not be retried",
        ),
        (
            ended(one_attempt, counted(0, 0), often, &[Reply::OVERLOADED]),
            "attempts_spent",
            "not retried after 1 attempt: no more attempts are allowed",
        ),
        (
            ended(overload, counted(0, 0), often, &[Reply::OVERLOADED, Reply::OVERLOADED]),
            "budget",
            "not retried after 2 attempts: the retry budget is spent: 1 of the last 2 requests were retries",
        ),
        (
            ended(overload, waiting, often, &[Reply::OVERLOADED]),
            "budget",
            "not retried after 1 attempt: the retry budget is spent: 0 of the last 10 requests were retries, and 2 more \
             wait",
        ),
        (
            ended(overload, counted(9, 2), never, &[]),
            "throttled",
            "not sent: the backend accepted 2 of the last 9 requests (reject probability 0.50)",
        ),
        (
            ended(limits, counted(0, 0), often, &[Reply::OVERLOADED]),
            "deadline",
            "not retried after 1 attempt: the next attempt would start past the deadline",
        ),
        (
            ended(limits, counted(0, 0), often, &[far]),
            "retry_after",
            "not retried after 1 attempt: the server asks for a longer wait than is allowed",
        ),
        (
            ended(shadow, counted(9, 2), never, &[Reply::ACCEPTED]),
            "accepted",
            "accepted on the first attempt; sent in shadow mode although the backend accepted 2 of the last 9 requests \
             (reject probability 0.50)",
        ),
    ] {
        assert_eq!(report.to_string(), text);
        assert_eq!(report.stop.as_str(), stop);
        assert_eq!(report.is_refused(), report.attempts == 0);
    }
    let policy = Policy::new(overload, Window::new());
    let report = Call::new(&policy).abandon();
    assert_eq!((report.stop.as_str(), report.to_string().as_str()), ("abandoned", "not sent: the caller gave up"));
}

#[test]
fn a_report_has_a_probability_where_something_throttles() {
    let before = counted(9, 2);
    let often = &[u64::MAX; 3];
    let few = |number| Config::overload().to_builder().min_requests(number).build().unwrap();
    assert_eq!(ended(few(9), before, often, &[Reply::ACCEPTED]).reject_probability(), 0.5);
    assert_eq!(ended(few(10), before, often, &[Reply::ACCEPTED]).reject_probability(), 0.0);
    let unthrottled = Config::overload().to_builder().no_throttle().build().unwrap();
    assert_eq!(ended(unthrottled, before, often, &[Reply::ACCEPTED]).reject_probability(), 0.0);
}

#[test]
fn an_error_tells_what_became_of_the_call() {
    let never = ended(Config::overload(), counted(9, 2), &[0], &[]);
    let sent = ended(Config::overload(), counted(0, 0), &[u64::MAX; 3], &[Reply::OVERLOADED.once()]);
    let none: Option<Result<(), core::fmt::Error>> = None;

    let refused = never.resolve(none).unwrap_err();
    assert!(refused.is_refused() && refused.source().is_none());
    assert_eq!((refused.report(), refused.to_string()), (&never, never.to_string()));
    assert_eq!(refused.into_last(), None);
    let Error::Refused(refused) = refused else { panic!("{refused:?}") };
    assert_eq!((refused.report(), refused.to_string()), (&never, never.to_string()));
    assert!(Refused::source(&refused).is_none());

    let timed_out = sent.resolve(none).unwrap_err();
    assert!(!timed_out.is_refused() && timed_out.source().is_none());
    assert_eq!((timed_out.report(), timed_out.to_string()), (&sent, format!("timed out, {sent}")));
    assert_eq!(timed_out.into_last(), None);

    let failed = sent.resolve(Some(Err::<(), _>(core::fmt::Error))).unwrap_err();
    assert!(!failed.is_refused() && failed.source().is_some_and(|last| last.is::<core::fmt::Error>()));
    assert_eq!((failed.report(), failed.to_string()), (&sent, format!("{} ({sent})", core::fmt::Error)));
    assert_eq!(failed.into_last(), Some(core::fmt::Error));

    assert_eq!(never.resolve(Some(Ok::<_, ()>(7))), Ok(7), "what came is never thrown away");
}

// Policies

#[test]
fn a_policy_is_switched_while_it_runs() {
    for mode in [Mode::Enforce, Mode::Shadow, Mode::Off] {
        let policy = Policy::new(Config::overload().to_builder().mode(mode).build().unwrap(), Window::new());
        assert_eq!(policy.mode(), mode);
        for other in [Mode::Off, Mode::Shadow, Mode::Enforce] {
            policy.set_mode(other);
            assert_eq!(policy.mode(), other);
        }
        assert_eq!(policy.config().mode(), mode, "what it started in");
    }
}

#[test]
fn a_policy_tells_its_counts_and_what_they_stand_for() {
    let of = |config: Config| {
        let policy = Policy::new(config, Window::new());
        (0..9).for_each(|number| policy.window().answer(policy.window().request(100), 100, number < 2));
        policy.window().request(100);
        policy
    };
    let now = Instant::from_secs(100);
    let plain = of(Config::overload());
    assert_eq!(plain.counts(now), counted(10, 2));
    assert_eq!(plain.reject_probability(now), 6.0 / 11.0);
    assert_eq!(plain.reject_probability(Instant::from_secs(220)), 0.0, "all have left the window");

    // Judged without the one that is in flight.
    let builder = Config::overload().to_builder().in_flight_grace(SECOND);
    let patient = of(builder.min_requests(9).build().unwrap());
    assert_eq!(patient.counts(now), Counts { in_flight: 1, ..counted(10, 2) });
    assert_eq!(patient.reject_probability(now), 0.5);
    assert_eq!(of(builder.min_requests(10).build().unwrap()).reject_probability(now), 0.0);
    assert_eq!(of(builder.no_throttle().build().unwrap()).reject_probability(now), 0.0);

    assert!(
        format!("{plain:?}")
            .starts_with("Policy { config: Config { k: Some(K(2.0)), retry_ratio: Some(RetryRatio(0.1))")
    );
    assert!(format!("{plain:?}").contains("mode: Enforce"));
    assert_eq!(
        format!("{:?}", plain.window()),
        "Window { second: 220, requests: 0, accepts: 0, retries: 0, waiting: 0, .. }"
    );
}

#[test]
fn nothing_is_taken_back_from_a_second_that_is_empty_or_full() {
    let window = Window::<2, u16>::of_len();
    for _ in 0..70_000 {
        window.request(5);
    }
    window.withdraw(5);
    assert_eq!(window.counts(5).requests, u32::from(u16::MAX));
    window.counts(6);
    window.withdraw(6);
    assert_eq!(window.counts(6).requests, u32::from(u16::MAX));
    window.request(6);
    window.withdraw(6);
    window.withdraw(4);
    window.withdraw(7);
    assert_eq!((window.counts(6).requests, window.counts(7).requests), (u32::from(u16::MAX), 0));
}

#[cfg(target_has_atomic = "64")]
#[test]
fn a_lock_free_window_shows_where_it_is() {
    let window = forbear::AtomicWindow::new();
    window.request(7);
    window.reserve(7, |_, _| true).unwrap();
    assert_eq!(format!("{window:?}"), "AtomicWindow { second: 7, waiting: 1, .. }");
    assert_eq!(format!("{:?}", forbear::AtomicWindow::default()), "AtomicWindow { second: 0, waiting: 0, .. }");
}

#[test]
fn no_memory_remembers_nothing() {
    assert_eq!(
        (().request(5), ().retry(6), ().attempt(7, true), ().attempt(8, false)),
        (5, 6, (Counts::ZERO, 7), (Counts::ZERO, 8))
    );
    assert_eq!((().counts(5), ().in_flight(5, 7)), (Counts::ZERO, 0));
    assert_eq!(().reserve(5, |_, _| false), Ok(()));
    assert_eq!(().pace(|word| (word + 3, 9)), 3);
}

/// What a memory gets of an attempt that does not do better than the default.
#[test]
fn an_attempt_reads_and_then_counts_what_it_is() {
    #[derive(Default)]
    struct Asked(Cell<u32>);
    impl Tally for Asked {
        fn counts(&self, second: u64) -> Counts {
            Counts { accepts: second as u32, requests: self.0.get(), ..Counts::ZERO }
        }
        fn in_flight(&self, _: u64, _: u8) -> u32 {
            0
        }
        fn request(&self, second: u64) -> u64 {
            self.0.set(self.0.get() + 1);
            second + 1
        }
        fn retry(&self, second: u64) -> u64 {
            self.0.set(self.0.get() + 10);
            second + 2
        }
        fn refuse(&self, _: u64) {}
        fn answer(&self, _: u64, _: u64, _: bool) {}
        fn withdraw(&self, _: u64) {}
        fn reserve(&self, _: u64, _: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
            Ok(())
        }
        fn release(&self) {}
        fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T {
            change(0).0
        }
    }
    let asked = Asked::default();
    assert_eq!(asked.attempt(7, false), (counted(0, 7), 8));
    assert_eq!(asked.attempt(7, true), (counted(1, 7), 9));
    assert_eq!(asked.counts(7), counted(11, 7));
}

// The two clients

#[test]
fn an_overload_client_tells_every_end_apart() {
    let clock = ManualClock::new();
    let outcome = |config: Config, draws: &[u64], replies: &[Reply]| {
        let (mut client, mut replies) = (OverloadClient::new(&clock, ScriptedRng::new(draws), config), replies.iter());
        let outcome = client.call(|| *replies.next().unwrap());
        (outcome, client.requests(), client.accepts(), client.retries())
    };
    let overload = Config::overload();
    let often = &[u64::MAX; 9];
    let generous = overload.to_builder().retry_ratio(1.0).build().unwrap();
    assert_eq!(outcome(overload, often, &[Reply::ACCEPTED]), (Outcome::Ok, 1, 1, 0));
    assert_eq!(outcome(overload, often, &[Reply::OVERLOADED; 2]), (Outcome::Budget, 2, 0, 1));
    assert_eq!(outcome(overload, &[u64::MAX, 0], &[Reply::OVERLOADED]), (Outcome::Throttled, 2, 0, 1));
    assert_eq!(outcome(generous, often, &[Reply::OVERLOADED; 3]), (Outcome::Failed, 3, 0, 2));
    assert_eq!(outcome(overload, often, &[Reply::OVERLOADED.once()]), (Outcome::Failed, 1, 0, 0));
    // A backoff is nothing that it waits for.
    let backoff = overload.to_builder().backoff(Backoff::DEFAULT).build().unwrap();
    assert_eq!(outcome(backoff, often, &[Reply::OVERLOADED, Reply::ACCEPTED]), (Outcome::Ok, 2, 1, 1));
    assert_eq!(clock.now(), Instant::ORIGIN);
}

#[test]
fn an_overload_client_counts_in_the_window_that_it_is_given() {
    let clock = ManualClock::at(Instant::from_secs(5));
    let often = [u64::MAX; 9];
    let mut client =
        OverloadClient::with_window(&clock, ScriptedRng::new(&often), Config::overload(), Window::<2>::of_len());
    assert_eq!(client.call(|| Reply::OVERLOADED), Outcome::Budget);
    assert_eq!((client.requests(), client.retries(), client.reject_probability()), (2, 1, 2.0 / 3.0));
    assert_eq!(client.policy().counts(clock.now()), Counts { retries: 1, ..counted(2, 0) });
    clock.advance(2 * SECOND);
    assert_eq!((client.requests(), client.reject_probability()), (0, 0.0));
    client.policy().set_mode(Mode::Off);
    assert_eq!(client.call(|| Reply::ACCEPTED), Outcome::Ok);
    assert_eq!(client.requests(), 0);
}

#[test]
fn a_retrying_client_gives_back_the_last_reply_and_how_often_it_sent() {
    let (clock, draws) = (ManualClock::new(), [u64::MAX; 9]);
    let mut client = RetryingClient::new(&clock, ScriptedRng::new(&draws), Config::retrying());
    let sent = Cell::new(0);
    let mut call = |until: u32| {
        sent.set(0);
        let send = || sent.replace(sent.get() + 1) + 1;
        client.call(send, |number| if *number < until { Reply::OVERLOADED } else { Reply::ACCEPTED })
    };
    assert_eq!(call(1), Answer { reply: 1, attempts: 1 });
    assert_eq!(clock.now(), Instant::ORIGIN);
    assert_eq!(call(2), Answer { reply: 2, attempts: 2 });
    assert_eq!(clock.now(), Instant::from_millis(100));
    // No sleep after the last attempt.
    assert_eq!(call(9), Answer { reply: 3, attempts: 3 });
    assert_eq!(clock.now(), Instant::from_millis(100 + 100 + 200));
}

#[test]
fn the_helpers_of_tests_do_as_they_are_told() {
    let mut rng = ScriptedRng::new(&[0x0102_0304_0506_0708, 5 << 32]);
    let mut bytes = [0; 11];
    rng.fill_bytes(&mut bytes);
    assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]);
    assert_eq!((rng.drawn(), rng.next_u32(), rng.drawn()), (2, 5, 3));
    assert_eq!(ScriptedRng::new(&[]).next_u64(), 0);

    let clock = ManualClock::at(Instant::from_secs(3));
    clock.advance(SECOND);
    // By reference it is the same clock.
    let slept = |clock: &dyn Sleep| {
        Sleep::sleep(&clock, SECOND);
        (Clock::now(&clock), Clock::coarse(&clock))
    };
    assert_eq!(slept(&clock), (Instant::from_secs(5), Instant::from_secs(5)));
    assert_eq!((clock.now(), clock.coarse()), slept(&ManualClock::at(Instant::from_secs(4))));
    clock.set(Instant::from_secs(1));
    assert_eq!(clock.now(), Instant::from_secs(1));
}
