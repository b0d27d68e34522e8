//! What a simulation costs: attempts a second on one core, from fleets that fit into the caches to a million clients.
//!
//! `cargo bench -p forbear-lab --bench fleet`. Every fleet asks for a million calls a second; the time is that of the processor, as far as
//! the machine has nothing else to do.
#![allow(clippy::std_instead_of_core, reason = "a program, on std throughout")]

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // Cargo builds benches for tests as well, and then does not say this.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    for strategy in ["plain", "book", "resilient"] {
        for clients in [100, 10_000, 100_000, 1_000_000] {
            let rate = 1e6 / f64::from(clients);
            let output = Command::new(env!("CARGO_BIN_EXE_forbear-lab"))
                .args(["fleet", "--threads", "1", "--seconds", "20", "--surge", "5:5:2", "--strategy", strategy])
                .args(["--clients", &clients.to_string(), "--rate", &rate.to_string()])
                .output();
            match output {
                Ok(output) if output.status.success() => {
                    // The last line is what the machine took for it.
                    let text = String::from_utf8_lossy(&output.stderr);
                    println!("{strategy:10} {clients:>8} clients: {}", text.lines().last().unwrap_or("no answer"));
                }
                failed => {
                    eprintln!("the fleet failed: {failed:?}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
