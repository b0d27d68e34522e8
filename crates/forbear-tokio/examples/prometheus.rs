//! Serves the metrics of a client to Prometheus, and shows what it would scrape after some calls.
//!
//! ```text
//! cargo run -p forbear-tokio --example prometheus
//! ```

mod server;

use core::time::Duration;

use axum::Router;
use axum::routing::get;
use forbear_tokio::http::Http;
use forbear_tokio::{Backoff, BoxError, Client, Config, Events, ForbearLayer, Metrics};
use metrics_exporter_prometheus::PrometheusBuilder;
use server::Server;
use tokio::net::TcpListener;
use tower::{Service, ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // Before the observer is made.
    let recorder = PrometheusBuilder::new().install_recorder()?;
    tracing_subscriber::fmt().without_time().with_writer(std::io::stderr).init();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let scraped = format!("http://{}/metrics", listener.local_addr()?);
    let app = Router::new().route("/metrics", get(async move || recorder.render()));
    tokio::spawn(async move { axum::serve(listener, app).await });

    let backend = Server::start().await?;
    let http = reqwest::Client::new();
    // Short waits, so that the example is too.
    let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(10));
    let config = Config::resilient().to_builder().backoff(backoff).build()?;
    let client = Client::new(config).observed(Metrics::new("inventory")).observed(Events::new("inventory"));
    let mut service = ServiceBuilder::new().layer(ForbearLayer::new(client, Http::new())).service(http.clone());
    for (capacity, calls) in [(1.0, 20), (0.0, 30)] {
        backend.accept(capacity);
        for _ in 0..calls {
            // What is refused or fails is in the metrics.
            let _ = service.ready().await?.call(http.get(backend.url()).build()?).await;
        }
    }
    println!("the backend saw {} requests", backend.seen());
    let metrics = http.get(scraped).send().await?.text().await?;
    print!("{metrics}");
    assert!(metrics.contains("forbear_calls_total{client=\"inventory\"} 50"));
    Ok(())
}
