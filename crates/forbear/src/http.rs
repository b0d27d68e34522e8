//! HTTP: what a status means, which methods may be repeated, and `Retry-After` in seconds.
//!
//! Plain functions over numbers and text, so that every HTTP library can use them.

use core::time::Duration;

use crate::reply::Reply;

/// What a response with this status means, for a request that may be repeated.
///
/// 429 and 503 are [overload](Reply::OVERLOADED), 502 and 504 come from a proxy that [could not
/// reach](Reply::UNREACHABLE) the backend, 500 is [transient](Reply::TRANSIENT); 1xx to 3xx are accepted, and all else
/// is [permanent](Reply::PERMANENT). Where the request may not be repeated (see [`is_repeatable`]), add
/// [`once`](Reply::once). Source: RFC 9110, section 15; RFC 6585, section 4.
///
/// ```
/// use forbear::{Reply, http};
///
/// assert_eq!(http::status(204), Reply::ACCEPTED);
/// assert_eq!(http::status(404), Reply::PERMANENT);
/// assert_eq!(http::status(503), Reply::OVERLOADED);
///
/// // A POST that failed is counted in the same way, but not sent again.
/// let reply = if http::is_repeatable("POST") { http::status(500) } else { http::status(500).once() };
/// assert!(reply.is_accepted());
/// ```
pub const fn status(code: u16) -> Reply {
    match code {
        100..=399 => Reply::ACCEPTED,
        429 | 503 => Reply::OVERLOADED,
        500 => Reply::TRANSIENT,
        502 | 504 => Reply::UNREACHABLE,
        _ => Reply::PERMANENT,
    }
}

/// Whether a request of this method does no more when it is sent twice: the idempotent ones.
///
/// Methods are case-sensitive. Source: RFC 9110, section 9.2.2.
///
/// ```
/// use forbear::http::is_repeatable;
///
/// assert!(is_repeatable("PUT"));
/// assert!(!is_repeatable("POST") && !is_repeatable("PATCH") && !is_repeatable("put"));
/// ```
pub fn is_repeatable(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}

/// The time to wait that the text of a `Retry-After` header names in seconds.
///
/// A negative number means now, one beyond `u64` saturates, anything else but digits is `None`: an HTTP-date, which
/// `forbear-std` reads, or no sense at all. White space around it is skipped. Source: RFC 9110, section 10.2.3.
///
/// ```
/// use core::time::Duration;
/// use forbear::http::retry_after;
///
/// assert_eq!(retry_after("120"), Some(Duration::from_secs(120)));
/// assert_eq!(retry_after("-1"), Some(Duration::ZERO));
/// assert_eq!(retry_after("99999999999999999999"), Some(Duration::from_secs(u64::MAX)));
/// assert_eq!(retry_after("soon"), None);
/// ```
pub fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    match text.strip_prefix('-') {
        Some(past) => saturating(past).map(|_| Duration::ZERO),
        None => saturating(text).map(Duration::from_secs),
    }
}

/// A number of digits alone, `u64::MAX` where it is larger.
pub(crate) fn saturating(digits: &str) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.bytes().try_fold(0u64, |number, byte| {
        byte.is_ascii_digit().then(|| number.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_row() {
        for code in 0..=u16::MAX {
            let expected = match code {
                100..=399 => Reply::ACCEPTED,
                429 | 503 => Reply::OVERLOADED,
                502 | 504 => Reply::UNREACHABLE,
                500 => Reply::TRANSIENT,
                _ => Reply::PERMANENT,
            };
            assert_eq!(status(code), expected, "{code}");
        }
        assert!(status(418).is_accepted() && status(501).is_accepted() && status(500).is_accepted());
        assert!(!status(429).is_accepted() && !status(502).is_accepted());
    }

    #[test]
    fn idempotent_methods_are_repeatable() {
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
            assert!(is_repeatable(method), "{method}");
        }
        for method in ["POST", "PATCH", "CONNECT", "get", "", "GET "] {
            assert!(!is_repeatable(method), "{method}");
        }
    }

    #[test]
    fn retry_after_reads_digits_and_nothing_else() {
        let secs = |n| Some(Duration::from_secs(n));
        for (text, wait) in [
            ("0", secs(0)),
            (" 7\t", secs(7)),
            ("007", secs(7)),
            ("18446744073709551615", secs(u64::MAX)),
            ("18446744073709551616", secs(u64::MAX)),
            ("-5", secs(0)),
            ("-99999999999999999999", secs(0)),
            ("", None),
            ("-", None),
            ("+5", None),
            ("1.5", None),
            ("5s", None),
            ("5 6", None),
            ("٣", None),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None),
        ] {
            assert_eq!(retry_after(text), wait, "{text:?}");
        }
    }
}
