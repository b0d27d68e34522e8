//! `cargo xtask coverage`: which lines of the core the tests reach.

use anyhow::{Context, Result};

use crate::process::{Run, cargo, program};
use crate::tools::{self, Needed};

/// LLVM's tools, where rustup has not brought the compiler's own.
const LLVM: [Needed; 1] = [Needed { file: "/usr/bin/llvm-cov-22", package: "llvm-22" }];

/// The core and the packages whose tests run it.
const PACKAGES: [&str; 3] = ["forbear", "forbear-conformance", "forbear-std"];

/// Report the line coverage of the core, file by file
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail below this percentage of lines
    #[arg(long, default_value_t = 98)]
    at_least: u8,
    /// Write pages with the lines marked, to target/llvm-cov/html
    #[arg(long)]
    html: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    tools::cargo_subcommand("cargo-llvm-cov", "0.9.1")?;
    let mut command = cargo("llvm-cov");
    command.args(["--no-cfg-coverage", "--fail-under-lines", &args.at_least.to_string()]);
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    // Of these, only the core is reported.
    command.args(["--ignore-filename-regex", "crates/forbear-"]);
    if args.html {
        command.arg("--html");
    }
    let sysroot = program("rustc", ["--print", "sysroot"]).read()?;
    let host = program("rustc", ["--print", "host-tuple"]).read()?;
    let own = format!("{}/lib/rustlib/{}/bin/llvm-cov", sysroot.trim(), host.trim());
    if !tools::exists(&own) {
        tools::debian(&LLVM).context("no llvm-cov: `rustup component add llvm-tools`, or Debian's")?;
        command.env("CARGO_LLVM_COV_SETUP", "no");
        command.env("LLVM_COV", "/usr/bin/llvm-cov-22").env("LLVM_PROFDATA", "/usr/bin/llvm-profdata-22");
    }
    command.run()
}
