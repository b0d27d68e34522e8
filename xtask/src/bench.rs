//! `cargo xtask bench`: what forbear costs beside its peers, as ratios with their bounds.

use core::fmt::Write;
use core::num::NonZeroUsize;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Message, TargetKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::names::check;
use crate::process::{Run, cargo, program, shown};
use crate::tools::{self, Needed};
use crate::workspace;

/// Measure what forbear costs beside its peers, and print the ratios with their bounds
///
/// Every case is measured between two measures of what it is compared with, in several passes; a ratio is the median of
/// the passes. A full run takes about five minutes and is kept in benches/RESULTS.md.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One short pass, about a minute; benches/RESULTS.md stays as it is
    #[arg(long)]
    quick: bool,
    /// Write the ratios to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run with real-time priority, and on one core where one thread is measured (as root; needs chrt and taskset)
    #[arg(long)]
    realtime: bool,
    /// Only the benches of these names, and no benches/RESULTS.md: calls, retries, decisions, layer, threads
    #[arg(long, value_delimiter = ',', value_name = "BENCH")]
    only: Vec<String>,
}

/// What a bench reports, one JSON object a line: `Row` of the package forbear-benches.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Row {
    name: String,
    above: Figure,
    below: Figure,
    ratio: f64,
    at_most: Option<f64>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Figure {
    case: String,
    /// Nanoseconds.
    median: f64,
}

const SCHEDULERS: [Needed; 2] =
    [Needed { file: "chrt", package: "util-linux" }, Needed { file: "taskset", package: "util-linux" }];

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.realtime {
        tools::debian(&SCHEDULERS)?;
    }
    check("bench", &args.only, &names()?)?;
    let mut benches = built()?;
    benches.retain(|(name, _)| args.only.is_empty() || args.only.contains(name));
    let folder = workspace::target_folder("criterion");
    fs::create_dir_all(&folder)?;
    let file = folder.join("rows.jsonl");
    let passes = if args.quick { 1 } else { 3 };
    let mut measured = Vec::new();
    for pass in 1..=passes {
        eprintln!("pass {pass} of {passes}");
        fs::write(&file, "")?;
        for (name, path) in &benches {
            measure(args, name, path, &file)?;
        }
        measured.push(read(&file)?);
    }
    let rows = medians(&measured)?;

    let table = table(&rows);
    print!("\n{table}");
    let exceeded: Vec<&str> = rows.iter().filter(|row| row.holds() == Some(false)).map(|row| &*row.name).collect();
    match exceeded.as_slice() {
        [] => println!("\nevery bound holds"),
        exceeded => println!("\nexceeded: {}", exceeded.join(", ")),
    }
    if let Some(file) = &args.json {
        let json = serde_json::to_string_pretty(&json(&rows))?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    if !args.quick && args.only.is_empty() {
        fs::write(workspace::root().join("benches/RESULTS.md"), results(&table, args.realtime)?)?;
        println!("kept in benches/RESULTS.md");
    }
    Ok(())
}

/// The package of the benches.
const PACKAGE: &str = "forbear-benches";

/// The names of the benches.
fn names() -> Result<Vec<String>> {
    let packages = workspace::packages()?;
    let package = packages.into_iter().find(|package| package.name == PACKAGE).context("there are no benches")?;
    let benches = package.targets.into_iter().filter(|target| target.kind.contains(&TargetKind::Bench));
    Ok(benches.map(|target| target.name).collect())
}

/// Builds the benches, and returns their names and programs.
fn built() -> Result<Vec<(String, PathBuf)>> {
    let mut command = cargo("bench");
    command.args(["--package", PACKAGE, "--benches", "--no-run", "--message-format", "json-render-diagnostics"]);
    eprintln!("$ {}", shown(&command));
    let output = command.read()?;
    let mut benches = Vec::new();
    for message in Message::parse_stream(output.as_bytes()) {
        if let Message::CompilerArtifact(artifact) = message?
            && artifact.target.kind.contains(&TargetKind::Bench)
            && let Some(path) = artifact.executable
        {
            benches.push((artifact.target.name, path.into_std_path_buf()));
        }
    }
    benches.sort();
    Ok(benches)
}

