//! `cargo xtask publish`: what would go to the registry builds from its packages alone.

use anyhow::{Result, bail};

use crate::process::{Run, cargo, program};

/// Package what is published and build it from the packages (a dry run: nothing is uploaded)
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Package uncommitted changes too
    #[arg(long)]
    pub(crate) allow_dirty: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = cargo("publish");
    command.args(["--workspace", "--dry-run"]);
    if args.allow_dirty {
        command.arg("--allow-dirty");
    } else if !is_clean()? {
        bail!("there are uncommitted changes: commit them, or give --allow-dirty");
    }
    command.run()
}

/// Cargo would refuse too, but package by package.
fn is_clean() -> Result<bool> {
    Ok(program("git", ["status", "--porcelain"]).read()?.is_empty())
}
