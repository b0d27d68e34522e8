//! What a command needs beyond cargo: installed where that is allowed, else named with the command that installs it.

use core::sync::atomic::{AtomicBool, Ordering};
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::process::{Run, cargo, program};

/// A file or program, and the Debian package that brings it.
pub(crate) struct Needed {
    /// A program's name, or the absolute path of a file.
    pub(crate) file: &'static str,
    /// The package.
    pub(crate) package: &'static str,
}

static MAY_INSTALL: OnceLock<bool> = OnceLock::new();

/// Debian's lists of packages are fetched once.
static UPDATED: AtomicBool = AtomicBool::new(false);

/// Says once whether Debian packages may be installed: where the user asked for it, and in continuous integration.
pub(crate) fn allow_debian_packages(asked: bool) {
    MAY_INSTALL.get_or_init(|| asked || std::env::var_os("CI").is_some());
}

/// Installs the packages whose file is missing, or fails with the command that does.
pub(crate) fn debian(needed: &[Needed]) -> Result<()> {
    let missing: Vec<&str> = needed.iter().filter(|needed| !exists(needed.file)).map(|needed| needed.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let may_install = MAY_INSTALL.get().copied().unwrap_or(false) && program("id", ["-u"]).read()?.trim() == "0";
    if !may_install {
        let packages = missing.join(" ");
        bail!("as root, `apt-get install --no-install-recommends {packages}` (cargo xtask --install does it)");
    }
    if !UPDATED.swap(true, Ordering::Relaxed) {
        program("apt-get", ["update", "-qq"]).run()?;
    }
    program("apt-get", ["install", "-qq", "--yes", "--no-install-recommends"])
        .args(missing)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()
}

/// Whether a program is in the path, or an absolute path exists.
pub(crate) fn exists(file: &str) -> bool {
    // Joining an absolute path replaces the folder.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(file).exists())
        || Path::new(file).is_absolute() && Path::new(file).exists()
}

/// Installs a subcommand of cargo, such as `cargo-fuzz`, if it is missing or older than this version.
pub(crate) fn cargo_subcommand(name: &str, version: &str) -> Result<()> {
    let subcommand = name.trim_start_matches("cargo-");
    let installed = cargo(subcommand).arg("--version").stderr(std::process::Stdio::null()).output();
    let installed = installed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if version_in(&installed) >= version_in(version) {
        return Ok(());
    }
    cargo("install").args(["--locked", &format!("{name}@{version}")]).run().with_context(|| format!("{name} is needed"))
}

/// Fails unless rustup has a nightly compiler.
pub(crate) fn nightly() -> Result<()> {
    let toolchains = program("rustup", ["toolchain", "list"]).read().unwrap_or_default();
    if !toolchains.lines().any(|line| line.starts_with("nightly")) {
        bail!("a nightly compiler is needed: `rustup toolchain install nightly --profile minimal`");
    }
    Ok(())
}

/// The first version number `x.y.z` in a text.
fn version_in(text: &str) -> Option<[u32; 3]> {
    text.split_whitespace().find_map(|word| {
        let mut parts = word.trim_start_matches('v').split(['.', '-', '+']).map(str::parse);
        Some([parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?])
    })
}

#[cfg(test)]
mod tests {
    use super::{Needed, debian, exists, version_in};

    #[test]
    fn versions_are_found_and_compared() {
        assert_eq!(version_in("cargo-fuzz 0.13.2"), Some([0, 13, 2]));
        assert_eq!(version_in("0.9.2\n"), Some([0, 9, 2]));
        assert_eq!(version_in("cargo-llvm-cov v1.2.3-dev"), Some([1, 2, 3]));
        assert_eq!(version_in("error: no such command"), None);
        assert!(version_in("a 0.10.0") > version_in("0.9.2"));
        assert!(version_in("") < version_in("0.0.1"));
    }

    #[test]
    fn programs_and_files_are_looked_for() {
        assert!(exists("cargo"));
        assert!(!exists("no-such-program"));
        assert!(exists(env!("CARGO_MANIFEST_DIR")));
        assert!(!exists("/no/such/file"));
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_installs_it() {
        let there = Needed { file: "cargo", package: "cargo" };
        let missing = Needed { file: "/no/such/file", package: "such-package" };
        let error = debian(&[there, missing]).unwrap_err().to_string();
        assert!(error.contains("`apt-get install --no-install-recommends such-package`"), "{error}");
    }
}
