//! The client for threads against the vectors.

use std::process::ExitCode;

use forbear::{AtomicWindow, Config, Error, Reply, Tally};
use forbear_conformance::{
    Client as Tested, Conformance, Ended, Observed, Outcome, SharedClock, SharedScript, Subject,
};
use forbear_std::{Client, LockedRng, LockedWindow};

fn main() -> ExitCode {
    Conformance::default()
        .overload::<LockFree>()
        .overload::<Locked>()
        .retry::<LockFree>()
        .retry::<Locked>()
        .combined::<LockFree>()
        .combined::<Locked>()
        .run()
}

/// Over the lock-free window.
struct LockFree;

impl Subject for LockFree {
    const NAME: &'static str = "forbear_std::Client<AtomicWindow>";

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Tested> {
        Box::new(Threads(Client::with(clock, LockedRng::new(script), config, AtomicWindow::<N>::of_len())))
    }
}

/// Over the window behind a mutex.
struct Locked;

impl Subject for Locked {
    const NAME: &'static str = "forbear_std::Client<LockedWindow>";

    fn client<const N: usize>(config: Config, clock: SharedClock, script: SharedScript) -> Box<dyn Tested> {
        Box::new(Threads(Client::with(clock, LockedRng::new(script), config, LockedWindow::<N>::new())))
    }
}

struct Threads<W>(Client<SharedClock, LockedRng<SharedScript>, W>);

impl<W: Tally> Tested for Threads<W> {
    fn call(&mut self, send: &mut dyn FnMut() -> Reply) -> Ended {
        // What the server accepts is the only Ok, so that every other end comes with its report.
        let send = || match send() {
            reply if reply == Reply::ACCEPTED => Ok(()),
            reply => Err(reply),
        };
        match self.0.call(send, |result| result.err().unwrap_or(Reply::ACCEPTED)) {
            Ok(()) => Ended { outcome: Outcome::Ok, attempts: None },
            Err(Error::TimedOut(report)) => panic!("a blocking call is not cut, yet {report}"),
            Err(error) => Ended { outcome: error.report().stop.into(), attempts: Some(error.report().attempts) },
        }
    }

    fn observed(&self) -> Observed {
        Observed {
            requests: self.0.requests(),
            accepts: self.0.accepts(),
            retries: self.0.retries(),
            reject_probability: self.0.reject_probability(),
        }
    }
}
