//! The sentences of [`Display`](core::fmt::Display) as defmt sends them: interned, and without floating point.
//!
//! What derives its format is formatted by `write!` alone: its `format` panics where it is called by hand.

use defmt::{Format, Formatter, write};

use crate::config::{ConfigError, Value};
use crate::counts::Counts;
use crate::error::{Error, Refused};
use crate::report::{Report, Stop};

impl Format for Report {
    fn format(&self, f: Formatter<'_>) {
        Sentence { report: self, failed: false }.format(f);
    }
}

/// How a call ended, for one whose last result is an error too where it `failed`.
struct Sentence<'r> {
    report: &'r Report,
    failed: bool,
}

impl Format for Sentence<'_> {
    fn format(&self, f: Formatter<'_>) {
        let verdict = Verdict(self);
        match self.report.shadow {
            None => verdict.format(f),
            Some(stop) => {
                let shadow = Reason { stop, counts: &self.report.counts };
                write!(f, "{}; sent in shadow mode although {}", verdict, shadow);
            }
        }
    }
}

/// The sentence without what shadow mode passed over.
struct Verdict<'s>(&'s Sentence<'s>);

impl Format for Verdict<'_> {
    fn format(&self, f: Formatter<'_>) {
        let &Sentence { report, failed } = self.0;
        let reason = Reason { stop: report.stop, counts: &report.counts };
        match (report.stop, report.attempts, failed) {
            (Stop::Accepted, 1, false) => write!(f, "accepted on the first attempt"),
            (Stop::Accepted, attempts, false) => write!(f, "accepted on attempt {=u32}", attempts),
            (Stop::Accepted, 1, true) => write!(f, "answered on the first attempt, and not to be retried"),
            (Stop::Accepted, attempts, true) => {
                write!(f, "answered on attempt {=u32}, and not to be retried", attempts);
            }
            (_, 0, _) => write!(f, "not sent: {}", reason),
            (_, 1, _) => write!(f, "not retried after 1 attempt: {}", reason),
            (_, attempts, _) => write!(f, "not retried after {=u32} attempts: {}", attempts, reason),
        }
    }
}

/// What ended a call, or would have, with the counts that decided it.
struct Reason<'r> {
    stop: Stop,
    counts: &'r Counts,
}

impl Format for Reason<'_> {
    fn format(&self, f: Formatter<'_>) {
        let counts = self.counts;
        match (self.stop, counts.waiting) {
            (Stop::Accepted, _) => write!(f, "accepted"),
            (Stop::Final, _) => write!(f, "the reply must not be retried"),
            (Stop::AttemptsSpent, _) => write!(f, "no more attempts are allowed"),
            (Stop::Budget, 0) => write!(
                f,
                "the retry budget is spent: {=u32} of the last {=u32} requests were retries",
                counts.retries, counts.requests
            ),
            (Stop::Budget, waiting) => write!(
                f,
                "the retry budget is spent: {=u32} of the last {=u32} requests were retries, and {=u32} more wait",
                counts.retries, counts.requests, waiting
            ),
            // The probability is a double, and is left to the reader.
            (Stop::Throttled, _) => {
                write!(f, "the backend accepted {=u32} of the last {=u32} requests", counts.accepts, counts.judged());
            }
            (Stop::Deadline, _) => write!(f, "the next attempt would start past the deadline"),
            (Stop::RetryAfter, _) => write!(f, "the server asks for a longer wait than is allowed"),
            (Stop::Abandoned, _) => write!(f, "the caller gave up"),
        }
    }
}

impl Format for Refused {
    fn format(&self, f: Formatter<'_>) {
        self.report().format(f);
    }
}

impl<E: Format> Format for Error<E> {
    fn format(&self, f: Formatter<'_>) {
        match self {
            Self::Refused(refused) => refused.format(f),
            Self::TimedOut(report) => write!(f, "timed out, {}", report),
            Self::Failed { last, report } => write!(f, "{} ({})", last, Sentence { report, failed: true }),
        }
    }
}

impl Format for ConfigError {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{=str} is {}, allowed: {=str}", self.field(), self.value, self.allowed());
    }
}

impl Format for Value {
    fn format(&self, f: Formatter<'_>) {
        match self {
            Self::Number(value) => write!(f, "{=f64}", value),
            Self::Count(value) => write!(f, "{=u32}", value),
            Self::Time(value) => match (value.as_secs(), value.subsec_nanos()) {
                (0, 0) => write!(f, "0ns"),
                (seconds, 0) => write!(f, "{=u64}s", seconds),
                (0, nanos) if nanos % 1_000_000 == 0 => write!(f, "{=u32}ms", nanos / 1_000_000),
                (seconds, nanos) => write!(f, "{=u64}.{=u32:09}s", seconds, nanos),
            },
        }
    }
}
