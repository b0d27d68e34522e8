//! `cargo xtask no-std`: the crates for devices build for devices.

use anyhow::{Result, bail};

use crate::process::Run;
use crate::{bare_metal, workspace};

/// From the smallest core (no atomic read-modify-write, no 64-bit atomics) to the larger ones.
pub(crate) const TARGETS: [&str; 5] = [
    "thumbv6m-none-eabi",
    "thumbv7m-none-eabi",
    "thumbv7em-none-eabihf",
    "riscv32imc-unknown-none-elf",
    "riscv32imac-unknown-none-elf",
];

/// Build the no_std crates for bare-metal targets
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these targets
    #[arg(long, value_delimiter = ',', default_values = TARGETS)]
    target: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let packages = packages()?;
    if packages.is_empty() {
        bail!("no published crate has a no-std category");
    }
    let targets: Vec<&str> = args.target.iter().map(String::as_str).collect();
    bare_metal::prepare(&targets)?;
    for target in targets {
        let mut command = bare_metal::cargo("build", target)?;
        command.args(["--release", "--all-features"]);
        for package in &packages {
            command.args(["--package", package]);
        }
        command.run()?;
    }
    Ok(())
}

/// The published crates that say in their categories that they need no std.
fn packages() -> Result<Vec<String>> {
    let mut packages = workspace::published()?;
    packages.retain(|package| package.categories.iter().any(|category| category.starts_with("no-std")));
    Ok(packages.into_iter().map(|package| package.name.to_string()).collect())
}
