//! gRPC: a layer for the clients that tonic generates.
//!
//! ```
//! use forbear_tokio::Client;
//! use forbear_tokio::grpc::{Grpc, GrpcLayer};
//! use tonic::transport::Endpoint;
//! use tower::ServiceBuilder;
//!
//! # let _runtime = tokio::runtime::Runtime::new().unwrap().enter();
//! let channel = Endpoint::from_static("http://127.0.0.1:50051").connect_lazy();
//! let channel = ServiceBuilder::new()
//!     .layer(GrpcLayer::new(Client::default(), Grpc::new().repeatable(["/helloworld.Greeter/SayHello"])))
//!     .service(channel);
//! // GreeterClient::new(channel)
//! ```

use core::error::Error;
use core::fmt;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::collections::HashSet;
use std::sync::Arc;

use forbear::{Clock, Refused, Reply, Retry, Tally};
use forbear_std::{SharedRng, SharedWindow, SystemClock, ThreadRng};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::Status;
use tower_layer::Layer;
use tower_service::Service;

use crate::Client;
use crate::driver::{Driver, Judge, Shared, TimedOut};
use crate::http::{CopyBody, MAX_COPIED, RebuildBody, Repeatable, ReplayBody, copy, is_unprocessed, retry_after};
use crate::protocol::BoxError;
use crate::running::{Owner, Running};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");

/// UNKNOWN: what a status that is no number stands for.
const UNKNOWN: i32 = 2;

/// The bodies of tonic's requests.
type TonicBodies = RebuildBody<fn(ReplayBody<tonic::body::Body>) -> tonic::body::Body>;

/// gRPC, as far as [`GrpcLayer`] has to know it.
///
/// # What is repeated
///
/// gRPC does not say which methods do no more when they are called twice: name those that do not by
/// [`repeatable`](Self::repeatable). Any other call is sent again only where it was never worked on: when the connection
/// could not be made, when the stream was refused, and after RESOURCE_EXHAUSTED and UNAVAILABLE where
/// [`rejections_are_unprocessed`](Self::rejections_are_unprocessed). A message of up to 64 KiB can be sent again: that of
/// a unary call is at hand when it is sent, a stream of messages is passed through.
///
/// # What a reply means
///
/// | status | counts as accepted | is retried if it may be repeated |
/// |---|---|---|
/// | RESOURCE_EXHAUSTED, UNAVAILABLE | no | yes |
/// | DEADLINE_EXCEEDED, no status at all | no | yes |
/// | all others | yes | no |
///
/// Single codes can be given [another meaning](Self::code). `grpc-retry-pushback-ms` says when to retry, or, if it is
/// negative or unreadable, that there is to be none; each retry says in `grpc-previous-rpc-attempts` how many attempts
/// there were before it. Source: gRFC A6, "gRPC Retry Design". What is no gRPC answer at all, such as the 503 of a proxy,
/// means what its HTTP status and `Retry-After` say.
///
/// An error in place of a response counts as unreachable, whatever status tonic makes of it.
#[derive(Clone)]
pub struct Grpc<K = TonicBodies> {
    bodies: K,
    max_copied: u64,
    unprocessed: bool,
    repeatable: Methods,
    streaming: Methods,
    codes: Vec<(i32, Reply)>,
}

impl Grpc {
    /// gRPC as it is written above, for tonic.
    pub fn new() -> Self {
        Self::copying(RebuildBody::new(tonic::body::Body::new))
    }
}

impl Default for Grpc {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Grpc<K> {
    /// gRPC over bodies that are copied in another way than those of tonic.
    pub fn copying(bodies: K) -> Self {
        Self {
            bodies,
            max_copied: MAX_COPIED,
            unprocessed: false,
            repeatable: Methods::default(),
            streaming: Methods::default(),
            codes: Vec::new(),
        }
    }

    /// Methods that do no more when they are called twice: each by its path, such as `/helloworld.Greeter/SayHello`, or
    /// all of a service, by `/helloworld.Greeter/`. A single call is marked by the extension
    /// [`Repeatable`] of its request.
    pub fn repeatable<M: Into<String>>(mut self, methods: impl IntoIterator<Item = M>) -> Self {
        self.repeatable.add(methods);
        self
    }

    /// Methods that answer by a stream, named as those that are [`repeatable`](Self::repeatable): their calls are accepted
    /// once the stream begins, however long it lasts. See [`GrpcLayer`].
    pub fn streaming<M: Into<String>>(mut self, methods: impl IntoIterator<Item = M>) -> Self {
        self.streaming.add(methods);
        self
    }

