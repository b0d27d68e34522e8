//! embassy-time as the policy's clock: its ticks as time, and delays as ticks.

use core::time::Duration;

use embassy_time::{Instant as Tick, TICK_HZ};
use forbear::{Clock, Instant};

/// The clock of embassy-time, whatever driver and tick rate the firmware has.
///
/// Microseconds, rounded down; a tick that has begun is not told yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbassyClock;

impl Clock for EmbassyClock {
    fn now(&self) -> Instant {
        Instant::from_micros(Tick::now().as_micros())
    }
}

/// The first tick that is `delay` or more after now, whatever part of the present tick has passed; the last one there is
/// where the timer can't hold that.
#[inline(never)]
pub(crate) fn tick_after(delay: Duration) -> Tick {
    Tick::from_ticks(Tick::now().as_ticks().saturating_add(ticks::<TICK_HZ>(delay)))
}

/// So many ticks last at least as long as `delay`, though the first of them has partly passed.
///
/// At most two more than the delay, one for the tick that has begun and one for rounding up; only a delay that falls short
/// of a tick by less than a nanosecond may get a third.
#[inline(always)]
const fn ticks<const HZ: u64>(delay: Duration) -> u64 {
    let whole = delay.as_secs().saturating_mul(HZ);
    let part = match delay.subsec_nanos() {
        0 => !delay.is_zero() as u64,
        nanos => ((nanos as u64 * Nano::<HZ>::TICKS) >> Nano::<HZ>::SHIFT) + 2,
    };
    whole.saturating_add(part)
}

/// A nanosecond at a rate of ticks.
struct Nano<const HZ: u64>;

impl<const HZ: u64> Nano<HZ> {
    /// As large as a second's worth of nanoseconds can be multiplied by what it makes.
    const SHIFT: u32 = 62 - HZ.ilog2();

    /// Ticks in a nanosecond, times 2^SHIFT, rounded up.
    const TICKS: u64 = ((HZ as u128) << Self::SHIFT).div_ceil(1_000_000_000) as u64;
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::time::Duration;

    use super::ticks;

    /// What waits come to about the ticks of a second, of which a thousand are tried.
    fn check<const HZ: u64>() {
        let seconds = [0, 1, 59, 1 << 31, u64::MAX / HZ - 4];
        let near = |nanos: u64| (nanos.saturating_sub(2)..nanos + 3).filter(|&nanos| nanos < 1_000_000_000);
        let tick = |tick: u64| tick * 1_000_000_000 / HZ;
        let step = (HZ / 1_000).max(1) as usize;
        let nanos = (0..HZ).step_by(step).flat_map(|at| near(tick(at))).chain(near(999_999_999));
        for nanos in nanos {
            for seconds in seconds {
                let delay = Duration::new(seconds, nanos as u32);
                let (got, asked) = (u128::from(ticks::<HZ>(delay)), delay.as_nanos() * u128::from(HZ));
                // One tick has begun already, and may be as good as over.
                let least = got.saturating_sub(1) * 1_000_000_000;
                assert!(least >= asked, "{delay:?} at {HZ} Hz is over after {got} ticks");
                // A quarter of a nanosecond is what rounding the factor may come to.
                let most = asked + 2_000_000_000 + u128::from(HZ / 4);
                assert!(got * 1_000_000_000 <= most, "{delay:?} at {HZ} Hz takes as long as {got} ticks");
            }
        }
        assert_eq!(ticks::<HZ>(Duration::ZERO), 0);
        assert_eq!(ticks::<HZ>(Duration::from_secs(7)), 7 * HZ + 1);
        assert_eq!(ticks::<HZ>(Duration::MAX), u64::MAX);
    }

    #[test]
    fn a_wait_is_never_early_and_at_most_two_ticks_late_at_any_rate() {
        check::<1>();
        check::<10>();
        check::<64>();
        check::<100>();
        check::<1_000>();
        check::<1_024>();
        check::<32_768>();
        check::<1_000_000>();
        check::<3_000_000>();
        check::<16_777_216>();
        check::<80_000_000>();
        check::<1_000_000_000>();
        check::<5_242_880_000>();
    }
}
