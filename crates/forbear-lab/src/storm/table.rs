//! The figures for people.

use std::{fmt::Display, time::Duration};

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets::UTF8_BORDERS_ONLY};

use super::{Run, Settings, phases::Phase, strategies::Strategy};

/// One row a strategy; see `storm --help` for what the columns mean.
pub(super) fn table(runs: &[Run], settings: &Settings, interrupted: bool) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "overload",
        "demand",
        "load",
        "goodput",
        "rejects
per s",
        "retries
per s",
        "p50
ms",
        "p99
ms",
        "outage
load",
        "recovery",
    ]);
    for run in runs {
        let bold = run.strategy == Strategy::Forbear;
        table.add_row(row(run, settings, interrupted).map(|text| {
            let cell = Cell::new(text);
            if bold { cell.add_attribute(Attribute::Bold) } else { cell }
        }));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(run: &Run, settings: &Settings, interrupted: bool) -> [String; 10] {
    let record = &run.record;
    let phases = &settings.phases;
    let recovery = phases.span(Phase::Recovery);
    let judged = phases.judged();
    let times = |rate: Option<f64>| known(rate.map(|rate| format!("{:.2}x", rate / settings.capacity)));
    let a_second = |rate: Option<f64>| known(rate.map(|rate| format!("{rate:.0}")));
    let latency = |q| known(record.latency(judged.clone(), q).map(milliseconds));
    [
        run.strategy.to_string(),
        times(record.rate(judged.clone(), |s| s.demand)),
        times(record.rate(judged.clone(), |s| s.load)),
        times(record.rate(judged.clone(), |s| s.goodput)),
        a_second(record.rate(judged.clone(), |s| s.refused)),
        a_second(record.rate(judged.clone(), |s| s.retries)),
        latency(0.5),
        latency(0.99),
        times(record.rate(phases.span(Phase::Outage), |s| s.load)),
        match record.recovery(recovery.clone()) {
            Some(0) => "at once".to_owned(),
            Some(seconds) => format!("{seconds} s"),
            None if interrupted => known::<u8>(None),
            None => format!("not in {} s", recovery.len()),
        },
    ]
}

fn known<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn milliseconds(latency: Duration) -> String {
    latency.as_millis().to_string()
}
