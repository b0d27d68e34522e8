//! The loop that everybody has written once: try, and try again at once.

use super::{Client, Request, Unserved};

/// So many attempts, without a pause. One attempt is no retry at all.
#[derive(Clone, Debug)]
pub(in super::super) struct Plain {
    pub(in super::super) attempts: u32,
}

impl Client for Plain {
    async fn call(&self, request: &Request<'_>) -> Result<(), Unserved> {
        for _ in 1..self.attempts {
            if request.send().await.is_ok() {
                return Ok(());
            }
        }
        request.send().await
    }
}
