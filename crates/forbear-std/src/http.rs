//! `Retry-After` as servers write it: seconds or an HTTP-date.

use core::time::Duration;
use std::time::SystemTime;

/// The time to wait that a `Retry-After` header names.
///
/// Seconds as [`forbear::http::retry_after`] reads them, or an HTTP-date: then the time from the response's own `date`
/// header where there is a readable one, else from this machine's clock. A date that has passed means now; text that is
/// neither is `None`. Source: RFC 9110, sections 10.2.3 and 5.6.7.
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
        let at = httpdate::parse_http_date(text.trim()).ok()?;
        let from = date.and_then(|date| httpdate::parse_http_date(date.trim()).ok()).unwrap_or_else(SystemTime::now);
        Some(at.duration_since(from).unwrap_or(Duration::ZERO))
    })
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
}
