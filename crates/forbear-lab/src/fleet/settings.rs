//! What a fleet and its backend are made of: the flags, the scenarios they start from, and what they resolve to.

use std::{ops::Range, path::PathBuf, str::FromStr, time::Duration};

use clap::{Arg, Args as ClapArgs, ValueEnum};
use forbear::{Config, ConfigBuilder, Recovery};

use super::{
    Failure,
    backend::Build,
    contest::Contest,
    scenario::{Preset, Shape},
    strategies::Name,
    weather::{Change, Event, Flip},
};

/// Ask what a fleet of clients does to a backend, in virtual time.
///
/// Simulates every call of every client, event by event: Poisson arrivals, a backend with a capacity, and one of several strategies in
/// each client. forbear's own are the real core with a clock that is told the time, not a model of it. A run is a function of its
/// flags: the same seed gives the same bytes.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_long_help = READING, mut_args(numbers))]
pub(crate) struct Args {
    /// What to start from; every other flag changes it. Events of your own (--surge, --brownout, --outage, --hang) replace all of
    /// its events
    #[arg(long, value_enum, default_value_t = Preset::Storm, help_heading = "Scenario")]
    scenario: Preset,
    /// Virtual seconds to simulate
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Scenario")]
    seconds: Option<u32>,
    /// Seed of everything that is up to chance
    #[arg(long, default_value_t = 1, help_heading = "Scenario")]
    seed: u64,

    /// Clients of the fleet; each knows only what it has seen itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2_000_000), help_heading = "Fleet")]
    clients: Option<u32>,
    /// Calls a second that each client makes
    #[arg(long, value_name = "PER_SECOND", value_parser = rate, help_heading = "Fleet")]
    rate: Option<f64>,
    /// More demand for a while, as FROM:FOR:TIMES in seconds, seconds and multiples; may be repeated
    #[arg(long, value_name = "FROM:FOR:TIMES", help_heading = "Fleet")]
    surge: Vec<Spell>,

    /// Requests a second that the backend can serve [default: as much for the demand as in the scenario]
    #[arg(long, value_name = "PER_SECOND", value_parser = positive, help_heading = "Backend")]
    capacity: Option<f64>,
    /// What a refusal costs the backend, as a share of a request
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Backend")]
    reject_cost: Option<f64>,
    /// Requests that may wait for their turn, instead of being refused at once
    #[arg(long, value_name = "N", help_heading = "Backend")]
    queue: Option<u32>,
    /// Milliseconds to every answer, on top of any wait
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=600_000), help_heading = "Backend")]
    latency: Option<u32>,
    /// Seconds to wait that each refusal asks for (Retry-After)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400), help_heading = "Backend")]
    retry_after: Option<u32>,
    /// Share of sends that is answered "overloaded" whatever the load
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Backend")]
    overloaded: Option<f64>,
    /// Share of sends that fails after the work was done: errors that are no overload
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Backend")]
    failing: Option<f64>,
    /// Share of sends that is never answered
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Backend")]
    silent: Option<f64>,
    /// A time in which nothing is served and every send refused, in seconds (300:120 ends at 420); may be repeated
    #[arg(long, value_name = "FROM:FOR", help_heading = "Backend")]
    outage: Vec<Span>,
    /// A time in which no send is answered, in seconds; may be repeated
    #[arg(long, value_name = "FROM:FOR", help_heading = "Backend")]
    hang: Vec<Span>,
    /// Another capacity for a while, as a multiple of the usual one; may be repeated
    #[arg(long, value_name = "FROM:FOR:TIMES", help_heading = "Backend")]
    brownout: Vec<Spell>,
    /// Capacity that changes every PERIOD seconds between all of it and LOW times as much
    #[arg(long, value_name = "PERIOD:LOW", help_heading = "Backend")]
    flip: Option<FlipFlag>,

    /// Strategies to compare [default: all but yours; with --grid and --sweep k book and resilient]
    #[arg(long, value_enum, value_delimiter = ',', help_heading = "Strategies")]
    strategy: Vec<Name>,
    /// Attempts of a call, for plain, backoff and grpc-a6 (which makes no more than 5)
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Strategies")]
    attempts: u32,
    /// Milliseconds after which anybody gives up on an attempt
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=600_000), help_heading = "Strategies")]
    timeout: u32,

    #[command(flatten)]
    yours: Yours,

    /// Measure strategies on the four fleets and the seven tests by which forbear's are judged
    #[arg(long, conflicts_with_all = SHAPES, conflicts_with_all = ["sweep", "scenario", "clients", "rate", "plot"], conflicts_with_all = BUILDS, help_heading = "Measurements")]
    pub(super) grid: bool,
    /// Draw a figure against what is varied: the length of an outage, the number of clients that share the same demand, or K
    #[arg(long, value_enum, conflicts_with_all = SHAPES, help_heading = "Measurements")]
    pub(super) sweep: Option<Sweep>,
    /// Runs with seeds of their own whose median a grid or sweep takes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000), help_heading = "Measurements")]
    seeds: u32,

    /// Write the figures to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,
    /// Folder for the plots [default: none are drawn]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) plot: Option<PathBuf>,
    /// Simulations at the same time [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024), help_heading = "Output")]
    threads: Option<u32>,
}

