//! gRPC: what a status code means, and the server's pushback.
//!
//! Plain functions over numbers and text, so that every gRPC library can use them.

use core::time::Duration;

use crate::http::saturating;
use crate::reply::{Reply, Retry};

/// What a reply with this `grpc-status` means, for a method that may be repeated.
///
/// RESOURCE_EXHAUSTED (8) and UNAVAILABLE (14) are [overload](Reply::OVERLOADED), DEADLINE_EXCEEDED (4) is
/// [no answer](Reply::UNREACHABLE), OK is accepted, and all else is [permanent](Reply::PERMANENT). INTERNAL (13) is
/// [transient](Reply::TRANSIENT) only where the caller knows it to be. gRPC does not say which methods may be repeated:
/// add [`once`](Reply::once) to all but those that the caller knows. Source: gRFC A6, "gRPC Retry Design".
///
/// ```
/// use forbear::{Reply, grpc};
///
/// assert_eq!(grpc::code(0), Reply::ACCEPTED);
/// assert_eq!(grpc::code(14), Reply::OVERLOADED);
/// assert_eq!(grpc::code(5), Reply::PERMANENT); // NOT_FOUND
/// ```
pub const fn code(code: i32) -> Reply {
    match code {
        0 => Reply::ACCEPTED,
        4 => Reply::UNREACHABLE,
        8 | 14 => Reply::OVERLOADED,
        _ => Reply::PERMANENT,
    }
}

/// What the text of `grpc-retry-pushback-ms` asks for.
///
/// A number of milliseconds is a wait, one beyond `u64` saturates; a negative one, or what is no number, asks for no
/// retry at all. Source: gRFC A6, "Pushback".
///
/// ```
/// use core::time::Duration;
/// use forbear::{Retry, grpc};
///
/// assert_eq!(grpc::pushback("250"), Retry::After(Duration::from_millis(250)));
/// assert_eq!(grpc::pushback("-1"), Retry::Never);
/// ```
pub fn pushback(text: &str) -> Retry {
    match saturating(text.trim_matches([' ', '\t'])) {
        Some(milliseconds) => Retry::After(Duration::from_millis(milliseconds)),
        None => Retry::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_by_their_numbers() {
        for number in -1..=20 {
            let reply = code(number);
            assert_eq!(reply.is_accepted(), !matches!(number, 4 | 8 | 14), "{number}");
            assert_eq!(reply.retry() == Retry::Never, !matches!(number, 4 | 8 | 14), "{number}");
        }
    }

    #[test]
    fn pushback_reads_milliseconds() {
        assert_eq!(pushback("0"), Retry::After(Duration::ZERO));
        assert_eq!(pushback("99999999999999999999"), Retry::After(Duration::from_millis(u64::MAX)));
        for none in ["-1", "-99999999999999999999", "", "soon", "1.5"] {
            assert_eq!(pushback(none), Retry::Never, "{none:?}");
        }
    }
}
