//! Configuration, valid by construction: presets, a const builder, and an error that names what is refused.

use core::fmt;
use core::time::Duration;

use crate::backoff::{Backoff, micros};
use crate::budget::RetryRatio;
use crate::clock::duration;
use crate::recovery::Recovery;
use crate::throttle::K;
use crate::window::MAX_GRACE;

/// No limit, where a limit is in microseconds.
const NONE: u64 = u64::MAX;

/// What a policy decides by: valid however it was made, `Copy`, and made in constants.
///
/// There is no default: [`overload`](Self::overload) and [`retrying`](Self::retrying) are the two specifications to the
/// letter, [`resilient`](Self::resilient) is what a service should run. Each is changed through
/// [`to_builder`](Self::to_builder):
///
/// ```
/// use core::time::Duration;
/// use forbear::Config;
///
/// let config = Config::resilient().to_builder().k(1.5).deadline(Duration::from_secs(10)).build()?;
/// assert_eq!(config.k(), Some(1.5));
///
/// let refused = Config::resilient().to_builder().k(f64::NAN).build().unwrap_err();
/// assert_eq!(refused.to_string(), "k is NaN, allowed: finite, 0 or more");
/// # Ok::<(), forbear::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    pub(crate) k: Option<K>,
    pub(crate) retry_ratio: Option<RetryRatio>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) recovery: Option<Recovery>,
    /// Limits in microseconds, [`NONE`] for none.
    pub(crate) deadline: u64,
    pub(crate) attempt_timeout: u64,
    pub(crate) max_retry_after: u64,
    pub(crate) max_attempts: u32,
    pub(crate) min_requests: u32,
    pub(crate) retry_floor: u32,
    /// Whole seconds, 0 for none.
    pub(crate) grace: u8,
    pub(crate) retry_after_jitter: bool,
    pub(crate) mode: Mode,
}

impl Config {
    /// `OverloadClient` of the specification: K 2, retry ratio 0.1, three attempts, no backoff.
    ///
    /// Source: *Site Reliability Engineering*, chapter "Handling Overload".
    pub const fn overload() -> Self {
        Self {
            k: Some(K::DEFAULT),
            retry_ratio: Some(RetryRatio::DEFAULT),
            backoff: None,
            recovery: None,
            deadline: NONE,
            attempt_timeout: NONE,
            max_retry_after: NONE,
            max_attempts: 3,
            min_requests: 0,
            retry_floor: 0,
            grace: 0,
            retry_after_jitter: false,
            mode: Mode::Enforce,
        }
    }

    /// `RetryingClient` of the specification: three attempts, full jitter from 100 ms doubled up to 2 s, and neither
    /// throttle nor budget.
    ///
    /// Source: the Amazon Builders' Library, "Timeouts, retries, and backoff with jitter".
    pub const fn retrying() -> Self {
        Self { k: None, retry_ratio: None, backoff: Some(Backoff::DEFAULT), ..Self::overload() }
    }

    /// What a service should run: throttle, budget and backoff together, and the extensions that keep them fair to quiet
    /// and to fresh clients.
    ///
    /// On top of the two specifications: [`recovery`](ConfigBuilder::recovery) at its default pace,
    /// [`min_requests`](ConfigBuilder::min_requests) 2, [`in_flight_grace`](ConfigBuilder::in_flight_grace) of a second,
    /// [`max_retry_after`](ConfigBuilder::max_retry_after) of 30 seconds and
    /// [`retry_after_jitter`](ConfigBuilder::retry_after_jitter).
    ///
    /// Measured on fleets that ask for ten times the capacity: the backend gets 2.2x of it from clients with 10 calls a second,
    /// 2.3x with 1; after outages of 1 to 15 minutes 95 % of the calls are served within 16 s and within 58 s.
    ///
    /// It sets no deadline and no attempt timeout, since only the caller knows what its requests may take; set both where
    /// the transport does not. To an [attempt timeout](ConfigBuilder::attempt_timeout) of a second or less the grace gives
    /// way.
    pub const fn resilient() -> Self {
        Self {
            backoff: Some(Backoff::DEFAULT),
            recovery: Some(Recovery::DEFAULT),
            min_requests: 2,
            grace: 1,
            max_retry_after: 30_000_000,
            retry_after_jitter: true,
            ..Self::overload()
        }
    }

