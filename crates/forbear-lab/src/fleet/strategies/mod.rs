//! The contenders: forbear's own machine, and what else is done about overload, each named after its source.
//!
//! A strategy is the memory of one client and the calls that share it. All are driven by the same loop: told the time, asked
//! what to do, told what came back.

mod backoff;
mod envoy;
mod forbear;
mod go_zero;
mod grpc_a6;
mod plain;

use std::{fmt, time::Duration};

use ::forbear::{Config, Instant, Reply, Retry};
use clap::ValueEnum;
use rand_xoshiro::Xoshiro256PlusPlus;

pub(super) use self::{
    backoff::Backoff, envoy::AdmissionControl, forbear::Forbear, go_zero::Breaker, grpc_a6::Throttling, plain::Plain,
};

/// The generator of the clients' draws: small, and the same on every platform.
pub(super) type Draws = Xoshiro256PlusPlus;

/// The memory of one client.
pub(super) trait Client {
    type Call<'c>: Attempts
    where
        Self: 'c;

    fn call(&self) -> Self::Call<'_>;

    /// A call is about to come: reads what it needs first, so that the memory of several clients is fetched at the same time.
    /// Changes nothing.
    fn touch(&self) {}

    /// After [`touch`](Self::touch): expires what will have left the memory at `now`, before which no call will come. Changes nothing
    /// that anybody could see.
    fn expire(&self, _now: Instant) {}
}

/// One call: what to do next, and what came back.
pub(super) trait Attempts {
    /// As [`Client::touch`], for a call that waited.
    fn touch(&self) {}

    fn next(&mut self, now: Instant, draws: &mut Draws) -> Move;

    fn reply(&mut self, now: Instant, reply: Reply);
}

/// What a call does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Move {
    /// Send, and wait for an answer no longer than that.
    Send {
        within: Option<Duration>,
    },
    Wait(Duration),
    Done,
}

impl Move {
    const SEND: Self = Self::Send { within: None };
}

/// Whether a reply is what those take for a success who know no difference between an error and overload.
fn is_success(reply: Reply) -> bool {
    reply.is_accepted() && reply.retry() == Retry::Never
}

/// A strategy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Name {
    /// Up to three attempts, one right after the other
    Plain,
    /// Up to three attempts, exponential backoff with full jitter (Amazon Builders' Library)
    Backoff,
    /// Up to three attempts with backoff, retries throttled by tokens (gRPC proposal A6)
    GrpcA6,
    /// One attempt behind go-zero's adaptive breaker
    GoZero,
    /// One attempt behind Envoy's admission control filter
    Envoy,
    /// The SRE book's retry budget alone: Config::overload() without its throttle
    Budget,
    /// The SRE book's budget and throttle to the letter: Config::overload()
    Book,
    /// What forbear recommends: Config::resilient()
    Resilient,
    /// A configuration of your own, made by the flags under "Your own configuration"
    Yours,
}

impl Name {
    pub(super) const ALL: [Self; 8] = [
        Self::Plain,
        Self::Backoff,
        Self::GrpcA6,
        Self::GoZero,
        Self::Envoy,
        Self::Budget,
        Self::Book,
        Self::Resilient,
    ];

    /// The configuration of a strategy that is forbear's.
    pub(super) fn config(self, yours: Config) -> Option<Config> {
        match self {
            Self::Plain | Self::Backoff | Self::GrpcA6 | Self::GoZero | Self::Envoy => None,
            Self::Budget => Config::overload().to_builder().no_throttle().build().ok(),
            Self::Book => Some(Config::overload()),
            Self::Resilient => Some(Config::resilient()),
            Self::Yours => Some(yours),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plain => "plain",
            Self::Backoff => "backoff",
            Self::GrpcA6 => "grpc-a6",
            Self::GoZero => "go-zero",
            Self::Envoy => "envoy",
            Self::Budget => "budget",
            Self::Book => "book",
            Self::Resilient => "resilient",
            Self::Yours => "yours",
        })
    }
}

/// Drives one call through the replies that a test has for it; answers how many were sent and how long it waited.
#[cfg(test)]
fn drive<C: Client>(client: &C, now: Instant, replies: &[Reply], draws: &mut Draws) -> (usize, Duration) {
    let mut call = client.call();
    let (mut now, mut sent, begun) = (now, 0, now);
    loop {
        match call.next(now, draws) {
            Move::Send { .. } => {
                call.reply(now, replies[sent]);
                sent += 1;
            }
            Move::Wait(wait) => now = now.saturating_add(wait),
            Move::Done => return (sent, now.saturating_since(begun)),
        }
    }
}
