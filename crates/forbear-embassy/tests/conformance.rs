//! The client for firmware against the vectors, on embassy-time's mock clock.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use embassy_time::{Duration, Instant, MockDriver};
use forbear::rand_core::Rng;
use forbear::{Config, Reply, Tally, Window};
use forbear_conformance::{
    Client as Tested, Conformance, Ended, Observed, Outcome, SharedClock, SharedScript, Subject,
};
use forbear_embassy::{Attempts, Client, CriticalSectionRawMutex, NoopRawMutex, Shared};

fn main() -> ExitCode {
    Conformance::default()
        .overload::<OneExecutor>()
        .overload::<AnyTask>()
        .retry::<OneExecutor>()
        .combined::<OneExecutor>()
        .combined::<AnyTask>()
        .run()
}

/// Shared by the tasks of one executor.
struct OneExecutor;

impl Subject for OneExecutor {
    const NAME: &'static str = "forbear_embassy::Client<NoopRawMutex, Window>";
    const LATE_MICROS: u64 = 2;

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Tested> {
        let client: Client<_, NoopRawMutex, _> = Client::with_window(config, script, Window::<N>::of_len());
        Box::new(Device { client, clock })
    }
}

/// Shared by any task, over the compact window.
struct AnyTask;

impl Subject for AnyTask {
    const NAME: &'static str = "forbear_embassy::Client<CriticalSectionRawMutex, Window<u16>>";
    const LATE_MICROS: u64 = 2;

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Tested> {
        let client: Client<_, CriticalSectionRawMutex, _> =
            Client::with_window(config, script, Window::<N, u16>::of_len());
        Box::new(Device { client, clock })
    }
}

struct Device<C> {
    client: C,
    clock: SharedClock,
}

/// embassy-time has one clock for the whole program: every test sets it, and has it until it is done.
static CLOCK: Mutex<()> = Mutex::new(());

fn with_clock<T>(shared: &SharedClock, run: impl FnOnce() -> T) -> T {
    let _alone = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    MockDriver::get().reset();
    MockDriver::get().advance(Duration::from_micros(shared.micros()));
    run()
}

/// Takes the time that a send took over to embassy's clock.
fn follow(shared: &SharedClock) {
    MockDriver::get().advance(Instant::from_micros(shared.micros()) - Instant::now());
}

/// Polls until it is ready, while the clock jumps to whatever is waited for.
fn ready<R: Rng, M: embassy_sync::blocking_mutex::raw::RawMutex, W: Tally>(
    attempts: &mut Attempts<'_, R, M, W>,
) -> bool {
    loop {
        let polled = pin!(attempts.ready()).poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Ready(ready) => return ready,
            Poll::Pending => {
                let due = attempts.due().expect("it waits for a time");
                MockDriver::get().advance(due - Instant::now());
            }
        }
    }
}

impl<M, W> Tested for Device<Client<SharedScript, M, W>>
where
    M: embassy_sync::blocking_mutex::raw::RawMutex + 'static,
    W: Tally + 'static,
    Shared<M, W>: Tally,
{
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended {
        with_clock(&self.clock, || {
            let mut attempts = self.client.begin();
            let mut last = None;
            while ready(&mut attempts) {
                self.clock.set_micros(Instant::now().as_micros());
                let reply = send();
                follow(&self.clock);
                attempts.reply(reply);
                last = Some(if reply == Reply::ACCEPTED { Ok(()) } else { Err(()) });
            }
            self.clock.set_micros(Instant::now().as_micros());
            match attempts.finish(last) {
                Ok(()) => Ended { outcome: Outcome::Ok, attempts: None },
                Err(error) => Ended { outcome: error.report().stop.into(), attempts: Some(error.report().attempts) },
            }
        })
    }

    fn observed(&self) -> Observed {
        with_clock(&self.clock, || {
            let counts = self.client.counts();
            Observed {
                requests: counts.requests,
                accepts: counts.accepts,
                retries: counts.retries,
                reject_probability: self.client.reject_probability(),
            }
        })
    }
}
