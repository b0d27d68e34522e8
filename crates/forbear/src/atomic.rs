//! The window for any number of threads: the same counts, without a lock.
//!
//! Every counter of every second is one 64-bit word that carries its second, so that a writer that was asleep for longer
//! than the window finds a newer second in its place and counts into nothing. The sums over past seconds are cached
//! under a *generation*, which changes whenever the head moves on or a past second changes after all:
//!
//! * A reader whose generation is not that of the cache adds the past seconds up once more, and *seals* the bucket of each
//!   as it does, one that nobody has counted in included.
//! * Whoever writes to a sealed bucket is late, and starts a new generation after it, before anything else that it does.
//!
//! So what is cached lacks at most the writes of threads that are still at them. Nothing waits for another thread: an
//! exchange that fails has failed because another one succeeded.
//!
//! Retries that wait are one number with a sequence beside it. It is read before the sums that a budget is decided by, and
//! exchanged after them: whoever reserved in between makes the exchange fail.

#[cfg(not(loom))]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

#[cfg(loom)]
use loom::sync::atomic::AtomicU64;

use core::fmt;

use crate::counts::{Counts, Tally};
use crate::recovery;
use crate::window::{YOUNG, young_span};

/// A count with the second that it belongs to: `second: 35 | sealed: 1 | count: 28`.
mod bucket {
    const COUNT_BITS: u32 = 28;
    pub(super) const MAX: u64 = (1 << COUNT_BITS) - 1;
    pub(super) const SEALED: u64 = 1 << COUNT_BITS;

    pub(super) const fn second(word: u64) -> u64 {
        word >> (COUNT_BITS + 1)
    }

    pub(super) const fn count(word: u64) -> u64 {
        word & MAX
    }

    /// The bucket of a second in which nothing was counted.
    const fn empty(second: u64) -> u64 {
        second << (COUNT_BITS + 1)
    }

    /// The count of `second`, 0 where the word is of another one.
    pub(super) const fn count_of(word: u64, second: u64) -> u64 {
        if self::second(word) == second { count(word) } else { 0 }
    }

    /// One more in `second`, that of the word or a later one; `None` where the word is full.
    pub(super) const fn one_more(word: u64, second: u64) -> Option<u64> {
        if self::second(word) < second {
            Some(empty(second) + 1)
        } else if count(word) < MAX {
            Some(word + 1)
        } else {
            None
        }
    }

    /// The word with the seal of `second`, its own or a later one.
    pub(super) const fn sealed(word: u64, second: u64) -> u64 {
        let word = if self::second(word) < second { empty(second) } else { word };
        word | SEALED
    }
}

/// A generation with a second or a sum: `generation: 29 | value: 35`.
mod stamped {
    use crate::word::{at_most, joined};

    const VALUE_BITS: u32 = 35;
    pub(super) const MAX: u64 = (1 << VALUE_BITS) - 1;
    /// One generation later, when added.
    pub(super) const NEXT: u64 = 1 << VALUE_BITS;

    pub(super) const fn value(word: u64) -> u64 {
        word & MAX
    }

    pub(super) const fn same_generation(a: u64, b: u64) -> bool {
        a >> VALUE_BITS == b >> VALUE_BITS
    }

    /// The generation of `word` with another value.
    pub(super) const fn with(word: u64, value: u64) -> u64 {
        joined(word >> VALUE_BITS, VALUE_BITS, at_most(value, MAX))
    }
}

/// A sequence and the number of waiting retries: `sequence: 32 | waiting: 32`.
mod reservation {
    use crate::word::joined;

    pub(super) const fn waiting(word: u64) -> u32 {
        word as u32
    }

    /// One more waiting, under a new sequence: so an exchange that succeeds saw no other reservation in between.
    pub(super) const fn one_more(word: u64) -> u64 {
        let sequence = (word >> 32).wrapping_add(1);
        joined(sequence, 32, waiting(word).saturating_add(1) as u64)
    }
}

/// Answers that the accepts of their own second do not stand for: `second: 35 | answers: 29`, around a middle.
mod answers {
    use crate::word::joined;

    const BITS: u32 = 29;
    const MASK: u64 = (1 << BITS) - 1;
    pub(super) const NONE: u64 = 1 << (BITS - 1);

