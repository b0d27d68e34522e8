//! `cargo xtask mutants`: changes the core in a thousand small ways, and sees whether a test notices each.
//!
//! Twice: every mutant meets the core's own tests, which are built in a second, and what survives those meets the
//! conformance tests. Those that survive both are explained in `docs/mutants.md`, or else the command fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde::Deserialize;

use crate::process::{Run, cargo, shown};
use crate::{tools, workspace};

/// Where survivors are explained.
const EXPLANATIONS: &str = "docs/mutants.md";

/// Mutate the core, and report which changes no test notices, and why
///
/// Fails where a survivor is not explained in docs/mutants.md, and, after a run of all, below a score.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only files of this name, such as backoff.rs
    #[arg(long, value_name = "GLOB")]
    file: Vec<String>,
    /// Only mutants with this in their name, such as 'replace < with .* in advance'
    #[arg(long, value_name = "REGEX")]
    re: Vec<Regex>,
    /// Only what this diff changes, such as that of `git diff main`
    #[arg(long, value_name = "FILE")]
    in_diff: Option<PathBuf>,
    /// Only one part of so many, such as 0/4
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
    /// How many mutants to build and test at a time
    #[arg(long, default_value_t = thread::available_parallelism().map_or(1, |cores| cores.get().min(8)))]
    jobs: usize,
    /// Fail where a run of all notices less than this percentage of the mutants
    #[arg(long, default_value_t = 95)]
    at_least: u8,
}

impl Args {
    fn is_of_all(&self) -> bool {
        self.file.is_empty() && self.re.is_empty() && self.in_diff.is_none() && self.shard.is_none()
    }

    /// The names of the mutants to try: none only where the diff has none of those that the other arguments select.
    fn selected(&self) -> Result<Vec<String>> {
        let names = self.listed(self.in_diff.as_deref())?;
        if names.is_empty() && (self.in_diff.is_none() || self.listed(None)?.is_empty()) {
            bail!("no mutant matches: {}", self.words());
        }
        Ok(names)
    }

    fn listed(&self, diff: Option<&Path>) -> Result<Vec<String>> {
        let mut command = cargo("mutants");
        command.args(self.file.iter().flat_map(|file| ["--file".to_owned(), format!("**/{file}")]));
        if let Some(diff) = diff {
            command.arg("--in-diff").arg(std::path::absolute(diff)?);
        }
        if let Some(shard) = &self.shard {
            command.args(["--shard", shard]);
        }
        let mut names = listed(&mut command)?;
        // Not left to cargo-mutants, which deletes fields whatever its `--re` says.
        names.retain(|name| self.re.is_empty() || self.re.iter().any(|re| re.is_match(name)));
        Ok(names)
    }

    /// What selects mutants as it was typed, but for the diff.
    fn words(&self) -> String {
        let files = self.file.iter().map(|file| format!("--file {file}"));
        let res = self.re.iter().map(|re| format!("--re '{re}'"));
        files.chain(res).chain(self.shard.iter().map(|shard| format!("--shard {shard}"))).collect::<Vec<_>>().join(" ")
    }
}

/// The tests that are built in a second.
const OWN: [&str; 3] = ["--lib", "--test=api", "--test=calls"];

/// The others that are about the core.
const CONFORMANCE: [&str; 9] = [
    "--package=forbear-conformance",
    "--test=stress",
    "--test=backoff",
    "--test=conformance",
    "--test=decisions",
    "--test=exercises",
    "--test=reports",
    "--test=windows",
    "--test=faults",
];

/// Those of them that take seconds.
const LONG: [&str; 2] = ["--skip=a_lock_free_second_stays_at_its_end", "--skip=a_year_at_changing_load"];

