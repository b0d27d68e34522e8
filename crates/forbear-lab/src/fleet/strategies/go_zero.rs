//! go-zero's adaptive breaker, as its HTTP and RPC clients have it: the book's formula over ten seconds, with five calls for free,
//! a K that shrinks while nothing succeeds, and one call let through after a second without any. It retries nothing.
//!
//! Source: go-zero (zeromicro/go-zero), `core/breaker/googlebreaker.go`: `window` 10 s in 40 `buckets`, `k` 1.5, `minK` 1.1,
//! `protection` 5, `forcePassDuration` 1 s. Calls that it drops count in the total. Later versions drop by latency as well where a
//! breaker is told a timeout; that part is not here.

use std::{
    cell::{Cell, RefCell, RefMut},
    time::Duration,
};

use forbear::{Instant, Reply};

use super::{super::backend::unit, Attempts, Client, Draws, Move, is_success};

const BUCKETS: usize = 40;
const BUCKET: Duration = Duration::from_millis(250);
const K: f64 = 1.5;
const MIN_K: f64 = 1.1;
const PROTECTION: f64 = 5.0;
const FORCE_PASS: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    successes: u16,
    failures: u16,
    drops: u16,
}

#[derive(Debug)]
pub(in super::super) struct Breaker {
    ring: RefCell<[Bucket; BUCKETS]>,
    /// The number of the newest bucket since the clock's origin.
    head: Cell<u64>,
    last_pass: Cell<Option<Instant>>,
}

impl Breaker {
    pub(in super::super) fn new() -> Self {
        Self {
            ring: RefCell::new([Bucket { successes: 0, failures: 0, drops: 0 }; BUCKETS]),
            head: Cell::new(0),
            last_pass: Cell::new(None),
        }
    }

    fn record(&self, now: Instant, record: impl FnOnce(&mut Bucket)) {
        let mut ring = self.advance(now);
        record(&mut ring[self.head.get() as usize % BUCKETS]);
    }

    fn advance(&self, now: Instant) -> RefMut<'_, [Bucket; BUCKETS]> {
        let mut ring = self.ring.borrow_mut();
        let (head, newest) = (self.head.get(), (now.since_origin().as_millis() / BUCKET.as_millis()) as u64);
        for bucket in (head + 1..=newest).rev().take(BUCKETS) {
            ring[bucket as usize % BUCKETS] = Bucket::default();
        }
        self.head.set(head.max(newest));
        ring
    }

    fn allows(&self, now: Instant, draws: &mut Draws) -> bool {
        let (mut accepts, mut total, mut failing, mut working) = (0.0, 0.0, 0.0, 0.0);
        {
            let ring = self.advance(now);
            let oldest = self.head.get() as usize + 1;
            for i in 0..BUCKETS {
                let Bucket { successes, failures, drops } = ring[(oldest + i) % BUCKETS];
                accepts += f64::from(successes);
                total += f64::from(successes) + f64::from(failures) + f64::from(drops);
                (working, failing) = match (successes > 0, failures > 0) {
                    (true, true) => (0.0, 0.0),
                    (true, false) => (working + 1.0, 0.0),
                    (false, true) => (0.0, failing + 1.0),
                    (false, false) => (working, failing),
                };
            }
        }
        let k = (K - (K - MIN_K) * failing / BUCKETS as f64).max(MIN_K);
        let drop = (total - PROTECTION - k * accepts) / (total + 1.0);
        if drop <= 0.0 {
            return true;
        }
        let overdue = self.last_pass.get().is_some_and(|last| now.saturating_since(last) > FORCE_PASS);
        if !overdue && unit(draws) < drop * (BUCKETS as f64 - working) / BUCKETS as f64 {
            return false;
        }
        self.last_pass.set(Some(now));
        true
    }
}

#[derive(Debug)]
pub(in super::super) struct Call<'c> {
    breaker: &'c Breaker,
    asked: bool,
}

impl Client for Breaker {
    type Call<'c> = Call<'c>;

    fn call(&self) -> Call<'_> {
        Call { breaker: self, asked: false }
    }
}

impl Attempts for Call<'_> {
    fn next(&mut self, now: Instant, draws: &mut Draws) -> Move {
        if core::mem::replace(&mut self.asked, true) {
            return Move::Done;
        }
        if self.breaker.allows(now, draws) {
            return Move::SEND;
        }
        self.breaker.record(now, |bucket| bucket.drops = bucket.drops.saturating_add(1));
        Move::Done
    }

    fn reply(&mut self, now: Instant, reply: Reply) {
        self.breaker.record(now, |bucket| {
            let count = if is_success(reply) { &mut bucket.successes } else { &mut bucket.failures };
            *count = count.saturating_add(1);
        });
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::{super::drive, *};

    #[test]
    fn sends_the_first_six_then_next_to_nothing_and_forgets_after_ten_seconds() {
        for seed in 0..50 {
            let mut draws = Draws::seed_from_u64(seed);
            let breaker = Breaker::new();
            let mut sent = |ms, reply| drive(&breaker, Instant::from_millis(ms), &[reply], &mut draws).0;
            assert_eq!((0..6).map(|ms| sent(ms, Reply::OVERLOADED)).sum::<usize>(), 6);
            let in_outage: usize = (6..9_000).map(|ms| sent(ms, Reply::OVERLOADED)).sum();
            assert!((8..90).contains(&in_outage), "{in_outage}");
            assert_eq!(sent(19_500, Reply::ACCEPTED), 1);
            assert_eq!((0..100).map(|ms| sent(19_500 + ms, Reply::ACCEPTED)).sum::<usize>(), 100);
        }
    }

    #[test]
    fn sends_one_when_nothing_was_sent_for_a_second() {
        for seed in 0..20 {
            let mut draws = Draws::seed_from_u64(seed);
            let breaker = Breaker::new();
            let mut last = 0;
            for ms in 0..9_000 {
                if drive(&breaker, Instant::from_millis(ms), &[Reply::OVERLOADED], &mut draws).0 > 0 {
                    last = ms;
                }
                assert!(ms - last <= 1_000, "{ms}: {last}");
            }
        }
    }
}
