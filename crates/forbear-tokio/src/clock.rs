//! Tokio's clock, which tests can pause.

use forbear::{Clock, Instant};

/// Tokio's clock: for tests on paused time, where the system's clock would run on.
///
/// It starts at its origin when it is made; copies are the same clock.
///
/// ```
/// use core::time::Duration;
/// use forbear_tokio::TokioClock;
/// use forbear_tokio::forbear::Clock;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let clock = TokioClock::new();
/// tokio::time::advance(Duration::from_secs(3)).await;
/// assert_eq!(clock.now().second(), 3);
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: tokio::time::Instant,
}

impl TokioClock {
    /// A clock whose origin is now. Inside of a runtime it follows that runtime's time, outside the system's.
    pub fn new() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        Instant::from_origin(self.origin.elapsed())
    }
}
