//! One call, step by step: what it may take, when it ends, and what it leaves behind when it is dropped.

use core::cell::Cell;
use core::convert::Infallible;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use forbear::rand_core::TryRng;
use forbear::testing::ScriptedRng;
use forbear::{
    Backoff, Call, Config, ConfigBuilder, Counts, Handle, Instant, Mode, Policy, Recovery, Reply, Report, Retry, Step,
    Stop, Tally, Window,
};

const SECOND: Duration = Duration::from_secs(1);
const START: Instant = Instant::from_secs(100);

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// So long after the start.
fn after(milliseconds: u64) -> Instant {
    START.saturating_add(ms(milliseconds))
}

fn policy(builder: ConfigBuilder) -> Policy {
    Policy::new(builder.build().unwrap(), Window::new())
}

/// The specification with retries that wait 100 ms and 200 ms, of which the budget allows any number.
fn generous() -> ConfigBuilder {
    Config::overload().to_builder().backoff(Backoff::DEFAULT).retry_ratio(10.0)
}

/// The largest draw: never throttled, the longest wait.
fn most() -> ScriptedRng<'static> {
    ScriptedRng::new(&[u64::MAX])
}

/// The next step, by the largest draw.
fn next<H: Handle>(call: &mut Call<H>, now: Instant) -> Step {
    call.next(now, &mut most())
}

fn send<H: Handle>(call: &mut Call<H>, now: Instant) -> Option<Duration> {
    match next(call, now) {
        Step::Send { within } => within,
        other => panic!("{other:?}"),
    }
}

fn end<H: Handle>(call: &mut Call<H>, now: Instant) -> Report {
    match next(call, now) {
        Step::Done(report) => report,
        other => panic!("{other:?}"),
    }
}

// What an attempt may take, and the limits of a call

#[test]
fn an_attempt_may_take_the_less_of_its_timeout_and_what_is_left() {
    let builder = Config::overload().to_builder().retry_ratio(10.0);
    let both = builder.attempt_timeout(ms(300)).deadline(ms(1_000));
    for (builder, first, second) in [
        (builder, None, None),
        (builder.attempt_timeout(ms(300)), Some(ms(300)), Some(ms(300))),
        (builder.deadline(ms(1_000)), Some(ms(1_000)), Some(ms(200))),
        (both, Some(ms(300)), Some(ms(200))),
    ] {
        let policy = policy(builder);
        let mut call = Call::new(&policy);
        assert_eq!(send(&mut call, START), first);
        call.reply(after(800), Reply::OVERLOADED);
        assert_eq!(send(&mut call, after(800)), second);
    }
}

#[test]
fn a_clock_that_steps_back_stands_still_at_the_latest_time_that_a_call_was_told() {
    let early = Instant::from_secs(7);
    // Told by the reply, and by what was asked after it.
    let builder = Config::overload().to_builder().retry_ratio(10.0).deadline(ms(1_000));
    for (replied, asked, left) in [(START, early, 1_000), (after(900), early, 100), (early, after(900), 100)] {
        let policy = policy(builder);
        let mut call = Call::new(&policy);
        send(&mut call, START);
        call.reply(replied, Reply::OVERLOADED);
        assert_eq!(send(&mut call, asked), Some(ms(left)));
    }
    let policy = policy(generous().deadline(ms(1_000)));
    // Told when the wait was asked for.
    let mut call = Call::new(&policy);
    send(&mut call, START);
    call.reply(START, Reply::OVERLOADED);
    assert_eq!(next(&mut call, after(700)), Step::Wait(ms(100)));
    assert_eq!(send(&mut call, early), Some(ms(300)));
    // And a wait is held against the deadline from there.
    let mut call = Call::new(&policy);
    send(&mut call, START);
    call.reply(after(950), Reply::OVERLOADED);
    assert_eq!(end(&mut call, early).stop, Stop::Deadline);
}

