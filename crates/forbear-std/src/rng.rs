//! Generators that a client's clones share: one per thread, seeded by the system, and any other behind a mutex.

use core::cell::Cell;
use core::convert::Infallible;
use core::fmt;
use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forbear::rand_core::{Rng, TryRng};

/// A generator whose clones draw on in the one sequence.
///
/// A client asks a clone of its generator in each call. Clones of a generator that carries its state would repeat one another,
/// and so would all calls, jitter included; so a client takes handles alone. Implement it for nothing else: what has a state
/// of its own goes into a [`LockedRng`].
#[diagnostic::on_unimplemented(
    message = "clones of `{Self}` may draw the same numbers, and then every call has the same jitter",
    label = "not a generator that clones share",
    note = "if it is a generator, share it: `LockedRng::new(rng)`"
)]
pub trait SharedRng: Rng + Clone {}

/// This thread's generator. It is a handle that holds nothing: every copy draws on in the one sequence of the thread that
/// it is asked on, so clients on the same thread take turns, and each thread has a sequence of its own.
///
/// A process that forks hands a copy of all this to its child: on the thread that forked, parent and child may draw the same
/// numbers from then on, and so may all of a server's workers, jitter included. Threads that are started after the fork seed
/// themselves from the system: let a forked worker make its calls on those, or give its client a generator of its own, a
/// [`LockedRng`] that is seeded after the fork.
///
/// Quick rather than secret: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014),
/// started at a state that the standard library derives from the system's randomness.
///
/// ```
/// use forbear_std::ThreadRng;
/// use forbear_std::forbear::rand_core::Rng;
///
/// assert_ne!(ThreadRng.next_u64(), ThreadRng.next_u64());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadRng;

impl SharedRng for ThreadRng {}

thread_local! {
    /// 0 until the first draw of the thread.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

#[cold]
fn seed() -> u64 {
    // Keys are drawn from the system once for each thread, and differ for every hasher that is built.
    RandomState::new().build_hasher().finish() | 1
}

impl TryRng for ThreadRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|number| (number >> 32) as u32)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(STATE.with(|state| {
            let mut next = state.get();
            if next == 0 {
                next = seed();
            }
            next = next.wrapping_add(0x9e37_79b9_7f4a_7c15);
            state.set(next);
            let mixed = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        }))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let number = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
        Ok(())
    }
}

/// A generator of the caller's own behind a mutex: every clone draws on in the one sequence.
///
/// For a forked worker, which seeds one of its own, and for tests, which may seed theirs with a constant. Elsewhere a constant
/// has all processes draw the same numbers, so that they retry in step.
///
/// ```
/// use forbear_std::{Client, Config, LockedRng, SharedWindow, SystemClock};
/// use rand_xoshiro::Xoshiro256PlusPlus;
/// use rand_xoshiro::rand_core::SeedableRng;
///
/// let seed = u64::from(std::process::id()); // in earnest, from the system
/// let rng = LockedRng::new(Xoshiro256PlusPlus::seed_from_u64(seed));
/// let client = Client::with(SystemClock, rng, Config::resilient(), SharedWindow::<120>::default());
/// # assert_eq!(client.requests(), 0);
/// ```
pub struct LockedRng<R>(Arc<Mutex<R>>);

impl<R> LockedRng<R> {
    /// A handle of this generator.
    pub fn new(rng: R) -> Self {
        Self(Arc::new(Mutex::new(rng)))
    }

    /// A generator that panicked is drawn on: whatever it gives, a call stays a call.
    fn lock(&self) -> MutexGuard<'_, R> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Rng> SharedRng for LockedRng<R> {}

impl<R: Rng> TryRng for LockedRng<R> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.lock().try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.lock().try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.lock().try_fill_bytes(bytes)
    }
}

/// Another handle of the same generator.
impl<R> Clone for LockedRng<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Without the state, from which all that it will draw could be told.
impl<R> fmt::Debug for LockedRng<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedRng").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;

    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn threads_draw_different_numbers() {
        let draw = || [(); 4].map(|()| ThreadRng.next_u64());
        let other = std::thread::spawn(draw).join().unwrap();
        assert_ne!(draw(), other);
    }

    #[test]
    fn a_copy_draws_on() {
        let mut rng = ThreadRng;
        let mut copy = rng;
        assert_ne!(rng.next_u64(), copy.next_u64());
    }

    #[test]
    fn draws_are_spread_evenly() {
        let mean = (0..100_000).map(|_| (ThreadRng.next_u64() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.01, "{mean}"); // 11 standard deviations
    }

    #[test]
    fn bytes_are_filled_to_the_last() {
        let mut bytes = [0; 61];
        ThreadRng.fill_bytes(&mut bytes);
        assert!(bytes[53..].iter().any(|byte| *byte != 0));
    }

    #[test]
    fn handles_take_turns_in_what_their_generator_draws() {
        let mut alone = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut first = LockedRng::new(alone.clone());
        let mut second = first.clone();
        assert_eq!(first.next_u64(), alone.next_u64());
        assert_eq!(second.next_u64(), alone.next_u64());
        assert_eq!(first.next_u32(), alone.next_u32());
        let (mut bytes, mut expected) = ([0; 13], [0; 13]);
        second.fill_bytes(&mut bytes);
        alone.fill_bytes(&mut expected);
        assert_eq!(bytes, expected);
        assert_eq!(first.next_u64(), alone.next_u64());
    }

    #[test]
    fn a_generator_that_panicked_is_drawn_on() {
        /// Panics at its first draw.
        struct Fails(u64);
        impl TryRng for Fails {
            type Error = Infallible;

            fn try_next_u32(&mut self) -> Result<u32, Infallible> {
                self.try_next_u64().map(|number| number as u32)
            }

            fn try_next_u64(&mut self) -> Result<u64, Infallible> {
                self.0 += 1;
                assert_ne!(self.0, 1, "a draw fails");
                Ok(self.0)
            }

            fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
                bytes.fill(self.try_next_u64()? as u8);
                Ok(())
            }
        }
        let mut rng = LockedRng::new(Fails(0));
        let mut panicking = rng.clone();
        assert!(catch_unwind(AssertUnwindSafe(|| panicking.next_u64())).is_err());
        assert!(rng.0.is_poisoned());
        assert_eq!([rng.next_u64(), panicking.next_u64()], [2, 3]);
    }

    #[test]
    fn a_handle_keeps_its_state_to_itself() {
        let rng = LockedRng::new(Xoshiro256PlusPlus::seed_from_u64(1));
        assert_eq!(format!("{rng:?}"), "LockedRng { .. }");
    }
}
