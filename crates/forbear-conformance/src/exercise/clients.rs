//! The two clients of the specifications, call by call beside their plain transcriptions.

use core::time::Duration;

use forbear::{Backoff, Config, Reply, Retry};

use super::{Choices, calls};
use crate::core_clients::{Atomic, CoreOverload, CoreRetrying, Plain};
use crate::oracle;
use crate::subject::{Client, Outcome, SharedClock, SharedScript, Subject};

/// A client with a clock and a script of its own.
struct Bench {
    client: Box<dyn Client>,
    clock: SharedClock,
    script: SharedScript,
}

impl Bench {
    fn new<S: Subject, const N: usize>(config: Config) -> Self {
        let (clock, script) = (SharedClock::default(), SharedScript::default());
        Self { client: S::client::<N>(config, clock.clone(), script.clone()), clock, script }
    }

    /// What can be seen of a call: its end, its sends, what was drawn, when each attempt started, and when it ended.
    fn call(&mut self, plan: &Plan) -> (Outcome, usize, Vec<u64>) {
        self.clock.set_micros(plan.at);
        self.script.load(plan.draws.iter().copied());
        let (clock, mut replies, mut times) = (self.clock.clone(), plan.replies.iter(), Vec::new());
        let ended = self.client.call(&mut || {
            times.push(clock.micros());
            clock.advance_micros(plan.send);
            // Any call ends at this.
            replies.next().copied().unwrap_or(Reply::ACCEPTED)
        });
        times.push(clock.micros());
        assert!(ended.attempts.is_none_or(|attempts| attempts as usize == times.len() - 1), "{ended:?}");
        (ended.outcome, self.script.drawn(), times)
    }
}

struct Plan {
    at: u64,
    send: u64,
    draws: Vec<u64>,
    replies: Vec<Reply>,
}

/// Whole calls of the first specification, over both windows.
pub fn overload_client(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    match choices.below(8) {
        0 => overload::<1>(choices),
        1..=2 => overload::<2>(choices),
        3..=5 => overload::<10>(choices),
        _ => overload::<120>(choices),
    }
}

fn overload<const N: usize>(mut choices: Choices<'_>) {
    let config = Config::overload()
        .to_builder()
        .k(choices.factor(&[2.0, 2.0, 1.1, 1.5, 0.5, 0.0, 10.0]))
        .retry_ratio(choices.factor(&[0.1, 0.1, 0.35, 0.6, 1.0, 0.0, 10.0]))
        .max_attempts(choices.of(&[3, 3, 1, 2, 8]))
        .build()
        .expect("all of these are allowed");
    let mut plain = Bench::new::<CoreOverload<Plain>, N>(config);
    let mut atomic = Bench::new::<CoreOverload<Atomic>, N>(config);
    let mut oracle = Bench::new::<oracle::Overload, N>(config);
    let mut now = u64::from(choices.byte()) * 100_000;
    while !choices.is_over() {
        let p = oracle.client.observed().reject_probability;
        let replies = choices.byte();
        let plan = Plan {
            at: now,
            send: choices.of(&[0, 0, 1_000, 400_000, 1_000_000, 3_000_000]),
            draws: (0..config.max_attempts()).map(|_| choices.draw(p)).collect(),
            replies: (0..8)
                .map(|bit| if replies >> bit & 1 == 1 { Reply::ACCEPTED } else { Reply::OVERLOADED })
                .collect(),
        };
        let expected = oracle.call(&plan);
        assert_eq!(plain.call(&plan), expected, "plain, {config:?}");
        assert_eq!(atomic.call(&plan), expected, "lock-free, {config:?}");
        assert_eq!(plain.client.observed(), oracle.client.observed(), "plain, {config:?}");
        assert_eq!(atomic.client.observed(), oracle.client.observed(), "lock-free, {config:?}");
        now = match choices.below(16) {
            0..=7 => oracle.clock.micros() + u64::from(choices.byte()) * 1_000,
            8..=11 => oracle.clock.micros() + 1_000_000,
            12 => oracle.clock.micros() + (N as u64 - 1) * 1_000_000,
            13 => oracle.clock.micros() + N as u64 * 1_000_000,
            14 => now.saturating_sub(u64::from(choices.byte()) * 100_000),
            _ => oracle.clock.micros() + u64::from(choices.byte()) * 60_000_000,
        };
    }
}

