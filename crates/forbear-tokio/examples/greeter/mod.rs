//! The service `helloworld.Greeter` and its client, written by hand.

use core::convert::Infallible;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll};
use std::sync::Arc;

use forbear_tokio::BoxError;
use futures_util::future::{BoxFuture, Ready, ready};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, Service};
use tonic::server::{NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

const SAY_HELLO: &str = "/helloworld.Greeter/SayHello";

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HelloRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HelloReply {
    #[prost(string, tag = "1")]
    pub(crate) message: String,
}

/// Of how many calls in turn a part is accepted.
const TURN: u32 = 100;

/// The server: greets a part of its callers, and is too busy for the rest.
#[derive(Clone, Default)]
pub(crate) struct Greeter {
    accepted: Arc<AtomicU32>,
    seen: Arc<AtomicU32>,
}

impl Greeter {
    /// Accepts so many of a hundred calls from now on.
    pub(crate) fn accept(&self, calls: u32) {
        self.accepted.store(calls, Ordering::Relaxed);
    }

    /// How many calls arrived so far.
    pub(crate) fn seen(&self) -> u32 {
        self.seen.load(Ordering::Relaxed)
    }
}

impl UnaryService<HelloRequest> for Greeter {
    type Response = HelloReply;
    type Future = Ready<Result<Response<HelloReply>, Status>>;

    fn call(&mut self, request: Request<HelloRequest>) -> Self::Future {
        let number = self.seen.fetch_add(1, Ordering::Relaxed);
        ready(if number % TURN < self.accepted.load(Ordering::Relaxed) {
            Ok(Response::new(HelloReply { message: format!("hello, {}", request.into_inner().name) }))
        } else {
            Err(Status::resource_exhausted("too busy"))
        })
    }
}

impl NamedService for Greeter {
    const NAME: &'static str = "helloworld.Greeter";
}

impl<B> Service<http::Request<B>> for Greeter
where
    B: HttpBody<Error: Into<BoxError> + Send + 'static> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let greeter = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                SAY_HELLO => tonic::server::Grpc::new(ProstCodec::default()).unary(greeter, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// The client, over any channel.
pub(crate) struct GreeterClient<T>(tonic::client::Grpc<T>);

impl<T> GreeterClient<T>
where
    T: GrpcService<Body, Error: Into<BoxError>, ResponseBody: HttpBody<Error: Into<BoxError>> + Send + 'static>,
{
    pub(crate) fn new(channel: T) -> Self {
        Self(tonic::client::Grpc::new(channel))
    }

    pub(crate) async fn say_hello(&mut self, request: HelloRequest) -> Result<Response<HelloReply>, Status> {
        self.0.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let path = http::uri::PathAndQuery::from_static(SAY_HELLO);
        self.0.unary(Request::new(request), path, ProstCodec::default()).await
    }
}
