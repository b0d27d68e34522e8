//! Any bits as a configuration: refused with a reason, or usable for ever.

use core::time::Duration;

use forbear::{Backoff, Call, Config, Instant, Mode, Policy, Step, Window};

use super::Choices;
use super::calls::{Script, reply};
use crate::invariants;

/// Any bits as a configuration: refused with its field, or what was asked for, and usable.
pub fn config(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (k, ratio) = (f64::from_bits(choices.word()), f64::from_bits(choices.word()));
    let attempts = choices.word() as u32;
    let (min_requests, floor) = (choices.word() as u32, choices.word() as u32);
    let durations: [Duration; 6] = core::array::from_fn(|_| duration(&mut choices));
    let [base, max, deadline, timeout, longest, grace] = durations;
    let preset = choices.of(&[Config::overload(), Config::retrying(), Config::resilient()]);
    let built = preset
        .to_builder()
        .k(k)
        .retry_ratio(ratio)
        .max_attempts(attempts)
        .backoff(Backoff::new(base, max))
        .deadline(deadline)
        .attempt_timeout(timeout)
        .max_retry_after(longest)
        .min_requests(min_requests)
        .retry_floor(floor)
        .in_flight_grace(grace)
        .retry_after_jitter(choices.below(2) == 1)
        .build();
    // Without a word of the grace, any timeout is good.
    match preset.to_builder().attempt_timeout(timeout).build() {
        Ok(config) => {
            assert!(config.in_flight_grace() <= preset.in_flight_grace());
            assert!(config.in_flight_grace().is_none_or(|grace| grace < timeout), "{config:?}");
        }
        Err(error) => assert!(timeout.is_zero() && error.field() == "attempt_timeout", "{error}"),
    }
    let is_factor = |factor: f64| factor.is_finite() && factor >= 0.0;
    let whole_grace = grace.as_secs().saturating_add(u64::from(grace.subsec_nanos() > 0));
    // In the order in which the builder is told.
    let wrong = [
        ("k", !is_factor(k)),
        ("retry_ratio", !is_factor(ratio)),
        ("max_attempts", attempts == 0),
        ("deadline", deadline.is_zero()),
        ("attempt_timeout", timeout.is_zero()),
        ("in_flight_grace", whole_grace == 0 || whole_grace > 7 || Duration::from_secs(whole_grace) >= timeout),
    ];
    let wrong = wrong.into_iter().find(|(_, wrong)| *wrong).map(|(field, _)| field);
    let config = match built {
        Err(error) => {
            assert_eq!(Some(error.field()), wrong);
            let sentence = error.to_string();
            assert!(sentence.starts_with(error.field()) && sentence.ends_with(error.allowed()), "{sentence}");
            return;
        }
        Ok(config) => config,
    };
    assert_eq!(wrong, None, "built all the same");
    assert_eq!((config.k(), config.retry_ratio()), (Some(k.abs()), Some(ratio.abs())));
    assert_eq!((config.max_attempts(), config.min_requests()), (attempts, min_requests));
    use_it(config, choices);
}

/// Any duration, often at an end.
fn duration(choices: &mut Choices<'_>) -> Duration {
    match choices.below(8) {
        0 => Duration::ZERO,
        1 => Duration::MAX,
        2 => Duration::from_nanos(1),
        3 => Duration::from_nanos(choices.word()),
        4 => Duration::from_micros(choices.word()),
        5 => Duration::from_secs(choices.word()),
        6 => Duration::from_millis(u64::from(choices.byte())),
        _ => Duration::from_secs(u64::from(choices.byte() % 10)),
    }
}

/// Calls one after the other, at any time and with any reply: each comes to an end or goes on within its limits.
fn use_it(config: Config, mut choices: Choices<'_>) {
    let policy = Policy::new(config, Window::<10>::of_len());
    let mut now = Instant::ORIGIN;
    while !choices.is_over() {
        policy.set_mode(choices.of(&[Mode::Enforce, Mode::Shadow, Mode::Off]));
        let mut call = Call::new(&policy);
        let (begun, mut last, mut sent) = (now, None, 0);
        while !choices.is_over() {
            let mut draws = Script::new(choices.word());
            let step = call.next(now, &mut draws);
            invariants::step_is_within_limits(&config, begun, now, last, sent, &step);
            invariants::draws_are_counted(&config, policy.mode(), last, &step, draws.drawn());
            match step {
                Step::Send { .. } => {
                    sent += 1;
                    now = now.saturating_add(duration(&mut choices));
                    let reply = reply(&mut choices);
                    call.reply(now, reply);
                    last = Some(reply);
                }
                Step::Wait(wait) => now = now.saturating_add(wait),
                Step::Done(report) => {
                    assert!(!report.to_string().is_empty());
                    break;
                }
            }
        }
        assert!((0.0..=1.0).contains(&policy.reject_probability(now)));
    }
}