/// Whole calls of the second specification. Sleeps are within 0 and the cap, and none follows the last attempt.
pub fn retrying_client(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    while !choices.is_over() {
        let micros = |choices: &mut Choices<'_>| match choices.below(4) {
            0 => 0,
            1 => u64::from(choices.byte()),
            2 => u64::from(choices.byte()) * 100_000,
            _ => choices.word() >> 24,
        };
        let (base, max) = (micros(&mut choices), micros(&mut choices));
        let attempts = choices.of(&[3, 1, 2, 5, 40, 70]);
        let config = Config::retrying()
            .to_builder()
            .max_attempts(attempts)
            .backoff(Backoff::new(Duration::from_micros(base), Duration::from_micros(max)))
            .build()
            .expect("all of these are allowed");
        let sends = choices.below(80);
        let retryable = |reply: Reply| reply.retry() != Retry::Never;
        let again: Vec<Reply> = (0..sends)
            .map(|_| match choices.below(8) {
                0 => Reply::OVERLOADED.after(Duration::from_micros(u64::from(choices.byte()) * 7_000)),
                _ => choices.of(&[Reply::OVERLOADED, Reply::TRANSIENT, Reply::UNREACHABLE]),
            })
            .collect();
        let plan = Plan {
            at: 0,
            send: choices.of(&[0, 1_000]),
            draws: (0..sends).map(|_| choices.draw(0.5)).collect(),
            replies: again.into_iter().chain([calls::reply(&mut choices)]).filter(|reply| is_short(*reply)).collect(),
        };
        let mut core = Bench::new::<CoreRetrying, 1>(config);
        let mut oracle = Bench::new::<oracle::Retrying, 1>(config);
        let (is, expected) = (core.call(&plan), oracle.call(&plan));
        assert_eq!((is.0, is.1, is.2.len()), (expected.0, expected.1, expected.2.len()), "{config:?}");

        let times = &is.2;
        let sent = times.len() - 1;
        assert!(sent as u32 <= attempts, "{sent} attempts of {attempts}");
        assert_eq!(times[sent] - times[sent - 1], plan.send, "a sleep after the last attempt");
        for (sent, (pair, reply)) in times.windows(2).zip(&plan.replies).enumerate().take(sent - 1) {
            let slept = pair[1] - pair[0] - plan.send;
            assert!(retryable(*reply), "sent again after {reply:?}");
            match reply.retry() {
                Retry::After(told) => assert_eq!(u128::from(slept), told.as_nanos().div_ceil(1_000), "not as told"),
                _ => assert!(u128::from(slept) <= (u128::from(base) << sent).min(u128::from(max)), "above the cap"),
            }
        }
        // Each sleep is rounded up to a microsecond by one, and rounded by doubles by the other.
        let off = |(a, b): (&u64, &u64)| a.abs_diff(*b) as f64 <= sent as f64 + *b as f64 * 1e-12;
        assert!(is.2.iter().zip(&expected.2).all(off), "{is:?}, not {expected:?}, {config:?}");
    }
}

/// Whether a reply asks for no longer than a clock of microseconds can tell.
fn is_short(reply: Reply) -> bool {
    !matches!(reply.retry(), Retry::After(wait) if wait > Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    #[test]
    fn a_draw_beside_p_is_beside_p() {
        for choice in 64..=95u8 {
            let draw = Choices::new(&[choice]).draw(0.25);
            assert!(draw.abs_diff(vectors::generated(0.25)) <= 1 << 11, "{choice}");
        }
    }
}