pub(crate) fn run(args: &Args) -> Result<()> {
    tools::cargo_subcommand("cargo-mutants", "27.1.0")?;
    let explanations = Explanations::read(&fs::read_to_string(workspace::root().join(EXPLANATIONS))?)?;

    let chosen = args.selected()?;
    let selected: BTreeSet<&str> = chosen.iter().map(|name| &**name).collect();
    if let (Some(diff), true) = (&args.in_diff, selected.is_empty()) {
        let which = if args.words().is_empty() { String::new() } else { format!(" that matches {}", args.words()) };
        println!("nothing to try: no mutant of the core{which} is in what {} changes", diff.display());
        return Ok(());
    }
    let all = listed(&mut cargo("mutants"))?;

    let mut outcomes = outcomes("own", &mut mutants("own", args.jobs, "5", &OWN), &all, &selected)?;
    let survivors = names(&outcomes, Verdict::Survived);
    if !survivors.is_empty() {
        let mut command = mutants("conformance", args.jobs, "20", &CONFORMANCE);
        command.env("FORBEAR_PART", "20").args(["--", "--"]).args(LONG);
        let again = self::outcomes("conformance", &mut command, &all, &survivors)?;
        outcomes.retain(|outcome| outcome.verdict != Verdict::Survived);
        outcomes.extend(again);
    }
    report(args, &outcomes, &explanations)
}

/// The command that both runs share; a mutant whose tests take longer than so many seconds is caught by that.
fn mutants(run: &str, jobs: usize, seconds: &str, tests: &[&str]) -> Command {
    let mut command = cargo("mutants");
    command.args(["--package", "forbear", "--profile", "mutants", "--no-config", "--no-shuffle", "--colors=never"]);
    command.arg("--iterate");
    command.args(["--minimum-test-timeout", seconds, "--jobs", &jobs.to_string()]);
    command.args(tests.iter().map(|test| format!("--cargo-arg={test}")));
    // A thousand panics that nobody reads.
    command.env("RUST_BACKTRACE", "0").arg("--output").arg(folder(run));
    command
}

/// The names of the mutants of the core that this command selects.
fn listed(command: &mut Command) -> Result<Vec<String>> {
    let list = command.args(["--package", "forbear", "--no-config", "--list", "--json"]).read()?;
    // Of a diff without Rust there is no list, not even an empty one.
    if list.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mutants: Vec<Mutant> = serde_json::from_str(&list).context("cannot read cargo-mutants' list")?;
    Ok(mutants.into_iter().map(|mutant| mutant.name).collect())
}

/// Runs it for these of all mutants, and reads what became of each.
fn outcomes(run: &str, command: &mut Command, all: &[String], these: &BTreeSet<&str>) -> Result<Vec<Outcome>> {
    let folder = folder(run);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("mutants.out"))?;
    // The others count as caught before, and need no run.
    let others: Vec<&str> = all.iter().map(|name| &**name).filter(|name| !these.contains(name)).collect();
    fs::write(folder.join("mutants.out/previously_caught.txt"), others.join("\n"))?;
    eprintln!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    // All caught, some missed, some timed out.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        bail!("cargo-mutants failed ({status})");
    }
    let outcomes = read(&fs::read_to_string(folder.join("mutants.out/outcomes.json"))?)?;
    let tried: BTreeSet<&str> = outcomes.iter().map(|outcome| &*outcome.mutant.name).collect();
    if tried != *these {
        bail!("cargo-mutants tried others than it was to try");
    }
    Ok(outcomes)
}

/// The names of those with this verdict.
fn names(outcomes: &[Outcome], verdict: Verdict) -> BTreeSet<&str> {
    outcomes.iter().filter(|outcome| outcome.verdict == verdict).map(|outcome| &*outcome.mutant.name).collect()
}

/// The folder for what a run of cargo-mutants leaves.
fn folder(run: &str) -> PathBuf {
    workspace::target_folder("mutation").join(run)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// A test failed, or came to no end.
    Caught,
    Survived,
    /// It doesn't compile, so it says nothing about the tests.
    Unviable,
}

#[derive(Debug)]
struct Outcome {
    mutant: Mutant,
    verdict: Verdict,
}

/// As cargo-mutants describes it.
#[derive(Debug, Deserialize)]
struct Mutant {
    /// `FILE:LINE:COLUMN: WHAT`.
    name: String,
    file: PathBuf,
    genre: String,
    replacement: String,
    span: Span,
}

#[derive(Debug, Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

#[derive(Debug, Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