/// What a grid and a sweep see to themselves: how long it takes, how much can be served, and what happens.
const SHAPES: [&str; 7] = ["seconds", "capacity", "surge", "outage", "hang", "brownout", "flip"];

/// The flags of a backend that a sweep is asked about, and a grid is not.
const BUILDS: [&str; 7] = ["reject_cost", "queue", "latency", "retry_after", "overloaded", "failing", "silent"];

/// What a sweep varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sweep {
    /// The length of an outage at 0.8 times the capacity: when is the fleet served again?
    Outage,
    /// The number of clients that share ten times the capacity: how much reaches the backend?
    Clients,
    /// K of every throttle at ten times the capacity: how much reaches the backend?
    K,
}

/// The flags that make the strategy "yours".
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Your own configuration (adds the strategy \"yours\")")]
struct Yours {
    /// What it starts from [default: resilient, or what the scenario is about]
    #[arg(long, value_enum)]
    from: Option<Base>,
    /// Sends for each accept
    #[arg(long)]
    k: Option<f64>,
    /// Retries as a share of requests
    #[arg(long)]
    retry_ratio: Option<f64>,
    /// Seconds that a client remembers (10, 30, 60, 120, 300 or 600)
    #[arg(long, value_name = "SECONDS", value_parser = window)]
    window: Option<u32>,
    /// Attempts of a call
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Requests in a window below which nothing is throttled
    #[arg(long, value_name = "N")]
    min_requests: Option<u32>,
    /// Retries in a window that are always allowed
    #[arg(long, value_name = "N")]
    retry_floor: Option<u32>,
    /// Seconds for which an attempt without an answer is not held against the backend
    #[arg(long, value_name = "SECONDS")]
    in_flight_grace: Option<u64>,
    /// Whether to add jitter to what Retry-After says
    #[arg(long, value_name = "BOOL")]
    retry_after_jitter: Option<bool>,
    /// The slowest pace of extra sends after an outage, or "off"
    #[arg(long, value_name = "SECONDS:ATTEMPTS")]
    recovery: Option<Pace>,
}

/// A preset of forbear's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Base {
    Overload,
    Retrying,
    Resilient,
}

impl Yours {
    fn is_given(&self) -> bool {
        let Self { from, k, retry_ratio, window, max_attempts, min_requests, retry_floor, .. } = self;
        let Self { in_flight_grace, retry_after_jitter, recovery, .. } = self;
        let numbers = [window, max_attempts, min_requests, retry_floor];
        from.is_some()
            || [k, retry_ratio].iter().any(|number| number.is_some())
            || numbers.iter().any(|number| number.is_some())
            || in_flight_grace.is_some()
            || retry_after_jitter.is_some()
            || recovery.is_some()
    }

