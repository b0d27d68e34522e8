//! `cargo xtask examples`: every example runs to its end, by itself, against servers of its own.

use core::time::Duration;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cargo_metadata::TargetKind;

use crate::process::{Run, cargo, program};
use crate::workspace;

/// Longer than any example takes; one that hangs is a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// Run each example of the published crates; one that does not end by itself fails
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    let mut ran = 0;
    for package in workspace::published()? {
        let examples: Vec<_> =
            package.targets.iter().filter(|target| target.kind.contains(&TargetKind::Example)).collect();
        if examples.is_empty() {
            continue;
        }
        cargo("build").args(["--examples", "--all-features", "--package", &package.name]).run()?;
        for example in examples {
            let folder = workspace::root().join("target/debug/examples");
            let path = folder.join(&example.name).into_os_string().into_string().ok().context("a path in UTF-8")?;
            eprintln!("example {} of {}", example.name, package.name);
            within(PATIENCE, program(&path, []))?;
            ran += 1;
        }
    }
    println!("{ran} examples ran to their ends");
    if ran == 0 {
        bail!("no crate has an example");
    }
    Ok(())
}

/// Runs a command, and ends it where it takes too long.
fn within(patience: Duration, mut command: Command) -> Result<()> {
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(()) } else { bail!("{command:?} failed ({status})") };
        }
        if start.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            bail!("{command:?} did not end within {} s", patience.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_or_hangs_is_an_error() {
        assert!(within(PATIENCE, program("true", [])).is_ok());
        assert!(within(PATIENCE, program("false", [])).is_err());
        assert!(within(Duration::ZERO, program("sleep", ["60"])).is_err());
    }
}