    /// A builder that starts from this configuration.
    pub const fn to_builder(self) -> ConfigBuilder {
        ConfigBuilder { config: self, grace_is_asked_for: false, refused: None }
    }

    /// The throttle's K, `None` without a throttle.
    pub const fn k(&self) -> Option<f64> {
        match self.k {
            Some(k) => Some(k.as_f64()),
            None => None,
        }
    }

    /// The budget's ratio of retries to requests, `None` without a budget.
    pub const fn retry_ratio(&self) -> Option<f64> {
        match self.retry_ratio {
            Some(ratio) => Some(ratio.as_f64()),
            None => None,
        }
    }

    /// The backoff between attempts, `None` where a retry follows at once.
    pub const fn backoff(&self) -> Option<Backoff> {
        self.backoff
    }

    /// How often a call is sent at the most.
    pub const fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// How extra sends are paced while the throttle refuses, `None` where there are none.
    pub const fn recovery(&self) -> Option<Recovery> {
        self.recovery
    }

    /// The requests below which nothing is throttled.
    pub const fn min_requests(&self) -> u32 {
        self.min_requests
    }

    /// The retries in a window that are allowed whatever the ratio says.
    pub const fn retry_floor(&self) -> u32 {
        self.retry_floor
    }

    /// How young an attempt without an answer is not held against the backend, `None` where every one is.
    #[inline]
    pub const fn in_flight_grace(&self) -> Option<Duration> {
        match self.grace {
            0 => None,
            seconds => Some(Duration::from_secs(seconds as u64)),
        }
    }

    /// How long a call may take in all.
    #[inline]
    pub const fn deadline(&self) -> Option<Duration> {
        limit(self.deadline)
    }

    /// How long an attempt may take.
    #[inline]
    pub const fn attempt_timeout(&self) -> Option<Duration> {
        limit(self.attempt_timeout)
    }

    /// The longest wait that a server may ask for.
    #[inline]
    pub const fn max_retry_after(&self) -> Option<Duration> {
        limit(self.max_retry_after)
    }

    /// Whether jitter is added to a wait that a server asks for.
    pub const fn retry_after_jitter(&self) -> bool {
        self.retry_after_jitter
    }

    /// The mode that a policy of this configuration starts in.
    pub const fn mode(&self) -> Mode {
        self.mode
    }
}

#[inline]
const fn limit(micros: u64) -> Option<Duration> {
    if micros == NONE { None } else { Some(duration(micros)) }
}

/// What a policy does with its decisions. It can be changed while calls run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Mode {
    /// Decide, count, and refuse what the throttle or the budget refuses.
    #[default]
    Enforce,
    /// Decide, count and report as ever, but send anyway: to see in production what would be refused.
    ///
    /// What was sent counts, so retries that a budget would have refused keep it spent until they have left the window.
    Shadow,
    /// Neither throttle nor budget: nothing is counted, drawn for the throttle, or refused. Attempts, backoff,
    /// Retry-After and limits hold.
    Off,
}

/// Builds a [`Config`] from another one; every method is const.
///
/// A value that is refused is remembered, and [`build`](Self::build) names the first one.
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct ConfigBuilder {
    config: Config,
    /// Whether the grace was set on this builder, rather than by what it started from.
    grace_is_asked_for: bool,
    refused: Option<ConfigError>,
}

impl ConfigBuilder {
    /// The throttle's multiplier K: finite, 0 or more; see [`K`].
    pub const fn k(mut self, k: f64) -> Self {
        match K::new(k) {
            Some(k) => self.config.k = Some(k),
            None => self = self.refuse("k", Value::Number(k), FINITE),
        }
        self
    }

    /// No throttle: nothing is dropped before it is sent.
    pub const fn no_throttle(mut self) -> Self {
        self.config.k = None;
        self
    }

