//! Holding a subject against the vectors.

use core::fmt;
use core::time::Duration;
use std::path::Path;

use forbear::{Backoff, Config, Reply, http};

use crate::subject::{Client, Ended, Observed, Outcome, SharedClock, SharedScript, Subject};
use crate::vectors::{self, Combined, Expected, Kind, Overload, OverloadReply, Retry};

/// What was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Scenarios, each with a client of its own.
    pub scenarios: usize,
    /// Calls in all of them.
    pub calls: usize,
}

/// Where a subject deviates: the first mismatch, or vectors that cannot be run.
#[derive(Debug)]
pub struct Deviation(String);

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Deviation {}

impl From<vectors::VectorError> for Deviation {
    fn from(error: vectors::VectorError) -> Self {
        Self(error.to_string())
    }
}

impl From<forbear::ConfigError> for Deviation {
    fn from(error: forbear::ConfigError) -> Self {
        Self(error.to_string())
    }
}

/// Runs `overload.json`: throttle and budget, no backoff.
///
/// # Errors
///
/// The first deviation.
pub fn run_overload<S: Subject>(folder: &Path) -> Result<Ran, Deviation> {
    let mut ran = Ran::default();
    for scenario in vectors::read::<Overload>(folder, "overload.json")? {
        let config = Config::overload()
            .to_builder()
            .k(scenario.config.k)
            .retry_ratio(scenario.config.retry_ratio)
            .max_attempts(scenario.config.max_attempts)
            .build()?;
        let mut bench = Bench::new::<S>(config, scenario.config.window, scenario.start_ms * 1_000)?;
        for (index, call) in scenario.calls.iter().enumerate() {
            let place = || format!("{}, call {index}", scenario.name);
            bench.clock.set_micros(call.at_ms * 1_000);
            bench.counts(call.before).map_err(|what| Deviation(format!("{}, before: {what}", place())))?;
            let replies = call.replies.iter().map(|reply| match reply {
                OverloadReply::Ok => Reply::ACCEPTED,
                OverloadReply::Overloaded => Reply::OVERLOADED,
            });
            let plan = Plan { draws: &call.draws, replies: replies.collect(), send_micros: call.send_ms * 1_000 };
            let trace = bench.call(plan);
            trace
                .and_then(|trace| {
                    same("outcome", trace.ended.outcome, call.outcome)?;
                    same("end", bench.clock.micros(), call.end_ms * 1_000)?;
                    bench.counts(call.after)
                })
                .map_err(|what| Deviation(format!("{}: {what}", place())))?;
        }
        ran.scenarios += 1;
        ran.calls += scenario.calls.len();
    }
    Ok(ran)
}

/// Runs `retry.json`: backoff and Retry-After, neither throttle nor budget.
///
/// # Errors
///
/// The first deviation.
pub fn run_retry<S: Subject>(folder: &Path) -> Result<Ran, Deviation> {
    let mut ran = Ran::default();
    for case in vectors::read::<Retry>(folder, "retry.json")? {
        let (base, max) = (case.config.base_delay_ms, case.config.max_delay_ms);
        let config = Config::retrying()
            .to_builder()
            .max_attempts(case.config.max_attempts)
            .backoff(Backoff::new(Duration::from_millis(base), Duration::from_millis(max)))
            .build()?;
        let mut bench = Bench::new::<S>(config, 120, 0)?;
        let replies = case.replies.iter().map(|reply| {
            let wait = reply.retry_after_ms.map(Duration::from_millis);
            wait.map_or(http::status(reply.status), |wait| http::status(reply.status).after(wait))
        });
        let plan = Plan { draws: &case.draws, replies: replies.collect(), send_micros: 0 };
        let sleeps: Vec<f64> = case.sleeps_ms.iter().map(|sleep| sleep * 1_000.0).collect();
        bench
            .call(plan)
            .and_then(|trace| {
                same("attempts", trace.sends, case.result.attempts)?;
                // All replies were used, so the last one is what the client has to give.
                same("status", case.replies.last().map(|reply| reply.status), Some(case.result.status))?;
                trace.slept(&sleeps, S::LATE_MICROS)
            })
            .map_err(|what| Deviation(format!("{}: {what}", case.name)))?;
        ran.scenarios += 1;
        ran.calls += 1;
    }
    Ok(ran)
}

