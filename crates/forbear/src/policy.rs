//! A policy: a configuration, the memory it decides by, and a switch. What all calls of one client share.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::clock::Instant;
use crate::config::{Config, Mode};
use crate::counts::{Counts, Tally};
use crate::throttle;
use crate::window::Window;

/// What all calls of one client share: the configuration, the window, and the mode.
///
/// Share it as the platform does: by reference, `Rc`, or `Arc` (with an [`AtomicWindow`](crate::AtomicWindow)). One policy
/// serves one backend; a client of several keeps one for each.
///
/// ```
/// use forbear::{Config, Instant, Policy, Window};
///
/// let policy = Policy::new(Config::resilient(), Window::new());
/// assert_eq!(policy.counts(Instant::ORIGIN).requests, 0);
/// assert_eq!(policy.reject_probability(Instant::ORIGIN), 0.0);
/// ```
pub struct Policy<W = Window> {
    config: Config,
    mode: AtomicU8,
    window: W,
}

impl<W> Policy<W> {
    /// A policy that has counted nothing.
    pub const fn new(config: Config, window: W) -> Self {
        Self { config, mode: AtomicU8::new(config.mode as u8), window }
    }

    /// The configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The memory.
    pub const fn window(&self) -> &W {
        &self.window
    }

    /// What is done with decisions now.
    pub fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Relaxed) {
            0 => Mode::Enforce,
            1 => Mode::Shadow,
            _ => Mode::Off,
        }
    }

    /// Switches what is done with decisions, for every call from its next step on.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }
}

impl<W: Tally> Policy<W> {
    /// What the window holds now. Reading expires what has left it.
    pub fn counts(&self, now: Instant) -> Counts {
        let second = now.second();
        let counts = self.window.counts(second);
        match self.config.grace {
            0 => counts,
            grace => Counts { in_flight: self.window.in_flight(second, grace), ..counts },
        }
    }

    /// The probability that an attempt made now would be refused, in 0 to 1.
    pub fn reject_probability(&self, now: Instant) -> f64 {
        self.reject_probability_of(self.counts(now))
    }

    /// The probability that these counts stand for under this configuration, in 0 to 1.
    pub fn reject_probability_of(&self, counts: Counts) -> f64 {
        match self.config.k {
            Some(k) if counts.judged() >= self.config.min_requests => {
                throttle::reject_probability(counts.judged(), counts.accepts, k)
            }
            _ => 0.0,
        }
    }
}

impl<W> fmt::Debug for Policy<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("config", &self.config).field("mode", &self.mode()).finish_non_exhaustive()
    }
}
