//! A window behind a mutex, for targets without 64-bit atomics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use forbear::{Counts, Tally, Window};

/// A [`Window`] behind a mutex: what stands in for the lock-free one on targets without 64-bit atomics.
///
/// The same counts, at the price of a lock for each step.
///
/// ```
/// use forbear_std::{Client, Config, LockedWindow, SystemClock, ThreadRng};
///
/// let client = Client::with(SystemClock, ThreadRng, Config::resilient(), LockedWindow::<120>::new());
/// assert_eq!(client.counts().requests, 0);
/// ```
#[derive(Debug)]
pub struct LockedWindow<const N: usize = 120>(Mutex<Window<N>>);

impl<const N: usize> LockedWindow<N> {
    /// A window of as many seconds as its type says.
    pub const fn new() -> Self {
        Self(Mutex::new(Window::of_len()))
    }

    /// No step of a window panics, so a lock is never left half way through one.
    fn lock(&self) -> MutexGuard<'_, Window<N>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<const N: usize> Default for LockedWindow<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Tally for LockedWindow<N> {
    fn counts(&self, second: u64) -> Counts {
        self.lock().counts(second)
    }

    fn in_flight(&self, second: u64, grace: u8) -> u32 {
        self.lock().in_flight(second, grace)
    }

    fn request(&self, second: u64) -> u64 {
        self.lock().request(second)
    }

    fn attempt(&self, second: u64, reserved: bool) -> (Counts, u64) {
        self.lock().attempt(second, reserved)
    }

    fn refuse(&self, asked: u64) {
        self.lock().refuse(asked);
    }

    fn answer(&self, asked: u64, second: u64, accepted: bool) {
        self.lock().answer(asked, second, accepted);
    }

    fn withdraw(&self, asked: u64) {
        self.lock().withdraw(asked);
    }

    fn reserve(&self, second: u64, allowed: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
        self.lock().reserve(second, allowed)
    }

    fn retry(&self, second: u64) -> u64 {
        self.lock().retry(second)
    }

    fn release(&self) {
        self.lock().release();
    }

    fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T {
        self.lock().pace(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn threads_lose_no_count_and_overspend_no_budget() {
        let window = Arc::new(LockedWindow::<10>::new());
        let threads = (0..4).map(|_| {
            let window = window.clone();
            thread::spawn(move || {
                (0..1_000).for_each(|_| {
                    let asked = window.request(3);
                    window.answer(asked, 3, true);
                });
                (0..1_000).filter(|_| window.reserve(3, |retries, _| retries < 100).is_ok()).count()
            })
        });
        let reserved: usize = threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum();
        let counts = window.counts(3);
        assert_eq!((counts.requests, counts.accepts, counts.waiting, reserved), (4_000, 4_000, 100, 100));
        window.retry(3);
        window.release();
        assert_eq!((window.counts(3).retries, window.counts(3).waiting), (1, 98));
    }

    #[test]
    fn it_stays_usable_after_a_panic_in_a_decision() {
        let window = Arc::new(LockedWindow::<10>::new());
        let panicking = window.clone();
        let panicked = thread::spawn(move || panicking.reserve(0, |_, _| panic!("a decision fails"))).join();
        assert!(panicked.is_err());
        window.withdraw(window.request(0));
        assert_eq!(window.counts(0).requests, 0);
        assert_eq!(window.in_flight(0, 1), 0);
        assert!(window.pace(|_| (true, 7)));
        assert!(!window.pace(|word| (word != 7, word)));
    }
}
