//! Calls a gRPC server on tonic through the layer: unary calls, to a server that is healthy, overloaded, and well again.
//!
//! ```text
//! cargo run -p forbear-tokio --example tonic
//! ```
//!
//! The service is written by hand, as `tonic-build` would generate it, so that no compiler of `.proto` files is needed.

mod greeter;

use core::time::Duration;
use std::collections::BTreeMap;

use forbear_tokio::grpc::{Grpc, GrpcLayer, refusal};
use forbear_tokio::{Backoff, BoxError, Client, Config};
use greeter::{Greeter, GreeterClient, HelloRequest};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tower::ServiceBuilder;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let greeter = Greeter::default();
    tokio::spawn(Server::builder().add_service(greeter.clone()).serve_with_incoming(TcpIncoming::from(listener)));

    // Short waits, so that the example is too.
    let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(10));
    let client = Client::new(Config::resilient().to_builder().backoff(backoff).build()?);
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let channel = ServiceBuilder::new()
        .layer(GrpcLayer::new(client.clone(), Grpc::new().repeatable(["/helloworld.Greeter/SayHello"])))
        .service(channel);
    let mut greeter_client = GreeterClient::new(channel);

    for (phase, accepted, calls) in [("healthy", 100, 50), ("overloaded", 5, 1_000), ("well again", 100, 1_000)] {
        greeter.accept(accepted);
        let mut ended = BTreeMap::<String, u32>::new();
        for _ in 0..calls {
            let end = match greeter_client.say_hello(HelloRequest { name: "world".into() }).await {
                Ok(reply) => reply.into_inner().message,
                Err(status) if refusal(&status).is_some() => "not sent".into(),
                Err(status) => status.code().to_string(),
            };
            *ended.entry(end).or_default() += 1;
        }
        println!("{phase}: {ended:?}; the server saw {} calls", greeter.seen());
        println!("  {:?}, reject probability {:.2}", client.counts(), client.reject_probability());
    }
    Ok(())
}
