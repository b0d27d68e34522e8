//! Windows at the ends of their numbers, where random runs do not come.

use forbear::{AtomicWindow, Counts, Tally, Window};

#[test]
fn compact_counters_stay_at_their_end() {
    let window = Window::<2, u16>::of_len();
    let mut asked = 0;
    for _ in 0..70_000 {
        asked = window.retry(5);
        window.answer(asked, 5, true);
    }
    let full = u32::from(u16::MAX);
    let counts = Counts { requests: full, accepts: full, retries: full, ..Counts::ZERO };
    assert_eq!(window.counts(5), counts);
    // How far past its end it is, it does not know: so it takes nothing back.
    window.withdraw(asked);
    assert_eq!(window.counts(5), counts);
    for _ in 0..70_000 {
        window.request(6);
    }
    assert_eq!(window.counts(6), Counts { requests: 2 * full, ..counts });
    assert_eq!(window.counts(7), Counts { requests: full, ..Counts::ZERO });
    assert_eq!(window.counts(8), Counts::ZERO);
}

#[test]
fn attempts_in_flight_stay_at_their_end() {
    let window = Window::<2>::of_len();
    for _ in 0..70_000 {
        window.request(5);
    }
    assert_eq!(window.in_flight(5, 1), u32::from(u16::MAX));
    // It then forgives fewer, never more.
    for _ in 0..70_000 {
        window.answer(5, 5, true);
    }
    assert_eq!(window.in_flight(5, 1), 0);
    assert_eq!(window.counts(5).judged(), 70_000);
}

/// One request, then a gap of each kind: what is younger than the length is left.
fn gaps<W: Tally>(length: u64, empty: fn() -> W) {
    for start in [0, 1, length - 1, length, 1 << 32, 1 << 33, (1 << 35) - 1 - 3 * length] {
        for gap in [0, 1, length - 1, length, length + 1, 2 * length] {
            let window = empty();
            window.request(start);
            let left = u32::from(gap < length);
            assert_eq!(window.counts(start + gap).requests, left, "{length} s, from {start}, a gap of {gap}");
        }
    }
}

#[test]
fn gaps_around_the_length_drop_what_they_should() {
    macro_rules! lengths {
        ($($length:literal)*) => {$(
            gaps($length, Window::<$length>::of_len);
            gaps($length, Window::<$length, u16>::of_len);
            gaps($length, AtomicWindow::<$length>::of_len);
        )*};
    }
    lengths!(1 2 10 120 3600);
}

#[test]
fn the_lock_free_window_stands_still_at_its_last_second() {
    let window = AtomicWindow::<10>::of_len();
    let last = (1 << 35) - 1;
    assert_eq!(window.request(u64::MAX), last);
    assert_eq!(window.request(last), last);
    assert_eq!(window.request(7), last);
    assert_eq!(window.counts(u64::MAX).requests, 3);
}

#[test]
fn the_plain_window_counts_to_the_end_of_time() {
    let window = Window::<10>::of_len();
    window.request(u64::MAX - 10);
    window.request(u64::MAX - 9);
    assert_eq!(window.request(u64::MAX), u64::MAX);
    assert_eq!(window.counts(u64::MAX).requests, 2);
}

/// 268 million records take a second or two.
#[test]
fn a_lock_free_second_stays_at_its_end() {
    const END: u32 = (1 << 28) - 1;
    let window = AtomicWindow::<2>::of_len();
    let mut asked = 0;
    for _ in 0..=END {
        asked = window.request(5);
    }
    window.request(5);
    assert_eq!(window.counts(5).requests, END);
    window.withdraw(asked);
    assert_eq!(window.counts(5).requests, END);
    window.request(6);
    assert_eq!(window.counts(6).requests, END + 1);
    assert_eq!(window.counts(7).requests, 1);
}
