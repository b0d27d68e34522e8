//! What `Config::resilient()` is for: fresh clients, backends that hang, and quiet clients.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Barrier};
use std::thread;

use forbear::testing::ScriptedRng;
use forbear::{AtomicWindow, Call, Clock, Handle, Instant, Sleep, Step, Tally};
use forbear_std::{Client, Config, LockedRng, LockedWindow, Reply, ThreadRng};

/// A clock that is set by hand, shared by threads.
#[derive(Clone, Default)]
struct SharedClock(Arc<AtomicU64>);

impl SharedClock {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_micros() as u64, Relaxed);
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Instant {
        Instant::from_micros(self.0.load(Relaxed))
    }
}

impl Sleep for SharedClock {
    fn sleep(&self, delay: Duration) {
        self.advance(delay);
    }
}

fn on<W: Tally>(window: W, config: Config) -> (SharedClock, Client<SharedClock, ThreadRng, W>) {
    let clock = SharedClock::default();
    (clock.clone(), Client::with(clock, ThreadRng, config, window))
}

/// How many of a hundred threads are refused whose calls run all at once on a fresh client and a healthy backend.
fn refused_at_the_start<W: Tally + Send + Sync + 'static>(window: W, config: Config) -> usize {
    let (_, client) = on(window, config);
    let (started, barrier) = (Arc::new(Barrier::new(100)), Arc::new(Barrier::new(100)));
    let threads: Vec<_> = (0..100)
        .map(|_| {
            let (client, started, barrier) = (client.clone(), started.clone(), barrier.clone());
            thread::spawn(move || {
                started.wait();
                let mut sent = false;
                let result = client.call(
                    || {
                        sent = true;
                        barrier.wait(); // no answer until all hundred are sent, or refused
                        Ok::<_, ()>(())
                    },
                    |_| Reply::ACCEPTED,
                );
                if !sent {
                    barrier.wait();
                }
                result.is_err()
            })
        })
        .collect();
    threads.into_iter().filter_map(|thread| thread.join().unwrap().then_some(())).count()
}

#[test]
fn a_hundred_first_calls_at_once_are_all_sent() {
    assert_eq!(refused_at_the_start(AtomicWindow::new(), Config::resilient()), 0);
    assert_eq!(refused_at_the_start(LockedWindow::<120>::new(), Config::resilient()), 0);
}

#[test]
fn without_the_grace_most_of_them_are_refused() {
    let config = Config::resilient().to_builder().no_in_flight_grace().no_recovery().build().unwrap();
    assert!(refused_at_the_start(AtomicWindow::new(), config) > 50);
}

/// p after each second of a hundred calls that get no answer, ten a second.
fn p_while_hanging<W: Tally>(window: W) -> Vec<f64> {
    let (clock, client) = on(window, Config::resilient());
    let mut calls = Vec::new();
    (0..10)
        .map(|_| {
            for _ in 0..10 {
                let mut call = Call::new(&client);
                let _ = call.next(client.time(), &mut ThreadRng);
                calls.push(call);
                clock.advance(Duration::from_millis(100));
            }
            client.reject_probability()
        })
        .collect()
}

#[test]
fn a_backend_that_hangs_is_noticed_before_a_timeout_of_five_seconds() {
    for p in [p_while_hanging(AtomicWindow::new()), p_while_hanging(LockedWindow::<120>::new())] {
        assert_eq!(p[0], 0.0, "within the grace: {p:?}");
        assert!(p[3] > 0.9, "past it: {p:?}");
    }
}

#[test]
fn calls_that_hang_all_at_once_are_throttled() {
    fn sent<W: Tally>(window: W) -> usize {
        let (clock, client) = on(window, Config::resilient());
        let mut calls = Vec::new();
        for _ in 0..5_000 {
            let mut call = Call::new(&client);
            if let Step::Send { .. } = call.next(client.time(), &mut ThreadRng) {
                calls.push(call);
            }
            clock.advance(Duration::from_millis(10));
        }
        calls.len()
    }
    // Two seconds of a hundred calls within the grace, what the formula lets through, and the six that a fresh client has
    // in hand.
    for sent in [sent(AtomicWindow::new()), sent(LockedWindow::<120>::new())] {
        assert!((100..400).contains(&sent), "{sent} of 5000 were sent");
    }
}

#[test]
fn calls_that_hang_under_a_timeout_of_the_callers_are_throttled() {
    fn sent<W: Tally>(window: W) -> u32 {
        let (clock, client) = on(window, Config::resilient());
        let mut sent = 0;
        for _ in 0..1_000 {
            let mut call = Call::new(&client);
            if let Step::Send { .. } = call.next(client.time(), &mut ThreadRng) {
                sent += 1;
                clock.advance(Duration::from_secs(2)); // the caller's patience
            } else {
                clock.advance(Duration::from_millis(20));
            }
            drop(call); // without a reply
        }
        sent
    }
    // One in ten seconds is what the recovery lets through.
    for sent in [sent(AtomicWindow::new()), sent(LockedWindow::<120>::new())] {
        assert!((2..50).contains(&sent), "{sent} of 1000 were sent");
    }
}

