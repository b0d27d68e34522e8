//! The first specification as a client of its own: throttle and budget over a window, and no wait.

use rand_core::Rng;

use crate::call::{Call, Step};
use crate::clock::Clock;
use crate::config::Config;
use crate::counts::Tally;
use crate::policy::Policy;
use crate::reply::Reply;
use crate::report::Stop;
use crate::window::Window;

/// Overload control of the SRE book for one thread: a retry budget and adaptive throttling.
///
/// It never waits: of a configuration it uses all but the backoff, and where a reply names a
/// [time to wait](Reply::after) it retries at once all the same, unless that time is past
/// [`max_retry_after`](crate::ConfigBuilder::max_retry_after) or the deadline and ends the call. Where waits are to be kept,
/// [`RetryingClient`](crate::RetryingClient) and the adapters keep them. Source: *Site Reliability Engineering*, chapter
/// "Handling Overload".
///
/// ```
/// use forbear::testing::{ManualClock, ScriptedRng};
/// use forbear::{Config, Outcome, OverloadClient, Reply};
///
/// let clock = ManualClock::new();
/// let rng = ScriptedRng::new(&[u64::MAX, u64::MAX, u64::MAX, 0]);
/// let mut client = OverloadClient::new(&clock, rng, Config::overload());
///
/// assert_eq!(client.call(|| Reply::ACCEPTED), Outcome::Ok);
/// assert_eq!((client.requests(), client.accepts(), client.retries()), (1, 1, 0));
/// // Sent, and sent again: one retry is less than 0.1 * 2 only as long as there was none.
/// assert_eq!(client.call(|| Reply::OVERLOADED), Outcome::Budget);
/// assert_eq!((client.requests(), client.accepts(), client.retries()), (3, 1, 1));
/// assert_eq!(client.reject_probability(), 0.25); // (3 - 2 * 1) / (3 + 1)
/// // The next draw is 0, which is below 0.25.
/// assert_eq!(client.call(|| Reply::ACCEPTED), Outcome::Throttled);
/// ```
#[derive(Debug)]
pub struct OverloadClient<C, R, W = Window> {
    clock: C,
    rng: R,
    policy: Policy<W>,
}

/// How a call of the [`OverloadClient`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Accepted.
    Ok,
    /// Dropped here by the throttle, on its first attempt or on a retry.
    Throttled,
    /// Overloaded, and the budget allowed no retry.
    Budget,
    /// Overloaded, and not to be sent again: as often as is allowed, or past a limit.
    Failed,
}

impl<C, R> OverloadClient<C, R> {
    /// A client over the window of two minutes.
    pub const fn new(clock: C, rng: R, config: Config) -> Self {
        Self::with_window(clock, rng, config, Window::new())
    }
}

impl<C, R, W> OverloadClient<C, R, W> {
    /// A client over another window.
    pub const fn with_window(clock: C, rng: R, config: Config, window: W) -> Self {
        Self { clock, rng, policy: Policy::new(config, window) }
    }

    /// The policy, for its mode and its configuration.
    pub const fn policy(&self) -> &Policy<W> {
        &self.policy
    }
}

impl<C: Clock, R: Rng, W: Tally> OverloadClient<C, R, W> {
    /// One call: `send` is one attempt.
    pub fn call(&mut self, mut send: impl FnMut() -> Reply) -> Outcome {
        let mut call = Call::new(&self.policy);
        loop {
            match call.next(self.clock.now(), &mut self.rng) {
                Step::Send { .. } => {
                    let reply = send();
                    call.reply(self.clock.now(), reply);
                }
                Step::Wait(_) => {}
                Step::Done(report) => {
                    return match report.stop {
                        Stop::Accepted => Outcome::Ok,
                        Stop::Throttled => Outcome::Throttled,
                        Stop::Budget => Outcome::Budget,
                        Stop::Final | Stop::AttemptsSpent | Stop::Deadline | Stop::RetryAfter | Stop::Abandoned => {
                            Outcome::Failed
                        }
                    };
                }
            }
        }
    }

    /// The attempts in the window, now.
    pub fn requests(&self) -> u32 {
        self.policy.counts(self.clock.now()).requests
    }

    /// The accepted ones in the window, now.
    pub fn accepts(&self) -> u32 {
        self.policy.counts(self.clock.now()).accepts
    }

    /// The retries in the window, now.
    pub fn retries(&self) -> u32 {
        self.policy.counts(self.clock.now()).retries
    }

    /// The probability that an attempt made now would be dropped, in 0 to 1.
    pub fn reject_probability(&self) -> f64 {
        self.policy.reject_probability(self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::testing::{ManualClock, ScriptedRng};

    #[test]
    fn a_time_to_wait_is_not_kept_unless_it_ends_the_call() {
        const HOUR: Duration = Duration::from_secs(3_600);
        fn sends(config: Config) -> (u32, Outcome) {
            let clock = ManualClock::new();
            let mut client = OverloadClient::new(&clock, ScriptedRng::new(&[u64::MAX]), config);
            let mut sends = 0;
            let outcome = client.call(|| {
                sends += 1;
                if sends == 1 { Reply::OVERLOADED.after(HOUR) } else { Reply::ACCEPTED }
            });
            (sends, outcome)
        }
        let builder = Config::overload().to_builder();
        assert_eq!(sends(Config::overload()), (2, Outcome::Ok));
        assert_eq!(sends(builder.max_retry_after(HOUR).build().unwrap()), (2, Outcome::Ok));
        assert_eq!(sends(builder.max_retry_after(HOUR / 2).build().unwrap()), (1, Outcome::Failed));
        assert_eq!(sends(builder.deadline(HOUR / 2).build().unwrap()), (1, Outcome::Failed));
    }
}
