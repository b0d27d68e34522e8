//! Sweeps: one figure of every strategy, against the length of an outage or the number of clients.

use serde::Serialize;

use super::{
    contest::Contest,
    progress::{Progress, calls},
    record::median,
    scenario::Shape,
    settings::Sweep,
    strategies::Name,
    weather::Change,
};

/// A figure of a strategy at each point; `None` where it was not reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) strategy: String,
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// Lengths of outages, in seconds.
const OUTAGES: [u32; 8] = [10, 30, 60, 120, 300, 600, 900, 1_800];

/// Numbers of clients.
const CLIENTS: [u32; 9] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000];

/// Seconds before an outage or until an overload is judged: two windows.
const SETTLED: u32 = 240;

/// Whoever is not back by then is not back.
const PATIENCE: u32 = 1_500;

impl Sweep {
    fn points(self) -> &'static [u32] {
        match self {
            Self::Outage => &OUTAGES,
            Self::Clients => &CLIENTS,
        }
    }

    fn shape(self, fleet: &Shape, point: u32) -> Shape {
        match self {
            Self::Outage => Shape::new(fleet.clients, fleet.rate, 0.8, SETTLED + point + PATIENCE)
                .backend(fleet.backend)
                .with(SETTLED, point, Change::Outage),
            Self::Clients => {
                let rate = f64::from(fleet.clients) * fleet.rate / f64::from(point);
                Shape::new(point, rate, 10.0, 2 * SETTLED).backend(fleet.backend)
            }
        }
    }
}

/// Runs every strategy at every point, and takes the median of the seeds.
pub(super) fn sweep(sweep: Sweep, fleet: &Shape, contest: &Contest) -> (Vec<Line>, u64) {
    let mut jobs: Vec<(Name, u32, u64)> = Vec::new();
    for &name in &contest.names {
        for &point in sweep.points() {
            jobs.extend(contest.seeds.iter().map(|&seed| (name, point, seed)));
        }
    }
    let progress = Progress::new(jobs.iter().map(|(_, point, _)| calls(&sweep.shape(fleet, *point))).sum());
    let results = contest.all(&jobs, |&(name, point, seed)| {
        let shape = sweep.shape(fleet, point);
        let end = (SETTLED + point) as usize;
        let record = contest.run(name, &shape, seed, |record| {
            progress.second(record);
            sweep == Sweep::Clients || !record.has_recovered(end)
        });
        progress.skip(&shape, &record);
        let figure = match sweep {
            Sweep::Outage => record.recovery(end).map_or(f64::INFINITY, f64::from),
            Sweep::Clients => {
                let load = record.times(|s| s.sent, |_, w| w.capacity, |i, _| i >= SETTLED as usize);
                load.unwrap_or(f64::NAN)
            }
        };
        (figure, record.attempts)
    });
    progress.finish();

    let attempts = results.iter().map(|(_, attempts)| attempts).sum();
    let lines = contest.names.iter().map(|&name| {
        let points = sweep.points().iter().map(|&point| {
            let at = jobs.iter().zip(&results).filter(|(job, _)| (job.0, job.1) == (name, point));
            let figure = median(at.map(|(_, (figure, _))| *figure).collect());
            (f64::from(point), Some(figure).filter(|figure| figure.is_finite()))
        });
        Line { strategy: name.to_string(), points: points.collect() }
    });
    (lines.collect(), attempts)
}
