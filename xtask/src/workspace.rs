//! The workspace as cargo describes it: where it is, and its packages.

use std::path::{Path, PathBuf};

use anyhow::Result;
use cargo_metadata::{MetadataCommand, Package, TargetKind};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// A folder of its own below the target folder, for builds whose flags would otherwise discard everything that is there.
pub(crate) fn target_folder(name: &str) -> PathBuf {
    root().join("target").join(name)
}

/// The members of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    Ok(metadata.packages)
}

/// The members that go to the registry.
pub(crate) fn published() -> Result<Vec<Package>> {
    let mut packages = packages()?;
    packages.retain(is_published);
    Ok(packages)
}

/// Whether a package goes to the registry: `publish = false` is an empty list of registries.
pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

/// The names of the members that have an integration test of this name.
pub(crate) fn packages_with_test(name: &str) -> Result<Vec<String>> {
    let has_test = |package: &Package| {
        package.targets.iter().any(|target| target.kind.contains(&TargetKind::Test) && target.name == name)
    };
    Ok(packages()?.into_iter().filter(has_test).map(|package| package.name.to_string()).collect())
}
