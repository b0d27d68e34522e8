//! What a client implements to be tested, and the clock and the generator that it is made with.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use forbear::rand_core::TryRng;
use forbear::{Clock, Config, Instant, Reply, Sleep, Stop};

pub use crate::vectors::Outcome;

/// A kind of client that can be made with any configuration over any window.
///
/// One whose calls are futures runs each on a runtime of its own with a clock that does not run by itself. What it waits
/// must show on the [`SharedClock`] before it sends again or ends.
pub trait Subject: 'static {
    /// What it is called in what is printed.
    const NAME: &'static str;

    /// How many microseconds its timer makes of a wait at most, beyond rounding up: 2 where it counts whole ticks and
    /// can't tell how much of the present one has passed.
    const LATE_MICROS: u64 = 0;

    /// A fresh client over a window of `N` seconds.
    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Client>;
}

/// A client under test.
pub trait Client {
    /// One call; `send` is one attempt.
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended;

    /// What it has counted, now.
    fn observed(&self) -> Observed;
}

/// What a client says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the call ended.
    pub outcome: Outcome,
    /// How often it was sent, where the client tells.
    pub attempts: Option<u32>,
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Accepted => Self::Ok,
            Stop::Throttled => Self::Throttled,
            Stop::Budget => Self::Budget,
            Stop::Deadline => Self::Deadline,
            _ => Self::Failed,
        }
    }
}

/// What a client counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// The requests of the window.
    pub requests: u32,
    /// The accepts of the window.
    pub accepts: u32,
    /// The retries of the window.
    pub retries: u32,
    /// The reject probability.
    pub reject_probability: f64,
}

/// A clock that moves only when told to, or when somebody sleeps by it; clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct SharedClock(Arc<AtomicU64>);

impl SharedClock {
    /// Sets the clock, in microseconds.
    pub fn set_micros(&self, now: u64) {
        self.0.store(now, Ordering::SeqCst);
    }

    /// The time in microseconds.
    pub fn micros(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Moves the clock by as many microseconds.
    pub fn advance_micros(&self, by: u64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Instant {
        Instant::from_micros(self.micros())
    }
}

impl Sleep for SharedClock {
    /// Moves the clock: by what a timer of whole microseconds waits.
    fn sleep(&self, delay: Duration) {
        self.advance_micros(delay.as_nanos().div_ceil(1_000) as u64);
    }
}

/// A generator that follows a script and counts what is drawn; clones are the same generator.
#[derive(Clone, Debug, Default)]
pub struct SharedScript(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    numbers: Vec<u64>,
    drawn: usize,
}

impl SharedScript {
    /// Starts over with these numbers. Past their end the generator gives 0, and goes on counting.
    pub fn load(&self, numbers: impl IntoIterator<Item = u64>) {
        let mut script = self.lock();
        script.numbers.clear();
        script.numbers.extend(numbers);
        script.drawn = 0;
    }

    /// How many numbers were drawn since the last [`load`](Self::load).
    pub fn drawn(&self) -> usize {
        self.lock().drawn
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TryRng for SharedScript {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.try_next_u64().map(|number| (number >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        let mut script = self.lock();
        let number = script.numbers.get(script.drawn).copied().unwrap_or(0);
        script.drawn += 1;
        Ok(number)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for chunk in bytes.chunks_mut(8) {
            let number = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
        Ok(())
    }
}
