//! The core's decision on a fixed clock, over both windows: at rest, at the turn of a second, after a year.

use core::hint::black_box;
use core::mem;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant as Stopwatch;

use criterion::Bencher;
use forbear::{AtomicWindow, Call, Config, Instant, Policy, Reply, Step, Tally, Window};
use forbear_benches::{Bench, Case, Chain, Figure, Row};
use forbear_std::ThreadRng;
use tower::retry::budget::{Budget, TpsBudget};

/// The second that the fixed clock shows.
const NOW: u64 = 4_000;

/// How many begins are timed together, between which the answers are told.
const BATCH: u64 = 1_000;

/// A healthy history: an accepted request in every one of as many seconds as the longest window has.
fn healthy<W: Tally>(window: W) -> Policy<W> {
    for second in NOW - 3_599..=NOW {
        window.answer(window.request(second), second, true);
    }
    Policy::new(Config::overload(), window)
}

fn begin<W: Tally>(policy: &Policy<W>, now: Instant) {
    let mut call = Call::new(policy);
    let Step::Send { .. } = call.next(black_box(now), &mut ThreadRng) else { panic!("p is 0") };
    // A call that ends here has nothing to settle: what becomes of it is not the begin's.
    mem::forget(call);
}

fn ok_call<W: Tally>(policy: &Policy<W>, now: Instant) {
    let now = black_box(now);
    let mut call = Call::new(policy);
    let Step::Send { .. } = call.next(now, &mut ThreadRng) else { panic!("p is 0") };
    call.reply(now, black_box(Reply::ACCEPTED));
    let Step::Done(_) = call.next(now, &mut ThreadRng) else { panic!("an accept ends the call") };
}

/// Times the begins alone; the accepts that keep the window healthy are counted between them.
fn begins<'c, W: Tally + 'c>(what: &'c str, window: W) -> Case<'c> {
    let policy = healthy(window);
    // Enough accepts that a batch of requests without an answer does not raise p above 0.
    for _ in 0..BATCH {
        policy.window().answer(policy.window().request(NOW), NOW, true);
    }
    Case::new(what, move |bencher| {
        bencher.iter_custom(|calls| {
            let now = Instant::from_secs(NOW);
            let mut spent = Duration::ZERO;
            for start in (0..calls).step_by(BATCH as usize) {
                let batch = BATCH.min(calls - start);
                let stopwatch = Stopwatch::now();
                for _ in 0..batch {
                    begin(&policy, now);
                }
                spent += stopwatch.elapsed();
                for _ in 0..batch {
                    policy.window().answer(NOW, NOW, true);
                }
            }
            spent
        });
    })
}

fn ok_calls<'c, W: Tally + 'c>(what: &'c str, window: W) -> Case<'c> {
    let policy = healthy(window);
    Case::new(what, move |bencher| bencher.iter(|| ok_call(&policy, Instant::from_secs(NOW))))
}

/// Every call is the first of its second, and the window has a call in each.
fn turns<'c, W: Tally + 'c>(what: &'c str, window: W) -> Case<'c> {
    let policy = healthy(window);
    let mut second = NOW;
    Case::new(what, move |bencher| {
        bencher.iter(|| {
            second += 1;
            ok_call(&policy, Instant::from_secs(second));
        });
    })
}

const YEAR: u64 = 365 * 86_400;

/// Every begin is the first after 365 days. The atomic window knows a thousand years, so it is a new one in time.
fn idle<'c, W: Tally + 'c>(what: &'c str, window: impl Fn() -> W + 'c) -> Case<'c> {
    const YEARS: u64 = 500;
    Case::new(what, move |bencher| {
        bencher.iter_custom(|calls| {
            let mut spent = Duration::ZERO;
            for start in (0..calls).step_by(YEARS as usize) {
                let policy = Policy::new(Config::overload(), window());
                begin(&policy, Instant::from_secs(NOW));
                let years = 1..=YEARS.min(calls - start);
                let stopwatch = Stopwatch::now();
                for year in years {
                    begin(&policy, Instant::from_secs(NOW + year * YEAR));
                }
                spent += stopwatch.elapsed();
            }
            spent
        });
    })
}

fn fetch_add() -> Case<'static> {
    let counter = AtomicU64::new(0);
    Case::new("AtomicU64::fetch_add", move |bencher: &mut Bencher<'_>| {
        bencher.iter(|| black_box(counter.fetch_add(1, Ordering::AcqRel)));
    })
}

