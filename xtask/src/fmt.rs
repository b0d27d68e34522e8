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

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = cargo("fmt");
    command.arg("--all");
    if !args.fix {
        command.arg("--check");
    }
    command.run()
}
