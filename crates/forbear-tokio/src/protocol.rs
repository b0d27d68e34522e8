//! What a layer has to know of a protocol: how to copy a request, and what a reply means.

use core::error::Error;

use forbear::Reply;

/// An error of any type, as tower's own middleware passes it on.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What a layer has to know of a protocol: how to copy a request, and what a reply means.
///
/// Ready-made are [`Cloned`], and under their features `Http` and `Grpc`. Two methods suffice:
///
/// ```
/// use core::error::Error;
/// use forbear_tokio::{Protocol, Reply};
///
/// /// Key-value requests; reads may be repeated.
/// struct Store;
///
/// #[derive(Clone)]
/// enum Request {
///     Read(String),
///     Append(String),
/// }
///
/// enum Response {
///     Value(String),
///     Busy,
/// }
///
/// impl Protocol<Request, Response> for Store {
///     fn copy(&self, request: &mut Request) -> Option<Request> {
///         matches!(request, Request::Read(_)).then(|| request.clone())
///     }
///
///     fn reply(&self, result: Result<&Response, &(dyn Error + 'static)>) -> Reply {
///         match result {
///             Ok(Response::Value(_)) => Reply::ACCEPTED,
///             Ok(Response::Busy) => Reply::OVERLOADED,
///             Err(_) => Reply::UNREACHABLE,
///         }
///     }
/// }
/// ```
pub trait Protocol<Request, Response> {
    /// A copy to send again; `None` sends this request once. It is asked before each attempt but the last.
    ///
    /// The request may be changed as far as its receiver does not see it: as when a body is read to be kept.
    fn copy(&self, request: &mut Request) -> Option<Request>;

    /// What came back, for a request that may be repeated. Of others the layer counts the same, and never sends them again.
    fn reply(&self, result: Result<&Response, &(dyn Error + 'static)>) -> Reply;

    /// Whether this request does no more when it is sent twice. By default any that can be copied.
    fn is_repeatable(&self, request: &Request) -> bool {
        let _ = request;
        true
    }

    /// Whether what came back tells that the request was not worked on: then it may be sent again even if it is not
    /// repeatable. By default nothing tells.
    fn is_unprocessed(&self, result: Result<&Response, &(dyn Error + 'static)>) -> bool {
        let _ = result;
        false
    }

    /// Marks a request with the number of its attempt, 0 for the first, as it is sent. By default nothing is marked.
    fn mark(&self, request: &mut Request, attempt: u32) {
        let _ = (request, attempt);
    }
}

/// Any request that can be cloned, all of them repeatable, with a closure that says what a result means.
///
/// ```
/// use core::error::Error;
/// use forbear_tokio::{Client, Cloned, ForbearLayer, Reply, forbear};
///
/// let layer = ForbearLayer::new(
///     Client::default(),
///     Cloned(|result: Result<&u16, &(dyn Error + 'static)>| match result {
///         Ok(status) => forbear::http::status(*status),
///         Err(_) => Reply::UNREACHABLE,
///     }),
/// );
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cloned<F>(pub F);

impl<Request: Clone, Response, F> Protocol<Request, Response> for Cloned<F>
where
    F: Fn(Result<&Response, &(dyn Error + 'static)>) -> Reply,
{
    fn copy(&self, request: &mut Request) -> Option<Request> {
        Some(request.clone())
    }

    fn reply(&self, result: Result<&Response, &(dyn Error + 'static)>) -> Reply {
        self.0(result)
    }
}
