//! No call allocates: not in the core, nor in the client for threads, however it ends.

use core::fmt::{self, Write};
use core::time::Duration;

use allocation_counter::measure;
use forbear::testing::{ManualClock, ScriptedRng};
use forbear::{
    AtomicWindow, Backoff, Call, Clock, Config, Error, Mode, OverloadClient, Policy, Reply, Report, RetryingClient,
    Sleep, Step, Tally, Window, grpc, http,
};
use forbear_conformance::SharedClock;
use forbear_std::{Client, LockedWindow, SharedWindow, SystemClock, ThreadRng};

/// Fails if `work` allocates.
fn without_allocation(what: &str, work: impl FnOnce()) {
    let counted = measure(work);
    assert_eq!(counted.count_total, 0, "{what} allocates {} bytes", counted.bytes_total);
}

/// Takes text and keeps none of it.
struct Nowhere;

impl Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

const REPLIES: [Reply; 6] = [
    Reply::ACCEPTED,
    Reply::PERMANENT,
    Reply::TRANSIENT,
    Reply::OVERLOADED,
    Reply::UNREACHABLE,
    Reply::OVERLOADED.after(Duration::from_millis(70)),
];

/// Many calls, with draws from one end to the other; returns how many ended in each of the ways that are wanted.
fn calls<W: Tally>(policy: &Policy<W>, clock: &ManualClock) -> [u32; 5] {
    let mut seen = [0; 5];
    for round in 0..2_000u64 {
        policy.set_mode([Mode::Enforce, Mode::Enforce, Mode::Shadow, Mode::Off][round as usize % 4]);
        let draws = [round.wrapping_mul(0x9e37_79b9_7f4a_7c15)];
        let mut rng = ScriptedRng::new(&draws);
        let mut call = Call::new(policy);
        let mut sends = round;
        let report = loop {
            match call.next(clock.now(), &mut rng) {
                Step::Send { .. } => {
                    sends += 1;
                    if round % 11 == 10 {
                        break None;
                    }
                    call.reply(clock.now(), REPLIES[sends as usize / 3 % 6]);
                }
                Step::Wait(wait) => clock.sleep(wait),
                Step::Done(report) => break Some(report),
            }
        };
        clock.advance(Duration::from_millis(33));
        if let Some(report) = report {
            write!(Nowhere, "{report} {}", report.stop.as_str()).unwrap();
            let ways = ["accepted", "throttled", "budget", "attempts_spent", "deadline"];
            if let Some(way) = ways.iter().position(|way| *way == report.stop.as_str()) {
                seen[way] += 1;
            }
        }
    }
    seen
}

#[test]
fn the_core_does_not_allocate() {
    let config = Config::resilient().to_builder().deadline(Duration::from_millis(250)).build().unwrap();
    let mut seen = [0; 5];
    let mut add = |counts: [u32; 5]| seen.iter_mut().zip(counts).for_each(|(seen, count)| *seen += count);
    without_allocation("a call", || {
        let clock = ManualClock::new();
        add(calls(&Policy::new(config, Window::new()), &clock));
        add(calls(&Policy::new(config, Window::<10, u16>::of_len()), &clock));
        add(calls(&Policy::new(config, AtomicWindow::<10>::of_len()), &clock));
        add(calls(&Policy::new(config, ()), &clock));
    });
    assert!(seen.iter().all(|count| *count > 0), "not every way to end was tried: {seen:?}");

    without_allocation("a client", || {
        let clock = ManualClock::new();
        let mut overload = OverloadClient::new(&clock, ScriptedRng::new(&[1 << 63]), Config::overload());
        let mut retrying = RetryingClient::new(&clock, ScriptedRng::new(&[1 << 63]), Config::retrying());
        for round in 0..100 {
            overload.call(|| REPLIES[round % 6]);
            retrying.call(|| REPLIES[round % 6], |reply| *reply);
            clock.advance(Duration::from_millis(300));
        }
    });
    without_allocation("reading a header", || {
        assert!(http::retry_after("120").is_some() && http::retry_after("soon").is_none());
        let _ = grpc::pushback("-1");
    });
}

#[test]
fn a_refused_configuration_does_not_allocate() {
    without_allocation("an error", || {
        let refused = Config::overload().to_builder().k(f64::NAN).build().unwrap_err();
        write!(Nowhere, "{refused}").unwrap();
    });
}

/// Calls in every way, and what an error tells.
fn on_threads<C: Sleep + Clock, W: Tally>(client: &Client<C, ThreadRng, W>) {
    for round in 0..2_000 {
        let mut sends = round;
        let send = || {
            sends += 1;
            match REPLIES[sends / 3 % 6] {
                Reply::ACCEPTED => Ok(()),
                reply => Err(Refusal(reply)),
            }
        };
        let answer = client.call(send, |result| result.as_ref().err().map_or(Reply::ACCEPTED, |Refusal(reply)| *reply));
        if let Err(error) = answer {
            write!(Nowhere, "{error}").unwrap();
            let _ = Error::into_last(error);
        }
        let mut call = client.begin();
        if call.ready() {
            call.reply(Reply::ACCEPTED);
        }
        let _ = call.finish(Some(Ok::<_, ()>(())));
        let _ = client.clone().counts();
    }
}

#[derive(Debug)]
struct Refusal(Reply);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

#[test]
fn the_client_for_threads_does_not_allocate() {
    let quick = Backoff::new(Duration::from_micros(1), Duration::from_micros(1));
    let config = Config::resilient().to_builder().backoff(quick).retry_after_jitter(false).build().unwrap();
    let clock = SharedClock::default();
    let watched = Client::with(clock.clone(), ThreadRng, config, SharedWindow::<120>::of_len())
        .observed(|report: &Report| write!(Nowhere, "{report}").unwrap());
    let locked = Client::with(clock, ThreadRng, config, LockedWindow::<120>::new());
    let real =
        Client::with(SystemClock, ThreadRng, config.to_builder().max_attempts(1).build().unwrap(), SharedWindow::new());
    without_allocation("a call of threads", || {
        on_threads(&watched);
        on_threads(&locked);
        on_threads(&real);
    });
}

#[test]
fn an_allocation_would_be_seen() {
    assert!(measure(|| drop(core::hint::black_box(Box::new(1)))).count_total > 0);
}
