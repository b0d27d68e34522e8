//! What every client of forbear is held against: vectors, a naive oracle, and the runners for both.
//!
//! * [`vectors`] reads the files that say call by call what must happen,
//! * [`oracle`] is the specification once more, as plainly as it can be written,
//! * [`Subject`] and [`Client`] are what a client implements to be tested, a few lines each,
//! * [`exercise`] turns any bytes into a run of the core beside the oracle, and checks the [`invariants`],
//! * [`run`] holds a subject against the vectors, and [`Conformance`] makes a test target of it.

mod core_clients;
pub mod exercise;
mod harness;
pub mod invariants;
pub mod oracle;
pub mod run;
mod subject;
pub mod vectors;

pub use core_clients::{Atomic, Compact, CoreCall, CoreOverload, CoreRetrying, Plain, Windows};
pub use harness::Conformance;
pub use subject::{Client, Ended, Observed, Outcome, SharedClock, SharedScript, Subject};

/// How many runs a random test makes where it would make so many: a part of them, at least one, where the variable
/// `FORBEAR_PART` says which. With 20 it is a twentieth: enough to see whether anything is wrong at all.
pub fn part_of(runs: u64) -> u64 {
    let part = std::env::var("FORBEAR_PART").map_or(1, |part| part.parse().expect("FORBEAR_PART is a number above 0"));
    (runs / part).max(1)
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