impl Mutant {
    fn file(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What the mutant is, wherever it has moved to: where an operator or a condition is replaced, the line as it is
    /// then; else what cargo-mutants says.
    fn change(&self, source: &str) -> String {
        if !matches!(&*self.genre, "BinaryOperator" | "UnaryOperator" | "MatchArmGuard") {
            return self.name.splitn(4, ':').last().unwrap_or_default().trim().to_owned();
        }
        let line = |number: usize| source.lines().nth(number - 1).unwrap_or_default().chars();
        let before = line(self.span.start.line).take(self.span.start.column - 1);
        let after = line(self.span.end.line).skip(self.span.end.column - 1);
        before.chain(self.replacement.chars()).chain(after).collect::<String>().trim().to_owned()
    }
}

/// Reads cargo-mutants' `outcomes.json`.
fn read(json: &str) -> Result<Vec<Outcome>> {
    #[derive(Deserialize)]
    struct File {
        outcomes: Vec<Tried>,
    }
    #[derive(Deserialize)]
    struct Tried {
        scenario: Scenario,
        summary: String,
    }
    #[derive(Deserialize)]
    enum Scenario {
        Baseline,
        Mutant(Mutant),
    }
    let tried: File = serde_json::from_str(json).context("cannot read what cargo-mutants wrote")?;
    let mut outcomes = Vec::new();
    for Tried { scenario, summary } in tried.outcomes {
        let Scenario::Mutant(mutant) = scenario else { continue };
        let verdict = match &*summary {
            "CaughtMutant" | "Timeout" => Verdict::Caught,
            "MissedMutant" => Verdict::Survived,
            "Unviable" => Verdict::Unviable,
            other => bail!("{}: {other}", mutant.name),
        };
        outcomes.push(Outcome { mutant, verdict });
    }
    Ok(outcomes)
}

/// Why a mutant survives, by its file and its change.
#[derive(Debug, Default)]
struct Explanations(BTreeMap<(String, String), String>);

impl Explanations {
    /// Reads lists below headings that are files: ``* `change`, `another`: why``, over several lines or not.
    fn read(text: &str) -> Result<Self> {
        let mut all = BTreeMap::new();
        for section in text.split("\n## ").skip(1) {
            let (file, list) = section.split_once('\n').unwrap_or((section, ""));
            for item in list.split("\n* ").skip(1) {
                let item = item.split_whitespace().collect::<Vec<_>>().join(" ");
                let mut rest = &*item;
                let mut changes = Vec::new();
                while let Some((change, after)) = rest.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
                    changes.push(change);
                    rest = after.strip_prefix(", ").unwrap_or(after);
                }
                let Some(why) = rest.strip_prefix(": ").filter(|_| !changes.is_empty()) else {
                    bail!("{EXPLANATIONS}: no change and reason in `{item}`");
                };
                all.extend(
                    changes.into_iter().map(|change| ((file.trim().to_owned(), change.to_owned()), why.to_owned())),
                );
            }
        }
        Ok(Self(all))
    }
}

/// How many of a file's mutants were caught, of those that count.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    caught: usize,
    of: usize,
}

impl Score {
    fn percent(self) -> f64 {
        if self.of == 0 { 100.0 } else { self.caught as f64 / self.of as f64 * 100.0 }
    }
}

