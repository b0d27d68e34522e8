//! The figures for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY};

use super::{Run, grid, settings::Sweep, sweep::Line};

/// One row a strategy; see `fleet --help` for what the columns mean.
pub(super) fn runs(runs: &[Run], recovers: bool) -> Table {
    let mut table = plain(["", "load", "goodput", "peak", "in outage", "recovery", "refused", "served"]);
    for Run { name, figures, .. } in runs {
        let recovery = match figures.recovery_s {
            Some(seconds) => format!("{seconds} s"),
            None if recovers => "never".to_owned(),
            None => NOTHING.to_owned(),
        };
        table.add_row([
            name.to_string(),
            times(figures.load),
            times(figures.goodput),
            times(figures.peak),
            times(figures.in_outage),
            recovery,
            share(figures.refused),
            share(figures.served),
        ]);
    }
    right(table)
}

/// One row a strategy and fleet.
pub(super) fn rows(rows: &[grid::Row]) -> Table {
    let outages = grid::OUTAGES.map(|seconds| format!("back after\n{seconds} s"));
    let head = ["", "fleet", "load at\n10x", "goodput\nat 10x"].map(str::to_owned).into_iter();
    let tail = ["false\nrejects", "flip\ngoodput"].map(str::to_owned);
    let mut table = plain(head.chain(outages).chain(tail));
    for row in rows {
        let mut cells =
            vec![row.rule.clone(), row.fleet.clone(), times(Some(row.load_10x)), times(Some(row.goodput_10x))];
        cells.extend(row.recovery_s.values().map(|seconds| seconds.map_or("never".to_owned(), |s| format!("{s} s"))));
        cells.extend([share(Some(row.false_rejects)), share(Some(row.flip_goodput))]);
        table.add_row(cells);
    }
    right(table)
}

/// One row a strategy, one column a point.
pub(super) fn lines(sweep: Sweep, lines: &[Line]) -> Table {
    let points = lines.first().map_or(&[][..], |line| &line.points);
    let head = points.iter().map(|(x, _)| match sweep {
        Sweep::Outage => format!("{x} s"),
        Sweep::Clients | Sweep::K => format!("{x}"),
    });
    let title = match sweep {
        Sweep::Outage => "recovery after",
        Sweep::Clients => "load, clients",
        Sweep::K => "load, K",
    };
    let mut table = plain([title.to_owned()].into_iter().chain(head));
    for Line { strategy, points } in lines {
        let figures = points.iter().map(|(_, figure)| match (sweep, figure) {
            (Sweep::Outage, Some(seconds)) => format!("{seconds} s"),
            (Sweep::Outage, None) => "never".to_owned(),
            (Sweep::Clients | Sweep::K, load) => times(*load),
        });
        table.add_row([strategy.clone()].into_iter().chain(figures));
    }
    right(table)
}

const NOTHING: &str = "-";

fn plain(head: impl IntoIterator<Item = impl Into<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.into_iter().map(Into::into).collect::<Vec<String>>());
    table
}

fn right(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn times(figure: Option<f64>) -> String {
    figure.map_or(NOTHING.to_owned(), |figure| format!("{figure:.2}x"))
}

fn share(figure: Option<f64>) -> String {
    figure.map_or(NOTHING.to_owned(), |figure| format!("{:.2} %", figure * 100.0))
}
