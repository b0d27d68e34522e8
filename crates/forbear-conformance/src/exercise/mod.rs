//! Any sequence of bytes as a run of the core beside the [oracle](crate::oracle): what property tests feed with random
//! bytes, and fuzz targets with chosen ones.
//!
//! Each function panics where the core deviates from the oracle or breaks one of the [invariants](crate::invariants).

mod calls;
mod choices;
mod clients;
mod config;
mod windows;

pub use calls::combined;
pub use choices::Choices;
pub use clients::{overload_client, retrying_client};
pub use config::config;
pub use windows::{atomic_window, window};
