//! Random runs of the core beside the oracle.

use forbear::rand_core::{Rng, SeedableRng};
use forbear_conformance::{exercise, part_of};

/// xoshiro256++ stands for the bytes that a fuzzer would choose.
use rand_xoshiro::Xoshiro256PlusPlus as Random;

/// Runs `exercise` with as many random byte strings, up to `longest` bytes each.
fn randomly(exercise: fn(&[u8]), runs: u64, longest: usize) {
    for run in 0..part_of(runs) {
        let named = Named(run);
        let mut random = Random::seed_from_u64(run);
        let mut bytes = vec![0; random.next_u64() as usize % longest];
        random.fill_bytes(&mut bytes);
        exercise(&bytes);
        drop(named);
    }
}

/// Names the run that failed.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the run of seed {}", self.0);
        }
    }
}

#[test]
fn windows_count_as_the_oracle() {
    randomly(exercise::window, 8_000, 2_000);
}

#[test]
fn lock_free_windows_count_as_the_oracle_and_as_plain_ones() {
    randomly(exercise::atomic_window, 8_000, 2_000);
}

#[test]
fn calls_go_as_the_transcription() {
    randomly(exercise::combined, 20_000, 2_000);
}

#[test]
fn overload_clients_call_as_the_specification() {
    randomly(exercise::overload_client, 8_000, 2_000);
}

#[test]
fn retrying_clients_call_as_the_specification() {
    randomly(exercise::retrying_client, 20_000, 2_000);
}

#[test]
fn configurations_are_refused_or_usable() {
    randomly(exercise::config, 100_000, 400);
}
