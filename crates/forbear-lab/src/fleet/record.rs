//! What was seen, second by second, and the figures that follow from it.

use std::ops::Range;

use serde::Serialize;

use super::weather::Weather;

/// One second of a fleet and its backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Second {
    /// Calls that began.
    pub(super) calls: u64,
    /// Sends that reached the backend.
    pub(super) sent: u64,
    /// Sends that the backend served.
    pub(super) accepted: u64,
    /// Calls that ended well.
    pub(super) served: u64,
    /// Calls that ended without a send.
    pub(super) refused: u64,
}

/// All seconds of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    pub(super) seconds: Vec<Second>,
    pub(super) weather: Vec<Weather>,
    /// Attempts that clients decided on, sent or refused.
    pub(super) attempts: u64,
}

/// So many seconds must be good for a recovery.
const GOOD: usize = 5;
/// What part of the calls must be served in them.
const GOOD_SHARE: f64 = 0.95;

impl Record {
    fn sum(&self, seconds: Range<usize>, count: fn(&Second) -> u64) -> f64 {
        let end = seconds.end.min(self.seconds.len());
        self.seconds[seconds.start.min(end)..end].iter().map(|second| count(second) as f64).sum()
    }

    /// `count` in each of `seconds`, as a share of `whole` in it; `None` where that is nothing.
    pub(super) fn share(
        &self,
        seconds: Range<usize>,
        count: fn(&Second) -> u64,
        whole: fn(&Second) -> u64,
    ) -> Option<f64> {
        let whole = self.sum(seconds.clone(), whole);
        (whole > 0.0).then(|| self.sum(seconds, count) / whole)
    }

    /// `count` over those seconds whose weather is `fit`, as a multiple of `of` the weather; `None` where that is nothing.
    pub(super) fn times(
        &self,
        count: fn(&Second) -> u64,
        of: impl Fn(&Second, &Weather) -> f64,
        mut fit: impl FnMut(usize, &Weather) -> bool,
    ) -> Option<f64> {
        let (mut counted, mut whole) = (0.0, 0.0);
        for (i, (second, weather)) in self.seconds.iter().zip(&self.weather).enumerate() {
            if fit(i, weather) {
                counted += count(second) as f64;
                whole += of(second, weather);
            }
        }
        (whole > 0.0).then(|| counted / whole)
    }

    /// Seconds after `end` from which on 95 % of the calls of five seconds are served; `None` where that does not come.
    pub(super) fn recovery(&self, end: usize) -> Option<u32> {
        let good = |from: usize| {
            let calls = self.sum(from..from + GOOD, |s| s.calls);
            calls > 0.0 && self.sum(from..from + GOOD, |s| s.served) >= GOOD_SHARE * calls
        };
        let last = self.seconds.len().checked_sub(GOOD)?;
        (end..=last).find(|from| good(*from)).map(|from| (from - end) as u32)
    }

    /// Whether [`recovery`](Self::recovery) is decided for good: asked after each second.
    pub(super) fn has_recovered(&self, end: usize) -> bool {
        let from = self.seconds.len().saturating_sub(GOOD);
        from >= end && {
            let calls = self.sum(from..from + GOOD, |s| s.calls);
            calls > 0.0 && self.sum(from..from + GOOD, |s| s.served) >= GOOD_SHARE * calls
        }
    }
}

/// The middle of some figures, infinity standing for one that was not reached.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(served: &[u64]) -> Record {
        let seconds = served.iter().map(|&served| Second { calls: 100, served, ..Second::default() }).collect();
        Record { seconds, ..Record::default() }
    }

    #[test]
    fn recovery_needs_five_good_seconds() {
        assert_eq!(of(&[0, 0, 95, 95, 95, 95, 95]).recovery(1), Some(1));
        assert_eq!(of(&[0, 0, 100, 90, 95, 95, 94]).recovery(0), None);
        assert_eq!(of(&[100; 4]).recovery(0), None);
        assert_eq!(of(&[100; 5]).recovery(0), Some(0));
        assert!(of(&[0, 0, 95, 95, 95, 95, 95]).has_recovered(2));
        assert!(!of(&[0, 0, 95, 95, 95, 95, 95]).has_recovered(3));
    }

    #[test]
    fn medians_take_what_was_not_reached_for_the_longest() {
        assert_eq!(median(vec![3.0, f64::INFINITY, 1.0]), 3.0);
        assert_eq!(median(vec![f64::INFINITY, f64::INFINITY, 1.0]), f64::INFINITY);
    }
}
