//! Loops of the caller's own, on embassy-time's mock clock: asked out of turn, dropped and asked again, ended early.

mod mock;

use core::future::{pending, ready};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;

use embassy_time::Instant;
use forbear::testing::ScriptedRng;
use forbear::{Config, ConfigBuilder, Error, Reply, Stop};
use forbear_embassy::Client;

use crate::mock::{Api, HIGH, MS, api, clock, counts, pass, poll};

/// Whether it is ready to send, without waiting.
macro_rules! is_ready {
    ($call:ident) => {
        poll(pin!($call.ready())) == Poll::Ready(true)
    };
}

/// How a call ends that has nothing to show.
macro_rules! ends {
    ($call:ident) => {{
        let report = *$call.finish(None::<Result<(), ()>>).unwrap_err().report();
        (report.stop, report.attempts)
    }};
}

#[test]
fn a_wait_that_is_dropped_goes_on_when_it_is_asked_again() {
    let _clock = clock();
    let api = api(|builder| builder);
    let mut call = api.begin();
    assert!(is_ready!(call));
    call.reply(Reply::OVERLOADED.after(MS(500)));
    for _ in 0..5 {
        assert!(poll(pin!(call.ready())).is_pending());
        pass(MS(100));
    }
    pass(Duration::from_micros(2));
    assert!(is_ready!(call));
    assert_eq!(call.finish(Some(Ok::<_, ()>(7))), Ok(7));
}

#[test]
fn what_is_in_flight_when_it_is_asked_on_got_no_answer() {
    let _clock = clock();
    let api = api(|builder| builder.max_attempts(2).attempt_timeout(MS(1_500)));
    let mut call = api.begin();
    assert!(is_ready!(call));
    assert!(call.cut().is_some());
    // The time for the attempt is not up, and nobody waits for it.
    assert!(poll(pin!(call.ready())).is_pending());
    assert_eq!(counts(&api), (1, 0, 0, 1));
    pass(MS(101));
    assert!(is_ready!(call));
    assert_eq!(poll(pin!(call.ready())), Poll::Ready(false));
    assert_eq!(ends!(call), (Stop::AttemptsSpent, 2));
    assert_eq!(counts(&api), (2, 0, 1, 0));
}

#[test]
fn an_attempt_that_is_given_up_may_be_told_as_the_caller_knows_it() {
    let _clock = clock();
    let api = api(|builder| builder.attempt_timeout(MS(1_500)));
    let mut call = api.begin();
    assert!(is_ready!(call));
    assert!(poll(pin!(call.limit(pin!(pending::<()>())))).is_pending());
    // Its future is gone, as by `select`; that the backend had taken it is the caller's to know.
    call.reply(Reply::ACCEPTED);
    assert_eq!(poll(pin!(call.ready())), Poll::Ready(false));
    assert_eq!(ends!(call), (Stop::Accepted, 1));
    assert_eq!(counts(&api), (1, 1, 0, 0));
}

#[test]
fn only_the_first_reply_to_an_attempt_counts() {
    let _clock = clock();
    let api = api(|builder| builder);
    let mut call = api.begin();
    call.reply(Reply::ACCEPTED); // to nothing
    assert_eq!(counts(&api), (0, 0, 0, 0));
    assert!(is_ready!(call));
    call.reply(Reply::OVERLOADED.after(MS(500)));
    call.reply(Reply::ACCEPTED);
    call.reply(Reply::OVERLOADED);
    assert_eq!(counts(&api), (1, 0, 0, 0));
    assert!(poll(pin!(call.ready())).is_pending());
    call.reply(Reply::ACCEPTED); // while it waits
    pass(MS(499));
    assert!(poll(pin!(call.ready())).is_pending(), "it waits as the first reply said");
    pass(MS(2));
    assert!(is_ready!(call));
    call.reply(Reply::ACCEPTED);
    assert_eq!(poll(pin!(call.ready())), Poll::Ready(false));
    call.reply(Reply::ACCEPTED); // after the end
    assert_eq!(poll(pin!(call.ready())), Poll::Ready(false), "over is over");
    assert_eq!(counts(&api), (2, 1, 1, 0));
}

#[test]
fn finished_early_a_call_is_settled_as_one_that_is_dropped() {
    let _clock = clock();
    let api = api(ConfigBuilder::no_in_flight_grace);
    let call = api.begin();
    let Err(Error::Refused(refused)) = call.finish(None::<Result<(), ()>>) else { panic!("sent") };
    assert_eq!((refused.report().stop, counts(&api)), (Stop::Abandoned, (0, 0, 0, 0)));

    let mut call = api.begin();
    assert!(is_ready!(call));
    assert_eq!(ends!(call), (Stop::Abandoned, 1));
    assert_eq!(counts(&api), (1, 0, 0, 0), "in flight");

    let mut call = api.begin();
    assert!(is_ready!(call));
    call.reply(Reply::OVERLOADED);
    assert!(poll(pin!(call.ready())).is_pending());
    assert_eq!(counts(&api), (2, 0, 0, 1));
    let Err(Error::Failed { last, report }) = call.finish(Some(Err::<(), _>("503"))) else { panic!("no last error") };
    assert_eq!((last, report.stop, counts(&api)), ("503", Stop::Abandoned, (2, 0, 0, 0)));
}

