//! One retry decided and counted, and the delay before it, beside the peers.

use core::hint::black_box;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use aws_smithy_runtime::client::retries::strategy::StandardRetryStrategy;
use aws_smithy_runtime::client::retries::{MAXIMUM_CAPACITY, TokenBucket};
use aws_smithy_runtime_api::client::interceptors::context::{Input, InterceptorContext};
use aws_smithy_runtime_api::client::orchestrator::OrchestratorError;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};
use aws_smithy_runtime_api::client::retries::{RequestAttempts, RetryStrategy, ShouldAttempt};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_types::config_bag::{ConfigBag, Layer};
use aws_smithy_types::retry::RetryConfig;
use backon::BackoffBuilder;
use forbear::budget::{RetryRatio, allows_retry};
use forbear::rand_core::Rng;
use forbear::{Backoff, Call, Clock, Config, Handle, Reply, Step, Tally};
use forbear_benches::{Bench, Case, Chain};
use forbear_std::{Client, SharedWindow, SystemClock, ThreadRng};
use google_cloud_gax::error::Error;
use google_cloud_gax::retry_result::RetryResult;
use google_cloud_gax::retry_throttler::{AdaptiveThrottler, SharedRetryThrottler};
use tower::retry::backoff::{Backoff as _, ExponentialBackoffMaker, MakeBackoff};
use tower::retry::budget::{Budget, TpsBudget};
use tower::util::rng::HasherRng;
use tower_resilience_retry::RetryBudgetBuilder;

/// One call that meets overload again and again: each round is told the reply, decides the retry by the budget, counts it
/// and passes the throttle. A healthy client in all but that: one accept, and a K that makes it stand for many.
fn retry() -> Case<'static> {
    let config = Config::overload().to_builder().k(1e9).retry_ratio(2.0).max_attempts(u32::MAX);
    let client = Client::new(config.build().expect("all are allowed"));
    Case::new("one retry of a call: reply told, decided, counted, sent", move |bencher| {
        client.policy().window().answer(0, client.time().second(), true);
        let mut call = Call::new(black_box(&client));
        let mut rng = ThreadRng;
        let Step::Send { .. } = call.next(client.time(), &mut rng) else { panic!("the first attempt is sent") };
        bencher.iter(|| {
            let now = client.time();
            call.reply(now, Reply::OVERLOADED);
            let Step::Send { .. } = call.next(now, &mut rng) else { panic!("every retry is sent") };
        });
    })
}

/// The same two steps by themselves: what the budget of a peer does.
fn reserve_and_count() -> Case<'static> {
    let window = SharedWindow::default();
    let ratio = RetryRatio::new(2.0).expect("two is allowed");
    Case::new("clock read, one retry reserved and counted", move |bencher| {
        window.request(SystemClock.coarse().second());
        bencher.iter(|| {
            let second = SystemClock.coarse().second();
            let window = black_box(&window);
            window.reserve(second, |retries, requests| allows_retry(retries, requests, ratio)).expect("allowed");
            window.retry(second)
        });
    })
}

fn withdraw() -> Case<'static> {
    let budget = TpsBudget::new(Duration::from_secs(10), i32::MAX as u32 - 1, 0.1);
    Case::new("tower: TpsBudget::withdraw", move |bencher| {
        bencher.iter(|| assert!(black_box(&budget).withdraw(), "the reserve suffices"));
    })
}

fn tower_resilience() -> Case<'static> {
    let budget =
        RetryBudgetBuilder::new().token_bucket().max_tokens(usize::MAX / 2).build().expect("any number is allowed");
    Case::new("tower-resilience: RetryBudget::try_withdraw of the token bucket", move |bencher| {
        bencher.iter(|| assert!(budget.try_withdraw(), "the tokens suffice"));
    })
}

#[derive(Debug)]
struct Retryable;

impl ClassifyRetry for Retryable {
    fn classify_retry(&self, _: &InterceptorContext) -> RetryAction {
        RetryAction::server_error()
    }

