//! The pictures: a fleet over time, and a figure of every strategy against what a sweep varies.

use plotters::{
    coord::ranged1d::ValueFormatter,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{Run, record::Second, scenario::Shape, settings::Sweep, sweep::Line};
use crate::picture::{self, Area, CALM, Drawn, FAINT, GOODPUT, INK, LOAD, MISSED, RULE};

const DARK: RGBColor = RGBColor(0xe2, 0xe5, 0xea);

/// One for each strategy there is, forbear's last and strongest.
const COLORS: [(&str, RGBColor); 9] = [
    ("plain", RGBColor(0xb0, 0x6a, 0x5c)),
    ("backoff", RGBColor(0xd0, 0x9a, 0x4a)),
    ("grpc-a6", RGBColor(0x9a, 0x7f, 0xb8)),
    ("go-zero", RGBColor(0x5b, 0x95, 0xc4)),
    ("envoy", RGBColor(0x8a, 0x94, 0xa2)),
    ("budget", RGBColor(0xa9, 0xb8, 0x6b)),
    ("book", RGBColor(0x22, 0x2b, 0x37)),
    ("resilient", RGBColor(0x1f, 0x8a, 0x70)),
    ("yours", RGBColor(0xd9, 0x4f, 0x30)),
];

const WIDTH: i32 = 1_200;
const HEAD: i32 = 96;
const ROW: i32 = 120;
const FOOT: i32 = 36;
const NAMES: i32 = 24;
/// Left edge and width of each column of charts, and the room for the labels of its vertical axis.
const COLUMNS: [(i32, i32); 2] = [(170, 500), (690, 500)];
const LABELS: i32 = 48;

/// No chart shows more points than that.
const POINTS: usize = 240;

/// Load and goodput of every strategy over time, with the capacity.
pub(super) fn timeline(runs: &[Run], shape: &Shape) -> String {
    let height = HEAD + ROW * runs.len() as i32 + FOOT;
    picture::svg(WIDTH, height, |root| draw_timeline(root, runs, shape))
}

fn draw_timeline(root: &Area<'_>, runs: &[Run], shape: &Shape) -> Drawn {
    let title = format!("{} clients x {:.3}/s, capacity {:.0}/s", shape.clients, shape.rate, shape.forecast.capacity);
    write(root, &title, (NAMES, 22), 26, INK, HPos::Left, FontStyle::Bold)?;
    let sent = Panel { column: COLUMNS[0], title: "What reaches the backend", color: LOAD, count: |s| s.sent, shape };
    let served = Panel { column: COLUMNS[1], title: "What is served", color: GOODPUT, count: |s| s.served, shape };
    let most = runs.iter().flat_map(|run| sent.points(run)).map(|(_, times)| times).fold(1.2, f64::max) * 1.05;
    for (panel, most) in [(&sent, most), (&served, 1.3)] {
        panel.head(root)?;
        for (i, run) in runs.iter().enumerate() {
            panel.row(root, run, HEAD + ROW * i as i32, most, i + 1 == runs.len())?;
        }
    }
    for (i, run) in runs.iter().enumerate() {
        let top = HEAD + ROW * i as i32;
        let name = run.name.to_string();
        write(root, &name, (NAMES, top + 12), 24, color(&name), HPos::Left, FontStyle::Bold)?;
        if let (Some(load), Some(goodput)) = (run.figures.load, run.figures.goodput) {
            write(root, &format!("{load:.2}x load"), (NAMES, top + 38), 17, LOAD, HPos::Left, FontStyle::Normal)?;
            let text = format!("{goodput:.2}x goodput");
            write(root, &text, (NAMES, top + 58), 17, GOODPUT, HPos::Left, FontStyle::Normal)?;
        }
        if let Some(seconds) = run.figures.recovery_s {
            let text = format!("back after {seconds} s");
            write(root, &text, (NAMES, top + 78), 17, FAINT, HPos::Left, FontStyle::Normal)?;
        }
    }
    Ok(())
}

/// A column of charts that count the same.
struct Panel<'s> {
    column: (i32, i32),
    title: &'static str,
    color: RGBColor,
    count: fn(&Second) -> u64,
    shape: &'s Shape,
}

impl Panel<'_> {
    /// Means of a few seconds each, in multiples of the usual capacity.
    fn points(&self, run: &Run) -> Vec<(f64, f64)> {
        means(&run.record.seconds, |s| (self.count)(s) as f64 / self.shape.forecast.capacity)
    }

    fn head(&self, root: &Area<'_>) -> Drawn {
        let (left, width) = self.column;
        let from = (left + LABELS, HEAD - 28);
        write(root, self.title, from, 19, self.color, HPos::Left, FontStyle::Bold)?;
        let unit = "times the usual capacity";
        write(root, unit, (left + width, HEAD - 27), 14, FAINT, HPos::Right, FontStyle::Normal)
    }

    fn row(&self, root: &Area<'_>, run: &Run, top: i32, most: f64, last: bool) -> Drawn {
        let (left, width) = self.column;
        let axis = if last { FOOT } else { 0 };
        let area = root.clone().shrink((left, top), (width as u32, (ROW - 14 + axis) as u32));
        let seconds = f64::from(self.shape.seconds);
        let mut chart = ChartBuilder::on(&area)
            .set_label_area_size(LabelAreaPosition::Left, LABELS)
            .set_label_area_size(LabelAreaPosition::Bottom, axis)
            .build_cartesian_2d(0.0..seconds, 0.0..most)?;
        chart.draw_series([Rectangle::new([(0.0, 0.0), (seconds, most)], CALM.filled())])?;

        let weather = &run.record.weather;
        let dark = weather.iter().enumerate().filter(|(_, weather)| weather.down || weather.hangs);
        for (i, _) in dark {
            let from = i as f64;
            chart.draw_series([Rectangle::new([(from, 0.0), (from + 1.0, most)], DARK.filled())])?;
        }
        if self.color == GOODPUT {
            let could = means(weather, |w| w.servable(w.demand) / self.shape.forecast.capacity);
            chart.draw_series(AreaSeries::new(could, 0.0, MISSED))?;
        }
        chart.draw_series(AreaSeries::new(self.points(run), 0.0, self.color.mix(0.85)))?;
        let capacity = means(weather, |w| w.capacity / self.shape.forecast.capacity);
        chart.draw_series(DashedLineSeries::new(capacity, 5, 4, INK.stroke_width(1)))?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(RULE)
            .y_labels(4)
            .y_label_formatter(&|v| if most < 2.0 { format!("{v:.1}x") } else { format!("{v:.0}x") })
            .x_labels(8)
            .x_label_formatter(&|v| format!("{v:.0} s"))
            .label_style(("sans-serif", 14).into_font().color(&FAINT))
            .draw()
    }
}

