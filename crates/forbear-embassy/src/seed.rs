//! Seeds that differ between devices and between resets.

use core::fmt;

/// A seed from the device's unique id and whatever entropy there is, for `SeedableRng::seed_from_u64`.
///
/// Devices that draw the same numbers retry in step, and that is what jitter is to prevent. So give each its own
/// sequence: the unique id of the chip, or its MAC address or serial number, as `device_id`; and as `entropy` what differs
/// from one reset to the next, such as noise of an ADC, a counter of resets in flash, or the time. 0 is what to give where
/// there is none: the device then repeats itself after each reset, though no other does what it does. A board that has a
/// generator in hardware needs no seed: the client takes that generator.
///
/// Ids of the same length that differ only within 8 bytes (counted from the start in steps of 8) never give the same
/// seed with the same entropy; others do with a chance of 2^-64. The seed is not fit for keys.
///
/// # Errors
///
/// An id whose bytes are all the same, or that is empty, is not an id but erased memory, and would be the same on every
/// device.
///
/// ```
/// use forbear_embassy::seed;
///
/// let (one, other) = ([0x02, 0, 0, 0, 0, 1], [0x02, 0, 0, 0, 0, 2]);
/// assert_ne!(seed(&one, 7)?, seed(&other, 7)?);
/// assert_ne!(seed(&one, 7)?, seed(&one, 8)?);
/// assert!(seed(&[0xFF; 12], 7).is_err());
/// # Ok::<(), forbear_embassy::NoDeviceId>(())
/// ```
pub fn seed(device_id: &[u8], entropy: u64) -> Result<u64, NoDeviceId> {
    match device_id {
        [] => return Err(NoDeviceId),
        [first, rest @ ..] if rest.iter().all(|byte| byte == first) => return Err(NoDeviceId),
        _ => {}
    }
    let mut state = mix(entropy ^ device_id.len() as u64);
    for chunk in device_id.chunks(8) {
        let word = chunk.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        state = mix(state ^ word);
    }
    Ok(state)
}

/// The output function of SplitMix64: a bijection that spreads every bit over all others.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
const fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

/// What was given as the id of a device is empty or erased memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoDeviceId;

impl fmt::Display for NoDeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the device id is empty, or all its bytes are the same")
    }
}

impl core::error::Error for NoDeviceId {}

#[cfg(feature = "defmt")]
impl defmt::Format for NoDeviceId {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "the device id is empty, or all its bytes are the same");
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;

    use super::{NoDeviceId, mix, seed};

    #[test]
    fn every_device_and_every_reset_has_its_own_seed() {
        let mut seeds = HashSet::new();
        for serial in 1..=20_000u32 {
            let [a, b, c, d] = serial.to_le_bytes();
            // A chip's id of 96 bits, of which a production lot has most in common.
            let id = [0x31, 0x36, 0x51, 0x0E, 0x30, 0x33, 0x39, 0x35, a, b, c, d];
            assert!(seeds.insert(seed(&id, 0).unwrap()), "device {serial}");
            assert!(seeds.insert(seed(&id, 1).unwrap()), "device {serial}, after a reset");
            assert!(seeds.insert(seed(&id[8..], 0).unwrap()), "device {serial}, short id");
        }
    }

    #[test]
    fn every_reset_of_a_device_has_its_own_seed() {
        let seeds: HashSet<_> = (0..10_000).map(|reset| seed(&[2, 0, 0, 0, 0, 1], reset).unwrap()).collect();
        assert_eq!(seeds.len(), 10_000);
    }

    #[test]
    fn mixing_is_that_of_splitmix() {
        // The first numbers of its generator from the states 0 and 1234567.
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn leading_zeros_count() {
        assert_ne!(seed(&[0, 1], 0), seed(&[0, 0, 1], 0));
        assert_ne!(seed(&[7, 0], 0), seed(&[7, 0, 0], 0));
    }

    #[test]
    fn erased_memory_is_no_id() {
        for id in [&[][..], &[0; 12], &[0xFF; 6], &[7]] {
            assert_eq!(seed(id, 1), Err(NoDeviceId), "{id:?}");
        }
    }
}
