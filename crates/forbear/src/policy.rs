//! A policy: a configuration, the memory it decides by, and a switch. What all calls of one client share.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::clock::Instant;
use crate::config::{Config, Mode};
use crate::counts::{Counts, Tally};
use crate::settings::Settings;
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
pub struct Policy<W = Window, S = Config> {
    settings: S,
    /// The mode that it was switched to, or [`AS_CONFIGURED`].
    switched: AtomicU8,
    window: W,
}

/// Not switched yet; beside the modes as numbers.
const AS_CONFIGURED: u8 = u8::MAX;

impl<W, S> Policy<W, S> {
    /// A policy that has counted nothing.
    pub const fn new(settings: S, window: W) -> Self {
        Self { settings, switched: AtomicU8::new(AS_CONFIGURED), window }
    }

    /// The memory.
    pub const fn window(&self) -> &W {
        &self.window
    }

    /// Switches what is done with decisions, for every call from its next step on.
    pub fn set_mode(&self, mode: Mode) {
        self.switched.store(mode as u8, Ordering::Relaxed);
    }
}

impl<W, S: Settings> Policy<W, S> {
    /// The configuration.
    #[inline]
    pub fn config(&self) -> &Config {
        self.settings.config()
    }

    /// What is done with decisions now.
    #[inline]
    pub fn mode(&self) -> Mode {
        match self.switched.load(Ordering::Relaxed) {
            0 => Mode::Enforce,
            1 => Mode::Shadow,
            2 => Mode::Off,
            _ => self.config().mode,
        }
    }
}

impl<W: Tally, S: Settings> Policy<W, S> {
    /// What the window holds now. Reading expires what has left it.
    pub fn counts(&self, now: Instant) -> Counts {
        let second = now.second();
        let counts = self.window.counts(second);
        match self.config().grace {
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
        match self.config().k {
            Some(k) if counts.judged() >= self.config().min_requests => {
                throttle::reject_probability(counts.judged(), counts.accepts, k)
            }
            _ => 0.0,
        }
    }
}

impl<W, S: Settings> fmt::Debug for Policy<W, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("config", self.config()).field("mode", &self.mode()).finish_non_exhaustive()
    }
}
