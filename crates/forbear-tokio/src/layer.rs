//! A tower layer for any protocol.

use core::fmt;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};

use forbear::{Clock, Tally};
use forbear_std::{SharedRng, SharedWindow, SystemClock, ThreadRng};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::Client;
use crate::driver::{Driver, Known, Shared};
use crate::protocol::{BoxError, Protocol};

/// Puts a client before a service: what the throttle refuses is not sent, and what may be repeated is retried.
///
/// ```
/// use core::error::Error;
/// use forbear_tokio::{Client, Cloned, ForbearLayer, Refused, Reply, forbear};
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let busy = tower::service_fn(|_request: u32| async { Ok::<_, std::io::Error>(503) });
/// let mut service = ServiceBuilder::new()
///     .layer(ForbearLayer::new(
///         Client::default(),
///         Cloned(|result: Result<&u16, &(dyn Error + 'static)>| {
///             result.map_or(Reply::UNREACHABLE, |status| forbear::http::status(*status))
///         }),
///     ))
///     .service(busy);
///
/// let mut refused = 0;
/// for request in 0..200 {
///     match service.ready().await.unwrap().call(request).await {
///         Ok(status) => assert_eq!(status, 503), // the last reply, untouched
///         Err(error) => refused += usize::from(error.downcast_ref::<Refused>().is_some()), // never sent
///     }
/// }
/// assert!(refused > 100);
/// # });
/// ```
///
/// # Order
///
/// A retry goes through everything below the layer again: put a limit of one attempt (a timeout, a concurrency limit)
/// below it, and what is meant for the whole call above. A timeout above drops the call: see
/// [cancelling](Client#cancelling) for what that leaves in the counts.
///
/// What follows redirects is an attempt as a whole where it is below the layer, as in reqwest; above it, each hop is a
/// call of its own, and the safer choice for what must not be repeated.
///
/// # Calls
///
/// The service's readiness is awaited before each attempt. The first is for the caller to await, as with any service, and
/// its time belongs to no attempt: no limit cuts it, and it is not counted. That of a retry is part of the attempt. A
/// request is copied before an attempt that another may follow.
///
/// What a reply means is known once the service has answered: of a response with a body, when its head is there. How the
/// body goes on is neither counted nor limited.
///
/// After at least one reply the caller gets the last reply or error untouched, whatever ended the retries; it is kept until
/// then, and a connection may be kept with it. An error is boxed, and found in it by `downcast_ref`:
///
/// * [`Refused`](forbear::Refused) if nothing was sent,
/// * [`TimedOut`](crate::TimedOut) if no attempt had a reply within the limits of the configuration,
/// * the service's own error else.
pub struct ForbearLayer<P, C = SystemClock, R = ThreadRng, W = SharedWindow> {
    shared: Shared<Known<P>, C, R, W>,
}

impl<P, C, R, W> ForbearLayer<P, C, R, W> {
    /// A layer of this client. All services under it share the client.
    pub fn new(client: Client<C, R, W>, protocol: P) -> Self {
        Self { shared: Shared::new(client, Known(protocol)) }
    }
}

impl<S, P, C, R, W> Layer<S> for ForbearLayer<P, C, R, W> {
    type Service = Forbear<S, P, C, R, W>;

    fn layer(&self, service: S) -> Self::Service {
        Forbear { service, shared: self.shared.clone() }
    }
}

impl<P, C, R, W> Clone for ForbearLayer<P, C, R, W> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<P, C, R, W> fmt::Debug for ForbearLayer<P, C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForbearLayer").field("client", &self.shared).finish_non_exhaustive()
    }
}

/// A service behind a client, as [`ForbearLayer`] says. Clones share the client.
pub struct Forbear<S, P, C = SystemClock, R = ThreadRng, W = SharedWindow> {
    service: S,
    shared: Shared<Known<P>, C, R, W>,
}

impl<S, P, Request, C, R, W> Service<Request> for Forbear<S, P, C, R, W>
where
    S: Service<Request, Error: Into<BoxError>> + Clone,
    P: Protocol<Request, S::Response>,
    C: Clock,
    R: SharedRng,
    W: Tally,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S, P, Request, C, R, W>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, request: Request) -> Self::Future {
        // The service that is ready goes with the call; a clone of it may not be.
        let fresh = self.service.clone();
        let ready = mem::replace(&mut self.service, fresh);
        ResponseFuture { driver: Driver::new(self.shared.clone(), ready, request) }
    }
}

impl<S: Clone, P, C, R, W> Clone for Forbear<S, P, C, R, W> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), shared: self.shared.clone() }
    }
}

impl<S: fmt::Debug, P, C, R, W> fmt::Debug for Forbear<S, P, C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forbear").field("service", &self.service).field("client", &self.shared).finish()
    }
}

pin_project! {
    /// The future of a [`Forbear`] service.
    #[must_use = "a future does nothing until it is awaited"]
    pub struct ResponseFuture<S, P, Request, C = SystemClock, R = ThreadRng, W = SharedWindow>
    where
        S: Service<Request>,
        C: Clock,
        R: SharedRng,
        W: Tally,
    {
        #[pin]
        driver: Driver<S, Known<P>, Request, C, R, W>,
    }
}

impl<S, P, Request, C, R, W> Future for ResponseFuture<S, P, Request, C, R, W>
where
    S: Service<Request, Error: Into<BoxError>>,
    P: Protocol<Request, S::Response>,
    C: Clock,
    R: SharedRng,
    W: Tally,
{
    type Output = Result<S::Response, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().driver.poll(cx)
    }
}

impl<S, P, Request, C, R, W> fmt::Debug for ResponseFuture<S, P, Request, C, R, W>
where
    S: Service<Request>,
    C: Clock,
    R: SharedRng,
    W: Tally,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
