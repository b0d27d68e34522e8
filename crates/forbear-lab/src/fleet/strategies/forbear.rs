//! forbear: the real core, driven as any adapter drives it. Not a copy of its formula.

use forbear::{Config, Instant, Policy, Reply, Step, Tally, Window};

use super::{Attempts, Client, Draws, Move};

/// A policy over the compact window: 780 bytes for two minutes, so that a million clients fit into a gigabyte. It saturates at
/// 65,535 requests a second and client, which is more than the three attempts of each call that the lab lets a client make.
#[derive(Debug)]
pub(in super::super) struct Forbear<const N: usize>(Policy<Window<N, u16>>);

impl<const N: usize> Forbear<N> {
    pub(in super::super) fn new(config: Config) -> Self {
        Self(Policy::new(config, Window::of_len()))
    }
}

type Call<'c, const N: usize> = forbear::Call<&'c Policy<Window<N, u16>>>;

impl<const N: usize> Client for Forbear<N> {
    type Call<'c> = Call<'c, N>;

    fn call(&self) -> Call<'_, N> {
        forbear::Call::new(&self.0)
    }

    #[inline]
    fn touch(&self) {
        touch(&self.0);
    }

    #[inline]
    fn expire(&self, now: Instant) {
        // Reading expires what has left the window, as the call itself would.
        core::hint::black_box(self.0.window().counts(now.second()));
    }
}

#[inline]
fn touch<const N: usize>(policy: &Policy<Window<N, u16>>) {
    // As of the first second that there was nothing expires, so no branch waits for what is read.
    core::hint::black_box((policy.config().max_attempts(), policy.window().counts(0)));
}

impl<const N: usize> Attempts for Call<'_, N> {
    #[inline]
    fn touch(&self) {
        touch(self.handle());
    }

    fn next(&mut self, now: Instant, draws: &mut Draws) -> Move {
        match forbear::Call::next(self, now, draws) {
            Step::Send { within } => Move::Send { within },
            Step::Wait(wait) => Move::Wait(wait),
            Step::Done(_) => Move::Done,
        }
    }

    fn reply(&mut self, now: Instant, reply: Reply) {
        forbear::Call::reply(self, now, reply);
    }
}