    pub(super) const fn second(word: u64) -> u64 {
        word >> BITS
    }

    pub(super) const fn balance(word: u64) -> i64 {
        (word & MASK) as i64 - NONE as i64
    }

    /// The word of `second` with its balance changed by `by`, 1 or -1; `None` at its ends.
    pub(super) const fn changed(word: u64, second: u64, by: i64) -> Option<u64> {
        let answers = if self::second(word) == second { word & MASK } else { NONE };
        let answers = answers.wrapping_add_signed(by);
        if answers > 0 && answers < MASK { Some(joined(second, BITS, answers)) } else { None }
    }
}

/// The last second there is: an [`Instant`](crate::Instant) beyond it, after 1,089 years, counts as that one.
const LAST_SECOND: u64 = stamped::MAX;

#[derive(Clone, Copy, Debug)]
enum Event {
    Request,
    Accept,
    Retry,
}

/// What every decision reads and few write, on a cache line of its own.
#[repr(align(64))]
struct Summary {
    /// The newest second seen, and the generation of the past ones.
    head: AtomicU64,
    /// The sum of the past seconds of each event, valid for its generation.
    past: [AtomicU64; 3],
}

/// `N` buckets of one second each, for any number of threads: the same counts as [`Window`](crate::Window), without a
/// lock.
///
/// No count is lost or doubled, whatever the threads do: when all have finished, the counts are what was recorded. A
/// record is one exchange, a read is a few loads; the first read of a new second adds up the past ones, at 24 bytes of
/// memory a second. A second saturates at 268 million of each event. On targets without 64-bit atomics a mutex around a
/// `Window` stands in.
///
/// `N` is 1 to 3,600; anything else does not compile. Seconds beyond 2^35 (1,089 years) count as that one.
///
/// ```
/// use std::sync::Arc;
/// use std::thread;
/// use forbear::{AtomicWindow, Tally};
///
/// let window = Arc::new(AtomicWindow::new()); // 120 seconds
/// let threads: Vec<_> = (0..4)
///     .map(|_| {
///         let window = window.clone();
///         thread::spawn(move || {
///             let asked = window.request(7);
///             window.answer(asked, 8, true);
///         })
///     })
///     .collect();
/// for thread in threads {
///     thread.join().unwrap();
/// }
/// assert_eq!((window.counts(8).requests, window.counts(8).accepts), (4, 4));
/// ```
///
/// ```compile_fail
/// let too_long = forbear::AtomicWindow::<3601>::of_len();
/// ```
pub struct AtomicWindow<const N: usize = 120> {
    summary: Summary,
    ring: [[AtomicU64; 3]; N],
    /// A second before which, down to the start of any window that holds it, none was ever the head: nobody can have
    /// counted there. It stays true once it is, so it matters only for speed which of two writers comes last.
    quiet_before: AtomicU64,
    reserved: AtomicU64,
    pace: AtomicU64,
    /// What [`Tally::in_flight`] cannot read off the buckets, for the seconds young enough to matter.
    answers: [AtomicU64; YOUNG],
}

impl AtomicWindow {
    /// The two minutes of the specification.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        AtomicWindow::<120>::of_len()
    }
}

#[cfg(not(loom))]
impl Default for AtomicWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> AtomicWindow<N> {
    const LENGTH: () = assert!(N >= 1 && N <= 3_600, "a window has 1 to 3600 seconds");

    /// A window of as many seconds as its type says.
    #[cfg(not(loom))]
    pub const fn of_len() -> Self {
        const { Self::LENGTH };
        Self {
            summary: Summary { head: AtomicU64::new(0), past: [const { AtomicU64::new(0) }; 3] },
            ring: [const { [const { AtomicU64::new(0) }; 3] }; N],
            quiet_before: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            pace: AtomicU64::new(recovery::START),
            answers: [const { AtomicU64::new(answers::NONE) }; YOUNG],
        }
    }

    /// A window of as many seconds as its type says. The atomics of a model are not made in constants.
    #[cfg(loom)]
    pub fn of_len() -> Self {
        const { Self::LENGTH };
        use core::array::from_fn;
        Self {
            summary: Summary { head: AtomicU64::new(0), past: from_fn(|_| AtomicU64::new(0)) },
            ring: from_fn(|_| from_fn(|_| AtomicU64::new(0))),
            quiet_before: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            pace: AtomicU64::new(recovery::START),
            answers: from_fn(|_| AtomicU64::new(answers::NONE)),
        }
    }

