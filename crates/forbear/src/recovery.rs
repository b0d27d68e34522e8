//! Coming back from an outage: while the throttle refuses, one attempt in a while is let through all the same.
//!
//! The book's formula comes back very slowly after an outage as long as its window, since what was refused here keeps
//! counting: an accept outweighs only K requests. What tells recovery from overload is not a shorter window but the
//! acceptance among what was *sent*: nearly all of it by a backend that is well again, one in K by one that is not. So:
//!
//! * Where the formula refuses an attempt, it is sent all the same if the last send was long enough ago: so many seconds
//!   and so many attempts.
//! * Every send that is accepted halves that wait. Every one that is not makes it eight times as long.
//!
//! Nothing is ever refused by this rule, and nothing is sent by it beyond a bound: an extra send takes away what one to
//! three accepted ones gave, at once, and gives it back when it is accepted. So of all extra sends no more are refused,
//! or still without an answer, than sends are accepted, but for six to begin with and one in each full wait. To send faster and faster it takes three accepted of four; below that the wait grows back and the formula
//! alone decides.

use crate::word::{at_most, joined};

/// How the extra sends of a refusing client are paced: at the slowest one in so many seconds and so many attempts,
/// whichever is longer.
///
/// Both are what a client does that has heard nothing but refusals; every accepted send halves them. They are spread by
/// a quarter either way, so that a fleet does not probe in step. See the [module](crate::recovery) for what the rule
/// measures and for its bound.
///
/// ```
/// use forbear::Recovery;
///
/// assert_eq!(Recovery::new(10, 32), Some(Recovery::DEFAULT));
/// assert_eq!(Recovery::new(0, 32), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    seconds: u16,
    attempts: u16,
}

/// What an accepted send adds to the level, and a refused one takes away: a client speeds up while more than three of
/// four are accepted.
const RAISE: u64 = 1;
const LOWER: u64 = 3;

/// The stake of a send that the formula lets through. What an extra send may cost is taken when it is sent, and given back
/// if it is accepted: so the extra sends that nobody has answered yet are bounded as well.
pub(crate) const PLAIN: u8 = u8::MAX;

/// What the window keeps for the rule: `second: 35 | since: 19 | jitter: 5 | level: 5`.
///
/// `second` is that of the last send, `since` the attempts refused here after it, `jitter` five bits of that send's own
/// draw, and `level` how often the wait is halved.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pace {
    second: u64,
    since: u64,
    jitter: u64,
    level: u64,
}

const LAST_SECOND: u64 = (1 << 35) - 1;
const LEVEL_BITS: u32 = 5;
const JITTER_BITS: u32 = 5;
const SINCE_BITS: u32 = 19;
const TOP: u64 = 16;
const MOST_SINCE: u64 = (1 << SINCE_BITS) - 1;
const MOST_JITTER: u64 = (1 << JITTER_BITS) - 1;
const MOST_LEVEL: u64 = (1 << LEVEL_BITS) - 1;

impl Pace {
    /// A fresh client trusts its backend.
    const START: Self = Self { second: 0, since: 0, jitter: 0, level: TOP };

    #[inline]
    const fn unpack(word: u64) -> Self {
        Self {
            second: word >> (SINCE_BITS + JITTER_BITS + LEVEL_BITS),
            since: word >> (JITTER_BITS + LEVEL_BITS) & MOST_SINCE,
            jitter: word >> LEVEL_BITS & MOST_JITTER,
            level: word & MOST_LEVEL,
        }
    }

    #[inline]
    const fn pack(self) -> u64 {
        let word = joined(self.second, SINCE_BITS, self.since);
        joined(joined(word, JITTER_BITS, self.jitter), LEVEL_BITS, self.level)
    }

    /// The wait of this level and jitter: three to five quarters of `whole`, halved `level` times.
    #[inline]
    const fn part(self, whole: u16) -> u64 {
        (whole as u64 * (48 + self.jitter)) >> (6 + self.level)
    }

