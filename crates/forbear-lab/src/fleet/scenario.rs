//! Scenarios that are shipped: each shows what one thing is for.

use std::time::Duration;

use clap::ValueEnum;
use forbear::{Config, ConfigBuilder};
use serde::Serialize;

use super::{
    backend::Build,
    simulation::Scenario,
    weather::{Change, Event, Flip, Forecast},
};

/// A scenario by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Preset {
    /// Ten times the usual demand for five minutes, then an outage of five: 100 clients x 10/s, refusals cost a tenth of a request
    Storm,
    /// Ten times the capacity all the time: what reaches the backend?
    Overload,
    /// Five minutes of outage at 0.8 times the capacity: when is the fleet served again? (recovery)
    Outage,
    /// Capacity that flips every 30 s between 1.25 and 0.1 of the demand
    Flip,
    /// 40 % of all sends are answered "overloaded" whatever the load: who refuses a healthy backend?
    Errors,
    /// 30 % of all sends fail after the work was done: errors that are no overload
    Failures,
    /// No send is answered for two minutes; everybody gives up after the timeout
    Hang,
    /// A queue of fifteen seconds, at three times the capacity, and a timeout of ten: work that nobody waits for any more
    Queue,
    /// 6,000 clients that call once a minute, and an outage (min_requests)
    Quiet,
    /// The same clients, a fifth of whose sends fail by chance, and an outage; "yours" may always retry three times (retry_floor)
    Faults,
    /// Fresh clients with many calls at once, and a backend that is well but takes half a second (in_flight_grace)
    Fresh,
    /// Two seconds of refusals that all name the same ten seconds to wait (jitter on Retry-After)
    Herd,
    /// 100,000 clients x 0.2/s through a surge and an outage
    HundredThousand,
    /// A million clients x 0.02/s at ten times the capacity
    Million,
}

/// A fleet, a backend and a forecast, before the contest adds what is common to all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Shape {
    pub(super) clients: u32,
    /// Calls a second of each client.
    pub(super) rate: f64,
    pub(super) seconds: u32,
    pub(super) forecast: Forecast,
    pub(super) backend: Build,
}

impl Shape {
    /// A fleet that asks for `load` times what its backend can serve.
    pub(super) fn new(clients: u32, rate: f64, load: f64, seconds: u32) -> Self {
        let demand = f64::from(clients) * rate;
        let forecast = Forecast { demand, capacity: demand / load, flip: None, events: Vec::new() };
        Self { clients, rate, seconds, forecast, backend: Build::PLAIN }
    }

    pub(super) fn with(mut self, from: u32, length: u32, change: Change) -> Self {
        self.forecast.events.push(Event { seconds: from..from + length, change });
        self
    }

    pub(super) fn backend(self, backend: Build) -> Self {
        Self { backend, ..self }
    }

    pub(super) fn flip(mut self, period: u32, low: f64) -> Self {
        self.forecast.flip = Some(Flip { period, low });
        self
    }

    pub(super) fn scenario(&self, timeout: Duration) -> Scenario {
        let Self { clients, seconds, ref forecast, backend, .. } = *self;
        Scenario { clients, seconds, forecast: forecast.clone(), backend, timeout }
    }
}

impl Preset {
    /// The configuration that a scenario is about, where that is none of the presets.
    pub(super) fn config(self) -> Option<ConfigBuilder> {
        (self == Self::Faults).then(|| Config::resilient().to_builder().retry_floor(3))
    }

    pub(super) fn shape(self) -> Shape {
        let usual = |load| Shape::new(100, 10.0, load, 600);
        match self {
            Self::Storm => Shape { seconds: 1_200, ..usual(0.8) }
                .backend(Build { reject_cost: 0.1, ..Build::PLAIN })
                .with(120, 300, Change::Demand(12.5))
                .with(600, 300, Change::Outage),
            Self::Overload => usual(10.0),
            Self::Outage => Shape { seconds: 1_500, ..usual(0.8) }.with(240, 300, Change::Outage),
            Self::Flip => usual(0.8).flip(30, 0.08),
            Self::Errors => usual(0.1).backend(Build { overloaded: 0.4, ..Build::PLAIN }),
            Self::Failures => usual(0.5).backend(Build { failing: 0.3, ..Build::PLAIN }),
            Self::Hang => usual(0.8).backend(Build { latency: Duration::from_millis(20), ..Build::PLAIN }).with(
                180,
                120,
                Change::Hang,
            ),
            Self::Queue => {
                let shape = usual(3.0);
                let queue = Some((shape.forecast.capacity * 15.0) as u32);
                shape.backend(Build { queue, ..Build::PLAIN })
            }
            Self::Quiet => Shape::new(6_000, 1.0 / 60.0, 0.8, 1_500).with(480, 480, Change::Outage),
            Self::Faults => Shape::new(6_000, 1.0 / 60.0, 0.5, 1_500)
                .backend(Build { failing: 0.2, ..Build::PLAIN })
                .with(900, 600, Change::Outage),
            Self::Fresh => {
                Shape::new(20, 200.0, 0.5, 60).backend(Build { latency: Duration::from_millis(500), ..Build::PLAIN })
            }
            Self::Herd => usual(0.8)
                .backend(Build { retry_after: Some(Duration::from_secs(10)), ..Build::PLAIN })
                .with(180, 2, Change::Outage),
            Self::HundredThousand => {
                Shape::new(100_000, 0.2, 0.8, 900).with(180, 180, Change::Demand(5.0)).with(480, 180, Change::Outage)
            }
            Self::Million => Shape::new(1_000_000, 0.02, 10.0, 480),
        }
    }
}
