//! Calls an HTTP server with `ureq` through forbear: it is healthy, then overloaded, then well again.
//!
//! ```text
//! cargo run -p forbear-std --example ureq
//! ```

mod server;

use core::error::Error as _;
use core::time::Duration;
use std::collections::BTreeMap;

use forbear_std::{Backoff, Client, Config, Error, Reply, http};
use server::Server;
use ureq::http::{Response, header};
use ureq::{Agent, Body};

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let server = Server::start()?;
    // Statuses are replies to be classified, not errors.
    let agent: Agent = Agent::config_builder().http_status_as_error(false).build().into();
    // Short waits, so that the example is too.
    let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(10));
    let client = Client::new(Config::resilient().to_builder().backoff(backoff).build()?);

    for (phase, capacity, calls) in [("healthy", 1.0, 50), ("overloaded", 0.05, 1_000), ("well again", 1.0, 1_000)] {
        server.accept(capacity);
        let mut ended = BTreeMap::<String, u32>::new();
        for _ in 0..calls {
            let end = match client.call(|| agent.get(&server.url).call(), classify) {
                Ok(response) => format!("status {}", response.status()),
                Err(Error::Refused(_)) => "not sent".into(),
                Err(error) => format!("{error}: {:?}", error.source()),
            };
            *ended.entry(end).or_default() += 1;
        }
        let counts = client.counts();
        println!("{phase}: {ended:?}; the server saw {} requests", server.seen());
        println!("  {counts:?}, reject probability {:.2}", client.reject_probability());
    }
    Ok(())
}

/// What a result of `ureq` means, for a GET, which may be repeated.
fn classify(result: &Result<Response<Body>, ureq::Error>) -> Reply {
    let Ok(response) = result else { return Reply::UNREACHABLE };
    let reply = http::status(response.status().as_u16());
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    match text(header::RETRY_AFTER).and_then(|at| http::retry_after(at, text(header::DATE))) {
        Some(wait) => reply.after(wait),
        None => reply,
    }
}