    fn name(&self) -> &'static str {
        "retryable"
    }
}

fn aws_smithy() -> Case<'static> {
    let components = RuntimeComponentsBuilder::for_tests()
        .with_retry_classifier(Retryable)
        .build()
        .expect("the components for tests are complete");
    let mut context = InterceptorContext::new(Input::doesnt_matter());
    context.set_output_or_error(Err(OrchestratorError::other("overloaded")));
    Case::new("aws-smithy: StandardRetryStrategy::should_attempt_retry with its TokenBucket", move |bencher| {
        let mut layer = Layer::new("retries");
        layer
            .store_put(RetryConfig::standard().with_max_attempts(u32::MAX))
            .store_put(TokenBucket::new(MAXIMUM_CAPACITY))
            .store_put(RequestAttempts::new(1));
        let config = ConfigBag::of_layers(vec![layer]);
        let strategy = StandardRetryStrategy::new();
        bencher.iter(|| {
            let answer = strategy.should_attempt_retry(&context, &components, &config);
            assert!(matches!(answer, Ok(ShouldAttempt::YesAfterDelay(_))), "the tokens suffice");
        });
    })
}

fn google_cloud_gax() -> Case<'static> {
    let throttler: SharedRetryThrottler = Arc::new(Mutex::new(AdaptiveThrottler::default()));
    let overloaded = RetryResult::Continue(Error::io("overloaded"));
    Case::new("google-cloud-gax: AdaptiveThrottler::on_retry_failure, throttle_retry_attempt", move |bencher| {
        bencher.iter(|| {
            throttler.lock().expect("nobody panics").on_retry_failure(&overloaded);
            black_box(throttler.lock().expect("nobody panics").throttle_retry_attempt())
        });
    })
}

/// The delays before the first three retries.
fn delays() -> Case<'static> {
    let backoff = Backoff::DEFAULT;
    Case::new("Backoff::delay, three retries", move |bencher| {
        bencher.iter(|| [1, 2, 3].map(|sends| black_box(backoff).delay(sends, ThreadRng.next_u64())));
    })
}

fn backon_delays() -> Case<'static> {
    let builder = backon::ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(2))
        .with_jitter();
    Case::new("backon: ExponentialBackoff::next with jitter, three retries", move |bencher| {
        bencher.iter(|| {
            let mut delays = black_box(builder).build();
            [(); 3].map(|()| delays.next().expect("three delays"))
        });
    })
}

/// There is no delay to be had from tower's backoff but as a sleep of tokio, which is made and dropped here.
fn tower_delays() -> Case<'static> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut maker =
        ExponentialBackoffMaker::new(Duration::from_millis(100), Duration::from_secs(2), 0.99, HasherRng::default())
            .expect("the delays are in order");
    Case::new("tower: ExponentialBackoff::next_backoff (a sleep, not awaited), three retries", move |bencher| {
        let _entered = runtime.enter();
        bencher.iter(|| {
            let mut delays = maker.make_backoff();
            for _ in 0..3 {
                drop(black_box(delays.next_backoff()));
            }
        });
    })
}

fn main() {
    let mut bench = Bench::new("retries", env!("CARGO_TARGET_TMPDIR"));

    let chain = Chain::by(withdraw())
        .at_most(1.0, "retry_vs_withdraw", retry())
        .ratio("reserve_and_count_vs_withdraw", reserve_and_count());
    bench.chain("withdraw", chain);

    let chain = Chain::of(retry())
        .ratio("retry_vs_tower_resilience", tower_resilience())
        .ratio("retry_vs_aws_smithy", aws_smithy())
        .ratio("retry_vs_google_cloud_gax", google_cloud_gax());
    bench.chain("retry", chain);

    let chain = Chain::of(delays())
        .ratio("backoff_delay_vs_backon", backon_delays())
        .ratio("backoff_delay_vs_tower", tower_delays());
    bench.chain("backoff", chain);
}
