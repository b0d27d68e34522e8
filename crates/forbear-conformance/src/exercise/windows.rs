//! Operations on a window, each beside the oracle's.

use forbear::{AtomicWindow, Counts, Tally, Window};

use super::Choices;
use crate::invariants;
use crate::oracle::{self, Limits};

/// Operations on a plain window of any counter, and any time.
pub fn window(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    match choices.below(32) {
        0..=3 => operate(&Window::<1>::of_len(), Limits::plain(1), u64::MAX, choices),
        4..=11 => operate(&Window::<2>::of_len(), Limits::plain(2), u64::MAX, choices),
        12..=19 => operate(&Window::<10>::of_len(), Limits::plain(10), u64::MAX, choices),
        20..=23 => operate(&Window::new(), Limits::plain(120), u64::MAX, choices),
        24..=25 => operate(&Window::<1, u16>::of_len(), Limits::compact(1), u64::MAX, choices),
        26..=30 => operate(&Window::<10, u16>::of_len(), Limits::compact(10), u64::MAX, choices),
        _ => operate(&Window::<3600>::of_len(), Limits::plain(3_600), u64::MAX, choices),
    }
}

/// Operations on the lock-free window, by one thread: at any time alone, else beside a plain one.
pub fn atomic_window(bytes: &[u8]) {
    fn at_any_time<const N: usize>(choices: Choices<'_>) {
        operate(&AtomicWindow::<N>::of_len(), Limits::atomic(N as u64), u64::MAX, choices);
    }
    fn beside_plain<const N: usize>(choices: Choices<'_>) {
        let both = Both(Window::<N>::of_len(), AtomicWindow::<N>::of_len());
        operate(&both, Limits::atomic(N as u64), Limits::atomic(1).last, choices);
    }
    let mut choices = Choices::new(bytes);
    match choices.below(32) {
        0..=3 => at_any_time::<1>(choices),
        4..=7 => at_any_time::<2>(choices),
        8..=15 => at_any_time::<10>(choices),
        16..=18 => at_any_time::<120>(choices),
        19..=20 => beside_plain::<1>(choices),
        21..=23 => beside_plain::<2>(choices),
        24..=28 => beside_plain::<10>(choices),
        29..=30 => beside_plain::<120>(choices),
        _ => beside_plain::<3600>(choices),
    }
}

/// Another time: a little on, about a window on, back, or far ahead; not past `last`.
fn moved(choices: &mut Choices<'_>, now: u64, length: u64, last: u64) -> u64 {
    let then = match choices.below(32) {
        0..=11 => now.saturating_add(1),
        12..=15 => now,
        16 => now.saturating_add(length - 1),
        17 => now.saturating_add(length),
        18 => now.saturating_add(length + 1),
        19..=21 => now.saturating_add(u64::from(choices.byte())),
        22 => now.saturating_add(u64::from(choices.byte()) * length),
        23..=25 => now.saturating_sub(u64::from(choices.byte() % 8)),
        26 => now.saturating_sub(length),
        27 => now.saturating_sub(u64::from(choices.byte())),
        28 => 0,
        29 => now.saturating_add(choices.of(&[1 << 32, 1 << 33, 1 << 35, u64::MAX])),
        30 => choices.of(&[(1 << 32) - 2, (1 << 33) - 2, (1 << 35) - 2, u64::MAX - 2]),
        _ => now.saturating_add(u64::from(choices.byte() % 8)),
    };
    then.min(last)
}

