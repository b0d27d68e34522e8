//! The clock of embassy-time, set by hand, and a client that is as exact as the clock.
#![allow(dead_code, reason = "each of the tests has its own part of it")]

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use embassy_time::MockDriver;
use forbear::testing::ScriptedRng;
use forbear::{Config, ConfigBuilder, Counts, Reply};
use forbear_embassy::Client;

pub(crate) type Api = Client<ScriptedRng<'static>>;

/// No draw is rejected, and every jitter is the longest.
pub(crate) const HIGH: &[u64] = &[u64::MAX];

pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;

/// embassy-time has one clock for the whole program: a test holds it until its end.
pub(crate) fn clock() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    MockDriver::get().reset();
    alone
}

pub(crate) fn pass(time: Duration) {
    MockDriver::get().advance(time.try_into().unwrap());
}

pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) fn api(change: impl Fn(ConfigBuilder) -> ConfigBuilder) -> Api {
    // One request is enough for one retry, and waits are as told.
    let builder = Config::resilient().to_builder().retry_after_jitter(false);
    Client::new(change(builder).build().unwrap(), ScriptedRng::new(HIGH))
}

/// Requests, accepts, retries, and retries that wait.
pub(crate) fn counts(api: &Api) -> (u32, u32, u32, u32) {
    let Counts { requests, accepts, retries, waiting, .. } = api.counts();
    (requests, accepts, retries, waiting)
}

/// The reply itself is the error.
pub(crate) fn classify<T>(result: &Result<T, Reply>) -> Reply {
    match result {
        Ok(_) => Reply::ACCEPTED,
        Err(reply) => *reply,
    }
}