    /// The part of the window's requests that may be retries: finite, 0 or more, may be above 1; see [`RetryRatio`].
    pub const fn retry_ratio(mut self, ratio: f64) -> Self {
        match RetryRatio::new(ratio) {
            Some(ratio) => self.config.retry_ratio = Some(ratio),
            None => self = self.refuse("retry_ratio", Value::Number(ratio), FINITE),
        }
        self
    }

    /// No budget: only the number of attempts limits retries.
    pub const fn no_budget(mut self) -> Self {
        self.config.retry_ratio = None;
        self
    }

    /// How often one call is sent at the most: 1 or more, where 1 means no retry.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        if attempts == 0 {
            self = self.refuse("max_attempts", Value::Count(0), "1 or more");
        }
        self.config.max_attempts = attempts;
        self
    }

    /// The wait between attempts.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.config.backoff = Some(backoff);
        self
    }

    /// No wait between attempts, other than what a server asks for.
    pub const fn no_backoff(mut self) -> Self {
        self.config.backoff = None;
        self
    }

    /// How long a call may take in all, its waits included: more than zero.
    ///
    /// A wait that would end later is not begun; an attempt gets what is left at the most. Resolution is a microsecond.
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        if deadline.is_zero() {
            self = self.refuse("deadline", Value::Time(deadline), POSITIVE);
        }
        self.config.deadline = micros(deadline);
        self
    }

    /// How long one attempt may take: more than zero. One that takes longer is [unreachable](crate::Reply::UNREACHABLE).
    ///
    /// Better than a timeout around the whole call: the policy learns of it. Adapters cut the attempt where the platform
    /// can; a blocking call cannot be cut.
    ///
    /// An [`in_flight_grace`](Self::in_flight_grace) that comes from the configuration the builder started from gives way:
    /// it is lowered to the most whole seconds below the timeout, and there is none below a timeout of a second or less.
    ///
    /// ```
    /// use core::time::Duration;
    /// use forbear::Config;
    ///
    /// let quick = Config::resilient().to_builder().attempt_timeout(Duration::from_millis(800)).build()?;
    /// assert_eq!(quick.in_flight_grace(), None);
    /// # Ok::<(), forbear::ConfigError>(())
    /// ```
    pub const fn attempt_timeout(mut self, timeout: Duration) -> Self {
        if timeout.is_zero() {
            self = self.refuse("attempt_timeout", Value::Time(timeout), POSITIVE);
        }
        self.config.attempt_timeout = micros(timeout);
        self
    }

    /// The longest wait that a server may ask for; a longer one ends the call at once. Any duration.
    pub const fn max_retry_after(mut self, longest: Duration) -> Self {
        self.config.max_retry_after = micros(longest);
        self
    }

    /// Whether to add jitter on top of a wait that a server asks for, so that a fleet told the same second does not come
    /// back in step.
    ///
    /// The wait is never shortened. What is added is uniform in 0 to half of the wait, or to the cap of the backoff where
    /// that is more.
    pub const fn retry_after_jitter(mut self, add: bool) -> Self {
        self.config.retry_after_jitter = add;
        self
    }

    /// The requests in a window below which nothing is throttled. Any number; 0 is the specification.
    ///
    /// Without it the first failure of a quiet client throttles half of what follows. Keep it small: it counts per
    /// client, so a large fleet of quiet ones sends that many each, whatever the backend says.
    pub const fn min_requests(mut self, requests: u32) -> Self {
        self.config.min_requests = requests;
        self
    }

    /// The retries in a window that are allowed whatever the ratio says. Any number; 0 is the specification.
    ///
    /// The ratio alone allows a client with one request a first retry. A floor counts per client: a large fleet of quiet
    /// ones retries that much in an outage.
    pub const fn retry_floor(mut self, retries: u32) -> Self {
        self.config.retry_floor = retries;
        self
    }

    /// How young an attempt without an answer is not yet held against the backend: more than zero, up to 7 s, and below
    /// the attempt timeout; rounded up to whole seconds.
    ///
    /// One that is set here and does not fit below the [`attempt_timeout`](Self::attempt_timeout) is refused: attempts would
    /// be cut before any of them told of a backend that hangs. One that is not set here gives way.
    ///
    /// The specification counts a request when it starts, so a fresh client whose first hundred calls run at once would
    /// refuse nearly all of them on a healthy backend. Choose it a little above the usual time to an answer. A backend
    /// that hangs is noticed once its attempts are older than the grace, at most a second later. A call that is dropped
    /// with an attempt in flight that is younger is not counted.
    pub const fn in_flight_grace(mut self, grace: Duration) -> Self {
        let seconds = grace.as_secs().saturating_add((grace.subsec_nanos() > 0) as u64);
        if seconds == 0 || seconds > MAX_GRACE as u64 {
            self = self.refuse("in_flight_grace", Value::Time(grace), "more than 0 s, up to 7 s");
            self.config.grace = 0;
        } else {
            self.config.grace = seconds as u8;
        }
        self.grace_is_asked_for = true;
        self
    }

    /// Every attempt counts from its start, as the specification has it.
    pub const fn no_in_flight_grace(mut self) -> Self {
        self.config.grace = 0;
        self
    }

    /// Comes back from a long outage an order of magnitude sooner than the formula alone: while the throttle refuses, one
    /// attempt in a while is sent all the same, and the more of what was sent is accepted, the more. See
    /// [`recovery`](crate::recovery).
    pub const fn recovery(mut self, recovery: Recovery) -> Self {
        self.config.recovery = Some(recovery);
        self
    }

    /// The formula alone decides, as the specification has it.
    pub const fn no_recovery(mut self) -> Self {
        self.config.recovery = None;
        self
    }

    /// The mode to start in.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.config.mode = mode;
        self
    }

    /// The configuration.
    ///
    /// # Errors
    ///
    /// The first value that was refused: its field, the value, and what is allowed.
    pub const fn build(self) -> Result<Config, ConfigError> {
        let mut config = self.config;
        // In whole seconds, since the window knows no others.
        let longest = config.attempt_timeout.saturating_sub(1) / 1_000_000;
        match self.refused {
            Some(refused) => return Err(refused),
            None if config.grace as u64 <= longest => {}
            None if self.grace_is_asked_for => {
                return Err(ConfigError {
                    field: "in_flight_grace",
                    value: Value::Time(Duration::from_secs(config.grace as u64)),
                    allowed: "less than attempt_timeout, in whole seconds (or no_in_flight_grace)",
                });
            }
            None => config.grace = longest as u8,
        }
        Ok(config)
    }

    const fn refuse(mut self, field: &'static str, value: Value, allowed: &'static str) -> Self {
        if self.refused.is_none() {
            self.refused = Some(ConfigError { field, value, allowed });
        }
        self
    }
}