    /// The largest message that is kept to be sent again, in bytes.
    pub fn max_copied(self, bytes: u64) -> Self {
        Self { max_copied: bytes, ..self }
    }

    /// Whether this backend rejects before it works: that a call which it answers with RESOURCE_EXHAUSTED or UNAVAILABLE
    /// had no effect. Then it is sent again after these even if it is not repeatable.
    pub fn rejections_are_unprocessed(self, unprocessed: bool) -> Self {
        Self { unprocessed, ..self }
    }

    /// What a code means that means something else to this backend. Of several for one code, the last counts.
    ///
    /// ```
    /// use forbear_tokio::Reply;
    /// use forbear_tokio::grpc::Grpc;
    ///
    /// // INTERNAL, where it is known to pass.
    /// let grpc = Grpc::new().code(13, Reply::TRANSIENT);
    /// ```
    pub fn code(mut self, code: i32, reply: Reply) -> Self {
        self.codes.push((code, reply));
        self
    }

    /// What headers or trailers with a status say.
    fn read(&self, headers: &HeaderMap) -> Option<Reply> {
        let code = code(headers)?;
        let given = self.codes.iter().rev().find(|(of, _)| *of == code);
        let reply = given.map_or_else(|| forbear::grpc::code(code), |(_, reply)| *reply);
        let pushback = headers.get(PUSHBACK).map(|text| forbear::grpc::pushback(text.to_str().unwrap_or_default()));
        Some(match pushback {
            Some(Retry::After(wait)) => reply.after(wait),
            Some(Retry::Never) => reply.once(),
            Some(Retry::Backoff) | None => reply,
        })
    }
}

fn code(headers: &HeaderMap) -> Option<i32> {
    let text = headers.get(STATUS)?.as_bytes();
    // Digits alone: numbers of Rust may have a sign.
    let digits = text.iter().all(u8::is_ascii_digit).then(|| str::from_utf8(text).ok()).flatten();
    Some(digits.and_then(|digits| digits.parse().ok()).unwrap_or(UNKNOWN))
}

impl<K> fmt::Debug for Grpc<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grpc")
            .field("repeatable", &self.repeatable.0)
            .field("streaming", &self.streaming.0)
            .field("codes", &self.codes)
            .finish_non_exhaustive()
    }
}

/// Paths of methods, and of services with the slash at their end.
#[derive(Clone, Default)]
struct Methods(HashSet<String>);

impl Methods {
    fn add<M: Into<String>>(&mut self, methods: impl IntoIterator<Item = M>) {
        self.0.extend(methods.into_iter().map(Into::into));
    }

    fn contain(&self, path: &str) -> bool {
        let service = path.rfind('/').and_then(|slash| path.get(..=slash));
        self.0.contains(path) || service.is_some_and(|service| self.0.contains(service))
    }
}

impl<K: CopyBody<B>, B, T: Body> Judge<Request<B>, Response<T>> for Grpc<K> {
    fn copy(&self, request: &mut Request<B>) -> Option<Request<B>> {
        copy(request, &self.bodies, self.max_copied)
    }

    fn is_repeatable(&self, request: &Request<B>) -> bool {
        match request.extensions().get() {
            Some(Repeatable(repeatable)) => *repeatable,
            None => self.repeatable.contain(request.uri().path()),
        }
    }

