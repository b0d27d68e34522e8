//! The arithmetic of IEEE doubles in integers, for the two comparisons that the specification makes.
//!
//! Both decisions are defined on doubles. Devices without a floating point unit pay thousands of instructions and
//! kilobytes for those, so the core decides by integers, with the same result to the last bit: it rounds where doubles
//! round (to 53 bits, ties to even), and compares exactly.

/// `mantissa * 2^exponent`, exactly.
#[derive(Clone, Copy)]
pub(crate) struct Scaled {
    pub(crate) mantissa: u128,
    pub(crate) exponent: i32,
}

impl Scaled {
    /// The value of a finite double that is not negative.
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        let exponent = (bits >> 52 & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        // Without an implicit leading bit: zero and the subnormal numbers.
        let (mantissa, exponent) =
            if exponent == 0 { (fraction, -1_074) } else { (fraction | 1 << 52, exponent - 1_075) };
        Self { mantissa: mantissa as u128, exponent }
    }

    /// The number of bits of the mantissa.
    #[inline]
    const fn len(self) -> i32 {
        128 - self.mantissa.leading_zeros() as i32
    }

    /// Rounded to the 53 bits of a double, ties to even.
    #[inline]
    pub(crate) const fn rounded(self) -> Self {
        let shift = self.len() - 53;
        if shift <= 0 {
            return self;
        }
        let kept = self.mantissa >> shift;
        let dropped = self.mantissa & ((1 << shift) - 1);
        let half = 1 << (shift - 1);
        let up = dropped > half || dropped == half && kept & 1 == 1;
        Self { mantissa: kept + up as u128, exponent: self.exponent + shift }
    }

    /// Whether this is more than `other`.
    #[inline]
    pub(crate) const fn exceeds(self, other: Self) -> bool {
        if self.mantissa == 0 || other.mantissa == 0 {
            return self.mantissa != 0;
        }
        let (own, others) = (self.len() + self.exponent, other.len() + other.exponent);
        if own != others {
            return own > others;
        }
        // The leading bits stand at the same place, so the one with the finer exponent has as many more bits as the
        // other has to be shifted by: nothing is lost.
        if self.exponent >= other.exponent {
            self.mantissa << (self.exponent - other.exponent) > other.mantissa
        } else {
            self.mantissa > other.mantissa << (other.exponent - self.exponent)
        }
    }
}

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

    #[test]
    fn rounds_to_even_at_a_tie() {
        let rounded = |mantissa| {
            let r = Scaled { mantissa, exponent: 0 }.rounded();
            r.mantissa << r.exponent
        };
        let end = 1 << 53;
        assert_eq!(rounded(end - 1), end - 1);
        assert_eq!(rounded(end + 1), end);
        assert_eq!(rounded(end + 2), end + 2);
        assert_eq!(rounded(end + 3), end + 4);
        assert_eq!(rounded(u128::from(u64::MAX)), 1 << 64);
    }

    #[test]
    fn compares_across_exponents() {
        let of = |x: f64| Scaled::from_bits(x.to_bits());
        for (a, b) in
            [(0.0, 0.0), (0.0, 5e-324), (5e-324, 1.0), (1.0, 1.0), (1.5, 1.25), (f64::MAX, 1e-300), (3.0, 4.0)]
        {
            assert_eq!(of(a).exceeds(of(b)), a > b, "{a} > {b}");
            assert_eq!(of(b).exceeds(of(a)), b > a, "{b} > {a}");
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
