//! A test target of conformance runs: each prints what it ran, and obeys cargo's filters.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::run::{self, Deviation, Ran};
use crate::subject::Subject;
use crate::vectors;

/// The runs of one test target. The target needs `harness = false`, and a `main` like this:
///
/// ```no_run
/// use forbear_conformance::{Conformance, CoreOverload, Plain};
///
/// fn main() -> std::process::ExitCode {
///     Conformance::default().overload::<CoreOverload<Plain>>().run()
/// }
/// ```
#[derive(Default)]
pub struct Conformance(Vec<Trial>);

impl Conformance {
    /// Adds a run of `overload.json`.
    pub fn overload<S: Subject>(self) -> Self {
        self.add::<S>("overload", run::run_overload::<S>)
    }

    /// Adds a run of `retry.json`.
    pub fn retry<S: Subject>(self) -> Self {
        self.add::<S>("retry", run::run_retry::<S>)
    }

    /// Adds a run of `combined.json`.
    pub fn combined<S: Subject>(self) -> Self {
        self.add::<S>("combined", run::run_combined::<S>)
    }

    /// Runs what cargo's arguments ask for.
    pub fn run(self) -> ExitCode {
        libtest_mimic::run(&Arguments::from_args(), self.0).exit_code()
    }

    fn add<S: Subject>(mut self, behaviour: &'static str, run: fn(&Path) -> Result<Ran, Deviation>) -> Self {
        self.0.push(Trial::test(format!("conformance_{behaviour} {}", S::NAME), move || {
            let folder = vectors::folder().map_err(|error| Failed::from(error.to_string()))?;
            let ran = run(&folder).map_err(|deviation| Failed::from(deviation.to_string()))?;
            let Ran { scenarios, calls } = ran;
            println!("conformance: {} ran {scenarios} scenarios, {calls} calls of {behaviour}.json", S::NAME);
            Ok(())
        }));
        self
    }
}

impl core::fmt::Debug for Conformance {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.0.iter().map(Trial::name)).finish()
    }
}
