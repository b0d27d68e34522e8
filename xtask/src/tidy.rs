//! `cargo xtask tidy`: conventions that no compiler checks.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use cargo_metadata::Package;

use crate::process::{Run, program};
use crate::workspace;

/// Check the conventions: files say what they are for, no marks of unfinished work, complete manifests and licences
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Files with these endings are written by hand.
const TEXTS: [&str; 6] = ["rs", "toml", "md", "sh", "yml", "x"];

/// Put together here, so that this file does not contain them.
const UNFINISHED: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

pub(crate) fn run(_: &Args) -> Result<()> {
    let mut complaints = Vec::new();
    let mut checked = 0;
    let files = program("git", ["ls-files", "--cached", "--others", "--exclude-standard"]).read()?;
    for name in files.lines() {
        let path = workspace::root().join(name);
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        // A file that was removed but not yet from the index, or a link to a folder, has nothing to read.
        if TEXTS.contains(&ending) && path.is_file() {
            checked += 1;
            complaints.extend(text(name, &fs::read_to_string(&path)?));
        }
    }
    let changelog = fs::read_to_string(workspace::root().join("CHANGELOG.md"))?;
    if !changelog.lines().any(|line| line.trim_end() == "## [Unreleased]") {
        complaints.push("CHANGELOG.md: no section `## [Unreleased]`".to_owned());
    }
    for package in workspace::packages()? {
        complaints.extend(manifest(&package)?);
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("{checked} files, {} complaints", complaints.len());
    if !complaints.is_empty() {
        bail!("not tidy");
    }
    Ok(())
}

/// What is wrong with a text file.
fn text(name: &str, content: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if name.ends_with(".rs") && !says_what_it_is_for(content) {
        complaints.push(format!("{name}:1: no `//!` sentence that says what the file is for"));
    }
    for (number, line) in (1..).zip(content.lines()) {
        let mut complain = |what: &str| complaints.push(format!("{name}:{number}: {what}"));
        if line.contains('\t') {
            complain("a tab");
        }
        if line.ends_with([' ', '\r']) {
            complain("blanks at the end of the line");
        }
        if UNFINISHED.iter().any(|mark| line.contains(mark)) {
            complain("unfinished work");
        }
    }
    if !content.is_empty() && (!content.ends_with('\n') || content.ends_with("\n\n")) {
        complaints.push(format!("{name}: does not end with one line break"));
    }
    complaints
}

/// Documentation at the head of the file: written there, or the README that is included.
fn says_what_it_is_for(content: &str) -> bool {
    let first = content.lines().next().unwrap_or_default();
    first.starts_with("//! ") || first.starts_with("#![") && first.contains("doc = include_str!(")
}

/// What is wrong with a package's manifest and licences.
fn manifest(package: &Package) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let mut need = |present: bool, what: &'static str| {
        if !present {
            missing.push(what);
        }
    };
    let text = fs::read_to_string(&package.manifest_path)?;
    need(text.contains("[lints]\nworkspace = true"), "the lints of the workspace");
    need(package.rust_version.is_some(), "rust-version");
    need(package.description.is_some(), "description");
    need(package.license.as_deref() == Some("MIT OR Apache-2.0"), "license");
    if workspace::is_published(package) {
        need(package.repository.is_some(), "repository");
        need((1..=5).contains(&package.keywords.len()), "keywords (at most five)");
        need((1..=5).contains(&package.categories.len()), "categories (at most five)");
        need(package.readme().is_some_and(|readme| readme.exists()), "readme");
        need(package.metadata.pointer("/docs/rs").is_some(), "package.metadata.docs.rs");
        let folder = package.manifest_path.parent().map(|folder| folder.as_std_path()).unwrap_or(Path::new("."));
        need(is_same("LICENSE-MIT", folder), "LICENSE-MIT");
        need(is_same("LICENSE-APACHE", folder), "LICENSE-APACHE");
    }
    Ok(missing.into_iter().map(|what| format!("{}: no {what}", package.name)).collect())
}

/// Whether a package has the same file as the workspace: a link to it.
fn is_same(name: &str, package: &Path) -> bool {
    let ours = fs::read(workspace::root().join(name));
    let theirs = fs::read(package.join(name));
    matches!((ours, theirs), (Ok(ours), Ok(theirs)) if ours == theirs)
}

#[cfg(test)]
mod tests {
    use super::{UNFINISHED, text};

    #[test]
    fn a_tidy_file_has_no_complaint() {
        assert_eq!(text("src/window.rs", "//! The window.\n\nfn f() {}\n"), [""; 0]);
        assert_eq!(text("src/lib.rs", "#![doc = include_str!(\"../README.md\")]\n"), [""; 0]);
        assert_eq!(text("README.md", "# forbear\n"), [""; 0]);
    }

    #[test]
    fn each_rule_complains() {
        assert_eq!(text("a.rs", "fn f() {}\n"), ["a.rs:1: no `//!` sentence that says what the file is for"]);
        assert_eq!(text("a.md", "one\n\ttwo\n"), ["a.md:2: a tab"]);
        assert_eq!(text("a.md", "one \n"), ["a.md:1: blanks at the end of the line"]);
        assert_eq!(text("a.md", "one"), ["a.md: does not end with one line break"]);
        for mark in UNFINISHED {
            assert_eq!(text("a.md", &format!("{mark}: more\n")), ["a.md:1: unfinished work"]);
        }
    }
}
