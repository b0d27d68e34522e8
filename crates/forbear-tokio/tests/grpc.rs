//! The gRPC layer under tonic's client, over real sockets, against a server that does just what a test says.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use forbear_tokio::grpc::{Grpc, GrpcForbear, GrpcLayer, refusal};
use forbear_tokio::http::Repeatable;
use forbear_tokio::{Client, Config, Reply, Report, Stop};
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;
use tonic::client::Grpc as TonicClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt};

/// Never throttles, retries at once, and hardly ever runs out of retries.
const WILLING: Config = forbear::config!(Config::overload().to_builder().no_throttle().retry_ratio(10.0));

/// How long anything may take: far more than it does.
const LONG: Duration = Duration::from_secs(60);

const PATH: &str = "/test.Test/Ask";

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

/// A port that is taken, and on which nobody listens: what connects to it is refused for as long as the socket is held.
fn unheard() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// What the server does with a call.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// A status without an answer, and the pushback with it.
    TrailersOnly(i32, Option<&'static str>),
    /// An answer, then a status.
    Unary(i32),
    /// An answer, then the end without a status.
    NoStatus,
    /// Headers, and the end with them.
    HeadersOnly,
    /// An answer, then a reset.
    Broken,
    /// An answer, and no end.
    Endless,
    /// No answer at all.
    Hang,
    /// A reset in place of an answer.
    Reset(h2::Reason),
    /// An answer in HTTP.
    Http(u16),
    /// An HTTP status and headers alone.
    Headers(u16, &'static [(&'static str, &'static str)]),
}

use Answer::*;

#[derive(Clone, Debug)]
struct Arrived {
    at: Instant,
    headers: HeaderMap,
    body: Bytes,
}

struct Server {
    address: SocketAddr,
    arrived: Arc<Mutex<Vec<Arrived>>>,
}

impl Server {
    /// Gives these answers in turn, the last one for ever.
    async fn start(answers: &'static [Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, arrived) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Arrived>>>::default());
        let log = arrived.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let log = log.clone();
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let log = log.clone();
                        tokio::spawn(async move {
                            let (parts, mut stream) = request.into_parts();
                            let mut body = Vec::new();
                            while let Some(Ok(data)) = stream.data().await {
                                body.extend_from_slice(&data);
                                stream.flow_control().release_capacity(data.len()).unwrap();
                            }
                            let number = {
                                let mut log = log.lock().unwrap();
                                log.push(Arrived { at: Instant::now(), headers: parts.headers, body: body.into() });
                                log.len() - 1
                            };
                            answer(*answers.get(number).or(answers.last()).unwrap(), respond).await;
                        });
                    }
                });
            }
        });
        Self { address, arrived }
    }

    fn channel(&self) -> Channel {
        channel(self.address)
    }

    fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().unwrap().clone()
    }

    fn count(&self) -> u32 {
        self.arrived.lock().unwrap().len() as u32
    }
}

fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy()
}

async fn answer(answer: Answer, mut respond: SendResponse<Bytes>) {
    let head =
        |status: u16| Response::builder().status(status).header("content-type", "application/grpc").body(()).unwrap();
    let message = Bytes::from_static(b"\0\0\0\0\x06\x0a\x04text");
    match answer {
        TrailersOnly(code, pushback) => {
            let mut head = head(200);
            head.headers_mut().insert("grpc-status", HeaderValue::from(code));
            if let Some(pushback) = pushback {
                head.headers_mut().insert("grpc-retry-pushback-ms", HeaderValue::from_static(pushback));
            }
            respond.send_response(head, true).unwrap();
        }
        Unary(code) => {
            let mut stream = respond.send_response(head(200), false).unwrap();
            stream.send_data(message, false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from(code));
            stream.send_trailers(trailers).unwrap();
        }
        NoStatus => respond.send_response(head(200), false).unwrap().send_data(message, true).unwrap(),
        HeadersOnly => drop(respond.send_response(head(200), true).unwrap()),
        Broken => {
            let mut stream = respond.send_response(head(200), false).unwrap();
            stream.send_data(message, false).unwrap();
            // The reset overtakes what is not yet sent.
            tokio::time::sleep(Duration::from_millis(50)).await;
            stream.send_reset(h2::Reason::INTERNAL_ERROR);
        }
        Endless => {
            let mut stream = respond.send_response(head(200), false).unwrap();
            stream.send_data(message, false).unwrap();
            core::future::pending::<()>().await;
        }
        Hang => core::future::pending::<()>().await,
        Reset(reason) => respond.send_reset(reason),
        Http(status) => drop(respond.send_response(head(status), true).unwrap()),
        Headers(status, headers) => {
            let mut head = head(status);
            for (name, value) in headers {
                head.headers_mut().append(*name, HeaderValue::from_static(value));
            }
            respond.send_response(head, true).unwrap();
        }
    }
}

