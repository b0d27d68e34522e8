//! `cargo xtask ci`: every check in order, and a table of what ran.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::{Cli, Task};

/// The stages, quick ones first: each is a command line of `cargo xtask`, so that it can be run alone in the same words.
const STAGES: &[&str] = &[
    "fmt", "tidy", "tree", "lint", "features", "test", "examples", "doc", "deps", "publish", "loom", "tsan", "no-std",
    "no-panic", "defmt", "firmware", "size", "fuzz",
];

/// Run every check, and say what ran, with which result, for how long
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these stages
    #[arg(long, value_delimiter = ',', value_name = "STAGE", value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,
    /// List the stages and run nothing
    #[arg(long)]
    list: bool,
    /// Run the other stages after one has failed
    #[arg(long)]
    keep_going: bool,
    /// Package uncommitted changes too, where the stage `publish` would refuse them
    #[arg(long)]
    allow_dirty: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let stages = selected(&args.only);
    if args.list {
        stages.iter().for_each(|stage| println!("{stage}"));
        return Ok(());
    }
    let mut results = Vec::new();
    for line in stages {
        if !args.keep_going && results.iter().any(Outcome::has_failed) {
            results.push(Outcome { line, time: None, error: None });
            continue;
        }
        println!("\n==> cargo xtask {line}");
        let mut task = parse(line)?;
        if let Task::Publish(publish) = &mut task {
            publish.allow_dirty |= args.allow_dirty;
        }
        let start = Instant::now();
        let error = task.run().err().map(|error| format!("{error:#}"));
        if let Some(error) = &error {
            eprintln!("error: {error}");
        }
        results.push(Outcome { line, time: Some(start.elapsed()), error });
    }
    println!("\n{}", table(&results));
    let failed = results.iter().filter(|outcome| outcome.has_failed()).count();
    let passed = results.iter().filter(|outcome| outcome.has_passed()).count();
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// What became of a stage; without a time it did not run.
struct Outcome {
    line: &'static str,
    time: Option<Duration>,
    error: Option<String>,
}

impl Outcome {
    fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    fn has_passed(&self) -> bool {
        self.time.is_some() && self.error.is_none()
    }
}

/// The stages to run: all, or those asked for by name, in the order of [`STAGES`].
fn selected(only: &[String]) -> Vec<&'static str> {
    let wanted = |line: &str| only.is_empty() || only.iter().any(|only| only == name(line));
    STAGES.iter().copied().filter(|line| wanted(line)).collect()
}

/// The name of a stage is the command in its line.
fn name(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}

fn names() -> impl Iterator<Item = &'static str> {
    STAGES.iter().copied().map(name)
}

fn parse(line: &str) -> Result<Task> {
    let words = core::iter::once("cargo xtask").chain(line.split(' '));
    Ok(Cli::try_parse_from(words).with_context(|| format!("stage {line}"))?.task)
}

fn table(results: &[Outcome]) -> String {
    let width = results.iter().map(|outcome| outcome.line.len()).max().unwrap_or(0);
    let mut table = format!("{:width$}  result   seconds\n", "stage");
    for Outcome { line, time, error } in results {
        let row = match (time, error) {
            (None, _) => format!("{line:width$}  not run"),
            (Some(time), None) => format!("{line:width$}  passed   {:7.1}", time.as_secs_f64()),
            (Some(time), Some(error)) => {
                let first = error.lines().next().unwrap_or_default();
                format!("{line:width$}  failed   {:7.1}  {first}", time.as_secs_f64())
            }
        };
        table.push_str(&row);
        table.push('\n');
    }
    let total: Duration = results.iter().filter_map(|outcome| outcome.time).sum();
    table.push_str(&format!("{:width$}           {:7.1}\n", "", total.as_secs_f64()));
    table
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{Outcome, STAGES, parse, selected, table};
    use crate::Task;

    #[test]
    fn every_stage_is_a_command() {
        for line in STAGES {
            let task = parse(line).unwrap();
            assert!(!matches!(task, Task::Ci(_)), "{line}");
        }
    }

    #[test]
    fn stages_are_selected_in_their_own_order() {
        assert_eq!(selected(&[]), STAGES);
        assert_eq!(selected(&["test".into(), "fmt".into()]), ["fmt", "test"]);
    }

    #[test]
    fn the_table_tells_what_ran() {
        let second = Some(Duration::from_millis(1500));
        let results = [
            Outcome { line: "fmt", time: second, error: None },
            Outcome { line: "lint", time: second, error: Some("two\nlines".into()) },
            Outcome { line: "test", time: None, error: None },
        ];
        assert_eq!(
            table(&results),
            "stage  result   seconds\n\
             fmt   passed       1.5\n\
             lint  failed       1.5  two\n\
             test  not run\n\
             \x20                  3.0\n"
        );
    }
}
