//! The figures for machines.

use std::{
    fs::File,
    io::{self, Write},
};

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{
    Run, Settings,
    phases::{Phase, Phases},
};

#[derive(Serialize)]
struct Report<'r> {
    strategies: Vec<Row>,
    config: &'r Settings,
    /// Whether it was stopped before its end; figures of phases that did not come to theirs are null.
    interrupted: bool,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    overload: Overload,
    outage: Outage,
    /// Null where it did not recover in time.
    recovery_s: Option<usize>,
    worst_lag_ms: u128,
    broken_requests: u64,
}

#[derive(Serialize)]
struct Overload {
    demand_over_capacity: Option<f64>,
    load_over_capacity: Option<f64>,
    goodput_over_capacity: Option<f64>,
    local_rejects_per_s: Option<f64>,
    retries_per_s: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

#[derive(Serialize)]
struct Outage {
    load_over_demand: Option<f64>,
}

impl Row {
    fn new(run: &Run, settings: &Settings) -> Self {
        let record = &run.record;
        let judged = settings.phases.judged();
        let over_capacity = |rate: Option<f64>| rate.map(|rate| rate / settings.capacity);
        let latency = |q| record.latency(judged.clone(), q).map(|latency| latency.as_secs_f64() * 1e3);
        let outage = settings.phases.span(Phase::Outage);
        let outage_demand = record.rate(outage.clone(), |s| s.demand).filter(|demand| *demand > 0.0);
        Self {
            name: run.strategy.name(),
            overload: Overload {
                demand_over_capacity: over_capacity(record.rate(judged.clone(), |s| s.demand)),
                load_over_capacity: over_capacity(record.rate(judged.clone(), |s| s.load)),
                goodput_over_capacity: over_capacity(record.rate(judged.clone(), |s| s.goodput)),
                local_rejects_per_s: record.rate(judged.clone(), |s| s.refused),
                retries_per_s: record.rate(judged.clone(), |s| s.retries),
                p50_ms: latency(0.5),
                p99_ms: latency(0.99),
            },
            outage: Outage { load_over_demand: record.rate(outage, |s| s.load).zip(outage_demand).map(|(l, d)| l / d) },
            recovery_s: record.recovery(settings.phases.span(Phase::Recovery)),
            worst_lag_ms: record.lag.as_millis(),
            broken_requests: record.broken,
        }
    }
}

impl Serialize for Phases {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Phase::ALL.len()))?;
        for phase in Phase::ALL {
            map.serialize_entry(&phase.to_string(), &self.span(phase).len())?;
        }
        map.end()
    }
}

pub(super) fn write(mut file: File, runs: &[Run], settings: &Settings, interrupted: bool) -> io::Result<()> {
    let strategies = runs.iter().map(|run| Row::new(run, settings)).collect();
    serde_json::to_writer_pretty(&mut file, &Report { strategies, config: settings, interrupted })?;
    writeln!(file)
}
