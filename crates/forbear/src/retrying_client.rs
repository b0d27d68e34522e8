//! The second specification as a client of its own: backoff with full jitter, and no window.

use rand_core::Rng;

use crate::call::{Call, Step};
use crate::clock::Sleep;
use crate::config::Config;
use crate::policy::Policy;
use crate::reply::Reply;

/// Retries with exponential backoff and full jitter for one thread, counting nothing.
///
/// A reply that says when to come back is obeyed to the letter. Source: the Amazon Builders' Library, "Timeouts, retries,
/// and backoff with jitter".
///
/// ```
/// use core::time::Duration;
/// use forbear::testing::{ManualClock, ScriptedRng};
/// use forbear::{Answer, Clock, Config, Instant, Reply, RetryingClient, http};
///
/// let clock = ManualClock::new();
/// let mut client = RetryingClient::new(&clock, ScriptedRng::new(&[1 << 63, 1 << 62]), Config::retrying());
///
/// let mut statuses = [503, 502, 200].into_iter();
/// let answer = client.call(|| statuses.next().unwrap(), |status| http::status(*status));
/// assert_eq!(answer, Answer { reply: 200, attempts: 3 });
/// // Half of 100 ms, then a quarter of 200 ms.
/// assert_eq!(clock.now(), Instant::from_millis(50 + 50));
/// ```
#[derive(Debug)]
pub struct RetryingClient<C, R> {
    clock: C,
    rng: R,
    policy: Policy<()>,
}

/// What a call of the [`RetryingClient`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The last reply.
    pub reply: T,
    /// How often the call was sent.
    pub attempts: u32,
}

impl<C, R> RetryingClient<C, R> {
    /// A client with this clock to sleep by and this generator for its jitter.
    pub const fn new(clock: C, rng: R, config: Config) -> Self {
        Self { clock, rng, policy: Policy::new(config, ()) }
    }
}

impl<C: Sleep, R: Rng> RetryingClient<C, R> {
    /// One call: `send` is one attempt, `classify` says what its reply means.
    pub fn call<T>(&mut self, mut send: impl FnMut() -> T, classify: impl Fn(&T) -> Reply) -> Answer<T> {
        let mut call = Call::new(&self.policy);
        let mut last = None;
        loop {
            match call.next(self.clock.now(), &mut self.rng) {
                Step::Send { .. } => {
                    let reply = send();
                    call.reply(self.clock.now(), classify(&reply));
                    last = Some(reply);
                }
                Step::Wait(delay) => self.clock.sleep(delay),
                Step::Done(report) => {
                    // Nothing is refused without a window, so there is a reply; if ever there were none, one send is
                    // what the specification asks for.
                    let reply = last.unwrap_or_else(&mut send);
                    return Answer { reply, attempts: report.attempts.max(1) };
                }
            }
        }
    }
}
