//! `cargo xtask deps`: where dependencies come from, under which licences, and that each is used, once.

use anyhow::{Context, Result, bail};
use cargo_metadata::{MetadataCommand, Package};
use spdx::{Expression, LicenseReq};

use crate::process::{Run, cargo};
use crate::{tools, workspace};

/// Licences that ask for no more than their notice.
const LICENCES: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Check sources and licences of all dependencies, and find unused and duplicate ones
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    let metadata = MetadataCommand::new().current_dir(workspace::root()).exec()?;
    let complaints: Vec<String> = metadata.packages.iter().flat_map(complaints).collect();
    complaints.iter().for_each(|complaint| println!("{complaint}"));
    println!("{} packages: {} complaints about sources and licences", metadata.packages.len(), complaints.len());

    let mut command = cargo("tree");
    command.args(["--duplicates", "--edges", "normal", "--all-features"]);
    for package in workspace::published()? {
        command.args(["--package", &package.name]);
    }
    let duplicates = command.read()?;
    print!("{duplicates}");

    tools::cargo_subcommand("cargo-machete", "0.9.2")?;
    cargo("machete").arg("crates").arg("xtask").run().context("unused dependencies")?;
    if !complaints.is_empty() {
        bail!("unexpected sources or licences");
    }
    if !duplicates.trim().is_empty() {
        bail!("a published crate brings two versions of the same package");
    }
    Ok(())
}

/// What is wrong with one package: it comes from the registry or the workspace, under a licence of the list.
fn complaints(package: &Package) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(source) = &package.source
        && !source.is_crates_io()
    {
        complaints.push(format!("{} {}: comes from {source}", package.name, package.version));
    }
    let licence = package.license.as_deref().unwrap_or("none named");
    if !is_allowed(licence) {
        complaints.push(format!("{} {}: licence {licence}", package.name, package.version));
    }
    complaints
}

/// Whether a licence expression can be satisfied by licences of the list, with or without an exception to their terms.
fn is_allowed(licence: &str) -> bool {
    let listed = |requirement: &LicenseReq| requirement.license.id().is_some_and(|id| LICENCES.contains(&id.name));
    // Older packages write `MIT/Apache-2.0`.
    Expression::parse_mode(licence, spdx::ParseMode::LAX).is_ok_and(|expression| expression.evaluate(listed))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn one_alternative_suffices_and_every_part_is_needed() {
        for licence in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
        ] {
            assert!(is_allowed(licence), "{licence}");
        }
        for licence in ["GPL-3.0-only", "MIT AND AGPL-3.0-only", "none named", ""] {
            assert!(!is_allowed(licence), "{licence}");
        }
    }
}
