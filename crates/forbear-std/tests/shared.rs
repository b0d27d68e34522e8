//! One client in many hands: clones, calls within calls, and callers of every kind that panic.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};
use std::thread;

use forbear::{AtomicWindow, Clock, Counts, Instant, Sleep, Tally};
use forbear_std::{Attempts, Client, Config, LockedRng, LockedWindow, Mode, Reply, Report, SystemClock, ThreadRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// A clock that is set by hand, shared by threads. A wait moves it on, or panics.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>, bool);

impl Hand {
    fn set(&self, second: u64) {
        self.0.store(second * 1_000_000, Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Instant {
        Instant::from_micros(self.0.load(Relaxed))
    }
}

impl Sleep for Hand {
    fn sleep(&self, delay: Duration) {
        assert!(!self.1, "a wait fails");
        self.0.fetch_add(delay.as_micros() as u64, Relaxed);
    }
}

fn is_shared<T: Clone + Send + Sync + 'static>() {}
fn is_sent<T: Send>() {}

#[test]
fn a_client_may_go_wherever_its_parts_may() {
    is_shared::<Client>();
    is_shared::<Client<Hand, ThreadRng, AtomicWindow<1>>>();
    is_shared::<Client<Hand, ThreadRng, LockedWindow<3600>>>();
    is_shared::<Client<Hand, LockedRng<Xoshiro256PlusPlus>, AtomicWindow>>();
    is_sent::<Attempts<'_, SystemClock, ThreadRng, AtomicWindow>>();
}

#[test]
fn no_two_calls_of_a_generator_that_is_handed_in_wait_alike() {
    /// Keeps what it was asked to sleep.
    #[derive(Clone, Default)]
    struct Sleeps(Arc<Mutex<Vec<Duration>>>);
    impl Clock for Sleeps {
        fn now(&self) -> Instant {
            Instant::ORIGIN
        }
    }
    impl Sleep for Sleeps {
        fn sleep(&self, delay: Duration) {
            self.0.lock().unwrap().push(delay);
        }
    }
    let config = Config::retrying().to_builder().max_attempts(8).build().unwrap();
    let (sleeps, rng) = (Sleeps::default(), LockedRng::new(Xoshiro256PlusPlus::seed_from_u64(1)));
    let first = Client::with(sleeps.clone(), rng.clone(), config, AtomicWindow::new());
    let second = Client::with(sleeps.clone(), rng, config, AtomicWindow::new());
    let mut all = Vec::new();
    for client in [&first, &first, &first.clone(), &second] {
        client.call(|| Err::<(), _>(()), |_| Reply::OVERLOADED).unwrap_err();
        all.push(sleeps.0.lock().unwrap().split_off(0));
        let mut call = client.begin();
        while call.ready() {
            call.reply(Reply::OVERLOADED);
        }
        all.push(sleeps.0.lock().unwrap().split_off(0));
    }
    for (at, waits) in all.iter().enumerate() {
        assert_eq!(waits.len(), 7);
        assert!(!all[..at].contains(waits), "{all:?}");
    }
}

#[test]
fn clones_share_counts_budget_and_mode() {
    fn share<W: Tally + Send + Sync + 'static>(window: W) {
        let config = Config::resilient().to_builder().no_throttle().no_backoff().max_attempts(2).build().unwrap();
        let client = Client::with(Hand::default(), ThreadRng, config, window);
        let clone = client.clone();
        // Ten requests of the clone's thread pay for the retry of this one's, and then none is left.
        thread::spawn(move || (0..10).for_each(|_| clone.call(|| Ok::<_, ()>(()), |_| Reply::ACCEPTED).unwrap()))
            .join()
            .unwrap();
        assert_eq!((client.requests(), client.accepts()), (10, 10));
        let fails = |client: &Client<_, _, _>| client.call(|| Err::<(), _>(()), |_| Reply::OVERLOADED).unwrap_err();
        assert_eq!(fails(&client).report().attempts, 2);
        let other = client.clone();
        assert_eq!(fails(&other).report().attempts, 2, "2 of 12, of which 1 is a retry");
        assert_eq!(fails(&client).report().attempts, 1, "2 of 14 are retries");
        assert_eq!((client.counts(), client.retries()), (other.counts(), 2));
        other.set_mode(Mode::Off);
        assert_eq!((client.mode(), client.clone().mode()), (Mode::Off, Mode::Off));
    }
    share(AtomicWindow::new());
    share(LockedWindow::<120>::new());
}

#[test]
fn a_client_may_be_called_and_read_within_its_own_call() {
    fn within<W: Tally + Send + Sync + 'static>(window: W) {
        let client = Client::with(Hand::default(), ThreadRng, Config::resilient(), window);
        let read = client.clone();
        let told = Arc::new(AtomicU64::new(0));
        let count = told.clone();
        let client = client.observed(move |report: &Report| {
            assert!(read.counts().requests >= u32::from(report.attempts > 0) && read.reject_probability() == 0.0);
            count.fetch_add(1, Relaxed);
        });
        let ok = |client: &Client<_, _, _>| client.call(|| Ok::<_, ()>(7), |_| Reply::ACCEPTED);
        let mut sends = 0;
        let send = || {
            sends += 1;
            ok(&client).map_err(|_| ()).and_then(|seven| if sends == 1 { Err(()) } else { Ok(seven) })
        };
        let classify = |result: &Result<i32, ()>| {
            ok(&client).unwrap();
            client.counts();
            if result.is_ok() { Reply::ACCEPTED } else { Reply::OVERLOADED }
        };
        assert_eq!(client.call(send, classify).unwrap(), 7);
        let counts = client.counts();
        assert_eq!((counts.requests, counts.accepts, counts.retries, counts.waiting), (6, 5, 1, 0));
        assert_eq!(told.load(Relaxed), 5);
    }
    within(AtomicWindow::new());
    within(LockedWindow::<120>::new());
}

/// Where a call of two attempts panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Send(u32),
    Classify(u32),
    Wait,
    Observer,
}

