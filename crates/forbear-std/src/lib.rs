#![doc = include_str!("../README.md")]

mod client;
mod clock;
pub mod http;
mod locked;
mod rng;

pub use client::{Attempts, Client, Observer};
pub use clock::SystemClock;
/// The policy under it: what HTTP and gRPC statuses mean, and the machine itself.
pub use forbear;
#[cfg(target_has_atomic = "64")]
pub use forbear::AtomicWindow as SharedWindow;
pub use forbear::{Backoff, Config, ConfigError, Counts, Error, Mode, Refused, Reply, Report, Retry, Stop};
pub use locked::LockedWindow;
#[cfg(not(target_has_atomic = "64"))]
pub use locked::LockedWindow as SharedWindow;
pub use rng::{LockedRng, SharedRng, ThreadRng};
