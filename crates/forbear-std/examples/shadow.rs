//! Shadow mode: what would be refused, before anything is; then the switch is thrown while the program runs.
//!
//! ```text
//! cargo run -p forbear-std --example shadow
//! ```

mod server;

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use forbear_std::{Client, Config, Mode, Reply, Report, http};
use server::Server;
use ureq::Agent;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let server = Server::start()?;
    server.accept(0.1);
    let agent: Agent = Agent::config_builder().http_status_as_error(false).build().into();

    let would_refuse = Arc::new(AtomicU32::new(0));
    let count = would_refuse.clone();
    let config = Config::resilient().to_builder().no_backoff().mode(Mode::Shadow).build()?;
    let client = Client::new(config).observed(move |report: &Report| {
        if report.shadow.is_some() && count.fetch_add(1, Ordering::Relaxed) == 0 {
            println!("first: {report}");
        }
    });
    let call = || {
        client.call(
            || agent.get(&server.url).call(),
            |result| match result {
                Ok(response) => http::status(response.status().as_u16()),
                Err(_) => Reply::UNREACHABLE,
            },
        )
    };

    let refused = (0..200).filter(|_| call().is_err_and(|error| error.is_refused())).count();
    println!("shadow: {refused} of 200 calls refused, {} would have been", would_refuse.load(Ordering::Relaxed));

    client.set_mode(Mode::Enforce);
    let before = server.seen();
    let refused = (0..200).filter(|_| call().is_err_and(|error| error.is_refused())).count();
    println!("enforce: {refused} of 200 calls refused, the server saw {} requests", server.seen() - before);
    Ok(())
}
