//! `cargo xtask doc`: the documentation, without a broken link.

use anyhow::Result;

use crate::process::{Run, cargo};

/// Build the documentation, warnings being errors
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Open it in a browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = cargo("doc");
    command.args(["--workspace", "--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-D warnings");
    if args.open {
        command.arg("--open");
    }
    command.run()
}
