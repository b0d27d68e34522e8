//! One call on the client for threads, on the real clock, beside what the peers do for one.
//!
//! Everything is asked through a reference that the compiler cannot see through, as what is shared always is.

use core::hint::black_box;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use aws_smithy_runtime::client::retries::TokenBucket;
use aws_smithy_runtime::client::retries::strategy::StandardRetryStrategy;
use aws_smithy_runtime_api::client::interceptors::context::{Input, InterceptorContext, Output};
use aws_smithy_runtime_api::client::retries::{RequestAttempts, RetryStrategy};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_types::config_bag::{ConfigBag, Layer};
use aws_smithy_types::retry::RetryConfig;
use criterion::Bencher;
use failsafe::CircuitBreaker;
use forbear_benches::{Bench, Case, Chain};
use forbear_std::{Client, Config, Reply};
use google_cloud_gax::retry_throttler::{AdaptiveThrottler, SharedRetryThrottler};
use governor::{Quota, RateLimiter};
use tower::retry::budget::{Budget, TpsBudget};
use tower_resilience_retry::RetryBudgetBuilder;

fn classify(result: &Result<u32, u32>) -> Reply {
    match result {
        Ok(_) => Reply::ACCEPTED,
        Err(_) => Reply::OVERLOADED,
    }
}

fn ok_call(what: &'static str, config: Config) -> Case<'static> {
    let client = Client::new(config);
    Case::new(what, move |bencher| bencher.iter(|| black_box(black_box(&client).call(|| Ok(black_box(1)), classify))))
}

fn std_ok() -> Case<'static> {
    ok_call("one ok call, Config::overload()", Config::overload())
}

/// A client whose window holds a million refused requests: it refuses all but one in a million.
fn refused_call(what: &'static str, config: Config) -> Case<'static> {
    let client = Client::new(config);
    let call = move || black_box(&client).call(|| Err::<u32, u32>(black_box(1)), classify);
    for _ in 0..1_000_000 {
        let _ = call();
    }
    Case::new(what, move |bencher| bencher.iter(|| black_box(call())))
}

/// The first attempt meets overload and the second is accepted; K and the ratio are such that none is refused.
fn call_with_a_retry() -> Case<'static> {
    let config = Config::overload().to_builder().k(8.0).retry_ratio(1.0).build().expect("both are allowed");
    let client = Client::new(config);
    let _ = client.call(|| Ok(1), classify);
    let call = move || {
        let mut replies = [Err(1), Ok(1)].into_iter();
        black_box(&client).call(|| black_box(replies.next().expect("the second reply is accepted")), classify)
    };
    assert!(call().is_ok());
    Case::new("one call that is retried once, without backoff", move |bencher| bencher.iter(|| black_box(call())))
}

fn deposit() -> Case<'static> {
    let budget = TpsBudget::new(Duration::from_secs(10), 10, 0.1);
    Case::new("tower: TpsBudget::deposit", move |bencher| bencher.iter(|| black_box(&budget).deposit()))
}

fn tower_resilience() -> Case<'static> {
    let budget = RetryBudgetBuilder::new().token_bucket().build().expect("the defaults are allowed");
    Case::new("tower-resilience: RetryBudget::deposit of the token bucket", move |bencher| {
        bencher.iter(|| black_box(&budget).deposit());
    })
}

/// The bucket's own operations are private to its crate; the strategy that an SDK client runs around it is not.
fn aws_smithy() -> Case<'static> {
    let components = RuntimeComponentsBuilder::for_tests().build().expect("the components for tests are complete");
    let mut layer = Layer::new("retries");
    layer.store_put(RetryConfig::standard()).store_put(TokenBucket::default()).store_put(RequestAttempts::new(1));
    let config = ConfigBag::of_layers(vec![layer]);
    let mut context = InterceptorContext::new(Input::doesnt_matter());
    context.set_output_or_error(Ok(Output::doesnt_matter()));
    let strategy = StandardRetryStrategy::new();
    Case::new(
        "aws-smithy: StandardRetryStrategy with its TokenBucket, both questions about one ok call",
        move |bencher| {
            bencher.iter(|| {
                let first = black_box(&strategy).should_attempt_initial_request(&components, &config);
                black_box((first, black_box(&strategy).should_attempt_retry(&context, &components, &config)))
            });
        },
    )
}

