//! Time: an instant, a clock that tells it, and a clock that can also wait.

use core::time::Duration;

/// A point in time, as the time since an origin of the clock's own choosing.
///
/// Only differences and whole seconds matter, so the origin may be anything: the start of the process or the reset of a
/// board. Resolution is a nanosecond; arithmetic saturates.
///
/// ```
/// use core::time::Duration;
/// use forbear::Instant;
///
/// let start = Instant::from_millis(1_900);
/// let later = start.saturating_add(Duration::from_millis(200));
/// assert_eq!((start.second(), later.second()), (1, 2));
/// assert_eq!(later.saturating_since(start), Duration::from_millis(200));
/// assert_eq!(start.saturating_since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The clock's origin.
    pub const ORIGIN: Self = Self(Duration::ZERO);

    /// The instant `since` after the clock's origin.
    pub const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    /// The instant that many whole seconds after the origin.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The instant that many milliseconds after the origin.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// The instant that many microseconds after the origin.
    pub const fn from_micros(microseconds: u64) -> Self {
        Self(Duration::from_micros(microseconds))
    }

    /// The time since the clock's origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The whole second that this instant lies in: what a window counts by.
    pub const fn second(self) -> u64 {
        self.0.as_secs()
    }

    /// The time since `earlier`, zero where that is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `delay` later, the last one there is where that would be past it.
    pub const fn saturating_add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay))
    }
}

/// A monotonic clock.
///
/// A clock that steps back is harmless: whatever is decided counts it as standing still.
pub trait Clock {
    /// The time now, as exact as the platform gives it.
    fn now(&self) -> Instant;

    /// The time now from a cheaper source that may lag [`now`](Self::now) by some milliseconds.
    ///
    /// Enough for counting, which knows whole seconds only. The same as `now` unless a clock knows better.
    fn coarse(&self) -> Instant {
        self.now()
    }
}

/// A clock that can also wait: what [`RetryingClient`](crate::RetryingClient) is given.
pub trait Sleep: Clock {
    /// Returns once `delay` has passed.
    fn sleep(&self, delay: Duration);
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn coarse(&self) -> Instant {
        (**self).coarse()
    }
}

impl<C: Sleep + ?Sized> Sleep for &C {
    fn sleep(&self, delay: Duration) {
        (**self).sleep(delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let last = Instant::from_origin(Duration::MAX);
        assert_eq!(last.saturating_add(Duration::MAX), last);
        assert_eq!(Instant::ORIGIN.saturating_since(last), Duration::ZERO);
        assert_eq!(last.second(), u64::MAX);
    }

    #[test]
    fn seconds_are_rounded_down() {
        assert_eq!(Instant::from_micros(999_999).second(), 0);
        assert_eq!(Instant::from_micros(1_000_000).second(), 1);
        assert_eq!(Instant::from_millis(u64::MAX).second(), u64::MAX / 1_000);
    }
}
