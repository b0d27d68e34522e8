//! The three ways in which a call has no good answer, each with its report.

use core::fmt;

use crate::report::Report;

/// Why a call has no good answer: refused (never sent), timed out (cut by a limit), or failed (sent; carries the last error).
///
/// After at least one reply the caller gets the last one untouched, whatever ended the retries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Error<E> {
    /// Never sent: the throttle refused the first attempt, or the caller gave up before it.
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
            Self::Failed { last, report } => {
                write!(f, "{last} (")?;
                report.sentence(true, f)?;
                f.write_str(")")
            }
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

/// Given up here before the first send: the backend never saw it.
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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::{String, ToString};

    use crate::call::{Call, Step};
    use crate::clock::Instant;
    use crate::config::{Config, Mode};
    use crate::policy::Policy;
    use crate::reply::Reply;
    use crate::testing::ScriptedRng;
    use crate::window::Window;

    /// What the last of so many calls says for itself whose attempts fail, each with the next of these replies.
    fn says(config: Config, mode: Mode, calls: u32, replies: &[Reply]) -> String {
        let policy = Policy::new(config, Window::new());
        policy.set_mode(mode);
        let mut rng = ScriptedRng::new(&[u64::MAX]);
        let mut said = String::new();
        for _ in 0..calls {
            let (mut call, mut last) = (Call::new(&policy), None);
            let mut replies = replies.iter();
            let report = loop {
                match call.next(Instant::ORIGIN, &mut rng) {
                    Step::Send { .. } => {
                        call.reply(Instant::ORIGIN, *replies.next().unwrap());
                        last = Some(Err::<(), _>("no such thing"));
                    }
                    Step::Wait(_) => {}
                    Step::Done(report) => break report,
                }
            };
            said = report.resolve(last).unwrap_err().to_string();
        }
        said
    }

    #[test]
    fn a_failure_that_the_backend_answered_is_not_called_accepted() {
        let said = |replies: &[Reply]| says(Config::overload(), Mode::Enforce, 1, replies);
        assert_eq!(said(&[Reply::PERMANENT]), "no such thing (answered on the first attempt, and not to be retried)");
        assert_eq!(
            said(&[Reply::OVERLOADED, Reply::PERMANENT]),
            "no such thing (answered on attempt 2, and not to be retried)"
        );
        assert_eq!(
            said(&[Reply::TRANSIENT.once()]),
            "no such thing (answered on the first attempt, and not to be retried)"
        );
        assert_eq!(
            said(&[Reply::OVERLOADED.once()]),
            "no such thing (not retried after 1 attempt: the reply must not be retried)"
        );
        let spent = Config::overload().to_builder().max_attempts(1).build().unwrap();
        assert_eq!(
            says(spent, Mode::Enforce, 1, &[Reply::OVERLOADED]),
            "no such thing (not retried after 1 attempt: no more attempts are allowed)"
        );
    }

    #[test]
    fn a_failure_in_shadow_mode_says_what_would_have_been() {
        let config = Config::overload().to_builder().no_throttle().build().unwrap();
        assert_eq!(
            says(config, Mode::Shadow, 2, &[Reply::OVERLOADED, Reply::PERMANENT]),
            "no such thing (answered on attempt 2, and not to be retried; sent in shadow mode although the retry budget \
             is spent: 1 of the last 3 requests were retries)"
        );
    }

    #[test]
    fn a_call_given_up_before_it_began_was_not_sent() {
        let policy = Policy::new(Config::overload(), Window::new());
        let error = Call::new(&policy).abandon().resolve(None::<Result<(), &str>>).unwrap_err();
        assert!(error.is_refused());
        assert_eq!(error.to_string(), "not sent: the caller gave up");
    }
}
