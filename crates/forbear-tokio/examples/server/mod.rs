//! A server on axum that accepts a part of its requests, and answers 503 to the rest.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::any;
use tokio::net::TcpListener;

/// Of how many requests in turn a part is accepted.
const TURN: u32 = 100;

#[derive(Default)]
struct Load {
    /// Out of [`TURN`].
    accepted: AtomicU32,
    seen: AtomicU32,
}

/// A server of its own port, which ends with the program.
pub(crate) struct Server {
    address: SocketAddr,
    load: Arc<Load>,
}

impl Server {
    /// A server that accepts everything.
    pub(crate) async fn start() -> io::Result<Self> {
        let load = Arc::new(Load::default());
        let answer = {
            let load = load.clone();
            async move || {
                let number = load.seen.fetch_add(1, Ordering::Relaxed);
                if number % TURN < load.accepted.load(Ordering::Relaxed) {
                    (StatusCode::OK, "here you are")
                } else {
                    (StatusCode::SERVICE_UNAVAILABLE, "too busy")
                }
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let app = Router::new().route("/", any(answer));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let server = Self { address, load };
        server.accept(1.0);
        Ok(server)
    }

    /// Accepts this part of the requests from now on.
    pub(crate) fn accept(&self, part: f64) {
        self.load.accepted.store((part * f64::from(TURN)) as u32, Ordering::Relaxed);
    }

    /// How many requests arrived so far.
    pub(crate) fn seen(&self) -> u32 {
        self.load.seen.load(Ordering::Relaxed)
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}
