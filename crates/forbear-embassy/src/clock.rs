//! embassy-time as the policy's clock: its ticks as time, and delays as ticks.

use core::time::Duration;

use embassy_time::{Instant as Tick, TICK_HZ};
use forbear::{Clock, Instant};

const NANOS: u64 = 1_000_000_000;

/// The clock of embassy-time, whatever driver and tick rate the firmware has.
///
/// A tick that has begun is not yet told, so the time lags by less than a tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbassyClock;

impl Clock for EmbassyClock {
    fn now(&self) -> Instant {
        let ticks = Tick::now().as_ticks();
        // No tick rate of embassy-time comes near the end of a u64 here: the fastest is 5.2 GHz.
        let nanos = ticks % TICK_HZ * NANOS / TICK_HZ;
        Instant::from_origin(Duration::new(ticks / TICK_HZ, nanos as u32))
    }
}

/// The first tick that is `delay` or more after now, whatever part of the present tick has passed; the last one there is
/// where the timer can't hold that.
pub(crate) fn tick_after(delay: Duration) -> Tick {
    let whole = delay.as_secs().saturating_mul(TICK_HZ);
    let part = (u64::from(delay.subsec_nanos()) * TICK_HZ).div_ceil(NANOS);
    let begun = u64::from(!delay.is_zero());
    Tick::from_ticks(Tick::now().as_ticks().saturating_add(whole).saturating_add(part + begun))
}
