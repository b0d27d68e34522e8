//! gRPC's client retries: backoff, and tokens that every failure costs and every success slowly gives back. First attempts are
//! never held back.
//!
//! Source: gRPC proposal A6, "Client Retries" (grpc/proposal, `A6-client-retries.md`), with the values of its examples: `maxTokens` 10,
//! `tokenRatio` 0.1, and a retry only while there is more than half of the tokens; `initialBackoff` 0.1 s, `backoffMultiplier` 2,
//! each wait times 0.8 to 1.2, as the proposal has it since 2024 (grpc/proposal, pull request 452). A server's pushback
//! is waited for to the letter, and the backoff begins anew after it. More than five attempts of a call count as five, so no wait comes
//! near to `maxBackoff`, 1 s.

use std::{cell::Cell, time::Duration};

use forbear::{Instant, Reply, Retry};

use super::{super::backend::unit, Attempts, Client, Draws, Move, is_success};

/// In thousandths, as the proposal counts the ratio.
const MAX_TOKENS: u32 = 10_000;
const FAILURE: u32 = 1_000;
const SUCCESS: u32 = 100;

const BASE: Duration = Duration::from_millis(100);
const MOST_ATTEMPTS: u32 = 5;

#[derive(Debug)]
pub(in super::super) struct Throttling {
    attempts: u32,
    tokens: Cell<u32>,
}

impl Throttling {
    pub(in super::super) fn new(attempts: u32) -> Self {
        Self { attempts: attempts.min(MOST_ATTEMPTS), tokens: Cell::new(MAX_TOKENS) }
    }
}

#[derive(Debug)]
pub(in super::super) struct Call<'c> {
    client: &'c Throttling,
    sent: u32,
    /// Retries since the last pushback.
    retries: u32,
    over: bool,
    owed: bool,
    /// The server's pushback.
    told: Option<Duration>,
}

impl Client for Throttling {
    type Call<'c> = Call<'c>;

    fn call(&self) -> Call<'_> {
        Call { client: self, sent: 0, retries: 0, over: false, owed: false, told: None }
    }
}

impl Attempts for Call<'_> {
    fn next(&mut self, _: Instant, draws: &mut Draws) -> Move {
        if self.over || self.sent >= self.client.attempts {
            return Move::Done;
        }
        if core::mem::take(&mut self.owed) {
            if let Some(wait) = self.told {
                self.retries = 0;
                return Move::Wait(wait);
            }
            let wait = BASE.saturating_mul(1 << self.retries);
            self.retries += 1;
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

    #[test]
    fn doubles_its_waits_and_begins_anew_after_a_pushback() {
        let mut draws = Draws::seed_from_u64(1);
        // The mean of many, since each is spread by a fifth either way.
        let mut waits = |replies: &[Reply]| {
            let waited = (0..2_000).map(|_| {
                let (sent, waited) = drive(&Throttling::new(100), Instant::ORIGIN, replies, &mut draws);
                assert_eq!(sent, replies.len());
                waited.as_secs_f64()
            });
            waited.sum::<f64>() / 2_000.0
        };
        let no = Reply::OVERLOADED;
        let near = |wait: f64, expected: f64| assert!((wait / expected - 1.0).abs() < 0.01, "{wait} s, not {expected}");
        near(waits(&[no, Reply::ACCEPTED]), 0.1);
        near(waits(&[no, no, no, no, Reply::ACCEPTED]), 0.1 + 0.2 + 0.4 + 0.8);
        near(waits(&[no, no, no.after(Duration::from_secs(3)), no, Reply::ACCEPTED]), 0.1 + 0.2 + 3.0 + 0.1);
    }

    #[test]
    fn sends_a_call_five_times_at_the_most_while_others_earn_the_tokens() {
        let mut draws = Draws::seed_from_u64(1);
        let client = Throttling::new(100);
        let mut call = client.call();
        let mut sent = 0;
        loop {
            match call.next(Instant::ORIGIN, &mut draws) {
                Move::Send { .. } => {
                    sent += 1;
                    call.reply(Instant::ORIGIN, Reply::OVERLOADED);
                    for _ in 0..10 {
                        drive(&client, Instant::ORIGIN, &[Reply::ACCEPTED], &mut draws);
                    }
                }
                Move::Wait(wait) => assert!(wait < Duration::from_secs(1), "{wait:?}"),
                Move::Done => break,
            }
        }
        assert_eq!(sent, 5);
    }
}
