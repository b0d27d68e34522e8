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
        Self(duration(microseconds))
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
        difference(self.0, earlier.0)
    }

    /// The instant `delay` later, the last one there is where that would be past it.
    pub const fn saturating_add(self, delay: Duration) -> Self {
        Self(sum(self.0, delay))
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

/// As many microseconds, without the division of 64-bit numbers that 32-bit devices have no instruction for.
#[inline(never)]
pub(crate) const fn duration(micros: u64) -> Duration {
    // micros / 1,000,000 for every number: the reciprocal times 2^82, rounded up.
    // Source: Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994.
    let seconds = ((micros as u128 * 0x431B_DE82_D7B6_34DB) >> 82) as u64;
    let rest = (micros - seconds * 1_000_000) as u32;
    compose(seconds, rest * 1_000)
}

/// `a + b`, the longest duration where that is longer.
pub(crate) const fn sum(a: Duration, b: Duration) -> Duration {
    let nanos = a.subsec_nanos() + b.subsec_nanos();
    let carry = nanos / NANOS;
    match a.as_secs().checked_add(b.as_secs()) {
        Some(seconds) if seconds < u64::MAX || carry == 0 => compose(seconds + carry as u64, nanos - carry * NANOS),
        _ => Duration::MAX,
    }
}

/// `a - b`, zero where `b` is longer.
const fn difference(a: Duration, b: Duration) -> Duration {
    let borrow = (a.subsec_nanos() < b.subsec_nanos()) as u32;
    match a.as_secs().checked_sub(b.as_secs()) {
        Some(seconds) if seconds > 0 || borrow == 0 => {
            compose(seconds - borrow as u64, a.subsec_nanos() + borrow * NANOS - b.subsec_nanos())
        }
        _ => Duration::ZERO,
    }
}

const NANOS: u32 = 1_000_000_000;

/// The one place that makes durations of their parts: [`Duration::new`], and what the standard library builds on it,
/// brings a path to a panic along unless the compiler sees that there are less nanoseconds than a second has.
#[inline]
const fn compose(seconds: u64, nanos: u32) -> Duration {
    if nanos < NANOS { Duration::new(seconds, nanos) } else { Duration::MAX }
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
    fn differences_borrow_from_the_seconds() {
        let at = |seconds, nanos| Instant::from_origin(Duration::new(seconds, nanos));
        let instants =
            [at(0, 0), at(0, 1), at(0, 999_999_999), at(1, 0), at(1, 1), at(7, 5), at(u64::MAX, 999_999_999)];
        for later in instants {
            for earlier in instants {
                let difference = later.since_origin().saturating_sub(earlier.since_origin());
                assert_eq!(later.saturating_since(earlier), difference, "{later:?} {earlier:?}");
            }
        }
    }

    #[test]
    fn seconds_are_rounded_down() {
        assert_eq!(Instant::from_micros(999_999).second(), 0);
        assert_eq!(Instant::from_micros(1_000_000).second(), 1);
        assert_eq!(Instant::from_millis(u64::MAX).second(), u64::MAX / 1_000);
    }

    #[test]
    fn a_duration_is_its_microseconds() {
        for second in [0, 1, 2, 59, 1 << 20, 1 << 32, 1 << 43, u64::MAX / 1_000_000] {
            for off in [0, 1, 999_999, 1_000_000, 1_000_001] {
                for micros in [(second * 1_000_000).wrapping_add(off), (second * 1_000_000).wrapping_sub(off)] {
                    assert_eq!(duration(micros), Duration::from_micros(micros), "{micros}");
                }
            }
        }
    }

    #[test]
    fn sums_and_differences_are_those_of_durations() {
        let ends = [0, 1, 2, u64::MAX - 1, u64::MAX];
        let durations =
            ends.map(|seconds| [0, 1, 499_999_999, 500_000_000, 999_999_999].map(|n| Duration::new(seconds, n)));
        for a in durations.into_iter().flatten() {
            for b in durations.into_iter().flatten() {
                assert_eq!(sum(a, b), a.saturating_add(b), "{a:?} + {b:?}");
                assert_eq!(difference(a, b), a.saturating_sub(b), "{a:?} - {b:?}");
            }
        }
    }
}
