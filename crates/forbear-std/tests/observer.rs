//! What an observer is told of: every call's end, that of a loop which the caller leaves included.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::thread;

use forbear::testing::ScriptedRng;
use forbear::{AtomicWindow, Clock, Instant, Sleep};
use forbear_std::{Client, Config, Error, LockedRng, Reply, Report, Stop, ThreadRng};

/// A clock of its own that a wait moves on.
#[derive(Default)]
struct Waited(AtomicU64);

impl Clock for Waited {
    fn now(&self) -> Instant {
        Instant::from_micros(self.0.load(Relaxed))
    }
}

impl Sleep for Waited {
    fn sleep(&self, delay: Duration) {
        self.0.fetch_add(delay.as_micros() as u64, Relaxed);
    }
}

type Told = Arc<Mutex<Vec<(Stop, u32)>>>;

/// A client that neither throttles nor saves retries, and what it was told.
fn client() -> (Client<Waited, ThreadRng, AtomicWindow>, Told) {
    let config = Config::resilient().to_builder().no_throttle().no_budget().build().unwrap();
    let told = Told::default();
    let observer = {
        let told = told.clone();
        move |report: &Report| told.lock().unwrap().push((report.stop, report.attempts))
    };
    (Client::with(Waited::default(), ThreadRng, config, AtomicWindow::new()).observed(observer), told)
}

const NONE: Option<Result<(), ()>> = None;

#[test]
fn calls_and_loops_are_told_once() {
    let (client, told) = client();
    client.call(|| Ok::<_, ()>(()), |_| Reply::ACCEPTED).unwrap();
    client.call(|| Err::<(), _>(()), |_| Reply::OVERLOADED).unwrap_err();

    let mut over = client.begin();
    while over.ready() {
        over.reply(Reply::OVERLOADED);
    }
    assert!(!over.ready());
    over.reply(Reply::ACCEPTED); // too late
    assert!(matches!(over.finish(NONE), Err(Error::TimedOut(report)) if report.attempts == 3));

    let mut dropped_when_over = client.begin();
    assert!(dropped_when_over.ready());
    dropped_when_over.reply(Reply::PERMANENT);
    assert!(!dropped_when_over.ready());
    drop(dropped_when_over);

    let expected = [(Stop::Accepted, 1), (Stop::AttemptsSpent, 3), (Stop::AttemptsSpent, 3), (Stop::Accepted, 1)];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[test]
fn a_call_that_is_never_sent_is_told() {
    let told = Told::default();
    let observer = {
        let told = told.clone();
        move |report: &Report| told.lock().unwrap().push((report.stop, report.attempts))
    };
    let config = Config::overload().to_builder().max_attempts(1).build().unwrap();
    // The lowest draws: whatever may be refused is.
    let rng = LockedRng::new(ScriptedRng::new(&[0]));
    let client = Client::with(Waited::default(), rng, config, AtomicWindow::new()).observed(observer);
    client.call(|| Err::<(), _>(()), |_| Reply::OVERLOADED).unwrap_err();
    assert!(client.call(|| Err::<(), _>(()), |_| Reply::OVERLOADED).unwrap_err().is_refused());
    let mut call = client.begin();
    assert!(!call.ready());
    assert!(call.finish(NONE).unwrap_err().is_refused());
    assert_eq!(*told.lock().unwrap(), [(Stop::AttemptsSpent, 1), (Stop::Throttled, 0), (Stop::Throttled, 0)]);
}

#[test]
fn a_loop_that_is_left_is_told() {
    let (client, told) = client();
    let mut in_flight = client.begin();
    assert!(in_flight.ready());
    drop(in_flight);

    let mut replied = client.begin();
    assert!(replied.ready());
    replied.reply(Reply::ACCEPTED);
    drop(replied);

    let mut retrying = client.begin();
    assert!(retrying.ready());
    retrying.reply(Reply::OVERLOADED);
    assert!(retrying.ready());
    drop(retrying);

    let mut finished = client.begin();
    assert!(finished.ready());
    let _ = finished.finish(NONE);

    let expected = [(Stop::Abandoned, 1), (Stop::Accepted, 1), (Stop::Abandoned, 2), (Stop::Abandoned, 1)];
    assert_eq!(*told.lock().unwrap(), expected);
    // The counts are settled as ever: within the grace, what was in flight was not sent.
    let counts = client.counts();
    assert_eq!((counts.requests, counts.accepts, counts.retries, counts.waiting), (2, 1, 1, 0));
}

#[test]
fn a_loop_that_was_never_asked_has_not_begun() {
    let (client, told) = client();
    drop(client.begin());
    assert_eq!(*told.lock().unwrap(), []);

    let error = client.begin().finish(NONE).unwrap_err();
    assert!(error.is_refused());
    assert_eq!(error.report().to_string(), "not sent: the caller gave up");
    assert_eq!(*told.lock().unwrap(), [(Stop::Abandoned, 0)]);
    assert_eq!(client.requests(), 0);
}

#[test]
fn an_observer_that_panics_does_not_end_the_process() {
    let (client, told) = client();
    let client = client.observed(|_: &Report| panic!("an observer fails"));
    let unwinds = |left: fn(&Client<Waited, ThreadRng, AtomicWindow>)| {
        let client = client.clone();
        thread::spawn(move || left(&client)).join().is_err()
    };
    assert!(unwinds(|client| {
        let mut call = client.begin();
        assert!(call.ready());
    }));
    assert!(unwinds(|client| {
        let mut call = client.begin();
        assert!(call.ready());
        panic!("a caller fails");
    }));
    assert!(unwinds(|client| {
        let mut call = client.begin();
        assert!(call.ready());
        call.reply(Reply::PERMANENT);
        call.ready();
    }));
    let expected = [(Stop::Abandoned, 1), (Stop::Abandoned, 1), (Stop::Accepted, 1)];
    assert_eq!(*told.lock().unwrap(), expected);
}
