//! What statuses mean, and `Retry-After` as servers write it: seconds or an HTTP-date.

use core::time::Duration;
use std::time::SystemTime;

pub use forbear::http::{is_repeatable, status};

/// The time to wait that a `Retry-After` header names.
///
/// Seconds as [`forbear::http::retry_after`] reads them, or an HTTP-date: then the time from the response's own `date`
/// header where there is a readable one, else from this machine's clock. A date that has passed means now; text that is
/// neither is `None`.
///
/// All three forms of a date are read, in any case and with any white space around and between the words, and so is a
/// leap second. A year of two digits is the latest one that fits the day of the week and is not more than 50 years ahead.
/// A day that is not in the calendar, or not on that day of the week, is no date. Source: RFC 9110, sections 10.2.3 and
/// 5.6.7.
///
/// ```
/// use core::time::Duration;
/// use forbear_std::http::retry_after;
///
/// assert_eq!(retry_after("2", None), Some(Duration::from_secs(2)));
/// let at = "Sun, 06 Nov 1994 08:49:37 GMT";
/// assert_eq!(retry_after(at, Some("Sun, 06 Nov 1994 08:49:30 GMT")), Some(Duration::from_secs(7)));
/// assert_eq!(retry_after(at, None), Some(Duration::ZERO));
/// assert_eq!(retry_after("soon", None), None);
/// ```
pub fn retry_after(text: &str, date: Option<&str>) -> Option<Duration> {
    forbear::http::retry_after(text).or_else(|| {
        let now = SystemTime::now();
        let from = date.and_then(|date| http_date(date, now)).unwrap_or(now);
        Some(http_date(text, from)?.duration_since(from).unwrap_or(Duration::ZERO))
    })
}

const DAY: u64 = 86_400;
/// After so many days the calendar repeats itself, days of the week included.
const DAYS_OF_400_YEARS: u64 = 146_097;

/// The moment that an HTTP-date names. Seen from `now`, if its year has two digits.
///
/// Brings what the specification has recipients accept into the one form and the years that `httpdate` reads.
fn http_date(text: &str, now: SystemTime) -> Option<SystemTime> {
    let apart = |letter: char| letter.is_whitespace() || letter == '-';
    let words: Vec<_> = text.split(apart).filter(|word| !word.is_empty()).collect();
    let (day_of_week, day, month, year, time) = match words[..] {
        // Sun, 06 Nov 1994 08:49:37 GMT, or Sunday, 06-Nov-94 08:49:37 GMT
        [day_of_week, day, month, year, time, zone] if zone.eq_ignore_ascii_case("GMT") => {
            (day_of_week, day, month, year, time)
        }
        // Sun Nov  6 08:49:37 1994
        [day_of_week, month, day, time, year] => (day_of_week, day, month, year, time),
        _ => return None,
    };
    let (time, leap) = match time.strip_suffix(":60") {
        Some(minute) => (format!("{minute}:59"), 1),
        None => (time.to_owned(), 0),
    };
    let (day_of_week, month) = (self::day_of_week(day_of_week)?, self::month(month)?);
    let number: u64 = year.parse().ok().filter(|_| !year.starts_with('+'))?;
    let read = |year: u64| {
        // Before 1970 by way of a year that has the same days.
        let back = if year < 1970 { 5 } else { 0 };
        let at =
            httpdate::parse_http_date(&format!("{day_of_week}, {day:0>2} {month} {:04} {time} GMT", year + 400 * back));
        let at = at.ok()?.checked_add(Duration::from_secs(leap))?;
        // Some platforms have no times before 1601: long past is past.
        at.checked_sub(Duration::from_secs(back * DAYS_OF_400_YEARS * DAY)).or(Some(SystemTime::UNIX_EPOCH))
    };
    match year.len() {
        4 => read(number),
        2 => {
            let most = now.checked_add(Duration::from_secs(DAYS_OF_400_YEARS * DAY / 8))?;
            [2000, 1900].into_iter().filter_map(|century| read(century + number)).find(|at| *at <= most)
        }
        _ => None,
    }
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The short name of a day of the week, given that or the long one, with or without a comma.
fn day_of_week(word: &str) -> Option<&'static str> {
    let word = word.strip_suffix(',').unwrap_or(word);
    let named = |day: &&&str| word.eq_ignore_ascii_case(day) || word.eq_ignore_ascii_case(&day[..3]);
    DAYS.iter().find(named).map(|day| &day[..3])
}