#[test]
fn a_wait_may_end_with_the_deadline_and_not_after_it() {
    for (deadline, stop) in [(150, None), (149, Some(Stop::Deadline))] {
        let policy = policy(generous().deadline(ms(deadline)));
        let mut call = Call::new(&policy);
        send(&mut call, START);
        call.reply(after(50), Reply::OVERLOADED);
        match (next(&mut call, after(50)), stop) {
            (Step::Wait(wait), None) => assert_eq!(wait, ms(100)),
            (Step::Done(report), Some(stop)) => assert_eq!((report.stop, report.attempts), (stop, 1)),
            (other, _) => panic!("{deadline}: {other:?}"),
        }
        assert_eq!(policy.counts(START).waiting, u32::from(stop.is_none()));
    }
    // A platform that woke it too late.
    for (woken, is_sent) in [(200, true), (201, false)] {
        let policy = policy(generous().deadline(ms(200)));
        let mut call = Call::new(&policy);
        send(&mut call, START);
        call.reply(START, Reply::OVERLOADED);
        assert_eq!(next(&mut call, START), Step::Wait(ms(100)));
        match next(&mut call, after(woken)) {
            Step::Send { within } => assert!(is_sent && within == Some(Duration::ZERO)),
            step => assert!(!is_sent && matches!(step, Step::Done(report) if report.stop == Stop::Deadline)),
        }
        assert_eq!((policy.counts(START).waiting, policy.counts(START).retries), (0, u32::from(is_sent)));
    }
}

#[test]
fn a_retry_without_a_wait_is_held_against_the_deadline_too() {
    for (now, is_sent) in [(200, true), (201, false)] {
        let policy = policy(Config::overload().to_builder().retry_ratio(10.0).deadline(ms(200)));
        let mut call = Call::new(&policy);
        send(&mut call, START);
        call.reply(after(now), Reply::OVERLOADED);
        assert_eq!(matches!(next(&mut call, after(now)), Step::Send { .. }), is_sent);
        assert_eq!(policy.counts(START).waiting, 0);
    }
    // The first attempt is never too late.
    let policy = policy(Config::overload().to_builder().deadline(ms(1)));
    assert_eq!(send(&mut Call::new(&policy), START), Some(ms(1)));
}

#[test]
fn a_server_may_ask_for_as_long_as_is_allowed() {
    for (asked, is_allowed) in [(1_000, true), (1_001, false)] {
        let policy = policy(generous().max_retry_after(SECOND));
        let mut call = Call::new(&policy);
        send(&mut call, START);
        call.reply(START, Reply::OVERLOADED.after(ms(asked)));
        match next(&mut call, START) {
            Step::Wait(wait) => assert!(is_allowed && wait == ms(asked)),
            step => assert!(!is_allowed && matches!(step, Step::Done(report) if report.stop == Stop::RetryAfter)),
        }
    }
}

#[test]
fn the_longest_wait_that_a_server_can_ask_for_is_a_wait() {
    for asked in [Duration::from_micros(u64::MAX - 2), Duration::from_micros(u64::MAX), Duration::MAX] {
        let policy = policy(generous());
        let mut call = Call::new(&policy);
        send(&mut call, START);
        call.reply(START, Reply::OVERLOADED.after(asked));
        assert_eq!(next(&mut call, START), Step::Wait(Duration::from_micros(u64::MAX - 2)), "{asked:?}");
    }
}

#[test]
fn jitter_on_top_of_what_a_server_asks_for_is_half_of_it_or_the_cap() {
    let waits = |builder: ConfigBuilder, asked: u64, draw: u64| {
        let policy = policy(builder.retry_after_jitter(true));
        let mut call = Call::new(&policy);
        send(&mut call, START);
        call.reply(START, Reply::OVERLOADED.after(ms(asked)));
        match call.next(START, &mut ScriptedRng::new(&[draw])) {
            Step::Wait(wait) => wait,
            other => panic!("{other:?}"),
        }
    };
    let plain = Config::overload().to_builder().retry_ratio(10.0);
    assert_eq!(waits(plain, 1_000, u64::MAX), ms(1_500));
    assert_eq!(waits(plain, 1_000, 1 << 63), ms(1_250));
    assert_eq!(waits(plain, 1_000, 0), ms(1_000));
    assert_eq!(waits(generous(), 1_000, u64::MAX), ms(1_500));
    assert_eq!(waits(generous(), 100, u64::MAX), ms(200), "the cap of the backoff is more than half");
}

