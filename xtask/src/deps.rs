//! `cargo xtask deps`: where dependencies come from, under which licences, and that each is used.

use std::collections::HashSet;
use std::fs;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Dependency, MetadataCommand, Package};
use spdx::{Expression, LicenseReq};

use crate::process::{Run, cargo, program};
use crate::workspace;

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

/// Check sources and licences of all dependencies, and find unused ones; report duplicates
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    let metadata = MetadataCommand::new().current_dir(workspace::root()).exec()?;
    let mut complaints: Vec<String> = metadata.packages.iter().flat_map(complaints).collect();
    for package in metadata.workspace_packages() {
        complaints.extend(unused(package)?);
    }
    for package in workspace::published()? {
        report_duplicates(&package.name)?;
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("{} packages, {} complaints", metadata.packages.len(), complaints.len());
    if !complaints.is_empty() {
        bail!("the dependencies are not as they should be");
    }
    Ok(())
}

/// Shows what a published crate brings in two versions: worth knowing, but for the packages between to mend.
fn report_duplicates(package: &str) -> Result<()> {
    let mut command = cargo("tree");
    command.args(["--quiet", "--duplicates", "--depth", "0", "--prefix", "none", "--edges", "normal"]);
    let tree = command.args(["--all-features", "--package", package]).read()?;
    let names: Vec<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    if !names.is_empty() {
        println!("{package} brings two versions: {}", names.join(", "));
    }
    Ok(())
}

/// Dependencies of a member that no file of it names.
fn unused(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
    let files = program("git", ["ls-files", "--cached", "--others", "--exclude-standard", "--"])
        // The examples in a README are doctests, also in the workspace's own.
        .args([folder.join("*.rs"), folder.join("*.md"), "README.md".into()])
        .read()?;
    let mut sources = String::new();
    for name in files.lines() {
        let path = workspace::root().join(name);
        if path.exists() {
            sources.push_str(&fs::read_to_string(path)?);
        }
    }
    let words: HashSet<&str> = sources.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let name = |dependency: &Dependency| dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
    let unused = package.dependencies.iter().map(name).filter(|name| !words.contains(name.as_str()));
    Ok(unused.map(|name| format!("{}: does not use {name}", package.name)).collect())
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
