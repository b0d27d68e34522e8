//! HTTP: which requests may be repeated, how they are copied, and what a response means.
//!
//! ```
//! use bytes::Bytes;
//! use forbear_tokio::http::Http;
//! use forbear_tokio::{Client, ForbearLayer};
//! use http_body_util::Full;
//! use hyper_util::client::legacy;
//! use hyper_util::rt::TokioExecutor;
//! use tower::ServiceBuilder;
//!
//! let http = legacy::Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
//! let service = ServiceBuilder::new().layer(ForbearLayer::new(Client::default(), Http::new())).service(http);
//! ```

use core::error::Error;
use core::ops::RangeInclusive;

use forbear::{Refused, Reply};
use http::header::{DATE, HeaderName, RETRY_AFTER};
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;

use crate::protocol::Protocol;

mod body;
mod failure;

pub use body::{CloneBody, CopyBody, RebuildBody, ReplayBody};
pub(crate) use failure::is_unprocessed;

/// Says of one request whether it may be repeated, whatever its method: an extension of the request.
///
/// ```
/// use forbear_tokio::http::Repeatable;
///
/// // A search, though it is a POST.
/// let request = http::Request::post("/search").extension(Repeatable(true)).body("what to look for");
/// # request.unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeatable(pub bool);

/// The largest body that is copied, unless it is configured: 64 KiB.
pub const MAX_COPIED: u64 = 64 * 1024;