#[test]
fn as_many_attempts_as_are_allowed() {
    for most in 1..=4 {
        let policy = policy(generous().no_backoff().max_attempts(most));
        let mut call = Call::new(&policy);
        for attempt in 1..=most {
            send(&mut call, START);
            assert_eq!(call.attempts(), attempt);
            call.reply(START, Reply::OVERLOADED);
        }
        let report = end(&mut call, START);
        assert_eq!((report.stop, report.attempts), (Stop::AttemptsSpent, most));
        assert_eq!(end(&mut call, after(5_000)), report, "the same again");
    }
    let policy = policy(generous());
    let mut once = Call::new(&policy).once();
    send(&mut once, START);
    once.reply(START, Reply::OVERLOADED);
    assert_eq!(end(&mut once, START).stop, Stop::AttemptsSpent);
}

#[test]
fn a_floor_of_retries_is_allowed_whatever_the_ratio_says() {
    let policy = policy(Config::overload().to_builder().retry_ratio(0.0).retry_floor(2).max_attempts(9));
    let mut call = Call::new(&policy);
    for _ in 0..3 {
        send(&mut call, START);
        call.reply(START, Reply::OVERLOADED);
    }
    let report = end(&mut call, START);
    assert_eq!((report.stop, report.attempts, report.counts.retries), (Stop::Budget, 3, 2));
    assert_eq!(report.counts, Counts { requests: 3, retries: 2, ..Counts::ZERO });
}

#[test]
fn a_spent_budget_tells_what_is_in_flight_where_there_is_a_grace() {
    let plain = Config::overload().to_builder().retry_ratio(0.0);
    for (builder, in_flight) in [(plain, 0), (plain.in_flight_grace(SECOND), 1)] {
        let policy = policy(builder);
        let (mut other, mut call) = (Call::new(&policy), Call::new(&policy));
        send(&mut other, START);
        send(&mut call, START);
        call.reply(START, Reply::OVERLOADED);
        let report = end(&mut call, START);
        assert_eq!((report.stop, report.counts.requests, report.counts.in_flight), (Stop::Budget, 2, in_flight));
    }
}

// Replies

#[test]
fn a_reply_counts_once_and_only_for_an_attempt_in_flight() {
    let policy = policy(Config::overload().to_builder());
    let mut call = Call::new(&policy);
    call.reply(START, Reply::ACCEPTED);
    assert_eq!((policy.counts(START), call.is_in_flight()), (Counts::ZERO, false));
    send(&mut call, START);
    assert!(call.is_in_flight());
    call.reply(START, Reply::TRANSIENT.once());
    assert!(!call.is_in_flight());
    call.reply(START, Reply::OVERLOADED);
    assert_eq!(policy.counts(START), Counts { requests: 1, accepts: 1, ..Counts::ZERO });
    assert_eq!(end(&mut call, START).stop, Stop::Accepted);
    call.reply(START, Reply::ACCEPTED);
    assert_eq!(policy.counts(START).accepts, 1);
}

#[test]
fn an_attempt_that_is_asked_past_got_no_answer() {
    let policy = policy(generous());
    let mut call = Call::new(&policy);
    send(&mut call, START);
    assert_eq!(next(&mut call, after(10)), Step::Wait(ms(100)));
    assert_eq!(policy.counts(START), Counts { requests: 1, waiting: 1, ..Counts::ZERO });
}

#[test]
fn every_answer_tells_the_window_the_time() {
    for reply in [Reply::OVERLOADED.once(), Reply::PERMANENT] {
        let policy = policy(Config::overload().to_builder());
        let mut call = Call::new(&policy);
        send(&mut call, START);
        call.reply(Instant::from_secs(300), reply);
        // What was asked at the start has left the window: the clock stands still, however early one asks.
        assert_eq!(policy.counts(START).requests, 0);
    }
}

#[test]
fn an_answer_of_any_kind_ends_what_is_in_flight() {
    for reply in [Reply::ACCEPTED, Reply::OVERLOADED.once(), Reply::UNREACHABLE] {
        let policy = policy(generous().in_flight_grace(SECOND));
        let mut call = Call::new(&policy);
        send(&mut call, START);
        assert_eq!(policy.counts(START).in_flight, 1);
        call.reply(START, reply);
        assert_eq!(policy.counts(START).in_flight, 0, "{reply:?}");
    }
}