    fn is_unprocessed(&self, result: Result<&Response<T>, &(dyn Error + 'static)>) -> bool {
        match result {
            Ok(response) => self.unprocessed && matches!(code(response.headers()), Some(8 | 14)),
            Err(error) => is_unprocessed(error),
        }
    }

    fn mark(&self, request: &mut Request<B>, attempt: u32) {
        if attempt > 0 {
            request.headers_mut().insert(PREVIOUS_ATTEMPTS, HeaderValue::from(attempt));
        }
    }

    fn reply(&self, result: Result<&Response<T>, &(dyn Error + 'static)>) -> Option<Reply> {
        let Ok(response) = result else { return Some(Reply::UNREACHABLE) };
        if let Some(reply) = self.read(response.headers()) {
            return Some(reply);
        }
        match response.status() {
            // The trailers will tell, if there can be any.
            StatusCode::OK => response.body().is_end_stream().then_some(Reply::UNREACHABLE),
            status => {
                let reply = forbear::http::status(status.as_u16());
                Some(retry_after(response.headers()).map_or(reply, |wait| reply.after(wait)))
            }
        }
    }
}

/// Puts a client before a gRPC channel: what the throttle refuses is not sent, and what may be repeated is retried.
///
/// # When a call is counted
///
/// The status of a gRPC call comes in the trailers, after the answer. So the response is passed on as soon as its headers
/// are there, nothing of it is buffered, and its body is watched: the call counts as accepted or not when the trailers
/// pass through it. A body that breaks or ends without a status counts as unreachable; one that is dropped before its
/// end leaves what [any dropped call](Client#cancelling) does. What carries its status in the headers, as nearly all
/// refusals of an overloaded server do ("trailers-only"), is known at once, and only that can be retried: once an answer
/// has begun to arrive, the caller has a part of it. The limits of the configuration are for the headers, too.
///
/// Methods that answer by a long stream have to be [named](Grpc::streaming): their calls are accepted once the stream
/// begins. Else they would look, for as long as it lasts, like calls that get no answer.
///
/// # Errors
///
/// A call that was not sent fails with [`Status`] UNAVAILABLE, one that timed out here with DEADLINE_EXCEEDED;
/// [`refusal`] tells the first from an answer of the server. All else is passed on untouched.
///
/// As [`ForbearLayer`](crate::ForbearLayer) otherwise.
pub struct GrpcLayer<K = TonicBodies, C = SystemClock, R = ThreadRng, W = SharedWindow> {
    shared: Shared<Grpc<K>, C, R, W>,
}

impl<K, C, R, W> GrpcLayer<K, C, R, W> {
    /// A layer of this client. All services under it share the client.
    pub fn new(client: Client<C, R, W>, grpc: Grpc<K>) -> Self {
        Self { shared: Shared::new(client, grpc) }
    }
}

impl<S, K, C, R, W> Layer<S> for GrpcLayer<K, C, R, W> {
    type Service = GrpcForbear<S, K, C, R, W>;

    fn layer(&self, service: S) -> Self::Service {
        GrpcForbear { service, shared: self.shared.clone() }
    }
}

impl<K, C, R, W> Clone for GrpcLayer<K, C, R, W> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K, C, R, W> fmt::Debug for GrpcLayer<K, C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcLayer").field("grpc", self.shared.judge()).field("client", &self.shared).finish()
    }
}

/// A channel behind a client, as [`GrpcLayer`] says. Clones share the client.
pub struct GrpcForbear<S, K = TonicBodies, C = SystemClock, R = ThreadRng, W = SharedWindow> {
    service: S,
    shared: Shared<Grpc<K>, C, R, W>,
}

impl<S, K, B, T, C, R, W> Service<Request<B>> for GrpcForbear<S, K, C, R, W>
where
    S: Service<Request<B>, Response = Response<T>, Error: Into<BoxError>> + Clone,
    K: CopyBody<B>,
    T: Body,
    C: Clock,
    R: SharedRng,
    W: Tally,
{
    type Response = Response<GrpcBody<T, K, C, R, W>>;
    type Error = BoxError;
    type Future = GrpcFuture<S, Request<B>, K, C, R, W>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let fresh = self.service.clone();
        let ready = mem::replace(&mut self.service, fresh);
        let streaming = self.shared.judge().streaming.contain(request.uri().path());
        GrpcFuture { driver: Driver::new(self.shared.clone(), ready, request), streaming }
    }
}

impl<S: Clone, K, C, R, W> Clone for GrpcForbear<S, K, C, R, W> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), shared: self.shared.clone() }
    }
}

impl<S: fmt::Debug, K, C, R, W> fmt::Debug for GrpcForbear<S, K, C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcForbear").field("service", &self.service).field("client", &self.shared).finish()
    }
}

pin_project! {
    /// The future of a [`GrpcForbear`] service.
    #[must_use = "a future does nothing until it is awaited"]
    pub struct GrpcFuture<S, Q, K = TonicBodies, C = SystemClock, R = ThreadRng, W = SharedWindow>
    where
        S: Service<Q>,
        C: Clock,
        R: SharedRng,
        W: Tally,
    {
        #[pin]
        driver: Driver<S, Grpc<K>, Q, C, R, W>,
        streaming: bool,
    }
}

impl<S, K, B, T, C, R, W> Future for GrpcFuture<S, Request<B>, K, C, R, W>
where
    S: Service<Request<B>, Response = Response<T>, Error: Into<BoxError>>,
    K: CopyBody<B>,
    T: Body,
    C: Clock,
    R: SharedRng,
    W: Tally,
{
    type Output = Result<Response<GrpcBody<T, K, C, R, W>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let result = ready!(this.driver.as_mut().poll(cx));
        let mut open = Open(this.driver.take_running());
        if *this.streaming {
            open.settle(Reply::ACCEPTED);
        }
        Poll::Ready(match result {
            Ok(response) => Ok(response.map(|body| GrpcBody { body, open })),
            Err(error) => Err(status(error)),
        })
    }
}