/// HTTP, for the requests and responses of the `http` crate, and under the feature `reqwest` for its own.
///
/// # What is repeated
///
/// GET, HEAD, OPTIONS, TRACE, PUT and DELETE (RFC 9110, section 9.2.2), whatever has one `Idempotency-Key` that is not
/// empty, and what its caller marks as [`Repeatable`]. Any other request is sent again only where it was never worked on: when the
/// connection could not be made, when the stream was refused (`REFUSED_STREAM` of HTTP/2), and after 429 and 503 where
/// [`rejections_are_unprocessed`](Self::rejections_are_unprocessed); but see
/// [`follows_redirects`](Self::follows_redirects). Of those, a request is repeated whose body can be
/// copied: that it is empty or at hand, and no larger than 64 KiB. Anything else is sent once, and its body passed
/// through.
///
/// # What a reply means
///
/// | response | counts as accepted | is retried if it may be repeated |
/// |---|---|---|
/// | 1xx to 3xx | yes | no |
/// | 4xx but 429, 5xx not below | yes | no |
/// | 500 | yes | yes |
/// | 429, 503 | no | yes |
/// | 502, 504, no response at all | no | yes |
///
/// Single statuses can be given [another meaning](Self::statuses). A retry waits for as long as `Retry-After` says, in
/// seconds or as a date; one that is negative or past means now, one that is unreadable is not there.
///
/// An error without a response counts as unreachable whatever it is, since all of the service is below the layer; where
/// errors arise that are none of the backend's, say so with [`errors`](Self::errors).
#[derive(Clone, Debug)]
pub struct Http<K = CloneBody> {
    bodies: K,
    max_copied: u64,
    unprocessed: bool,
    /// Unless it is said, what is known of the service's kind counts.
    redirected: Option<bool>,
    attempt_header: Option<HeaderName>,
    statuses: Vec<(RangeInclusive<u16>, Reply)>,
    errors: fn(&(dyn Error + 'static)) -> Option<Reply>,
}

impl Http {
    /// HTTP as it is written above, for bodies that can be cloned: `Full`, `Empty`, `String` and the like. For boxed ones
    /// see [`rebuilding`](Self::rebuilding).
    pub fn new() -> Self {
        Self {
            bodies: CloneBody,
            max_copied: MAX_COPIED,
            unprocessed: false,
            redirected: None,
            attempt_header: None,
            statuses: Vec::new(),
            errors: |_| None,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Http<K> {
    /// For bodies that can't be cloned but can be made of another one: those of axum, tonic and reqwest, and `BoxBody`.
    ///
    /// What such a body has at hand is read before it is sent, up to the limit. If that is all of it, it is made anew for
    /// each attempt; else what was read goes before the rest of it, and it is sent once. `B::default()` has to be an empty
    /// body.
    ///
    /// ```
    /// use forbear_tokio::http::Http;
    ///
    /// let http = Http::new().rebuilding(axum::body::Body::new);
    /// ```
    pub fn rebuilding<B: Body, F: Fn(ReplayBody<B>) -> B>(self, build: F) -> Http<RebuildBody<F>> {
        self.copying(RebuildBody::new(build))
    }

    /// Copies bodies in another way.
    pub fn copying<L>(self, bodies: L) -> Http<L> {
        let Self { max_copied, unprocessed, redirected, attempt_header, statuses, errors, bodies: _ } = self;
        Http { bodies, max_copied, unprocessed, redirected, attempt_header, statuses, errors }
    }

    /// The largest body that is copied, in bytes; of those that are cloned, 0 is for empty ones only.
    pub fn max_copied(self, bytes: u64) -> Self {
        Self { max_copied: bytes, ..self }
    }

    /// Whether this backend rejects before it works: that a request which it answers with 429 or 503 had no effect. Then
    /// it is sent again after these even if it is not repeatable.
    pub fn rejections_are_unprocessed(self, unprocessed: bool) -> Self {
        Self { unprocessed, ..self }
    }

    /// Whether what is below the layer follows redirects. Then the connection that could not be made, or the rejection, may
    /// be that of a later hop, after the first has done the work and redirected to its result (303): it tells nothing, and
    /// what is not repeatable is never sent again.
    ///
    /// Unless it is said, the clients of hyper and others count as following none, and reqwest's as following them, which
    /// it does unless it is told not to. Of its rejections alone nothing is assumed, since
    /// [`rejections_are_unprocessed`](Self::rejections_are_unprocessed) speaks of the whole backend.
    ///
    /// ```
    /// use forbear_tokio::http::Http;
    ///
    /// // For reqwest's clients with `redirect::Policy::none()`.
    /// let http = Http::new().follows_redirects(false);
    /// ```
    pub fn follows_redirects(self, follows: bool) -> Self {
        Self { redirected: Some(follows), ..self }
    }

    /// Sends the number of the attempt with each, 0 for the first, in a header of this name.
    pub fn attempt_header(self, name: HeaderName) -> Self {
        Self { attempt_header: Some(name), ..self }
    }

    /// What statuses mean that mean something else to this backend. Of several for one status, the last counts.
    ///
    /// ```
    /// use forbear_tokio::Reply;
    /// use forbear_tokio::http::Http;
    ///
    /// // What a well-known proxy answers when it can't reach the origin.
    /// let http = Http::new().statuses(520..=529, Reply::UNREACHABLE);
    /// ```
    pub fn statuses(mut self, statuses: RangeInclusive<u16>, reply: Reply) -> Self {
        self.statuses.push((statuses, reply));
        self
    }

    /// What errors mean that are not the backend's, or that it is known to survive: asked first, `None` leaves the error
    /// [unreachable](Reply::UNREACHABLE).
    ///
    /// ```
    /// use forbear_tokio::Reply;
    /// use forbear_tokio::http::Http;
    ///
    /// // A file that could not be read for the upload.
    /// let http = Http::new().errors(|error| error.is::<std::io::Error>().then_some(Reply::PERMANENT));
    /// ```
    pub fn errors(self, errors: fn(&(dyn Error + 'static)) -> Option<Reply>) -> Self {
        Self { errors, ..self }
    }

    fn allows_repeating(&self, method: &Method, headers: &HeaderMap, extensions: &Extensions) -> bool {
        match extensions.get() {
            Some(Repeatable(repeatable)) => *repeatable,
            None => forbear::http::is_repeatable(method.as_str()) || has_key(headers),
        }
    }

    fn read(&self, result: Result<(StatusCode, &HeaderMap), &(dyn Error + 'static)>) -> Reply {
        match result {
            Ok((status, headers)) => {
                let status = status.as_u16();
                let given = self.statuses.iter().rev().find(|(statuses, _)| statuses.contains(&status));
                let reply = given.map_or_else(|| forbear::http::status(status), |(_, reply)| *reply);
                match retry_after(headers) {
                    Some(wait) => reply.after(wait),
                    None => reply,
                }
            }
            Err(error) => (self.errors)(error).unwrap_or(Reply::UNREACHABLE),
        }
    }

    /// `redirects` is whether a service of this kind follows them, unless it is said.
    fn tells_unprocessed(&self, result: Result<StatusCode, &(dyn Error + 'static)>, redirects: bool) -> bool {
        match result {
            _ if self.redirected == Some(true) => false,
            Ok(status) => {
                self.unprocessed && matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
            }
            Err(error) => !self.redirected.unwrap_or(redirects) && is_unprocessed(error),
        }
    }

    fn mark(&self, headers: &mut HeaderMap, attempt: u32) {
        if let Some(name) = &self.attempt_header {
            headers.insert(name, HeaderValue::from(attempt));
        }
    }
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whether there is one key, and one that a server can tell from another.
fn has_key(headers: &HeaderMap) -> bool {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    keys.next().is_some_and(|key| key.as_bytes().iter().any(|byte| !b" \t\"".contains(byte))) && keys.next().is_none()
}

pub(crate) fn retry_after(headers: &HeaderMap) -> Option<core::time::Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    forbear_std::http::retry_after(text(RETRY_AFTER)?, text(DATE))
}

impl<K: CopyBody<B>, B, T> Protocol<Request<B>, Response<T>> for Http<K> {
    fn copy(&self, request: &mut Request<B>) -> Option<Request<B>> {
        copy(request, &self.bodies, self.max_copied)
    }

    fn reply(&self, result: Result<&Response<T>, &(dyn Error + 'static)>) -> Reply {
        self.read(result.map(|response| (response.status(), response.headers())))
    }

    fn is_repeatable(&self, request: &Request<B>) -> bool {
        self.allows_repeating(request.method(), request.headers(), request.extensions())
    }

    fn is_unprocessed(&self, result: Result<&Response<T>, &(dyn Error + 'static)>) -> bool {
        self.tells_unprocessed(result.map(Response::status), false)
    }

    fn mark(&self, request: &mut Request<B>, attempt: u32) {
        self.mark(request.headers_mut(), attempt);
    }
}

/// A copy of a request whose body can be copied.
pub(crate) fn copy<B>(request: &mut Request<B>, bodies: &impl CopyBody<B>, most: u64) -> Option<Request<B>> {
    let mut copy = Request::new(bodies.copy(request.body_mut(), most)?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// As reqwest shows no extensions of requests, only the method and `Idempotency-Key` tell what may be repeated. Its client
/// follows redirects, so a connection that could not be made tells nothing unless it is said that it follows none:
/// [`Http::follows_redirects`].
#[cfg(feature = "reqwest")]
impl<K> Protocol<reqwest::Request, reqwest::Response> for Http<K> {
    fn copy(&self, request: &mut reqwest::Request) -> Option<reqwest::Request> {
        let length = request.body().map_or(Some(0), |body| body.as_bytes().map(<[u8]>::len))?;
        if length as u64 > self.max_copied { None } else { request.try_clone() }
    }

    fn reply(&self, result: Result<&reqwest::Response, &(dyn Error + 'static)>) -> Reply {
        self.read(result.map(|response| (response.status(), response.headers())))
    }

    fn is_repeatable(&self, request: &reqwest::Request) -> bool {
        self.allows_repeating(request.method(), request.headers(), &Extensions::new())
    }

    fn is_unprocessed(&self, result: Result<&reqwest::Response, &(dyn Error + 'static)>) -> bool {
        self.tells_unprocessed(result.map(reqwest::Response::status), true)
    }

    fn mark(&self, request: &mut reqwest::Request, attempt: u32) {
        self.mark(request.headers_mut(), attempt);
    }
}

/// The response of a server that could not pass a request on, because it was [`Refused`] before it was sent: 503, with
/// the reason as its text.
///
/// ```
/// use forbear_tokio::{BoxError, Refused};
/// use forbear_tokio::http::unavailable;
///
/// fn answer(result: Result<http::Response<String>, BoxError>) -> Result<http::Response<String>, BoxError> {
///     result.or_else(|error| error.downcast_ref().map(unavailable).ok_or(error))
/// }
/// ```
pub fn unavailable<B: From<String>>(refused: &Refused) -> Response<B> {
    let mut response = Response::new(B::from(refused.to_string()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}