#[test]
fn how_a_call_stands_is_told_when_it_is_abandoned() {
    let policy = policy(generous());
    let told = |reply: Option<Reply>| {
        let mut call = Call::new(&policy);
        send(&mut call, START);
        if let Some(reply) = reply {
            call.reply(START, reply);
        }
        let report = call.abandon();
        assert_eq!(report.attempts, 1);
        report.stop
    };
    assert_eq!(told(None), Stop::Abandoned);
    assert_eq!(told(Some(Reply::OVERLOADED)), Stop::Abandoned);
    assert_eq!(told(Some(Reply::OVERLOADED.once())), Stop::Final);
    assert_eq!(told(Some(Reply::PERMANENT)), Stop::Accepted);
    assert_eq!(told(Some(Reply::new(true, Retry::Backoff))), Stop::Abandoned);
    let call = Call::new(&policy);
    assert!(core::ptr::eq(*call.handle(), &policy));
    assert!(format!("{call:?}").contains("phase: New"), "{call:?}");
}

// What it leaves behind

#[test]
fn a_call_that_is_dropped_while_it_waits_gives_its_place_back() {
    let policy = policy(generous());
    let mut call = Call::new(&policy);
    send(&mut call, START);
    call.reply(START, Reply::OVERLOADED);
    assert_eq!(next(&mut call, START), Step::Wait(ms(100)));
    assert_eq!(policy.counts(START).waiting, 1);
    drop(call);
    assert_eq!(policy.counts(START), Counts { requests: 1, ..Counts::ZERO });
}

/// A policy with a clock.
struct Timed<'p>(&'p Policy, Instant);

impl Handle for Timed<'_> {
    type Tally = Window;
    type Settings = Config;
    fn policy(&self) -> &Policy {
        self.0
    }
    fn now(&self) -> Option<Instant> {
        Some(self.1)
    }
}

#[test]
fn an_attempt_is_forgotten_where_it_is_younger_than_the_grace_and_known_to_be() {
    let grace = || generous().in_flight_grace(SECOND);
    let left = |policy: &Policy, age: Option<u64>| {
        match age {
            Some(age) => {
                let handle = Timed(policy, after(age));
                // By reference a handle is as good.
                assert_eq!(Handle::now(&&handle), Some(after(age)));
                let mut call = Call::new(&handle);
                send(&mut call, START);
            }
            None => {
                let mut call = Call::new(policy);
                send(&mut call, START);
            }
        }
        policy.counts(START).requests
    };
    assert_eq!(left(&policy(grace()), Some(0)), 0);
    assert_eq!(left(&policy(grace()), Some(999)), 0);
    assert_eq!(left(&policy(grace()), Some(1_000)), 1);
    assert_eq!(left(&policy(grace()), None), 1);
    assert_eq!(left(&policy(generous()), Some(0)), 1);
    assert_eq!(left(&policy(grace().mode(Mode::Off)), Some(0)), 0);
    // One that was answered stays, and so does one that never was sent.
    let policy = policy(grace());
    let handle = Timed(&policy, START);
    let mut call = Call::new(&handle);
    send(&mut call, START);
    call.reply(START, Reply::ACCEPTED);
    drop(call);
    drop(Call::new(&handle));
    assert_eq!(policy.counts(START), Counts { requests: 1, accepts: 1, ..Counts::ZERO });
}

/// The word of the window that recovery keeps.
fn word(policy: &Policy) -> u64 {
    policy.window().pace(|word| (word, word))
}

#[test]
fn an_attempt_without_an_answer_slows_recovery_as_a_refused_one_does() {
    let fresh = word(&policy(generous().recovery(Recovery::DEFAULT)));
    let after_one = |builder: ConfigBuilder, answer: Option<Reply>| {
        let policy = policy(builder);
        let mut call = Call::new(&policy);
        send(&mut call, START);
        if let Some(answer) = answer {
            call.reply(START, answer);
        }
        drop(call);
        word(&policy)
    };
    let recovering = || generous().recovery(Recovery::DEFAULT);
    let refused = after_one(recovering(), Some(Reply::OVERLOADED.once()));
    assert!(refused < fresh);
    assert_eq!(after_one(recovering(), None), refused);
    assert_eq!(after_one(recovering(), Some(Reply::ACCEPTED)), fresh);
    assert_eq!(after_one(generous(), None), fresh, "nobody recovers");
    assert_eq!(after_one(generous(), Some(Reply::OVERLOADED.once())), fresh);
    assert_eq!(after_one(recovering().mode(Mode::Off), None), fresh, "nobody counts");
    assert_eq!(after_one(recovering().mode(Mode::Off), Some(Reply::OVERLOADED.once())), fresh);
    // What is forgotten is not held against the backend.
    let policy = policy(recovering().in_flight_grace(SECOND));
    send(&mut Call::new(Timed(&policy, START)), START);
    assert_eq!(word(&policy), fresh);
}

