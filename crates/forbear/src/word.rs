//! Words of 64 bits that hold several numbers.

/// `high`, and below it `low` of no more than so many `bits`.
#[inline]
pub(crate) const fn joined(high: u64, bits: u32, low: u64) -> u64 {
    high << bits | low
}

/// `number`, or `most` where it is more: what its bits can hold.
#[inline]
pub(crate) const fn at_most(number: u64, most: u64) -> u64 {
    if number < most { number } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_side_by_side() {
        assert_eq!(joined(0b101, 4, 0b0011), 0b101_0011);
        assert_eq!(joined(u64::MAX, 32, 7), 0xFFFF_FFFF_0000_0007);
        assert_eq!([3, 4, 5, u64::MAX].map(|number| at_most(number, 4)), [3, 4, 4, 4]);
    }
}
