//! The layer around services of all kinds, on paused time.

use core::error::Error;
use core::future::{Future, pending};
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use forbear_tokio::{
    Backoff, BoxError, Client, Cloned, Config, Counts, Forbear, ForbearLayer, Mode, Protocol, Refused, Reply, Report,
    SharedWindow, Stop, ThreadRng, TimedOut, TokioClock,
};
use tokio::time::{Instant, sleep, timeout};
use tower::limit::ConcurrencyLimitLayer;
use tower::timeout::TimeoutLayer;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

type TestClient = Client<TokioClock, ThreadRng, SharedWindow>;

const SECOND: Duration = Duration::from_secs(1);

/// Never throttles, and hardly ever runs out of retries.
const WILLING: Config = forbear::config!(Config::overload().to_builder().no_throttle().retry_ratio(10.0));

fn client(config: Config) -> TestClient {
    Client::with(TokioClock::new(), ThreadRng, config, SharedWindow::default())
}

/// Requests are numbers, replies are statuses; a 503 asks for a second. Even requests can be copied, and requests below 10
/// may be repeated. A 409 tells that nothing was done.
#[derive(Clone)]
struct Numbers;

impl Protocol<u32, u16> for Numbers {
    fn copy(&self, request: &mut u32) -> Option<u32> {
        request.is_multiple_of(2).then_some(*request % 100)
    }

    fn reply(&self, result: Result<&u16, &(dyn Error + 'static)>) -> Reply {
        match result {
            Ok(503) => Reply::OVERLOADED.after(SECOND),
            Ok(409) => Reply::OVERLOADED,
            Ok(status) => forbear::http::status(*status),
            Err(_) => Reply::UNREACHABLE,
        }
    }

    fn is_repeatable(&self, request: &u32) -> bool {
        *request < 10
    }

    fn is_unprocessed(&self, result: Result<&u16, &(dyn Error + 'static)>) -> bool {
        matches!(result, Ok(409))
    }

    fn mark(&self, request: &mut u32, attempt: u32) {
        *request += 100 * attempt;
    }
}

/// Answers by script, the last entry for ever, and remembers what it was sent.
#[derive(Clone)]
struct Backend {
    script: &'static [Result<u16, &'static str>],
    sent: Arc<Mutex<Vec<u32>>>,
}

impl Backend {
    fn new(script: &'static [Result<u16, &'static str>]) -> Self {
        Self { script, sent: Arc::default() }
    }

    fn sent(&self) -> Vec<u32> {
        self.sent.lock().unwrap().clone()
    }
}

impl Service<u32> for Backend {
    type Response = u16;
    type Error = BoxError;
    type Future = core::future::Ready<Result<u16, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u32) -> Self::Future {
        let mut sent = self.sent.lock().unwrap();
        sent.push(request);
        let answer = self.script.get(sent.len() - 1).or(self.script.last()).expect("a script");
        core::future::ready(answer.map_err(BoxError::from))
    }
}

fn layered(config: Config, backend: &Backend) -> Forbear<Backend, Numbers, TokioClock> {
    ForbearLayer::new(client(config), Numbers).layer(backend.clone())
}

