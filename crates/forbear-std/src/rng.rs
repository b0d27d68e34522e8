//! A generator per thread, seeded by the system.

use core::cell::Cell;
use core::convert::Infallible;
use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

use forbear::rand_core::TryRng;

/// This thread's generator. It is a handle that holds nothing: every copy draws on in the one sequence of the thread that
/// it is asked on, so clients on the same thread take turns, and each thread has a sequence of its own.
///
/// A process that forks hands a copy of all this to its child: on the thread that forked, parent and child may draw the same
/// numbers from then on, and so may all of a server's workers, jitter included. Threads that are started after the fork seed
/// themselves from the system: let a forked worker make its calls on those, or give its client a generator of its own that
/// is seeded after the fork ([`Client::with`](crate::Client::with)).
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

#[cfg(test)]
mod tests {
    use super::*;
    use forbear::rand_core::Rng;

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
}
