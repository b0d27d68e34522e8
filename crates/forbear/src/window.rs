//! The window for one thread at a time: a fixed ring of one-second buckets with running totals.

use core::cell::Cell;
use core::fmt;

use heapless::Vec;

use crate::counts::{Counts, Tally};
use crate::recovery;
use crate::word::at_most;

/// How many young seconds keep their attempts in flight apart: the longest grace is one less.
pub(crate) const YOUNG: usize = 8;

/// The longest `in_flight_grace`, in seconds.
pub(crate) const MAX_GRACE: u8 = 7;
const _: () = assert!(MAX_GRACE as usize == YOUNG - 1);

/// How many seconds before the current one count as young under `grace`: no more than the window holds.
pub(crate) const fn young_span<const N: usize>(grace: u8) -> u64 {
    at_most(at_most(grace as u64, MAX_GRACE as u64), N as u64 - 1)
}

/// A counter of one bucket: `u32`, or `u16` for small devices. It saturates.
///
/// Sealed: the two are all there are.
pub trait Counter: sealed::Counter {}

impl Counter for u16 {}
impl Counter for u32 {}

mod sealed {
    pub trait Counter: Copy + PartialEq {
        const ZERO: Self;
        const MAX: Self;
        fn up(self) -> Self;
        fn down(self) -> Self;
        fn number(self) -> u64;
    }

    macro_rules! counter {
        ($($int:ty),*) => {$(
            impl Counter for $int {
                const ZERO: Self = 0;
                const MAX: Self = <$int>::MAX;
                fn up(self) -> Self {
                    self.saturating_add(1)
                }
                fn down(self) -> Self {
                    self.saturating_sub(1)
                }
                fn number(self) -> u64 {
                    u64::from(self)
                }
            }
        )*};
    }
    counter!(u16, u32);
}

/// What happened, as the index of its counter.
#[derive(Clone, Copy)]
enum Event {
    Request,
    Accept,
    Retry,
}

/// One counter for each [`Event`].
type Each<T> = [Cell<T>; 3];

/// `N` buckets of one second each: the current second and the `N - 1` before it.
///
/// For one thread at a time, and shared by reference there; [`AtomicWindow`](crate::AtomicWindow) is the same for any
/// number of threads. A read and a record are O(1). A gap in time, however long, costs one pass over the ring at most.
/// Memory is fixed: 12 bytes a bucket with `u32` counters, 6 with `u16`, and about 60 more.
///
/// `N` is 1 to 3,600; anything else does not compile. `C` is what a bucket counts in: `u32`, or `u16` for small devices,
/// which then saturates at 65,535 requests a second. Source: *Site Reliability Engineering*, "Handling Overload", where
/// the window is two minutes.
///
/// ```
/// use forbear::{Tally, Window};
///
/// let window = Window::new(); // 120 seconds
/// let asked = window.request(7);
/// window.answer(asked, 9, true);
/// assert_eq!((window.counts(126).requests, window.counts(126).accepts), (1, 1));
/// assert_eq!((window.counts(127).requests, window.counts(127).accepts), (0, 1));
///
/// let compact = Window::<30, u16>::of_len();
/// assert!(size_of_val(&compact) < 30 * 6 + 80);
/// ```
///
/// ```compile_fail
/// let too_long = forbear::Window::<3601>::of_len();
/// ```
pub struct Window<const N: usize = 120, C: Counter = u32> {
    ring: Vec<Each<C>, N>,
    /// Sums over the ring. No sum of 3,600 counters comes near the end of a `u64`.
    total: Each<u64>,
    /// The newest second seen.
    head: Cell<u64>,
    /// Where in the ring the bucket of `head` is.
    at: Cell<u16>,
    waiting: Cell<u32>,
    pace: Cell<u64>,
    /// Attempts without an answer, by the last seconds in which they began. Saturates, and then forgives fewer.
    open: [Cell<u16>; YOUNG],
}

