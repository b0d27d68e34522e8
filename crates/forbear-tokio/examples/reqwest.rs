//! Calls a server with reqwest behind the layer: reads are retried, orders only with a key that makes them repeatable.
//!
//! ```text
//! cargo run -p forbear-tokio --example reqwest
//! ```

mod server;

use core::time::Duration;

use forbear_tokio::http::Http;
use forbear_tokio::{Backoff, BoxError, Client, Config, ForbearLayer, Refused};
use reqwest::Method;
use server::Server;
use tower::{Service, ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::start().await?;
    let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(10));
    let client = Client::new(Config::resilient().to_builder().backoff(backoff).build()?);
    let http = reqwest::Client::new();
    let mut service = ServiceBuilder::new()
        .layer(ForbearLayer::new(client.clone(), Http::new().attempt_header("x-attempt".parse()?)))
        .service(http.clone());

    for _ in 0..100 {
        let response = service.ready().await?.call(http.get(server.url()).build()?).await?;
        assert!(response.status().is_success());
    }
    println!("healthy: {:?}", client.counts());

    server.accept(0.0);
    for (method, key) in
        [(Method::GET, None), (Method::PUT, None), (Method::POST, None), (Method::POST, Some("order-7"))]
    {
        let before = server.seen();
        let mut request = http.request(method.clone(), server.url()).body("one of these");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let end = match service.ready().await?.call(request.build()?).await {
            Ok(response) => response.status().to_string(),
            Err(error) if error.is::<Refused>() => error.to_string(),
            Err(error) => return Err(error),
        };
        println!("overloaded: {method} with key {key:?} was sent {} times: {end}", server.seen() - before);
    }
    Ok(())
}
