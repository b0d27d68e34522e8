//! Measures cases beside what they are compared with: the table of ratios behind `cargo xtask bench`.
//!
//! A machine that does other things as well is faster now and slower in a second, so no ratio is taken of figures that
//! lie far apart: each case is measured between two measures of its anchor, and compared with the mean of the two.

#![allow(missing_debug_implementations, reason = "what runs benches is never printed")]

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use criterion::{Bencher, Criterion};
use serde::{Deserialize, Serialize};

/// Names the file that rows are appended to, one JSON object a line.
pub const ROWS: &str = "FORBEAR_BENCH_ROWS";

/// One line of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What the ratio is called.
    pub name: String,
    /// What is above the line, and its median in nanoseconds.
    pub above: Figure,
    /// What is below the line.
    pub below: Figure,
    /// The one by the other.
    pub ratio: f64,
    /// What the ratio should not exceed.
    pub at_most: Option<f64>,
}

/// What was measured, and the median of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// What one call does.
    pub case: String,
    /// Nanoseconds.
    pub median: f64,
}

/// Something to measure.
pub struct Case<'c> {
    what: &'c str,
    run: Box<dyn FnMut(&mut Bencher<'_>) + 'c>,
}

impl<'c> Case<'c> {
    /// A case by what it does and how it is measured.
    pub fn new(what: &'c str, run: impl FnMut(&mut Bencher<'_>) + 'c) -> Self {
        Self { what, run: Box::new(run) }
    }
}

/// An anchor and the cases that are compared with it, in the order in which they are measured.
pub struct Chain<'c> {
    anchor: Case<'c>,
    anchor_above: bool,
    links: Vec<(&'c str, Option<f64>, Case<'c>)>,
}

impl<'c> Chain<'c> {
    /// Each ratio is a case by the anchor.
    pub fn by(anchor: Case<'c>) -> Self {
        Self { anchor, anchor_above: false, links: Vec::new() }
    }

    /// Each ratio is the anchor by a case.
    pub fn of(anchor: Case<'c>) -> Self {
        Self { anchor, anchor_above: true, links: Vec::new() }
    }

    /// A ratio that is reported.
    pub fn ratio(mut self, name: &'c str, case: Case<'c>) -> Self {
        self.links.push((name, None, case));
        self
    }

    /// A ratio that should not exceed `bound`.
    pub fn at_most(mut self, bound: f64, name: &'c str, case: Case<'c>) -> Self {
        self.links.push((name, Some(bound), case));
        self
    }
}

/// One bench: measures chains, and reports their rows.
pub struct Bench {
    name: &'static str,
    criterion: Criterion,
    estimates: PathBuf,
    rows: Option<File>,
}

impl Bench {
    /// A bench that takes criterion's command line. `tmpdir` is the `CARGO_TARGET_TMPDIR` of the bench.
    ///
    /// # Panics
    ///
    /// If the file that [`ROWS`] names cannot be written.
    pub fn new(name: &'static str, tmpdir: &str) -> Self {
        let estimates = match env::var_os("CRITERION_HOME") {
            Some(home) => PathBuf::from(home),
            None => PathBuf::from(tmpdir).with_file_name("criterion"),
        };
        let rows = env::var_os(ROWS).map(|path| {
            OpenOptions::new().create(true).append(true).open(path).expect("the file for the rows can be written")
        });
        Self { name, criterion: Criterion::default().configure_from_args(), estimates, rows }
    }

    /// Measures the anchor, then each case and the anchor again, and reports a row for each case.
    pub fn chain(&mut self, name: &str, mut chain: Chain<'_>) {
        let mut before = self.measure(name, 0, &mut chain.anchor);
        for (index, (row, at_most, case)) in chain.links.iter_mut().enumerate() {
            let median = self.measure(name, 2 * index + 1, case);
            let after = self.measure(name, 2 * index + 2, &mut chain.anchor);
            if let (Some(before), Some(median), Some(after)) = (before, median, after) {
                let case = Figure { case: case.what.to_owned(), median };
                let anchor = Figure { case: chain.anchor.what.to_owned(), median: (before + after) / 2.0 };
                let (above, below) = if chain.anchor_above { (anchor, case) } else { (case, anchor) };
                let ratio = above.median / below.median;
                self.report(Row { name: (*row).to_owned(), above, below, ratio, at_most: *at_most });
            }
            before = after;
        }
    }

    /// Prints a row, and appends it to the file that [`ROWS`] names.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn report(&mut self, row: Row) {
        match &mut self.rows {
            Some(rows) => {
                let line = serde_json::to_string(&row).expect("a row is plain data");
                writeln!(rows, "{line}").expect("the file for the rows can be written");
            }
            None => println!("{}: {:.2}", row.name, row.ratio),
        }
    }

    /// Whether this run measures at all, rather than trying each case once.
    pub fn measures(&self) -> bool {
        env::args().any(|argument| argument == "--bench") && !env::args().any(|argument| argument == "--test")
    }

    /// The median, or `None` where the command line left the case out.
    fn measure(&mut self, chain: &str, index: usize, case: &mut Case<'_>) -> Option<f64> {
        #[derive(Deserialize)]
        struct Estimates {
            median: Estimate,
        }
        #[derive(Deserialize)]
        struct Estimate {
            point_estimate: f64,
        }

        let group = format!("{} {chain}", self.name);
        let id = format!("{index:02}");
        let path = self.estimates.join(&group).join(&id).join("new/estimates.json");
        let _ = fs::remove_file(&path); // of an earlier run
        let mut measured = self.criterion.benchmark_group(&group);
        measured.bench_function(&id, &mut case.run);
        measured.finish();
        let estimates = fs::read(path).ok()?;
        let estimates: Estimates = serde_json::from_slice(&estimates).expect("criterion's estimates have a median");
        Some(estimates.median.point_estimate)
    }
}