fn layered(client: &Client, grpc: Grpc, channel: Channel) -> GrpcForbear<Channel> {
    GrpcLayer::new(client.clone(), grpc).layer(channel)
}

fn repeatable() -> Grpc {
    Grpc::new().repeatable([PATH])
}

/// A unary call by tonic's own client.
async fn ask(service: &GrpcForbear<Channel>) -> Result<String, Status> {
    ask_by(service, tonic::Request::new(Text { text: "what is it?".into() })).await
}

async fn ask_by(service: &GrpcForbear<Channel>, request: tonic::Request<Text>) -> Result<String, Status> {
    let mut client = TonicClient::new(service.clone());
    let call = async {
        client.ready().await.unwrap();
        client.unary(request, PATH.parse().unwrap(), ProstCodec::<Text, Text>::default()).await
    };
    let answer = timeout(LONG, call).await.expect("it takes no time")?;
    Ok(answer.into_inner().text)
}

#[tokio::test]
async fn what_may_be_repeated_is_retried_until_it_is_answered() {
    let server = Server::start(&[TrailersOnly(14, None), TrailersOnly(8, None), Unary(0)]).await;
    let client = Client::new(WILLING);
    assert_eq!(ask(&layered(&client, repeatable(), server.channel())).await.unwrap(), "text");
    assert_eq!((client.requests(), client.accepts(), client.retries()), (3, 1, 2));
    let arrived = server.arrived();
    assert!(arrived.iter().all(|sent| &sent.body[..] == b"\0\0\0\0\x0d\x0a\x0bwhat is it?"), "{arrived:?}");
    let previous: Vec<_> = arrived.iter().map(|sent| sent.headers.get("grpc-previous-rpc-attempts")).collect();
    assert_eq!(previous, [None, Some(&HeaderValue::from(1)), Some(&HeaderValue::from(2))]);
}

