//! `cargo xtask tree`: the core depends on heapless and rand_core, and on what they bring.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::no_std;
use crate::process::{Run, cargo, program};

/// What the core may pull in: its two dependencies, and what heapless needs for any target.
const ALLOWED: [&str; 6] = ["forbear", "byteorder", "hash32", "heapless", "rand_core", "stable_deref_trait"];

/// Check that the core has no other dependencies than heapless and rand_core
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    let mut command = cargo("tree");
    command.args(["--package", "forbear", "--edges", "normal"]);
    let host = program("rustc", ["--print", "host-tuple"]).read()?;
    command.args(["--target", host.trim()]);
    println!("{}", command.read()?.trim_end());
    for target in no_std::TARGETS {
        command.args(["--target", target]);
    }
    let names = command.args(["--prefix", "none"]).read()?;
    let unexpected = unexpected(&names);
    if !unexpected.is_empty() {
        bail!("forbear may depend on heapless, rand_core and what they bring alone, but has {}", unexpected.join(", "));
    }
    Ok(())
}

/// The packages of a flat `cargo tree` that are not allowed.
fn unexpected(tree: &str) -> Vec<&str> {
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.into_iter().filter(|name| !ALLOWED.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::unexpected;

    #[test]
    fn other_packages_are_found() {
        let tree = "forbear v0.1.0 (/tmp/x)\nheapless v0.9.4\nhash32 v0.3.1\nserde v1.0.229\n\nserde v1.0.229 (*)\n";
        assert_eq!(unexpected(tree), ["serde"]);
    }
}