/// Runs operations on both, and compares whatever either says.
fn operate(tally: &impl Tally, limits: Limits, last: u64, mut choices: Choices<'_>) {
    let mut oracle = oracle::Window::new(limits);
    let (mut now, mut latest, mut open) = (0, 0, Vec::new());
    while !choices.is_over() {
        match choices.below(16) {
            0..=3 => {
                now = moved(&mut choices, now, limits.length, last);
                latest = now.max(latest);
            }
            4..=5 => {
                let asked = tally.request(now);
                assert_eq!(asked, oracle.request(now), "the second of a request");
                open.push(asked);
            }
            6 => {
                let asked = tally.retry(now);
                assert_eq!(asked, oracle.retry(now), "the second of a retry");
                open.push(asked);
            }
            15 => {
                let reserved = choices.below(2) == 1;
                let (counts, asked) = tally.attempt(now, reserved);
                assert_eq!((counts, asked), oracle.attempt(now, reserved), "an attempt");
                open.push(asked);
            }
            7..=10 if !open.is_empty() => {
                let asked = open.swap_remove(choices.below(open.len().min(256)));
                match choices.below(8) {
                    0 => {
                        tally.refuse(asked);
                        oracle.refuse(asked);
                    }
                    1 => {
                        tally.withdraw(asked);
                        oracle.withdraw(asked);
                    }
                    accepted => {
                        tally.answer(asked, now, accepted > 3);
                        oracle.answer(asked, now, accepted > 3);
                    }
                }
            }
            11 => reserve(tally, &mut oracle, now, choices.below(3)),
            12 => {
                tally.release();
                oracle.release();
            }
            13 => {
                let grace = choices.byte() % 8;
                assert_eq!(tally.in_flight(now, grace), oracle.in_flight(now, grace), "in flight, grace {grace}");
            }
            14 => {
                for _ in 0..choices.byte() {
                    open.push(tally.request(now));
                    oracle.request(now);
                }
            }
            _ => compare(tally, &mut oracle, now),
        }
    }
    compare(tally, &mut oracle, now);
    for grace in 0..8 {
        assert_eq!(tally.in_flight(now, grace), oracle.in_flight(now, grace), "in flight at the end, grace {grace}");
    }
    let word = choices.word();
    assert!(tally.pace(|_| (true, word)) && !tally.pace(|kept| (kept != word, kept)), "the word of recovery");
    if let Some(later) = latest.checked_add(limits.length).filter(|later| *later <= limits.last) {
        invariants::everything_expires(tally, later);
    }
}

/// A reservation that is refused, allowed, or subject to a budget: both must ask by the same numbers.
fn reserve(tally: &impl Tally, oracle: &mut oracle::Window, now: u64, rule: usize) {
    let seen = core::cell::Cell::new([(0, 0); 2]);
    let allowed = |by: usize| {
        let seen = &seen;
        move |retries, requests| {
            let mut both = seen.get();
            both[by] = (retries, requests);
            seen.set(both);
            [true, false, u64::from(retries) * 10 < u64::from(requests)][rule]
        }
    };
    let (is, expected) = (tally.reserve(now, allowed(0)), oracle.reserve(now, allowed(1)));
    assert_eq!(seen.get()[0], seen.get()[1], "what a budget is asked by");
    assert_eq!(is, expected, "the reservation");
}

fn compare(tally: &impl Tally, oracle: &mut oracle::Window, now: u64) {
    assert_eq!(tally.counts(now), oracle.counts(now), "counts at {now}");
}

/// Two windows that must say the same.
struct Both<A, B>(A, B);

impl<A: Tally, B: Tally> Both<A, B> {
    fn same<T: PartialEq + core::fmt::Debug>(a: T, b: T) -> T {
        assert_eq!(a, b, "the windows differ");
        a
    }
}

impl<A: Tally, B: Tally> Tally for Both<A, B> {
    fn counts(&self, second: u64) -> Counts {
        Self::same(self.0.counts(second), self.1.counts(second))
    }

    fn in_flight(&self, second: u64, grace: u8) -> u32 {
        Self::same(self.0.in_flight(second, grace), self.1.in_flight(second, grace))
    }

    fn request(&self, second: u64) -> u64 {
        Self::same(self.0.request(second), self.1.request(second))
    }

    fn refuse(&self, asked: u64) {
        self.0.refuse(asked);
        self.1.refuse(asked);
    }

    fn answer(&self, asked: u64, second: u64, accepted: bool) {
        self.0.answer(asked, second, accepted);
        self.1.answer(asked, second, accepted);
    }

    fn withdraw(&self, asked: u64) {
        self.0.withdraw(asked);
        self.1.withdraw(asked);
    }

    fn reserve(&self, second: u64, allowed: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
        Self::same(self.0.reserve(second, &allowed), self.1.reserve(second, &allowed))
    }

    fn retry(&self, second: u64) -> u64 {
        Self::same(self.0.retry(second), self.1.retry(second))
    }

    fn release(&self) {
        self.0.release();
        self.1.release();
    }

    fn attempt(&self, second: u64, reserved: bool) -> (Counts, u64) {
        Self::same(self.0.attempt(second, reserved), self.1.attempt(second, reserved))
    }

    fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T {
        // What comes of it shows in the steps of the calls.
        let _ = self.1.pace(&change);
        self.0.pace(&change)
    }
}