#[tokio::test]
async fn each_answer_means_what_it_should() {
    let unprocessed = || Grpc::new().rejections_are_unprocessed(true);
    for (answer, grpc, code, sent, accepts) in [
        (TrailersOnly(14, None), Grpc::new(), Code::Unavailable, 1, 0),
        (TrailersOnly(14, None), repeatable(), Code::Unavailable, 3, 0),
        (TrailersOnly(14, None), unprocessed(), Code::Unavailable, 3, 0),
        (TrailersOnly(4, None), repeatable(), Code::DeadlineExceeded, 3, 0),
        (TrailersOnly(4, None), unprocessed(), Code::DeadlineExceeded, 1, 0),
        (TrailersOnly(5, None), repeatable(), Code::NotFound, 1, 1),
        (TrailersOnly(13, None), repeatable(), Code::Internal, 1, 1),
        (TrailersOnly(13, None), repeatable().code(13, Reply::TRANSIENT), Code::Internal, 3, 3),
        (TrailersOnly(14, Some("-1")), repeatable(), Code::Unavailable, 1, 0),
        (TrailersOnly(14, Some("0")), repeatable(), Code::Unavailable, 3, 0),
        // After the answer the call counts the same, but can't be retried.
        (Unary(8), repeatable(), Code::ResourceExhausted, 1, 0),
        (Unary(5), repeatable(), Code::NotFound, 1, 1),
        // Whatever tonic makes of those: there is no status.
        (NoStatus, repeatable(), Code::Unknown, 1, 0),
        (HeadersOnly, repeatable(), Code::Unknown, 3, 0),
        (Broken, repeatable(), Code::Internal, 1, 0),
        (Reset(h2::Reason::INTERNAL_ERROR), repeatable(), Code::Internal, 3, 0),
        (Reset(h2::Reason::INTERNAL_ERROR), Grpc::new(), Code::Internal, 1, 0),
        (Reset(h2::Reason::REFUSED_STREAM), Grpc::new(), Code::Unavailable, 3, 0),
        (Http(503), repeatable(), Code::Unavailable, 3, 0),
        (Http(404), repeatable(), Code::Unimplemented, 1, 1),
        (Http(429), repeatable(), Code::Unavailable, 3, 0),
        (Http(502), repeatable(), Code::Unavailable, 3, 0),
        (Http(504), Grpc::new(), Code::Unavailable, 1, 0),
        (Http(500), repeatable(), Code::Unknown, 3, 3),
        (Http(401), repeatable(), Code::Unauthenticated, 1, 1),
        // A status of gRPC goes before that of HTTP.
        (Headers(503, &[("grpc-status", "5")]), repeatable(), Code::NotFound, 1, 1),
        (Headers(404, &[("grpc-status", "14")]), repeatable(), Code::Unavailable, 3, 0),
        // One that can't be read is UNKNOWN.
        (Headers(200, &[("grpc-status", "none")]), repeatable(), Code::Unknown, 1, 1),
        (Headers(200, &[("grpc-status", "")]), repeatable(), Code::Unknown, 1, 1),
        (Headers(200, &[("grpc-status", "99999999999999999999")]), repeatable(), Code::Unknown, 1, 1),
        (Headers(200, &[("grpc-status", "+14")]), repeatable(), Code::Unknown, 1, 1),
        // Pushback that can't be read is none at all, as in gRFC A6.
        (TrailersOnly(14, Some("")), repeatable(), Code::Unavailable, 1, 0),
        (TrailersOnly(14, Some("abc")), repeatable(), Code::Unavailable, 1, 0),
        (TrailersOnly(14, Some("-99999999999999999999")), repeatable(), Code::Unavailable, 1, 0),
    ] {
        let case = format!("{answer:?} {grpc:?}");
        let (server, client) = (Server::start(Vec::leak(vec![answer])).await, Client::new(WILLING));
        let result = ask(&layered(&client, grpc, server.channel())).await;
        assert_eq!(result.map_or_else(|status| status.code(), |_| Code::Ok), code, "{case}");
        assert_eq!((server.count(), client.requests(), client.accepts()), (sent, sent, accepts), "{case}");
    }
}

/// A wait that is longer than is allowed ends the call, be it of 20 digits.
#[tokio::test]
async fn a_wait_that_is_not_allowed_ends_the_call() {
    for answer in [
        TrailersOnly(14, Some("99999999999999999999")),
        TrailersOnly(14, Some("30001")),
        // What a proxy answers in place of the server.
        Headers(503, &[("retry-after", "31")]),
    ] {
        let config = WILLING.to_builder().max_retry_after(Duration::from_secs(30)).build().unwrap();
        let (server, client) = (Server::start(Vec::leak(vec![answer])).await, Client::new(config));
        let status = ask(&layered(&client, repeatable(), server.channel())).await.unwrap_err();
        assert_eq!((status.code(), server.count(), client.accepts()), (Code::Unavailable, 1, 0), "{answer:?}");
    }
}

