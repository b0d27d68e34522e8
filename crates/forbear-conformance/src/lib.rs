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

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
