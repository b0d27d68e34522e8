//! What a storm is made of: its flags, and the settings that they resolve to.

use std::{fmt, path::PathBuf};

use clap::Args as ClapArgs;
use forbear::Config;
use serde::Serialize;

use super::{Failure, demand::Demand, phases::Phases, progress::minutes};

/// Overload real HTTP servers, and see how six ways of retrying treat them.
///
/// Starts one HTTP/1.1 server per strategy on 127.0.0.1, each with the same capacity, and sends all of them the same demand at the same
/// time: healthy, then overloaded, then an outage, then healthy again. The demand is an open loop (a Poisson process): it does not slow
/// down because the answers do. The work behind a server is simulated, so a storm costs little CPU; the sockets, the requests and the
/// clients are real.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_long_help = READING, allow_negative_numbers = true)]
pub(crate) struct Args {
    /// Demand during the overload, in multiples of the capacity
    #[arg(long, value_name = "TIMES", default_value = "10", value_parser = positive, help_heading = "Demand")]
    demand: f64,
    /// Demand in the other phases, in multiples of the capacity
    #[arg(long, value_name = "TIMES", default_value = "0.8", value_parser = positive, help_heading = "Demand")]
    healthy_demand: f64,
    /// Clients that share the demand; each knows only what it has seen itself, so the more there are, the longer each takes to learn
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Demand")]
    clients: u32,
    /// Seed of the demand and of the clients' generators
    #[arg(long, default_value_t = 1, help_heading = "Demand")]
    seed: u64,

    /// Requests a second that a server can do
    #[arg(long, value_name = "PER_SECOND", default_value = "100", value_parser = positive, help_heading = "Servers")]
    capacity: f64,
    /// Work in a rejection, as a share of the work in a request
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = share, help_heading = "Servers")]
    reject_cost: f64,
    /// First of the ports to listen on, one per strategy [default: any that are free]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Servers")]
    pub(super) port: Option<u16>,

    /// Seconds that forbear's clients remember (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200 or 3600)
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = window, help_heading = "Clients")]
    window: u32,
    /// K of forbear: how many requests are sent for each that is accepted
    #[arg(long, default_value_t = 2.0, help_heading = "Clients")]
    k: f64,
    /// Retries as a share of requests, for both budgets (forbear's and tower's)
    #[arg(long, default_value = "0.1", value_parser = ratio, help_heading = "Clients")]
    ratio: f64,
    /// Attempts of a call, for all that retry
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Clients")]
    attempts: u32,

    /// Healthy phase [default: 0.3 windows]
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), help_heading = "Phases")]
    healthy_seconds: Option<u32>,
    /// Overload, longer than the window: it is judged after its first [default: 1.7 windows]
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), help_heading = "Phases")]
    overload_seconds: Option<u32>,
    /// Outage [default: 0.6 windows]
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), help_heading = "Phases")]
    outage_seconds: Option<u32>,
    /// Recovery [default: 3 windows]
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), help_heading = "Phases")]
    recovery_seconds: Option<u32>,

    /// Folder for the plot, storm.svg
    #[arg(long, value_name = "DIR", default_value = "out", help_heading = "Output")]
    pub(super) out: PathBuf,
    /// Write the figures to this file as well
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,
}

const READING: &str = "\
What the servers do:
  A request takes 1/capacity seconds of work, one after the other. A fifth of a second of work (at
  least ten requests) may wait. What comes on top is answered 503 at once, and saying so is work
  too, 10 % of a request by default. That is why a server that is asked for ten times its capacity
  can end up serving nobody: it is busy saying no. During the outage a server answers 503 to
  everything, at no cost, like a proxy with nothing behind it.

What the clients do:
  no retries       one attempt
  plain retries    three attempts, one right after the other
  backoff          three attempts, exponential backoff with jitter from 100 ms (backon)
  retry budget     three attempts, retries up to a tenth of what was served in the window
                   (tower's TpsBudget as its documentation shows it: only what was served
                   pays in, so there is little to retry with; its window is 60 s at most)
  forbear          three attempts, retry budget and adaptive throttling (K = 2), no backoff: by
                   the book, Config::overload()
  forbear,         the same with backoff, and with a recovery that tells an overload from a
    resilient      backend that is back: Config::resilient(), the default of every client
  The clients of a strategy share a pool of connections, and nothing that they know.

