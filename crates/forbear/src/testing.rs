//! For tests: a clock that is set by hand, and a generator that follows a script.

use core::cell::Cell;
use core::convert::Infallible;
use core::time::Duration;

use rand_core::TryRng;

use crate::clock::{Clock, Instant, Sleep};

/// A clock that moves only when told to, or when somebody sleeps by it. Share it by reference.
///
/// ```
/// use core::time::Duration;
/// use forbear::testing::ManualClock;
/// use forbear::{Clock, Instant, Sleep};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(2));
/// (&clock).sleep(Duration::from_secs(1));
/// assert_eq!(clock.now(), Instant::from_secs(3));
/// clock.set(Instant::from_secs(1)); // back in time
/// assert_eq!(clock.now(), Instant::from_secs(1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Cell<Instant>);

impl ManualClock {
    /// A clock at its origin.
    pub const fn new() -> Self {
        Self::at(Instant::ORIGIN)
    }

    /// A clock at `now`.
    pub const fn at(now: Instant) -> Self {
        Self(Cell::new(now))
    }

    /// Moves the clock by `by`.
    pub fn advance(&self, by: Duration) {
        self.0.set(self.0.get().saturating_add(by));
    }

    /// Sets the clock, back in time too.
    pub fn set(&self, now: Instant) {
        self.0.set(now);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.0.get()
    }
}

impl Sleep for ManualClock {
    fn sleep(&self, delay: Duration) {
        self.advance(delay);
    }
}

/// A generator that gives the numbers of a script in order, and after its end the last of them for ever (0 if there is
/// none).
///
/// ```
/// use forbear::testing::ScriptedRng;
/// use rand_core::Rng;
///
/// let mut rng = ScriptedRng::new(&[7, 9]);
/// assert_eq!([rng.next_u64(), rng.next_u64(), rng.next_u64()], [7, 9, 9]);
/// assert_eq!(rng.drawn(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedRng<'s> {
    script: &'s [u64],
    drawn: usize,
}

impl<'s> ScriptedRng<'s> {
    /// A generator at the start of `script`.
    pub const fn new(script: &'s [u64]) -> Self {
        Self { script, drawn: 0 }
    }

    /// How many numbers were drawn.
    pub const fn drawn(&self) -> usize {
        self.drawn
    }
}

impl TryRng for ScriptedRng<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|number| (number >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let number = self.script.get(self.drawn).or(self.script.last()).copied().unwrap_or(0);
        self.drawn = self.drawn.saturating_add(1);
        Ok(number)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let number = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(number.get(..chunk.len()).unwrap_or(&[]));
        }
        Ok(())
    }
}