    /// The configuration, which starts from `usual` unless told otherwise.
    fn config(&self, usual: ConfigBuilder) -> Result<Config, Failure> {
        let mut builder = match self.from {
            None => usual,
            Some(Base::Overload) => Config::overload().to_builder(),
            Some(Base::Retrying) => Config::retrying().to_builder(),
            Some(Base::Resilient) => Config::resilient().to_builder(),
        };
        if let Some(k) = self.k {
            builder = builder.k(k);
        }
        if let Some(ratio) = self.retry_ratio {
            builder = builder.retry_ratio(ratio);
        }
        if let Some(attempts) = self.max_attempts {
            builder = builder.max_attempts(attempts);
        }
        if let Some(requests) = self.min_requests {
            builder = builder.min_requests(requests);
        }
        if let Some(retries) = self.retry_floor {
            builder = builder.retry_floor(retries);
        }
        if let Some(seconds) = self.in_flight_grace {
            builder = builder.in_flight_grace(Duration::from_secs(seconds));
        }
        if let Some(add) = self.retry_after_jitter {
            builder = builder.retry_after_jitter(add);
        }
        match self.recovery {
            None => {}
            Some(Pace::Off) => builder = builder.no_recovery(),
            Some(Pace::Slowest(recovery)) => builder = builder.recovery(recovery),
        }
        builder.build().map_err(Failure::Config)
    }
}

/// Whatever takes a value is told a negative number as well, so that its error names it.
fn numbers(flag: Arg) -> Arg {
    let takes_value = flag.get_action().takes_values();
    flag.allow_negative_numbers(takes_value)
}

