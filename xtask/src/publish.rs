//! `cargo xtask publish`: what would go to the registry builds from its packages alone.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process::{Run, cargo, program};
use crate::workspace;

/// Package what is published and build it from the packages (a dry run: nothing is uploaded)
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Package uncommitted changes too
    #[arg(long)]
    pub(crate) allow_dirty: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = cargo("publish");
    command.args(["--workspace", "--dry-run"]);
    if args.allow_dirty {
        command.arg("--allow-dirty");
    } else if !is_clean()? {
        bail!("there are uncommitted changes: commit them, or give --allow-dirty");
    }
    forget_earlier_packages()?;
    command.arg("--target-dir").arg(workspace::target_folder(FOLDER)).run()
}

const FOLDER: &str = "publish";

/// Cargo would refuse too, but package by package.
fn is_clean() -> Result<bool> {
    Ok(program("git", ["status", "--porcelain"]).read()?.is_empty())
}

/// Cargo knows a packaged crate by its version alone, so one that was unpacked or built by an earlier dry run would stand
/// for what is packaged now.
fn forget_earlier_packages() -> Result<()> {
    remove(&workspace::target_folder(FOLDER))?;
    let sources = home::cargo_home().context("cargo's home is unknown: set CARGO_HOME")?.join("registry/src");
    let published = workspace::published()?;
    let folders: Vec<String> =
        published.iter().map(|package| format!("{}-{}", package.name, package.version)).collect();
    forget_unpacked(&sources, &folders)
}

/// Removes these folders of the registries that are themselves a folder: their names have no host in front of the hash.
fn forget_unpacked(sources: &Path, folders: &[String]) -> Result<()> {
    if !sources.exists() {
        return Ok(());
    }
    for registry in fs::read_dir(sources).with_context(|| format!("cannot read {}", sources.display()))? {
        let registry = registry?;
        if registry.file_name().to_string_lossy().starts_with('-') {
            folders.iter().try_for_each(|folder| remove(&registry.path().join(folder)))?;
        }
    }
    Ok(())
}

/// Removes a folder, if there is one.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{forget_unpacked, remove};
    use crate::workspace;

    #[test]
    fn what_an_earlier_dry_run_unpacked_is_forgotten_and_nothing_else() {
        let sources = workspace::target_folder("publish-test");
        remove(&sources).unwrap();
        let stale = sources.join("-22c3805da5a543b4/forbear-0.1.0");
        let others =
            ["-22c3805da5a543b4/forbear-0.2.0", "-22c3805da5a543b4/heapless-0.9.4", "index.net-1949/forbear-0.1.0"];
        let others = others.map(|folder| sources.join(folder));
        for folder in others.iter().chain([&stale]) {
            fs::create_dir_all(folder.join("src")).unwrap();
        }
        forget_unpacked(&sources, &["forbear-0.1.0".to_owned()]).unwrap();
        assert!(!stale.exists());
        assert!(others.iter().all(|folder| folder.exists()));
        remove(&sources).unwrap();
        forget_unpacked(&sources, &["forbear-0.1.0".to_owned()]).unwrap();
    }
}
