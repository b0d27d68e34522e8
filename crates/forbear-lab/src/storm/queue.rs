//! The simulated work behind a server: a leaky queue, in which saying no is work as well.

use std::time::Duration;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Admission {
    /// It is served, after so long.
    Served(Duration),
    /// The queue is full.
    Rejected,
}

/// A backend that does `capacity` requests a second, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// Seconds of work in a request.
    cost: f64,
    /// Seconds of work in a rejection.
    reject_cost: f64,
    /// Seconds of work that may wait. What comes on top of that is lost for free: no machine works more than all the time.
    room: f64,
    /// When all work that is accepted will be done, in seconds.
    idle_at: f64,
}

impl Queue {
    /// `capacity` in requests a second, `reject_cost` in requests. The queue holds a fifth of a second of work, or ten requests where
    /// that is more.
    pub(super) fn new(capacity: f64, reject_cost: f64) -> Self {
        let cost = capacity.recip();
        Self { cost, reject_cost: cost * reject_cost, room: (10.0 * cost).max(0.2), idle_at: 0.0 }
    }

    pub(super) fn arrive(&mut self, now: Duration) -> Admission {
        let now = now.as_secs_f64();
        let waiting = (self.idle_at - now).max(0.0);
        let with_this = waiting + self.cost;
        let (waiting, admission) = match with_this <= self.room {
            true => (with_this, Admission::Served(Duration::from_secs_f64(with_this))),
            false => ((waiting + self.reject_cost).min(self.room), Admission::Rejected),
        };
        self.idle_at = now + waiting;
        admission
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of capacity that is served when requests come evenly at `load` times capacity.
    fn goodput(load: f64, reject_cost: f64) -> f64 {
        let (capacity, seconds) = (100.0, 50.0);
        let mut queue = Queue::new(capacity, reject_cost);
        let arrivals = (load * capacity * seconds) as u32;
        let served = (0..arrivals)
            .map(|i| queue.arrive(Duration::from_secs_f64(f64::from(i) / (load * capacity))))
            .filter(|admission| matches!(admission, Admission::Served(_)))
            .count();
        served as f64 / (capacity * seconds)
    }

    #[test]
    fn below_capacity_everything_is_served() {
        assert_eq!(goodput(0.8, 0.1), 0.8);
    }

    #[test]
    fn above_it_rejections_eat_into_what_is_served() {
        // served + 0.1 (load - served) = 1
        for load in [1.5, 2.0, 5.0] {
            let expected = (1.0 - 0.1 * load) / 0.9;
            assert!((goodput(load, 0.1) - expected).abs() < 0.02, "{load}");
        }
        assert!(goodput(30.0, 0.1) < 0.01);
        assert!(goodput(30.0, 0.0) > 0.99);
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut queue = Queue::new(100.0, 0.5);
        for _ in 0..10_000 {
            queue.arrive(Duration::ZERO);
        }
        assert!(matches!(queue.arrive(Duration::from_millis(200)), Admission::Served(_)));
    }
}
