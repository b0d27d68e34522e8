//! The layer over real sockets: what a server sees of its clients, and what they count.

use core::convert::Infallible;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use forbear_tokio::http::{Http, Repeatable, unavailable};
use forbear_tokio::{BoxError, Client, Config, Counts, Forbear, ForbearLayer, Refused, Reply, Report, Stop, TimedOut};
use http::header::{CONTENT_LENGTH, DATE, HeaderName, LOCATION, RETRY_AFTER, TRAILER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Channel, Full, StreamBody};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;
use tower::{Layer, ServiceExt};

/// Never throttles, retries at once, and hardly ever runs out of retries.
const WILLING: Config = forbear::config!(Config::overload().to_builder().no_throttle().retry_ratio(10.0));

/// How long anything may take: far more than it does.
const LONG: Duration = Duration::from_secs(60);

type HttpClient<B> = legacy::Client<HttpConnector, B>;

fn http_client<B>() -> HttpClient<B>
where
    B: http_body::Body<Data: Send> + Send,
{
    legacy::Client::builder(TokioExecutor::new()).build_http()
}

fn layered(client: &Client, http: Http) -> Forbear<HttpClient<Full<Bytes>>, Http> {
    ForbearLayer::new(client.clone(), http).layer(http_client())
}

/// A port that is taken, and on which nobody listens: what connects to it is refused for as long as the socket is held.
fn unheard() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// What arrived of a request.
#[derive(Clone, Debug)]
struct Arrived {
    at: Instant,
    headers: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

/// A server that answers the number of a request, from 0, by a function; what arrived is kept.
struct Server {
    address: SocketAddr,
    arrived: Arc<Mutex<Vec<Arrived>>>,
}

impl Server {
    async fn start(answer: impl Fn(usize) -> Response<Body> + Clone + Send + Sync + 'static) -> Self {
        let arrived = Arc::<Mutex<Vec<Arrived>>>::default();
        let log = arrived.clone();
        let app = Router::new().fallback(async move |request: Request<Body>| {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.expect("a whole body");
            let trailers = body.trailers().cloned();
            let mut log = log.lock().unwrap();
            log.push(Arrived { at: Instant::now(), headers: parts.headers, body: body.to_bytes(), trailers });
            answer(log.len() - 1)
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, arrived }
    }

    async fn answering(statuses: &'static [u16]) -> Self {
        Self::start(|number| status(*statuses.get(number).or(statuses.last()).unwrap())).await
    }

    fn request(&self, method: Method) -> Request<Full<Bytes>> {
        request(self.address, method)
    }

    fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.arrived.lock().unwrap().len()
    }
}

fn status(code: u16) -> Response<Body> {
    Response::builder().status(code).body(Body::empty()).unwrap()
}

fn request(address: SocketAddr, method: Method) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(format!("http://{address}/")).body(Full::from("data")).unwrap()
}

async fn send<S, B, T>(service: &S, request: Request<B>) -> Result<Response<T>, BoxError>
where
    S: tower::Service<Request<B>, Response = Response<T>, Error = BoxError> + Clone,
{
    timeout(LONG, service.clone().oneshot(request)).await.expect("it takes no time")
}