/// Prints the scores and the survivors with their reasons, and fails where there is none or the score is too low.
fn report(args: &Args, outcomes: &[Outcome], explanations: &Explanations) -> Result<()> {
    let mut files: BTreeMap<String, Score> = BTreeMap::new();
    let mut total = Score::default();
    let mut survivors = BTreeSet::new();
    for Outcome { mutant, verdict } in outcomes.iter().filter(|outcome| outcome.verdict != Verdict::Unviable) {
        for score in [files.entry(mutant.file()).or_default(), &mut total] {
            score.of += 1;
            score.caught += usize::from(*verdict == Verdict::Caught);
        }
        if *verdict == Verdict::Survived {
            let source = fs::read_to_string(workspace::root().join(&mutant.file))?;
            survivors.insert((mutant.file(), mutant.change(&source), &*mutant.name));
        }
    }

    let mut unexplained = 0;
    for (file, change, name) in &survivors {
        let why = explanations.0.get(&(file.clone(), change.clone()));
        unexplained += usize::from(why.is_none());
        println!("survived: {name}\n    `{change}`: {}", why.map_or("NOT EXPLAINED", String::as_str));
    }
    if args.is_of_all() {
        let survived = |file: &str, change: &str| survivors.iter().any(|(f, c, _)| f == file && c == change);
        for ((file, change), _) in explanations.0.iter().filter(|((file, change), _)| !survived(file, change)) {
            println!("{EXPLANATIONS}: explains what does not survive: {file}: `{change}`");
        }
    }

    let width = files.keys().map(String::len).max().unwrap_or(0);
    println!("{:width$}  caught    of      %", "file");
    for (file, score) in files.iter().map(|(file, score)| (&**file, score)).chain([("", &total)]) {
        println!("{file:width$}  {:6}  {:4}  {:5.1}", score.caught, score.of, score.percent());
    }
    println!("{} survived, {unexplained} of them without an explanation", survivors.len());
    if unexplained > 0 {
        bail!("kill {unexplained} mutants with a test, or explain them in {EXPLANATIONS}");
    }
    if args.is_of_all() && total.percent() < f64::from(args.at_least) {
        bail!("{:.1} % of the mutants are caught, less than {} %", total.percent(), args.at_least);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Args, Explanations, Verdict, read};

    #[test]
    fn what_selects_mutants_is_said_as_it_was_typed() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let words = |line: &str| <Line as clap::Parser>::parse_from(line.split(' ')).args.words();
        assert_eq!(words("mutants --file a.rs --shard 0/4 --re <"), "--file a.rs --re '<' --shard 0/4");
        assert_eq!(words("mutants --in-diff a.diff"), "");
    }

    const OUTCOMES: &str = r#"{"outcomes": [
        {"scenario": "Baseline", "summary": "Success"},
        {"scenario": {"Mutant": {"name": "src/a.rs:2:7: replace < with == in f", "file": "src/a.rs", "genre": "BinaryOperator",
            "replacement": "==", "span": {"start": {"line": 2, "column": 7}, "end": {"line": 2, "column": 8}}}},
            "summary": "MissedMutant"},
        {"scenario": {"Mutant": {"name": "src/a.rs:2:5: replace A<'_>::f -> bool with true", "file": "src/a.rs", "genre": "FnValue",
            "replacement": "true", "span": {"start": {"line": 2, "column": 5}, "end": {"line": 2, "column": 10}}}},
            "summary": "Timeout"}
    ]}"#;

    #[test]
    fn mutants_are_known_by_what_they_make_of_a_line() {
        let outcomes = read(OUTCOMES).unwrap();
        let verdicts: Vec<_> = outcomes.iter().map(|outcome| outcome.verdict).collect();
        assert_eq!(verdicts, [Verdict::Survived, Verdict::Caught]);
        let source = "fn f() -> bool {\n    a < b\n}";
        assert_eq!(outcomes[0].mutant.file(), "a.rs");
        assert_eq!(outcomes[0].mutant.change(source), "a == b");
        assert_eq!(outcomes[1].mutant.change(source), "replace A<'_>::f -> bool with true");
    }

    #[test]
    fn explanations_are_lists_below_files() {
        let text =
            "# Mutants\n* not `this`\n\n## a.rs\n\n* `x < y`, `x == y`:\n  because\n  of it\n* `z`: why\n\n## b.rs\n";
        let of = |change: &str| {
            let all = Explanations::read(text).unwrap().0;
            all.get(&("a.rs".to_owned(), change.to_owned())).cloned()
        };
        assert_eq!(of("x < y").as_deref(), Some("because of it"));
        assert_eq!(of("x == y").as_deref(), Some("because of it"));
        assert_eq!(of("z").as_deref(), Some("why"));
        assert_eq!(of("this"), None);
        for nothing in ["because", "`x`", "`x`:", ": because"] {
            assert!(Explanations::read(&format!("\n## a.rs\n\n* {nothing}\n")).is_err(), "{nothing}");
        }
    }

    #[test]
    fn an_outcome_that_is_not_known_is_an_error() {
        assert!(read(&OUTCOMES.replace("Timeout", "Failure")).is_err());
    }
}
