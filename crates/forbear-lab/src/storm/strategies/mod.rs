//! Six ways to ask again, behind one trait.

mod backoff;
mod budget;
mod forbear;
mod plain;

use std::{
    cell::{Cell, RefCell},
    error::Error,
    fmt,
    rc::Rc,
    sync::Arc,
};

use http_body_util::{BodyExt, Empty};
use hyper::{StatusCode, Uri, body::Bytes};
use hyper_util::client::legacy::{Client as Http, connect::HttpConnector};
use tokio::{sync::Semaphore, time::Instant};

use super::record::{Live, Record};

pub(super) use self::{backoff::Backoff, budget::Budget, forbear::Forbear, plain::Plain};

/// The six, in the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    NoRetries,
    PlainRetries,
    Backoff,
    Budget,
    /// The specification to the letter.
    Book,
    /// What every client of forbear is by default.
    Forbear,
}

impl Strategy {
    pub(super) const ALL: [Self; 6] =
        [Self::NoRetries, Self::PlainRetries, Self::Backoff, Self::Budget, Self::Book, Self::Forbear];

    /// For machines.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NoRetries => "no-retries",
            Self::PlainRetries => "plain-retries",
            Self::Backoff => "backoff",
            Self::Budget => "retry-budget",
            Self::Book => "forbear",
            Self::Forbear => "forbear-resilient",
        }
    }

    /// For people, where [`means`](Self::means) stands beside it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::NoRetries => "no retries",
            Self::PlainRetries => "plain retries",
            Self::Backoff => "backoff",
            Self::Budget => "retry budget",
            Self::Book | Self::Forbear => "forbear",
        }
    }

    /// What it is made of, in a few words.
    pub(super) const fn means(self) -> &'static str {
        match self {
            Self::NoRetries => "one attempt",
            Self::PlainRetries => "again, at once",
            Self::Backoff => "backon, with jitter",
            Self::Budget => "tower's TpsBudget",
            Self::Book => "by the book",
            Self::Forbear => "resilient",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if *self == Self::Forbear { "forbear, resilient" } else { self.title() })
    }
}

/// One client's way to get something out of the backend; it lives as long as the storm.
pub(super) trait Client {
    /// Sends as often as it sees fit, and says whether it was served.
    async fn call(&self, request: &Request<'_>) -> Result<(), Unserved>;
}

/// The backend did not serve this: it said 503, or did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unserved;

/// The road to a backend, shared by all clients of a strategy: they pool their connections, but not what they know.
#[derive(Debug)]
pub(super) struct Road {
    pub(super) start: Instant,
    pub(super) http: Http<HttpConnector, Empty<Bytes>>,
    /// As many connections as the pool may open: without a bound a machine that falls behind drowns in new ones.
    pub(super) connections: Semaphore,
    pub(super) uri: Uri,
    pub(super) record: Rc<RefCell<Record>>,
    pub(super) live: Arc<Live>,
}

/// What one call sends, once or again.
#[derive(Debug)]
pub(super) struct Request<'r> {
    road: &'r Road,
    sent: Cell<u32>,
}

impl<'r> Request<'r> {
    pub(super) fn new(road: &'r Road) -> Self {
        Self { road, sent: Cell::new(0) }
    }

    /// How often it was sent.
    pub(super) fn sent(&self) -> u32 {
        self.sent.get()
    }

    /// On the clock that a policy counts by.
    pub(super) fn now(&self) -> ::forbear::Instant {
        let elapsed = self.road.start.elapsed().as_micros();
        ::forbear::Instant::from_micros(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// Sends it, for real.
    pub(super) async fn send(&self) -> Result<(), Unserved> {
        let road = self.road;
        if self.sent.replace(self.sent.get() + 1) > 0 {
            road.record.borrow_mut().at(road.start.elapsed()).retries += 1;
        }
        let asked = Instant::now();
        match self.exchange().await {
            Ok(StatusCode::OK) => Ok(()),
            Ok(_) => {
                // Saying no takes a server no time: what it took, this machine was late.
                road.record.borrow_mut().late(asked.elapsed());
                Err(Unserved)
            }
            Err(error) => {
                let mut record = road.record.borrow_mut();
                record.broken += 1;
                record.first_broken.get_or_insert_with(|| explain(&*error));
                Err(Unserved)
            }
        }
    }

    async fn exchange(&self) -> Result<StatusCode, Box<dyn Error>> {
        let _connection = self.road.connections.acquire().await?;
        let response = self.road.http.get(self.road.uri.clone()).await?;
        let status = response.status();
        // Read to its end, so that the connection can be used again.
        response.into_body().collect().await?;
        Ok(status)
    }
}

/// An error and all that caused it.
fn explain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error: &&dyn Error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
