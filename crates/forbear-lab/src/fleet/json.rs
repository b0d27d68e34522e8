//! The figures for machines.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
};

use serde::Serialize;

use super::{Run, figures::Figures, record::Second, scenario::Shape, settings::Sweep, sweep::Line};

/// A single run of every strategy.
#[derive(Serialize)]
struct Runs<'r> {
    seed: u64,
    scenario: &'r Shape,
    strategies: Vec<Strategy<'r>>,
}

#[derive(Serialize)]
struct Strategy<'r> {
    name: String,
    #[serde(flatten)]
    figures: &'r Figures,
    seconds: &'r [Second],
}

/// A sweep.
#[derive(Serialize)]
struct Lines<'r> {
    seeds: &'r [u64],
    sweep: &'static str,
    figure: &'static str,
    lines: &'r [Line],
}

pub(super) fn runs(file: File, runs: &[Run], shape: &Shape, seed: u64) -> io::Result<()> {
    let strategies = runs.iter().map(|run| Strategy {
        name: run.name.to_string(),
        figures: &run.figures,
        seconds: &run.record.seconds,
    });
    write(file, &Runs { seed, scenario: shape, strategies: strategies.collect() })
}

pub(super) fn lines(file: File, sweep: Sweep, lines: &[Line], seeds: &[u64]) -> io::Result<()> {
    let (sweep, figure) = match sweep {
        Sweep::Outage => ("outage_s", "recovery_s"),
        Sweep::Clients => ("clients", "load_10x"),
        Sweep::K => ("k", "load_10x"),
    };
    write(file, &Lines { seeds, sweep, figure, lines })
}

pub(super) fn write(file: File, report: &impl Serialize) -> io::Result<()> {
    // What was there before; but a pipe has no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    let mut file = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut file, report)?;
    writeln!(file)?;
    file.flush()
}
