//! `cargo xtask features`: features are additive, so each builds alone, all build together, and none is needed.

use anyhow::Result;

use crate::process::{Run, cargo};
use crate::workspace;

/// Check each published crate without features, with each feature alone, and with all
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    for package in workspace::published()? {
        for selection in selections(package.features.keys().map(String::as_str)) {
            // Clippy, since it shares its work with `lint`, and a feature left out must leave no unused code behind.
            let mut command = cargo("clippy");
            command.args(["--package", &package.name, "--no-default-features"]);
            if !selection.is_empty() {
                command.args(["--features", &selection]);
            }
            command.args(["--", "-D", "warnings"]).run()?;
        }
    }
    Ok(())
}

/// The lists of features to build with: none, each alone, all.
fn selections<'a>(features: impl Iterator<Item = &'a str>) -> Vec<String> {
    let features: Vec<&str> = features.collect();
    let mut selections = vec![String::new()];
    selections.extend(features.iter().map(|feature| (*feature).to_owned()));
    if features.len() > 1 {
        selections.push(features.join(","));
    }
    selections
}

#[cfg(test)]
mod tests {
    use super::selections;

    #[test]
    fn none_each_and_all() {
        assert_eq!(selections([].into_iter()), [""]);
        assert_eq!(selections(["tower"].into_iter()), ["", "tower"]);
        assert_eq!(selections(["a", "b"].into_iter()), ["", "a", "b", "a,b"]);
    }
}
