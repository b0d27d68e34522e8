//! The grid: the four fleets and the seven tests by which forbear's rules are judged.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    backend::Build,
    contest::Contest,
    progress::{Progress, calls},
    record::{Record, median},
    scenario::Shape,
    strategies::Name,
    weather::Change,
};

/// Clients, and calls a second of each: the same demand, from few that know much to many that know little.
const FLEETS: [(u32, f64); 4] = [(10, 100.0), (100, 10.0), (1_000, 1.0), (5_000, 0.2)];

/// Seconds of outage.
pub(super) const OUTAGES: [u32; 4] = [60, 120, 300, 900];

/// Seconds before an outage, and those at the start of an overload that are not judged: two windows.
const SETTLED: u32 = 240;

/// Whoever is not back by then is not back.
const PATIENCE: u32 = 1_500;

/// Seconds of each half of a flip, and what is left of the capacity in the worse half: 1.25 and 0.1 of the demand.
const FLIP: (u32, f64) = (30, 0.08);

/// What one strategy did on one fleet: medians over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) rule: String,
    pub(super) fleet: String,
    /// Load over capacity when demand is ten times that.
    pub(super) load_10x: f64,
    pub(super) goodput_10x: f64,
    /// Seconds until 95 % of five seconds' calls are served, by the seconds of the outage before; null where that took longer than
    /// 1,500.
    pub(super) recovery_s: BTreeMap<u32, Option<f64>>,
    /// The share of calls that were never sent when 40 % of all sends are answered "overloaded", whatever the load.
    pub(super) false_rejects: f64,
    /// Calls served, as a share of what flipping capacity could serve.
    pub(super) flip_goodput: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Test {
    Overload,
    Recovery(u32),
    Errors,
    Flip,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    name: Name,
    fleet: usize,
    test: Test,
    seed: u64,
}

impl Test {
    fn all() -> impl Iterator<Item = Self> {
        [Self::Overload, Self::Errors, Self::Flip].into_iter().chain(OUTAGES.map(Self::Recovery))
    }

    fn shape(self, (clients, rate): (u32, f64)) -> Shape {
        match self {
            Self::Overload => Shape::new(clients, rate, 10.0, 2 * SETTLED),
            Self::Recovery(outage) => {
                Shape::new(clients, rate, 0.8, SETTLED + outage + PATIENCE).with(SETTLED, outage, Change::Outage)
            }
            Self::Errors => Shape::new(clients, rate, 0.1, 600).backend(Build { overloaded: 0.4, ..Build::PLAIN }),
            Self::Flip => Shape::new(clients, rate, 0.8, 600).flip(FLIP.0, FLIP.1),
        }
    }

    /// One or two figures out of a run.
    fn figures(self, record: &Record) -> (f64, f64) {
        let settled = SETTLED as usize..usize::MAX;
        let figure = |figure: Option<f64>| figure.unwrap_or(f64::NAN);
        match self {
            Self::Overload => {
                let judged = |i: usize, _: &_| settled.contains(&i);
                let load = record.times(|s| s.sent, |_, w| w.capacity, judged);
                (figure(load), figure(record.times(|s| s.served, |_, w| w.capacity, judged)))
            }
            Self::Recovery(outage) => {
                let recovery = record.recovery((SETTLED + outage) as usize);
                (recovery.map_or(f64::INFINITY, f64::from), f64::NAN)
            }
            Self::Errors => (figure(record.share(0..usize::MAX, |s| s.refused, |s| s.calls)), f64::NAN),
            Self::Flip => (flip_goodput(record), f64::NAN),
        }
    }
}

/// Served over what could be served, half by half: a backend may serve a little later what came in a burst.
fn flip_goodput(record: &Record) -> f64 {
    let period = FLIP.0 as usize;
    let (mut served, mut servable) = (0.0, 0.0);
    // The first two minutes fill the window.
    for (seconds, weather) in record.seconds.chunks(period).zip(record.weather.chunks(period)).skip(120 / period) {
        served += seconds.iter().map(|s| s.served as f64).sum::<f64>();
        let calls: f64 = seconds.iter().map(|s| s.calls as f64).sum();
        servable += weather.iter().map(|w| w.capacity).sum::<f64>().min(calls);
    }
    served / servable
}

/// Runs all tests of all strategies.
pub(super) fn grid(contest: &Contest) -> (Vec<Row>, u64) {
    let mut jobs = Vec::new();
    for &name in &contest.names {
        for fleet in 0..FLEETS.len() {
            for test in Test::all() {
                jobs.extend(contest.seeds.iter().map(|&seed| Job { name, fleet, test, seed }));
            }
        }
    }
    let progress = Progress::new(jobs.iter().map(|job| calls(&job.test.shape(FLEETS[job.fleet]))).sum());
    let results = contest.all(&jobs, |job| {
        let shape = job.test.shape(FLEETS[job.fleet]);
        let record = contest.run(job.name, &shape, job.seed, |record| {
            progress.second(record);
            match job.test {
                Test::Recovery(outage) => !record.has_recovered((SETTLED + outage) as usize),
                _ => true,
            }
        });
        progress.skip(&shape, &record);
        (job.test.figures(&record), record.attempts)
    });
    progress.finish();

    let attempts = results.iter().map(|(_, attempts)| attempts).sum();
    let mut rows = Vec::new();
    for &name in &contest.names {
        for (fleet, (clients, rate)) in FLEETS.into_iter().enumerate() {
            let middle = |test: Test, which: fn((f64, f64)) -> f64| {
                let of_test =
                    jobs.iter().zip(&results).filter(|(job, _)| (job.name, job.fleet, job.test) == (name, fleet, test));
                median(of_test.map(|(_, (figures, _))| which(*figures)).collect())
            };
            let recovery = |outage| Some(middle(Test::Recovery(outage), |f| f.0)).filter(|s| s.is_finite());
            rows.push(Row {
                rule: name.to_string(),
                fleet: format!("{clients} x {rate}/s"),
                load_10x: middle(Test::Overload, |f| f.0),
                goodput_10x: middle(Test::Overload, |f| f.1),
                recovery_s: OUTAGES.into_iter().map(|outage| (outage, recovery(outage))).collect(),
                false_rejects: middle(Test::Errors, |f| f.0),
                flip_goodput: middle(Test::Flip, |f| f.0),
            });
        }
    }
    (rows, attempts)
}