#[tokio::test]
async fn an_overloaded_server_is_spared_by_the_budget() {
    const CALLS: usize = 300;
    let server = Server::answering(&[503]).await;
    let client = Client::new(Config::overload().to_builder().no_throttle().build().unwrap());
    let service = layered(&client, Http::new());
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let (service, address) = (service.clone(), server.address);
            tokio::spawn(async move {
                for _ in 0..CALLS / 3 {
                    let response = send(&service, request(address, Method::GET)).await.unwrap();
                    assert_eq!(response.status(), 503);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let Counts { requests, retries, .. } = client.counts();
    assert_eq!((server.count(), server.count()), (requests as usize, CALLS + retries as usize));
    assert!(retries > 0 && server.count() as f64 <= CALLS as f64 / (1.0 - 0.1) + 1.0, "{}", server.count());
}

#[tokio::test]
async fn a_fresh_client_sends_its_first_hundred_calls() {
    let (server, client) = (Server::answering(&[200]).await, Client::new(Config::resilient()));
    let service = layered(&client, Http::new());
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let (service, request) = (service.clone(), server.request(Method::POST));
            tokio::spawn(async move { send(&service, request).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!((server.count(), client.accepts()), (100, 100));
}

#[tokio::test]
async fn what_is_refused_is_not_sent_and_can_be_answered_with_503() {
    let (server, client) = (Server::answering(&[503]).await, Client::new(Config::overload()));
    let service = layered(&client, Http::new());
    let mut refused = 0;
    for _ in 0..200 {
        let result = send(&service, server.request(Method::POST)).await.map(|response| response.map(Body::new));
        if let Err(error) = &result {
            assert!(error.is::<Refused>());
            refused += 1;
        }
        let answer = result.or_else(|error| error.downcast_ref().map(unavailable).ok_or(error)).unwrap();
        assert_eq!(answer.status(), 503);
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(server.count(), 200 - refused);
    let refusal = loop {
        if let Err(error) = send(&service, server.request(Method::POST)).await {
            break unavailable::<String>(error.downcast_ref().unwrap());
        }
    };
    assert!(refusal.body().starts_with("not sent: the backend accepted 0 of the last"), "{}", refusal.body());
}

#[tokio::test]
async fn only_what_may_be_repeated_is_retried() {
    let unprocessed = || Http::new().rejections_are_unprocessed(true);
    let post = Method::POST;
    for (status, method, header, extension, http, sent, accepts) in [
        (503, Method::GET, None, None, Http::new(), 3, 0),
        (500, Method::PUT, None, None, Http::new(), 3, 3),
        (500, post.clone(), None, None, Http::new(), 1, 1),
        (503, post.clone(), None, None, Http::new(), 1, 0),
        (503, post.clone(), Some("idempotency-key"), None, Http::new(), 3, 0),
        (503, post.clone(), None, Some(Repeatable(true)), Http::new(), 3, 0),
        (503, Method::GET, None, Some(Repeatable(false)), Http::new(), 1, 0),
        (503, post.clone(), None, None, unprocessed(), 3, 0),
        (429, post.clone(), None, None, unprocessed(), 3, 0),
        (500, post.clone(), None, None, unprocessed(), 1, 1),
        (502, post.clone(), None, None, unprocessed(), 1, 0),
        (404, Method::GET, None, None, Http::new(), 1, 1),
        (521, Method::GET, None, None, Http::new(), 1, 1),
        (521, Method::GET, None, None, Http::new().statuses(520..=529, Reply::UNREACHABLE), 3, 0),
        (521, post, None, None, unprocessed().statuses(520..=529, Reply::UNREACHABLE), 1, 0),
        (307, Method::GET, None, None, Http::new(), 1, 1),
    ] {
        let case = format!("{status} {method} {header:?} {extension:?} {http:?}");
        let (server, client) = (Server::start(move |_| self::status(status)).await, Client::new(WILLING));
        let mut request = server.request(method);
        if let Some(name) = header {
            request.headers_mut().insert(HeaderName::from_static(name), "one".parse().unwrap());
        }
        if let Some(repeatable) = extension {
            request.extensions_mut().insert(repeatable);
        }
        let response = send(&layered(&client, http), request).await.unwrap();
        assert_eq!(response.status(), status, "{case}");
        assert_eq!((server.count(), client.requests(), client.accepts()), (sent, sent as u32, accepts), "{case}");
        assert!(server.arrived().iter().all(|arrived| arrived.body == "data"), "{case}");
    }
}

#[tokio::test]
async fn each_method_is_repeated_as_it_may_be() {
    for (method, sent) in [
        ("GET", 3),
        ("HEAD", 3),
        ("OPTIONS", 3),
        ("TRACE", 3),
        ("PUT", 3),
        ("DELETE", 3),
        ("POST", 1),
        ("PATCH", 1),
        ("QUERY", 1),
        ("get", 1),
    ] {
        let (server, client) = (Server::answering(&[503]).await, Client::new(WILLING));
        let request = server.request(method.parse().unwrap());
        assert_eq!(send(&layered(&client, Http::new()), request).await.unwrap().status(), 503, "{method}");
        assert_eq!((server.count(), client.requests(), client.accepts()), (sent, sent as u32, 0), "{method}");
    }
}

/// A server that is told two keys, or none, can't know a request again.
#[tokio::test]
async fn only_one_key_that_says_something_makes_a_request_repeatable() {
    for (keys, sent) in [
        (&["one"][..], 3),
        (&["\"8e03978e-40d5-43dd-bc93-6894a57f9324\""], 3),
        (&["\u{e9}"], 3),
        (&[""], 1),
        (&["\"\""], 1),
        (&["one", "two"], 1),
        (&["one", "one"], 1),
        (&["", "one"], 1),
        (&[], 1),
    ] {
        let server = Server::answering(&[503]).await;
        let mut request = server.request(Method::POST);
        for key in keys {
            let key = http::HeaderValue::from_bytes(key.as_bytes()).unwrap();
            request.headers_mut().append("idempotency-key", key);
        }
        send(&layered(&Client::new(WILLING), Http::new()), request).await.unwrap();
        assert_eq!(server.count(), sent, "{keys:?}");
    }
}

#[tokio::test]
async fn the_last_response_comes_back_untouched() {
    let server = Server::start(|number| {
        let body = if number < 2 { Body::from("busy") } else { Body::from("one, two, three") };
        Response::builder().status(if number < 2 { 503 } else { 200 }).header("x-number", number).body(body).unwrap()
    })
    .await;
    let service = layered(&Client::new(WILLING), Http::new());
    let response = send(&service, server.request(Method::GET)).await.unwrap();
    assert_eq!((response.status(), &response.headers()["x-number"]), (StatusCode::OK, &http::HeaderValue::from(2)));
    assert_eq!(response.collect().await.unwrap().to_bytes(), "one, two, three");
}

#[tokio::test]
async fn a_redirect_is_passed_on() {
    let server =
        Server::start(|_| Response::builder().status(307).header(LOCATION, "/elsewhere").body(Body::empty()).unwrap())
            .await;
    let response = send(&layered(&Client::new(WILLING), Http::new()), server.request(Method::GET)).await.unwrap();
    assert_eq!(response.status(), 307);
    assert_eq!(response.headers()[LOCATION], "/elsewhere");
    assert_eq!(server.count(), 1);
}

mod retry_after {
    use super::*;

    /// Answers 503 once, with these headers.
    async fn server(headers: &'static [(HeaderName, &'static str)]) -> Server {
        Server::start(move |number| {
            let mut response = status(if number == 0 { 503 } else { 200 });
            for (name, value) in headers {
                let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
                response.headers_mut().insert(name, value);
            }
            response
        })
        .await
    }

    /// From the first arrival to the second.
    fn gap(server: &Server) -> Duration {
        let arrived = server.arrived();
        assert_eq!(arrived.len(), 2);
        arrived[1].at.duration_since(arrived[0].at)
    }

    #[tokio::test]
    async fn a_second_is_waited_for() {
        let server = server(&[(RETRY_AFTER, "1")]).await;
        let service = layered(&Client::new(WILLING), Http::new());
        assert_eq!(send(&service, server.request(Method::GET)).await.unwrap().status(), 200);
        assert!(gap(&server) >= Duration::from_secs(1), "{:?}", gap(&server));
    }

    #[tokio::test]
    async fn a_date_is_waited_for() {
        const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
        let server = server(&[(RETRY_AFTER, LATER), (DATE, "Sun, 06 Nov 1994 08:49:37 GMT")]).await;
        let service = layered(&Client::new(WILLING), Http::new());
        assert_eq!(send(&service, server.request(Method::GET)).await.unwrap().status(), 200);
        assert!(gap(&server) >= Duration::from_secs(1), "{:?}", gap(&server));
    }

    /// What is past means now, and what can't be read is not there: either way the retry follows without a wait.
    #[tokio::test]
    async fn the_past_and_the_unreadable_are_not_waited_for() {
        let config = WILLING.to_builder().max_retry_after(Duration::ZERO).build().unwrap();
        for value in [
            "-1",
            "-99999999999999999999",
            "0",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "soon",
            "1.5",
            "1, 2",
            "+1",
            "1s",
            "",
            "\u{fffd}",
            // Dates are in GMT, and in no other zone.
            "Thu, 31 Dec 2099 23:59:59 +0100",
            "Thu, 31 Dec 2099 23:59:59 CET",
            "2099-12-31T23:59:59Z",
        ] {
            let headers: &'static [_] = Vec::leak(vec![(RETRY_AFTER, value)]);
            let server = server(headers).await;
            let service = layered(&Client::new(config), Http::new());
            assert_eq!(send(&service, server.request(Method::GET)).await.unwrap().status(), 200, "{value:?}");
            assert_eq!(server.count(), 2, "{value:?}");
        }
    }

    /// Of two headers the first counts, as if the other were not there.
    #[tokio::test]
    async fn of_two_headers_the_first_counts() {
        let config = WILLING.to_builder().max_retry_after(Duration::ZERO).build().unwrap();
        for (values, sent) in [(["0", "9"], 2), (["9", "0"], 1), (["soon", "9"], 2)] {
            let server = Server::start(move |_| {
                let mut response = status(503);
                for value in values {
                    response.headers_mut().append(RETRY_AFTER, value.parse().unwrap());
                }
                response
            })
            .await;
            let config = config.to_builder().max_attempts(2).build().unwrap();
            send(&layered(&Client::new(config), Http::new()), server.request(Method::GET)).await.unwrap();
            assert_eq!(server.count(), sent, "{values:?}");
        }
    }

    #[tokio::test]
    async fn an_enormous_wait_is_begun_or_ends_the_call() {
        let server = server(&[(RETRY_AFTER, "99999999999999999999")]).await;
        let service = layered(&Client::new(WILLING), Http::new());
        let call = service.oneshot(server.request(Method::GET));
        assert!(timeout(Duration::from_millis(300), call).await.is_err());
        assert_eq!(server.count(), 1);

        let server = super::retry_after::server(&[(RETRY_AFTER, "99999999999999999999")]).await;
        let stops = Arc::new(Mutex::new(Vec::new()));
        let observer = {
            let stops = stops.clone();
            move |report: &Report| stops.lock().unwrap().push(report.stop)
        };
        let service = layered(&Client::new(Config::resilient()).observed(observer), Http::new());
        assert_eq!(send(&service, server.request(Method::GET)).await.unwrap().status(), 503);
        assert_eq!((server.count(), &stops.lock().unwrap()[..]), (1, &[Stop::RetryAfter][..]));
    }
}

mod without_a_response {
    use super::*;

    /// Accepts connections, reads what arrives first, and does with the connection what `then` does.
    async fn breaking<F>(then: impl Fn(tokio::net::TcpStream) -> F + Send + 'static) -> (SocketAddr, Arc<AtomicU32>)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, arrived) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
        let count = arrived.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                if stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {
                    count.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(then(stream));
                }
            }
        });
        (address, arrived)
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_unreachable() {
        for (method, sent) in [(Method::GET, 3), (Method::POST, 1)] {
            let (address, arrived) = breaking(async |_| {}).await;
            let client = Client::new(WILLING);
            let error = send(&layered(&client, Http::new()), request(address, method)).await.unwrap_err();
            assert!(error.is::<legacy::Error>(), "{error}");
            assert_eq!((arrived.load(Ordering::SeqCst), client.requests(), client.accepts()), (sent, sent, 0));
        }
    }

    #[tokio::test]
    async fn a_connection_that_cannot_be_made_is_tried_again_whatever_the_method() {
        let (_held, address) = unheard();
        for uri in [format!("http://{address}/"), "http://no-such-host.invalid/".into()] {
            let client = Client::new(WILLING);
            let request = Request::post(&uri).body(Full::default()).unwrap();
            let error = send(&layered(&client, Http::new()), request).await.unwrap_err();
            assert!(error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect), "{uri}: {error}");
            assert_eq!((client.requests(), client.accepts()), (3, 0), "{uri}");
        }
    }

    #[tokio::test]
    async fn an_attempt_that_hangs_is_cut() {
        for (method, sent) in [(Method::GET, 3), (Method::POST, 1)] {
            let (address, arrived) = breaking(async |stream| {
                core::future::pending::<()>().await;
                drop(stream);
            })
            .await;
            let config = WILLING.to_builder().attempt_timeout(Duration::from_millis(100)).build().unwrap();
            let client = Client::new(config);
            let error = send(&layered(&client, Http::new()), request(address, method)).await.unwrap_err();
            assert_eq!(error.downcast_ref::<TimedOut>().expect("it timed out").report().attempts, sent);
            assert_eq!((arrived.load(Ordering::SeqCst), client.requests(), client.accepts()), (sent, sent, 0));
        }
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_stays_counted() {
        let (address, arrived) = breaking(async |stream| {
            core::future::pending::<()>().await;
            drop(stream);
        })
        .await;
        for (config, counted) in [(WILLING, 1), (Config::resilient(), 0)] {
            let client = Client::new(config);
            let call = layered(&client, Http::new()).oneshot(request(address, Method::GET));
            assert!(timeout(Duration::from_millis(200), call).await.is_err());
            assert_eq!((client.requests(), client.accepts()), (counted, 0));
        }
        assert_eq!(arrived.load(Ordering::SeqCst), 2);
    }

    /// A server of HTTP/2 that resets its first streams for a reason, then answers 200.
    async fn resetting(reason: h2::Reason, resets: u32) -> (SocketAddr, Arc<AtomicU32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, arrived) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
        let count = arrived.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let count = count.clone();
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    while let Some(Ok((_, mut respond))) = connection.accept().await {
                        if count.fetch_add(1, Ordering::SeqCst) < resets {
                            respond.send_reset(reason);
                        } else {
                            respond.send_response(Response::new(()), true).unwrap();
                        }
                    }
                });
            }
        });
        (address, arrived)
    }

    #[tokio::test]
    async fn a_refused_stream_is_sent_again_whatever_the_method() {
        for (reason, method, sent) in [
            (h2::Reason::REFUSED_STREAM, Method::POST, 2),
            (h2::Reason::INTERNAL_ERROR, Method::POST, 1),
            (h2::Reason::INTERNAL_ERROR, Method::GET, 2),
        ] {
            let (address, arrived) = resetting(reason, 1).await;
            let client = Client::new(WILLING);
            let http: HttpClient<Full<Bytes>> =
                legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http();
            let service = ForbearLayer::new(client.clone(), Http::new()).layer(http);
            let answer = send(&service, request(address, method.clone())).await;
            assert_eq!(answer.is_ok(), sent == 2, "{reason:?} {method}");
            assert_eq!((arrived.load(Ordering::SeqCst), client.requests()), (sent, sent), "{reason:?} {method}");
            assert_eq!(client.accepts(), sent - 1, "{reason:?} {method}");
        }
    }
}

