//! The clients of the core as subjects, over each of its windows.

use core::fmt::Debug;
use core::marker::PhantomData;

use forbear::{
    AtomicWindow, Call, Clock, Config, Outcome as CoreOutcome, OverloadClient, Policy, Reply, RetryingClient, Sleep,
    Step, Tally, Window,
};

use crate::subject::{Client, Ended, Observed, Outcome, SharedClock, SharedScript, Subject};

/// A kind of window, of any length.
pub trait Windows: 'static {
    /// The window of `N` seconds.
    type Of<const N: usize>: Tally + Debug + 'static;

    /// What it is called in what is printed.
    const NAMES: Names;

    /// An empty window.
    fn of<const N: usize>() -> Self::Of<N>;
}

/// The names of the subjects over one kind of window.
#[derive(Debug)]
pub struct Names {
    overload: &'static str,
    call: &'static str,
}

/// [`Window`] with `u32` counters.
#[derive(Debug)]
pub struct Plain;

/// [`Window`] with `u16` counters.
#[derive(Debug)]
pub struct Compact;

/// [`AtomicWindow`].
#[derive(Debug)]
pub struct Atomic;

impl Windows for Plain {
    type Of<const N: usize> = Window<N>;
    const NAMES: Names = Names { overload: "OverloadClient<Window>", call: "Call<Window>" };

    fn of<const N: usize>() -> Window<N> {
        Window::of_len()
    }
}

impl Windows for Compact {
    type Of<const N: usize> = Window<N, u16>;
    const NAMES: Names = Names { overload: "OverloadClient<Window<u16>>", call: "Call<Window<u16>>" };

    fn of<const N: usize>() -> Window<N, u16> {
        Window::of_len()
    }
}

impl Windows for Atomic {
    type Of<const N: usize> = AtomicWindow<N>;
    const NAMES: Names = Names { overload: "OverloadClient<AtomicWindow>", call: "Call<AtomicWindow>" };

    fn of<const N: usize>() -> AtomicWindow<N> {
        AtomicWindow::of_len()
    }
}

/// [`OverloadClient`] over one kind of window.
#[derive(Debug)]
pub struct CoreOverload<W>(PhantomData<W>);

impl<W: Windows> Subject for CoreOverload<W> {
    const NAME: &'static str = W::NAMES.overload;

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Client> {
        Box::new(OverloadClient::with_window(clock, script, config, W::of::<N>()))
    }
}

impl<W: Tally> Client for OverloadClient<SharedClock, SharedScript, W> {
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended {
        let outcome = match OverloadClient::call(self, send) {
            CoreOutcome::Ok => Outcome::Ok,
            CoreOutcome::Throttled => Outcome::Throttled,
            CoreOutcome::Budget => Outcome::Budget,
            CoreOutcome::Failed => Outcome::Failed,
        };
        Ended { outcome, attempts: None }
    }

    fn observed(&self) -> Observed {
        Observed {
            requests: self.requests(),
            accepts: self.accepts(),
            retries: self.retries(),
            reject_probability: self.reject_probability(),
        }
    }
}

/// [`RetryingClient`], which has no window.
#[derive(Debug)]
pub struct CoreRetrying;

impl Subject for CoreRetrying {
    const NAME: &'static str = "RetryingClient";

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Client> {
        Box::new(RetryingClient::new(clock, script, config))
    }
}

impl Client for RetryingClient<SharedClock, SharedScript> {
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended {
        let answer = RetryingClient::call(self, send, |reply| *reply);
        let outcome = if answer.reply.is_accepted() { Outcome::Ok } else { Outcome::Failed };
        Ended { outcome, attempts: Some(answer.attempts) }
    }

    fn observed(&self) -> Observed {
        Observed::default()
    }
}

/// The machine itself, in the loop that every adapter is.
#[derive(Debug)]
pub struct CoreCall<W>(PhantomData<W>);

struct Machine<W> {
    policy: Policy<W>,
    clock: SharedClock,
    script: SharedScript,
}

impl<W: Windows> Subject for CoreCall<W> {
    const NAME: &'static str = W::NAMES.call;

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Client> {
        Box::new(Machine { policy: Policy::new(config, W::of::<N>()), clock, script })
    }
}

impl<W: Tally> Client for Machine<W> {
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended {
        let mut call = Call::new(&self.policy);
        loop {
            match call.next(self.clock.now(), &mut self.script) {
                Step::Send { .. } => {
                    let reply = send();
                    call.reply(self.clock.now(), reply);
                }
                Step::Wait(delay) => self.clock.sleep(delay),
                Step::Done(report) => {
                    return Ended { outcome: report.stop.into(), attempts: Some(report.attempts) };
                }
            }
        }
    }

    fn observed(&self) -> Observed {
        let now = self.clock.now();
        let counts = self.policy.counts(now);
        Observed {
            requests: counts.requests,
            accepts: counts.accepts,
            retries: counts.retries,
            reject_probability: self.policy.reject_probability(now),
        }
    }
}
