//! An observer that counts, in `metrics`.

use std::borrow::Cow;

use forbear::{Report, Stop};
use forbear_std::Observer;
use metrics::{Counter, Gauge, SharedString, Unit};

/// Counts calls in `metrics`, from where an exporter takes them.
///
/// | metric | kind | what it counts |
/// |---|---|---|
/// | `forbear_calls_total` | counter | calls that have ended |
/// | `forbear_attempts_total` | counter | what was sent |
/// | `forbear_accepts_total` | counter | what the backend accepted, among the attempts |
/// | `forbear_retries_total` | counter | what was sent again, among the attempts |
/// | `forbear_refusals_total` | counter | what was not sent, by `reason` |
/// | `forbear_reject_probability` | gauge | p, 0 to 1, as the last call that ended saw it |
///
/// Each has the label `client`, the name given to the observer. `reason` is `throttled`, `budget`, `deadline` or
/// `retry_after`, as [`Stop::as_str`] names them; the label `mode` of a refusal is `enforce`, or `shadow` where it would have
/// been one and was sent anyway. Calls that were dropped count, too.
///
/// The recorder has to be installed before the observer is made.
///
/// ```
/// use forbear_tokio::{Client, Metrics};
///
/// let client = Client::default().observed(Metrics::new("inventory"));
/// ```
#[derive(Clone)]
pub struct Metrics {
    calls: Counter,
    attempts: Counter,
    accepts: Counter,
    retries: Counter,
    enforced: Refusals,
    shadow: Refusals,
    reject_probability: Gauge,
}

#[derive(Clone)]
struct Refusals {
    throttled: Counter,
    budget: Counter,
    deadline: Counter,
    retry_after: Counter,
}

impl Metrics {
    /// Metrics of the client of this name.
    pub fn new(client: impl Into<Cow<'static, str>>) -> Self {
        let client = SharedString::from(client.into());
        metrics::describe_counter!("forbear_calls_total", Unit::Count, "calls that have ended");
        metrics::describe_counter!("forbear_attempts_total", Unit::Count, "what was sent");
        metrics::describe_counter!("forbear_accepts_total", Unit::Count, "what the backend accepted");
        metrics::describe_counter!("forbear_retries_total", Unit::Count, "what was sent again");
        metrics::describe_counter!("forbear_refusals_total", Unit::Count, "what was not sent, by reason");
        metrics::describe_gauge!("forbear_reject_probability", "the probability that an attempt is not sent");
        Self {
            calls: metrics::counter!("forbear_calls_total", "client" => client.clone()),
            attempts: metrics::counter!("forbear_attempts_total", "client" => client.clone()),
            accepts: metrics::counter!("forbear_accepts_total", "client" => client.clone()),
            retries: metrics::counter!("forbear_retries_total", "client" => client.clone()),
            enforced: Refusals::new(&client, "enforce"),
            shadow: Refusals::new(&client, "shadow"),
            reject_probability: metrics::gauge!("forbear_reject_probability", "client" => client),
        }
    }
}

impl Refusals {
    fn new(client: &SharedString, mode: &'static str) -> Self {
        let reason = |stop: Stop| metrics::counter!("forbear_refusals_total", "client" => client.clone(), "mode" => mode, "reason" => stop.as_str());
        Self {
            throttled: reason(Stop::Throttled),
            budget: reason(Stop::Budget),
            deadline: reason(Stop::Deadline),
            retry_after: reason(Stop::RetryAfter),
        }
    }

    const fn of(&self, stop: Stop) -> Option<&Counter> {
        match stop {
            Stop::Throttled => Some(&self.throttled),
            Stop::Budget => Some(&self.budget),
            Stop::Deadline => Some(&self.deadline),
            Stop::RetryAfter => Some(&self.retry_after),
            _ => None,
        }
    }
}

impl Observer for Metrics {
    fn ended(&self, report: &Report) {
        self.calls.increment(1);
        self.attempts.increment(report.attempts.into());
        self.retries.increment(report.attempts.saturating_sub(1).into());
        self.accepts.increment(report.accepts.into());
        if let Some(refused) = self.enforced.of(report.stop) {
            refused.increment(1);
        }
        if let Some(refused) = report.shadow.and_then(|stop| self.shadow.of(stop)) {
            refused.increment(1);
        }
        self.reject_probability.set(report.reject_probability());
    }
}

impl core::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
