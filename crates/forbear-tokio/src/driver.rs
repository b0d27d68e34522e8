//! One call through a service: the future under those of all layers.

use core::convert::Infallible;
use core::error::Error as StdError;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::sync::Arc;

use forbear::{Clock, Error, Handle, Instant, Policy, Reply, Report, Step, Tally};
use forbear_std::SharedRng;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::protocol::{BoxError, Protocol};
use crate::running::{Owner, Running};

/// A [`Protocol`] of which a reply may not yet be known when the response is.
pub(crate) trait Judge<Request, Response> {
    fn copy(&self, request: &mut Request) -> Option<Request>;
    fn is_repeatable(&self, request: &Request) -> bool;
    fn is_unprocessed(&self, result: Result<&Response, &(dyn StdError + 'static)>) -> bool;
    fn mark(&self, request: &mut Request, attempt: u32);

    /// `None` where only the end of the response tells.
    fn reply(&self, result: Result<&Response, &(dyn StdError + 'static)>) -> Option<Reply>;
}

/// A protocol whose reply is known as soon as there is a response.
#[derive(Debug)]
pub(crate) struct Known<P>(pub(crate) P);

impl<P: Protocol<Request, Response>, Request, Response> Judge<Request, Response> for Known<P> {
    fn copy(&self, request: &mut Request) -> Option<Request> {
        self.0.copy(request)
    }

    fn is_repeatable(&self, request: &Request) -> bool {
        self.0.is_repeatable(request)
    }

    fn is_unprocessed(&self, result: Result<&Response, &(dyn StdError + 'static)>) -> bool {
        self.0.is_unprocessed(result)
    }

    fn mark(&self, request: &mut Request, attempt: u32) {
        self.0.mark(request, attempt);
    }

    fn reply(&self, result: Result<&Response, &(dyn StdError + 'static)>) -> Option<Reply> {
        Some(self.0.reply(result))
    }
}

/// What all calls through one layer share.
pub(crate) struct Shared<J, C, R, W>(Arc<(crate::Client<C, R, W>, J)>);

impl<J, C, R, W> Shared<J, C, R, W> {
    pub(crate) fn new(client: crate::Client<C, R, W>, judge: J) -> Self {
        Self(Arc::new((client, judge)))
    }

    #[inline]
    pub(crate) fn judge(&self) -> &J {
        &self.0.1
    }
}

impl<J, C, R, W> Clone for Shared<J, C, R, W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<J, C, R, W> fmt::Debug for Shared<J, C, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.fmt(f)
    }
}

impl<J, C: Clock, R: SharedRng, W: Tally> Handle for Shared<J, C, R, W> {
    type Tally = W;
    type Settings = forbear::Config;

    #[inline]
    fn policy(&self) -> &Policy<W> {
        self.client().policy()
    }

    #[inline]
    fn now(&self) -> Option<Instant> {
        self.client().now()
    }
}

impl<J, C: Clock, R: SharedRng, W: Tally> Owner for Shared<J, C, R, W> {
    type Clock = C;
    type Rng = R;

    #[inline]
    fn client(&self) -> &forbear_std::Client<C, R, W> {
        self.0.0.blocking()
    }
}

/// Sent, and no attempt had a reply before the attempt timeout or the deadline of the configuration cut it.
///
/// Found by `downcast_ref` in the error of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedOut(Report);

impl TimedOut {
    /// How the call ended.
    pub const fn report(&self) -> &Report {
        &self.0
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timed out, {}", self.0)
    }
}

impl StdError for TimedOut {}

/// The error of a call in which nothing came back.
fn empty(report: Report) -> BoxError {
    match report.resolve(None::<Result<Infallible, Infallible>>) {
        Err(Error::Refused(refused)) => Box::new(refused),
        Err(Error::TimedOut(report)) => Box::new(TimedOut(report)),
        Ok(never) => match never {},
        Err(Error::Failed { last, .. }) => match last {},
    }
}

pin_project! {
    /// One call through a service: it comes to what the last attempt came to.
    pub(crate) struct Driver<S, J, Request, C, R, W>
    where
        S: Service<Request>,
        C: Clock,
        R: SharedRng,
        W: Tally,
    {
        running: Running<Shared<J, C, R, W>>,
        service: S,
        // What the next attempt sends; while one is in flight the copy of it, if there is one.
        request: Option<Request>,
        repeatable: bool,
        // What the last attempt came to that came to anything.
        last: Option<Result<S::Response, BoxError>>,
        state: State,
        #[pin]
        sending: Option<S::Future>,
        // The wait before an attempt, or the limit of one.
        #[pin]
        timer: Option<Sleep>,
    }
}

#[derive(Clone, Copy)]
enum State {
    New,
    /// Until the timer ends.
    Waiting,
    /// Decided; until the service is ready.
    Readying,
    Sending,
}

impl<S, J, Request, C, R, W> Driver<S, J, Request, C, R, W>
where
    S: Service<Request>,
    C: Clock,
    R: SharedRng,
    W: Tally,
{
    #[inline]
    pub(crate) fn new(shared: Shared<J, C, R, W>, service: S, request: Request) -> Self {
        Self {
            running: Running::new(shared),
            service,
            request: Some(request),
            repeatable: false,
            last: None,
            state: State::New,
            sending: None,
            timer: None,
        }
    }

    /// The call, once there is a response: it goes on where its reply is not yet known.
    #[cfg(feature = "grpc")]
    pub(crate) fn take_running(self: Pin<&mut Self>) -> Running<Shared<J, C, R, W>> {
        core::mem::replace(self.project().running, Running::ENDED)
    }
}

impl<S, J, Request, C, R, W> Future for Driver<S, J, Request, C, R, W>
where
    S: Service<Request, Error: Into<BoxError>>,
    J: Judge<Request, S::Response>,
    C: Clock,
    R: SharedRng,
    W: Tally,
{
    type Output = Result<S::Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let running = this.running;
        loop {
            let mut result = None;
            let reply = match this.state {
                State::New => None,
                State::Waiting => {
                    if let Some(timer) = this.timer.as_mut().as_pin_mut() {
                        ready!(timer.poll(cx));
                    }
                    None
                }
                State::Readying => match this.service.poll_ready(cx) {
                    Poll::Ready(Ok(())) => {
                        let judge = running.handle().judge();
                        let mut request = this.request.take().expect("an attempt has something to send");
                        *this.repeatable = judge.is_repeatable(&request);
                        if running.attempts() < running.handle().client().config().max_attempts() {
                            *this.request = judge.copy(&mut request);
                        }
                        judge.mark(&mut request, running.attempts().saturating_sub(1));
                        this.sending.set(Some(this.service.call(request)));
                        *this.state = State::Sending;
                        continue;
                    }
                    // A service that has failed to be ready is not to be asked again.
                    Poll::Ready(Err(error)) => {
                        result = Some(Err(error.into()));
                        Some(Reply::UNREACHABLE.once())
                    }
                    Poll::Pending => {
                        ready!(limit(this.timer.as_mut(), cx));
                        Some(Reply::UNREACHABLE)
                    }
                },
                State::Sending => {
                    let sending = this.sending.as_mut().as_pin_mut().expect("an attempt is in flight");
                    let came = match sending.poll(cx) {
                        Poll::Ready(came) => Some(came.map_err(Into::into)),
                        Poll::Pending => {
                            ready!(limit(this.timer.as_mut(), cx));
                            None
                        }
                    };
                    // Before anything else: what the attempt holds on to is free for the next one.
                    this.sending.set(None);
                    let shared = running.handle();
                    let seen = came.as_ref().map(|came| came.as_ref().map_err(|error| &**error as _));
                    let Some(reply) = seen.map_or(Some(Reply::UNREACHABLE), |seen| shared.judge().reply(seen)) else {
                        // The last word is not spoken, but this attempt is the last one.
                        return Poll::Ready(came.expect("what was cut is known"));
                    };
                    // That no more attempts are allowed is for the call to say.
                    let again = running.attempts() >= shared.client().config().max_attempts()
                        || this.request.is_some()
                            && (*this.repeatable || seen.is_some_and(|seen| shared.judge().is_unprocessed(seen)));
                    result = came;
                    Some(if again { reply } else { reply.once() })
                }
            };
            match running.next(reply) {
                Step::Send { within } => {
                    *this.state = State::Readying;
                    match within {
                        Some(within) => start(this.timer.as_mut(), within),
                        None => this.timer.set(None),
                    }
                }
                Step::Wait(delay) => {
                    *this.state = State::Waiting;
                    start(this.timer.as_mut(), delay);
                }
                Step::Done(report) => {
                    let result = result.or_else(|| this.last.take()).unwrap_or_else(|| Err(empty(report)));
                    return Poll::Ready(result);
                }
            }
            if result.is_some() {
                *this.last = result;
            }
        }
    }
}

/// Starts the timer anew.
// A timer is large, and not for every call to move.
#[inline(never)]
fn start(mut timer: Pin<&mut Option<Sleep>>, duration: Duration) {
    timer.set(Some(sleep(duration)));
}

/// Ready once the limit has passed, if there is one.
fn limit(timer: Pin<&mut Option<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
    match timer.as_pin_mut() {
        Some(timer) => timer.poll(cx),
        None => Poll::Pending,
    }
}
