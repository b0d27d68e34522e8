//! The integer decisions against the doubles of the specification: a hundred million states, most of them where rounding
//! decides.

use core::ops::AddAssign;
use std::process::ExitCode;
use std::thread;

use forbear::budget::{self, RetryRatio};
use forbear::rand_core::{Rng, SeedableRng};
use forbear::throttle::{self, K};
use forbear_conformance::{oracle, part_of};
use libtest_mimic::{Arguments, Failed, Trial};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

fn main() -> ExitCode {
    let trials = vec![
        Trial::test("the_throttle_decides_as_doubles", || on_two_threads("throttle", 6_500_000, throttle_round)),
        Trial::test("the_budget_decides_as_doubles", || on_two_threads("budget", 10_000_000, budget_round)),
    ];
    // One after the other: each has its threads.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// How many states were compared, and how often the answer was yes.
#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    states: u64,
    yes: u64,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        self.states += other.states;
        self.yes += other.yes;
    }
}

type Round = fn(&mut Random, &mut Compared) -> Result<(), String>;

fn on_two_threads(what: &str, rounds: u64, round: Round) -> Result<(), Failed> {
    let run = |seed| {
        move || {
            let (mut random, mut compared) = (Random::seed_from_u64(seed), Compared::default());
            for _ in 0..part_of(rounds) / 2 {
                round(&mut random, &mut compared)?;
            }
            Ok::<_, String>(compared)
        }
    };
    let mut all = Compared::default();
    for thread in [1, 2].map(|seed| thread::spawn(run(seed))) {
        all += thread.join().map_err(|_| "a thread panicked")??;
    }
    println!("{what}: {} states compared, {} of them decided with yes", all.states, all.yes);
    if all.yes < all.states / 10 || all.yes > all.states / 10 * 9 {
        return Err("one answer is hardly tested".into());
    }
    Ok(())
}

/// A count: small, middling, any, or a power of two.
fn count(random: &mut Random) -> u32 {
    let bits = random.next_u64();
    let number = (bits >> 32) as u32;
    match bits % 4 {
        0 => number % 300,
        1 => number % 100_000,
        2 => number,
        _ => 1 << (number % 32),
    }
}

/// A factor: often one of `usual`, a dyadic number, a round decimal, or any finite one by its bits.
fn factor(random: &mut Random, usual: &[f64]) -> f64 {
    let bits = random.next_u64();
    let number = bits >> 32;
    match bits % 8 {
        0..=2 => usual[number as usize % usual.len()],
        3 => (number % (1 << 20)) as f64 * 2f64.powi(-((bits >> 8) as i32 & 15)),
        4 => (number % 1_000) as f64 / 1_000.0,
        5 => (number % 100) as f64 / 10.0,
        // Any mantissa at a size that matters.
        6 => f64::from_bits(random.next_u64() >> 12 | (1_023 - 32 + number % 64) << 52),
        _ => Some(f64::from_bits(random.next_u64() >> 1)).filter(|any| any.is_finite()).unwrap_or(f64::MAX),
    }
}

const KS: [f64; 16] = [
    2.0,
    1.1,
    1.5,
    1.0,
    0.1,
    0.7,
    3.3,
    8.0,
    0.0,
    1e-9,
    1e-14,
    5e-324,
    1e300,
    1.000_000_000_000_000_2,
    1.999_999_999_999_999_8,
    0.6,
];

fn throttle_round(random: &mut Random, compared: &mut Compared) -> Result<(), String> {
    let k = factor(random, &KS);
    let valid = K::new(k).ok_or_else(|| format!("{k} is refused"))?;
    let requests = count(random);
    let bits = random.next_u64();
    // Accepts that leave p above 0 are below requests / k: beside it, a part of it, or any.
    let most = (f64::from(requests) / k) as u32;
    let accepts = match bits % 4 {
        0 => most.saturating_add((bits >> 8) as u32 % 5).saturating_sub(2),
        1..=2 => (f64::from(most) * ((bits >> 12) % 1_000) as f64 / 1_000.0) as u32,
        _ => count(random),
    };
    let p = oracle::reject_probability(requests, accepts, k);
    let beside = (p * (1u64 << 53) as f64) as u64;
    let draws = [-2, -1, 0, 1, 2].map(|step| beside.wrapping_add_signed(step));
    for draw in draws.into_iter().chain([random.next_u64() >> 11, 0, 1, (1 << 53) - 1]) {
        if draw >= 1 << 53 {
            continue;
        }
        // The lower bits of a generator's number have no say.
        let draw = draw << 11 | bits >> 53;
        let (is, expected) =
            (throttle::rejects(requests, accepts, valid, draw), oracle::rejects(requests, accepts, k, draw));
        if is != expected {
            return Err(format!("{requests} requests, {accepts} accepts, k {k:e}, draw {draw:#x}: {is}"));
        }
        compared.states += 1;
        compared.yes += u64::from(is);
    }
    Ok(())
}

const RATIOS: [f64; 12] = [0.1, 0.1, 0.6, 0.35, 0.15, 0.2, 1.0, 0.0, 5e-324, 1e-10, 3.0, 0.7];

fn budget_round(random: &mut Random, compared: &mut Compared) -> Result<(), String> {
    let ratio = factor(random, &RATIOS);
    let valid = RetryRatio::new(ratio).ok_or_else(|| format!("{ratio} is refused"))?;
    let requests = count(random);
    let beside = (ratio * f64::from(requests)) as u32;
    for retries in [beside.saturating_sub(1), beside, beside.saturating_add(1), count(random), 0] {
        let (is, expected) =
            (budget::allows_retry(retries, requests, valid), oracle::allows_retry(retries, requests, ratio));
        if is != expected {
            return Err(format!("{retries} retries, {requests} requests, ratio {ratio:e}: {is}"));
        }
        compared.states += 1;
        compared.yes += u64::from(is);
    }
    Ok(())
}