    /// Sent in `second`, by a draw whose lower bits choose the jitter of the next wait.
    #[inline]
    const fn sent(self, second: u64, draw: u64) -> Self {
        let second = if second > self.second { second } else { self.second };
        Self { second, since: 0, jitter: draw >> 11 & MOST_JITTER, level: self.level }
    }
}

/// The word that a window starts with.
pub(crate) const START: u64 = Pace::START.pack();

impl Recovery {
    /// One extra send in 10 seconds and 32 attempts: measured to be back within 20 s at 10 requests a second and client.
    pub const DEFAULT: Self = Self { seconds: 10, attempts: 32 };

    /// The slowest pace: `seconds` is 1 to 3,600, `attempts` 1 or more; `None` for others.
    ///
    /// A fleet of `n` clients sends at most `n / seconds` requests a second more than the formula alone: choose ten times
    /// the number of clients over the capacity of their backend, if that is more than 10.
    pub const fn new(seconds: u16, attempts: u16) -> Option<Self> {
        if seconds >= 1 && seconds <= 3_600 && attempts >= 1 { Some(Self { seconds, attempts }) } else { None }
    }

    /// The seconds between two extra sends, at the slowest.
    pub const fn seconds(self) -> u16 {
        self.seconds
    }

    /// The attempts between two extra sends, at the slowest.
    pub const fn attempts(self) -> u16 {
        self.attempts
    }

    /// An attempt in `second` that the formula would refuse, or not, by this draw: `None` if it is refused, else the stake
    /// of the send; and the word after that.
    #[inline]
    pub(crate) const fn attempt(self, word: u64, second: u64, draw: u64, refused: bool) -> (Option<u8>, u64) {
        // Time stands still at the last second that the word holds.
        let second = at_most(second, LAST_SECOND);
        let pace = Pace::unpack(word);
        if !refused {
            return (Some(PLAIN), pace.sent(second, draw).pack());
        }
        let due =
            second.saturating_sub(pace.second) >= pace.part(self.seconds) && pace.since + 1 >= pace.part(self.attempts);
        if due {
            let level = pace.level.saturating_sub(LOWER);
            (Some((pace.level - level) as u8), Pace { level, ..pace.sent(second, draw) }.pack())
        } else {
            let since = at_most(pace.since + 1, MOST_SINCE);
            (None, Pace { since, ..pace }.pack())
        }
    }

    /// The word after a send of this stake was accepted, or not.
    #[inline]
    pub(crate) const fn answered(word: u64, accepted: bool, stake: u8) -> u64 {
        // The usual case: it goes no faster.
        if accepted && word & MOST_LEVEL == TOP {
            return word;
        }
        let pace = Pace::unpack(word);
        let level = match (accepted, stake) {
            (true, PLAIN) => pace.level + RAISE,
            (true, stake) => pace.level + RAISE + stake as u64,
            (false, PLAIN) => pace.level.saturating_sub(LOWER),
            (false, _) => pace.level,
        };
        Pace { level: at_most(level, TOP), ..pace }.pack()
    }
}

impl Default for Recovery {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word after `refusals` refused sends.
    fn after(refusals: u32) -> u64 {
        (0..refusals).fold(START, |word, _| Recovery::answered(word, false, PLAIN))
    }

    #[test]
    fn a_word_holds_what_was_packed() {
        for pace in [
            Pace::START,
            Pace { second: (1 << 35) - 1, since: MOST_SINCE, jitter: 31, level: TOP },
            Pace { second: 1, since: 2, jitter: 3, level: 4 },
        ] {
            assert_eq!(Pace::unpack(pace.pack()), pace);
        }
    }

    #[test]
    fn a_fresh_client_sends_what_it_likes() {
        let (sent, _) = Recovery::DEFAULT.attempt(START, 0, 0, true);
        assert_eq!(sent, Some(3));
    }

    #[test]
    fn a_backend_that_never_answers_gets_six_and_then_one_per_wait() {
        let mut word = START;
        let mut sent = 0;
        for attempt in 0..10_000u64 {
            let (send, next) = Recovery::DEFAULT.attempt(word, 100 + attempt / 100, 0, true);
            word = next;
            sent += u64::from(send.is_some());
        }
        assert!((6..=6 + 100 / 7 + 1).contains(&sent), "{sent}");
    }