impl Window {
    /// The two minutes of the specification.
    pub const fn new() -> Self {
        Window::<120>::of_len()
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize, C: Counter> Window<N, C> {
    /// A window of as many seconds as its type says.
    pub const fn of_len() -> Self {
        const { assert!(N >= 1 && N <= 3_600, "a window has 1 to 3600 seconds") };
        Self {
            ring: Vec::from_array([const { [const { Cell::new(C::ZERO) }; 3] }; N]),
            total: [const { Cell::new(0) }; 3],
            head: Cell::new(0),
            at: Cell::new(0),
            waiting: Cell::new(0),
            pace: Cell::new(recovery::START),
            open: [const { Cell::new(0) }; YOUNG],
        }
    }

    /// Moves the head to `second` where that is newer; returns the head.
    #[inline]
    fn advance(&self, second: u64) -> u64 {
        let head = self.head.get();
        if second <= head {
            return head;
        }
        self.turn(second);
        second
    }

    /// Moves the head to `second`, emptying what leaves the window.
    #[inline(never)]
    fn turn(&self, second: u64) {
        let gap = usize::try_from(second.saturating_sub(self.head.get())).map_or(N, |gap| gap.min(N));
        for _ in 0..gap {
            let at = usize::from(self.at.get()) + 1;
            let at = if at < N { at } else { 0 };
            self.at.set(at as u16); // N is at most 3,600
            if let Some(bucket) = self.ring.get(at) {
                for (total, counter) in self.total.iter().zip(bucket) {
                    total.set(total.get().saturating_sub(counter.replace(C::ZERO).number()));
                }
            }
        }
        for age in 0..gap.min(YOUNG) {
            self.open(second.saturating_sub(age as u64)).set(0);
        }
        self.head.set(second);
    }

    /// The bucket of `second`, if that is in the window and not in the future.
    fn bucket(&self, second: u64) -> Option<&Each<C>> {
        let age = usize::try_from(self.head.get().checked_sub(second)?).ok()?;
        let at = usize::from(self.at.get());
        if age >= N {
            return None;
        }
        self.ring.get(if age <= at { at - age } else { at + N - age })
    }

    /// Counts `event` in the head's bucket.
    fn count(&self, event: Event) {
        if let Some(bucket) = self.ring.get(usize::from(self.at.get())) {
            let counter = &bucket[event as usize];
            if counter.get() != C::MAX {
                counter.set(counter.get().up());
                let total = &self.total[event as usize];
                total.set(total.get().saturating_add(1));
            }
        }
    }

    fn open(&self, second: u64) -> &Cell<u16> {
        &self.open[second as usize % YOUNG]
    }

    /// One attempt that began in second `asked` is no longer in flight.
    fn close(&self, asked: u64) {
        if self.head.get().saturating_sub(asked) < YOUNG as u64 {
            let open = self.open(asked);
            open.set(open.get().saturating_sub(1));
        }
    }

    /// Counts a request of the head's second, in flight from now on.
    fn start(&self, second: u64) {
        self.count(Event::Request);
        let open = self.open(second);
        open.set(open.get().saturating_add(1));
    }

    /// The counts, as of the head.
    fn held(&self) -> Counts {
        Counts {
            requests: self.sum(Event::Request),
            accepts: self.sum(Event::Accept),
            retries: self.sum(Event::Retry),
            waiting: self.waiting.get(),
            in_flight: 0,
        }
    }

    fn sum(&self, event: Event) -> u32 {
        u32::try_from(self.total[event as usize].get()).unwrap_or(u32::MAX)
    }
}

impl<const N: usize, C: Counter> Tally for Window<N, C> {
    fn counts(&self, second: u64) -> Counts {
        self.advance(second);
        self.held()
    }

    fn in_flight(&self, second: u64, grace: u8) -> u32 {
        let head = self.advance(second);
        let oldest = head.saturating_sub(young_span::<N>(grace));
        (oldest..=head).map(|second| u32::from(self.open(second).get())).sum()
    }

    fn request(&self, second: u64) -> u64 {
        let second = self.advance(second);
        self.start(second);
        second
    }

    #[inline(always)]
    fn attempt(&self, second: u64, reserved: bool) -> (Counts, u64) {
        let second = self.advance(second);
        let counts = self.held();
        self.start(second);
        if reserved {
            self.count(Event::Retry);
            self.release();
        }
        (counts, second)
    }

    fn refuse(&self, asked: u64) {
        self.close(asked);
    }

    #[inline]
    fn answer(&self, asked: u64, second: u64, accepted: bool) {
        self.advance(second);
        if accepted {
            self.count(Event::Accept);
        }
        self.close(asked);
    }

    fn withdraw(&self, asked: u64) {
        if let Some(bucket) = self.bucket(asked) {
            let counter = &bucket[Event::Request as usize];
            // How far a saturated counter is past its end is not known, so it stays where it is.
            if counter.get() != C::MAX && counter.get() != C::ZERO {
                counter.set(counter.get().down());
                let total = &self.total[Event::Request as usize];
                total.set(total.get().saturating_sub(1));
            }
        }
        self.close(asked);
    }

    fn reserve(&self, second: u64, allowed: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
        let counts = self.counts(second);
        if !allowed(counts.retries.saturating_add(counts.waiting), counts.requests) {
            return Err(counts);
        }
        self.waiting.set(counts.waiting.saturating_add(1));
        Ok(())
    }

    fn retry(&self, second: u64) -> u64 {
        self.attempt(second, true).1
    }

    fn release(&self) {
        self.waiting.set(self.waiting.get().saturating_sub(1));
    }

    fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T {
        let (result, word) = change(self.pace.get());
        self.pace.set(word);
        result
    }
}

impl<const N: usize, C: Counter> fmt::Debug for Window<N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("second", &self.head.get())
            .field("requests", &self.sum(Event::Request))
            .field("accepts", &self.sum(Event::Accept))
            .field("retries", &self.sum(Event::Retry))
            .field("waiting", &self.waiting.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_sums_stay_at_their_end() {
        let window = Window::<2>::of_len();
        let asked = window.request(5);
        window.bucket(5).unwrap()[Event::Request as usize].set(u32::MAX - 1);
        window.total[Event::Request as usize].set(u64::from(u32::MAX) - 1);
        for _ in 0..3 {
            window.request(5);
            assert_eq!(window.counts(5).requests, u32::MAX);
        }
        // The sum goes on where a counter cannot, so that nothing is lost when a full bucket leaves.
        window.request(6);
        assert_eq!(window.counts(6).requests, u32::MAX);
        window.withdraw(asked);
        assert_eq!(window.counts(7).requests, 1);
    }

    #[test]
    fn waiting_retries_stay_at_their_end() {
        let window = Window::<2>::of_len();
        window.waiting.set(u32::MAX);
        assert!(window.reserve(5, |retries, _| retries == u32::MAX).is_ok());
        assert_eq!(window.counts(5).waiting, u32::MAX);
        window.retry(5);
        assert_eq!((window.counts(5).waiting, window.counts(5).retries), (u32::MAX - 1, 1));
        // More retries than there are numbers for are still not fewer.
        assert!(window.reserve(5, |retries, _| retries == u32::MAX).is_ok());
    }
}