#[test]
fn recovery_knows_no_later_second_than_the_lock_free_window() {
    const LAST: u64 = (1 << 35) - 1;
    for (second, known) in [(7, 7), (LAST, LAST), (LAST + 1, LAST), (u64::MAX, LAST)] {
        let policy = policy(generous().recovery(Recovery::DEFAULT));
        (0..4).for_each(|_| _ = policy.window().request(second));
        send(&mut Call::new(&policy), Instant::from_secs(second));
        assert_eq!(word(&policy) >> 29, known);
    }
}

#[test]
fn recovery_waits_as_a_draw_of_its_own_says() {
    for jitter in [0, 1, 21, 31] {
        let policy = policy(generous().recovery(Recovery::DEFAULT));
        (0..4).for_each(|_| _ = policy.window().request(100));
        let draw = u64::MAX << 16 | jitter << 11;
        let _ = Call::new(&policy).next(START, &mut ScriptedRng::new(&[draw]));
        assert_eq!(word(&policy) >> 5 & 31, jitter);
    }
}

#[test]
fn an_extra_send_is_due_after_so_many_seconds_and_so_many_attempts() {
    let (middle, slowest) = (16 << 5, 0);
    for (second, since, is_due) in [(96, 7, true), (97, 7, false), (96, 6, false), (0, 100, true)] {
        let policy = policy(Config::overload().to_builder().recovery(Recovery::new(4, 8).unwrap()));
        (0..4).for_each(|_| _ = policy.window().request(100));
        policy.window().pace(|_| ((), (second << 19 | since) << 10 | middle | slowest));
        let step = Call::new(&policy).next(START, &mut ScriptedRng::new(&[0]));
        assert_eq!(matches!(step, Step::Send { .. }), is_due, "the last in {second}, and {since} since");
    }
}

#[test]
fn recovery_counts_the_attempts_since_the_last_send_up_to_its_end() {
    const LAST: u64 = (1 << 19) - 1;
    for (since, next) in [(0, 1), (LAST - 1, LAST), (LAST, LAST)] {
        let policy = policy(Config::overload().to_builder().recovery(Recovery::new(3_600, 1).unwrap()));
        (0..4).for_each(|_| _ = policy.window().request(100));
        // Sent in this second, and at the slowest since: nothing is due.
        policy.window().pace(|_| ((), (100 << 19 | since) << 10));
        assert!(matches!(Call::new(&policy).next(START, &mut ScriptedRng::new(&[0])), Step::Done(_)));
        assert_eq!((word(&policy) >> 29, word(&policy) >> 10 & LAST), (100, next));
    }
}

#[test]
fn a_generator_that_panics_leaves_the_counts_right() {
    struct Panics(Cell<u32>);
    impl TryRng for Panics {
        type Error = Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            unreachable!()
        }
        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            let left = self.0.get().checked_sub(1).expect("no more numbers");
            self.0.set(left);
            Ok(u64::MAX)
        }
        fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
            unreachable!()
        }
    }
    for (numbers, requests) in [(0, 1), (1, 1), (2, 2)] {
        let policy = policy(generous());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let (mut call, mut rng) = (Call::new(&policy), Panics(Cell::new(numbers)));
            loop {
                if let Step::Send { .. } = call.next(START, &mut rng) {
                    call.reply(START, Reply::OVERLOADED);
                }
            }
        }));
        assert!(panicked.is_err());
        let counts = policy.counts(START);
        assert_eq!((counts.requests, counts.waiting), (requests, 0), "{numbers} numbers");
    }
    // Asked past an attempt, which then got no answer: recovery is slowed once, and not once more as the call unwinds.
    let policy = policy(generous().recovery(Recovery::DEFAULT));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let (mut call, mut rng) = (Call::new(&policy), Panics(Cell::new(1)));
        assert!(matches!(call.next(START, &mut rng), Step::Send { .. }));
        call.next(START, &mut rng)
    }));
    assert!(panicked.is_err());
    assert_eq!(policy.counts(START), Counts { requests: 1, ..Counts::ZERO });
    let once = word(&policy);
    let policy = self::policy(generous().recovery(Recovery::DEFAULT));
    let mut call = Call::new(&policy);
    send(&mut call, START);
    call.reply(START, Reply::UNREACHABLE);
    assert_eq!(once, word(&policy));
}