#[tokio::test(start_paused = true)]
async fn the_last_reply_comes_back_untouched() {
    let start = Instant::now();
    for (script, request, expected, sent) in [
        (&[Ok(200)][..], 2, Ok(200), &[2][..]),
        (&[Ok(503), Ok(503), Ok(200)], 2, Ok(200), &[2, 102, 202]),
        (&[Ok(503)], 2, Ok(503), &[2, 102, 202]),
        (&[Ok(404)], 2, Ok(404), &[2]),
        (&[Err("reset"), Ok(200)], 2, Ok(200), &[2, 102]),
        (&[Ok(503), Err("reset")], 2, Err("reset"), &[2, 102, 202]),
        // It can't be copied, and is sent once.
        (&[Ok(503)], 3, Ok(503), &[3]),
        // It can be copied, but must not be repeated unless it was not worked on.
        (&[Ok(503)], 12, Ok(503), &[12]),
        (&[Err("reset")], 12, Err("reset"), &[12]),
        (&[Ok(409), Ok(200)], 12, Ok(200), &[12, 112]),
    ] {
        let backend = Backend::new(script);
        let answer = layered(WILLING, &backend).oneshot(request).await;
        assert_eq!(answer.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{script:?} {request}");
        assert_eq!(backend.sent(), sent, "{script:?} {request}");
    }
    // Each 503 that was followed by another attempt.
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_repeated_counts_the_same() {
    let client = client(WILLING);
    let layer = ForbearLayer::new(client.clone(), Numbers);
    for (status, accepts) in [(200, 1), (404, 2), (500, 3), (503, 3)] {
        let backend = layer.layer(service_fn(move |_: u32| async move { Ok::<_, BoxError>(status) }));
        assert_eq!(backend.oneshot(12).await.unwrap(), status);
        assert_eq!(client.accepts(), accepts, "{status}");
    }
    assert_eq!((client.requests(), client.retries()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_error_of_its_own() {
    let backend = Backend::new(&[Ok(503)]);
    let mut service = layered(Config::overload(), &backend);
    let mut refused = 0;
    for _ in 0..100 {
        match service.ready().await.unwrap().call(2).await {
            Ok(status) => assert_eq!(status, 503),
            Err(error) => {
                let refusal = error.downcast_ref::<Refused>().expect("nothing else fails");
                assert_eq!((refusal.report().stop, refusal.report().attempts), (Stop::Throttled, 0));
                assert!(error.to_string().starts_with("not sent: the backend accepted 0 of the last"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 50, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn clones_and_other_services_of_the_layer_share_the_client() {
    let client = client(WILLING);
    let layer = ForbearLayer::new(client.clone(), Numbers);
    let backend = Backend::new(&[Ok(200)]);
    let service = layer.layer(backend.clone());
    service.clone().oneshot(2).await.unwrap();
    service.oneshot(2).await.unwrap();
    layer.clone().layer(backend).oneshot(2).await.unwrap();
    assert_eq!((client.requests(), client.accepts()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_in_a_spawned_task() {
    let service = layered(WILLING, &Backend::new(&[Ok(503), Ok(200)]));
    assert_eq!(tokio::spawn(service.oneshot(2)).await.unwrap().unwrap(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_mode_is_switched_while_it_runs() {
    let client = client(Config::overload());
    let service = ForbearLayer::new(client.clone(), Numbers).layer(Backend::new(&[Ok(409)]));
    client.set_mode(Mode::Shadow);
    for _ in 0..20 {
        assert_eq!(service.clone().oneshot(2).await.unwrap(), 409);
    }
    assert_eq!(client.requests(), 60);
    client.set_mode(Mode::Enforce);
    let refused = futures_refused(&service, 20).await;
    assert!(refused > 10, "{refused}");
}

async fn futures_refused(service: &Forbear<Backend, Numbers, TokioClock>, calls: u32) -> u32 {
    let mut refused = 0;
    for _ in 0..calls {
        refused += u32::from(service.clone().oneshot(2).await.is_err_and(|error| error.is::<Refused>()));
    }
    refused
}

/// Every attempt needs a readiness of its own, and only what was found ready is called.
#[derive(Clone)]
struct Fragile {
    /// How long each attempt has to wait until the service is ready for it.
    delays: Arc<Mutex<Vec<Duration>>>,
    waiting: Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>,
    ready: bool,
    sent: Arc<AtomicU32>,
}

impl Fragile {
    fn new(delays: &[Duration]) -> Self {
        let delays = delays.iter().rev().copied().collect();
        Self { delays: Arc::new(Mutex::new(delays)), waiting: Arc::default(), ready: false, sent: Arc::default() }
    }
}

impl Service<u32> for Fragile {
    type Response = u16;
    type Error = BoxError;
    type Future = core::future::Ready<Result<u16, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.ready {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = self.waiting.lock().unwrap();
        let timer = match waiting.as_mut() {
            Some(timer) => timer,
            None => match self.delays.lock().unwrap().pop() {
                Some(delay) => waiting.insert(Box::pin(sleep(delay))),
                None => return Poll::Ready(Err("worn out".into())),
            },
        };
        core::task::ready!(timer.as_mut().poll(cx));
        *waiting = None;
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: u32) -> Self::Future {
        assert!(core::mem::take(&mut self.ready), "called before it was ready");
        self.sent.fetch_add(1, Ordering::SeqCst);
        core::future::ready(Ok(503))
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_is_awaited_before_every_attempt() {
    let (backend, start) = (Fragile::new(&[SECOND, 2 * SECOND, 3 * SECOND]), Instant::now());
    let mut service = ForbearLayer::new(client(WILLING), Numbers).layer(backend.clone());
    assert_eq!(service.ready().await.unwrap().call(2).await.unwrap(), 503);
    assert_eq!(backend.sent.load(Ordering::SeqCst), 3);
    // Six seconds until it is ready, two as the replies say.
    assert_eq!(start.elapsed(), 8 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_to_be_ready_is_not_asked_again() {
    let (backend, client) = (Fragile::new(&[SECOND]), client(WILLING));
    let mut service = ForbearLayer::new(client.clone(), Numbers).layer(backend.clone());
    let error = service.ready().await.unwrap().call(2).await.unwrap_err();
    assert_eq!(error.to_string(), "worn out");
    assert_eq!((backend.sent.load(Ordering::SeqCst), client.requests()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_readiness_is_part_of_the_attempt() {
    let config = WILLING.to_builder().attempt_timeout(5 * SECOND).build().unwrap();
    let (backend, start) = (Fragile::new(&[SECOND, 100 * SECOND]), Instant::now());
    let mut service = ForbearLayer::new(client(config), Numbers).layer(backend.clone());
    // The reply of the first attempt outlives the two that are cut before they are sent.
    assert_eq!(service.ready().await.unwrap().call(2).await.unwrap(), 503);
    assert_eq!((backend.sent.load(Ordering::SeqCst), start.elapsed()), (1, 12 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_not_held_during_the_backoff() {
    let service = ServiceBuilder::new()
        .layer(ForbearLayer::new(client(WILLING), Numbers))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(Backend::new(&[Ok(503), Ok(200)]));
    let (first, second) = (service.clone().oneshot(2), service.oneshot(4));
    let (first, second) = timeout(5 * SECOND, async { tokio::join!(first, second) }).await.unwrap();
    assert_eq!((first.unwrap(), second.unwrap()), (200, 200));
}

/// A permit goes with the call for which it was taken: left with the service, it would keep the call itself waiting.
#[tokio::test(start_paused = true)]
async fn the_service_that_was_found_ready_is_the_one_that_is_called() {
    let mut service = ServiceBuilder::new()
        .layer(ForbearLayer::new(client(WILLING), Numbers))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(Backend::new(&[Ok(503), Ok(200)]));
    for _ in 0..2 {
        let call = service.ready().await.unwrap().call(2);
        assert_eq!(timeout(5 * SECOND, call).await.expect("a permit").unwrap(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_cut_and_sent_again_only_if_it_may_be() {
    let config = WILLING.to_builder().attempt_timeout(SECOND).build().unwrap();
    for (request, attempts) in [(2, 3), (12, 1), (3, 1)] {
        let client = client(config);
        let service =
            ForbearLayer::new(client.clone(), Numbers).layer(service_fn(|_: u32| pending::<Result<u16, BoxError>>()));
        let error = service.oneshot(request).await.unwrap_err();
        assert_eq!(error.downcast_ref::<TimedOut>().expect("it timed out").report().attempts, attempts);
        assert_eq!((client.requests(), client.accepts()), (attempts, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_the_call() {
    let config = WILLING.to_builder().deadline(SECOND / 2).build().unwrap();
    let (backend, start) = (Backend::new(&[Ok(503)]), Instant::now());
    assert_eq!(layered(config, &backend).oneshot(2).await.unwrap(), 503);
    assert_eq!((backend.sent(), start.elapsed()), (vec![2], Duration::ZERO));
}

/// The smaller of both limits cuts an attempt.
#[tokio::test(start_paused = true)]
async fn a_deadline_shorter_than_the_attempt_timeout_cuts_the_attempt() {
    for (deadline, attempt_timeout, attempts, stop) in [(2, 5, 1, Stop::Deadline), (5, 2, 3, Stop::AttemptsSpent)] {
        let config = WILLING.to_builder().deadline(deadline * SECOND).attempt_timeout(attempt_timeout * SECOND);
        let config = config.backoff(Backoff::new(SECOND / 10, SECOND / 10));
        let hanging = service_fn(|_: u32| pending::<Result<u16, BoxError>>());
        let service = ForbearLayer::new(client(config.build().unwrap()), Numbers).layer(hanging);
        let start = Instant::now();
        let error = service.oneshot(2).await.unwrap_err();
        let report = error.downcast_ref::<TimedOut>().expect("it timed out").report();
        assert_eq!((report.attempts, report.stop), (attempts, stop));
        // The third attempt gets what is left of the deadline, and timers round up to a millisecond.
        assert!(start.elapsed().abs_diff(deadline * SECOND) < SECOND / 100, "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_is_off_retries_and_refuses_nothing() {
    let client = client(Config::overload());
    client.set_mode(Mode::Off);
    let backend = Backend::new(&[Ok(409)]);
    let service = ForbearLayer::new(client.clone(), Numbers).layer(backend.clone());
    assert_eq!(futures_refused(&service, 50).await, 0);
    assert_eq!((backend.sent().len(), client.counts()), (150, Counts::ZERO));
}

/// Panics where it is told to: `ready` when it is asked for the second time, as the first is before the call begins.
#[derive(Clone)]
struct Panicking {
    at: &'static str,
    asked: u32,
}

impl Service<u32> for Panicking {
    type Response = u16;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<u16, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.asked += 1;
        assert!(self.at != "ready" || self.asked < 2, "not ready");
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: u32) -> Self::Future {
        assert_ne!(self.at, "call");
        let at = self.at;
        Box::pin(async move {
            assert_ne!(at, "future");
            Ok(200)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_panics_stays_counted_and_leaves_the_client_usable() {
    let stops = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let stops = stops.clone();
        move |report: &Report| stops.lock().unwrap().push(report.stop)
    };
    let client = client(WILLING).observed(observer);
    for (number, at) in ["ready", "call", "future"].into_iter().enumerate() {
        let service = ForbearLayer::new(client.clone(), Numbers).layer(Panicking { at, asked: 0 });
        assert!(tokio::spawn(service.oneshot(2)).await.unwrap_err().is_panic(), "{at}");
        assert_eq!((client.requests() as usize, client.accepts(), client.counts().waiting), (number + 1, 0, 0), "{at}");
    }
    assert_eq!(*stops.lock().unwrap(), [Stop::Abandoned; 3]);
    let service = ForbearLayer::new(client, Numbers).layer(Panicking { at: "", asked: 0 });
    assert_eq!(service.oneshot(2).await.unwrap(), 200);
}

/// What a service must be to stand anywhere in a stack.
#[tokio::test(start_paused = true)]
async fn it_fits_between_other_layers() {
    fn is_shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn is_sent<T: Send + 'static>(_: &T) {}

    let client = client(WILLING);
    let mut service = ServiceBuilder::new()
        .buffer(8)
        .concurrency_limit(4)
        .layer(ForbearLayer::new(client.clone(), Numbers))
        .buffer(8)
        .concurrency_limit(1)
        .service(Backend::new(&[Ok(503), Ok(200)]));
    is_shared(&service);
    assert_eq!(service.ready().await.unwrap().call(2).await.unwrap(), 200);

    let mut service = ForbearLayer::new(client.clone(), Numbers).layer(Backend::new(&[Ok(200)]));
    is_shared(&service);
    is_sent(&service.call(2));
    let boxed =
        BoxCloneSyncService::new(ForbearLayer::new(client.clone(), Numbers).layer(BoxCloneSyncService::new(service)));
    // One call inside of another.
    assert_eq!(boxed.clone().oneshot(2).await.unwrap(), 200);
    assert_eq!((client.requests(), client.accepts()), (4, 3));
}

/// However a refusal is wrapped on its way, it is found.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_found_behind_other_layers() {
    let config = Config::overload().to_builder().k(0.0).build().unwrap();
    let service = ServiceBuilder::new()
        .buffer(8)
        .layer(TimeoutLayer::new(SECOND))
        .layer(ForbearLayer::new(client(config), Numbers))
        .service(Backend::new(&[Ok(200)]));
    let mut refused = 0;
    for _ in 0..50 {
        refused += u32::from(service.clone().oneshot(2).await.is_err_and(|error| error.is::<Refused>()));
    }
    assert!(refused > 25, "{refused}");
}

#[tokio::test]
async fn a_thousand_calls_at_once_are_counted_each() {
    let client = Client::new(WILLING);
    let service = ForbearLayer::new(client.clone(), Numbers).layer(service_fn(|request: u32| async move {
        tokio::task::yield_now().await;
        Ok::<_, BoxError>(if request < 100 { 409 } else { 200 })
    }));
    let calls: Vec<_> = (0..1000).map(|_| tokio::spawn(service.clone().oneshot(2))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), 200);
    }
    let Counts { requests, accepts, retries, waiting, .. } = client.counts();
    assert_eq!((requests, accepts, retries, waiting), (2000, 1000, 1000, 0));
}

/// Below the layer a timeout is an error like others; above it the call is dropped, and counts if it is older than the
/// grace of a second.
#[tokio::test(start_paused = true)]
async fn a_hanging_backend_behind_towers_timeout_is_throttled() {
    let hanging = service_fn(|_: u32| pending::<Result<u16, BoxError>>());
    let below = {
        let layer = ForbearLayer::new(client(Config::resilient()), Numbers);
        ServiceBuilder::new().layer(layer).layer(TimeoutLayer::new(SECOND / 20)).service(hanging)
    };
    let above = {
        let layer = ForbearLayer::new(client(Config::resilient()), Numbers);
        ServiceBuilder::new().map_err(BoxError::from).layer(TimeoutLayer::new(2 * SECOND)).layer(layer).service(hanging)
    };
    let (mut refused_below, mut refused_above) = (0, 0);
    for _ in 0..100 {
        refused_below += u32::from(below.clone().oneshot(12).await.unwrap_err().is::<Refused>());
        refused_above += u32::from(above.clone().oneshot(12).await.unwrap_err().is::<Refused>());
    }
    assert!(refused_below > 60 && refused_above > 60, "{refused_below}, {refused_above}");
}

#[tokio::test(start_paused = true)]
async fn a_fresh_client_sends_its_first_hundred_calls() {
    let service = ForbearLayer::new(client(Config::resilient()), Numbers).layer(service_fn(|_: u32| async {
        sleep(SECOND / 10).await;
        Ok::<_, BoxError>(200)
    }));
    let calls: Vec<_> = (0..100).map(|_| tokio::spawn(service.clone().oneshot(2))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn the_observer_is_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let told = told.clone();
        move |report: &Report| told.lock().unwrap().push((report.stop, report.attempts))
    };
    let layer = ForbearLayer::new(client(WILLING).observed(observer), Numbers);
    layer.layer(Backend::new(&[Ok(503), Ok(200)])).oneshot(2).await.unwrap();
    layer.layer(Backend::new(&[Ok(503)])).oneshot(2).await.unwrap();
    layer.layer(Backend::new(&[Ok(503)])).oneshot(12).await.unwrap();
    let hanging = layer.layer(service_fn(|_: u32| pending::<Result<u16, BoxError>>()));
    assert!(timeout(SECOND, hanging.oneshot(2)).await.is_err());
    drop(layer.layer(Backend::new(&[Ok(200)])).call(2)); // not begun
    let expected = [(Stop::Accepted, 2), (Stop::AttemptsSpent, 3), (Stop::Final, 1), (Stop::Abandoned, 1)];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn any_request_that_can_be_cloned() {
    let protocol = Cloned(|result: Result<&u16, &(dyn Error + 'static)>| {
        result.map_or(Reply::UNREACHABLE, |status| forbear::http::status(*status))
    });
    let backend = Backend::new(&[Ok(503), Ok(200)]);
    let service = ForbearLayer::new(client(WILLING), protocol).layer(backend.clone());
    assert_eq!(service.oneshot(7).await.unwrap(), 200);
    assert_eq!(backend.sent(), [7, 7]);
}

/// Dropping at each point: before the first poll, in the first attempt, in its wait, before the retry is ready, in the
/// retry.
mod dropped {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    /// Each attempt takes a second and answers 503, the second one hangs.
    async fn drop_after(client: &TestClient, time: Duration) -> (u32, u32, u32, u32) {
        let sent = Arc::new(AtomicU32::new(0));
        let service = ForbearLayer::new(client.clone(), Numbers).layer(service_fn(move |_: u32| {
            let sent = sent.clone();
            async move {
                sleep(SECOND).await;
                if sent.fetch_add(1, Ordering::SeqCst) > 0 {
                    pending::<()>().await;
                }
                Ok::<_, BoxError>(503)
            }
        }));
        left_by(client, service, time).await
    }

    async fn left_by<S>(client: &TestClient, service: S, time: Duration) -> (u32, u32, u32, u32)
    where
        S: Service<u32, Response = u16, Error = BoxError>,
    {
        {
            let mut service = service;
            let call = service.ready().await.unwrap().call(2);
            if !time.is_zero() {
                assert!(timeout(time, call).await.is_err());
            }
        }
        let Counts { requests, accepts, retries, waiting, .. } = client.counts();
        (requests, accepts, retries, waiting)
    }

    fn graced() -> TestClient {
        client(WILLING.to_builder().in_flight_grace(GRACE).build().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn before_it_is_polled() {
        assert_eq!(drop_after(&client(WILLING), Duration::ZERO).await, (0, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn in_the_first_attempt() {
        assert_eq!(drop_after(&client(WILLING), SECOND / 2).await, (1, 0, 0, 0));
        assert_eq!(drop_after(&graced(), SECOND / 2).await, (0, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn in_the_wait() {
        assert_eq!(drop_after(&client(WILLING), SECOND * 3 / 2).await, (1, 0, 0, 0));
        assert_eq!(drop_after(&graced(), SECOND * 3 / 2).await, (1, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn before_the_retry_is_ready() {
        let fragile = || Fragile::new(&[Duration::ZERO, 100 * SECOND]);
        for (client, requests) in [(client(WILLING), 2), (graced(), 1)] {
            let service = ForbearLayer::new(client.clone(), Numbers).layer(fragile());
            assert_eq!(left_by(&client, service, SECOND * 3 / 2).await, (requests, 0, 1, 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn in_the_retry() {
        assert_eq!(drop_after(&client(WILLING), SECOND * 5 / 2).await, (2, 0, 1, 0));
        assert_eq!(drop_after(&graced(), SECOND * 5 / 2).await, (1, 0, 1, 0));
        assert_eq!(drop_after(&graced(), SECOND * 9 / 2).await, (2, 0, 1, 0));
    }
}
