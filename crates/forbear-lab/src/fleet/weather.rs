//! How demand and backend change with time, second by second.

use std::{fmt, ops::Range};

use serde::Serialize;

/// A stretch of seconds and what happens in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Event {
    pub(super) seconds: Range<u32>,
    pub(super) change: Change,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds: Range { start, end }, change } = self;
        match change {
            Change::Demand(times) => write!(f, "{times}x demand")?,
            Change::Capacity(times) => write!(f, "{times}x capacity")?,
            Change::Outage => f.write_str("outage")?,
            Change::Hang => f.write_str("hang")?,
        }
        write!(f, " from {start} s to {end} s")
    }
}

/// What an event does while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// Demand, times what it usually is.
    Demand(f64),
    /// Capacity, times what it usually is.
    Capacity(f64),
    /// Every send is refused at once: nobody is there.
    Outage,
    /// No send is answered.
    Hang,
}

/// Capacity that falls every other period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Flip {
    /// Seconds that each half lasts; the first is the better one.
    pub(super) period: u32,
    /// What is left of the capacity in the worse half.
    pub(super) low: f64,
}

impl fmt::Display for Flip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { period, low } = self;
        write!(f, "{low}x capacity every other {period} s")
    }
}

/// The state of things in one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weather {
    /// Calls a second by the whole fleet.
    pub(super) demand: f64,
    /// Requests a second that the backend can serve.
    pub(super) capacity: f64,
    pub(super) down: bool,
    pub(super) hangs: bool,
}

impl Weather {
    /// What could be served in this second of so many calls, at best.
    pub(super) fn servable(&self, calls: f64) -> f64 {
        if self.down || self.hangs { 0.0 } else { self.capacity.min(calls) }
    }

    /// Whether more is asked for than can be served.
    pub(super) fn overloaded(&self) -> bool {
        !self.down && !self.hangs && self.demand > self.capacity
    }

    /// Whether all that is asked for can be served.
    pub(super) fn fair(&self) -> bool {
        !self.down && !self.hangs && self.demand <= self.capacity
    }
}

/// The forecast: all events over a usual demand and capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Forecast {
    pub(super) demand: f64,
    pub(super) capacity: f64,
    pub(super) flip: Option<Flip>,
    pub(super) events: Vec<Event>,
}

impl Forecast {
    pub(super) fn at(&self, second: u32) -> Weather {
        let mut now = Weather { demand: self.demand, capacity: self.capacity, down: false, hangs: false };
        if let Some(flip) = self.flip
            && second / flip.period % 2 == 1
        {
            now.capacity *= flip.low;
        }
        for Event { change, .. } in self.events.iter().filter(|event| event.seconds.contains(&second)) {
            match *change {
                Change::Demand(times) => now.demand *= times,
                Change::Capacity(times) => now.capacity *= times,
                Change::Outage => now.down = true,
                Change::Hang => now.hangs = true,
            }
        }
        now
    }

    /// The last outage or hang before `end`.
    pub(super) fn last_outage(&self, end: u32) -> Option<Range<u32>> {
        let outages = self.events.iter().filter(|event| matches!(event.change, Change::Outage | Change::Hang));
        outages.map(|event| event.seconds.clone()).filter(|seconds| seconds.end < end).max_by_key(|seconds| seconds.end)
    }

    /// Whether there is something to come back to after the last outage before `end`: all that is asked for can be served again.
    pub(super) fn recovers(&self, end: u32) -> bool {
        self.last_outage(end).is_some_and(|outage| (outage.end..end).any(|second| self.at(second).fair()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_add_up_and_end() {
        let events = vec![
            Event { seconds: 10..20, change: Change::Demand(10.0) },
            Event { seconds: 15..30, change: Change::Outage },
            Event { seconds: 18..19, change: Change::Demand(2.0) },
        ];
        let forecast = Forecast { demand: 5.0, capacity: 8.0, flip: Some(Flip { period: 10, low: 0.5 }), events };
        let seen = |second| {
            let Weather { demand, capacity, down, .. } = forecast.at(second);
            (demand, capacity, down)
        };
        assert_eq!(seen(0), (5.0, 8.0, false));
        assert_eq!(seen(10), (50.0, 4.0, false));
        assert_eq!(seen(18), (100.0, 4.0, true));
        assert_eq!(seen(20), (5.0, 8.0, true));
        assert_eq!(seen(30), (5.0, 4.0, false));
        assert_eq!(forecast.last_outage(100), Some(15..30));
        assert_eq!(forecast.last_outage(30), None);
    }

    #[test]
    fn a_fleet_that_always_asks_for_too_much_has_nothing_to_come_back_to() {
        let events = vec![Event { seconds: 10..20, change: Change::Outage }];
        let calm = Forecast { demand: 5.0, capacity: 8.0, flip: None, events };
        assert!(calm.recovers(30));
        assert!(!calm.recovers(20), "there is no time after it");
        assert!(!Forecast { events: Vec::new(), ..calm.clone() }.recovers(30));
        assert!(!Forecast { capacity: 4.0, ..calm }.recovers(30));
    }
}
