//! What a reply means: was it accepted, and may it be retried.

use core::time::Duration;

/// What one send came to. The policy asks two questions of it, and only these.
///
/// An *accept* is not a *success*: an error that the backend produced after doing the work is an accept. Only overload
/// and unreachability count against the backend; otherwise one with many ordinary errors would be throttled to death.
///
/// | reply | accepted | retried |
/// |---|---|---|
/// | [`ACCEPTED`](Self::ACCEPTED) | yes | no |
/// | [`PERMANENT`](Self::PERMANENT) | yes | no |
/// | [`TRANSIENT`](Self::TRANSIENT) | yes | yes |
/// | [`OVERLOADED`](Self::OVERLOADED) | no | yes |
/// | [`UNREACHABLE`](Self::UNREACHABLE) | no | yes |
///
/// The last three are for requests that may be sent twice. For one that must not, say so with [`once`](Self::once): the
/// counting stays the same.
///
/// ```
/// use core::time::Duration;
/// use forbear::{Reply, Retry};
///
/// assert_eq!(Reply::OVERLOADED.after(Duration::from_secs(3)).retry(), Retry::After(Duration::from_secs(3)));
/// assert_eq!(Reply::OVERLOADED.once().retry(), Retry::Never);
/// assert!(!Reply::OVERLOADED.once().is_accepted());
/// // What must not be retried is not made retryable by a time to wait.
/// assert_eq!(Reply::PERMANENT.after(Duration::from_secs(3)), Reply::PERMANENT);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a reply counts only once the policy is told of it"]
pub struct Reply {
    accepted: bool,
    retry: Retry,
}

/// Whether and when a send may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Never.
    Never,
    /// After a backoff.
    Backoff,
    /// After just this long, as the server said: no jitter, no cap. Rounded up to a microsecond, and at most 584,000 years.
    After(Duration),
}

impl Reply {
    /// The backend did the work: HTTP 1xx to 3xx, gRPC OK.
    pub const ACCEPTED: Self = Self::new(true, Retry::Never);

    /// The backend answered, and would answer the same again: HTTP 4xx but 429.
    pub const PERMANENT: Self = Self::new(true, Retry::Never);

    /// The backend did the work and failed at it this time: HTTP 500.
    pub const TRANSIENT: Self = Self::new(true, Retry::Backoff);

    /// The backend turned the request away for want of capacity: HTTP 429 and 503, gRPC RESOURCE_EXHAUSTED and UNAVAILABLE.
    pub const OVERLOADED: Self = Self::new(false, Retry::Backoff);

    /// No answer of the backend's own: a connection refused, reset or cut by a timeout, HTTP 502 and 504.
    pub const UNREACHABLE: Self = Self::new(false, Retry::Backoff);

    /// A reply by its two answers, for what no constant names.
    pub const fn new(accepted: bool, retry: Retry) -> Self {
        Self { accepted, retry }
    }

    /// The same, to be retried after just `wait`; one that is never retried stays so.
    pub const fn after(self, wait: Duration) -> Self {
        match self.retry {
            Retry::Never => self,
            Retry::Backoff | Retry::After(_) => Self { retry: Retry::After(wait), ..self },
        }
    }

    /// The same, but never retried.
    pub const fn once(self) -> Self {
        Self { retry: Retry::Never, ..self }
    }

    /// Whether the backend did the work.
    pub const fn is_accepted(self) -> bool {
        self.accepted
    }

    /// Whether and when the request may be sent again.
    pub const fn retry(self) -> Retry {
        self.retry
    }
}
