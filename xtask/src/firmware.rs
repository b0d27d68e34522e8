//! `cargo xtask firmware`: firmware on an emulated Cortex-M calls a real server, and both ends are compared.

mod checks;
mod cloud;
mod report;

use core::time::Duration;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use self::checks::{CHECKS, Run as BothEnds};
use self::cloud::Cloud;
use self::report::Report;
use crate::process::Run;
use crate::tools::{self, Needed};
use crate::{bare_metal, workspace};

const TARGET: &str = "thumbv7m-none-eabi";
/// The workspace of all programs for devices.
pub(crate) const FOLDER: &str = "crates/forbear-embassy/firmware";

pub(crate) const QEMU: Needed = Needed { file: "qemu-system-arm", package: "qemu-system-arm" };

/// The board that is emulated, without its network.
pub(crate) const BOARD: [&str; 3] = ["-machine", "mps2-an385", "-nographic"];

/// How long one run may take; it takes about 40 seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// Run the firmware in QEMU against a server that is healthy, overloaded, silent and healthy again
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Repeat the draws of an earlier run
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    tools::debian(&[QEMU])?;
    let folder = workspace::root().join(FOLDER);
    bare_metal::cargo("build", TARGET)?.current_dir(&folder).args(["--release", "--locked"]).run()?;

    let seed = args.seed.unwrap_or_else(fresh_seed);
    let cloud = Cloud::start()?;
    let image = workspace::target_folder("bare-metal").join(TARGET).join("release/forbear-firmware");
    let report = emulate(&image, cloud.port(), seed).with_context(|| format!("with --seed {seed}"))?;
    let both = BothEnds { arrivals: cloud.arrivals()?, report };
    let mut failed = 0;
    for (question, check) in CHECKS {
        match check(&both) {
            Ok(finding) => println!("ok      {question}: {finding}"),
            Err(finding) => {
                failed += 1;
                println!("FAILED  {question}: {finding}");
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} checks of the firmware failed; repeat the draws with --seed {seed}", CHECKS.len());
    }
    Ok(())
}

/// Differs from run to run.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}

/// Runs the image to its end and collects what it reports.
fn emulate(image: &Path, port: u16, seed: u64) -> Result<Report> {
    let mut command = Command::new(QEMU.file);
    command
        .args(BOARD)
        .args(["-nic", "user,model=lan9118", "-semihosting-config"])
        .arg(format!("enable=on,target=native,arg=firmware,arg={port},arg={seed}"))
        .arg("-kernel")
        .arg(image)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    eprintln!("$ {}", crate::process::shown(&command));
    let mut child = command.spawn().context("cannot start qemu-system-arm")?;
    let stdout = child.stdout.take().context("the output was piped")?;
    let outcome = collect(stdout, LIMIT);
    if outcome.is_err() {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let report = outcome?;
    if !status.success() {
        bail!("the firmware failed ({status})");
    }
    Ok(report)
}

/// Reads events until the output ends; says on the way what phase is over.
fn collect(output: impl Read + Send + 'static, limit: Duration) -> Result<Report> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let start = Instant::now();
    let mut report = Report::default();
    loop {
        match lines.recv_timeout(limit.saturating_sub(start.elapsed())) {
            Ok(line) => {
                let line = line?;
                report.take(&line)?;
                if line.starts_with("phase ") {
                    println!("{line}");
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(report),
            Err(RecvTimeoutError::Timeout) => bail!("the firmware was not done after {limit:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::collect;

    #[test]
    fn the_output_is_read_to_its_end() {
        let output = "start tick_ms=10 window_s=10 retry_ratio=0.1 max_attempts=3\ndone\n";
        assert!(collect(output.as_bytes(), Duration::from_secs(60)).unwrap().done);
        assert!(collect("panicked\n".as_bytes(), Duration::from_secs(60)).is_err());
    }
}
