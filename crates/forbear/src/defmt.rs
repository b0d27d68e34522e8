//! The sentences of [`Display`](core::fmt::Display) as defmt sends them: interned, and without floating point.

use core::time::Duration;

use defmt::{Format, Formatter, write};

use crate::config::{ConfigError, Value};
use crate::error::{Error, Refused};
use crate::report::{Report, Stop};

impl Format for Report {
    fn format(&self, f: Formatter<'_>) {
        let reason = Reason { stop: self.stop, report: self };
        match (self.shadow, self.stop, self.attempts) {
            (Some(stop), _, attempts) => {
                let shadow = Reason { stop, report: self };
                write!(f, "{} after {=u32} attempts; sent in shadow mode although {}", reason, attempts, shadow);
            }
            (None, Stop::Accepted, attempts) => write!(f, "accepted on attempt {=u32}", attempts),
            (None, _, 0) => write!(f, "not sent: {}", reason),
            (None, _, attempts) => write!(f, "not retried after {=u32} attempts: {}", attempts, reason),
        }
    }
}

/// What ended a call, or would have, with the counts that decided it.
struct Reason<'r> {
    stop: Stop,
    report: &'r Report,
}

impl Format for Reason<'_> {
    fn format(&self, f: Formatter<'_>) {
        let counts = &self.report.counts;
        match self.stop {
            Stop::Budget => write!(
                f,
                "the retry budget is spent: {=u32} of the last {=u32} requests were retries, and {=u32} more wait",
                counts.retries, counts.requests, counts.waiting
            ),
            Stop::Throttled => {
                write!(f, "the backend accepted {=u32} of the last {=u32} requests", counts.accepts, counts.judged());
            }
            stop => stop.format(f),
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
            Self::Failed { last, report } => write!(f, "{} ({})", last, report),
        }
    }
}

impl Format for ConfigError {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{=str} is {}, allowed: {=str}", self.field(), self.value(), self.allowed());
    }
}

impl Format for Value {
    fn format(&self, f: Formatter<'_>) {
        match self {
            Self::Number(value) => write!(f, "{=f64}", value),
            Self::Count(value) => write!(f, "{=u32}", value),
            Self::Time(value) => Seconds(*value).format(f),
        }
    }
}

struct Seconds(Duration);

impl Format for Seconds {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{=u64}.{=u32:09} s", self.0.as_secs(), self.0.subsec_nanos());
    }
}
