//! gRPC's client retries: backoff, and tokens that every failure costs and every success slowly gives back. First attempts are
//! never held back.
//!
//! Source: gRPC proposal A6, "Client Retries", with the values of its example: `maxTokens` 10, `tokenRatio` 0.1, backoff from
//! 0.1 s doubled up to 2 s, each times a factor between 0.8 and 1.2, or just what the server's pushback
//! says. A retry needs more than half of the tokens.

use std::{cell::Cell, time::Duration};

use forbear::{Instant, Reply, Retry};

use super::{super::backend::unit, Attempts, Client, Draws, Move, is_success};

/// In thousandths, as the proposal counts the ratio.
const MAX_TOKENS: u32 = 10_000;
const FAILURE: u32 = 1_000;
const SUCCESS: u32 = 100;

const BASE: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(in super::super) struct Throttling {
    attempts: u32,
    tokens: Cell<u32>,
}

impl Throttling {
    pub(in super::super) fn new(attempts: u32) -> Self {
        Self { attempts, tokens: Cell::new(MAX_TOKENS) }
    }
}

#[derive(Debug)]
pub(in super::super) struct Call<'c> {
    client: &'c Throttling,
    sent: u32,
    over: bool,
    owed: bool,
    /// The server's pushback.
    told: Option<Duration>,
}

impl Client for Throttling {
    type Call<'c> = Call<'c>;

    fn call(&self) -> Call<'_> {
        Call { client: self, sent: 0, over: false, owed: false, told: None }
    }
}

impl Attempts for Call<'_> {
    fn next(&mut self, _: Instant, draws: &mut Draws) -> Move {
        if self.over || self.sent >= self.client.attempts {
            return Move::Done;
        }
        if core::mem::take(&mut self.owed) {
            if let Some(wait) = self.told {
                return Move::Wait(wait);
            }
            let wait = BASE.saturating_mul(1 << (self.sent - 1).min(16)).min(CAP);
            return Move::Wait(wait.mul_f64(0.8 + 0.4 * unit(draws)));
        }
        self.sent += 1;
        Move::SEND
    }

    fn reply(&mut self, _: Instant, reply: Reply) {
        let tokens = self.client.tokens.get();
        let tokens =
            if is_success(reply) { (tokens + SUCCESS).min(MAX_TOKENS) } else { tokens.saturating_sub(FAILURE) };
        self.client.tokens.set(tokens);
        self.over = reply.retry() == Retry::Never || tokens <= MAX_TOKENS / 2;
        self.owed = true;
        self.told = match reply.retry() {
            Retry::After(wait) => Some(wait),
            Retry::Backoff | Retry::Never => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::{super::drive, *};

    #[test]
    fn stops_retrying_at_half_of_the_tokens_and_earns_them_back() {
        let mut draws = Draws::seed_from_u64(1);
        let client = Throttling::new(3);
        let mut sent = |replies: &[Reply]| drive(&client, Instant::ORIGIN, replies, &mut draws).0;
        // 10 tokens: 9, 8, 7; 6, 5 and no more.
        assert_eq!(sent(&[Reply::OVERLOADED; 3]), 3);
        assert_eq!(sent(&[Reply::OVERLOADED; 3]), 2);
        assert_eq!(sent(&[Reply::OVERLOADED; 3]), 1);
        // 4 tokens and 20 successes make 6: one failure leaves 5.
        for _ in 0..20 {
            assert_eq!(sent(&[Reply::ACCEPTED]), 1);
        }
        assert_eq!(sent(&[Reply::OVERLOADED; 3]), 1);
        for _ in 0..20 {
            sent(&[Reply::ACCEPTED]);
        }
        assert_eq!(sent(&[Reply::OVERLOADED, Reply::ACCEPTED]), 2);
    }
}
