//! `cargo xtask fuzz`: every fuzz target for a while, after a replay of the seeds.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::names::check;
use crate::process::{Run, cargo, program, shown};
use crate::{tools, workspace};

/// Replay the seeds, then run each fuzz target for a while (needs a nightly compiler)
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long to run each target
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Only these targets
    target: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let all = targets()?;
    let targets = selected(&all, &args.target)?;
    tools::nightly()?;
    tools::cargo_subcommand("cargo-fuzz", "0.13.2")?;
    cargo("test").args(["--manifest-path", "fuzz/Cargo.toml", "--lib"]).run()?;

    let runs = targets.iter().map(|target| fuzz(target, args.seconds)).collect::<Result<Vec<_>>>()?;

    let width = targets.iter().map(String::len).max().unwrap_or(0);
    println!("{:width$}  executions  coverage", "target");
    for (target, stats) in targets.iter().zip(&runs) {
        println!("{target:width$}  {:10}  {:8}", stats.executions, stats.coverage);
    }
    println!("{:width$}  {:10}", "", runs.iter().map(|stats| stats.executions).sum::<u64>());
    Ok(())
}

/// The targets that are named, or all.
fn selected<'a>(all: &'a [String], named: &'a [String]) -> Result<&'a [String]> {
    check("fuzz target", named, all)?;
    Ok(if named.is_empty() { all } else { named })
}

/// The targets are the files of one folder.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in fs::read_dir(workspace::root().join("fuzz/fuzz_targets"))? {
        names.extend(file?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Runs one target; what a machine gathers is kept for its next run, apart from the seeds.
fn fuzz(target: &str, seconds: u64) -> Result<Stats> {
    let corpus = format!("fuzz/corpus/{target}");
    fs::create_dir_all(workspace::root().join(&corpus))?;
    // There is no unsafe code for a sanitizer to watch, and without one it runs several times as often.
    let mut command = program("cargo", ["+nightly", "fuzz", "run", "--sanitizer", "none", target]);
    command.args([&corpus, &format!("fuzz/seeds/{target}"), "--", "-print_final_stats=1", "-max_len=1024"]);
    command.arg(format!("-max_total_time={seconds}"));
    let dictionary = format!("fuzz/{target}.dict");
    if workspace::root().join(&dictionary).exists() {
        command.arg(format!("-dict={dictionary}"));
    }
    eprintln!("$ {}", shown(&command));
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().context("cannot start cargo")?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("{log}");
        bail!(
            "{target} found something; what it was fed is below {}",
            Path::new("fuzz/artifacts").join(target).display()
        );
    }
    let stats = stats(&log).with_context(|| format!("no statistics in what {target} printed:\n{log}"))?;
    eprintln!("{target}: {} executions, coverage {}", stats.executions, stats.coverage);
    Ok(stats)
}

#[derive(Debug, PartialEq, Eq)]
struct Stats {
    executions: u64,
    /// Edges of the control flow that were reached.
    coverage: u64,
}

fn stats(log: &str) -> Option<Stats> {
    let number = |line: &str, after: &str| line.split_once(after)?.1.split_whitespace().next()?.parse().ok();
    let executions = log.lines().find_map(|line| number(line, "stat::number_of_executed_units:"))?;
    let coverage = log.lines().rev().find_map(|line| number(line, " cov:"))?;
    Some(Stats { executions, coverage })
}

#[cfg(test)]
mod tests {
    use super::{Stats, selected, stats, targets};

    #[test]
    fn statistics_are_read_off_the_end_of_a_log() {
        let log = "#2\tINITED cov: 12 ft: 12 corp: 1/1b\n\
            #1048576\tpulse  cov: 2321 ft: 10342 corp: 2410/124Kb lim: 142\n\
            #1100000\tDONE   cov: 2322 ft: 10343 corp: 2411/124Kb\n\
            stat::number_of_executed_units: 1100000\n\
            stat::peak_rss_mb:              33\n";
        assert_eq!(stats(log), Some(Stats { executions: 1_100_000, coverage: 2_322 }));
        assert_eq!(stats("error: could not compile"), None);
    }

    #[test]
    fn there_are_targets() {
        assert!(targets().unwrap().contains(&"combined".to_owned()));
    }

    #[test]
    fn a_target_that_is_not_there_is_refused_with_those_that_are() {
        let [all, one, other] = [&["config", "window"][..], &["window"], &["window", "nosuch"]]
            .map(|names| names.iter().copied().map(String::from).collect::<Vec<_>>());
        assert_eq!(selected(&all, &[]).unwrap(), all);
        assert_eq!(selected(&all, &one).unwrap(), one);
        let error = selected(&all, &other).unwrap_err().to_string();
        assert_eq!(error, "there is no fuzz target `nosuch`, allowed: config, window");
    }
}
