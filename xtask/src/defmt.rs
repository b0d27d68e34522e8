//! `cargo xtask defmt`: what a device says in defmt of a call is what it would say in plain text.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::process::{Run, cargo, program, shown};
use crate::{bare_metal, firmware, tools, workspace};

const TARGET: &str = "thumbv7m-none-eabi";
const PROGRAM: &str = "forbear-sentences";
const READER: &str = "forbear-sentences-reader";

/// How many sentences there are at least.
const SENTENCES: usize = 37;

/// What plain text says more: defmt leaves out what would need floating point on the device.
const PROBABILITY: &str = " (reject probability ";

/// Run a program in QEMU that says by defmt and in plain text how calls ended, and compare the two
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    tools::debian(&[firmware::QEMU])?;
    let folder = workspace::root().join(firmware::FOLDER);
    let target_folder = workspace::target_folder("bare-metal");
    let build = ["--release", "--locked", "--package", PROGRAM];
    bare_metal::cargo("build", TARGET)?.current_dir(&folder).args(build).run()?;

    let image = target_folder.join(TARGET).join("release").join(PROGRAM);
    let mut device = program(firmware::QEMU.file, firmware::BOARD);
    device.args(["-semihosting-config", "enable=on,target=native", "-kernel"]).arg(&image);
    eprintln!("$ {}", shown(&device));
    let mut device = device.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let said = device.stdout.take().context("the output was piped")?;

    let host = program("rustc", ["--print", "host-tuple"]).read()?;
    let mut reader = cargo("run");
    reader.current_dir(&folder).args(["--quiet", "--locked", "--package", READER, "--target", host.trim()]);
    reader.arg("--target-dir").arg(&target_folder).arg("--").arg(&image);
    eprintln!("$ {}", shown(&reader));
    let read = reader.stdin(said).read();
    let status = device.wait()?;
    let read = read?;
    if !status.success() {
        bail!("the program failed on the device ({status}), and the last that it said was:\n{}", last(&read));
    }

    let faults: Vec<_> = read.lines().filter(|line| !agrees(line)).collect();
    if !faults.is_empty() {
        bail!("defmt and plain text differ:\n{}", faults.join("\n"));
    }
    let sentences = read.lines().count();
    if sentences < SENTENCES {
        bail!("only {sentences} sentences came from the device, of {SENTENCES} or more");
    }
    println!("{sentences} sentences are the same in defmt and in plain text");
    Ok(())
}

fn last(lines: &str) -> &str {
    lines.lines().next_back().unwrap_or("nothing")
}

/// Whether both halves of a line, `DEFMT | TEXT`, say the same.
fn agrees(line: &str) -> bool {
    line.split_once(" | ").is_some_and(|(defmt, text)| defmt == without_probability(text))
}

fn without_probability(text: &str) -> String {
    match text.split_once(PROBABILITY).and_then(|(before, rest)| Some((before, rest.split_once(')')?.1))) {
        Some((before, after)) => [before, after].concat(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::agrees;

    #[test]
    fn a_sentence_is_compared_but_for_its_probability() {
        assert!(agrees("accepted on attempt 2 | accepted on attempt 2"));
        assert!(!agrees("accepted on attempt 2 | accepted on attempt 3"));
        assert!(agrees("503 (not sent: 0 of 5) | 503 (not sent: 0 of 5 (reject probability 0.83))"));
        assert!(!agrees("not sent | not sent (for a reason)"));
        assert!(!agrees("panicked at main.rs"));
    }
}