/// Tower's budget after the same year, once, since it takes seconds. Its clock is tokio's, which a test can move.
fn tower_idle(bench: &mut Bench) {
    const DEPOSITS: u32 = 1_000_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let budget = TpsBudget::new(Duration::from_secs(10), 10, 0.1);
    let stopwatch = Stopwatch::now();
    for _ in 0..DEPOSITS {
        budget.deposit();
    }
    let below = stopwatch.elapsed().as_nanos() as f64 / f64::from(DEPOSITS);
    let above = runtime.block_on(async {
        tokio::time::pause();
        let budget = TpsBudget::new(Duration::from_secs(10), 10, 0.1);
        tokio::time::advance(Duration::from_secs(YEAR)).await;
        let stopwatch = Stopwatch::now();
        budget.deposit();
        stopwatch.elapsed().as_nanos() as f64
    });
    bench.report(Row {
        name: "tower_idle_365d_vs_warm".to_owned(),
        above: Figure { case: "tower: the first deposit after 365 days, measured once".to_owned(), median: above },
        below: Figure { case: "tower: TpsBudget::deposit".to_owned(), median: below },
        ratio: above / below,
        at_most: None,
    });
}

fn main() {
    let mut bench = Bench::new("decisions", env!("CARGO_TARGET_TMPDIR"));
    let (plain, atomic) = (Window::new, AtomicWindow::new);

    let chain = Chain::by(fetch_add())
        .at_most(2.0, "plain_begin_vs_fetch_add", begins("Window: begin of an attempt", plain()))
        .at_most(4.0, "atomic_begin_vs_fetch_add", begins("AtomicWindow: begin of an attempt", atomic()))
        .at_most(5.0, "atomic_ok_vs_fetch_add", ok_calls("AtomicWindow: one ok call", atomic()))
        .ratio("plain_ok_vs_fetch_add", ok_calls("Window: one ok call", plain()));
    bench.chain("fetch_add", chain);

    let long = AtomicWindow::<3_600>::of_len;
    let chain = Chain::by(ok_calls("AtomicWindow: one ok call", atomic()))
        .at_most(1.2, "n3600_vs_n120", ok_calls("AtomicWindow of 3600: one ok call", long()))
        .ratio("turn_n120_vs_warm", turns("AtomicWindow: the first ok call of a second", atomic()))
        .ratio("turn_n3600_vs_warm", turns("AtomicWindow of 3600: the first ok call of a second", long()));
    bench.chain("atomic", chain);
    let chain = Chain::by(begins("AtomicWindow: begin of an attempt", atomic())).at_most(
        100.0,
        "idle_365d_vs_warm",
        idle("AtomicWindow: the first begin after 365 days", atomic),
    );
    bench.chain("atomic idle", chain);

    let long = Window::<3_600>::of_len;
    let chain = Chain::by(ok_calls("Window: one ok call", plain()))
        .at_most(1.2, "plain_n3600_vs_n120", ok_calls("Window of 3600: one ok call", long()))
        .ratio("plain_turn_n120_vs_warm", turns("Window: the first ok call of a second", plain()))
        .ratio("plain_turn_n3600_vs_warm", turns("Window of 3600: the first ok call of a second", long()));
    bench.chain("plain", chain);
    let chain = Chain::by(begins("Window: begin of an attempt", plain())).at_most(
        100.0,
        "plain_idle_365d_vs_warm",
        idle("Window: the first begin after 365 days", plain),
    );
    bench.chain("plain idle", chain);

    // Last: from here on tokio's clock stands still in this process.
    if bench.measures() {
        tower_idle(&mut bench);
    }
}
