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
///
/// At most two ticks more than the delay: one for the tick that has begun, one for rounding up.
#[inline(never)]
pub(crate) fn tick_after(delay: Duration) -> Tick {
    /// Ticks in a nanosecond, times 2^30, rounded up: what it is too large by makes less than a tick in a second.
    const TICKS: u64 = ((TICK_HZ as u128) << 30).div_ceil(1_000_000_000) as u64;
    let whole = delay.as_secs().saturating_mul(TICK_HZ);
    let part = match delay.subsec_nanos() {
        0 => u64::from(!delay.is_zero()),
        nanos => ((u64::from(nanos) * TICKS) >> 30) + 2,
    };
    Tick::from_ticks(Tick::now().as_ticks().saturating_add(whole).saturating_add(part))
}