/// A [`Config`] in a constant: a value that is refused fails to compile.
///
/// ```
/// use forbear::Config;
///
/// const CONFIG: Config = forbear::config!(Config::resilient().to_builder().k(1.5).max_attempts(4));
/// assert_eq!(CONFIG.max_attempts(), 4);
/// ```
///
/// ```compile_fail
/// # use forbear::Config;
/// const CONFIG: Config = forbear::config!(Config::resilient().to_builder().k(-1.0));
/// ```
#[macro_export]
macro_rules! config {
    ($builder:expr $(,)?) => {
        const {
            match $crate::ConfigBuilder::build($builder) {
                Ok(config) => config,
                Err(refused) => panic!("{}", refused.in_short()),
            }
        }
    };
}

const FINITE: &str = "finite, 0 or more";
const POSITIVE: &str = "more than 0 s";

/// A configuration that was refused: which field, its value, and what is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfigError {
    field: &'static str,
    pub(crate) value: Value,
    allowed: &'static str,
}

/// A refused value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Count(u32),
    Time(Duration),
}

impl ConfigError {
    /// The field, under the name of the builder's method.
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// What is allowed.
    pub const fn allowed(&self) -> &'static str {
        self.allowed
    }

    /// The field and what is allowed, for a constant that cannot format.
    #[doc(hidden)]
    pub const fn in_short(&self) -> &'static str {
        // Every field that can be refused has a first letter of its own.
        match self.field.as_bytes() {
            [b'k', ..] => "k is refused, allowed: finite, 0 or more",
            [b'r', ..] => "retry_ratio is refused, allowed: finite, 0 or more",
            [b'm', ..] => "max_attempts is refused, allowed: 1 or more",
            [b'd', ..] => "deadline is refused, allowed: more than 0 s",
            [b'a', ..] => "attempt_timeout is refused, allowed: more than 0 s",
            _ => "in_flight_grace is refused, allowed: more than 0 s, up to 7 s, and less than attempt_timeout",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is ", self.field)?;
        match self.value {
            Value::Number(value) => write!(f, "{value:?}"),
            Value::Count(value) => write!(f, "{value}"),
            Value::Time(value) => write!(f, "{value:?}"),
        }?;
        write!(f, ", allowed: {}", self.allowed)
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_constant_says_names_the_field_that_was_refused() {
        let builder = Config::resilient().to_builder();
        for refused in [
            builder.k(-1.0),
            builder.retry_ratio(f64::NAN),
            builder.max_attempts(0),
            builder.deadline(Duration::ZERO),
            builder.attempt_timeout(Duration::ZERO),
            builder.in_flight_grace(Duration::from_secs(8)),
            builder.in_flight_grace(Duration::from_secs(1)).attempt_timeout(Duration::from_millis(800)),
        ] {
            let refused = refused.build().unwrap_err();
            assert!(refused.in_short().starts_with(refused.field()), "{refused:?}");
        }
    }
    #[test]
    fn a_grace_that_nobody_asked_for_gives_way_to_the_attempt_timeout() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let long = Config::resilient().to_builder().in_flight_grace(Duration::from_secs(7)).build().unwrap();
        for (from, timeout_ms, grace) in [
            (Config::resilient(), 1, None),
            (Config::resilient(), 800, None),
            (Config::resilient(), 1_000, None),
            (Config::resilient(), 1_001, seconds(1)),
            (Config::resilient(), 60_000, seconds(1)),
            (long, 1_000, None),
            (long, 3_000, seconds(2)),
            (long, 7_000, seconds(6)),
            (long, 7_001, seconds(7)),
            (Config::overload(), 800, None),
        ] {
            let builder = from.to_builder().attempt_timeout(Duration::from_millis(timeout_ms));
            let config = builder.build().unwrap();
            assert_eq!(config.in_flight_grace(), grace, "{timeout_ms} ms");
            // What was built is valid as it is, and a longer timeout does not bring back what gave way.
            assert_eq!(config.to_builder().build(), Ok(config));
            let longer = config.to_builder().attempt_timeout(Duration::MAX).build().unwrap();
            assert_eq!(longer.in_flight_grace(), grace);
            // Only the last timeout counts.
            let again = builder.attempt_timeout(Duration::MAX).build().unwrap();
            assert_eq!(again.in_flight_grace(), from.in_flight_grace());
        }
    }

    #[test]
    fn a_grace_that_was_asked_for_is_refused_where_it_does_not_fit() {
        let (grace, timeout) = (Duration::from_secs(2), Duration::from_secs(2));
        let builder = Config::resilient().to_builder();
        for builder in [
            builder.in_flight_grace(grace).attempt_timeout(timeout),
            builder.attempt_timeout(timeout).in_flight_grace(grace),
        ] {
            assert_eq!(builder.build().unwrap_err().field(), "in_flight_grace");
            assert!(builder.no_in_flight_grace().build().is_ok());
            assert!(builder.attempt_timeout(timeout + Duration::from_micros(1)).build().is_ok());
        }
    }

    #[test]
    fn a_constant_needs_no_word_of_the_grace() {
        const QUICK: Config =
            crate::config!(Config::resilient().to_builder().attempt_timeout(Duration::from_millis(800)));
        assert_eq!(QUICK.in_flight_grace(), None);
    }
}
