#![cfg_attr(not(doctest), doc = include_str!("../README.md"))]
#![no_std]

#[cfg(target_has_atomic = "64")]
pub mod atomic;
pub mod backoff;
pub mod budget;
pub mod call;
pub mod clock;
pub mod config;
pub mod counts;
#[cfg(feature = "defmt")]
mod defmt;
mod double;
pub mod error;
pub mod grpc;
pub mod http;
pub mod overload_client;
pub mod policy;
pub mod recovery;
pub mod reply;
pub mod report;
pub mod retrying_client;
pub mod settings;
pub mod testing;
pub mod throttle;
pub mod window;
mod word;

#[cfg(target_has_atomic = "64")]
pub use atomic::AtomicWindow;
pub use backoff::Backoff;
pub use call::{Call, Handle, Step};
pub use clock::{Clock, Instant, Sleep};
pub use config::{Config, ConfigBuilder, ConfigError, Mode};
pub use counts::{Counts, Tally};
pub use error::{Error, Refused};
pub use overload_client::{Outcome, OverloadClient};
pub use policy::Policy;
pub use recovery::Recovery;
pub use reply::{Reply, Retry};
pub use report::{Report, Stop};
pub use retrying_client::{Answer, RetryingClient};
pub use settings::Settings;
pub use window::Window;

/// The generator trait of this crate's interface, of the version that it needs.
pub use rand_core;
