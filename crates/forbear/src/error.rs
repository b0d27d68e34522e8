//! The three ways in which a call has no good answer, each with its report.

use core::fmt;

use crate::report::Report;

/// Why a call has no good answer: refused (never sent), timed out (cut by a limit), or failed (sent; carries the last error).
///
/// After at least one reply the caller gets the last one untouched, whatever ended the retries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Error<E> {
    /// Never sent: the throttle refused the first attempt.
    Refused(Refused),
    /// Sent; no attempt had an answer before its timeout or the deadline cut it.
    TimedOut(Report),
    /// Sent, and not sent again for the report's reason.
    Failed {
        /// What the last send returned.
        last: E,
        /// How the call ended.
        report: Report,
    },
}

impl<E> Error<E> {
    /// Whether the call was never sent.
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// How the call ended.
    pub const fn report(&self) -> &Report {
        match self {
            Self::Refused(Refused(report)) | Self::TimedOut(report) | Self::Failed { report, .. } => report,
        }
    }

    /// What the last send returned, where it returned anything.
    pub fn into_last(self) -> Option<E> {
        match self {
            Self::Failed { last, .. } => Some(last),
            Self::Refused(_) | Self::TimedOut(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::TimedOut(report) => write!(f, "timed out, {report}"),
            Self::Failed { last, report } => write!(f, "{last} ({report})"),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Failed { last, .. } => Some(last),
            Self::Refused(_) | Self::TimedOut(_) => None,
        }
    }
}

/// Dropped here before the first send: the backend never saw it.
///
/// An error of its own, so that it can be found by its type behind a boxed error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refused(Report);

impl Refused {
    /// How the call ended.
    pub const fn report(&self) -> &Report {
        &self.0
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl core::error::Error for Refused {}

impl Report {
    /// The result of the call: the last that a send returned, or why there is nothing. `None` stands for sends that were
    /// all cut, or for none at all.
    ///
    /// # Errors
    ///
    /// As the [`Error`] says.
    #[inline]
    pub fn resolve<T, E>(self, last: Option<Result<T, E>>) -> Result<T, Error<E>> {
        match last {
            Some(Ok(value)) => Ok(value),
            Some(Err(last)) => Err(Error::Failed { last, report: self }),
            None if self.is_refused() => Err(Error::Refused(Refused(self))),
            None => Err(Error::TimedOut(self)),
        }
    }
}
