//! forbear, as any adapter drives it: a loop around the core's machine, which is told the time and what came back.

use std::cell::RefCell;

use forbear::{Call, Config, Policy, Reply, Step, Window};
use rand::{SeedableRng, rngs::SmallRng};

use super::{Client, Request, Unserved};

/// All clients of a strategy share a thread, so the window needs no lock.
#[derive(Debug)]
pub(in super::super) struct Forbear<const N: usize> {
    policy: Policy<Window<N>>,
    rng: RefCell<SmallRng>,
}

impl<const N: usize> Forbear<N> {
    pub(in super::super) fn new(config: Config, seed: u64) -> Self {
        Self { policy: Policy::new(config, Window::of_len()), rng: RefCell::new(SmallRng::seed_from_u64(seed)) }
    }
}

impl<const N: usize> Client for Forbear<N> {
    async fn call(&self, request: &Request<'_>) -> Result<(), Unserved> {
        let mut call = Call::new(&self.policy);
        let mut last = Err(Unserved);
        loop {
            let step = call.next(request.now(), &mut *self.rng.borrow_mut());
            match step {
                // Without an attempt timeout and a deadline nothing is ever cut.
                Step::Send { .. } => {
                    last = request.send().await;
                    call.reply(request.now(), if last.is_ok() { Reply::ACCEPTED } else { Reply::OVERLOADED });
                }
                Step::Wait(delay) => tokio::time::sleep(delay).await,
                Step::Done(_) => return last,
            }
        }
    }
}