#[tokio::test]
async fn a_streaming_upload_is_sent_once_and_arrives_whole() {
    const CHUNKS: usize = 64;
    let server = Server::answering(&[503]).await;
    let client = Client::new(WILLING);
    let service = ForbearLayer::new(client.clone(), Http::new().rebuilding(Body::new)).layer(http_client::<Body>());
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    // Some of it is there before it is sent.
    sender.send(Frame::data(Bytes::from(vec![0; 16 * 1024]))).await.unwrap();
    tokio::spawn(async move {
        for chunk in 1..CHUNKS {
            tokio::task::yield_now().await;
            sender.send(Frame::data(Bytes::from(vec![chunk as u8; 16 * 1024]))).await.unwrap();
        }
    });
    let request = Request::put(format!("http://{}/", server.address)).body(Body::new(body)).unwrap();
    assert_eq!(send(&service, request).await.unwrap().status(), 503);
    let whole: Vec<u8> = (0..CHUNKS).flat_map(|chunk| vec![chunk as u8; 16 * 1024]).collect();
    let arrived = server.arrived();
    assert_eq!((arrived.len(), client.requests()), (1, 1));
    assert!(arrived[0].body == whole, "{} bytes", arrived[0].body.len());
}

#[tokio::test]
async fn a_boxed_body_that_is_at_hand_is_sent_again() {
    for (size, sent) in [(0, 3), (64 * 1024, 3), (64 * 1024 + 1, 1)] {
        let server = Server::answering(&[503]).await;
        let http = Http::new().rebuilding(Body::new);
        let service = ForbearLayer::new(Client::new(WILLING), http).layer(http_client::<Body>());
        let request = Request::put(format!("http://{}/", server.address)).body(Body::from(vec![7; size])).unwrap();
        assert_eq!(send(&service, request).await.unwrap().status(), 503);
        let arrived = server.arrived();
        assert_eq!(arrived.len(), sent, "{size} bytes");
        for arrived in arrived {
            assert!(arrived.body == vec![7; size], "{} of {size} bytes", arrived.body.len());
            let length = arrived.headers.get(CONTENT_LENGTH).map_or("0", |length| length.to_str().unwrap());
            assert_eq!(length, size.to_string());
        }
    }
}

