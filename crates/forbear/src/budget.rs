//! The retry budget (step 1): retries stay below a ratio of the requests of the window.
//!
//! Source: *Site Reliability Engineering*, chapter "Handling Overload", "Deciding to Retry": each client keeps track of
//! the ratio of requests that are retries, and retries only while that is below 10 %.

use core::fmt;

use crate::double::{Double, bits_of, is_finite_and_not_negative};

/// The part of the requests that may be retries: finite and 0 or more; above 1 is allowed and hardly limits.
///
/// ```
/// use forbear::budget::RetryRatio;
///
/// assert_eq!(RetryRatio::new(0.1), Some(RetryRatio::DEFAULT));
/// assert_eq!(RetryRatio::new(f64::INFINITY), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RetryRatio(u64);

impl fmt::Debug for RetryRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryRatio").field(&self.as_f64()).finish()
    }
}

impl RetryRatio {
    /// The specification's 0.1.
    pub const DEFAULT: Self = Self(0.1f64.to_bits());

    /// The ratio, or `None` where it is NaN, infinite or negative.
    pub const fn new(ratio: f64) -> Option<Self> {
        if is_finite_and_not_negative(ratio) { Some(Self(bits_of(ratio))) } else { None }
    }

    /// The ratio as a number.
    pub const fn as_f64(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Step 1: `retries < ratio * requests`.
///
/// Decided in integers, and equal to the comparison of those doubles for every input. The retries of this are those
/// counted and those that wait for their backoff.
///
/// ```
/// use forbear::budget::{RetryRatio, allows_retry};
///
/// assert!(allows_retry(0, 1, RetryRatio::DEFAULT)); // the book allows a quiet client one
/// assert!(!allows_retry(1, 10, RetryRatio::DEFAULT));
/// assert!(allows_retry(1, 11, RetryRatio::DEFAULT));
/// ```
#[inline]
pub const fn allows_retry(retries: u32, requests: u32, ratio: RetryRatio) -> bool {
    let Some(ratio) = Double::from_bits(ratio.0) else { return false };
    if requests == 0 {
        return false;
    }
    // The usual case: rounded down to a whole number, the product is more than the retries.
    if ratio.floor_times(requests) > retries as u64 {
        return true;
    }
    let Double { mantissa, exponent } = ratio.times(requests);
    match exponent {
        // 2^52 * 2^-20 is more than any number of retries, and 2^53 * 2^-64 less than one.
        -20.. => true,
        ..-63 => retries == 0,
        _ => {
            let below = -exponent;
            (retries as u64) < (mantissa + ((1 << below) - 1)) >> below
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_doubles() {
        // 0.35 * 100 is 35 as doubles, although the double 0.35 lies below 35/100; 0.6 * 5 is 3, 0.1 * 30 is 3.
        for (ratio, requests, retries) in [(0.35, 100, 35), (0.6, 5, 3), (0.1, 30, 3), (0.15, 20, 3), (1.0, 7, 7)] {
            let ratio = RetryRatio::new(ratio).unwrap();
            for retries in [retries - 1, retries, retries + 1] {
                let doubles = f64::from(retries) < ratio.as_f64() * f64::from(requests);
                assert_eq!(allows_retry(retries, requests, ratio), doubles, "{retries} {requests} {ratio:?}");
            }
        }
    }

    #[test]
    fn decides_as_doubles_beside_where_the_answer_turns() {
        let ratios = [
            0.0,
            5e-324,
            1e-20,
            1e-14,
            1e-10,
            1.5e-10,
            0.1,
            0.15,
            0.35,
            0.6,
            1.0 - f64::EPSILON / 2.0,
            1.0,
            3.0,
            1e6,
            1e10,
            1e300,
        ];
        let mut state = 1u64;
        for ratio in ratios {
            let valid = RetryRatio::new(ratio).unwrap();
            assert_eq!(valid.as_f64(), ratio);
            for _ in 0..5_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Of every size: as many bits as chance has it.
                let requests = (state >> 32) as u32 >> (state >> 27 & 31);
                let product = ratio * f64::from(requests);
                let beside = product as u32;
                for retries in [0, 1, beside.saturating_sub(1), beside, beside.saturating_add(1), u32::MAX] {
                    let is = allows_retry(retries, requests, valid);
                    assert_eq!(is, f64::from(retries) < product, "{retries} {requests} {ratio:e}");
                }
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        for ratio in [0.0, 5e-324, 1e-300, 0.1, 1.0, 1e300, f64::MAX].map(|ratio| RetryRatio::new(ratio).unwrap()) {
            for requests in [0, 1, u32::MAX] {
                for retries in [0, 1, u32::MAX - 1, u32::MAX] {
                    let doubles = f64::from(retries) < ratio.as_f64() * f64::from(requests);
                    assert_eq!(allows_retry(retries, requests, ratio), doubles, "{retries} {requests} {ratio:?}");
                }
            }
        }
    }
}