#[test]
fn when_it_is_due_and_when_it_is_cut_is_told() {
    let _clock = clock();
    let api = api(|builder| builder.attempt_timeout(MS(1_500)));
    let mut call = api.begin();
    assert_eq!((call.due(), call.cut()), (None, None));
    // Nothing is in flight, so nothing is limited.
    assert_eq!(poll(pin!(call.limit(ready(1)))), Poll::Ready(Some(1)));
    assert!(is_ready!(call));
    assert_eq!((call.due(), call.cut()), (None, Some(Instant::from_micros(1_500_002))));
    call.reply(Reply::OVERLOADED);
    assert_eq!((call.due(), call.cut()), (None, None));
    assert!(poll(pin!(call.ready())).is_pending());
    assert_eq!(call.cut(), None);
    let due = call.due().expect("it waits");
    assert!((100_000..=100_002).contains(&due.as_micros()), "{due}");
    pass(MS(101));
    assert!(is_ready!(call));
    call.reply(Reply::ACCEPTED);
    assert_eq!(poll(pin!(call.ready())), Poll::Ready(false));
    assert_eq!((call.due(), call.cut()), (None, None));
}

#[test]
fn without_a_limit_nothing_is_cut() {
    let _clock = clock();
    let api: Api = Client::new(Config::overload(), ScriptedRng::new(HIGH));
    let mut call = api.begin();
    assert!(is_ready!(call));
    assert_eq!(call.cut(), None);
    let send = pin!(pending::<()>());
    let mut send = call.limit(send);
    // Up to the last tick that there is.
    pass(Duration::from_micros(u64::MAX - 1));
    pass(Duration::from_micros(1));
    assert!(poll(Pin::new(&mut send)).is_pending());
}

#[test]
fn what_was_cut_stays_cut() {
    let _clock = clock();
    let api = api(|builder| builder.attempt_timeout(MS(1_500)));
    let mut call = api.begin();
    assert!(is_ready!(call));
    let send = pin!(pending::<()>());
    let mut send = call.limit(send);
    pass(MS(1_501));
    for _ in 0..3 {
        assert_eq!(poll(Pin::new(&mut send)), Poll::Ready(None));
    }
}

#[test]
fn what_must_not_be_repeated_is_sent_once() {
    let _clock = clock();
    let api = api(|builder| builder);
    let mut call = api.begin().once();
    assert!(is_ready!(call));
    call.reply(Reply::OVERLOADED);
    assert_eq!(poll(pin!(call.ready())), Poll::Ready(false));
    assert_eq!(ends!(call), (Stop::AttemptsSpent, 1));
}

#[test]
fn at_the_end_of_time_nothing_is_due_and_nothing_breaks() {
    let _clock = clock();
    // The last tick but one: from here on the timer holds no wait.
    pass(Duration::from_micros(u64::MAX - 1));
    let api = api(|builder| builder.attempt_timeout(MS(1_500)));
    let mut call = api.begin();
    assert!(is_ready!(call));
    assert_eq!(call.cut(), None);
    call.reply(Reply::OVERLOADED);
    assert!(poll(pin!(call.ready())).is_pending());
    assert_eq!(call.due(), Some(Instant::MAX));
    assert_eq!(counts(&api), (1, 0, 0, 1));
}

#[test]
fn what_it_is_can_be_seen() {
    let _clock = clock();
    let api = api(|builder| builder);
    let (client, call) = (format!("{api:?}"), format!("{:?}", api.begin()));
    assert!(client.starts_with("Client { policy: Policy {") && client.contains("max_attempts: 3"), "{client}");
    assert!(call.starts_with("Attempts { call: Call {"), "{call}");
}

#[test]
fn what_is_young_and_in_flight_is_not_held_against_the_backend() {
    let _clock = clock();
    let young: fn(ConfigBuilder) -> ConfigBuilder = |builder| builder.in_flight_grace(MS(1_000));
    for (change, ready) in [(young, 20), (ConfigBuilder::no_in_flight_grace, 3)] {
        // The lowest draws: refused is whatever can be.
        let builder = Config::overload().to_builder().min_requests(3);
        let api: Api = Client::new(change(builder).build().unwrap(), ScriptedRng::new(&[0]));
        let mut calls: Vec<_> = (0..20).map(|_| api.begin()).collect();
        let sent = calls.iter_mut().filter_map(|call| is_ready!(call).then_some(())).count();
        assert_eq!(sent, ready);
    }
}