/// What broke off is not made whole: the server must not take the part that it got for all.
#[tokio::test]
async fn a_body_that_breaks_is_not_taken_for_a_whole_one() {
    let (server, client) = (Server::answering(&[200]).await, Client::new(WILLING));
    let service = ForbearLayer::new(client.clone(), Http::new().rebuilding(Body::new)).layer(http_client::<Body>());
    let parts = [Ok("the first half"), Err(std::io::Error::other("the disk is gone"))];
    let body = Body::from_stream(futures_util::stream::iter(parts));
    let request = Request::put(format!("http://{}/", server.address)).body(body).unwrap();
    assert!(send(&service, request).await.is_err());
    assert_eq!((server.count(), client.requests(), client.accepts()), (0, 1, 0));
}

#[tokio::test]
async fn trailers_are_sent_as_often_as_their_body() {
    let server = Server::answering(&[503]).await;
    let service =
        ForbearLayer::new(Client::new(WILLING), Http::new().rebuilding(Body::new)).layer(http_client::<Body>());
    let mut trailers = HeaderMap::new();
    trailers.insert("sum", "7".parse().unwrap());
    let frames = [Frame::data(Bytes::from("data")), Frame::trailers(trailers.clone())].map(Ok::<_, Infallible>);
    let body = Body::new(StreamBody::new(futures_util::stream::iter(frames)));
    let request = Request::put(format!("http://{}/", server.address)).header(TRAILER, "sum").body(body).unwrap();
    send(&service, request).await.unwrap();
    let arrived = server.arrived();
    assert_eq!(arrived.len(), 3);
    assert!(arrived.iter().all(|arrived| arrived.body == "data" && arrived.trailers.as_ref() == Some(&trailers)));
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_again_is_the_same_request() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let service = tower::service_fn(|request: Request<Full<Bytes>>| {
        let head = (request.method().clone(), request.uri().clone(), request.version(), request.headers().clone());
        seen.lock().unwrap().push(head);
        async { Ok::<_, BoxError>(status(503)) }
    });
    let service = ForbearLayer::new(Client::new(WILLING), Http::new()).layer(service);
    let request = Request::put("http://backend/one?two").version(http::Version::HTTP_2).header("x-part", "three");
    assert_eq!(send(&service, request.body(Full::default()).unwrap()).await.unwrap().status(), 503);
    let seen = seen.lock().unwrap();
    assert!(seen.len() == 3 && seen.iter().all(|head| *head == seen[0]), "{seen:?}");
    assert_eq!((&seen[0].0, seen[0].2), (&Method::PUT, http::Version::HTTP_2));
}

