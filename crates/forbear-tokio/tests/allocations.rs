//! What a call allocates: nothing by itself, and through the layer no more than one clone of its request.

use core::convert::Infallible;
use core::error::Error;
use core::future::{Future, ready};
use core::hint::black_box;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use bytes::Bytes;
use forbear_tokio::http::Http;
use forbear_tokio::{Client, Cloned, Config, ForbearLayer, Reply};
use http::{Request, Response};
use http_body_util::Full;
use tower::{Layer, Service, service_fn};

/// How often `work` allocates, once it has been done before.
fn allocations(mut work: impl FnMut()) -> u64 {
    work();
    allocation_counter::measure(work).count_total
}

/// What comes without waiting.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// No backoff, so that retries need no timer.
fn client() -> Client {
    Client::new(Config::overload().to_builder().no_throttle().retry_ratio(10.0).build().unwrap())
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(Box::new(7)))), 1);
}

#[test]
fn a_call_allocates_nothing() {
    let client = client();
    let call = |reply: Reply| now(client.call(|| ready(Ok::<_, Infallible>(1)), |_| reply)).unwrap();
    for reply in [Reply::ACCEPTED, Reply::OVERLOADED] {
        assert_eq!(allocations(|| assert_eq!(call(reply), 1)), 0, "{reply:?}");
    }
    assert_eq!(client.requests(), 8);
}

#[test]
fn a_call_through_the_layer_allocates_nothing() {
    let protocol = Cloned(|result: Result<&u16, &(dyn Error + 'static)>| match result {
        Ok(status) => forbear::http::status(*status),
        Err(_) => Reply::UNREACHABLE,
    });
    let mut service =
        ForbearLayer::new(client(), protocol).layer(service_fn(|status: u16| ready(Ok::<_, Infallible>(status))));
    for status in [200, 503] {
        assert_eq!(allocations(|| assert_eq!(now(service.call(status)).unwrap(), status)), 0, "{status}");
    }
}

#[test]
fn an_http_call_allocates_what_a_clone_of_its_request_does() {
    let request = || {
        Request::post("http://127.0.0.1/path?query")
            .header("accept", "text/plain")
            .header("idempotency-key", "one")
            .extension(7)
            .body(Full::new(Bytes::from_static(b"data")))
            .unwrap()
    };
    let mut service = ForbearLayer::new(client(), Http::new()).layer(service_fn(|request: Request<Full<Bytes>>| {
        let status = if request.uri().path() == "/path" { 200 } else { 404 };
        ready(Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap()))
    }));
    let alone = allocations(|| drop(request()));
    let cloned = allocations(|| drop(request().clone())) - alone;
    assert!(cloned > 0);
    let called = allocations(|| assert_eq!(now(service.call(request())).unwrap().status(), 200)) - alone;
    assert_eq!(called, cloned);
}
