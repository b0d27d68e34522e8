//! Sweeps: one figure of every strategy, against the length of an outage, the number of clients, or K.

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
const OUTAGES: [f64; 8] = [10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0];

/// Numbers of clients.
const CLIENTS: [f64; 9] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0];

/// Values of K.
const KS: [f64; 8] = [1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Seconds before an outage or until an overload is judged: two windows.
const SETTLED: u32 = 240;

/// Whoever is not back by then is not back.
const PATIENCE: u32 = 1_500;

impl Sweep {
    fn points(self) -> &'static [f64] {
        match self {
            Self::Outage => &OUTAGES,
            Self::Clients => &CLIENTS,
            Self::K => &KS,
        }
    }

    fn shape(self, fleet: &Shape, point: f64) -> Shape {
        match self {
            Self::Outage => {
                let outage = point as u32;
                Shape::new(fleet.clients, fleet.rate, 0.8, SETTLED + outage + PATIENCE).backend(fleet.backend).with(
                    SETTLED,
                    outage,
                    Change::Outage,
                )
            }
            Self::Clients => {
                let rate = f64::from(fleet.clients) * fleet.rate / point;
                Shape::new(point as u32, rate, 10.0, 2 * SETTLED).backend(fleet.backend)
            }
            Self::K => Shape::new(fleet.clients, fleet.rate, 10.0, 2 * SETTLED).backend(fleet.backend),
        }
    }
}

/// Runs every strategy at every point, and takes the median of the seeds.
pub(super) fn sweep(sweep: Sweep, fleet: &Shape, contest: &Contest) -> (Vec<Line>, u64) {
    let mut jobs: Vec<(Name, f64, u64)> = Vec::new();
    for &name in &contest.names {
        for &point in sweep.points() {
            jobs.extend(contest.seeds.iter().map(|&seed| (name, point, seed)));
        }
    }
    let progress = Progress::new(jobs.iter().map(|(_, point, _)| calls(&sweep.shape(fleet, *point))).sum());
    let results = contest.all(&jobs, |&(name, point, seed)| {
        let shape = sweep.shape(fleet, point);
        let end = SETTLED as usize + point as usize;
        let contest = Contest { k: (sweep == Sweep::K).then_some(point), ..contest.clone() };
        let record = contest.run(name, &shape, seed, |record| {
            progress.second(record);
            sweep != Sweep::Outage || !record.has_recovered(end)
        });
        progress.skip(&shape, &record);
        let figure = match sweep {
            Sweep::Outage => record.recovery(end).map_or(f64::INFINITY, f64::from),
            Sweep::Clients | Sweep::K => {
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
            (point, Some(figure).filter(|figure| figure.is_finite()))
        });
        Line { strategy: name.to_string(), points: points.collect() }
    });
    (lines.collect(), attempts)
}
