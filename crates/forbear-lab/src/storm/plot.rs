//! The picture: a row a strategy, what reaches the server on the left and what is served on the right.

use std::ops::Range;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    Run, Settings,
    phases::Phase,
    record::{Record, Second},
    strategies::Strategy,
};
use crate::picture::{self, Area, CALM, Drawn, FAINT, GOODPUT, INK, LOAD, MISSED, RULE};

const STORM: RGBColor = RGBColor(0xfd, 0xec, 0xe4);
const DARK: RGBColor = RGBColor(0xe6, 0xe9, 0xee);
const OURS: RGBColor = RGBColor(0xe9, 0xf5, 0xf1);

const WIDTH: i32 = 1_200;
const HEAD: i32 = 150;
const ROW: i32 = 142;
const FOOT: i32 = 40;
/// Left edge of the names, and left edge and width of each chart with its labels.
const NAMES: i32 = 28;
const LEFT: (i32, i32) = (226, 464);
const RIGHT: (i32, i32) = (704, 464);
/// Room for the labels of the vertical axis.
const LABELS: i32 = 44;

/// So many points are enough for a chart of that width.
const POINTS: usize = 220;

/// The picture as SVG.
pub(super) fn svg(runs: &[Run], settings: &Settings) -> String {
    let height = HEAD + ROW * runs.len() as i32 + FOOT;
    picture::svg(WIDTH, height, |root| draw(root, runs, settings))
}

fn draw(root: &Area<'_>, runs: &[Run], settings: &Settings) -> Drawn {
    let most = runs
        .iter()
        .flat_map(|run| bins(&run.record, |s| s.load))
        .map(|(_, rate)| rate / settings.capacity)
        .fold(1.2, f64::max);
    let panels = [
        Panel {
            at: LEFT,
            title: "What reaches the server",
            note: "dashed: its capacity",
            color: LOAD,
            servable: false,
            count: |s| s.load,
            most: most * 1.06,
            settings,
        },
        Panel {
            at: RIGHT,
            title: "What is served",
            note: "grey: could have been served",
            color: GOODPUT,
            servable: true,
            count: |s| s.goodput,
            most: 1.25,
            settings,
        },
    ];

    let title = format!("{} clients ask for {} times what a server can do", settings.clients, settings.demand);
    write(root, &title, (NAMES, 22), 34, INK, HPos::Left, FontStyle::Bold)?;
    let subtitle = format!(
        "The same demand six times over real HTTP. Saying no costs the server {:.0} % of a request. Figures: overload after its first {} s.",
        settings.reject_cost * 100.0,
        settings.window
    );
    write(root, &subtitle, (NAMES, 58), 18, FAINT, HPos::Left, FontStyle::Normal)?;
    for panel in &panels {
        panel.head(root)?;
    }
    for (i, run) in runs.iter().enumerate() {
        let top = HEAD + ROW * i as i32;
        if run.strategy == Strategy::Forbear {
            root.draw(&Rectangle::new([(0, top - 7), (WIDTH, top + ROW - 9)], OURS.filled()))?;
        }
        describe(root, run, settings, top)?;
        for panel in &panels {
            panel.row(root, &run.record, top, i + 1 == runs.len())?;
        }
    }
    Ok(())
}

/// Name and figures of a strategy, beside its charts.
fn describe(root: &Area<'_>, run: &Run, settings: &Settings, top: i32) -> Drawn {
    let figure = |count: fn(&Second) -> u64| {
        run.record.rate(settings.phases.judged(), count).map(|rate| rate / settings.capacity)
    };
    let line =
        |text: &str, down, size, color, style| write(root, text, (NAMES, top + down), size, color, HPos::Left, style);
    line(run.strategy.title(), 2, 28, INK, FontStyle::Bold)?;
    line(run.strategy.means(), 30, 18, FAINT, FontStyle::Normal)?;
    if let Some((load, goodput)) = figure(|s| s.load).zip(figure(|s| s.goodput)) {
        line(&format!("{load:.1}x load"), 56, 21, LOAD, FontStyle::Bold)?;
        line(&format!("{goodput:.2}x goodput"), 79, 21, GOODPUT, FontStyle::Bold)?;
    }
    let recovery = settings.phases.span(Phase::Recovery);
    let back = match run.record.recovery(recovery.clone()) {
        Some(0) => "back at once".to_owned(),
        Some(seconds) => format!("back after {seconds} s"),
        None if run.record.seconds().len() < recovery.end => return Ok(()),
        None => format!("not back in {} s", recovery.len()),
    };
    line(&back, 103, 18, FAINT, FontStyle::Normal)
}

/// A column of charts that share their axes.
struct Panel<'s> {
    at: (i32, i32),
    title: &'static str,
    note: &'static str,
    color: RGBColor,
    /// Whether it shows what could have been served as well.
    servable: bool,
    count: fn(&Second) -> u64,
    /// The top of its vertical axis, in multiples of the capacity.
    most: f64,
    settings: &'s Settings,
}

