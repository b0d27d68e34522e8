//! One call through the tower layer around a service that does nothing, beside tower's own layer for retries.

use core::error::Error;
use core::future::{Future, Ready, ready};
use core::hint::black_box;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use forbear_benches::{Bench, Case, Chain};
use forbear_tokio::{Client, Cloned, Config, ForbearLayer, Reply};
use tower::retry::budget::{Budget, TpsBudget};
use tower::retry::{Policy, RetryLayer};
use tower::{Layer, Service};

/// Answers at once.
#[derive(Clone)]
struct Echo;

impl Service<u32> for Echo {
    type Response = u32;
    type Error = io::Error;
    type Future = Ready<io::Result<u32>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u32) -> Self::Future {
        ready(Ok(request))
    }
}

/// Retries errors within a budget, as the documentation of tower's budgets has it.
#[derive(Clone)]
struct Budgeted(Arc<TpsBudget>);

impl Policy<u32, u32, io::Error> for Budgeted {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut u32, result: &mut io::Result<u32>) -> Option<Ready<()>> {
        match result {
            Ok(_) => {
                self.0.deposit();
                None
            }
            Err(_) => self.0.withdraw().then(|| ready(())),
        }
    }

    fn clone_request(&mut self, request: &u32) -> Option<u32> {
        Some(*request)
    }
}

/// One call from readiness to the response; nothing in it waits, so it is polled once and needs no runtime.
fn call<S: Service<u32, Response = u32>>(service: &mut S) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(service.poll_ready(&mut context), Poll::Ready(Ok(()))));
    let future = pin!(service.call(black_box(1)));
    assert!(matches!(future.poll(&mut context), Poll::Ready(Ok(_))));
}

fn calls<'c, S: Service<u32, Response = u32> + 'c>(what: &'c str, mut service: S) -> Case<'c> {
    Case::new(what, move |bencher| bencher.iter(|| call(&mut service)))
}

fn forbear(what: &'static str, config: Config) -> Case<'static> {
    let protocol = Cloned(|result: Result<&u32, &(dyn Error + 'static)>| match result {
        Ok(_) => Reply::ACCEPTED,
        Err(_) => Reply::OVERLOADED,
    });
    calls(what, ForbearLayer::new(Client::new(config), protocol).layer(Echo))
}

fn main() {
    let mut bench = Bench::new("layer", env!("CARGO_TARGET_TMPDIR"));
    let budget = TpsBudget::new(Duration::from_secs(10), 10, 0.1);
    let retry = RetryLayer::new(Budgeted(Arc::new(budget))).layer(Echo);
    let chain = Chain::by(calls("tower: one ok call through RetryLayer with a TpsBudget", retry))
        .at_most(
            1.0,
            "layer_vs_tower_retry",
            forbear("one ok call through ForbearLayer, Config::overload()", Config::overload()),
        )
        .ratio(
            "layer_resilient_vs_tower_retry",
            forbear("one ok call through ForbearLayer, Config::resilient()", Config::resilient()),
        );
    bench.chain("ok", chain);
}
