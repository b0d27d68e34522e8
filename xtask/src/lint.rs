//! `cargo xtask lint`: clippy without a warning, and nothing newer than the supported Rust version.

use anyhow::Result;

use crate::process::{Run, cargo};
use crate::workspace;

/// Run clippy on all targets, warnings being errors; refuses what the rust-version does not have
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    clippy(&["--workspace"])?;
    // The fuzz targets are a workspace of their own; its dependencies are shared with this one's target folder.
    if workspace::root().join("fuzz/Cargo.toml").exists() {
        clippy(&["--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target"])?;
    }
    // The models, and what they make of the code under them, are compiled by their own flag only.
    for package in workspace::packages_with_test("loom")? {
        let mut command = cargo("clippy");
        command.env("RUSTFLAGS", "--cfg loom").arg("--target-dir").arg(workspace::target_folder("loom"));
        command.args(["--profile", "checked", "--package", &package, "--lib", "--test", "loom"]);
        command.args(["--", "-D", "warnings"]);
        command.run()?;
    }
    Ok(())
}

fn clippy(what: &[&str]) -> Result<()> {
    cargo("clippy").args(what).args(["--all-targets", "--all-features", "--", "-D", "warnings"]).run()
}