fn measure(args: &Args, name: &str, path: &Path, rows: &Path) -> Result<()> {
    let path = path.to_str().context("the path of the bench is no text")?;
    let mut words = match (args.realtime, name) {
        (false, _) => vec![],
        (true, "threads") => vec!["chrt", "-f", "50"],
        (true, _) => vec!["chrt", "-f", "50", "taskset", "-c", "1"],
    };
    words.extend([path, "--bench", "--noplot", "--quiet", "--nresamples", "1000", "--warm-up-time", "0.1"]);
    words.extend(if args.quick {
        ["--measurement-time", "0.3", "--sample-size", "20"]
    } else {
        ["--measurement-time", "0.5", "--sample-size", "30"]
    });
    let mut command = program(words[0], words[1..].iter().copied());
    command.env("FORBEAR_BENCH_ROWS", rows);
    command.env("CRITERION_HOME", workspace::target_folder("criterion"));
    // Criterion tells of every step: shown only where one fails.
    eprintln!("$ {}", shown(&command));
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !output.status.success() {
        bail!("the bench {name} failed ({})\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<Row>> {
    let lines = fs::read_to_string(file)?;
    let rows: Vec<Row> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    if rows.is_empty() {
        bail!("the benches reported nothing");
    }
    Ok(rows)
}

impl Row {
    /// Whether the bound holds, where there is one.
    fn holds(&self) -> Option<bool> {
        self.at_most.map(|bound| self.ratio <= bound)
    }
}

/// Row by row the median of the passes, of each figure and of the ratio.
fn medians(passes: &[Vec<Row>]) -> Result<Vec<Row>> {
    let (first, _) = passes.split_first().context("there is at least one pass")?;
    let of = |name: &str, figure: fn(&Row) -> f64| -> Result<f64> {
        let mut figures: Vec<f64> = Vec::new();
        for pass in passes {
            figures.push(figure(pass.iter().find(|row| row.name == name).context("each pass reports the same rows")?));
        }
        figures.sort_by(f64::total_cmp);
        Ok(figures[figures.len() / 2])
    };
    let median = |row: &Row| -> Result<Row> {
        let mut row = row.clone();
        row.above.median = of(&row.name, |row| row.above.median)?;
        row.below.median = of(&row.name, |row| row.below.median)?;
        row.ratio = of(&row.name, |row| row.ratio)?;
        Ok(row)
    };
    first.iter().map(median).collect()
}

fn json(rows: &[Row]) -> serde_json::Value {
    let ratios: Map<_, _> = rows.iter().map(|row| (row.name.clone(), json!(row.ratio))).collect();
    let bounds = rows.iter().filter_map(|row| Some((row.name.clone(), json!(row.at_most?))));
    json!({ "ratios": ratios, "at_most": bounds.collect::<Map<_, _>>(), "rows": rows })
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len() + 2).max().unwrap_or(0);
    let mut table =
        format!("| {:width$} | ratio | at most | holds |  above ns |  below ns | above / below |\n", "name");
    let _ = writeln!(table, "|:{:-<1$}-|------:|--------:|-------|----------:|----------:|---|", "", width);
    for row in rows {
        let bound = row.at_most.map_or(String::new(), |bound| bound.to_string());
        let holds = match row.holds() {
            Some(true) => "yes",
            Some(false) => "**NO**",
            None => "",
        };
        let Figure { case: above, median } = &row.above;
        let _ = write!(
            table,
            "| {:width$} | {:>5} | {bound:>7} | {holds:6}| {median:>9.1} ",
            format!("`{}`", row.name),
            ratio(row.ratio),
        );
        let Figure { case: below, median } = &row.below;
        let _ = writeln!(table, "| {median:>9.1} | {above} / {below} |");
    }
    table
}

/// Three figures.
fn ratio(ratio: f64) -> String {
    if ratio < 10.0 {
        format!("{ratio:.2}")
    } else if ratio < 100.0 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.0}")
    }
}

/// The page that keeps the table, with the date and the machine.
fn results(table: &str, realtime: bool) -> Result<String> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let date = now.split('T').next().unwrap_or(&now);
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let rustc = program("rustc", ["--version"]).read()?;
    let priority = if realtime { ", with real-time priority" } else { "" };
    Ok(format!(
        "# What forbear costs beside its peers\n\n\
         Measured on {date} with `cargo xtask bench`{priority}: {}, {cores} cores, {}, {}.\n\n\
         A ratio is that of two medians measured close in time, and the median of three passes; `README.md` says what \
         each case does. Figures are nanoseconds a call.\n\n{table}",
        processor(),
        std::env::consts::OS,
        rustc.trim(),
    ))
}

/// The processor's name where the system tells it, else its kind.
fn processor() -> String {
    let described = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = described.lines().find(|line| line.starts_with("model name"));
    let name = model.and_then(|line| line.split(": ").nth(1));
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Figure, Row, check, json, medians, names, table};

    fn row(name: &str, above: f64, below: f64, at_most: Option<f64>) -> Row {
        let figure = |case: &str, median| Figure { case: case.to_owned(), median };
        Row {
            name: name.to_owned(),
            above: figure("ours", above),
            below: figure("theirs", below),
            ratio: above / below,
            at_most,
        }
    }

    #[test]
    fn a_bench_that_is_not_there_is_refused_with_those_that_are() {
        let names = names().unwrap();
        check("bench", &[], &names).unwrap();
        check("bench", &["calls".to_owned()], &names).unwrap();
        let error = check("bench", &["calls".to_owned(), "nosuch".to_owned()], &names).unwrap_err().to_string();
        assert!(error.starts_with("there is no bench `nosuch`, allowed: ") && error.contains("calls"), "{error}");
    }

    #[test]
    fn a_row_is_the_median_of_the_passes() {
        let passes =
            [[10.0, 20.0], [12.0, 20.0], [90.0, 20.0]].map(|[above, below]| vec![row("x", above, below, None)]);
        let rows = medians(&passes).unwrap();
        assert_eq!((rows[0].above.median, rows[0].ratio), (12.0, 0.6));
        assert!(medians(&[vec![row("x", 1.0, 1.0, None)], vec![]]).is_err());
    }

    #[test]
    fn the_table_marks_each_bound() {
        let rows =
            [row("kept", 1.0, 2.0, Some(0.5)), row("exceeded", 3.0, 2.0, Some(1.0)), row("free", 3.0, 2.0, None)];
        let table = table(&rows);
        let line = |name: &str| table.lines().find(|line| line.contains(name)).unwrap();
        assert!(line("kept").contains("| yes") && !line("kept").contains("NO"));
        assert!(line("exceeded").contains("**NO**"));
        assert!(!line("free").contains("yes") && !line("free").contains("NO"));
        assert_eq!(json(&rows)["ratios"]["kept"], 0.5);
    }
}