impl Panel<'_> {
    fn head(&self, root: &Area<'_>) -> Drawn {
        let left = self.at.0 + LABELS;
        write(root, self.title, (left, HEAD - 54), 22, self.color, HPos::Left, FontStyle::Bold)?;
        write(root, self.note, (self.at.0 + self.at.1, HEAD - 53), 16, FAINT, HPos::Right, FontStyle::Normal)?;
        let total = self.settings.phases.total_seconds() as f64;
        let width = f64::from(self.at.1 - LABELS);
        for phase in Phase::ALL {
            let span = self.settings.phases.span(phase);
            let name = phase.to_string();
            let room = width * span.len() as f64 / total;
            // A name may reach over the edge of its phase, by half of itself.
            if room < 3.0 * name.len() as f64 {
                continue;
            }
            let middle = left + (width * (span.start + span.end) as f64 / 2.0 / total) as i32;
            write(root, &name, (middle, HEAD - 23), 16, INK, HPos::Center, FontStyle::Normal)?;
        }
        Ok(())
    }

    fn row(&self, root: &Area<'_>, record: &Record, top: i32, last: bool) -> Drawn {
        let (left, width) = self.at;
        let axis = if last { FOOT } else { 0 };
        let total = self.settings.phases.total_seconds() as f64;
        let area = root.clone().shrink((left, top), (width as u32, (ROW - 16 + axis) as u32));
        let mut chart = ChartBuilder::on(&area)
            .set_label_area_size(LabelAreaPosition::Left, LABELS)
            .set_label_area_size(LabelAreaPosition::Bottom, axis)
            .build_cartesian_2d(0.0..total, 0.0..self.most)?;

        for phase in Phase::ALL {
            let span = self.settings.phases.span(phase);
            let ground = match phase {
                Phase::Healthy | Phase::Recovery => CALM,
                Phase::Overload => STORM,
                Phase::Outage => DARK,
            };
            let (from, to) = (span.start as f64, span.end as f64);
            chart.draw_series([Rectangle::new([(from, 0.0), (to, self.most)], ground.filled())])?;
        }
        if self.servable {
            let outage = self.settings.phases.span(Phase::Outage);
            let could = bins(record, |s| s.demand).into_iter().map(|(span, rate)| {
                let up = if outage.contains(&span.start) { 0.0 } else { 1.0 };
                (span, (rate / self.settings.capacity).min(up))
            });
            chart.draw_series(AreaSeries::new(steps(could), 0.0, MISSED))?;
        }
        let rates = bins(record, self.count).into_iter().map(|(span, rate)| (span, rate / self.settings.capacity));
        let rates: Vec<_> = steps(rates).collect();
        chart.draw_series(AreaSeries::new(rates, 0.0, self.color.mix(0.85)))?;
        let capacity = [(0.0, 1.0), (total, 1.0)];
        chart.draw_series(DashedLineSeries::new(capacity, 5, 4, INK.stroke_width(1)))?;

        let digits = usize::from(self.most < 2.0);
        let times = |v: &f64| if *v == 0.0 { "0".to_owned() } else { format!("{v:.digits$}x") };
        let mut mesh = chart.configure_mesh();
        mesh.disable_mesh()
            .axis_style(RULE)
            .y_labels(if self.most < 2.0 { 3 } else { 4 })
            .y_label_formatter(&times)
            .x_labels(8)
            .x_label_formatter(&|v| format!("{v:.0} s"))
            .label_style(("sans-serif", 16).into_font().color(&FAINT));
        mesh.draw()
    }
}

/// A count's rate over time, in spans of as many seconds as it takes to need no more than [`POINTS`].
fn bins(record: &Record, count: impl Fn(&Second) -> u64) -> Vec<(Range<usize>, f64)> {
    let seconds = record.seconds();
    let width = seconds.len().div_ceil(POINTS).max(1);
    let spans = seconds.chunks(width).enumerate();
    spans
        .map(|(i, chunk)| {
            let rate = chunk.iter().map(&count).sum::<u64>() as f64 / chunk.len() as f64;
            (i * width..i * width + chunk.len(), rate)
        })
        .collect()
}

/// Level over each span, upright between them.
fn steps(levels: impl IntoIterator<Item = (Range<usize>, f64)>) -> impl Iterator<Item = (f64, f64)> {
    levels.into_iter().flat_map(|(span, level)| [(span.start as f64, level), (span.end as f64, level)])
}

fn write(
    root: &Area<'_>,
    text: &str,
    at: (i32, i32),
    size: i32,
    color: RGBColor,
    h_pos: HPos,
    style: FontStyle,
) -> Drawn {
    let font = FontDesc::new(FontFamily::SansSerif, f64::from(size), style);
    let style = TextStyle::from(font).color(&color).pos(Pos::new(h_pos, VPos::Top));
    root.draw(&Text::new(text.to_owned(), at, style))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_long_storm_is_binned_without_losing_a_request() {
        let mut record = Record::default();
        for second in 0..1_001 {
            record.at(Duration::from_secs(second)).load += second;
        }
        let bins = bins(&record, |s| s.load);
        assert!(bins.len() <= POINTS);
        assert_eq!(bins.last().unwrap().0.end, 1_001);
        let total: f64 = bins.iter().map(|(span, rate)| rate * span.len() as f64).sum();
        assert_eq!(total, 500_500.0);
    }
}
