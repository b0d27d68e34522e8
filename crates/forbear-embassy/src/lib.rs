#![doc = include_str!("../README.md")]
#![no_std]

mod client;
mod clock;
mod seed;
mod shared;

pub use client::{Attempts, Client, Limited};
pub use clock::EmbassyClock;
pub use seed::{NoDeviceId, seed};
pub use shared::Shared;

/// Who may share a client: the tasks of one executor, or any task.
pub use embassy_sync::blocking_mutex::raw::{CriticalSectionRawMutex, NoopRawMutex};

/// The policy: what HTTP and gRPC statuses mean, and the machine itself.
pub use forbear;
pub use forbear::{
    Backoff, Config, ConfigError, Counts, Error, Mode, Refused, Reply, Report, Retry, Stop, Window, settings,
};

/// The guide's example, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/firmware.md")]
struct Guide;