/// The name of a month, as dates write it.
fn month(word: &str) -> Option<&'static str> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    MONTHS.into_iter().find(|month| word.eq_ignore_ascii_case(month))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_date_header_is_absent() {
        let past = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(retry_after(past, Some("whenever")), Some(Duration::ZERO));
        assert_eq!(retry_after(past, Some("Mon, 07 Nov 1994 08:49:37 GMT")), Some(Duration::ZERO));
    }

    #[test]
    fn all_three_date_formats_are_read() {
        let date = Some("Sun, 06 Nov 1994 08:49:30 GMT");
        for at in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(retry_after(at, date), Some(Duration::from_secs(7)), "{at}");
        }
    }

    #[test]
    fn a_date_far_ahead_is_a_long_wait() {
        let wait = retry_after("Fri, 31 Dec 9999 23:59:59 GMT", None).unwrap();
        assert!(wait > Duration::from_secs(100 * 365 * 86_400), "{wait:?}");
    }

    const FROM: Option<&str> = Some("Sun, 06 Nov 1994 08:49:30 GMT");

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn case_and_white_space_do_not_matter() {
        for at in [
            "  Sun, 06 Nov 1994 08:49:37 GMT\t",
            "sun, 06 nov 1994 08:49:37 gmt",
            "SUN, 06 NOV 1994 08:49:37 GMT",
            "Sun,  6  Nov 1994 08:49:37 GMT",
            "\tSUNDAY, 06-NOV-94 08:49:37 gmt ",
            " sun nov  6 08:49:37 1994 ",
            "\rSun, 06 Nov 1994 08:49:37 GMT\t\u{b}",
            "Sun Nov 06 08:49:37 1994",
        ] {
            assert_eq!(retry_after(at, FROM), seconds(7), "{at:?}");
            let date = at.replace("08:49:37", "08:49:30");
            assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", Some(&date)), seconds(7), "{date:?}");
        }
    }

    #[test]
    fn a_name_that_only_begins_as_one_is_none() {
        for at in [
            "Sun% Nov  6 08:49:37 1994",
            "Sunny, 06 Nov 1994 08:49:37 GMT",
            "Sunda, 06-Nov-94 08:49:37 GMT",
            "Sun,, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 November 1994 08:49:37 GMT",
            "Su, 06 Nov 1994 08:49:37 GMT",
            "S\u{fc}n, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 No 1994 08:49:37 GMT",
        ] {
            assert_eq!(retry_after(at, FROM), None, "{at:?}");
        }
    }

    #[test]
    fn a_leap_second_is_the_one_after_59() {
        let date = Some("Sat, 31 Dec 2016 23:59:50 GMT");
        for at in ["Sat, 31 Dec 2016 23:59:60 GMT", "Saturday, 31-Dec-16 23:59:60 GMT", "Sat Dec 31 23:59:60 2016"] {
            assert_eq!(retry_after(at, date), seconds(10), "{at}");
        }
        assert_eq!(retry_after("Sat, 31 Dec 2016 23:59:61 GMT", date), None);
        assert_eq!(retry_after("Sat, 31 Dec 2016 23:60:00 GMT", date), None);
        assert_eq!(retry_after("Fri, 31 Dec 9999 23:59:60 GMT", Some("Fri, 31 Dec 9999 23:59:00 GMT")), seconds(60));
    }

    #[test]
    fn a_date_before_1970_is_a_date() {
        for at in [
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "Wed Dec 31 23:59:59 1969",
            "Mon, 01 Jan 0001 00:00:00 GMT", // an empty date of some frameworks
            "Sat, 01 Jan 0000 00:00:00 GMT",
        ] {
            assert_eq!(retry_after(at, None), Some(Duration::ZERO), "{at}");
            assert_eq!(retry_after(at, FROM), Some(Duration::ZERO), "{at}");
        }
        // By the clock of a server that has none.
        let date = Some("Wed, 31 Dec 1969 23:59:50 GMT");
        assert_eq!(retry_after("Thu, 01 Jan 1970 00:00:05 GMT", date), seconds(15));
        assert_eq!(retry_after("Wed, 31 Dec 1969 23:59:59 GMT", date), seconds(9));
    }

    #[test]
    fn a_year_of_two_digits_is_at_most_fifty_years_ahead() {
        let seen_from = |year: &str| httpdate::parse_http_date(&format!("{year} 00:00:00 GMT")).unwrap();
        let read = |text: &str, now| http_date(text, seen_from(now)).map(httpdate::fmt_http_date);
        let date = |text: &str| Some(format!("{text} 12:00:00 GMT"));
        // 1 January 1975 was a Wednesday, that of 2075 is a Tuesday.
        assert_eq!(read("Wednesday, 01-Jan-75 12:00:00 GMT", "Tue, 06 Jan 2026"), date("Wed, 01 Jan 1975"));
        assert_eq!(read("Tuesday, 01-Jan-75 12:00:00 GMT", "Tue, 06 Jan 2026"), date("Tue, 01 Jan 2075"));
        assert_eq!(read("Tuesday, 01-Jan-75 12:00:00 GMT", "Tue, 06 Jan 2015"), None);
        assert_eq!(read("Friday, 31-Dec-99 12:00:00 GMT", "Tue, 06 Jan 2026"), date("Fri, 31 Dec 1999"));
        assert_eq!(read("Monday, 30-Nov-26 12:00:00 GMT", "Mon, 30 Nov 2026"), date("Mon, 30 Nov 2026"));
        assert_eq!(read("Sunday, 02-Jan-00 12:00:00 GMT", "Fri, 31 Dec 1999"), date("Sun, 02 Jan 2000"));
        let past = "Tuesday, 31-Dec-68 12:00:00 GMT";
        assert_eq!(http_date(past, seen_from("Tue, 06 Jan 2026")).map(|at| at < SystemTime::UNIX_EPOCH), Some(true));
    }

    #[test]
    fn what_is_no_date_is_absent_and_nothing_panics() {
        for text in [
            "Sat, 06 Nov 1994 08:49:37 GMT", // it was a Sunday
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 PST",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT",
            "Sun, 06 Nov 994 08:49:37 GMT",
            "Sun, 06 Nov 10000 08:49:37 GMT",
            "Thu, 06 Nov +994 08:49:37 GMT", // as it was in 994
            "Sun, 06 Nov 99999999999999999999 08:49:37 GMT",
            "Sun, 006 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 :60 GMT",
            "So, 06 Nov 1994 08:49:37 GMT",
            "Söndag, 06 Nov 1994 08:49:37 GMT",
            "日曜日, 06 Nov 1994 08:49:37 GMT",
            "1994-11-06T08:49:37Z",
            "- - - - - -",
            ":60",
        ] {
            assert_eq!(retry_after(text, FROM), None, "{text:?}");
            assert_eq!(retry_after("5", Some(text)), seconds(5));
            assert!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", Some(text)).is_some());
        }
        // Any byte changed, or left out.
        for text in ["Sat, 31 Dec 2016 23:59:60 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            for at in 0..text.len() {
                for change in ["", "0", "9", ":", "-", " ", "x", "é"] {
                    let changed = format!("{}{change}{}", &text[..at], &text[at + 1..]);
                    let _ = (
                        retry_after(&changed, None),
                        retry_after(text, Some(&changed)),
                        retry_after(&text[at..], FROM),
                    );
                }
            }
        }
    }

    #[test]
    fn dates_are_read_as_they_are_written() {
        let now = SystemTime::now();
        // A prime number of seconds, some 300 days, up to the end of the year 9999.
        for second in (0..253_402_300_800).step_by(25_920_007) {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let text = httpdate::fmt_http_date(at);
            let words: Vec<_> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
            let [day_of_week, day, month, year, time, _] = words[..] else { panic!("{text}") };
            assert_eq!(http_date(&text, now), Some(at), "{text}");
            let text = format!("{day_of_week} {month} {:>2} {time} {year}", day.trim_start_matches('0'));
            assert_eq!(http_date(&text, now), Some(at), "{text}");
            let long = DAYS.into_iter().find(|day| day.starts_with(day_of_week)).unwrap();
            let text = format!("{long}, {day}-{month}-{} {time} GMT", &year[2..]);
            if at > now - Duration::from_secs(40 * 365 * DAY) && at < now + Duration::from_secs(40 * 365 * DAY) {
                assert_eq!(http_date(&text, now), Some(at), "{text}");
            }
        }
    }
}
