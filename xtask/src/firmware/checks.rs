//! What must hold of a run: what the server received, against what the firmware reported.
//!
//! Every check is a property of all runs. The throttle draws at random; the limits that depend on its draws are far from
//! what it does and from what a client without one does.

use core::time::Duration;
use std::collections::HashMap;

use super::cloud::Arrival;
use super::report::{Call, Phase, Report};

/// One run from both ends.
pub(crate) struct Run {
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) report: Report,
}

/// What a check found: a sentence with its numbers, as `Ok` where it is as it should be.
pub(crate) type Finding = Result<String, String>;

/// A check, and the question that it answers.
pub(crate) type Check = (&'static str, fn(&Run) -> Finding);

pub(crate) const CHECKS: [Check; 8] = [
    ("every attempt that the firmware counted arrived, and no other", attempts_arrive),
    ("a healthy server gets one attempt a call", healthy_is_undisturbed),
    ("no call has more attempts than allowed", attempts_are_bounded),
    ("retries stay within the budget", budget_holds),
    ("an overloaded or silent server is spared most requests", throttle_holds),
    ("no retry comes before the server's Retry-After", retry_after_is_kept),
    ("the firmware's window holds what arrived", window_is_right),
    ("calls succeed again once the server does", recovers),
];

/// The share of an overloaded server's requests that may reach it. The formula lets through about 40 % in this scenario.
const SENT_WHILE_OVERLOADED: f64 = 0.6;

/// The share for a silent one, which the formula expects to be about 10 %.
const SENT_WHILE_SILENT: f64 = 0.5;

/// How much shorter than its length a window may look to the host: it begins with a second, and the report comes late.
const WINDOW_SLACK: Duration = Duration::from_secs(2);

/// How many calls at the end of the last phase must all succeed.
const LAST_CALLS: usize = 20;

impl Run {
    fn arrivals(&self, phase: &str) -> impl Iterator<Item = &Arrival> {
        self.arrivals.iter().filter(move |arrival| arrival.phase == phase)
    }

    fn calls(&self, phase: &str) -> impl DoubleEndedIterator<Item = &Call> {
        self.report.calls.iter().filter(move |call| call.phase == phase)
    }

    fn phase(&self, name: &str) -> Result<&Phase, String> {
        self.report.phases.iter().find(|phase| phase.phase == name).ok_or_else(|| format!("no phase {name}"))
    }
}

fn attempts_arrive(run: &Run) -> Finding {
    if !run.report.done {
        return Err("the firmware did not say that it was done".to_owned());
    }
    let mut arrived: HashMap<(&str, u64, u64), Vec<u64>> = HashMap::new();
    for arrival in &run.arrivals {
        arrived.entry((&arrival.phase, arrival.sensor, arrival.call)).or_default().push(arrival.attempt);
    }
    for call in &run.report.calls {
        let attempts = arrived.remove(&(&call.phase, call.sensor, call.call)).unwrap_or_default();
        if !attempts.iter().copied().eq(0..call.attempts) {
            return Err(format!("of {call:?} the server received the attempts {attempts:?}"));
        }
    }
    if let Some((call, attempts)) = arrived.into_iter().next() {
        return Err(format!("the server received {attempts:?} of a call {call:?} that was not reported"));
    }
    for phase in &run.report.phases {
        let (calls, arrivals) = (run.calls(&phase.phase).count() as u64, run.arrivals(&phase.phase).count() as u64);
        if (phase.calls, phase.attempts) != (calls, arrivals) {
            return Err(format!("{phase:?}, of {calls} calls with {arrivals} arrivals"));
        }
    }
    Ok(format!("{} attempts in {} calls", run.arrivals.len(), run.report.calls.len()))
}

fn healthy_is_undisturbed(run: &Run) -> Finding {
    let phase = run.phase("healthy")?;
    let &Phase { calls, attempts, requests, accepts, retries, .. } = phase;
    let found = format!(
        "{calls} calls, {attempts} attempts; counted are {requests} requests, {accepts} accepts, {retries} retries"
    );
    let all_one = [attempts, requests, accepts].iter().all(|&count| count == calls);
    if all_one && retries == 0 && calls > 0 { Ok(found) } else { Err(found) }
}

fn attempts_are_bounded(run: &Run) -> Finding {
    let allowed = run.report.max_attempts;
    let most = run.report.calls.iter().map(|call| call.attempts).max().unwrap_or(0);
    // A run in which no call came to the limit would show nothing.
    let spent: Vec<_> = run.report.calls.iter().filter(|call| call.stop == "attempts_spent").collect();
    let found = format!("at most {most} attempts, allowed are {allowed}; {} calls spent all of theirs", spent.len());
    let all_spent = !spent.is_empty() && spent.iter().all(|call| call.attempts == allowed);
    if most == allowed && all_spent { Ok(found) } else { Err(found) }
}

/// At each retry: those within the window against the share of all requests that the firmware can have made by then.
///
/// Both are taken in the firmware's favour: a window is up to one second shorter than its length, and the requests are not
/// only those of the window. Retries that the throttle refused never arrive, and leave less for those that do.
fn budget_holds(run: &Run) -> Finding {
    let window = run.report.window.saturating_sub(Duration::from_secs(1));
    let mut retries = Vec::new();
    let mut tightest = (f64::INFINITY, "no retry came".to_owned());
    for arrival in run.arrivals.iter().filter(|arrival| arrival.attempt > 0) {
        retries.push(arrival.at);
        let recent = retries.iter().filter(|&&at| arrival.at.duration_since(at) < window).count() as f64;
        let requests = arrival.begun + retries.len() as u64;
        let allowed = run.report.retry_ratio * requests as f64 + 1.0;
        let found = format!("{recent} retries within the window where {requests} requests allow {allowed:.1}");
        if recent > allowed {
            return Err(found);
        }
        if allowed - recent < tightest.0 {
            tightest = (allowed - recent, found);
        }
    }
    if retries.is_empty() {
        Err(tightest.1)
    } else {
        Ok(format!("{} retries; at the tightest {}", retries.len(), tightest.1))
    }
}

/// At the end of each phase, as far as the host can tell what was within the window then: at least what arrived so shortly
/// before that it must be, and no more than there ever was. An attempt that the throttle refused is a request too, and
/// never arrives.
fn window_is_right(run: &Run) -> Finding {
    let surely = run.report.window.saturating_sub(WINDOW_SLACK);
    let mut found = Vec::new();
    for phase in &run.report.phases {
        let over = run.report.phases.iter().take_while(|other| other.at <= phase.at);
        let throttled = |from: u64| {
            let is_one = |call: &Call| call.stop == "throttled" && call.attempts >= from;
            over.clone().flat_map(|phase| run.calls(&phase.phase)).filter(|call| is_one(call)).count()
        };
        let holds = |what, counted: u64, is_one: fn(&Arrival) -> bool, refused: usize| {
            let arrived = run.arrivals.iter().filter(|arrival| arrival.at <= phase.at && is_one(arrival));
            let least = arrived.clone().filter(|arrival| phase.at.duration_since(arrival.at) < surely).count();
            let most = arrived.count() + refused;
            let finding = format!("{}, {counted} {what} of {least} to {most}", phase.phase);
            if (least as u64..=most as u64).contains(&counted) { Ok(finding) } else { Err(finding) }
        };
        holds("requests", phase.requests, |_| true, throttled(0))?;
        holds("accepts", phase.accepts, |arrival| arrival.accepted, 0)?;
        found.push(holds("retries", phase.retries, |arrival| arrival.attempt > 0, throttled(1))?);
    }
    Ok(found.join("; "))
}

fn throttle_holds(run: &Run) -> Finding {
    let mut found = Vec::new();
    for (name, limit) in [("overloaded", SENT_WHILE_OVERLOADED), ("silent", SENT_WHILE_SILENT)] {
        let calls = run.phase(name)?.calls;
        let sent = run.arrivals(name).count();
        let throttled = run.calls(name).filter(|call| call.stop == "throttled").count();
        let finding = format!("{name}: {sent} sent in {calls} calls, {throttled} throttled");
        if sent == 0 || throttled == 0 || sent as f64 > limit * calls as f64 {
            return Err(finding);
        }
        found.push(finding);
    }
    Ok(found.join("; "))
}

/// The host sees the answer leave and the retry come, so it can only tell that a retry is not early; that the wait is no
/// longer than asked either is a question for the firmware's clock: but for the tick that it is rounded up by, and one that
/// may begin between the answer and the decision.
fn retry_after_is_kept(run: &Run) -> Finding {
    let mut kept = 0;
    let mut shortest = Duration::MAX;
    for asked in &run.arrivals {
        let Some((wait, answered)) = asked.wait else { continue };
        let is_next = |next: &&Arrival| {
            (&next.phase, next.sensor, next.call) == (&asked.phase, asked.sensor, asked.call)
                && next.attempt == asked.attempt + 1
        };
        let Some(next) = run.arrivals.iter().find(is_next) else { continue };
        let waited = next.at.duration_since(answered);
        if waited < wait {
            return Err(format!("{wait:?} asked, and the retry came after {waited:?}: {next:?}"));
        }
        kept += 1;
        shortest = shortest.min(waited);
    }
    if let Some(wait) =
        run.report.waits.iter().find(|wait| !(wait.asked..=wait.asked + 2 * run.report.tick).contains(&wait.waited))
    {
        return Err(format!("by the firmware's clock: {wait:?}"));
    }
    if kept == 0 {
        return Err("no retry came after a Retry-After".to_owned());
    }
    let found =
        format!("{kept} retries, the soonest after {shortest:?}; the firmware reports {}", run.report.waits.len());
    if kept == run.report.waits.len() { Ok(found) } else { Err(found) }
}

fn recovers(run: &Run) -> Finding {
    let last: Vec<_> = run.calls("recovered").rev().take(LAST_CALLS).collect();
    let accepted = last.iter().filter(|call| call.stop == "accepted").count();
    let found = format!("{accepted} of the last {LAST_CALLS} calls were accepted");
    if accepted == LAST_CALLS { Ok(found) } else { Err(found) }
}