// Modes

#[test]
fn shadow_mode_sends_what_would_be_refused_and_says_what_would_have_ended_it_first() {
    let policy = policy(Config::overload().to_builder().mode(Mode::Shadow));
    (0..4).for_each(|_| _ = policy.window().request(100));
    let mut call = Call::new(&policy);
    // The throttle would refuse the first, and the budget the second and the third.
    assert!(matches!(call.next(START, &mut ScriptedRng::new(&[0])), Step::Send { .. }));
    call.reply(START, Reply::OVERLOADED);
    send(&mut call, START);
    call.reply(START, Reply::OVERLOADED);
    send(&mut call, START);
    call.reply(START, Reply::ACCEPTED);
    let report = end(&mut call, START);
    assert_eq!((report.stop, report.attempts, report.shadow), (Stop::Accepted, 3, Some(Stop::Throttled)));
    assert_eq!(report.counts, Counts { requests: 4, ..Counts::ZERO }, "those that would have refused it");
    assert_eq!(policy.counts(START), Counts { requests: 7, accepts: 1, retries: 2, ..Counts::ZERO });

    // Where only the budget would have, that is told, with its counts.
    let policy = self::policy(Config::overload().to_builder().retry_ratio(0.0).mode(Mode::Shadow));
    let mut call = Call::new(&policy);
    send(&mut call, START);
    call.reply(START, Reply::OVERLOADED);
    send(&mut call, START);
    call.reply(START, Reply::ACCEPTED);
    let report = end(&mut call, START);
    assert_eq!((report.shadow, report.counts), (Some(Stop::Budget), Counts { requests: 1, ..Counts::ZERO }));
}

#[test]
fn nothing_is_counted_drawn_or_refused_while_the_mode_is_off() {
    let policy = policy(Config::overload().to_builder().retry_ratio(0.0).mode(Mode::Off));
    (0..9).for_each(|_| _ = policy.window().request(100));
    let (mut call, mut rng) = (Call::new(&policy), ScriptedRng::new(&[0]));
    for _ in 0..3 {
        assert!(matches!(call.next(START, &mut rng), Step::Send { .. }));
        call.reply(START, Reply::OVERLOADED);
    }
    assert_eq!(end(&mut call, START).stop, Stop::AttemptsSpent);
    assert_eq!((policy.counts(START).requests, rng.drawn()), (9, 0));
}

#[test]
fn a_mode_that_changes_under_a_waiting_retry_leaves_nothing_behind() {
    for (before, during) in [(Mode::Enforce, Mode::Off), (Mode::Off, Mode::Enforce)] {
        let policy = policy(generous().mode(before));
        let mut call = Call::new(&policy);
        send(&mut call, START);
        call.reply(START, Reply::OVERLOADED);
        assert_eq!(next(&mut call, START), Step::Wait(ms(100)));
        policy.set_mode(during);
        send(&mut call, after(100));
        call.reply(after(100), Reply::ACCEPTED);
        let on = u32::from(during == Mode::Enforce);
        let counts = policy.counts(START);
        assert_eq!((counts.requests, counts.accepts, counts.waiting), (1, on, 0));
        assert_eq!(counts.retries, 0, "a retry that was not decided as one is a request");
    }
}

// What the throttle judges by

#[test]
fn below_so_many_requests_nothing_is_throttled() {
    for (requests, is_refused) in [(4, false), (5, true)] {
        let policy = policy(Config::overload().to_builder().min_requests(5));
        (0..requests).for_each(|_| _ = policy.window().request(100));
        let step = Call::new(&policy).next(START, &mut ScriptedRng::new(&[0]));
        assert_eq!(matches!(step, Step::Done(report) if report.stop == Stop::Throttled), is_refused);
    }
}

#[test]
fn what_is_in_flight_is_not_held_against_the_backend_within_the_grace() {
    let refused = |policy: &Policy, now: Instant| matches!(Call::new(policy).next(now, &mut ScriptedRng::new(&[0])), Step::Done(report) if report.is_refused());
    let patient = policy(Config::overload().to_builder().in_flight_grace(SECOND));
    (0..9).for_each(|_| _ = patient.window().request(100));
    assert!(!refused(&patient, START));
    assert!(!refused(&patient, after(1_999)));
    assert!(refused(&patient, after(2_000)));
    // One that was refused here is not in flight.
    assert_eq!(patient.counts(after(2_000)).in_flight, 1, "of the two that were sent, the younger");
    assert!(refused(&policy_of_nine(), START));
}