    /// The requests of the window that ends with `second`, alone: [`Tally::counts`] reads all.
    pub fn requests(&self, second: u64) -> u32 {
        let mut head = self.enter(second);
        self.consistent(&mut head, |head| clamp(self.sum(Event::Request, head)))
    }

    /// Moves the head to `now` where that is newer; returns the head.
    #[inline]
    fn enter(&self, now: u64) -> u64 {
        let head = self.summary.head.load(Acquire);
        if now > stamped::value(head) { self.turn(head, now.min(LAST_SECOND)) } else { head }
    }

    /// Moves the head to `now`, unless another thread has moved it as far; returns the head.
    #[cold]
    fn turn(&self, mut head: u64, now: u64) -> u64 {
        while now > stamped::value(head) {
            let next = stamped::with(head, now).wrapping_add(stamped::NEXT);
            match self.summary.head.compare_exchange(head, next, AcqRel, Acquire) {
                Ok(_) => {
                    if now - stamped::value(head) >= N as u64 {
                        self.quiet_before.store(now, Release);
                    }
                    return next;
                }
                Err(newer) => head = newer,
            }
        }
        head
    }

    /// The buckets of `second`, or of another one at the same place of the ring.
    #[inline]
    fn row(&self, second: u64) -> &[AtomicU64; 3] {
        &self.ring[(second % N as u64) as usize]
    }

    /// What was cached about past seconds is no longer so.
    #[cold]
    fn next_generation(&self) {
        self.summary.head.fetch_add(stamped::NEXT, AcqRel);
    }

    /// Counts `event` in the bucket of `second`, unless that has left the window for a newer one; returns the count before.
    #[inline]
    fn record(&self, row: &[AtomicU64; 3], event: Event, second: u64) -> u64 {
        let word = &row[event as usize];
        let mut old = word.load(Acquire);
        while bucket::second(old) <= second {
            let Some(new) = bucket::one_more(old, second) else { break };
            match word.compare_exchange_weak(old, new, AcqRel, Acquire) {
                Ok(_) => {
                    if new & bucket::SEALED != 0 {
                        self.next_generation();
                    }
                    break;
                }
                Err(newer) => old = newer,
            }
        }
        bucket::count_of(old, second)
    }

    /// Takes one `event` back out of the bucket of `second`. A saturated one stays: how far it is past its end is not
    /// known.
    fn undo(&self, event: Event, second: u64) {
        let word = &self.row(second)[event as usize];
        let mut old = word.load(Acquire);
        while bucket::second(old) == second && bucket::count(old) != 0 && bucket::count(old) != bucket::MAX {
            match word.compare_exchange_weak(old, old - 1, AcqRel, Acquire) {
                Ok(_) => {
                    if old & bucket::SEALED != 0 {
                        self.next_generation();
                    }
                    return;
                }
                Err(newer) => old = newer,
            }
        }
    }

    /// How many of `event` the window holds that ends with the second of `head`: exact if that is still the head
    /// afterwards.
    #[inline]
    fn sum(&self, event: Event, head: u64) -> u64 {
        let second = stamped::value(head);
        self.past(event, head).saturating_add(count(self.row(second), event, second))
    }

    /// How many of `event` the seconds before the head's hold.
    #[inline]
    fn past(&self, event: Event, head: u64) -> u64 {
        let cached = self.summary.past[event as usize].load(Acquire);
        if stamped::same_generation(cached, head) { stamped::value(cached) } else { self.add_up(event, head) }
    }

    /// Adds up the seconds before the head's, seals them, and caches the sum.
    #[cold]
    fn add_up(&self, event: Event, head: u64) -> u64 {
        let now = stamped::value(head);
        let mut sum = 0u64;
        // After a long gap there is nothing to add up, and nothing to seal. A value ahead of this head says that the head
        // has moved on, which the caller will see.
        let first = (now + 1).saturating_sub(N as u64).max(self.quiet_before.load(Acquire));
        for second in first..now {
            let word = &self.row(second)[event as usize];
            let mut old = word.load(Acquire);
            while bucket::second(old) <= second {
                let sealed = bucket::sealed(old, second);
                if sealed == old {
                    sum = sum.saturating_add(bucket::count(old));
                    break;
                }
                old = match word.compare_exchange_weak(old, sealed, AcqRel, Acquire) {
                    Ok(_) => sealed,
                    Err(newer) => newer,
                };
            }
        }
        self.summary.past[event as usize].store(stamped::with(head, sum), Release);
        stamped::value(stamped::with(head, sum))
    }

