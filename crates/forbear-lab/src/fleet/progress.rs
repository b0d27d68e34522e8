//! A bar that says how long it will take, on a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use super::{record::Record, scenario::Shape};

/// Counts calls: what a simulation costs is linear in them.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(calls: f64) -> Self {
        let bar = ProgressBar::new(calls as u64);
        let style = ProgressStyle::with_template("[{bar:40}] {percent:>3} %  {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        Self(bar)
    }

    /// What a second more of a simulation adds.
    pub(super) fn second(&self, record: &Record) {
        self.0.inc(record.weather.last().map_or(0.0, |weather| weather.demand) as u64);
    }

    /// A simulation that ended before its time.
    pub(super) fn skip(&self, shape: &Shape, record: &Record) {
        let left = (record.seconds.len() as u32..shape.seconds).map(|second| shape.forecast.at(second).demand);
        self.0.inc(left.map(|demand| demand as u64).sum());
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// The calls that a simulation is expected to see.
pub(super) fn calls(shape: &Shape) -> f64 {
    (0..shape.seconds).map(|second| shape.forecast.at(second).demand).sum()
}
