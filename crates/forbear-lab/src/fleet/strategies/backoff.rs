//! Exponential backoff with full jitter, and nothing that limits the retries of a fleet.
//!
//! Source: the Amazon Builders' Library, "Timeouts, retries, and backoff with jitter": before retry n a wait that is uniform
//! in 0 to `min(cap, base * 2^(n - 1))`.

use std::time::Duration;

use forbear::{Instant, Reply, Retry};

use super::{super::backend::unit, Attempts, Client, Draws, Move};

const BASE: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Backoff {
    pub(in super::super) attempts: u32,
}

#[derive(Debug)]
pub(in super::super) struct Call {
    attempts: u32,
    sent: u32,
    /// A retry is due once this wait is over.
    owed: bool,
}

impl Client for Backoff {
    type Call<'c> = Call;

    fn call(&self) -> Call {
        Call { attempts: self.attempts, sent: 0, owed: false }
    }
}

impl Attempts for Call {
    fn next(&mut self, _: Instant, draws: &mut Draws) -> Move {
        if self.sent >= self.attempts {
            return Move::Done;
        }
        if core::mem::take(&mut self.owed) {
            let most = BASE.saturating_mul(1 << (self.sent - 1).min(16)).min(CAP);
            return Move::Wait(most.mul_f64(unit(draws)));
        }
        self.sent += 1;
        Move::SEND
    }

    fn reply(&mut self, _: Instant, reply: Reply) {
        match reply.retry() {
            Retry::Never => self.attempts = 0,
            Retry::Backoff | Retry::After(_) => self.owed = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::{super::drive, *};

    #[test]
    fn waits_up_to_twice_as_long_each_time() {
        let mut draws = Draws::seed_from_u64(1);
        let mut waits = Vec::new();
        for _ in 0..1_000 {
            let (sent, waited) = drive(&Backoff { attempts: 3 }, Instant::ORIGIN, &[Reply::OVERLOADED; 3], &mut draws);
            assert_eq!(sent, 3);
            waits.push(waited.as_secs_f64());
        }
        let mean = waits.iter().sum::<f64>() / 1_000.0;
        // Halves of 100 and of 200 ms.
        assert!((0.14..0.16).contains(&mean), "{mean}");
        assert!(waits.iter().all(|wait| *wait < 0.3));
    }
}