    /// Reads by a head until it stays the same over the reading.
    #[inline]
    fn consistent<T>(&self, head: &mut u64, read: impl Fn(u64) -> T) -> T {
        loop {
            let result = read(*head);
            let after = self.summary.head.load(Acquire);
            if stamped::value(after) == stamped::value(*head) {
                return result;
            }
            *head = after;
        }
    }

    /// Changes how many answers belong to the requests of `second`, beyond the accepts that came in it.
    #[cold]
    fn balance(&self, second: u64, by: i64) {
        let word = &self.answers[second as usize % YOUNG];
        let mut old = word.load(Acquire);
        while answers::second(old) <= second {
            let Some(new) = answers::changed(old, second, by) else { return };
            match word.compare_exchange_weak(old, new, AcqRel, Acquire) {
                Ok(_) => return,
                Err(newer) => old = newer,
            }
        }
    }
}

/// The count of `event` in the bucket of `second`, 0 where that holds another one.
#[inline]
fn count(row: &[AtomicU64; 3], event: Event, second: u64) -> u64 {
    bucket::count_of(row[event as usize].load(Acquire), second)
}

fn clamp(sum: u64) -> u32 {
    u32::try_from(sum).unwrap_or(u32::MAX)
}

impl<const N: usize> Tally for AtomicWindow<N> {
    #[inline]
    fn counts(&self, second: u64) -> Counts {
        let mut head = self.enter(second);
        self.consistent(&mut head, |head| Counts {
            requests: clamp(self.sum(Event::Request, head)),
            accepts: clamp(self.sum(Event::Accept, head)),
            retries: clamp(self.sum(Event::Retry, head)),
            waiting: reservation::waiting(self.reserved.load(Acquire)),
            in_flight: 0,
        })
    }

    fn in_flight(&self, second: u64, grace: u8) -> u32 {
        let head = stamped::value(self.enter(second));
        let young = head.saturating_sub(young_span::<N>(grace))..=head;
        let open = young.map(|second| {
            let row = self.row(second);
            let answered = self.answers[second as usize % YOUNG].load(Acquire);
            let balance = if answers::second(answered) == second { answers::balance(answered) } else { 0 };
            let unanswered =
                count(row, Event::Request, second) as i64 - count(row, Event::Accept, second) as i64 - balance;
            unanswered.max(0) as u64
        });
        clamp(open.sum())
    }

    #[inline]
    fn request(&self, second: u64) -> u64 {
        let second = stamped::value(self.enter(second));
        self.record(self.row(second), Event::Request, second);
        second
    }

    /// The same as reading and then counting, but looks each word up once.
    #[inline(always)]
    fn attempt(&self, second: u64, reserved: bool) -> (Counts, u64) {
        let head = self.enter(second);
        let second = stamped::value(head);
        let row = self.row(second);
        let past = [Event::Request, Event::Accept, Event::Retry].map(|event| self.past(event, head));
        let now = [Event::Accept, Event::Retry].map(|event| count(row, event, second));
        let waiting = reservation::waiting(self.reserved.load(Acquire));
        if stamped::value(self.summary.head.load(Acquire)) != second {
            // The second turned over meanwhile, and the sums may lack what has just left.
            let counts = self.counts(second);
            return (counts, if reserved { self.retry(second) } else { self.request(second) });
        }
        if reserved {
            self.record(row, Event::Retry, second);
        }
        let before = self.record(row, Event::Request, second);
        if reserved {
            self.release();
        }
        let counts = Counts {
            requests: clamp(past[0].saturating_add(before)),
            accepts: clamp(past[1].saturating_add(now[0])),
            retries: clamp(past[2].saturating_add(now[1])),
            waiting,
            in_flight: 0,
        };
        (counts, second)
    }

    fn refuse(&self, asked: u64) {
        self.balance(asked, 1);
    }

