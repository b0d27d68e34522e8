//! What holds whatever happens: one function for each statement, which panics where it does not.
//!
//! The exercises check these beside the comparison with the [oracle](crate::oracle), so that a mistake that both share is
//! found as well.

use core::time::Duration;

use forbear::{Backoff, Config, Counts, Instant, Mode, Reply, Report, Retry, Step, Stop, Tally};

use crate::oracle::told_wait;

/// After an idle window every count of it is zero, whatever the window held; what waits goes on waiting.
pub fn everything_expires(tally: &impl Tally, later: u64) {
    let waiting = tally.counts(later).waiting;
    assert_eq!(tally.counts(later), Counts { waiting, ..Counts::ZERO }, "counts after an idle window");
    assert_eq!(tally.in_flight(later, 7), 0, "in flight after an idle window");
}

/// A step says nothing that the configuration does not allow.
pub fn step_is_within_limits(
    config: &Config,
    begun: Instant,
    now: Instant,
    last: Option<Reply>,
    sent: u32,
    step: &Step,
) {
    let end = config.deadline().map(|deadline| begun.saturating_add(deadline));
    match *step {
        Step::Send { within } => {
            for limit in [config.attempt_timeout(), end.map(|end| end.saturating_since(now))].into_iter().flatten() {
                assert!(
                    within.is_some_and(|within| within <= limit),
                    "an attempt gets {within:?}, more than {limit:?}"
                );
            }
            assert!(sent < config.max_attempts(), "attempt {} of {}", sent + 1, config.max_attempts());
            assert!(last.is_none_or(|reply| reply.retry() != Retry::Never), "sent again after {last:?}");
        }
        Step::Wait(wait) => {
            let retry = last.map(Reply::retry);
            wait_is_within_bounds(config, retry.unwrap_or(Retry::Never), sent, wait);
            assert!(end.is_none_or(|end| now.saturating_add(wait) <= end), "a wait of {wait:?} passes the deadline");
            assert!(sent < config.max_attempts(), "a wait after the last attempt");
        }
        Step::Done(report) => report_is_sound(config, sent, &report),
    }
}

/// A wait is between zero and the cap of the backoff; one that a server asked for is never shortened, and only prolonged
/// where jitter is configured.
fn wait_is_within_bounds(config: &Config, retry: Retry, sent: u32, wait: Duration) {
    let cap = config.backoff().map_or(Duration::ZERO, |backoff| backoff.cap(sent));
    assert!(cap <= config.backoff().map_or(Duration::ZERO, Backoff::max), "a cap above the largest one");
    match retry {
        Retry::Never => panic!("a wait without a reply that may be retried"),
        Retry::Backoff => assert!(wait <= cap, "{wait:?} is above the cap of {cap:?}"),
        Retry::After(told) if config.retry_after_jitter() => {
            let told = told_wait(told);
            assert!(wait >= told, "{wait:?} is shorter than the {told:?} that were asked for");
            let most = told.saturating_add(cap.max(told / 2)).saturating_add(Duration::from_micros(1));
            assert!(wait <= most, "{wait:?} is too long for {told:?}");
        }
        Retry::After(told) => assert_eq!(wait, told_wait(told), "not what was asked for"),
    }
    if let (Retry::After(told), Some(longest)) = (retry, config.max_retry_after()) {
        assert!(told <= longest, "waits {told:?}, longer than {longest:?}");
    }
}

/// A report tells as many attempts as were sent, a probability, a reason that the configuration knows, and what happened
/// in one line.
fn report_is_sound(config: &Config, sent: u32, report: &Report) {
    assert_eq!(report.attempts, sent, "attempts told and sent");
    assert!((0.0..=1.0).contains(&report.reject_probability()), "{report:?}");
    for stop in [Some(report.stop), report.shadow].into_iter().flatten() {
        let known = match stop {
            Stop::Throttled => config.k().is_some(),
            Stop::Budget => config.retry_ratio().is_some(),
            Stop::Deadline => config.deadline().is_some(),
            Stop::RetryAfter => config.max_retry_after().is_some(),
            _ => true,
        };
        assert!(known, "ended by what is not configured: {report:?}");
    }
    assert_eq!(report.is_refused(), sent == 0, "{report:?}");
}

/// How many numbers a step may draw: one for an attempt under a throttle, and one for jitter.
pub fn draws_are_counted(config: &Config, mode: Mode, last: Option<Reply>, step: &Step, drawn: usize) {
    let expected = match *step {
        Step::Send { .. } => usize::from(config.k().is_some() && mode != Mode::Off),
        Step::Wait(_) => match last.map(Reply::retry) {
            Some(Retry::After(_)) => usize::from(config.retry_after_jitter()),
            _ => 1,
        },
        Step::Done(Report { stop: Stop::Throttled, .. }) => 1,
        // One whose wait was drawn and found too long.
        Step::Done(Report { stop: Stop::Deadline, .. }) => drawn.min(1),
        Step::Done(_) => 0,
    };
    assert_eq!(drawn, expected, "draws for {step:?}");
}

/// The retries that wait are those of the calls that wait.
pub fn waiting_is_what_waits(counts: Counts, calls: usize) {
    assert_eq!(counts.waiting as usize, calls, "waiting");
}

/// What is judged is no more than the requests.
pub fn counts_are_sound(counts: Counts) {
    assert!(counts.judged() <= counts.requests, "{counts:?}");
    assert!(counts.in_flight <= counts.requests, "{counts:?}");
}
