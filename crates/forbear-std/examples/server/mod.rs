//! A server on this machine that accepts a part of what it is sent and answers 503 to the rest.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::io;
use std::sync::Arc;
use std::thread;

use tiny_http::{Header, Response};

/// A server in a thread of its own, on a port of its own.
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) url: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    seen: AtomicU64,
    /// How many of a hundred are accepted.
    percent: AtomicU64,
}

impl Server {
    /// Starts a server that accepts nothing yet.
    pub(crate) fn start() -> io::Result<Self> {
        let server = tiny_http::Server::http("127.0.0.1:0").map_err(io::Error::other)?;
        let (url, state) = (format!("http://{}/", server.server_addr()), Arc::<State>::default());
        let answering = state.clone();
        thread::spawn(move || {
            for request in server.incoming_requests() {
                let seen = answering.seen.fetch_add(1, Relaxed);
                // Spread evenly: 37 and 100 have no common factor.
                let response = if seen * 37 % 100 < answering.percent.load(Relaxed) {
                    Response::from_string("hello")
                } else {
                    let header = Header::from_bytes("Retry-After", "0").expect("a valid header");
                    Response::from_string("busy").with_status_code(503).with_header(header)
                };
                // A client that hung up does not wait for its answer.
                let _ = request.respond(response);
            }
        });
        Ok(Self { url, state })
    }

    /// Accepts this part of the requests from now on, 0 to 1.
    pub(crate) fn accept(&self, part: f64) {
        self.state.percent.store((part * 100.0) as u64, Relaxed);
    }

    /// How many requests came so far.
    pub(crate) fn seen(&self) -> u64 {
        self.state.seen.load(Relaxed)
    }
}