    #[test]
    fn an_accepted_extra_send_gives_its_stake_back() {
        for level in 0..=TOP {
            let word = Pace { level, ..Pace::START }.pack();
            let (stake, next) = Recovery::DEFAULT.attempt(word, 1_000, 0, true);
            let Some(stake) = stake.filter(|stake| *stake != PLAIN) else { continue };
            let level_of = |word| Pace::unpack(word).level;
            assert_eq!(level_of(Recovery::answered(next, true, stake)), (level + RAISE).min(TOP));
            assert_eq!(level_of(Recovery::answered(next, false, stake)), level.saturating_sub(LOWER));
        }
    }

    #[test]
    fn after_nothing_but_refusals_one_is_sent_per_wait_and_attempts() {
        let recovery = Recovery::DEFAULT;
        // The least jitter: three quarters of 10 s is 7, of 32 attempts 24.
        let mut word = recovery.attempt(after(6), 100, 0, false).1;
        let mut sent = 0;
        for attempt in 1..=1_000u64 {
            let now = 100 + attempt / 10;
            let (send, next) = recovery.attempt(word, now, 0, true);
            word = send.map_or(next, |stake| Recovery::answered(next, false, stake));
            sent += u64::from(send.is_some());
        }
        assert_eq!(sent, 100 / 7);
        // Long enough ago, but too few attempts since.
        let word = recovery.attempt(after(6), 100, 0, false).1;
        assert_eq!(recovery.attempt(word, 1_000, 0, true).0, None);
    }

    #[test]
    fn every_accept_halves_the_wait_and_every_refusal_takes_three_back() {
        let wait = |word| Pace::unpack(word).part(3_600);
        let slow = after(6);
        let faster = Recovery::answered(slow, true, PLAIN);
        assert_eq!(wait(faster), wait(slow) / 2);
        let fastest = (0..100).fold(slow, |word, _| Recovery::answered(word, true, PLAIN));
        assert_eq!(Pace::unpack(fastest).level, TOP);
        assert_eq!(Pace::unpack(Recovery::answered(fastest, false, PLAIN)).level, TOP - 3);
        assert_eq!(Recovery::answered(slow, false, PLAIN), slow);
    }

    #[test]
    fn a_clock_that_steps_back_stands_still() {
        let recovery = Recovery::DEFAULT;
        let word = recovery.attempt(after(6), 100, 0, false).1;
        let (sent, word) = recovery.attempt(word, 3, 0, false);
        assert_eq!(sent, Some(PLAIN));
        assert_eq!(Pace::unpack(word).second, 100);
    }

    #[test]
    fn a_clock_past_the_last_second_stands_still() {
        let recovery = Recovery::new(2, 1).unwrap();
        let word = after(6);
        for second in [LAST_SECOND, LAST_SECOND + 1, 1 << 36, u64::MAX] {
            let (sent, word) = recovery.attempt(word, second, 0, false);
            assert_eq!((sent, Pace::unpack(word).second), (Some(PLAIN), LAST_SECOND));
            assert_eq!(recovery.attempt(word, second, 0, true).0, None, "{second}");
            assert_eq!(recovery.attempt(word, u64::MAX, 0, true).0, None, "{second}");
        }
    }

    #[test]
    fn the_jitter_is_a_quarter_either_way() {
        let part = |jitter| Pace { jitter, level: 0, ..Pace::START }.part(1_000);
        assert_eq!((part(0), part(16), part(31)), (750, 1_000, 1_234));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let recovery = Recovery::new(3_600, u16::MAX).unwrap();
        for word in [0, START, u64::MAX, after(6)] {
            for second in [0, 1 << 35, u64::MAX] {
                for refused in [false, true] {
                    let (_, next) = recovery.attempt(word, second, u64::MAX, refused);
                    assert!(Pace::unpack(Recovery::answered(next, true, 3)).level <= TOP);
                }
            }
        }
        assert_eq!((Recovery::new(3_601, 1), Recovery::new(1, 0)), (None, None));
    }
}
