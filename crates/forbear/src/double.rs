//! The arithmetic of IEEE doubles in integers, for the two comparisons that the specification makes.
//!
//! Both decisions are defined on doubles. Devices without a floating point unit pay thousands of instructions and
//! kilobytes for those, so the core decides by integers, with the same result to the last bit: it rounds where doubles
//! round (to 53 bits, ties to even), and compares exactly. No number here has more than 64 bits, and shifts are by
//! constants where they can be: on 32-bit devices anything else costs hundreds of bytes.

use crate::word::joined;

/// `mantissa * 2^exponent`, with a mantissa of 53 bits of which the first is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Double {
    pub(crate) mantissa: u64,
    pub(crate) exponent: i32,
}

impl Double {
    /// The value of a finite double that is above 0; `None` for 0.
    ///
    /// Subnormal numbers come out larger than they are, yet far below anything that they are compared to.
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        let mantissa = joined(1, 52, bits & ((1 << 52) - 1));
        let exponent = (bits >> 52) as i32 - 1_075;
        if bits == 0 { None } else { Some(Self { mantissa, exponent }) }
    }

    /// `number * 2^exponent`, rounded; the number is above 0.
    pub(crate) const fn rounded(number: u64, exponent: i32) -> Self {
        let spare = number.leading_zeros();
        let number = number << spare;
        let (kept, dropped) = (number >> 11, number << 53);
        Self::rounded_up(kept, dropped > HALF || dropped == HALF && kept & 1 == 1, exponent + 11 - spare as i32)
    }

    /// This times `factor`, which is above 0, rounded.
    pub(crate) const fn times(self, factor: u32) -> Self {
        let spare = factor.leading_zeros();
        let factor = (factor << spare) as u64;
        let low = (self.mantissa as u32) as u64 * factor;
        // The upper of 84 or 85 bits, and the 32 below them.
        let (mut kept, mut dropped) = ((self.mantissa >> 32) * factor + (low >> 32), low << 32);
        let mut exponent = self.exponent + 32 - spare as i32;
        if kept >> 52 == 0 {
            kept = joined(kept, 1, dropped >> 63);
            dropped <<= 1;
            exponent -= 1;
        }
        Self::rounded_up(kept, dropped > HALF || dropped == HALF && kept & 1 == 1, exponent)
    }

    /// A whole number that this times `factor` is no less than, by a multiplication and a shift: as much as 32 bits of the
    /// mantissa tell, and 0 where the product is not near a `u32`.
    #[inline]
    pub(crate) const fn floor_times(self, factor: u32) -> u64 {
        let product = (self.mantissa >> 21) * factor as u64;
        let shift = -21 - self.exponent;
        if shift >= 0 && shift < 64 { product >> shift } else { 0 }
    }

    /// `kept * 2^exponent`, or the next one up.
    const fn rounded_up(kept: u64, up: bool, exponent: i32) -> Self {
        let mantissa = kept + up as u64;
        // All ones became a one and zeros.
        let carry = (mantissa >> 53) as i32;
        Self { mantissa: mantissa >> carry, exponent: exponent + carry }
    }
}

/// Half of the last bit that is kept, as the first of those that are dropped.
const HALF: u64 = 1 << 63;

/// Whether `number` is finite and not negative, without a floating point instruction.
pub(crate) const fn is_finite_and_not_negative(number: f64) -> bool {
    let bits = number.to_bits();
    bits < f64::INFINITY.to_bits() || bits == (-0.0f64).to_bits()
}

/// The bits of a number that [`is_finite_and_not_negative`], with one zero.
pub(crate) const fn bits_of(number: f64) -> u64 {
    number.to_bits() & !(1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(double: f64) -> Double {
        Double::from_bits(double.to_bits()).unwrap()
    }

    #[test]
    fn rounds_to_even_at_a_tie() {
        let end = 1 << 53;
        for number in [1, 3, end - 1, end, end + 1, end + 2, end + 3, 2 * end + 2, 2 * end + 6, 1 << 63, u64::MAX] {
            assert_eq!(Double::rounded(number, 0), of(number as f64), "{number}");
        }
        assert_eq!(Double::rounded(3, -1), of(1.5));
    }

    #[test]
    fn products_are_those_of_doubles() {
        let ulp = f64::EPSILON;
        for factor in [1.0, 1.5, 0.1, 1.0 / 3.0, 1.0 + ulp, 2.0 - ulp, 1.0 - ulp / 2.0, 1e290, 1e-290, 0.7] {
            for number in [1, 2, 3, 5, 7, 0xFFFF, 0x1_0001, 0x8000_0000, 0x8000_0001, u32::MAX - 1, u32::MAX] {
                assert_eq!(of(factor).times(number), of(factor * f64::from(number)), "{factor} * {number}");
            }
        }
        assert_eq!(Double::from_bits(0), None);
    }

    #[test]
    fn a_floor_is_as_near_as_32_bits_tell() {
        for (factor, number, floor) in [
            (2.0, 100, 200),
            (1.0, u32::MAX, u32::MAX.into()),
            (1.5, 3, 4),
            // 0.1 is a little less in 32 bits.
            (0.1, 30, 2),
            (0.1, 31, 3),
            (0.1, 0, 0),
            // The largest and the smallest that are told, and those beyond.
            (0.5f64.powi(-31), 3, 3 << 31),
            (0.5f64.powi(-32), 3, 0),
            (1.5 * 0.5f64.powi(32), u32::MAX, 1),
            (0.5f64.powi(33), u32::MAX, 0),
            (f64::MAX, u32::MAX, 0),
        ] {
            assert_eq!(of(factor).floor_times(number), floor, "{factor} * {number}");
        }
    }

    #[test]
    fn any_number_and_any_product_are_rounded_as_doubles() {
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Of every size: as many bits as chance has it.
            let number = (state ^ state << 21) >> (state >> 58) | 1;
            assert_eq!(Double::rounded(number, 0), of(number as f64), "{number}");
            let factor = f64::from_bits(state >> 12 | 1_000 << 52);
            let number = (state >> 40) as u32 >> (state >> 35 & 15) | 1;
            assert_eq!(of(factor).times(number), of(factor * f64::from(number)), "{factor:e} * {number}");
        }
    }

    #[test]
    fn tells_what_may_be_a_factor() {
        for good in [0.0, -0.0, 5e-324, 1.0, f64::MAX] {
            assert!(is_finite_and_not_negative(good), "{good}");
        }
        for bad in [-5e-324, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN] {
            assert!(!is_finite_and_not_negative(bad), "{bad}");
        }
        assert_eq!(bits_of(-0.0), 0);
    }
}
