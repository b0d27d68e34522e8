//! Two and four threads on one client, beside as many on one budget of tower's.

use core::hint::black_box;
use core::time::Duration;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use forbear_benches::{Bench, Case, Chain};
use forbear_std::{Client, Config, Reply};
use tower::retry::budget::{Budget, TpsBudget};

/// `threads` threads that each do as many calls: from the start of the first to the end of the last.
fn contended<'c, F: FnMut() + Send + 'static>(what: &'c str, threads: usize, caller: impl Fn() -> F + 'c) -> Case<'c> {
    Case::new(what, move |bencher| {
        bencher.iter_custom(|calls| {
            let barrier = Arc::new(Barrier::new(threads));
            let threads = (0..threads).map(|_| {
                let (barrier, mut call) = (barrier.clone(), caller());
                thread::spawn(move || {
                    barrier.wait();
                    let began = Instant::now();
                    for _ in 0..calls {
                        call();
                    }
                    (began, Instant::now())
                })
            });
            let threads: Vec<_> = threads.collect();
            let spans: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("nobody panics")).collect();
            let first = spans.iter().map(|span| span.0).min();
            let last = spans.iter().map(|span| span.1).max();
            first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first)
        });
    })
}

fn ok_calls(what: &str, threads: usize, config: Config) -> Case<'_> {
    let client = Client::new(config);
    contended(what, threads, move || {
        let client = client.clone();
        move || {
            let classify = |result: &Result<u32, u32>| match result {
                Ok(_) => Reply::ACCEPTED,
                Err(_) => Reply::OVERLOADED,
            };
            let _ = black_box(client.call(|| Ok(black_box(1)), classify));
        }
    })
}

fn deposits(what: &str, threads: usize) -> Case<'_> {
    let budget = Arc::new(TpsBudget::new(Duration::from_secs(10), 10, 0.1));
    contended(what, threads, move || {
        let budget = budget.clone();
        move || budget.deposit()
    })
}

fn main() {
    let mut bench = Bench::new("threads", env!("CARGO_TARGET_TMPDIR"));
    let (overload, resilient) = (Config::overload(), Config::resilient());

    let chain = Chain::by(deposits("tower: TpsBudget::deposit, 2 threads", 2))
        .at_most(0.6, "std_ok_2t_vs_deposit", ok_calls("one ok call, Config::overload(), 2 threads", 2, overload))
        .ratio("std_ok_resilient_2t_vs_deposit", ok_calls("one ok call, Config::resilient(), 2 threads", 2, resilient));
    bench.chain("two", chain);

    let chain = Chain::by(deposits("tower: TpsBudget::deposit, 4 threads", 4))
        .ratio("std_ok_4t_vs_deposit", ok_calls("one ok call, Config::overload(), 4 threads", 4, overload))
        .ratio("std_ok_resilient_4t_vs_deposit", ok_calls("one ok call, Config::resilient(), 4 threads", 4, resilient));
    bench.chain("four", chain);
}
