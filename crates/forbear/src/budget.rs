//! The retry budget (step 1): retries stay below a ratio of the requests of the window.
//!
//! Source: *Site Reliability Engineering*, chapter "Handling Overload", "Deciding to Retry": each client keeps track of
//! the ratio of requests that are retries, and retries only while that is below 10 %.

use crate::double::{Scaled, bits_of, is_finite_and_not_negative};

/// The part of the requests that may be retries: finite and 0 or more; above 1 is allowed and hardly limits.
///
/// ```
/// use forbear::budget::RetryRatio;
///
/// assert_eq!(RetryRatio::new(0.1), Some(RetryRatio::DEFAULT));
/// assert_eq!(RetryRatio::new(f64::INFINITY), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryRatio(u64);

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
    let ratio = Scaled::from_bits(ratio.0);
    let product = Scaled { mantissa: ratio.mantissa * requests as u128, exponent: ratio.exponent };
    if retries == 0 {
        return product.mantissa != 0;
    }
    // The product rounds to more than the retries exactly where it lies beyond the middle between them and the next
    // double. On the middle it rounds to the even one of the two: the retries, whose 32 bits leave the last of 53 empty.
    let spare = retries.leading_zeros() + 21;
    let middle = ((retries as u128) << spare) * 2 + 1;
    product.exceeds(Scaled { mantissa: middle, exponent: -(spare as i32) - 1 })
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
