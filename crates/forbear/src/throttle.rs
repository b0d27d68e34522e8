//! Adaptive throttling: the reject probability, and whether a draw falls below it (steps 2 and 4).
//!
//! Source: *Site Reliability Engineering*, chapter "Handling Overload", "Client-Side Throttling":
//! `p = max(0, (requests - K * accepts) / (requests + 1))`.

use core::fmt;

use crate::double::{Double, bits_of, is_finite_and_not_negative};
use crate::word::{at_most, joined};

/// The multiplier K of the throttle: how many requests are sent for each one that is accepted.
///
/// Finite and 0 or more. With 2, the book's value, a backend that accepts half of what it is sent is left alone; beyond
/// that the excess is dropped here, so that at most about `K` times what it accepts reaches it. Closer to 1 protects the
/// backend more and finds out later that it is well again; below 1 drops even from a healthy one.
///
/// ```
/// use forbear::throttle::K;
///
/// assert_eq!(K::new(2.0), Some(K::DEFAULT));
/// assert_eq!(K::new(-1.0), None);
/// assert_eq!(K::new(f64::NAN), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct K(u64);

impl fmt::Debug for K {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("K").field(&self.as_f64()).finish()
    }
}

impl K {
    /// The specification's 2.
    pub const DEFAULT: Self = Self(2.0f64.to_bits());

    /// K, or `None` where it is NaN, infinite or negative.
    pub const fn new(k: f64) -> Option<Self> {
        if is_finite_and_not_negative(k) { Some(Self(bits_of(k))) } else { None }
    }

    /// K as a number.
    pub const fn as_f64(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Step 2: `max(0, (requests - k * accepts) / (requests + 1))`, in 0 to 1.
///
/// Steps 2 and 4 are decided by [`rejects`], without floating point; this is for people and metrics.
///
/// ```
/// use forbear::throttle::{K, reject_probability};
///
/// assert_eq!(reject_probability(100, 50, K::DEFAULT), 0.0);
/// assert_eq!(reject_probability(4, 0, K::DEFAULT), 0.8);
/// ```
pub fn reject_probability(requests: u32, accepts: u32, k: K) -> f64 {
    let p = (f64::from(requests) - k.as_f64() * f64::from(accepts)) / (f64::from(requests) + 1.0);
    if p > 0.0 { p } else { 0.0 }
}

/// The number in 0 to 1 (exclusive) that a draw stands for: its upper 53 bits, `(draw >> 11) * 2^-53`.
pub fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1u64 << 53) as f64
}

/// Step 4: whether an attempt is dropped, `unit(draw) < reject_probability(requests, accepts, k)`.
///
/// Decided in integers, and equal to the comparison of those doubles for every input.
///
/// ```
/// use forbear::throttle::{K, rejects};
///
/// // p is 0.8, and 0.8 itself is not below it.
/// let draw = ((0.8 * (1u64 << 53) as f64) as u64) << 11;
/// assert!(!rejects(4, 0, K::DEFAULT, draw));
/// assert!(rejects(4, 0, K::DEFAULT, draw - (1 << 11)));
/// ```
#[inline]
pub const fn rejects(requests: u32, accepts: u32, k: K, draw: u64) -> bool {
    let Some(excess) = excess(requests, accepts, k) else { return false };
    let draw = draw >> 11;
    if draw == 0 {
        return true;
    }
    // The quotient excess / (requests + 1) rounds to more than the draw exactly where it lies beyond the middle between
    // the draw and the next double. It cannot lie on it: twice a 53-bit mantissa plus one is odd and has 54 bits, more
    // than the excess can contribute.
    let spare = draw.leading_zeros() - 11;
    let middle = joined(draw << spare, 1, 1);
    let divisor = requests as u64 + 1;
    let unused = divisor.leading_zeros();
    let divisor = divisor << unused >> 32;
    // middle * divisor without its last 31 of 85 or 86 bits, which the comparison does not need: `n << d > t` exactly
    // where `n > t >> d`.
    let product = (((middle >> 32) * divisor) << 1) + (((middle as u32) as u64 * divisor) >> 31);
    let exponent = -54 - spare as i32 + 32 - unused as i32 + 31;
    match excess.exponent - exponent {
        ..0 => false,
        higher @ 0..=3 => excess.mantissa > product >> higher,
        4.. => true,
    }
}

/// Whether p is above 0 for these counts, so that some draw would be rejected.
#[inline]
pub(crate) const fn may_reject(requests: u32, accepts: u32, k: K) -> bool {
    excess(requests, accepts, k).is_some()
}

/// Whether p is 0 for these counts for certain, by a multiplication and a shift: what a healthy backend comes to.
///
/// False says nothing: K is rounded down to 32 bits here.
#[inline]
pub(crate) const fn never_rejects(requests: u32, accepts: u32, k: K) -> bool {
    let Some(k) = Double::from_bits(k.0) else { return requests == 0 };
    k.floor_times(accepts) >= requests as u64
}

