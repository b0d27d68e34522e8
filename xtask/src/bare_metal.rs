//! Which compiler builds for a device without an operating system.
//!
//! 1. The toolchain in use, where `rustup target add` has given it the target.
//! 2. Else Debian's compiler, called by its path, beside whatever rustup has. Debian has no compiled `core` for devices,
//!    but its source: `core` and `alloc` are built from it once, into a sysroot below the target folder, and then serve every
//!    package and profile, as the target that rustup installs would.
//! 3. Else an error that names both ways.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::Message;

use crate::process::{self, Run, program};
use crate::tools::{self, Needed};
use crate::workspace;

const CARGO: &str = "/usr/bin/cargo";
const RUSTC: &str = "/usr/bin/rustc";

const DEBIAN: [Needed; 3] = [
    Needed { file: CARGO, package: "cargo-web" },
    Needed { file: RUSTC, package: "rustc-web" },
    Needed { file: "/usr/lib/rustlib/src/rust/library/core/Cargo.toml", package: "rust-web-src" },
];

/// What links programs for devices where the toolchain in use can't: one of its own parts, or one of these.
const LINKERS: [&str; 2] = ["ld.lld-22", "ld.lld"];

/// A cargo command such as `build` for a device, with its own target folder; packages and profile are the caller's to add.
pub(crate) fn cargo(subcommand: &str, target: &str) -> Result<Command> {
    prepare(&[target])?;
    let mut command = if rustup_has(target)? {
        process::cargo(subcommand)
    } else {
        let mut command = debian_cargo(subcommand);
        command.arg("--config").arg(configuration(target)?);
        command
    };
    command.args(["--target", target, "--target-dir"]).arg(folder());
    Ok(command)
}

/// A configuration file that tells Debian's cargo where a target's libraries and its linker are.
fn configuration(target: &str) -> Result<PathBuf> {
    let sysroot = sysroot()?;
    let mut lines = format!("[target.{target}]\nrustflags = [\"--sysroot={}\"]\n", sysroot.display());
    if let Some(linker) = linker()? {
        lines.push_str(&format!("linker = \"{}\"\n", linker.display()));
    }
    let file = folder().join(format!("{target}.toml"));
    fs::write(&file, lines)?;
    Ok(file)
}

/// Makes sure that there is a compiler for each of the targets; cheaper for several at once than one by one.
pub(crate) fn prepare(targets: &[&str]) -> Result<()> {
    let mut missing = Vec::new();
    for target in targets {
        if !rustup_has(target)? {
            missing.push(*target);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    tools::debian(&DEBIAN)
        .with_context(|| format!("no compiler for {0}: `rustup target add {0}`, or Debian's", missing.join(" ")))?;
    let sysroot = sysroot()?;
    missing.retain(|target| !libraries(&sysroot, target).exists());
    if missing.is_empty() { Ok(()) } else { build_sysroot(&sysroot, &missing) }
}

/// Everything that is built for devices.
fn folder() -> PathBuf {
    workspace::target_folder("bare-metal")
}

/// Whether the toolchain in use has the compiled `core` of a target.
fn rustup_has(target: &str) -> Result<bool> {
    Ok(libraries(Path::new(program("rustc", ["--print", "sysroot"]).read()?.trim()), target).exists())
}

fn libraries(sysroot: &Path, target: &str) -> PathBuf {
    sysroot.join("lib/rustlib").join(target).join("lib")
}

/// The sysroot of Debian's compiler; one for each of its versions, which don't read each other's libraries.
fn sysroot() -> Result<PathBuf> {
    let version = program(RUSTC, ["--version"]).env_remove("LD_LIBRARY_PATH").read()?;
    let version: Vec<&str> = version.split([' ', '(', ')']).filter(|word| !word.is_empty()).skip(1).take(2).collect();
    Ok(folder().join(format!("sysroot-{}", version.join("-"))))
}

/// Debian's cargo and compiler, whatever else is in the path.
fn debian_cargo(subcommand: &str) -> Command {
    let mut command = program(CARGO, [subcommand]);
    command.env("RUSTC", RUSTC).env("RUSTDOC", "/usr/bin/rustdoc");
    // Left by rustup's cargo, which runs this program; and flags in a variable would replace those of the configuration.
    for variable in ["RUSTUP_TOOLCHAIN", "LD_LIBRARY_PATH", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(variable);
    }
    command
}

/// Builds `core` and `alloc` and puts them where a compiler looks for the libraries of a target.
fn build_sysroot(sysroot: &Path, targets: &[&str]) -> Result<()> {
    eprintln!("building core and alloc for {}, once", targets.join(", "));
    // Cargo builds the standard library for the sake of a package only: this is an empty one.
    let package = folder().join("core-and-alloc");
    fs::create_dir_all(&package)?;
    let manifest = package.join("Cargo.toml");
    let lines = "[workspace]\n[package]\nname = \"empty\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n";
    fs::write(&manifest, lines)?;
    fs::write(package.join("lib.rs"), "#![no_std]\n")?;

    let mut command = debian_cargo("build");
    command.args(["-Zbuild-std=core,alloc", "--release", "--message-format=json-render-diagnostics"]);
    // Without bitcode in the libraries there is no link-time optimisation across them.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Cembed-bitcode=yes");
    command.arg("--manifest-path").arg(&manifest).arg("--target-dir").arg(package.join("target"));
    for target in targets {
        command.args(["--target", target]);
    }
    let messages = command.read()?;

    let mut built = Vec::new();
    for message in Message::parse_stream(messages.as_bytes()) {
        if let Message::CompilerArtifact(artifact) = message?
            && artifact.target.name != "empty"
        {
            built.extend(artifact.filenames.into_iter().filter(|file| file.extension() == Some("rlib")));
        }
    }
    for target in targets {
        let libraries = libraries(sysroot, target);
        // Appears whole or not at all, so that a run that was stopped leaves nothing half done.
        let partial = libraries.with_extension("partial");
        fs::create_dir_all(&partial)?;
        for file in built.iter().filter(|file| file.components().any(|part| part.as_str() == *target)) {
            fs::copy(file, partial.join(file.file_name().context("a library has a name")?))?;
        }
        fs::rename(&partial, &libraries)?;
    }
    // The libraries are copied; the rest is some hundred megabytes.
    fs::remove_dir_all(&package)?;
    Ok(())
}

/// The linker that comes with the toolchain in use, else LLVM's. Libraries don't need it, so its absence is no error here.
fn linker() -> Result<Option<PathBuf>> {
    let sysroot = PathBuf::from(program("rustc", ["--print", "sysroot"]).read()?.trim());
    let host = program("rustc", ["--print", "host-tuple"]).read()?;
    let own = sysroot.join("lib/rustlib").join(host.trim()).join("bin/rust-lld");
    if own.exists() {
        return Ok(Some(own));
    }
    Ok(LINKERS.into_iter().find(|linker| tools::exists(linker)).map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{debian_cargo, libraries};
    use crate::process::shown;

    #[test]
    fn libraries_are_where_rustc_looks_for_them() {
        let folder = libraries(Path::new("/usr"), "thumbv7m-none-eabi");
        assert_eq!(folder, Path::new("/usr/lib/rustlib/thumbv7m-none-eabi/lib"));
    }

    #[test]
    fn debians_compiler_is_named_by_its_path() {
        let shown = shown(&debian_cargo("build"));
        assert_eq!(shown, "RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc /usr/bin/cargo build");
    }
}
