//! Envoy's admission control filter: the chance of a rejection grows with the share of failures among what was sent in the last
//! half minute. What it rejects it does not count. It retries nothing.
//!
//! Source: Envoy (envoyproxy/envoy), "Admission Control" filter, with the defaults of its
//! `api/envoy/extensions/filters/http/admission_control/v3/admission_control.proto`: `sampling_window` 30 s, `sr_threshold` 95 %,
//! `aggression` 1, `rps_threshold` 0, `max_rejection_probability` 80 %. A success is an answer below 500, so being told of overload
//! (503) is none, nor is a timeout (504).

use std::cell::Cell;

use forbear::{Instant, Reply};

use super::{super::backend::unit, Attempts, Client, Draws, Move, is_success};

const SECONDS: u64 = 30;
const THRESHOLD: f64 = 0.95;
const AGGRESSION: f64 = 1.0;
const MAX_REJECTION: f64 = 0.8;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u32,
    successes: u32,
}

#[derive(Debug)]
pub(in super::super) struct AdmissionControl {
    ring: [Cell<Counts>; SECONDS as usize],
    total: Cell<Counts>,
    head: Cell<u64>,
}

impl AdmissionControl {
    pub(in super::super) fn new() -> Self {
        Self {
            ring: [const { Cell::new(Counts { requests: 0, successes: 0 }) }; SECONDS as usize],
            total: Cell::default(),
            head: Cell::new(0),
        }
    }

    fn advance(&self, second: u64) {
        let head = self.head.get();
        let mut total = self.total.get();
        for second in (head + 1..=second).rev().take(SECONDS as usize) {
            let old = self.ring[(second % SECONDS) as usize].take();
            total.requests -= old.requests;
            total.successes -= old.successes;
        }
        self.total.set(total);
        self.head.set(head.max(second));
    }

    fn rejects(&self, now: Instant, draws: &mut Draws) -> bool {
        self.advance(now.second());
        let Counts { requests, successes } = self.total.get();
        let requests = f64::from(requests);
        let excess = (requests - f64::from(successes) / THRESHOLD) / (requests + 1.0);
        let p = excess.max(0.0).powf(1.0 / AGGRESSION).min(MAX_REJECTION);
        unit(draws) < p
    }

    fn record(&self, now: Instant, success: bool) {
        self.advance(now.second());
        for cell in [&self.ring[(self.head.get() % SECONDS) as usize], &self.total] {
            let Counts { requests, successes } = cell.get();
            cell.set(Counts { requests: requests + 1, successes: successes + u32::from(success) });
        }
    }
}

#[derive(Debug)]
pub(in super::super) struct Call<'c> {
    filter: &'c AdmissionControl,
    asked: bool,
}

impl Client for AdmissionControl {
    type Call<'c> = Call<'c>;

    fn call(&self) -> Call<'_> {
        Call { filter: self, asked: false }
    }
}

impl Attempts for Call<'_> {
    fn next(&mut self, now: Instant, draws: &mut Draws) -> Move {
        if core::mem::replace(&mut self.asked, true) || self.filter.rejects(now, draws) {
            return Move::Done;
        }
        Move::SEND
    }

    fn reply(&mut self, now: Instant, reply: Reply) {
        self.filter.record(now, is_success(reply));
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::{super::drive, *};

    #[test]
    fn lets_a_fifth_through_when_nothing_succeeds_and_forgets_after_half_a_minute() {
        let mut draws = Draws::seed_from_u64(1);
        let filter = AdmissionControl::new();
        let mut sent = |s, reply| drive(&filter, Instant::from_secs(s), &[reply], &mut draws).0;
        let in_outage: usize = (0..10_000).map(|i| sent(i / 400, Reply::OVERLOADED)).sum();
        assert!((1_900..2_120).contains(&in_outage), "{in_outage}");
        assert_eq!((0..100).map(|_| sent(55, Reply::ACCEPTED)).sum::<usize>(), 100);
    }
}