impl Args {
    /// What takes part, and how it is measured.
    pub(super) fn contest(&self) -> Result<Contest, Failure> {
        let about = self.scenario.config();
        let shown = self.yours.is_given() || about.is_some();
        let yours = self.yours.config(about.unwrap_or(Config::resilient().to_builder()))?;
        let mut names = match self.strategy.as_slice() {
            [] if self.grid || self.sweep == Some(Sweep::K) => vec![Name::Book, Name::Resilient],
            [] => Name::ALL.to_vec(),
            asked => asked.to_vec(),
        };
        if shown && !names.contains(&Name::Yours) {
            names.push(Name::Yours);
        }
        names.sort_unstable();
        names.dedup();
        let threads = self
            .threads
            .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |threads| threads as usize);
        let seeds = (0..u64::from(self.seeds)).map(|i| self.seed.wrapping_add(i)).collect();
        let timeout = Duration::from_millis(self.timeout.into());
        let window = self.yours.window.unwrap_or(120);
        Ok(Contest { names, attempts: self.attempts, timeout, yours, k: None, window, seeds, threads })
    }

    /// The fleet, the backend and the time, as the scenario and the flags say.
    pub(super) fn shape(&self) -> Result<Shape, Failure> {
        let mut shape = self.scenario.shape();
        // Another fleet has another demand: a backend that nobody asked about keeps its proportion.
        let load = shape.forecast.capacity / shape.forecast.demand;
        shape.clients = self.clients.unwrap_or(shape.clients);
        shape.rate = self.rate.unwrap_or(shape.rate);
        shape.forecast.demand = f64::from(shape.clients) * shape.rate;
        shape.forecast.capacity = self.capacity.unwrap_or(shape.forecast.demand * load);
        shape.seconds = self.seconds.unwrap_or(shape.seconds);

        let Build { queue, reject_cost, retry_after, latency, overloaded, failing, silent } = shape.backend;
        shape.backend = Build {
            queue: self.queue.or(queue),
            reject_cost: self.reject_cost.unwrap_or(reject_cost),
            retry_after: self.retry_after.map_or(retry_after, |s| Some(Duration::from_secs(s.into()))),
            latency: self.latency.map_or(latency, |ms| Duration::from_millis(ms.into())),
            overloaded: self.overloaded.unwrap_or(overloaded),
            failing: self.failing.unwrap_or(failing),
            silent: self.silent.unwrap_or(silent),
        };
        let Build { overloaded, failing, silent, .. } = shape.backend;
        let shares = overloaded + failing + silent;
        if shares > 1.0 {
            return Err(Failure::Shares(shares));
        }

        let spells = |spells: &[Spell], change: fn(f64) -> Change| -> Vec<Event> {
            spells.iter().map(|spell| Event { seconds: spell.seconds.clone(), change: change(spell.times) }).collect()
        };
        let spans = |spans: &[Span], change: Change| -> Vec<Event> {
            spans.iter().map(|span| Event { seconds: span.0.clone(), change }).collect()
        };
        let asked = [
            spells(&self.surge, Change::Demand),
            spells(&self.brownout, Change::Capacity),
            spans(&self.outage, Change::Outage),
            spans(&self.hang, Change::Hang),
        ]
        .concat();
        // Whoever says what is to happen does not want the events of the scenario as well.
        if !asked.is_empty() {
            shape.forecast.events = asked;
        }
        if let Some(FlipFlag(flip)) = self.flip {
            shape.forecast.flip = Some(flip);
        }
        if let Some(event) = shape.forecast.events.iter().find(|event| event.seconds.start >= shape.seconds) {
            return Err(Failure::TooLate { event: event.to_string(), seconds: shape.seconds });
        }
        let fewest = if self.sweep == Some(Sweep::Clients) { 1 } else { shape.clients };
        let demand = (0..shape.seconds).map(|second| shape.forecast.at(second).demand).fold(0.0, f64::max);
        if demand > MOST_DEMAND {
            return Err(Failure::Demand(demand));
        }
        let rate = demand / f64::from(fewest);
        if rate > MOST_RATE {
            return Err(Failure::Rate(rate));
        }
        Ok(shape)
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
}

/// Calls a second of a whole fleet: beyond that, arrivals lie too close for the nanoseconds that time is counted in.
pub(super) const MOST_DEMAND: f64 = 1e7;

/// Calls a second of one client: three attempts of each still fit into a bucket of the compact window.
pub(super) const MOST_RATE: f64 = 20_000.0;

/// Some seconds, as FROM:FOR.
#[derive(Clone, Debug, PartialEq)]
struct Span(Range<u32>);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SHAPE: &str = "must be FROM:FOR, two whole numbers of seconds, the second from 1";
        let (from, length) = text.split_once(':').ok_or(SHAPE)?;
        let from: u32 = from.parse().map_err(|_| SHAPE)?;
        let length: u32 = length.parse().map_err(|_| SHAPE)?;
        let end = from.checked_add(length).filter(|_| length > 0).ok_or(SHAPE)?;
        Ok(Self(from..end))
    }
}

/// Some seconds and a multiple, as FROM:FOR:TIMES.
#[derive(Clone, Debug, PartialEq)]
struct Spell {
    seconds: Range<u32>,
    times: f64,
}

impl FromStr for Spell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SHAPE: &str = "must be FROM:FOR:TIMES, two whole numbers of seconds and a multiple from 0 to 100000";
        let (span, times) = text.rsplit_once(':').ok_or(SHAPE)?;
        let Span(seconds) = span.parse().map_err(|_| SHAPE)?;
        let times: f64 = times.parse().map_err(|_| SHAPE)?;
        (0.0..=100_000.0).contains(&times).then_some(Self { seconds, times }).ok_or_else(|| SHAPE.to_owned())
    }
}

/// PERIOD:LOW.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FlipFlag(Flip);

