//! The backend: what it answers to a send, and when.

use std::time::Duration;

use forbear::Reply;
use rand::Rng;
use serde::Serialize;

use super::weather::Weather;

/// What a backend is made of, apart from its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Build {
    /// Requests that may wait; what comes on top is refused at once. `None`: nothing waits, and capacity unused for up to
    /// 50 ms may be used later.
    pub(super) queue: Option<u32>,
    /// What a refusal costs, as a share of a request.
    pub(super) reject_cost: f64,
    /// What a refusal tells the client to wait.
    pub(super) retry_after: Option<Duration>,
    /// The time to every answer that the backend gives, on top of any wait.
    pub(super) latency: Duration,
    /// The share of sends that is answered "overloaded" whatever the load.
    pub(super) overloaded: f64,
    /// The share of sends that fails after the work was done: errors, but no overload.
    pub(super) failing: f64,
    /// The share of sends that is never answered.
    pub(super) silent: f64,
}

impl Build {
    /// Answers at once, and refuses for free.
    pub(super) const PLAIN: Self = Self {
        queue: None,
        reject_cost: 0.0,
        retry_after: None,
        latency: Duration::ZERO,
        overloaded: 0.0,
        failing: 0.0,
        silent: 0.0,
    };

    /// Whether an answer hangs on chance.
    fn is_moody(&self) -> bool {
        self.overloaded > 0.0 || self.failing > 0.0 || self.silent > 0.0
    }
}

/// What becomes of a send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    Answered { reply: Reply, after: Duration },
    Unanswered,
}

/// Unused capacity is kept for so many seconds, but always enough for one request.
const BURST_SECONDS: f64 = 0.05;

/// A backend in action. Time is continuous: capacity accrues between sends, in nanoseconds.
#[derive(Debug)]
pub(super) struct Backend {
    build: Build,
    /// Without a queue: the requests that can be served right now. With one: the requests' worth of work that is left.
    level: f64,
    /// When `level` was right, in nanoseconds.
    at: u64,
}

impl Backend {
    pub(super) fn new(build: Build) -> Self {
        Self { build, level: 0.0, at: 0 }
    }

    /// A request arrives at `now`.
    pub(super) fn send(&mut self, now: u64, weather: &Weather, chance: &mut impl Rng) -> Fate {
        let passed = (now - self.at) as f64 * 1e-9 * weather.capacity;
        self.at = now;
        match self.build.queue {
            None => self.level = (self.level + passed).min((weather.capacity * BURST_SECONDS).max(1.0)),
            Some(_) => self.level = (self.level - passed).max(0.0),
        }
        if weather.hangs {
            return Fate::Unanswered;
        }
        let latency = self.build.latency;
        let told = |reply: Reply| match self.build.retry_after {
            Some(wait) => reply.after(wait),
            None => reply,
        };
        let refusal = Fate::Answered { reply: told(Reply::OVERLOADED), after: latency };
        if weather.down {
            return Fate::Answered { reply: told(Reply::UNREACHABLE), after: latency };
        }

        let mut done = Reply::ACCEPTED;
        if self.build.is_moody() {
            let drawn = unit(chance);
            if drawn < self.build.silent {
                return Fate::Unanswered;
            }
            if drawn < self.build.silent + self.build.overloaded {
                return refusal;
            }
            if drawn < self.build.silent + self.build.overloaded + self.build.failing {
                done = Reply::TRANSIENT;
            }
        }
        match self.build.queue {
            None if self.level >= 1.0 => {
                self.level -= 1.0;
                Fate::Answered { reply: done, after: latency }
            }
            None => {
                // Saying no may put the backend into debt, but into no more than it keeps at its best.
                let debt = (weather.capacity * BURST_SECONDS).max(1.0);
                self.level = (self.level - self.build.reject_cost).max(-debt);
                refusal
            }
            Some(room) if self.level < f64::from(room) + 1.0 && weather.capacity > 0.0 => {
                self.level += 1.0;
                let wait = Duration::from_secs_f64((self.level / weather.capacity).min(1e9));
                Fate::Answered { reply: done, after: latency + wait }
            }
            Some(_) => {
                self.level += self.build.reject_cost;
                refusal
            }
        }
    }
}

/// A number from 0 to 1, exclusive.
pub(super) fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn served(build: Build, capacity: f64, sends: u64, seconds: u64) -> usize {
        let weather = Weather { demand: 0.0, capacity, down: false, hangs: false };
        let mut backend = Backend::new(build);
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
        let times = (0..sends * seconds).map(|i| i * SECOND / sends);
        let fates = times.map(|now| backend.send(now, &weather, &mut chance));
        fates.filter(|fate| matches!(fate, Fate::Answered { reply, .. } if reply.is_accepted())).count()
    }

    #[test]
    fn serves_its_capacity_and_no_more() {
        assert_eq!(served(Build::PLAIN, 100.0, 50, 10), 499);
        assert!((995..=1_005).contains(&served(Build::PLAIN, 100.0, 1_000, 10)));
        assert!((995..=1_025).contains(&served(Build { queue: Some(20), ..Build::PLAIN }, 100.0, 1_000, 10)));
    }

    #[test]
    fn pays_for_refusals() {
        let costly = Build { reject_cost: 0.1, ..Build::PLAIN };
        // Of 1,000 sends a second s are served: s + 0.1 * (1,000 - s) = 100, were there no end to the debt; none at all here.
        assert!(served(costly, 100.0, 1_000, 10) < 100);
        // s + 0.1 * (200 - s) = 100
        let served = served(costly, 100.0, 200, 10);
        assert!((870..910).contains(&served), "{served}");
    }

    #[test]
    fn makes_those_wait_who_queue() {
        let weather = Weather { demand: 0.0, capacity: 10.0, down: false, hangs: false };
        let mut backend = Backend::new(Build { queue: Some(2), latency: Duration::from_millis(5), ..Build::PLAIN });
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
        let fates: Vec<_> = (0..4).map(|_| backend.send(0, &weather, &mut chance)).collect();
        let after = |ms| Duration::from_millis(ms);
        assert_eq!(fates[0], Fate::Answered { reply: Reply::ACCEPTED, after: after(105) });
        assert_eq!(fates[2], Fate::Answered { reply: Reply::ACCEPTED, after: after(305) });
        assert_eq!(fates[3], Fate::Answered { reply: Reply::OVERLOADED, after: after(5) });
        assert_eq!(
            backend.send(SECOND, &weather, &mut chance),
            Fate::Answered { reply: Reply::ACCEPTED, after: after(105) }
        );
    }

    #[test]
    fn errs_as_often_as_told() {
        let build = Build { overloaded: 0.4, failing: 0.2, silent: 0.1, ..Build::PLAIN };
        let weather = Weather { demand: 0.0, capacity: 1e6, down: false, hangs: false };
        let (mut backend, mut chance) = (Backend::new(build), Xoshiro256PlusPlus::seed_from_u64(1));
        let mut seen = [0u32; 4];
        for i in 0..100_000 {
            seen[match backend.send(i * 10_000, &weather, &mut chance) {
                Fate::Unanswered => 0,
                Fate::Answered { reply, .. } if !reply.is_accepted() => 1,
                Fate::Answered { reply, .. } if reply == Reply::TRANSIENT => 2,
                Fate::Answered { .. } => 3,
            }] += 1;
        }
        for (seen, share) in seen.into_iter().zip([0.1, 0.4, 0.2, 0.3]) {
            assert!((f64::from(seen) / 100_000.0 - share).abs() < 0.01, "{seen}");
        }
    }
}