#[test]
fn a_panic_anywhere_in_a_call_leaves_the_counts_settled() {
    const PLACES: [At; 6] = [At::Send(1), At::Send(2), At::Classify(1), At::Classify(2), At::Wait, At::Observer];
    fn panics<W: Tally + Send + Sync + 'static>(empty: fn() -> W) {
        for (at, grace) in PLACES.into_iter().flat_map(|at| [(at, false), (at, true)]) {
            let builder = Config::resilient().to_builder().no_recovery().no_throttle().max_attempts(2);
            let config = if grace { builder } else { builder.no_in_flight_grace() }.build().unwrap();
            let client = Client::with(Hand(Arc::default(), at == At::Wait), ThreadRng, config, empty());
            let caller = client.clone().observed(move |_: &Report| assert_ne!(at, At::Observer, "an observer fails"));
            let mut sends = 0;
            let tries = AtomicU64::new(0);
            let send = || {
                sends += 1;
                assert_ne!(at, At::Send(sends), "a send fails");
                if sends == 1 { Err(()) } else { Ok(()) }
            };
            let classify = |result: &Result<(), ()>| {
                let tries = tries.fetch_add(1, Relaxed) as u32 + 1;
                assert_ne!(at, At::Classify(tries), "a classification fails");
                if result.is_ok() { Reply::ACCEPTED } else { Reply::OVERLOADED }
            };
            assert!(catch_unwind(AssertUnwindSafe(|| caller.call(send, classify))).is_err(), "{at:?}");

            // What has no answer stays counted, or is taken back where it is younger than the grace.
            let open = u32::from(!grace);
            let (requests, accepts, retries) = match at {
                At::Send(1) | At::Classify(1) => (open, 0, 0),
                At::Send(_) | At::Classify(_) => (1 + open, 0, 1),
                At::Wait => (1, 0, 0),
                At::Observer => (2, 1, 1),
            };
            let expected = Counts { requests, accepts, retries, ..Counts::ZERO };
            assert_eq!(client.counts(), expected, "{at:?}, {grace}");
            assert_eq!(client.call(|| Ok::<_, ()>(7), |_| Reply::ACCEPTED).unwrap(), 7);
        }
    }
    panics(AtomicWindow::<120>::of_len);
    panics(LockedWindow::<120>::new);
}

#[test]
fn the_shortest_and_the_longest_window_forget_after_their_length() {
    fn forgets<W: Tally>(length: u64, window: W) {
        let clock = Hand::default();
        let client = Client::with(clock.clone(), ThreadRng, Config::resilient(), window);
        let ok = || client.call(|| Ok::<_, ()>(()), |_| Reply::ACCEPTED).unwrap();
        clock.set(10_000);
        ok();
        clock.set(10_000 + length - 1);
        assert_eq!(client.requests(), 1, "{length} s");
        // Back again, the clock stands still.
        clock.set(3);
        ok();
        assert_eq!(client.requests(), 2, "{length} s");
        clock.set(10_000 + length);
        assert_eq!(client.requests(), u32::from(length > 1), "{length} s");
        // Past the last second that a lock-free window knows.
        clock.0.store(u64::MAX, Relaxed);
        assert_eq!(client.requests(), 0);
        ok();
        assert_eq!((client.requests(), client.accepts()), (1, 1));
    }
    forgets(1, AtomicWindow::<1>::of_len());
    forgets(1, LockedWindow::<1>::new());
    forgets(3_600, AtomicWindow::<3_600>::of_len());
    forgets(3_600, LockedWindow::<3_600>::new());
}