/// At most [`POINTS`] means, each over the same number of values and drawn as a step.
fn means<T>(values: &[T], value: impl Fn(&T) -> f64) -> Vec<(f64, f64)> {
    let size = values.len().div_ceil(POINTS).max(1);
    let step = |(i, chunk): (usize, &[T])| {
        let mean = chunk.iter().map(&value).sum::<f64>() / chunk.len() as f64;
        let from = i * size;
        [(from as f64, mean), ((from + chunk.len()) as f64, mean)]
    };
    values.chunks(size).enumerate().flat_map(step).collect()
}

/// A figure of every strategy against what a sweep varies, both on logarithmic axes.
pub(super) fn lines(sweep: Sweep, lines: &[Line]) -> String {
    picture::svg(1_000, 620, |root| draw_lines(root, sweep, lines))
}

fn draw_lines(root: &Area<'_>, sweep: Sweep, lines: &[Line]) -> Drawn {
    let (title, x_title, y_title, least) = match sweep {
        Sweep::Outage => (
            "How long after an outage until 95 % is served",
            "length of the outage in seconds",
            "seconds until 95 % is served (at once is drawn at 1)",
            1.0,
        ),
        Sweep::Clients => (
            "What reaches a backend that is asked for ten times its capacity",
            "clients that share the demand",
            "load in multiples of the capacity",
            0.5,
        ),
        Sweep::K => (
            "What reaches a backend that is asked for ten times its capacity",
            "K",
            "load in multiples of the capacity",
            0.5,
        ),
    };
    let all = lines.iter().flat_map(|line| &line.points);
    let (from, to) = all.clone().fold((f64::MAX, 1.0), |(a, b), (x, _)| (f64::min(a, *x), f64::max(b, *x)));
    // A logarithmic axis has numbers from a whole decade on.
    let (from, to) = if sweep == Sweep::K { (1.0, 10.0) } else { (from, to) };
    let most = all.filter_map(|(_, y)| *y).fold(2.0 * least, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 24).into_font().style(FontStyle::Bold).color(&INK))
        .margin(16)
        .margin_right(110)
        .set_label_area_size(LabelAreaPosition::Left, 70)
        .set_label_area_size(LabelAreaPosition::Bottom, 52)
        .build_cartesian_2d((from..to).log_scale(), (least..most).log_scale())?;
    mesh(&mut chart, x_title, y_title)?;

    for Line { strategy, points } in lines {
        let color = color(strategy);
        let reached: Vec<_> = points.iter().filter_map(|(x, y)| y.map(|y| (*x, y.max(least)))).collect();
        let width = if matches!(strategy.as_str(), "book" | "resilient" | "yours") { 3 } else { 2 };
        chart.draw_series(LineSeries::new(reached.iter().copied(), color.stroke_width(width)))?;
        chart.draw_series(reached.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
    }
    label(root, &chart, lines, least)
}

fn mesh<X, Y>(chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>, x_title: &str, y_title: &str) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RULE)
        .axis_style(FAINT)
        .x_desc(x_title)
        .y_desc(y_title)
        .x_label_formatter(&|v| format!("{v}"))
        .y_label_formatter(&|v| format!("{v}"))
        .label_style(("sans-serif", 15).into_font().color(&FAINT))
        .axis_desc_style(("sans-serif", 16).into_font().color(&INK))
        .draw()
}

/// Names at the right ends of the lines, moved apart where they would overlap.
fn label<X, Y>(
    root: &Area<'_>,
    chart: &ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    lines: &[Line],
    least: f64,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    const GAP: i32 = 17;
    let ends = lines.iter().filter_map(|Line { strategy, points }| {
        let (x, y) = points.iter().rev().find_map(|(x, y)| y.map(|y| (*x, y.max(least))))?;
        let (_, pixel) = chart.backend_coord(&(x, y));
        Some((pixel, strategy))
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_unstable();
    let mut free = i32::MIN;
    for (pixel, strategy) in ends {
        let at = pixel.max(free);
        free = at + GAP;
        write(root, strategy, (1_000 - 104, at), 16, color(strategy), HPos::Left, FontStyle::Bold)?;
    }
    Ok(())
}

fn color(strategy: &str) -> RGBColor {
    COLORS.iter().find(|(name, _)| *name == strategy).map_or(INK, |(_, color)| *color)
}

fn write(
    root: &Area<'_>,
    text: &str,
    at: (i32, i32),
    size: i32,
    color: RGBColor,
    side: HPos,
    style: FontStyle,
) -> Drawn {
    let style =
        TextStyle::from(("sans-serif", size).into_font().style(style)).color(&color).pos(Pos::new(side, VPos::Center));
    root.draw(&Text::new(text, at, style))
}
