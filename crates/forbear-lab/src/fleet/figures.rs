//! The figures of one run, as a table shows them and JSON keeps them.

use serde::Serialize;

use super::{record::Record, scenario::Shape};

/// What a run comes to. `None` where the scenario has nothing of the kind, or where it was not reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    /// What reached the backend in overload, in multiples of its capacity.
    pub(super) load: Option<f64>,
    /// What was served in overload, in multiples of the capacity.
    pub(super) goodput: Option<f64>,
    /// The most that reached the backend in one second in which it served, in multiples of its capacity.
    pub(super) peak: Option<f64>,
    /// Sends for each call while nothing was served.
    pub(super) in_outage: Option<f64>,
    pub(super) recovery_s: Option<u32>,
    /// The share of calls that were never sent while all could have been served.
    pub(super) refused: Option<f64>,
    /// Calls that ended well, as a share of those that could have.
    pub(super) served: Option<f64>,
}

/// An overload that lasts longer than a window is judged after its first.
const WINDOW: usize = 120;

impl Figures {
    pub(super) fn of(record: &Record, shape: &Shape) -> Self {
        let judged = judged(record);
        let capacity = |_: &super::record::Second, weather: &super::weather::Weather| weather.capacity;
        let outage = shape.forecast.last_outage(shape.seconds);
        Self {
            load: record.times(|s| s.sent, capacity, |i, _| judged[i]),
            goodput: record.times(|s| s.served, capacity, |i, _| judged[i]),
            peak: peak(record),
            in_outage: record.times(|s| s.sent, |s, _| s.calls as f64, |_, w| w.down || w.hangs),
            recovery_s: outage.and_then(|seconds| record.recovery(seconds.end as usize)),
            refused: record.times(|s| s.refused, |s, _| s.calls as f64, |_, w| w.fair()),
            served: record.times(|s| s.served, |s, w| w.servable(s.calls as f64), |_, _| true),
        }
    }
}

fn peak(record: &Record) -> Option<f64> {
    let up = record.seconds.iter().zip(&record.weather).filter(|(_, weather)| !weather.down && !weather.hangs);
    let loads = up.filter(|(_, weather)| weather.capacity > 0.0).map(|(s, weather)| s.sent as f64 / weather.capacity);
    loads.max_by(f64::total_cmp)
}

/// For each second whether its overload counts.
fn judged(record: &Record) -> Vec<bool> {
    let mut judged = vec![false; record.weather.len()];
    let mut from = 0;
    while from < judged.len() {
        let length = record.weather[from..].iter().take_while(|weather| weather.overloaded()).count();
        let skip = if length > WINDOW { WINDOW } else { 0 };
        judged[from + skip..from + length].fill(true);
        from += length + 1;
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::{super::weather::Weather, *};

    #[test]
    fn a_long_overload_is_judged_after_its_first_window() {
        let calm = Weather { demand: 1.0, capacity: 2.0, down: false, hangs: false };
        let storm = Weather { demand: 3.0, ..calm };
        let weather = [vec![calm; 3], vec![storm; 5], vec![calm], vec![storm; 130]].concat();
        let judged = judged(&Record { weather, ..Record::default() });
        let seconds: Vec<_> = (0..139).filter(|i| judged[*i]).collect();
        assert_eq!(seconds, (3..8).chain(129..139).collect::<Vec<_>>());
    }
}
