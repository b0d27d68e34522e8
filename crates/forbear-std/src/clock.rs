//! The system's monotonic clock, with a cheap reading for counting.

use core::time::Duration;

use forbear::{Clock, Instant, Sleep};

/// The system's monotonic clock.
///
/// On Linux [`coarse`](Clock::coarse) reads the clock of the last timer tick, which lags by up to 4 ms and costs a
/// fraction of an exact reading; elsewhere both are the same.
///
/// ```
/// use forbear_std::SystemClock;
/// use forbear_std::forbear::Clock;
///
/// let before = SystemClock.coarse();
/// assert!(SystemClock.now() >= before);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(target_os = "linux")]
use linux as source;
#[cfg(not(target_os = "linux"))]
use standard as source;

#[cfg(target_os = "linux")]
mod linux {
    use super::{Duration, Instant};
    use rustix::time::{ClockId, clock_gettime};

    #[inline]
    fn read(clock: ClockId) -> Instant {
        let time = clock_gettime(clock);
        // Neither is ever negative: both count since the system started.
        Instant::from_origin(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    #[inline]
    pub(super) fn exact() -> Instant {
        read(ClockId::Monotonic)
    }

    #[inline]
    pub(super) fn coarse() -> Instant {
        read(ClockId::MonotonicCoarse)
    }
}

/// What every platform has; on Linux it is only tested.
#[cfg(any(test, not(target_os = "linux")))]
mod standard {
    use super::Instant;
    use std::sync::OnceLock;

    pub(super) fn exact() -> Instant {
        static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
        Instant::from_origin(ORIGIN.get_or_init(std::time::Instant::now).elapsed())
    }

    pub(super) use exact as coarse;
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Instant {
        source::exact()
    }

    #[inline]
    fn coarse(&self) -> Instant {
        source::coarse()
    }
}

impl Sleep for SystemClock {
    fn sleep(&self, delay: Duration) {
        std::thread::sleep(delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both readings are of one clock, which goes on as time does.
    fn goes_on(exact: fn() -> Instant, coarse: fn() -> Instant) {
        let before = exact();
        let early = coarse();
        // Some timers tick only every 10 ms.
        assert!(early.saturating_add(Duration::from_secs(1)) > before);
        assert!(early <= exact());
        SystemClock.sleep(Duration::from_millis(50));
        assert!(exact().saturating_since(before) >= Duration::from_millis(50));
        assert!(coarse() > early);
    }

    #[test]
    fn the_clock_goes_on() {
        goes_on(|| SystemClock.now(), || SystemClock.coarse());
    }

    #[test]
    fn the_clock_of_other_platforms_goes_on() {
        goes_on(standard::exact, standard::coarse);
    }
}
