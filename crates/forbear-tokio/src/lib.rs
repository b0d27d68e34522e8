#![doc = include_str!("../README.md")]

mod client;
mod clock;
#[cfg(feature = "tower")]
mod driver;
#[cfg(feature = "tracing")]
mod events;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "tower")]
mod layer;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tower")]
mod protocol;
mod running;

pub use client::{Attempts, Client};
pub use clock::TokioClock;
#[cfg(feature = "tower")]
pub use driver::TimedOut;
#[cfg(feature = "tracing")]
pub use events::Events;
/// The policy under it: what HTTP and gRPC statuses mean, and the machine itself.
pub use forbear;
pub use forbear::{Backoff, Config, ConfigError, Counts, Error, Mode, Refused, Reply, Report, Retry, Stop};
pub use forbear_std::{LockedRng, Observer, SharedRng, SharedWindow, SystemClock, ThreadRng};
#[cfg(feature = "tower")]
pub use layer::{Forbear, ForbearLayer, ResponseFuture};
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
#[cfg(feature = "tower")]
pub use protocol::{BoxError, Cloned, Protocol};
