//! What is to be seen while a storm rages.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Settings, phases::Phase, record::Live, strategies::Strategy};

const TICK: Duration = Duration::from_millis(200);

/// Watches until the storm is over; on a terminal with a bar and the load of the last second, else with a line a phase.
pub(super) async fn watch(settings: &Settings, start: Instant, strategies: &[(Strategy, Arc<Live>)]) {
    let total = settings.phases.total_seconds();
    let bar = ProgressBar::new(total as u64 * 1_000);
    bar.set_style(
        ProgressStyle::with_template("{prefix:>9} [{bar:40}] {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> "),
    );
    let mut announced = None;
    let mut second = usize::MAX;
    let mut before = vec![(0, 0); strategies.len()];
    let mut rates = String::new();
    loop {
        let elapsed = start.elapsed();
        let Some(phase) = settings.phases.at(elapsed) else {
            break;
        };
        if announced.replace(phase) != Some(phase) {
            announce(&bar, phase, settings);
        }
        if second != elapsed.as_secs() as usize {
            second = elapsed.as_secs() as usize;
            rates.clear();
            for ((strategy, live), before) in strategies.iter().zip(&mut before) {
                let now = live.totals();
                let times = |now: u64, before: u64| (now - before) as f64 / settings.capacity;
                let (load, goodput) = (times(now.0, before.0), times(now.1, before.1));
                let _ = write!(rates, "\n  {strategy:20} load {load:6.2}x   goodput {goodput:5.2}x");
                *before = now;
            }
        }
        bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        bar.set_message(format!("{} left{rates}", minutes(total.saturating_sub(second))));
        tokio::time::sleep(TICK).await;
    }
    bar.finish_and_clear();
}

fn announce(bar: &ProgressBar, phase: Phase, settings: &Settings) {
    if bar.is_hidden() {
        let span = settings.phases.span(phase);
        let left = settings.phases.total_seconds() - span.start;
        eprintln!("{phase} for {}, {} left in all", minutes(span.len()), minutes(left));
    }
    bar.set_prefix(phase.to_string());
}

/// A time as people say it.
pub(super) fn minutes(seconds: usize) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_in_minutes_where_it_has_some() {
        assert_eq!([59, 60, 672].map(minutes), ["59 s", "1 min", "11 min 12 s"]);
    }
}
