//! A contest: which strategies take part, and how many simulations run at a time.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use forbear::Config;

use super::{
    record::Record,
    scenario::Shape,
    simulation::{Scenario, simulate},
    strategies::{AdmissionControl, Backoff, Breaker, Client, Forbear, Name, Plain, Throttling},
};

#[derive(Clone, Debug)]
pub(super) struct Contest {
    pub(super) names: Vec<Name>,
    /// Of a call, for those that know nothing but a number of attempts.
    pub(super) attempts: u32,
    pub(super) timeout: Duration,
    pub(super) yours: Config,
    /// K of every throttle, instead of its own.
    pub(super) k: Option<f64>,
    /// Seconds that "yours" remembers.
    pub(super) window: u32,
    /// Of a grid or sweep, whose medians are taken.
    pub(super) seeds: Vec<u64>,
    pub(super) threads: usize,
}

impl Contest {
    /// One simulation, until its end or until `go_on` denies.
    pub(super) fn run(&self, name: Name, shape: &Shape, seed: u64, go_on: impl FnMut(&Record) -> bool) -> Record {
        let scenario = &shape.scenario(self.timeout);
        let attempts = self.attempts;
        if let Some(config) = name.config(self.yours) {
            let config = self.with_k(config);
            return forbear(if name == Name::Yours { self.window } else { 120 }, config, scenario, seed, go_on);
        }
        match name {
            Name::Backoff => fleet(scenario, seed, go_on, || Backoff { attempts }),
            Name::GrpcA6 => fleet(scenario, seed, go_on, || Throttling::new(attempts)),
            Name::GoZero => fleet(scenario, seed, go_on, Breaker::new),
            Name::Envoy => fleet(scenario, seed, go_on, AdmissionControl::new),
            _ => fleet(scenario, seed, go_on, || Plain { attempts }),
        }
    }

    fn with_k(&self, config: Config) -> Config {
        match self.k {
            Some(k) if config.k().is_some() => config.to_builder().k(k).build().unwrap_or(config),
            _ => config,
        }
    }

    /// Does all jobs on as many threads as there are to be, and gives back their results in order.
    pub(super) fn all<J: Sync, R: Send>(&self, jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(jobs.len())));
        thread::scope(|scope| {
            for _ in 0..self.threads.min(jobs.len()) {
                scope.spawn(|| {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(i) else { break };
                        let result = work(job);
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|(i, _)| *i);
        done.into_iter().map(|(_, result)| result).collect()
    }
}

fn fleet<C: Client>(
    scenario: &Scenario,
    seed: u64,
    go_on: impl FnMut(&Record) -> bool,
    client: impl Fn() -> C,
) -> Record {
    let clients: Vec<C> = (0..scenario.clients).map(|_| client()).collect();
    simulate(&clients, scenario, seed, go_on)
}

/// A window's length is part of its type: this many types, chosen at run time.
macro_rules! windows {
    ($($seconds:literal)*) => {
        pub(super) const WINDOWS: &[u32] = &[$($seconds),*];

        fn forbear(
            window: u32,
            config: Config,
            scenario: &Scenario,
            seed: u64,
            go_on: impl FnMut(&Record) -> bool,
        ) -> Record {
            match window {
                $($seconds => fleet(scenario, seed, go_on, || Forbear::<$seconds>::new(config)),)*
                _ => unreachable!("the command line knows the lengths that there are"),
            }
        }
    };
}
windows!(10 30 60 120 300 600);
