//! What tasks share: a window and a generator, each behind a mutex that is held for one look or one change.

use core::cell::RefCell;
use core::convert::Infallible;

use embassy_sync::blocking_mutex::Mutex;
use embassy_sync::blocking_mutex::raw::RawMutex;
use forbear::{Counts, Tally};
use rand_core::{Rng, TryRng};

/// A window that any task may use which the mutex `M` allows.
#[derive(Debug)]
pub struct Shared<M: RawMutex, W>(Mutex<M, W>);

impl<M: RawMutex, W> Shared<M, W> {
    pub(crate) const fn new(window: W) -> Self {
        Self(Mutex::new(window))
    }
}

impl<M: RawMutex, W: Tally> Tally for Shared<M, W> {
    fn counts(&self, second: u64) -> Counts {
        self.0.lock(|window| window.counts(second))
    }

    fn in_flight(&self, second: u64, grace: u8) -> u32 {
        self.0.lock(|window| window.in_flight(second, grace))
    }

    fn request(&self, second: u64) -> u64 {
        self.0.lock(|window| window.request(second))
    }

    fn attempt(&self, second: u64, reserved: bool) -> (Counts, u64) {
        self.0.lock(|window| window.attempt(second, reserved))
    }

    fn refuse(&self, asked: u64) {
        self.0.lock(|window| window.refuse(asked));
    }

    fn answer(&self, asked: u64, second: u64, accepted: bool) {
        self.0.lock(|window| window.answer(asked, second, accepted));
    }

    fn withdraw(&self, asked: u64) {
        self.0.lock(|window| window.withdraw(asked));
    }

    fn reserve(&self, second: u64, allowed: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
        self.0.lock(|window| window.reserve(second, allowed))
    }

    fn retry(&self, second: u64) -> u64 {
        self.0.lock(|window| window.retry(second))
    }

    fn release(&self) {
        self.0.lock(Tally::release);
    }

    fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T {
        self.0.lock(|window| window.pace(change))
    }
}

/// Draws from a generator that is shared.
pub(crate) struct Draw<'c, M: RawMutex, R>(pub(crate) &'c Mutex<M, RefCell<R>>);

impl<M: RawMutex, R: Rng> TryRng for Draw<'_, M, R> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|number| (number >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        // The mutex admits one at a time, so the cell is free; a panic path for the contrary would cost flash.
        Ok(self.0.lock(|rng| rng.try_borrow_mut().map_or(u64::MAX, |mut rng| rng.next_u64())))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.lock(|rng| {
            if let Ok(mut rng) = rng.try_borrow_mut() {
                rng.fill_bytes(bytes);
            }
        });
        Ok(())
    }
}
