//! Says of calls that ended in every way how they did, in defmt and in plain text: `DEFMT | TEXT`, a line each.
#![no_std]
#![no_main]

use core::fmt::{Display, Write as _};
use core::time::Duration;

use cortex_m_rt::entry;
use cortex_m_semihosting::debug;
use defmt_semihosting as _;
use forbear_embassy::forbear::testing::ScriptedRng;
use forbear_embassy::forbear::{Call, Config, ConfigBuilder, Error, Instant, Mode, Policy, Reply, Step, Window};
use forbear_embassy::seed;
use heapless::String;
use panic_semihosting as _;

/// Both ways to say the same.
fn say(what: &(impl Display + defmt::Format)) {
    let mut text = String::<256>::new();
    write!(text, "{what}").expect("a sentence fits");
    defmt::println!("{} | {=str}", what, text.as_str());
}

/// What comes back from an attempt, and how it is classified; `None` where it is cut.
type Answer = Option<Result<Reply, Reply>>;

/// So many calls whose attempts have these answers: how the last of them ended.
fn ends(change: fn(ConfigBuilder) -> ConfigBuilder, mode: Mode, calls: u32, answers: &[Answer]) {
    let builder = change(Config::overload().to_builder().k(1.5));
    let policy = Policy::new(builder.build().expect("a valid configuration"), Window::new());
    policy.set_mode(mode);
    // Every second draw is the lowest there is.
    let draws = [u64::MAX, 0];
    let mut said = None;
    for call in 0..calls {
        let mut rng = ScriptedRng::new(&draws[usize::from(call + 1 == calls)..]);
        let (mut call, mut last, mut answers) = (Call::new(&policy), None, answers.iter());
        let report = loop {
            match call.next(Instant::ORIGIN, &mut rng) {
                Step::Send { .. } => {
                    let Some(answer) = answers.next() else { break call.abandon() };
                    let reply = answer.map_or(Reply::UNREACHABLE, |answer| answer.unwrap_or_else(|reply| reply));
                    call.reply(Instant::ORIGIN, reply);
                    last = answer.map(|answer| answer.map(|_| ()).map_err(|_| "503"));
                }
                Step::Wait(_) => {}
                Step::Done(report) => break report,
            }
        };
        said = Some((report, last));
    }
    let Some((report, last)) = said else { return };
    say(&report);
    match report.resolve(last) {
        Ok(()) => {}
        Err(Error::Refused(refused)) => say(&refused),
        Err(error) => say(&error),
    }
}

fn refused(builder: ConfigBuilder) {
    say(&builder.build().expect_err("not a valid configuration"));
}

#[entry]
fn main() -> ! {
    const OK: Answer = Some(Ok(Reply::ACCEPTED));
    const DOWN: Answer = Some(Err(Reply::OVERLOADED));
    const WRONG: Answer = Some(Err(Reply::PERMANENT));
    let same: fn(ConfigBuilder) -> ConfigBuilder = |builder| builder;
    let freely: fn(ConfigBuilder) -> ConfigBuilder = |builder| builder.no_budget().no_throttle();

    ends(same, Mode::Enforce, 1, &[OK]);
    ends(freely, Mode::Enforce, 1, &[DOWN, OK]);
    ends(same, Mode::Enforce, 1, &[WRONG]);
    ends(freely, Mode::Enforce, 1, &[DOWN, WRONG]);
    ends(same, Mode::Enforce, 1, &[Some(Err(Reply::OVERLOADED.once()))]);
    ends(|builder| builder.max_attempts(1), Mode::Enforce, 1, &[DOWN]);
    ends(freely, Mode::Enforce, 1, &[DOWN, DOWN, DOWN]);
    ends(freely, Mode::Enforce, 1, &[None, None, None]);
    // One retry is allowed, the next is not.
    ends(|builder| builder.no_throttle(), Mode::Enforce, 2, &[DOWN, DOWN]);
    ends(same, Mode::Enforce, 5, &[DOWN, DOWN]);
    ends(same, Mode::Shadow, 5, &[DOWN, DOWN, DOWN]);
    ends(|builder| builder.no_throttle(), Mode::Shadow, 2, &[DOWN, OK]);
    ends(|builder| builder.no_throttle(), Mode::Shadow, 2, &[DOWN, DOWN, WRONG]);
    ends(same, Mode::Enforce, 1, &[]);
    let later =
        |builder: ConfigBuilder| builder.max_retry_after(Duration::from_secs(1)).deadline(Duration::from_secs(1));
    ends(later, Mode::Enforce, 1, &[Some(Err(Reply::OVERLOADED.after(Duration::from_millis(1_001))))]);
    let late = |builder: ConfigBuilder| builder.deadline(Duration::from_secs(1));
    ends(late, Mode::Enforce, 1, &[Some(Err(Reply::OVERLOADED.after(Duration::from_secs(2))))]);

    // One that waits is in the way of the next.
    let policy = Policy::new(Config::retrying().to_builder().retry_ratio(0.1).build().expect("valid"), Window::new());
    let mut waits = Call::new(&policy);
    let mut rng = ScriptedRng::new(&[u64::MAX]);
    let mut spent = Call::new(&policy);
    for call in [&mut waits, &mut spent] {
        while let Step::Send { .. } = call.next(Instant::ORIGIN, &mut rng) {
            call.reply(Instant::ORIGIN, Reply::OVERLOADED);
        }
    }
    say(&spent.abandon());
    say(&Call::new(&policy).abandon());

    let builder = Config::resilient().to_builder();
    refused(builder.k(-1.5));
    refused(builder.max_attempts(0));
    refused(builder.deadline(Duration::ZERO));
    refused(builder.in_flight_grace(Duration::from_secs(8)));
    refused(builder.attempt_timeout(Duration::from_millis(500)).in_flight_grace(Duration::from_millis(800)));
    say(&seed(&[], 0).expect_err("not an id"));
    debug::exit(debug::EXIT_SUCCESS);
    loop {}
}