    /// An accept in the second of its request stands for the answer as well: one exchange, as without a grace.
    #[inline]
    fn answer(&self, asked: u64, second: u64, accepted: bool) {
        let second = stamped::value(self.enter(second));
        if accepted {
            self.record(self.row(second), Event::Accept, second);
            if asked == second {
                return;
            }
            self.balance(second, -1);
        }
        if second.saturating_sub(asked) < YOUNG as u64 {
            self.balance(asked, 1);
        }
    }

    fn withdraw(&self, asked: u64) {
        self.undo(Event::Request, asked);
    }

    fn reserve(&self, second: u64, allowed: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
        let mut reserved = self.reserved.load(Acquire);
        loop {
            let mut head = self.enter(second);
            let waiting = reservation::waiting(reserved);
            let (retries, requests) = self.consistent(&mut head, |head| {
                let second = stamped::value(head);
                let row = self.row(second);
                let sum = |event| clamp(self.past(event, head).saturating_add(count(row, event, second)));
                (sum(Event::Retry), sum(Event::Request))
            });
            if !allowed(retries.saturating_add(waiting), requests) {
                let accepts = self.consistent(&mut head, |head| clamp(self.sum(Event::Accept, head)));
                return Err(Counts { requests, accepts, retries, waiting, in_flight: 0 });
            }
            match self.reserved.compare_exchange(reserved, reservation::one_more(reserved), AcqRel, Acquire) {
                Ok(_) => return Ok(()),
                Err(newer) => reserved = newer,
            }
        }
    }

    /// The retry is counted before it stops waiting: in between it counts twice, which may refuse one too many, never
    /// allow one.
    fn retry(&self, second: u64) -> u64 {
        let second = stamped::value(self.enter(second));
        let row = self.row(second);
        self.record(row, Event::Retry, second);
        self.record(row, Event::Request, second);
        self.release();
        second
    }

    fn release(&self) {
        let mut old = self.reserved.load(Acquire);
        while reservation::waiting(old) != 0 {
            match self.reserved.compare_exchange_weak(old, old - 1, AcqRel, Acquire) {
                Ok(_) => return,
                Err(newer) => old = newer,
            }
        }
    }

    /// Of several threads that find an extra send due, one wins; the others see its word.
    #[inline]
    fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T {
        let mut old = self.pace.load(Acquire);
        loop {
            let (result, new) = change(old);
            // A healthy client is at its fastest, and never writes.
            if new == old {
                return result;
            }
            match self.pace.compare_exchange_weak(old, new, AcqRel, Acquire) {
                Ok(_) => return result,
                Err(newer) => old = newer,
            }
        }
    }
}

