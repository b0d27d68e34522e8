//! How a call ended, why, and the counts that decided it: one value, one sentence.

use core::fmt;

use crate::config::Config;
use crate::counts::Counts;
use crate::throttle::{self, K};

/// How a call ended and why, with the counts that decided it.
///
/// The same value is in every error, log event and metric. It prints as one sentence:
///
/// ```
/// use forbear::testing::{ManualClock, ScriptedRng};
/// use forbear::{Call, Clock, Config, Instant, Policy, Reply, Step, Window};
///
/// let (clock, mut rng) = (ManualClock::new(), ScriptedRng::new(&[0; 8]));
/// let policy = Policy::new(Config::overload().to_builder().max_attempts(1).build()?, Window::new());
/// for _ in 0..2 {
///     let mut call = Call::new(&policy);
///     match call.next(clock.now(), &mut rng) {
///         Step::Send { .. } => call.reply(clock.now(), Reply::OVERLOADED),
///         Step::Done(report) => assert_eq!(
///             report.to_string(),
///             "not sent: the backend accepted 0 of the last 1 requests (reject probability 0.50)",
///         ),
///         Step::Wait(_) => {}
///     }
/// }
/// # Ok::<(), forbear::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// What ended the call.
    pub stop: Stop,
    /// How often it was sent.
    pub attempts: u32,
    /// How often the backend did the work, by the replies that came. Saturates at 65,535.
    pub accepts: u16,
    /// The counts that the last decision saw: the throttle's as the last attempt started, or the budget's as it refused.
    pub counts: Counts,
    /// In shadow mode, what would have ended the call first; `None` where nothing would have.
    pub shadow: Option<Stop>,
    /// K where the throttle had a say.
    k: Option<K>,
}

/// What ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Stop {
    /// The backend did the work, or answered what it would always answer.
    Accepted,
    /// The reply must not be retried.
    Final,
    /// As many attempts as are allowed were sent.
    AttemptsSpent,
    /// The retry budget refused a retry.
    Budget,
    /// The throttle refused an attempt.
    Throttled,
    /// The next attempt would have started past the deadline.
    Deadline,
    /// The server asked for a longer wait than is allowed.
    RetryAfter,
    /// The caller gave up on it before it was over.
    Abandoned,
}

impl Stop {
    /// A short name for metrics and logs: lower case, words joined by `_`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Final => "final",
            Self::AttemptsSpent => "attempts_spent",
            Self::Budget => "budget",
            Self::Throttled => "throttled",
            Self::Deadline => "deadline",
            Self::RetryAfter => "retry_after",
            Self::Abandoned => "abandoned",
        }
    }
}

impl Report {
    #[inline]
    pub(crate) fn new(
        stop: Stop,
        attempts: u32,
        accepts: u16,
        counts: Counts,
        shadow: Option<Stop>,
        config: &Config,
    ) -> Self {
        let k = if counts.judged() >= config.min_requests { config.k } else { None };
        Self { stop, attempts, accepts, counts, shadow, k }
    }

    /// Whether the call was never sent: the throttle refused its first attempt, or the caller gave up before it.
    pub const fn is_refused(&self) -> bool {
        self.attempts == 0
    }

    /// The reject probability that the counts stand for, in 0 to 1; 0 where nothing throttles.
    pub fn reject_probability(&self) -> f64 {
        self.k.map_or(0.0, |k| throttle::reject_probability(self.counts.judged(), self.counts.accepts, k))
    }

    /// What ended the call, or in shadow mode what would have.
    fn explain(&self, stop: Stop, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        match stop {
            Stop::Accepted => f.write_str("accepted"),
            Stop::Final => f.write_str("the reply must not be retried"),
            Stop::AttemptsSpent => f.write_str("no more attempts are allowed"),
            Stop::Budget => {
                write!(
                    f,
                    "the retry budget is spent: {} of the last {} requests were retries",
                    counts.retries, counts.requests
                )?;
                match counts.waiting {
                    0 => Ok(()),
                    waiting => write!(f, ", and {waiting} more wait"),
                }
            }
            Stop::Throttled => {
                write!(f, "the backend accepted {} of the last {} requests", counts.accepts, counts.judged())?;
                write!(f, " (reject probability {:.2})", self.reject_probability())
            }
            Stop::Deadline => f.write_str("the next attempt would start past the deadline"),
            Stop::RetryAfter => f.write_str("the server asks for a longer wait than is allowed"),
            Stop::Abandoned => f.write_str("the caller gave up"),
        }
    }

    /// The sentence, for a call whose last result is an error too: one that was accepted was answered all the same.
    pub(crate) fn sentence(&self, failed: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.stop, self.attempts) {
            (Stop::Accepted, attempts) => {
                f.write_str(if failed { "answered on " } else { "accepted on " })?;
                match attempts {
                    1 => f.write_str("the first attempt")?,
                    _ => write!(f, "attempt {attempts}")?,
                }
                f.write_str(if failed { ", and not to be retried" } else { "" })?;
            }
            (stop, 0) => {
                f.write_str("not sent: ")?;
                self.explain(stop, f)?;
            }
            (stop, attempts) => {
                write!(f, "not retried after {attempts} attempt{}: ", if attempts == 1 { "" } else { "s" })?;
                self.explain(stop, f)?;
            }
        }
        if let Some(stop) = self.shadow {
            f.write_str("; sent in shadow mode although ")?;
            self.explain(stop, f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sentence(false, f)
    }
}