#[tokio::test]
async fn a_header_carries_the_attempt() {
    let (server, name) = (Server::answering(&[503]).await, HeaderName::from_static("x-attempt"));
    let service = layered(&Client::new(WILLING), Http::new().attempt_header(name.clone()));
    send(&service, server.request(Method::GET)).await.unwrap();
    let sent: Vec<_> = server.arrived().iter().map(|arrived| arrived.headers[&name].clone()).collect();
    assert_eq!(sent, ["0", "1", "2"]);
}

mod with_reqwest {
    use super::*;

    type Service = Forbear<reqwest::Client, Http>;

    async fn send(service: &Service, request: reqwest::Request) -> Result<reqwest::Response, BoxError> {
        timeout(LONG, service.clone().oneshot(request)).await.expect("it takes no time")
    }

    #[tokio::test]
    async fn requests_are_retried_as_those_of_other_clients() {
        for (method, key, body, sent) in [
            (Method::GET, false, None, 3),
            (Method::POST, false, Some(7), 1),
            (Method::POST, true, Some(7), 3),
            (Method::PUT, false, Some(64 * 1024), 3),
            (Method::PUT, false, Some(64 * 1024 + 1), 1),
        ] {
            let (server, http, client) =
                (Server::answering(&[503]).await, reqwest::Client::new(), Client::new(WILLING));
            let service = ForbearLayer::new(client.clone(), Http::new()).layer(http.clone());
            let mut request = http.request(method.clone(), format!("http://{}/", server.address));
            if key {
                request = request.header("idempotency-key", "one");
            }
            if let Some(size) = body {
                request = request.body(vec![7; size]);
            }
            let response = send(&service, request.build().unwrap()).await.unwrap();
            assert_eq!(response.status(), 503);
            assert_eq!((server.count(), client.requests()), (sent, sent as u32), "{method} {key} {body:?}");
            assert!(server.arrived().iter().all(|arrived| arrived.body.len() == body.unwrap_or(0)));
        }
    }

