//! Any bytes as the header fields that say when to come back.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use forbear::{Retry, grpc, http};
use forbear_std::http as dates;

/// Any text as `Retry-After`, with any other as `Date`, and as gRPC's pushback.
pub fn retry_after(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (after, date) = match text.split_once('\n') {
        Some((after, date)) => (after, Some(date)),
        None => (&*text, None),
    };
    let (seconds, milliseconds) = (number(after), number(after).filter(|number| !number.negative));

    // Digits are a number of seconds, whatever their number; a minus sign makes it the past.
    let told = http::retry_after(after);
    assert_eq!(told, seconds.map(|read| Duration::from_secs(if read.negative { 0 } else { read.value })), "{after:?}");
    // Digits are a number of milliseconds; anything else asks for no retry.
    let pushback = milliseconds.map_or(Retry::Never, |read| Retry::After(Duration::from_millis(read.value)));
    assert_eq!(grpc::pushback(after), pushback, "{after:?}");

    let wait = dates::retry_after(after, date);
    if told.is_some() {
        assert_eq!(wait, told, "{after:?} is seconds before it is a date");
        return;
    }
    let parse = |text: &str| httpdate::parse_http_date(text.trim()).ok();
    let (at, from) = (parse(after), date.map(parse));
    // The client reads more than `httpdate`: any case and white space, leap seconds, years before 1970, and two digits as
    // the specification has it. What else it takes for a date still names a day and a month.
    let beyond = |text: &str| names(text, &DAYS, 0..1) && names(text, &MONTHS, 1..3);
    let Some(at) = at.filter(|_| !after.contains('-')) else {
        assert!(wait.is_none() || beyond(after), "{after:?} is neither seconds nor a date");
        return;
    };
    let wait = wait.expect("a date is a time to wait");
    match (date, from) {
        (Some(date), Some(Some(from))) if !date.contains('-') => {
            assert_eq!(wait, at.duration_since(from).unwrap_or(Duration::ZERO), "{after:?} from {date:?}");
        }
        (Some(date), _) if beyond(date) => {}
        // By this machine's clock, which has gone on a little since.
        _ => assert!(SystemTime::now().checked_add(wait).is_some_and(|then| then >= at), "{after:?}: {wait:?}"),
    }
}

const DAYS: [&str; 14] = [
    "sun",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    "sat",
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Whether one of the words at these places is one of these names.
fn names(text: &str, names: &[&str], at: Range<usize>) -> bool {
    let text = text.to_ascii_lowercase();
    let apart = |letter: char| letter.is_whitespace() || letter == '-' || letter == ',';
    let words: Vec<_> = text.split(apart).filter(|word| !word.is_empty()).collect();
    words.get(at).is_some_and(|words| words.iter().any(|word| names.contains(word)))
}

struct Number {
    negative: bool,
    value: u64,
}

/// Digits, perhaps with a minus sign before them: read by hand, and held at the end of `u64`.
fn number(text: &str) -> Option<Number> {
    let text = text.trim_matches([' ', '\t']);
    let negative = text.starts_with('-');
    let digits = if negative { &text[1..] } else { text };
    if digits.is_empty() || !digits.chars().all(|character| character.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    let value = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u64::MAX) };
    Some(Number { negative, value })
}
