//! The jitter as a distribution, and the backoff at its ends.

use core::time::Duration;

use forbear::rand_core::{Rng, SeedableRng};
use forbear::testing::ManualClock;
use forbear::{Backoff, Call, Clock, Config, Policy, Reply, RetryingClient, Sleep, Step};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

/// The waits after each send of a call that is never accepted.
fn waits(config: Config, random: &mut Random) -> Vec<Duration> {
    let (policy, clock) = (Policy::new(config, ()), ManualClock::new());
    let (mut call, mut waits) = (Call::new(&policy), Vec::new());
    loop {
        match call.next(clock.now(), random) {
            Step::Send { .. } => call.reply(clock.now(), Reply::OVERLOADED),
            Step::Wait(wait) => {
                clock.sleep(wait);
                waits.push(wait);
            }
            Step::Done(_) => return waits,
        }
    }
}

fn six_attempts() -> Config {
    Config::retrying().to_builder().max_attempts(6).build().unwrap()
}

#[test]
fn the_mean_is_half_the_cap_and_grows_with_each_attempt() {
    const CALLS: u32 = 20_000;
    let mut random = Random::seed_from_u64(1);
    let mut means = [0.0; 5];
    let mut quarters = [0u32; 4];
    for _ in 0..CALLS {
        for (sent, wait) in waits(six_attempts(), &mut random).into_iter().enumerate() {
            let part = wait.as_secs_f64() / Backoff::DEFAULT.cap(sent as u32 + 1).as_secs_f64();
            means[sent] += wait.as_secs_f64() / f64::from(CALLS);
            quarters[((part * 4.0) as usize).min(3)] += 1;
        }
    }
    for (sent, mean) in means.into_iter().enumerate() {
        let half = Backoff::DEFAULT.cap(sent as u32 + 1).as_secs_f64() / 2.0;
        // The deviation of such a mean is 0.4 % of the half.
        assert!(
            (mean / half - 1.0).abs() < 0.025,
            "after {} sends the mean is {mean}, half of the cap {half}",
            sent + 1
        );
    }
    assert!(means.is_sorted(), "{means:?}");
    // Full jitter: each quarter of the range is as likely.
    for quarter in quarters {
        let part = f64::from(quarter) / f64::from(CALLS * 5);
        assert!((part - 0.25).abs() < 0.01, "{quarters:?}");
    }
}

#[test]
fn two_clients_of_different_seeds_differ() {
    let of = |seed| waits(six_attempts(), &mut Random::seed_from_u64(seed));
    assert_ne!(of(1), of(2));
    assert_eq!(of(1), of(1));
}

#[test]
fn a_call_draws_on_where_the_last_one_stopped() {
    let mut random = Random::seed_from_u64(1);
    assert_ne!(waits(six_attempts(), &mut random), waits(six_attempts(), &mut random));
}

#[test]
fn every_attempt_has_a_cap() {
    let durations = [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(100), Duration::from_secs(2)];
    let mut random = Random::seed_from_u64(3);
    for base in durations.into_iter().chain([Duration::MAX]) {
        for max in durations.into_iter().chain([Duration::MAX]) {
            let backoff = Backoff::new(base, max);
            let mut last = Duration::ZERO;
            for sends in [0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, u32::MAX] {
                let cap = backoff.cap(sends);
                assert!(cap >= last && cap <= backoff.max(), "{base:?} to {max:?} after {sends} sends: {cap:?}");
                last = cap;
                for draw in [0, 1 << 11, 1 << 63, u64::MAX, random.next_u64()] {
                    assert!(backoff.delay(sends, draw) <= cap, "{base:?} to {max:?} after {sends} sends");
                }
            }
            assert_eq!(last, if base.is_zero() { Duration::ZERO } else { backoff.max() });
        }
    }
}

#[test]
fn a_call_of_very_many_attempts_ends_and_never_waits_too_long() {
    struct Watched(ManualClock);
    impl Clock for Watched {
        fn now(&self) -> forbear::Instant {
            self.0.now()
        }
    }
    impl Sleep for Watched {
        fn sleep(&self, delay: Duration) {
            assert!(delay <= Backoff::DEFAULT.max(), "{delay:?}");
            self.0.sleep(delay);
        }
    }
    let config = Config::retrying().to_builder().max_attempts(100_000).build().unwrap();
    let mut client = RetryingClient::new(Watched(ManualClock::new()), Random::seed_from_u64(4), config);
    assert_eq!(client.call(|| 503, |_| Reply::OVERLOADED).attempts, 100_000);
}
