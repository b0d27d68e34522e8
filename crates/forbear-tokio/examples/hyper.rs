//! Calls a server on axum with hyper's client behind the layer: it is healthy, then overloaded, then well again.
//!
//! ```text
//! cargo run -p forbear-tokio --example hyper
//! ```

mod server;

use core::time::Duration;
use std::collections::BTreeMap;

use bytes::Bytes;
use forbear_tokio::http::Http;
use forbear_tokio::{Backoff, BoxError, Client, Config, ForbearLayer, Refused};
use http::Request;
use http_body_util::Empty;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use server::Server;
use tower::{Service, ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::start().await?;
    // Short waits, so that the example is too.
    let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(10));
    let client = Client::new(Config::resilient().to_builder().backoff(backoff).build()?);
    let http = legacy::Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let mut service = ServiceBuilder::new().layer(ForbearLayer::new(client.clone(), Http::new())).service(http);

    for (phase, capacity, calls) in [("healthy", 1.0, 50), ("overloaded", 0.05, 1_000), ("well again", 1.0, 1_000)] {
        server.accept(capacity);
        let mut ended = BTreeMap::<String, u32>::new();
        for _ in 0..calls {
            let request = Request::get(server.url()).body(Empty::new())?;
            let end = match service.ready().await?.call(request).await {
                Ok(response) => format!("status {}", response.status().as_u16()),
                Err(error) if error.is::<Refused>() => "not sent".into(),
                Err(error) => return Err(error),
            };
            *ended.entry(end).or_default() += 1;
        }
        println!("{phase}: {ended:?}; the server saw {} requests", server.seen());
        println!("  {:?}, reject probability {:.2}", client.counts(), client.reject_probability());
    }
    Ok(())
}
