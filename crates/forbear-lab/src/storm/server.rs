//! A real HTTP/1.1 server on loopback, with simulated work behind it.

use std::{cell::RefCell, convert::Infallible, rc::Rc, sync::Arc, time::Duration};

use http_body_util::Empty;
use hyper::{Request, Response, StatusCode, body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    time::Instant,
};

use super::{
    phases::{Phase, Phases},
    queue::{Admission, Queue},
    record::{Live, Record},
};

/// What the server knows: it is one process with one queue.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) start: Instant,
    pub(super) phases: Phases,
    pub(super) queue: RefCell<Queue>,
    pub(super) record: Rc<RefCell<Record>>,
    pub(super) live: Arc<Live>,
}

impl Server {
    /// Serves every connection, until the task is dropped.
    pub(super) async fn run(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::task::spawn_local(self.clone().connection(stream))),
                // Out of descriptors or a connection that is gone already: the client will notice and count it.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn connection(self: Rc<Self>, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let service = service_fn(|_: Request<Incoming>| async {
            let mut response = Response::new(Empty::<Bytes>::new());
            *response.status_mut() = self.answer().await;
            Ok::<_, Infallible>(response)
        });
        // A client that hangs up ends its connection, and nothing else.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(&self) -> StatusCode {
        let now = self.start.elapsed();
        self.record.borrow_mut().at(now).load += 1;
        self.live.add_load();
        if self.phases.at(now) == Some(Phase::Outage) {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        let admission = self.queue.borrow_mut().arrive(now);
        match admission {
            Admission::Rejected => StatusCode::SERVICE_UNAVAILABLE,
            Admission::Served(after) => {
                tokio::time::sleep_until(self.start + now + after).await;
                StatusCode::OK
            }
        }
    }
}
