//! tower's retry budget, in tower's own retry layer.

use std::{
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use tower::{
    ServiceExt,
    retry::{
        Policy, Retry,
        budget::{Budget as _, TpsBudget},
    },
    service_fn,
};

use super::{Client, Request, Unserved};

/// Retries as a share of what was served lately. Without the minimum a second that tower can add, which times the clients of a fleet
/// would be a budget of its own.
#[derive(Clone, Debug)]
pub(in super::super) struct Budget {
    budget: Arc<TpsBudget>,
    retries: u32,
}

impl Budget {
    /// `window` in seconds; tower keeps at most sixty.
    pub(in super::super) fn new(attempts: u32, ratio: f32, window: u32) -> Self {
        let ttl = Duration::from_secs(u64::from(window.clamp(1, 60)));
        Self { budget: Arc::new(TpsBudget::new(ttl, 0, ratio)), retries: attempts.saturating_sub(1) }
    }
}

impl Policy<(), (), Unserved> for Budget {
    type Future = Ready<()>;

    fn retry(&mut self, (): &mut (), result: &mut Result<(), Unserved>) -> Option<Ready<()>> {
        if result.is_ok() {
            self.budget.deposit();
            return None;
        }
        self.retries = self.retries.checked_sub(1)?;
        self.budget.withdraw().then(|| ready(()))
    }

    fn clone_request(&mut self, (): &()) -> Option<()> {
        Some(())
    }
}

impl Client for Budget {
    async fn call(&self, request: &Request<'_>) -> Result<(), Unserved> {
        Retry::new(self.clone(), service_fn(|()| request.send())).oneshot(()).await
    }
}
