//! Exponential backoff with full jitter.
//!
//! Source: Marc Brooker, "Exponential Backoff And Jitter", and the Amazon Builders' Library, "Timeouts, retries, and
//! backoff with jitter": `sleep = uniform(0, min(max, base * 2^(n - 1)))` after the n-th send.

use core::time::Duration;

use crate::clock::duration;

/// How long to wait before a retry: a cap that doubles with every send, and a uniform draw below it.
///
/// Resolution is a microsecond, durations are rounded up to it and saturate at `u64::MAX` microseconds (584,000 years).
/// Every two durations are valid: where `base` is above `max`, `max` holds; a zero base never waits.
///
/// ```
/// use core::time::Duration;
/// use forbear::Backoff;
///
/// let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
/// assert_eq!(backoff.cap(1), Duration::from_millis(100));
/// assert_eq!(backoff.cap(3), Duration::from_millis(400));
/// assert_eq!(backoff.cap(u32::MAX), Duration::from_secs(2));
/// // Half of all draws wait less than half of the cap.
/// assert_eq!(backoff.delay(3, 1 << 63), Duration::from_millis(200));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: u64,
    max: u64,
}

impl Backoff {
    /// The specification's 100 ms, doubled up to 2 s.
    pub const DEFAULT: Self = Self::new(Duration::from_millis(100), Duration::from_secs(2));

    /// A backoff whose first cap is `base`, doubled after every send up to `max`.
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base: micros(base), max: micros(max) }
    }

    /// The first cap.
    pub const fn base(self) -> Duration {
        duration(self.base)
    }

    /// The largest cap.
    pub const fn max(self) -> Duration {
        duration(self.max)
    }

    /// The longest wait after the `sends`-th send, 1 being the first: `min(max, base * 2^(sends - 1))`.
    #[inline]
    pub const fn cap(self, sends: u32) -> Duration {
        duration(self.cap_micros(sends))
    }

    /// The wait after the `sends`-th send that `draw` chooses, uniform in 0 to [`cap`](Self::cap).
    #[inline]
    pub const fn delay(self, sends: u32, draw: u64) -> Duration {
        duration(part(self.cap_micros(sends), draw))
    }

    #[inline]
    pub(crate) const fn cap_micros(self, sends: u32) -> u64 {
        if self.base == 0 {
            return 0;
        }
        let (mut cap, mut sends) = (self.base, sends);
        while cap < self.max {
            if sends <= 1 {
                return cap;
            }
            // Where the next one would not fit, no max is above it either.
            cap = if cap >> 63 == 0 { cap << 1 } else { u64::MAX };
            sends -= 1;
        }
        self.max
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The part of `whole` that a draw's upper 53 bits choose, rounded up: never above the whole.
#[inline]
pub(crate) const fn part(whole: u64, draw: u64) -> u64 {
    ((whole as u128 * (draw >> 11) as u128).saturating_add((1 << 53) - 1) >> 53) as u64
}

/// Microseconds, rounded up; `u64::MAX` where there are more.
#[inline]
pub(crate) const fn micros(duration: Duration) -> u64 {
    match duration.as_secs().checked_mul(1_000_000) {
        Some(whole) => whole.saturating_add(duration.subsec_nanos().div_ceil(1_000) as u64),
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_cap_doubles_and_saturates_at_every_attempt() {
        let backoff = Backoff::DEFAULT;
        let caps = [(0, 100), (1, 100), (2, 200), (5, 1_600), (6, 2_000), (31, 2_000), (32, 2_000), (63, 2_000)];
        for (sends, cap) in caps.into_iter().chain([(64, 2_000), (65, 2_000), (u32::MAX, 2_000)]) {
            assert_eq!(backoff.cap(sends), MS(cap), "after {sends} sends");
        }
        let endless = Backoff::new(Duration::from_micros(1), Duration::MAX);
        assert_eq!(endless.cap(32), Duration::from_micros(1 << 31));
        assert_eq!(endless.cap(64), Duration::from_micros(1 << 63));
        for sends in [65, 66, 1 << 20, u32::MAX] {
            assert_eq!(endless.cap(sends), Duration::from_micros(u64::MAX), "after {sends} sends");
        }
    }

    #[test]
    fn a_base_above_the_max_is_the_max() {
        let backoff = Backoff::new(MS(500), MS(50));
        assert_eq!(backoff.cap(1), MS(50));
        assert_eq!(backoff.delay(1, u64::MAX), MS(50));
    }

    #[test]
    fn a_zero_base_never_waits() {
        let backoff = Backoff::new(Duration::ZERO, MS(50));
        assert_eq!(backoff.delay(u32::MAX, u64::MAX), Duration::ZERO);
    }

    #[test]
    fn no_draw_is_above_the_cap() {
        for cap in [0, 1, 3, 999_999, u64::MAX - 1, u64::MAX] {
            assert_eq!(part(cap, 0), 0);
            assert!(part(cap, u64::MAX) <= cap);
        }
        assert_eq!(part(10, 1 << 63), 5);
        assert_eq!(part(1, 1 << 11), 1, "rounded up");
        assert_eq!(part(10, (1 << 11) - 1), 0, "the lower 11 bits do not count");
    }

    #[test]
    fn durations_round_up_to_microseconds() {
        assert_eq!(micros(Duration::from_nanos(1)), 1);
        assert_eq!(micros(Duration::from_nanos(1_000)), 1);
        assert_eq!(micros(Duration::MAX), u64::MAX);
    }
}
