#![doc = include_str!("../README.md")]

mod client;
mod clock;

pub use client::{Attempts, Client};
pub use clock::TokioClock;
pub use forbear::{Backoff, Config, ConfigError, Counts, Error, Mode, Refused, Reply, Report, Retry, Stop};
pub use forbear_std::{Observer, SharedWindow, SystemClock, ThreadRng};
