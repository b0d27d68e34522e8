//! What an error tells of a request that got no response.

use core::error::Error;
use std::io;

/// Whether this error, or one that it is made of, tells that the request was never worked on: that no connection could be
/// made, or that the stream was refused (RFC 9113, section 8.7).
pub(crate) fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>()
            && error.is_connect()
        {
            return true;
        }
        #[cfg(feature = "grpc")]
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        if let Some(error) = error.downcast_ref::<h2::Error>()
            && error.is_reset()
            && error.is_remote()
            && error.reason() == Some(h2::Reason::REFUSED_STREAM)
        {
            return true;
        }
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            // It is the source of its wrapper's source that an io::Error names as its source.
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::BoxError;

    #[test]
    fn a_refused_connection_is_found_behind_other_errors() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        assert!(is_unprocessed(&refused()));
        assert!(is_unprocessed(&io::Error::other(refused())));
        assert!(is_unprocessed(&*BoxError::from(io::Error::other(io::Error::other(refused())))));
    }

    #[test]
    fn other_errors_tell_nothing() {
        assert!(!is_unprocessed(&io::Error::from(io::ErrorKind::ConnectionReset)));
        assert!(!is_unprocessed(&io::Error::from(io::ErrorKind::TimedOut)));
        assert!(!is_unprocessed(&h2::Error::from(h2::Reason::REFUSED_STREAM))); // of this side's own
        assert!(!is_unprocessed(&*BoxError::from("connection refused")));
    }
}