#[tokio::test]
async fn a_status_comes_with_its_message() {
    const HEADERS: &[(&str, &str)] = &[("grpc-status", "8"), ("grpc-message", "100%25 busy: %E2%98%83")];
    let server = Server::start(&[Headers(200, HEADERS)]).await;
    let status = ask(&layered(&Client::new(WILLING), repeatable(), server.channel())).await.unwrap_err();
    assert_eq!((status.code(), status.message(), server.count()), (Code::ResourceExhausted, "100% busy: \u{2603}", 3));
}

/// Before the headers, in the wait, and in the body: whatever is younger than the grace is taken back out.
#[tokio::test]
async fn a_call_that_is_dropped_leaves_what_any_dropped_call_does() {
    let graced = WILLING.to_builder().in_flight_grace(Duration::from_secs(7)).build().unwrap();
    for (answer, graced_requests) in [(Hang, 0), (TrailersOnly(14, Some("60000")), 1), (Endless, 0)] {
        for (config, requests) in [(WILLING, 1), (graced, graced_requests)] {
            let (server, client) = (Server::start(Vec::leak(vec![answer])).await, Client::new(config));
            let service = layered(&client, repeatable(), server.channel());
            assert!(timeout(Duration::from_millis(300), ask(&service)).await.is_err(), "{answer:?}");
            assert_eq!((server.count(), client.accepts(), client.counts().waiting), (1, 0, 0), "{answer:?}");
            assert_eq!(client.requests(), requests, "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_single_call_is_marked_by_its_caller() {
    for (marked, grpc, sent) in [(true, Grpc::new(), 3), (false, repeatable(), 1)] {
        let (server, client) = (Server::start(&[TrailersOnly(14, None)]).await, Client::new(WILLING));
        let mut request = tonic::Request::new(Text::default());
        request.extensions_mut().insert(Repeatable(marked));
        ask_by(&layered(&client, grpc, server.channel()), request).await.unwrap_err();
        assert_eq!(server.count(), sent);
    }
}

#[tokio::test]
async fn pushback_delays_the_retry() {
    let server = Server::start(&[TrailersOnly(14, Some("300")), Unary(0)]).await;
    ask(&layered(&Client::new(WILLING), repeatable(), server.channel())).await.unwrap();
    let arrived = server.arrived();
    let gap = arrived[1].at.duration_since(arrived[0].at);
    assert!(arrived.len() == 2 && gap >= Duration::from_millis(300), "{gap:?}");
}

/// The bytes of a call, for a look at its body.
fn raw(address: SocketAddr) -> http::Request<tonic::body::Body> {
    http::Request::post(format!("http://{address}{PATH}"))
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::empty())
        .unwrap()
}

#[tokio::test]
async fn the_channel_that_was_found_ready_is_the_one_that_is_called() {
    let server = Server::start(&[TrailersOnly(14, None), Unary(0)]).await;
    let limited = ConcurrencyLimitLayer::new(1).layer(server.channel());
    let mut service = GrpcLayer::new(Client::new(WILLING), repeatable()).layer(limited);
    for _ in 0..2 {
        let call = service.ready().await.unwrap().call(raw(server.address));
        assert!(timeout(LONG, call).await.expect("a permit").is_ok());
    }
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn the_accept_is_counted_when_the_trailers_pass() {
    let (server, client) = (Server::start(&[Unary(0)]).await, Client::new(WILLING));
    let service = layered(&client, Grpc::new(), server.channel());
    let response = service.oneshot(raw(server.address)).await.unwrap();
    assert_eq!((client.requests(), client.accepts()), (1, 0));
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(&body.to_bytes()[..], b"\0\0\0\0\x06\x0a\x04text");
    assert_eq!((client.requests(), client.accepts()), (1, 1));
}

#[tokio::test]
async fn a_stream_is_accepted_when_it_begins() {
    for (grpc, accepts, stop) in
        [(Grpc::new(), 0, Stop::Abandoned), (Grpc::new().streaming(["/test.Test/"]), 1, Stop::Accepted)]
    {
        let stops = Arc::new(Mutex::new(Vec::new()));
        let observer = {
            let stops = stops.clone();
            move |report: &Report| stops.lock().unwrap().push(report.stop)
        };
        let (server, client) = (Server::start(&[Endless]).await, Client::new(WILLING).observed(observer));
        let service = layered(&client, grpc, server.channel());
        let mut response = service.oneshot(raw(server.address)).await.unwrap();
        assert!(response.body_mut().frame().await.unwrap().unwrap().is_data());
        assert_eq!((client.requests(), client.accepts()), (1, accepts));
        // Dropped, it stays counted as a request.
        drop(response);
        assert_eq!((client.requests(), client.accepts()), (1, accepts));
        assert_eq!(*stops.lock().unwrap(), [stop]);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_not_counted_twice() {
    let (server, client) = (Server::start(&[Broken]).await, Client::new(WILLING));
    let service = layered(&client, Grpc::new().streaming([PATH]), server.channel());
    let response = service.oneshot(raw(server.address)).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
    assert_eq!((client.requests(), client.accepts()), (1, 1));
}

#[tokio::test]
async fn a_refusal_is_unavailable_and_can_be_told_from_the_servers() {
    let (server, client) = (Server::start(&[TrailersOnly(14, None)]).await, Client::new(Config::overload()));
    let service = layered(&client, Grpc::new(), server.channel());
    let mut refused = 0;
    for _ in 0..200 {
        let status = ask(&service).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        if let Some(refusal) = refusal(&status) {
            assert_eq!((refusal.report().stop, status.message()), (Stop::Throttled, &*refusal.to_string()));
            refused += 1;
        }
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(server.count(), 200 - refused);
}

#[tokio::test]
async fn an_attempt_without_an_answer_is_cut() {
    for (grpc, sent) in [(repeatable(), 3), (Grpc::new(), 1)] {
        let config = WILLING.to_builder().attempt_timeout(Duration::from_millis(100)).build().unwrap();
        let (server, client) = (Server::start(&[Hang]).await, Client::new(config));
        let status = ask(&layered(&client, grpc, server.channel())).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert!(status.message().starts_with("timed out, not retried"), "{status}");
        assert_eq!((server.count(), client.requests(), client.accepts()), (sent, sent, 0));
    }
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_is_tried_again_whatever_the_method() {
    let (_held, address) = unheard();
    let client = Client::new(WILLING);
    let status = ask(&layered(&client, Grpc::new(), channel(address))).await.unwrap_err();
    assert!(refusal(&status).is_none());
    assert_eq!((client.requests(), client.accepts()), (3, 0), "{status}");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_sent_once() {
    for (size, sent) in [(60 * 1024, 3), (70 * 1024, 1)] {
        let (server, client) = (Server::start(&[TrailersOnly(14, None)]).await, Client::new(WILLING));
        let request = tonic::Request::new(Text { text: "x".repeat(size) });
        ask_by(&layered(&client, repeatable(), server.channel()), request).await.unwrap_err();
        assert_eq!(server.count(), sent, "{size}");
        assert!(server.arrived().iter().all(|sent| sent.body.len() > size));
    }
}

#[tokio::test]
async fn streamed_messages_are_sent_once_and_arrive_whole() {
    let (server, client) = (Server::start(&[TrailersOnly(14, None)]).await, Client::new(WILLING));
    let mut grpc = TonicClient::new(layered(&client, repeatable(), server.channel()));
    grpc.ready().await.unwrap();
    let messages = futures_util::stream::unfold(0, |sent| async move {
        tokio::task::yield_now().await;
        (sent < 100).then(|| (Text { text: "y".repeat(1000) }, sent + 1))
    });
    let call = grpc.client_streaming(
        tonic::Request::new(messages),
        PATH.parse().unwrap(),
        ProstCodec::<Text, Text>::default(),
    );
    assert_eq!(timeout(LONG, call).await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!((server.count(), server.arrived()[0].body.len()), (1, 100 * 1008));
}
