//! An observer that writes events of `tracing`.

use std::borrow::Cow;

use forbear::{Report, Stop};
use forbear_std::Observer;
use tracing::{Level, event};

/// Writes an event of `tracing` for each call that was refused, and for each that was retried.
///
/// Nothing is written of a call that its first attempt answered. The target is `forbear`; each event has the report's
/// sentence as its message, and these fields:
///
/// | field | what it holds |
/// |---|---|
/// | `client` | the name given to the observer |
/// | `stop` | what ended the call, as [`Stop::as_str`] names it |
/// | `shadow` | in shadow mode, what would have ended it; absent otherwise |
/// | `attempts` | how often it was sent |
/// | `requests`, `accepts`, `retries`, `waiting` | the counts of the window that decided |
/// | `p` | the reject probability that they stand for |
///
/// The level is WARN where the throttle or the budget refused something, or would have in shadow mode, or a limit ended
/// the call, and DEBUG else. In an overload there can be as many as there are calls: filter by the target.
///
/// ```
/// use forbear_tokio::{Client, Events};
///
/// let client = Client::default().observed(Events::new("inventory"));
/// ```
#[derive(Clone, Debug)]
pub struct Events {
    client: Cow<'static, str>,
}

impl Events {
    /// Events of the client of this name.
    pub fn new(client: impl Into<Cow<'static, str>>) -> Self {
        Self { client: client.into() }
    }
}

impl Observer for Events {
    fn ended(&self, report: &Report) {
        // Levels are part of what is static of an event.
        macro_rules! write {
            ($level:ident) => {
                event!(
                    target: "forbear",
                    Level::$level,
                    client = &*self.client,
                    stop = report.stop.as_str(),
                    shadow = report.shadow.map(Stop::as_str),
                    attempts = report.attempts,
                    requests = report.counts.requests,
                    accepts = report.counts.accepts,
                    retries = report.counts.retries,
                    waiting = report.counts.waiting,
                    p = report.reject_probability(),
                    "{report}",
                )
            };
        }
        let refused = matches!(report.stop, Stop::Throttled | Stop::Budget | Stop::Deadline | Stop::RetryAfter);
        if refused || report.shadow.is_some() {
            write!(WARN);
        } else if report.attempts > 1 {
            write!(DEBUG);
        }
    }
}