fn google_cloud_gax() -> Case<'static> {
    let throttler: SharedRetryThrottler = Arc::new(Mutex::new(AdaptiveThrottler::default()));
    Case::new("google-cloud-gax: AdaptiveThrottler::on_success under the mutex it is shared by", move |bencher| {
        bencher.iter(|| black_box(&throttler).lock().expect("nobody panics").on_success());
    })
}

fn governor() -> Case<'static> {
    let limiter = RateLimiter::direct(Quota::per_second(NonZeroU32::MAX));
    Case::new("governor: RateLimiter::check, within the quota", move |bencher| {
        bencher.iter(|| black_box(black_box(&limiter).check()));
    })
}

fn failsafe_ok() -> Case<'static> {
    let breaker = failsafe::Config::new().build();
    Case::new("failsafe: one ok call, closed", move |bencher| {
        bencher.iter(|| black_box(black_box(&breaker).call(|| Ok::<u32, u32>(black_box(1)))));
    })
}

fn failsafe_refused() -> Case<'static> {
    let backoff = failsafe::backoff::constant(Duration::from_secs(3_600));
    let policy = failsafe::failure_policy::consecutive_failures(1, backoff);
    let breaker = failsafe::Config::new().failure_policy(policy).build();
    let call = move || black_box(&breaker).call(|| Err::<u32, u32>(black_box(1)));
    let _ = call();
    assert!(matches!(call(), Err(failsafe::Error::Rejected)));
    Case::new("failsafe: one refused call, open", move |bencher| bencher.iter(|| black_box(call())))
}

fn recloser_ok() -> Case<'static> {
    let breaker = recloser::Recloser::default();
    Case::new("recloser: one ok call, closed", move |bencher| {
        bencher.iter(|| black_box(black_box(&breaker).call(|| Ok::<u32, u32>(black_box(1)))));
    })
}

fn recloser_refused() -> Case<'static> {
    let breaker = recloser::Recloser::custom().closed_len(1).open_wait(Duration::from_secs(3_600)).build();
    let call = move || black_box(&breaker).call(|| Err::<u32, u32>(black_box(1)));
    let _ = (call(), call());
    assert!(matches!(call(), Err(recloser::Error::Rejected)));
    Case::new("recloser: one refused call, open", move |bencher| bencher.iter(|| black_box(call())))
}

fn fetch_add() -> Case<'static> {
    let counter = AtomicU64::new(0);
    Case::new("AtomicU64::fetch_add", move |bencher: &mut Bencher<'_>| {
        bencher.iter(|| black_box(black_box(&counter).fetch_add(1, Ordering::AcqRel)));
    })
}

fn instant_now() -> Case<'static> {
    Case::new("std::time::Instant::now", |bencher| bencher.iter(Instant::now))
}

fn main() {
    let mut bench = Bench::new("calls", env!("CARGO_TARGET_TMPDIR"));
    let resilient = Config::resilient();
    let once = resilient.to_builder().max_attempts(1).build().expect("one attempt is allowed");

    let chain = Chain::by(deposit())
        .at_most(0.6, "std_ok_1t_vs_deposit", std_ok())
        .ratio("std_ok_resilient_1t_vs_deposit", ok_call("one ok call, Config::resilient()", resilient))
        .ratio("std_refused_vs_deposit", refused_call("one refused call, Config::overload()", Config::overload()))
        .ratio("std_refused_resilient_vs_deposit", refused_call("one refused call, Config::resilient()", once))
        .ratio("std_with_retry_vs_deposit", call_with_a_retry());
    bench.chain("deposit", chain);

    let chain = Chain::of(std_ok())
        .ratio("std_ok_1t_vs_tower_resilience", tower_resilience())
        .ratio("std_ok_1t_vs_aws_smithy", aws_smithy())
        .ratio("std_ok_1t_vs_google_cloud_gax", google_cloud_gax())
        .ratio("std_ok_1t_vs_governor", governor())
        .ratio("std_ok_1t_vs_failsafe", failsafe_ok())
        .ratio("std_ok_1t_vs_recloser", recloser_ok())
        .ratio("std_ok_1t_vs_fetch_add", fetch_add())
        .ratio("std_ok_1t_vs_instant_now", instant_now());
    bench.chain("ok", chain);

    let chain = Chain::of(refused_call("one refused call, Config::overload()", Config::overload()))
        .ratio("std_refused_vs_failsafe", failsafe_refused())
        .ratio("std_refused_vs_recloser", recloser_refused());
    bench.chain("refused", chain);
}