impl<S, Q, K, C, R, W> fmt::Debug for GrpcFuture<S, Q, K, C, R, W>
where
    S: Service<Q>,
    C: Clock,
    R: SharedRng,
    W: Tally,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcFuture").finish_non_exhaustive()
    }
}

/// What fails here as a status, so that tonic does not make one up.
fn status(error: BoxError) -> BoxError {
    let error = match error.downcast::<Refused>() {
        Ok(refused) => {
            let mut status = Status::unavailable(refused.to_string());
            status.set_source(Arc::new(*refused));
            return status.into();
        }
        Err(error) => error,
    };
    match error.downcast::<TimedOut>() {
        Ok(timed_out) => {
            let mut status = Status::deadline_exceeded(timed_out.to_string());
            status.set_source(Arc::new(*timed_out));
            status.into()
        }
        Err(error) => error,
    }
}

/// Why a call was not sent, if it was refused here: tells this UNAVAILABLE from one of the server.
///
/// ```
/// use forbear_tokio::grpc::refusal;
/// use tonic::Status;
///
/// assert!(refusal(&Status::unavailable("too busy")).is_none());
/// ```
pub fn refusal(status: &Status) -> Option<&Refused> {
    status.source()?.downcast_ref()
}

/// A call whose reply is not known until the response has ended.
struct Open<H: Owner>(Running<H>);

impl<K, C: Clock, R: SharedRng, W: Tally> Open<Shared<Grpc<K>, C, R, W>> {
    /// Ends the call, unless it has ended. What has begun to arrive is not sent again.
    fn settle(&mut self, reply: Reply) {
        if !self.0.has_ended() {
            let _ = self.0.next(Some(reply.once()));
        }
    }

    /// Ends the call by what the trailers say.
    fn settle_by(&mut self, trailers: &HeaderMap) {
        if !self.0.has_ended() {
            let reply = self.0.handle().judge().read(trailers);
            self.settle(reply.unwrap_or(Reply::UNREACHABLE));
        }
    }
}

pin_project! {
    /// The body of a response, watched for its trailers: see [`GrpcLayer`].
    pub struct GrpcBody<B, K = TonicBodies, C = SystemClock, R = ThreadRng, W = SharedWindow>
    where
        C: Clock,
        R: SharedRng,
        W: Tally,
    {
        #[pin]
        body: B,
        open: Open<Shared<Grpc<K>, C, R, W>>,
    }
}

impl<B: Body, K, C: Clock, R: SharedRng, W: Tally> Body for GrpcBody<B, K, C, R, W> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    this.open.settle_by(trailers);
                }
            }
            Some(Err(_)) | None => this.open.settle(Reply::UNREACHABLE),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: fmt::Debug, K, C: Clock, R: SharedRng, W: Tally> fmt::Debug for GrpcBody<B, K, C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcBody").field("body", &self.body).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn headers(of: &[(HeaderName, &'static str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn pushback_and_codes_are_read_together() {
        let grpc = Grpc::new().code(13, Reply::PERMANENT).code(13, Reply::TRANSIENT);
        let read = |status, pushback: Option<&'static str>| {
            let pushback = pushback.map(|text| (PUSHBACK, text));
            grpc.read(&headers(&[&[(STATUS, status)][..], pushback.as_slice()].concat()))
        };
        assert_eq!(grpc.read(&HeaderMap::new()), None);
        assert_eq!(read("0", None), Some(Reply::ACCEPTED));
        assert_eq!(read("14", None), Some(Reply::OVERLOADED));
        assert_eq!(read("14", Some("250")), Some(Reply::OVERLOADED.after(Duration::from_millis(250))));
        assert_eq!(read("14", Some("-1")), Some(Reply::OVERLOADED.once()));
        assert_eq!(read("14", Some("soon")), Some(Reply::OVERLOADED.once()));
        assert_eq!(read("5", Some("250")), Some(Reply::PERMANENT));
        assert_eq!(read("13", None), Some(Reply::TRANSIENT));
        assert_eq!(read("none", None), Some(Reply::PERMANENT));
    }

    #[test]
    fn methods_are_named_alone_or_by_their_service() {
        let grpc = Grpc::new().repeatable(["/a.One/Get", "/a.Two/"]);
        for (path, repeatable) in [
            ("/a.One/Get", true),
            ("/a.One/Set", false),
            ("/a.Two/Get", true),
            ("/a.Two/", true),
            ("/a.Two", false),
            ("/a.Twofold/Get", false),
            ("", false),
        ] {
            assert_eq!(grpc.repeatable.contain(path), repeatable, "{path}");
        }
    }
}