fn policy_of_nine() -> Policy {
    let policy = policy(Config::overload().to_builder());
    (0..9).for_each(|_| _ = policy.window().request(100));
    policy
}

#[test]
fn exactly_one_number_is_drawn_for_each_attempt_of_a_throttled_client() {
    let drawn = |builder: ConfigBuilder| {
        let (policy, mut rng) = (policy(builder), most());
        let mut call = Call::new(&policy);
        assert!(matches!(call.next(START, &mut rng), Step::Send { .. }));
        rng.drawn()
    };
    assert_eq!(drawn(Config::overload().to_builder()), 1);
    assert_eq!(drawn(Config::resilient().to_builder()), 1);
    assert_eq!(drawn(Config::retrying().to_builder()), 0);
}

#[test]
fn recovery_sends_some_of_what_the_throttle_refuses_and_waits_longer_for_each_that_fails() {
    let policy = policy(Config::overload().to_builder().recovery(Recovery::DEFAULT));
    (0..1_000).for_each(|_| _ = policy.window().request(100));
    let sent_at = |second: u64| {
        let mut call = Call::new(&policy);
        match call.next(Instant::from_secs(second), &mut ScriptedRng::new(&[0])) {
            Step::Send { .. } => {
                call.reply(Instant::from_secs(second), Reply::OVERLOADED.once());
                true
            }
            Step::Done(report) => !report.is_refused(),
            Step::Wait(_) => unreachable!("there is no backoff"),
        }
    };
    let sent: Vec<u64> = (100..160).flat_map(|second| [second; 10]).filter(|second| sent_at(*second)).collect();
    assert!(sent.len() >= 10 && sent.len() <= 14, "{sent:?}");
    assert!(sent.windows(2).skip(6).all(|two| two[1] - two[0] >= 7), "{sent:?}");
}

/// A window that remembers what a call tells it beside its counts.
#[derive(Default)]
struct Told {
    window: Window,
    answers: Cell<u32>,
    looks_at_the_young: Cell<u32>,
}

impl Tally for Told {
    fn counts(&self, second: u64) -> Counts {
        self.window.counts(second)
    }
    fn in_flight(&self, second: u64, grace: u8) -> u32 {
        self.looks_at_the_young.set(self.looks_at_the_young.get() + 1);
        self.window.in_flight(second, grace)
    }
    fn request(&self, second: u64) -> u64 {
        self.window.request(second)
    }
    fn refuse(&self, asked: u64) {
        self.window.refuse(asked);
    }
    fn answer(&self, asked: u64, second: u64, accepted: bool) {
        self.answers.set(self.answers.get() + 1);
        self.window.answer(asked, second, accepted);
    }
    fn withdraw(&self, asked: u64) {
        self.window.withdraw(asked);
    }
    fn reserve(&self, second: u64, allowed: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
        self.window.reserve(second, allowed)
    }
    fn retry(&self, second: u64) -> u64 {
        self.window.retry(second)
    }
    fn release(&self) {
        self.window.release();
    }
    fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T {
        self.window.pace(change)
    }
}

/// Between threads each of these costs a lock or an exchange.
#[test]
fn a_window_is_told_and_asked_no_more_than_matters() {
    let told = |builder: ConfigBuilder, reply: Reply, later: u64| {
        let policy = Policy::new(builder.build().unwrap(), Told::default());
        let _ = policy.window().request(100);
        let mut call = Call::new(&policy).once();
        assert!(matches!(next(&mut call, START), Step::Send { .. }));
        call.reply(after(later), reply);
        (policy.window().answers.get(), policy.window().looks_at_the_young.get())
    };
    let plain = || Config::overload().to_builder();
    // An answer that is no accept matters to what is in flight, and to the time.
    assert_eq!(told(plain(), Reply::OVERLOADED, 0), (0, 0));
    assert_eq!(told(plain(), Reply::OVERLOADED, 1_000), (1, 0));
    assert_eq!(told(plain(), Reply::ACCEPTED, 0), (1, 0));
    assert_eq!(told(plain().in_flight_grace(SECOND), Reply::OVERLOADED, 0), (1, 1));
}