/// `requests - k * accepts`, rounded as doubles are, where that is above 0.
const fn excess(requests: u32, accepts: u32, k: K) -> Option<Double> {
    if requests == 0 {
        return None;
    }
    // The first bit is set, for as many bits below the requests as there can be.
    let spare = 32 + requests.leading_zeros();
    let whole = (requests as u64) << spare;
    let k = if accepts == 0 { None } else { Double::from_bits(k.0) };
    let rest = match k {
        None => whole,
        Some(k) => {
            let Double { mantissa, exponent } = k.times(accepts);
            match exponent + spare as i32 {
                12.. => return None,
                higher @ 0..12 => match whole.checked_sub(mantissa << higher) {
                    Some(0) | None => return None,
                    Some(rest) => rest,
                },
                lower => {
                    let lower = at_most(lower.unsigned_abs() as u64, 63) as u32;
                    let rest = whole - (mantissa >> lower);
                    // What is below the last bit only matters by being there: one bit stands for all of it, eleven
                    // below the last that rounding keeps.
                    if mantissa >> lower << lower == mantissa { rest } else { (rest - 1) | 1 }
                }
            }
        }
    };
    Some(Double::rounded(rest, -(spare as i32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_worked_by_hand() {
        // 1 request, none accepted: p = 1/2.
        assert!(rejects(1, 0, K::DEFAULT, u64::MAX >> 2));
        assert!(!rejects(1, 0, K::DEFAULT, 1 << 63));
        // Nothing counted, or exactly K requests for each accept: p = 0, and no draw is below that.
        assert!(!rejects(0, 0, K::DEFAULT, 0));
        assert!(!rejects(200, 100, K::DEFAULT, 0));
        assert!(rejects(201, 100, K::DEFAULT, 0));
    }

    #[test]
    fn what_is_never_rejected_has_no_probability() {
        for k in [0.5, 1.0, 1.5, 2.0, 2.1, 1e9, 1e300, f64::MAX].map(|k| K::new(k).unwrap()) {
            for (requests, accepts) in [(0, 0), (1, 1), (3, 2), (200, 100), (201, 100), (u32::MAX, u32::MAX)] {
                let never = never_rejects(requests, accepts, k);
                assert!(!never || reject_probability(requests, accepts, k) == 0.0, "{requests} {accepts} {k:?}");
            }
        }
        assert!(never_rejects(200, 100, K::DEFAULT) && !never_rejects(201, 100, K::DEFAULT));
    }

    #[test]
    fn extremes_do_not_overflow() {
        for k in [0.0, 5e-324, 1e-300, 0.5, 1.0, 2.0, 1e9, 1e300, f64::MAX].map(|k| K::new(k).unwrap()) {
            for requests in [0, 1, 2, u32::MAX - 1, u32::MAX] {
                for accepts in [0, 1, u32::MAX] {
                    for draw in [0, 1 << 11, 1 << 63, u64::MAX] {
                        let doubles = unit(draw) < reject_probability(requests, accepts, k);
                        assert_eq!(rejects(requests, accepts, k, draw), doubles, "{requests} {accepts} {k:?} {draw}");
                    }
                }
            }
        }
    }

    #[test]
    fn decides_as_doubles_beside_where_the_answer_turns() {
        let ends = [
            0.0,
            5e-324,
            1e-17,
            1e-14,
            1.5e-10,
            1e-9,
            0.5f64.powi(22),
            0.1,
            0.6,
            1.0 - f64::EPSILON / 2.0,
            1.0,
            1.0 + f64::EPSILON,
        ];
        let above = [1.1, 1.5, 2.0 - f64::EPSILON, 2.0, 3.3, 8.0, 1_023.7, 4e9, 1e300];
        let mut state = 1u64;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Of every size: as many bits as chance has it.
            (state >> 32) as u32 >> (state >> 27 & 31)
        };
        for k in ends.into_iter().chain(above) {
            let valid = K::new(k).unwrap();
            for _ in 0..4_000 {
                let requests = number();
                let most = (f64::from(requests) / k) as u32;
                let small = most >> (number() & 31);
                for accepts in [most.saturating_sub(1), most, most.saturating_add(1), most / 2, small, number()] {
                    let exact = f64::from(requests) - k * f64::from(accepts);
                    let excess = excess(requests, accepts, valid);
                    assert_eq!(excess, Double::from_bits(exact.max(0.0).to_bits()), "{requests} {accepts} {k:e}");
                    let p = reject_probability(requests, accepts, valid);
                    let beside = (p * (1u64 << 53) as f64) as u64;
                    for draw in [beside.saturating_sub(1), beside, beside + 1, u64::from(number())] {
                        let draw = draw.min((1 << 53) - 1) << 11;
                        let is = rejects(requests, accepts, valid, draw);
                        assert_eq!(is, unit(draw) < p, "{requests} {accepts} {k:e} {draw:#x}");
                    }
                    assert_eq!(may_reject(requests, accepts, valid), p > 0.0, "{requests} {accepts} {k:e}");
                    assert!(!never_rejects(requests, accepts, valid) || p == 0.0, "{requests} {accepts} {k:e}");
                }
            }
        }
    }

    #[test]
    fn a_healthy_backend_is_known_at_once() {
        for (requests, accepts, k) in
            [(0, 0, 2.0), (1, 1, 1.0), (200, 100, 2.0), (u32::MAX, u32::MAX, 1.5), (2, 5, 0.6)]
        {
            assert!(never_rejects(requests, accepts, K::new(k).unwrap()), "{requests} {accepts} {k}");
        }
        // As far as 32 bits of K tell.
        for (requests, accepts, k) in [(1, 0, 2.0), (3, 1, 2.0), (1, 1, 0.9), (0, 0, 0.0)] {
            let healthy = requests == 0;
            assert_eq!(never_rejects(requests, accepts, K::new(k).unwrap()), healthy, "{requests} {accepts} {k}");
        }
        assert_eq!((K::new(1.5).unwrap().as_f64(), K::DEFAULT.as_f64()), (1.5, 2.0));
        assert_eq!((unit(0), unit(1 << 63), unit(3 << 61), unit((1 << 11) - 1)), (0.0, 0.5, 0.75 / 2.0, 0.0));
        assert!(unit(u64::MAX) < 1.0);
    }

    #[test]
    fn what_is_no_k_is_refused() {
        for bad in [-1.0, f64::NAN, f64::INFINITY, -5e-324] {
            assert_eq!(K::new(bad), None);
        }
        assert_eq!(K::new(-0.0), K::new(0.0));
    }
}
