//! Exponential backoff with jitter, as `backon` does it: polite to each other, but not fewer.

use std::{cell::RefCell, time::Duration};

use backon::{ExponentialBuilder, Retryable};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::{Client, Request, Unserved};

/// The usual delays, from 100 ms to 2 s, doubled each time.
#[derive(Debug)]
pub(in super::super) struct Backoff {
    delays: ExponentialBuilder,
    /// Each call gets a seed of its own, or all of a client's calls would wait equally long.
    seeds: RefCell<SmallRng>,
}

impl Backoff {
    pub(in super::super) fn new(attempts: u32, seed: u64) -> Self {
        let delays = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(2))
            .with_max_times(attempts.saturating_sub(1) as usize)
            .with_jitter();
        Self { delays, seeds: RefCell::new(SmallRng::seed_from_u64(seed)) }
    }
}

impl Client for Backoff {
    async fn call(&self, request: &Request<'_>) -> Result<(), Unserved> {
        let delays = self.delays.with_jitter_seed(self.seeds.borrow_mut().next_u64());
        (|| request.send()).retry(delays).sleep(tokio::time::sleep).await
    }
}
