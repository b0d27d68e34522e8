//! `cargo xtask no-panic`: a program of all of the core for a device, which links only if no panic is left in it.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{Run, shown};
use crate::{bare_metal, workspace};

const FOLDER: &str = "crates/forbear-embassy/firmware";

/// One with 64-bit multiplication and division in software, one without even a compare-and-swap.
const TARGETS: [&str; 2] = ["thumbv7m-none-eabi", "thumbv6m-none-eabi"];

/// Link a program of all of the core that must hold no panic; and one that does, which must not link
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    for target in TARGETS {
        build(target, &[])?.run().context("a panic is left in the core, or the program does not build")?;
        // A check that cannot fail shows nothing.
        let mut broken = build(target, &["--features", "broken"])?;
        eprintln!("$ {}", shown(&broken));
        let output = broken.stderr(Stdio::piped()).output()?;
        if output.status.success() {
            bail!("a program with a panic in it links for {target}: the check is blind");
        }
        let log = String::from_utf8_lossy(&output.stderr);
        if !log.contains("a panic is left in the program") {
            bail!("a program with a panic in it fails for another reason:\n{log}");
        }
        println!("{target}: no panic in the core, and one put there is found");
    }
    Ok(())
}

fn build(target: &str, features: &[&str]) -> Result<Command> {
    let mut command = bare_metal::cargo("build", target)?;
    command.current_dir(workspace::root().join(FOLDER));
    command.args(["--release", "--locked", "--package", "forbear-no-panic"]).args(features);
    Ok(command)
}
