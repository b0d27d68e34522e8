//! The async client against the vectors.

use core::future::{Future, poll_fn, ready};
use core::pin::pin;
use core::task::Poll;
use std::process::ExitCode;

use forbear::{AtomicWindow, Config, Error, Reply, Sleep, Tally};
use forbear_conformance::{
    Client as Tested, Conformance, Ended, Observed, Outcome, SharedClock, SharedScript, Subject,
};
use forbear_std::{LockedRng, LockedWindow};
use forbear_tokio::{Attempts, Client};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

fn main() -> ExitCode {
    Conformance::default()
        .overload::<Calls>()
        .overload::<Loops>()
        .overload::<Locked>()
        .retry::<Loops>()
        .retry::<Locked>()
        .combined::<Loops>()
        .combined::<Locked>()
        .run()
}

/// [`Client::call`]. Tokio's timer rounds up to a millisecond, so it runs those vectors that do not wait.
struct Calls;

impl Subject for Calls {
    const NAME: &'static str = "forbear_tokio::Client::call";

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Tested> {
        Box::new(Tasks::new(Client::with(clock, LockedRng::new(script), config, AtomicWindow::<N>::of_len()), call))
    }
}

/// The loop of the caller's own, in which [`Client::call`] runs as well. It tells exactly until when it waits.
struct Loops;

impl Subject for Loops {
    const NAME: &'static str = "forbear_tokio::Attempts<AtomicWindow>";

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Tested> {
        Box::new(Tasks::new(Client::with(clock, LockedRng::new(script), config, AtomicWindow::<N>::of_len()), attempts))
    }
}

/// The same over the window behind a mutex.
struct Locked;

impl Subject for Locked {
    const NAME: &'static str = "forbear_tokio::Attempts<LockedWindow>";

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Tested> {
        Box::new(Tasks::new(Client::with(clock, LockedRng::new(script), config, LockedWindow::<N>::new()), attempts))
    }
}

type TestClient<W> = Client<SharedClock, LockedRng<SharedScript>, W>;

struct Tasks<W> {
    runtime: Runtime,
    client: TestClient<W>,
    run: Run<W>,
}

/// How one call is made.
type Run<W> = fn(&Runtime, &TestClient<W>, &mut dyn FnMut() -> Result<(), Reply>) -> Result<(), Error<Reply>>;

fn call<W: Tally>(
    runtime: &Runtime,
    client: &TestClient<W>,
    send: &mut dyn FnMut() -> Result<(), Reply>,
) -> Result<(), Error<Reply>> {
    runtime.block_on(client.call(|| ready(send()), classify))
}

fn attempts<W: Tally>(
    runtime: &Runtime,
    client: &TestClient<W>,
    send: &mut dyn FnMut() -> Result<(), Reply>,
) -> Result<(), Error<Reply>> {
    runtime.block_on(async {
        let mut call = client.begin();
        let mut last = None;
        while is_ready(&mut call, client.clock()).await {
            let result = call.limit(ready(send())).await.expect("what is ready is not cut");
            call.reply(classify(&result));
            last = Some(result);
        }
        call.finish(last)
    })
}

/// Asks, and if it has to wait moves the clock by just what it waits for.
async fn is_ready<W: Tally>(
    call: &mut Attempts<'_, SharedClock, LockedRng<SharedScript>, W>,
    clock: &SharedClock,
) -> bool {
    let begun = Instant::now();
    let asked = {
        let mut asked = pin!(call.ready());
        poll_fn(|cx| Poll::Ready(asked.as_mut().poll(cx))).await
    };
    match asked {
        Poll::Ready(ready) => ready,
        Poll::Pending => {
            clock.sleep(call.due().expect("it waits") - begun);
            call.ready().await
        }
    }
}

/// What the server accepts is the only Ok, so that every other end comes with its report.
fn classify(result: &Result<(), Reply>) -> Reply {
    result.err().unwrap_or(Reply::ACCEPTED)
}

impl<W> Tasks<W> {
    fn new(client: TestClient<W>, run: Run<W>) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        Self { runtime, client, run }
    }
}

impl<W: Tally> Tested for Tasks<W> {
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended {
        let mut send = || match send() {
            reply if reply == Reply::ACCEPTED => Ok(()),
            reply => Err(reply),
        };
        match (self.run)(&self.runtime, &self.client, &mut send) {
            Ok(()) => Ended { outcome: Outcome::Ok, attempts: None },
            Err(error) => Ended { outcome: error.report().stop.into(), attempts: Some(error.report().attempts) },
        }
    }

    fn observed(&self) -> Observed {
        Observed {
            requests: self.client.requests(),
            accepts: self.client.accepts(),
            retries: self.client.retries(),
            reject_probability: self.client.reject_probability(),
        }
    }
}
