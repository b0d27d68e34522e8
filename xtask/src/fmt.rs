//! `cargo xtask fmt`: the layout of the code.

use anyhow::Result;

use crate::process::{Run, cargo};

/// Check the layout of the code with rustfmt
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change the files instead
    #[arg(long)]
    fix: bool,
}

/// The workspaces of the repository: those beside the first one link for devices and for the fuzzer.
const MANIFESTS: [&str; 3] = ["Cargo.toml", "crates/forbear-embassy/firmware/Cargo.toml", "fuzz/Cargo.toml"];

pub(crate) fn run(args: &Args) -> Result<()> {
    for manifest in MANIFESTS {
        let mut command = cargo("fmt");
        command.args(["--all", "--manifest-path", manifest]);
        if !args.fix {
            command.arg("--check");
        }
        command.run()?;
    }
    Ok(())
}