/// Runs `combined.json`: throttle, budget, backoff, Retry-After and deadline.
///
/// # Errors
///
/// The first deviation.
pub fn run_combined<S: Subject>(folder: &Path) -> Result<Ran, Deviation> {
    let mut ran = Ran::default();
    for scenario in vectors::read::<Combined>(folder, "combined.json")? {
        let given = &scenario.config;
        let (base, max) = (Duration::from_micros(given.base_delay_us), Duration::from_micros(given.max_delay_us));
        let mut builder = Config::overload()
            .to_builder()
            .k(given.k)
            .retry_ratio(given.retry_ratio)
            .max_attempts(given.max_attempts)
            .min_requests(given.min_requests)
            .backoff(Backoff::new(base, max));
        if let Some(deadline) = given.deadline_us {
            builder = builder.deadline(Duration::from_micros(deadline));
        }
        let mut bench = Bench::new::<S>(builder.build()?, given.window, scenario.start_us)?;
        for (index, call) in scenario.calls.iter().enumerate() {
            bench.clock.set_micros(call.at_us);
            let replies = call.replies.iter().map(|reply| {
                let kind = match reply.kind {
                    Kind::Accepted => Reply::ACCEPTED,
                    Kind::Permanent => Reply::PERMANENT,
                    Kind::Transient => Reply::TRANSIENT,
                    Kind::Overloaded => Reply::OVERLOADED,
                    Kind::Unreachable => Reply::UNREACHABLE,
                };
                reply.retry_after_us.map_or(kind, |wait| kind.after(Duration::from_micros(wait)))
            });
            let plan = Plan { draws: &call.draws, replies: replies.collect(), send_micros: call.send_us };
            let sleeps: Vec<f64> = call.sleeps_us.iter().map(|sleep| *sleep as f64).collect();
            bench
                .call(plan)
                .and_then(|trace| {
                    same("outcome", trace.ended.outcome, call.outcome)?;
                    trace.slept(&sleeps, S::LATE_MICROS)?;
                    // Each sleep may be a microsecond off, or late, and so may their sum.
                    let off = bench.clock.micros().abs_diff(call.end_us);
                    holds(off <= sleeps.len() as u64 * (1 + S::LATE_MICROS), || {
                        format!("ends {off} us off {}", call.end_us)
                    })?;
                    bench.clock.set_micros(call.end_us);
                    bench.counts(call.after)
                })
                .map_err(|what| Deviation(format!("{}, call {index}: {what}", scenario.name)))?;
        }
        ran.scenarios += 1;
        ran.calls += scenario.calls.len();
    }
    Ok(ran)
}

/// A client with the clock and the script that it was made with.
struct Bench {
    client: Box<dyn Client>,
    clock: SharedClock,
    script: SharedScript,
}

/// What one call is given.
struct Plan<'v> {
    draws: &'v [f64],
    replies: Vec<Reply>,
    send_micros: u64,
}

/// What was seen of one call.
struct Trace {
    ended: Ended,
    sends: u32,
    /// The time from each send's answer to the next send, or to the end if the retry was dropped.
    gaps: Vec<u64>,
}

impl Bench {
    fn new<S: Subject>(config: Config, window: u64, start_micros: u64) -> Result<Self, Deviation> {
        let (clock, script) = (SharedClock::default(), SharedScript::default());
        clock.set_micros(start_micros);
        /// A window's length is its type's.
        macro_rules! client {
            ($($length:literal)*) => {
                match window {
                    $($length => S::client::<$length>(config, clock.clone(), script.clone()),)*
                    other => return Err(Deviation(format!("a window of {other} s is none of those that are run"))),
                }
            };
        }
        let client = client!(1 2 10 60 120);
        Ok(Self { client, clock, script })
    }

    /// One call; all draws and all replies must be used, no more and no fewer.
    fn call(&mut self, plan: Plan<'_>) -> Result<Trace, String> {
        let clock = self.clock.clone();
        self.script.load(plan.draws.iter().copied().map(vectors::generated));
        let mut replies = plan.replies.iter();
        let (mut sends, mut gaps, mut answered) = (0, Vec::new(), clock.micros());
        let ended = self.client.call(&mut || {
            gaps.push(clock.micros() - answered);
            clock.advance_micros(plan.send_micros);
            answered = clock.micros();
            sends += 1;
            // What is sent beyond the script is told from the number of sends.
            replies.next().copied().unwrap_or(Reply::ACCEPTED)
        });
        same("sends", sends as usize, plan.replies.len())?;
        same("draws", self.script.drawn(), plan.draws.len())?;
        if let Some(attempts) = ended.attempts {
            same("attempts told", attempts, sends)?;
        }

        gaps.push(clock.micros() - answered);
        // Nothing waits before the first attempt, nor after the last one unless it was dropped here after its wait.
        same("wait before the first attempt", gaps.remove(0), 0)?;
        if sends > 0 && ended.outcome != Outcome::Throttled {
            same("wait after the last attempt", gaps.pop(), Some(0))?;
        }
        Ok(Trace { ended, sends, gaps })
    }

    fn counts(&self, expected: Expected) -> Result<(), String> {
        let Observed { requests, accepts, retries, reject_probability } = self.client.observed();
        same("requests", requests, expected.requests)?;
        same("accepts", accepts, expected.accepts)?;
        same("retries", retries, expected.retries)?;
        holds((reject_probability - expected.reject_probability).abs() <= 1e-12, || {
            format!("reject probability is {reject_probability}, not {}", expected.reject_probability)
        })
    }
}

impl Trace {
    /// Whether the sleeps are these, to a microsecond, or late by what the timer may be.
    fn slept(&self, micros: &[f64], late: u64) -> Result<(), String> {
        let close = |(gap, sleep): (&u64, &f64)| (-1.0..=1.0 + late as f64).contains(&(*gap as f64 - sleep));
        holds(self.gaps.len() == micros.len() && self.gaps.iter().zip(micros).all(close), || {
            format!("slept {:?} us, not {micros:?}", self.gaps)
        })
    }
}

fn same<T: PartialEq + fmt::Debug>(what: &str, is: T, expected: T) -> Result<(), String> {
    holds(is == expected, || format!("{what}: {is:?}, not {expected:?}"))
}

fn holds(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise()) }
}
