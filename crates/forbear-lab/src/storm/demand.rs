//! An open loop of arrivals: they come whether or not the last ones were answered, the same ones for every strategy.

use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

use super::phases::{Phase, Phases};

/// Somebody wants something of the backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    /// Since the start of the storm.
    pub(super) at: Duration,
    /// Which client is to ask.
    pub(super) client: usize,
}

/// A Poisson process whose rate is that of the phase, spread evenly over the clients.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    rng: SmallRng,
    phases: Phases,
    clients: usize,
    calm: f64,
    overload: f64,
    /// The latest arrival, in seconds.
    at: f64,
}

impl Demand {
    /// `calm` and `overload` are arrivals a second over all clients.
    pub(super) fn new(seed: u64, phases: Phases, clients: usize, calm: f64, overload: f64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), phases, clients, calm, overload, at: 0.0 }
    }
}

impl Iterator for Demand {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let phase = self.phases.at(Duration::from_secs_f64(self.at))?;
            let rate = if phase == Phase::Overload { self.overload } else { self.calm };
            let next = self.at - (1.0 - unit(&mut self.rng)).ln() / rate;
            let end = self.phases.span(phase).end as f64;
            // The process has no memory, so it may start afresh where the rate changes.
            self.at = next.min(end);
            if next < end {
                let client = self.rng.random_range(0..self.clients);
                return Some(Arrival { at: Duration::from_secs_f64(next), client });
            }
        }
    }
}

/// Uniform in [0, 1).
fn unit(rng: &mut impl Rng) -> f64 {
    rng.random::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(seed: u64) -> Demand {
        Demand::new(seed, Phases::new([Some(100), Some(100), Some(0), Some(0)], 10).unwrap(), 7, 8.0, 100.0)
    }

    #[test]
    fn a_seed_is_a_demand() {
        assert!(demand(1).eq(demand(1)));
        assert!(!demand(1).eq(demand(2)));
    }

    #[test]
    fn arrivals_come_in_order_at_the_rate_of_their_phase() {
        let all: Vec<_> = demand(1).collect();
        assert!(all.is_sorted_by_key(|arrival| arrival.at));
        let calm = all.iter().filter(|arrival| arrival.at.as_secs() < 100).count();
        let overload = all.len() - calm;
        // Ten standard deviations around 800 and 10,000.
        assert!((520..1_080).contains(&calm), "{calm}");
        assert!((9_000..11_000).contains(&overload), "{overload}");
    }

    #[test]
    fn every_client_takes_its_share() {
        let mut shares = [0; 7];
        demand(1).for_each(|arrival| shares[arrival.client] += 1);
        assert!(shares.iter().all(|share| (1_200..1_900).contains(share)), "{shares:?}");
    }
}