impl<const N: usize> fmt::Debug for AtomicWindow<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtomicWindow")
            .field("second", &stamped::value(self.summary.head.load(Acquire)))
            .field("waiting", &reservation::waiting(self.reserved.load(Acquire)))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::window::Window;

    #[test]
    fn a_bucket_holds_a_second_a_seal_and_a_count() {
        const LAST: u64 = (1 << 28) - 1;
        for second in [0, 1, 7, LAST_SECOND] {
            let one = bucket::one_more(second << 29, second).unwrap();
            assert_eq!((bucket::second(one), bucket::count(one)), (second, 1));
            let two = bucket::one_more(bucket::sealed(one, second), second).unwrap();
            assert_eq!((bucket::second(two), bucket::count(two), two & bucket::SEALED), (second, 2, 1 << 28));
            assert_eq!(bucket::sealed(two, second), two);
            assert_eq!(bucket::count_of(two, second), 2);
            assert_eq!(bucket::count_of(two, second ^ 1), 0);
            // The last but one still counts, and the last does not spill into the seal.
            let full = bucket::one_more(second << 29 | (LAST - 1), second).unwrap();
            assert_eq!((bucket::count(full), full & bucket::SEALED), (LAST, 0));
            assert_eq!(bucket::one_more(full, second), None);
            assert_eq!(bucket::one_more(bucket::sealed(full, second), second), None);
        }
        // A later second starts anew, without the seal and the count of the one before.
        let old = bucket::sealed(7 << 29 | LAST, 7);
        assert_eq!(bucket::one_more(old, 9), Some(9 << 29 | 1));
        assert_eq!(bucket::sealed(old, 9), 9 << 29 | 1 << 28);
    }

    #[test]
    fn a_stamp_holds_a_generation_and_a_value() {
        let word = stamped::with((5 * stamped::NEXT) | 3, 4);
        assert_eq!(stamped::value(word), 4);
        assert!(stamped::same_generation(word, 5 * stamped::NEXT));
        assert!(!stamped::same_generation(word, (4 * stamped::NEXT) | 4));
        for value in [stamped::MAX - 1, stamped::MAX, stamped::MAX + 1, u64::MAX] {
            let word = stamped::with(word, value);
            assert_eq!(stamped::value(word), value.min((1 << 35) - 1));
            assert!(stamped::same_generation(word, 5 * stamped::NEXT));
            assert_eq!(stamped::value(word.wrapping_add(stamped::NEXT)), stamped::value(word));
        }
    }

    #[test]
    fn a_reservation_changes_its_sequence_and_stays_at_its_end() {
        let mut word = 0;
        for waiting in 1..=3 {
            let next = reservation::one_more(word);
            assert_eq!((reservation::waiting(next), next >> 32), (waiting, u64::from(waiting)));
            word = next;
        }
        // The sequence begins again, and the number does not spill into it.
        assert_eq!(reservation::one_more(u64::MAX), u64::from(u32::MAX));
    }

    #[test]
    fn answers_are_a_balance_of_one_second() {
        const END: u64 = (1 << 28) - 1;
        let word = |second: u64, answers: u64| second << 29 | answers;
        let more = answers::changed(word(7, answers::NONE), 7, 1).unwrap();
        assert_eq!((answers::second(more), answers::balance(more)), (7, 1));
        let less = answers::changed(word(7, answers::NONE), 7, -1).unwrap();
        assert_eq!((answers::second(less), answers::balance(less)), (7, -1));
        // Another second begins in the middle.
        let later = answers::changed(more, 9, 1).unwrap();
        assert_eq!((answers::second(later), answers::balance(later)), (9, 1));
        // Up to its ends, and not past them.
        let high = answers::changed(word(7, answers::NONE + END - 2), 7, 1).unwrap();
        assert_eq!(answers::balance(high), END as i64 - 1);
        assert_eq!(answers::changed(high, 7, 1), None);
        let low = answers::changed(word(7, 2), 7, -1).unwrap();
        assert_eq!(answers::balance(low), -(END as i64));
        assert_eq!(answers::changed(low, 7, -1), None);
    }

    /// What a thread does that has read the head and then slept while others went on.
    #[test]
    fn a_late_record_is_seen_by_the_next_reader() {
        let window = AtomicWindow::<10>::of_len();
        let late = |event, second| window.record(window.row(second), event, second);
        window.request(5);
        // Reading seals the seconds before, counted in or not.
        assert_eq!(window.counts(6).requests, 1);
        assert_eq!(late(Event::Request, 5), 1);
        assert_eq!(window.counts(6).requests, 2);
        assert_eq!((late(Event::Accept, 4), late(Event::Retry, 3)), (0, 0));
        assert_eq!((window.counts(6).accepts, window.counts(6).retries), (1, 1));
        window.undo(Event::Request, 5);
        assert_eq!(window.counts(6).requests, 1);
        // What has left the window for a newer second counts into nothing.
        window.request(15);
        assert_eq!((late(Event::Request, 5), window.counts(15).requests), (0, 1));
        window.undo(Event::Request, 5);
        assert_eq!(window.counts(15).requests, 1);
    }

    /// A generation costs the next reader a pass over the ring.
    #[test]
    fn a_generation_lasts_for_as_long_as_no_past_second_changes() {
        let window = AtomicWindow::<3>::of_len();
        let generation = || window.summary.head.load(Acquire) & !stamped::MAX;
        let asked = window.request(5);
        window.counts(5);
        let first = generation();
        window.answer(asked, 5, true);
        window.withdraw(window.request(5));
        // Turned by somebody else, as far or further.
        for now in [4, 5] {
            assert_eq!(window.turn(window.summary.head.load(Acquire), now), window.summary.head.load(Acquire));
        }
        window.enter(5);
        assert_eq!(generation(), first);
        window.counts(6);
        let second = generation();
        assert_ne!(second, first, "the second has turned");
        window.withdraw(asked);
        assert_ne!(generation(), second, "the past has changed");
    }

    #[test]
    fn a_full_second_takes_nothing_more_and_gives_nothing_back() {
        let window = AtomicWindow::<10>::of_len();
        window.request(5);
        window.row(5)[Event::Request as usize].store(5 << 29 | (bucket::MAX - 1), Release);
        assert_eq!(window.attempt(5, false).0.requests, (1 << 28) - 2);
        for _ in 0..2 {
            assert_eq!(window.attempt(5, false).0.requests, (1 << 28) - 1);
            window.withdraw(5);
            assert_eq!(window.counts(5).requests, (1 << 28) - 1);
        }
        assert_eq!(window.request(6), 6);
        assert_eq!(window.counts(6).requests, 1 << 28);
        // A sum that no counter could hold.
        let window = AtomicWindow::<40>::of_len();
        for second in 100..140 {
            window.request(second);
            window.row(second)[Event::Request as usize].store(second << 29 | bucket::MAX, Release);
        }
        assert_eq!((window.counts(139).requests, window.requests(139)), (u32::MAX, u32::MAX));
    }

    #[test]
    fn time_stands_still_at_the_last_second() {
        let window = AtomicWindow::<10>::of_len();
        assert_eq!(window.request(u64::MAX), LAST_SECOND);
        assert_eq!((window.request(LAST_SECOND), window.request(7)), (LAST_SECOND, LAST_SECOND));
        assert_eq!(window.counts(u64::MAX).requests, 3);
        // The seconds before it are still there, however late it is asked.
        let window = AtomicWindow::<10>::of_len();
        window.request(LAST_SECOND - 3);
        assert_eq!([(); 3].map(|()| window.counts(u64::MAX).requests), [1; 3]);
    }

    /// Any operations in any order, as a plain window answers them.
    fn counts_as_a_plain_one<const N: usize>(longest_gap: u64) {
        let (window, plain) = (AtomicWindow::<N>::of_len(), Window::<N>::of_len());
        let mut open = heapless::Vec::<u64, 16>::new();
        let (mut state, mut second) = (N as u64, 3);
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        for step in 0..4_000 {
            // Time stands still, goes on, jumps, or goes back a little.
            second += if below(4) == 0 { below(longest_gap) } else { 0 };
            let now = if below(8) == 0 { second.saturating_sub(below(4)) } else { second };
            let (what, odd) = (below(8), below(2) == 1);
            let allowed = |retries, requests| retries <= requests / 4;
            match what {
                0..=1 if !open.is_full() => {
                    let of = plain.attempt(now, odd);
                    assert_eq!(window.attempt(now, odd), of, "step {step}");
                    open.push(of.1).unwrap();
                }
                2 if !open.is_full() => {
                    let asked = if odd { plain.request(now) } else { plain.retry(now) };
                    assert_eq!(if odd { window.request(now) } else { window.retry(now) }, asked, "step {step}");
                    open.push(asked).unwrap();
                }
                3 => assert_eq!(window.reserve(now, allowed), plain.reserve(now, allowed), "step {step}"),
                4 => (window.release(), plain.release()).0,
                _ if open.is_empty() => {}
                _ => {
                    let asked = open.swap_remove(below(open.len() as u64) as usize);
                    match what {
                        5 if odd => (window.refuse(asked), plain.refuse(asked)).0,
                        5 => (window.withdraw(asked), plain.withdraw(asked)).0,
                        _ => (window.answer(asked, now, odd), plain.answer(asked, now, odd)).0,
                    }
                }
            }
            for grace in [0, 1, 7, 200] {
                assert_eq!(window.in_flight(now, grace), plain.in_flight(now, grace), "step {step}, grace {grace}");
            }
            assert_eq!(window.counts(now), plain.counts(now), "step {step}");
            assert_eq!(window.requests(now), plain.counts(now).requests, "step {step}");
            let one_more = |word: u64| (word, word.wrapping_add(1));
            assert_eq!(window.pace(one_more), plain.pace(one_more), "step {step}");
        }
    }

    #[test]
    fn it_counts_as_a_plain_window() {
        counts_as_a_plain_one::<1>(2);
        counts_as_a_plain_one::<3>(3);
        counts_as_a_plain_one::<10>(2);
        counts_as_a_plain_one::<10>(30);
        counts_as_a_plain_one::<120>(40);
    }
}
