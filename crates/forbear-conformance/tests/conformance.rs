//! The clients of the core against the vectors.

use std::process::ExitCode;

use forbear_conformance::{Atomic, Compact, Conformance, CoreCall, CoreOverload, CoreRetrying, Plain, oracle};

fn main() -> ExitCode {
    Conformance::default()
        .overload::<CoreOverload<Plain>>()
        .overload::<CoreOverload<Compact>>()
        .overload::<CoreOverload<Atomic>>()
        .overload::<CoreCall<Plain>>()
        .overload::<CoreCall<Atomic>>()
        .retry::<CoreRetrying>()
        .retry::<CoreCall<Plain>>()
        .retry::<CoreCall<Atomic>>()
        .combined::<CoreCall<Plain>>()
        .combined::<CoreCall<Compact>>()
        .combined::<CoreCall<Atomic>>()
        // The oracle of the other tests is held against them as well.
        .overload::<oracle::Overload>()
        .overload::<oracle::Machine>()
        .retry::<oracle::Retrying>()
        .retry::<oracle::Machine>()
        .combined::<oracle::Machine>()
        .run()
}