#[test]
fn calls_dropped_within_the_grace_are_not_held_against_the_backend() {
    let (clock, client) = on(AtomicWindow::new(), Config::resilient());
    for _ in 0..1_000 {
        let mut call = Call::new(&client);
        assert!(matches!(call.next(client.time(), &mut ThreadRng), Step::Send { .. }));
        clock.advance(Duration::from_millis(900));
    }
    assert_eq!((client.requests(), client.reject_probability()), (0, 0.0));
}

#[test]
fn a_quiet_client_is_not_throttled_by_one_failure_and_may_retry_it() {
    /// A call each so many seconds, of which each tenth fails once. Whatever may be refused is, by draws of nothing.
    fn quiet<W: Tally>(window: W, config: Config, seconds: u64) {
        let clock = SharedClock::default();
        let client = Client::with(clock.clone(), LockedRng::new(ScriptedRng::new(&[0])), config, window);
        for call in 0..200 {
            let mut sends = 0;
            let result = client.call(
                || {
                    sends += 1;
                    if call % 10 == 0 && sends == 1 { Err(()) } else { Ok(()) }
                },
                |result| if result.is_ok() { Reply::ACCEPTED } else { Reply::OVERLOADED },
            );
            assert!(result.is_ok(), "call {call}");
            assert_eq!(sends, if call % 10 == 0 { 2 } else { 1 }, "call {call}");
            clock.advance(Duration::from_secs(seconds));
        }
    }
    // Not by grace of the recovery either, which trusts a fresh client's backend.
    for config in [Config::resilient(), Config::resilient().to_builder().no_recovery().build().unwrap()] {
        for seconds in [60, 300] {
            quiet(AtomicWindow::new(), config, seconds);
            quiet(LockedWindow::<120>::new(), config, seconds);
        }
    }
}

#[test]
fn a_send_that_panics_stays_counted_and_the_client_usable() {
    let (_, client) = on(AtomicWindow::new(), Config::overload());
    let panicking = client.clone();
    let panicked =
        thread::spawn(move || panicking.call(|| -> Result<(), ()> { panic!("a send fails") }, |_| Reply::ACCEPTED));
    assert!(panicked.join().is_err());
    assert_eq!((client.requests(), client.accepts(), client.policy().counts(client.time()).waiting), (1, 0, 0));
    assert!(client.begin().ready() || client.requests() == 2);
}

/// A clock whose coarse reading lags by five milliseconds.
#[derive(Clone, Default)]
struct LaggingClock(SharedClock);

impl Clock for LaggingClock {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn coarse(&self) -> Instant {
        Instant::from_micros(self.0.0.load(Relaxed).saturating_sub(5_000))
    }
}

impl Sleep for LaggingClock {
    fn sleep(&self, delay: Duration) {
        self.0.sleep(delay);
    }
}

#[test]
fn a_deadline_is_held_by_the_exact_clock() {
    for (takes, sent) in [(99, 3), (101, 1)] {
        let config = Config::overload().to_builder().retry_ratio(10.0).no_throttle();
        let config = config.deadline(Duration::from_millis(100)).build().unwrap();
        let clock = LaggingClock::default();
        let client = Client::with(clock.clone(), ThreadRng, config, AtomicWindow::new());
        let mut sends = 0;
        let send = || {
            if sends == 0 {
                clock.sleep(Duration::from_millis(takes));
            }
            sends += 1;
            Err::<(), _>(())
        };
        client.call(send, |_| Reply::OVERLOADED).unwrap_err();
        assert_eq!(sends, sent, "the first send takes {takes} ms");
    }
}

#[test]
fn what_is_dropped_is_as_old_as_the_exact_clock_says() {
    let config = Config::overload().to_builder().in_flight_grace(Duration::from_secs(1)).build().unwrap();
    for (age, requests) in [(994, 0), (1_000, 1)] {
        let clock = LaggingClock::default();
        clock.sleep(Duration::from_secs(9));
        let client = Client::with(clock.clone(), ThreadRng, config, AtomicWindow::new());
        let mut call = Call::new(&client);
        assert!(matches!(call.next(clock.now(), &mut ThreadRng), Step::Send { .. }));
        clock.sleep(Duration::from_millis(age));
        drop(call);
        assert_eq!(client.requests(), requests, "dropped after {age} ms");
    }
}