impl FromStr for FlipFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SHAPE: &str = "must be PERIOD:LOW, a whole number of seconds from 1 and a share from 0 to 1";
        let (period, low) = text.split_once(':').ok_or(SHAPE)?;
        let period: u32 = period.parse().map_err(|_| SHAPE)?;
        let low: f64 = low.parse().map_err(|_| SHAPE)?;
        let flip = Flip { period, low };
        (period > 0 && (0.0..=1.0).contains(&low)).then_some(Self(flip)).ok_or_else(|| SHAPE.to_owned())
    }
}

/// SECONDS:ATTEMPTS, or "off".
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    Off,
    Slowest(Recovery),
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SHAPE: &str = "must be SECONDS:ATTEMPTS, whole numbers from 1 to 3600 and from 1 to 65535, or off";
        if text == "off" {
            return Ok(Self::Off);
        }
        let (seconds, attempts) = text.split_once(':').ok_or(SHAPE)?;
        let (seconds, attempts) = (seconds.parse().map_err(|_| SHAPE)?, attempts.parse().map_err(|_| SHAPE)?);
        Recovery::new(seconds, attempts).map(Self::Slowest).ok_or_else(|| SHAPE.to_owned())
    }
}

fn within(text: &str, allowed: impl Fn(f64) -> bool, range: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    allowed(value).then_some(value).ok_or_else(|| format!("must be {range}"))
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, |v| v > 0.0 && v <= MOST_RATE, "above 0 and at most 20000")
}

fn positive(text: &str) -> Result<f64, String> {
    within(text, |v| v > 0.0 && v <= 1e9, "above 0 and at most 1000000000")
}

fn share(text: &str) -> Result<f64, String> {
    within(text, |v| (0.0..=1.0).contains(&v), "from 0 to 1")
}

fn window(text: &str) -> Result<u32, String> {
    let known = super::contest::WINDOWS;
    text.parse().ok().filter(|seconds| known.contains(seconds)).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(u32::to_string).collect();
        format!("a window's length is part of its type, and this binary has {} s", names.join(", "))
    })
}

const READING: &str = "\
How to read the table:
  load, goodput  what reached the backend and what was served, in multiples of its capacity, while
                 more was asked for than it can serve; of a surge that is longer than a window
                 (120 s) the first window is left out
  peak           what reached the backend in its worst second, in multiples of the capacity then
  in outage      what was sent, in multiples of the calls, while nothing was served
  recovery       seconds after the last outage until 95 % of the calls of five seconds were served;
                 - where there was no outage, or more is asked for ever after than can be served
  refused        share of the calls that were never sent while the backend could serve them all
  served         calls that ended well, as a share of what could have been served

Examples:
  forbear-lab fleet --scenario outage --plot out
  forbear-lab fleet --clients 500 --rate 4 --capacity 2500 --outage 300:600 --seconds 1500
  forbear-lab fleet --scenario overload --k 1.5 --strategy book,resilient
  forbear-lab fleet --sweep outage --clients 100 --rate 10 --plot out
  forbear-lab fleet --grid --json grid.json

Times, rates and shares are those of the flags; the machine's speed has no part in them.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_spells_are_what_they_say_or_refused() {
        assert_eq!("240:60".parse(), Ok(Span(240..300)));
        assert_eq!("0:1:2.5".parse(), Ok(Spell { seconds: 0..1, times: 2.5 }));
        assert_eq!("30:0.1".parse(), Ok(FlipFlag(Flip { period: 30, low: 0.1 })));
        for text in ["", "1", "1:0", "-1:5", "1:x", "4294967295:1"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        for text in ["1:2", "1:2:-1", "1:2:NaN", "1:2:1e9", "1:0:1"] {
            assert!(text.parse::<Spell>().is_err(), "{text}");
        }
        for text in ["0:0.5", "30:1.5", "30", "x:0.1"] {
            assert!(text.parse::<FlipFlag>().is_err(), "{text}");
        }
    }
}
