//! `cargo xtask tsan`: real threads under ThreadSanitizer, for what loom does not explore.

use std::fs;

use anyhow::{Result, bail};

use crate::process::{Run, program};
use crate::{tools, workspace};

/// The one false alarm: between the test runner's own threads, in a standard library that is not instrumented.
const SUPPRESSED: &str = "race:test::event::CompletedTest\n";

/// Run each integration test named `stress` under ThreadSanitizer (needs a nightly compiler)
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    tools::nightly()?;
    let packages = workspace::packages_with_test("stress")?;
    if packages.is_empty() {
        bail!("no package has an integration test named stress");
    }
    let folder = workspace::target_folder("tsan");
    fs::create_dir_all(&folder)?;
    let suppressions = folder.join("suppressions.txt");
    fs::write(&suppressions, SUPPRESSED)?;
    let host = program("rustc", ["--print", "host-tuple"]).read()?;

    let mut command = program("cargo", ["+nightly", "test", "--profile", "checked", "--test", "stress"]);
    for package in &packages {
        command.args(["--package", package]);
    }
    // With a target named, the flags leave build scripts and procedural macros alone.
    command.args(["--target", host.trim(), "--target-dir"]).arg(&folder);
    command.env("RUSTFLAGS", "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer");
    command.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    command.run()
}