    #[tokio::test]
    async fn a_connection_that_cannot_be_made_is_tried_again_whatever_the_method() {
        let (_held, address) = unheard();
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let client = Client::new(WILLING);
        let service = ForbearLayer::new(client.clone(), Http::new().follows_redirects(false)).layer(http.clone());
        let error = send(&service, http.post(format!("http://{address}/")).build().unwrap()).await.unwrap_err();
        assert!(error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect), "{error}");
        assert_eq!((client.requests(), client.accepts()), (3, 0));
    }

    #[tokio::test]
    async fn a_backend_that_rejects_before_it_works_is_believed_unless_redirects_are_followed() {
        let unprocessed = Http::new().rejections_are_unprocessed(true);
        for (http_protocol, sent) in [(unprocessed.clone(), 3), (unprocessed.follows_redirects(true), 1)] {
            let (server, http, client) =
                (Server::answering(&[503]).await, reqwest::Client::new(), Client::new(WILLING));
            let service = ForbearLayer::new(client, http_protocol).layer(http.clone());
            let request = http.post(format!("http://{}/", server.address)).build().unwrap();
            assert_eq!(send(&service, request).await.unwrap().status(), 503);
            assert_eq!(server.count(), sent);
        }
    }

    /// The first hop has done the work, and only the second can't be reached.
    #[tokio::test]
    async fn what_a_redirect_hides_is_not_sent_again_unless_there_is_none() {
        let (_held, nobody) = unheard();
        for (http_protocol, sent) in [
            (Http::new(), 1),
            (Http::new().follows_redirects(true), 1),
            // What is said is believed.
            (Http::new().follows_redirects(false), 3),
        ] {
            let server = Server::start(move |_| {
                let location = format!("http://{nobody}/order/1");
                Response::builder().status(303).header(LOCATION, location).body(Body::empty()).unwrap()
            })
            .await;
            let (http, client) = (reqwest::Client::new(), Client::new(WILLING));
            let service = ForbearLayer::new(client.clone(), http_protocol).layer(http.clone());
            let request = http.post(format!("http://{}/order", server.address)).build().unwrap();
            assert!(send(&service, request).await.is_err());
            assert_eq!((server.count(), client.requests(), client.accepts()), (sent, sent as u32, 0));
        }
    }

    /// reqwest follows redirects itself: to the layer they are one attempt.
    #[tokio::test]
    async fn a_redirect_is_part_of_its_attempt() {
        let server = Server::start(|number| match number {
            0 => Response::builder().status(307).header(LOCATION, "/elsewhere").body(Body::empty()).unwrap(),
            _ => status(200),
        })
        .await;
        let (http, client) = (reqwest::Client::new(), Client::new(WILLING));
        let service = ForbearLayer::new(client.clone(), Http::new()).layer(http.clone());
        let request = http.get(format!("http://{}/", server.address)).build().unwrap();
        assert_eq!(send(&service, request).await.unwrap().status(), 200);
        assert_eq!((server.count(), client.requests(), client.accepts()), (2, 1, 1));
    }
}