How to read the figures:
  Load is what reaches the server, goodput what is served, both in multiples of the capacity.
  Demand, load, goodput, rejects (calls that were never sent), retries and latency are those of
  the overload after its first window: forbear needs about that long to see what it is up against.
  Latency is that of calls that were served, retries included. Recovery is the first second after
  the outage from which three seconds long at least 95 % of the calls are served.

  In the plot, grey is what could have been served and the dashed line is the capacity. Recovery is
  where the book's formula pays: what was refused locally stays in the window, and only accepts let
  a client send more, so it needs two to three windows to come back. By default forbear also sends a
  little of what the formula refuses, more and more while that is accepted, and is back in seconds.
  It paces that by attempts as well as by time: with many clients that ask seldom (--clients 150),
  it takes longer.

  A run that calls itself doubtful was disturbed: the machine could not keep the demand's pace, or
  took long over rejections, which take a server no time.

Longer, and other:
  forbear-lab storm --window 120      the book's window, with phases to match: eleven minutes
  forbear-lab storm --reject-cost 0   saying no is free: load differs as before, goodput hardly

Ctrl-C ends the storm and reports the phases that came to their end.";

/// Everything that decides about a storm, and that its JSON repeats.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Settings {
    pub(super) capacity: f64,
    pub(super) reject_cost: f64,
    /// In multiples of the capacity.
    pub(super) demand: f64,
    pub(super) healthy_demand: f64,
    pub(super) clients: usize,
    pub(super) window: u32,
    pub(super) k: f64,
    pub(super) ratio: f64,
    pub(super) attempts: u32,
    pub(super) seed: u64,
    #[serde(rename = "phase_seconds")]
    pub(super) phases: Phases,
    /// The book's specification with this k, ratio and attempts.
    #[serde(skip)]
    pub(super) book: Config,
    /// What forbear's clients run by default, with the same.
    #[serde(skip)]
    pub(super) forbear: Config,
}

impl Settings {
    pub(super) fn new(args: &Args) -> Result<Self, Failure> {
        let asked = [args.healthy_seconds, args.overload_seconds, args.outage_seconds, args.recovery_seconds];
        let as_asked = |config: Config| {
            let config = config.to_builder().k(args.k).retry_ratio(args.ratio).max_attempts(args.attempts);
            config.build().map_err(Failure::Config)
        };
        Ok(Self {
            capacity: args.capacity,
            reject_cost: args.reject_cost,
            demand: args.demand,
            healthy_demand: args.healthy_demand,
            clients: args.clients as usize,
            window: args.window,
            k: args.k,
            ratio: args.ratio,
            attempts: args.attempts,
            seed: args.seed,
            phases: Phases::new(asked, args.window)?,
            book: as_asked(Config::overload())?,
            forbear: as_asked(Config::resilient())?,
        })
    }

    /// The same arrivals, each time.
    pub(super) fn demand(&self) -> Demand {
        let rate = |times: f64| times * self.capacity;
        Demand::new(self.seed, self.phases.clone(), self.clients, rate(self.healthy_demand), rate(self.demand))
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capacity, reject_cost, demand, healthy_demand, clients, seed, phases, .. } = self;
        let Self { window, k, ratio, attempts, .. } = self;
        writeln!(f, "servers  {capacity} requests/s each, a rejection costs {reject_cost} of a request")?;
        writeln!(
            f,
            "demand   {demand}x capacity in the overload, else {healthy_demand}x; {clients} clients, seed {seed}"
        )?;
        writeln!(f, "clients  {attempts} attempts; forbear: window {window} s, K {k}, retry ratio {ratio}")?;
        write!(f, "phases   {phases}; {} in all", minutes(phases.total_seconds()))
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "not a number".to_owned())
}

fn within(text: &str, allowed: impl Fn(f64) -> bool, range: &str) -> Result<f64, String> {
    let value = number(text)?;
    allowed(value).then_some(value).ok_or_else(|| format!("must be {range}"))
}

fn positive(text: &str) -> Result<f64, String> {
    within(text, |v| v > 0.0 && v <= 100_000.0, "above 0 and at most 100000")
}

fn share(text: &str) -> Result<f64, String> {
    within(text, |v| (0.0..=1.0).contains(&v), "from 0 to 1")
}

fn ratio(text: &str) -> Result<f64, String> {
    within(text, |v| (0.0..=100.0).contains(&v), "from 0 to 100")
}

fn seconds() -> impl clap::builder::TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(0..=86_400)
}

fn window(text: &str) -> Result<u32, String> {
    let known = super::WINDOWS;
    text.parse().ok().filter(|seconds| known.contains(seconds)).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(u32::to_string).collect();
        format!("a window's length is part of its type, and this binary has {} s", names.join(", "))
    })
}
