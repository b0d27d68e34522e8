//! What a strategy did, second by second, and the figures that are drawn from it.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The counts of one second. All but `served_of_demand` are counted when they happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Second {
    /// Calls that began.
    pub(super) demand: u64,
    /// Of the calls that began in this second, those that were served in the end.
    pub(super) served_of_demand: u64,
    /// Requests that reached the server.
    pub(super) load: u64,
    /// Calls that ended well.
    pub(super) goodput: u64,
    /// Calls that ended without anything sent.
    pub(super) refused: u64,
    /// Requests that repeat an earlier one.
    pub(super) retries: u64,
}

/// Everything about one strategy's run.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    seconds: Vec<Second>,
    /// The second of its end and the time it took, for each call that was served.
    latencies: Vec<(usize, Duration)>,
    /// How late an arrival or a rejection was at worst.
    pub(super) lag: Duration,
    /// Requests that broke before they were answered.
    pub(super) broken: u64,
    /// What the first of them broke by.
    pub(super) first_broken: Option<String>,
}

impl Record {
    /// The counts of the second at `elapsed`.
    pub(super) fn at(&mut self, elapsed: Duration) -> &mut Second {
        let second = elapsed.as_secs() as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        &mut self.seconds[second]
    }

    /// Something happened so long after it was due.
    pub(super) fn late(&mut self, by: Duration) {
        self.lag = self.lag.max(by);
    }

    /// A call that began at `began` was served at `ended`.
    pub(super) fn served(&mut self, began: Duration, ended: Duration) {
        self.at(began).served_of_demand += 1;
        self.at(ended).goodput += 1;
        self.latencies.push((ended.as_secs() as usize, ended.saturating_sub(began)));
    }

    /// Forgets what came after the first `seconds`, and lays out those that nothing happened in.
    pub(super) fn cut(&mut self, seconds: usize) {
        self.seconds.resize(seconds, Second::default());
    }

    pub(super) fn seconds(&self) -> &[Second] {
        &self.seconds
    }

    /// The part of `span` that was recorded.
    fn part(&self, span: Range<usize>) -> &[Second] {
        let end = span.end.min(self.seconds.len());
        self.seconds.get(span.start..end).unwrap_or_default()
    }

    /// All of `span`, `None` where it was cut short.
    fn whole(&self, span: Range<usize>) -> Option<&[Second]> {
        self.seconds.get(span).filter(|seconds| !seconds.is_empty())
    }

    /// The mean a second of one count over `span`, `None` where that was cut short.
    pub(super) fn rate(&self, span: Range<usize>, count: impl Fn(&Second) -> u64) -> Option<f64> {
        self.whole(span).map(|seconds| seconds.iter().map(count).sum::<u64>() as f64 / seconds.len() as f64)
    }

    /// The latency that a share `q` of the served calls in `span` stayed within, `None` where that was cut short.
    pub(super) fn latency(&self, span: Range<usize>, q: f64) -> Option<Duration> {
        self.whole(span.clone())?;
        let mut all: Vec<_> =
            self.latencies.iter().filter(|(second, _)| span.contains(second)).map(|(_, l)| *l).collect();
        all.sort_unstable();
        let rank = (q * all.len() as f64).ceil() as usize;
        all.get(rank.max(1) - 1).copied()
    }

    /// Seconds from the start of `span` until three seconds begin in which at least 95 % of the demand is served.
    pub(super) fn recovery(&self, span: Range<usize>) -> Option<usize> {
        const SUSTAINED: usize = 3;
        self.part(span).windows(SUSTAINED).position(|three| {
            let (demand, served) =
                three.iter().fold((0, 0), |(d, s), second| (d + second.demand, s + second.served_of_demand));
            served * 100 >= demand * 95
        })
    }
}

/// Running totals for whoever watches from another thread.
#[derive(Debug, Default)]
pub(super) struct Live {
    load: AtomicU64,
    goodput: AtomicU64,
}

impl Live {
    pub(super) fn add_load(&self) {
        self.load.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_goodput(&self) {
        self.goodput.fetch_add(1, Ordering::Relaxed);
    }

    /// Load and goodput since the start.
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.load.load(Ordering::Relaxed), self.goodput.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(served: &[u64]) -> Record {
        let seconds =
            served.iter().map(|&served_of_demand| Second { demand: 100, served_of_demand, ..Second::default() });
        Record { seconds: seconds.collect(), ..Record::default() }
    }

    #[test]
    fn recovery_is_where_three_good_seconds_begin() {
        assert_eq!(record(&[0, 0, 100, 100, 100]).recovery(0..5), Some(2));
        assert_eq!(record(&[0, 0, 100, 100, 100]).recovery(1..5), Some(1));
        assert_eq!(record(&[100, 100, 100]).recovery(0..3), Some(0));
    }

    #[test]
    fn a_good_second_alone_is_no_recovery() {
        assert_eq!(record(&[0, 100, 0, 100, 100]).recovery(0..5), None);
        assert_eq!(record(&[94, 94, 96, 94, 94]).recovery(0..5), None);
    }

    #[test]
    fn what_was_cut_short_has_no_figures() {
        let mut record = record(&[7, 9, 11, 100, 100, 100]);
        for ms in 1..=3 {
            record.served(Duration::from_secs(ms), Duration::from_secs(ms));
        }
        record.cut(6);
        assert_eq!(record.rate(0..2, |second| second.demand), Some(100.0));
        assert_eq!(record.latency(0..6, 0.5), Some(Duration::ZERO));
        for unfinished in [0..7, 5..7, 6..7, 7..9, 2..2] {
            assert_eq!(record.rate(unfinished.clone(), |second| second.demand), None, "{unfinished:?}");
            assert_eq!(record.latency(unfinished.clone(), 0.5), None, "{unfinished:?}");
        }
        // A recovery that was seen was one, however long it would have been looked for.
        assert_eq!(record.recovery(1..10), Some(2));
        assert_eq!(record.recovery(5..10), None);
    }

    #[test]
    fn a_latency_is_that_of_a_call() {
        let mut record = Record::default();
        for ms in 1..=100 {
            record.served(Duration::ZERO, Duration::from_millis(ms));
        }
        record.cut(2);
        assert_eq!(record.latency(0..1, 0.5), Some(Duration::from_millis(50)));
        assert_eq!(record.latency(0..1, 0.99), Some(Duration::from_millis(99)));
        assert_eq!(record.latency(1..2, 0.5), None);
    }
}
