//! The lock-free window under loom: every interleaving of two threads, and those of few preemptions where there are more.
//!
//! `cargo xtask loom` runs the models and lists their executions. Two of two threads come to no end within minutes, and are
//! bounded as those of three are: a whole attempt beside another one of the next second, and beside a reservation there. Each
//! has an exhaustive one beside it in which the other thread does less.
//!
//! Each of them checks what the window holds when all have finished, second by second, and that the runs came to just the
//! outcomes that the race can have: a model that never gets to the race it is about fails.
//!
//! A pass is no proof. Loom takes sequentially consistent accesses for weaker ones (there are none here) and does not
//! let a load see a store that comes later; `tests/stress.rs` runs real threads, also under a thread sanitizer.
//!
//! Each rule of the algorithm was broken once, and these are the models that failed (of several, the smallest):
//!
//! | broken | fails |
//! |---|---|
//! | record: counts into a newer second | `late_writer_recycling`, `late_writer_gap` |
//! | undo: takes out of a newer second | `undo_recycling` |
//! | answer: balances a newer second | `late_answer_recycling` |
//! | answer: an accept from an earlier second is not balanced | `in_flight_answer` |
//! | sum: counts the bucket of another second | `record_record` and most others |
//! | record: a late one starts no generation | `record_roll_over`, `create_roll_over` |
//! | undo: a late one starts no generation | `undo_roll_over`, `undo_sealed_roll_over` |
//! | seconds are added up without a seal | `record_roll_over`, `create_roll_over` |
//! | seconds without a count are not sealed | `create_roll_over`, `retry_reserve`, `retry_retry_reserve` |
//! | a new second has the old generation | `record_roll_over` and most others |
//! | a sum is cached under the newest generation, not its own | `record_roll_over` |
//! | the head is not looked at again after reading | `attempt_recycling`, `attempt_roll_over` |
//! | a reservation has no sequence | `retry_and_reserve_reserve` |
//! | reserve: what waits is read after the sums | `retry_reserve` |
//! | retry: stops waiting before it is counted | `retry_reserve` |
//! | pace: a load and a store instead of an exchange | `extra_extra`, `extra_accepted`, `extra_refused` |
//! | pace: an exchange that failed is not tried again | `extra_extra`, `extra_accepted`, `extra_refused` |
//! | an extra send that is accepted does not get its stake back | `extra_accepted` |
//! | relaxed: the exchange that counts, or that seals | `attempt_recycling` |
//! | relaxed: the exchange of a new second, or a new generation | `undo_sealed_roll_over` |
//! | relaxed: the exchange that reserves | `retry_and_reserve_reserve`, `reserve_reserve` |
//! | relaxed: the exchange that stops waiting | `retry_retry_reserve`, `reserve_reserve` |
#![cfg(loom)]

use core::fmt::Debug;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeSet;
use std::sync::{Arc as Shared, Mutex};

use forbear::testing::ScriptedRng;
use forbear::{AtomicWindow, Call, Config, Counts, Handle, Instant, Policy, Recovery, Reply, Step, Tally, Window};
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

/// Runs `body` under every interleaving, or those of at most so many preemptions, prints how many there were, and checks
/// that they came to just these `outcomes`.
///
/// A body is run both ways round: loom forgets that a thread read a word once another thread has read it too, so what
/// depends on who reads first can be missing from one of the two.
fn model<O: Copy + Debug + Ord + Send + 'static>(
    name: &'static str,
    preemptions: Option<usize>,
    outcomes: &[O],
    body: impl Fn(bool) -> O + Copy + Send + Sync + 'static,
) {
    let executions = Shared::new(AtomicU64::new(0));
    let seen = Shared::new(Mutex::new(BTreeSet::new()));
    for swapped in [false, true] {
        let (executions, seen) = (executions.clone(), seen.clone());
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions;
        builder.check(move || {
            executions.fetch_add(1, Relaxed);
            let outcome = body(swapped);
            seen.lock().unwrap().insert(outcome);
        });
    }
    let bound = preemptions.map_or(String::new(), |most| format!(" (at most {most} preemptions)"));
    println!("model {name}{bound}: {} executions", executions.load(Relaxed));
    assert_eq!(*seen.lock().unwrap(), outcomes.iter().copied().collect(), "the outcomes of {name}");
}

fn window<const N: usize>() -> Arc<AtomicWindow<N>> {
    Arc::new(AtomicWindow::of_len())
}

/// Another thread with the window.
fn spawn<const N: usize, T: 'static>(
    window: &Arc<AtomicWindow<N>>,
    body: impl FnOnce(&AtomicWindow<N>) -> T + 'static,
) -> JoinHandle<T> {
    let window = window.clone();
    thread::spawn(move || body(&window))
}

/// Two threads, of which this is the first or, swapped, the second.
fn race<const N: usize, A: 'static, B: 'static>(
    window: &Arc<AtomicWindow<N>>,
    swapped: bool,
    a: impl FnOnce(&AtomicWindow<N>) -> A + 'static,
    b: impl FnOnce(&AtomicWindow<N>) -> B + 'static,
) -> (A, B) {
    if swapped {
        let a = spawn(window, a);
        let b = b(window);
        (a.join().unwrap(), b)
    } else {
        let b = spawn(window, b);
        (a(window), b.join().unwrap())
    }
}

/// All have finished: the requests of every second from `last` on are those of `asked`, until none is left.
fn settles<const N: usize>(window: &AtomicWindow<N>, last: u64, asked: &[u64]) {
    for now in last..=last + N as u64 {
        let within = asked.iter().filter(|&&second| second + N as u64 > now).count();
        assert_eq!(window.requests(now) as usize, within, "at {now} of {asked:?}");
    }
}

/// The budget of the models: so many retries, whatever the requests.
fn below(most: u32) -> impl Fn(u32, u32) -> bool {
    move |retries, requests| {
        assert!(requests >= 1, "the requests of the window are never missing");
        retries < most
    }
}

#[test]
fn record_record() {
    model("record/record", None, &[()], |swapped| {
        let window = window::<2>();
        let record = |window: &AtomicWindow<2>| {
            let asked = window.request(10);
            window.answer(asked, 10, true);
        };
        race(&window, swapped, record, record);
        let counts = window.counts(10);
        assert_eq!((counts.requests, counts.accepts, counts.retries), (2, 2, 0));
        settles(&window, 10, &[10, 10]);
    });
}

#[test]
fn record_read() {
    model("record/read", None, &[(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)], |swapped| {
        let window = window::<2>();
        window.request(9);
        let (_, seen) = race(
            &window,
            swapped,
            |window| [window.request(10), window.request(10)],
            |window| (window.requests(10), window.requests(10)),
        );
        settles(&window, 10, &[9, 10, 10]);
        seen
    });
}

#[test]
fn record_roll_over() {
    model("record/roll-over", None, &[(10, 1), (10, 2), (11, 1), (11, 2)], |swapped| {
        let window = window::<2>();
        window.request(10);
        let (asked, seen) = race(&window, swapped, |window| window.request(10), |window| window.requests(11));
        settles(&window, 11, &[10, asked]);
        (asked, seen)
    });
}

#[test]
fn create_roll_over() {
    model("create/roll-over", None, &[(10, 0), (10, 1), (11, 0), (11, 1)], |swapped| {
        let window = window::<2>();
        window.requests(10);
        let create = |window: &AtomicWindow<2>| {
            let asked = window.request(10);
            assert_eq!(window.requests(10), 1, "a thread sees what it wrote");
            asked
        };
        let (asked, seen) = race(&window, swapped, create, |window| window.requests(11));
        settles(&window, 11, &[asked]);
        (asked, seen)
    });
}

#[test]
fn attempt_attempt() {
    model("attempt/attempt", None, &[(0, 1), (1, 0)], |swapped| {
        let window = window::<1>();
        window.counts(10);
        let attempt = |window: &AtomicWindow<1>| window.attempt(10, false).0.requests;
        let seen = race(&window, swapped, attempt, attempt);
        settles(&window, 10, &[10, 10]);
        seen
    });
}

#[test]
fn attempt_roll_over() {
    let outcomes = [(10, 1, 1), (10, 1, 2), (11, 1, 1), (11, 1, 2), (11, 2, 1)];
    model("attempt/roll-over", Some(3), &outcomes, |swapped| {
        let window = window::<2>();
        window.request(10);
        let attempt = |window: &AtomicWindow<2>| {
            let (counts, asked) = window.attempt(10, false);
            (asked, counts.requests)
        };
        let later = |window: &AtomicWindow<2>| window.attempt(11, false).0.requests;
        let ((asked, seen), seen_later) = race(&window, swapped, attempt, later);
        settles(&window, 11, &[10, asked, 11]);
        (asked, seen, seen_later)
    });
}

#[test]
fn attempt_read_roll_over() {
    let outcomes = [(10, 1, 1), (10, 1, 2), (11, 1, 1), (11, 1, 2)];
    model("attempt/roll-over that reads", None, &outcomes, |swapped| {
        let window = window::<2>();
        window.request(10);
        let attempt = |window: &AtomicWindow<2>| {
            let (counts, asked) = window.attempt(10, false);
            (asked, counts.requests)
        };
        let ((asked, seen), seen_later) = race(&window, swapped, attempt, |window| window.requests(11));
        settles(&window, 11, &[10, asked]);
        (asked, seen, seen_later)
    });
}

#[test]
fn roll_over_roll_over() {
    model("roll-over/roll-over a second later", None, &[(11, 2), (11, 3), (12, 2), (12, 3)], |swapped| {
        let window = window::<3>();
        window.request(10);
        let later = |window: &AtomicWindow<3>| {
            assert_eq!(window.request(12), 12);
            window.requests(12)
        };
        let (asked, seen) = race(&window, swapped, |window| window.request(11), later);
        settles(&window, 12, &[10, asked, 12]);
        (asked, seen)
    });
}

#[test]
fn late_writer_recycling() {
    model("late writer/recycling", None, &[(10, 1), (11, 1), (11, 2)], |swapped| {
        let window = window::<1>();
        window.request(10);
        let recycle = |window: &AtomicWindow<1>| {
            assert_eq!(window.request(11), 11);
            window.requests(11)
        };
        let (asked, seen) = race(&window, swapped, |window| window.request(10), recycle);
        settles(&window, 11, &[10, asked, 11]);
        (asked, seen)
    });
}

#[test]
fn attempt_recycling() {
    model("attempt/recycling", None, &[(11, 2), (12, 1), (12, 2)], |swapped| {
        let window = window::<2>();
        window.request(10);
        window.request(11);
        let attempt = |window: &AtomicWindow<2>| {
            let (counts, asked) = window.attempt(11, false);
            (asked, counts.requests)
        };
        let (_, (asked, seen)) = race(&window, swapped, |window| window.request(12), attempt);
        settles(&window, 12, &[11, 12, asked]);
        (asked, seen)
    });
}

#[test]
fn late_writer_gap() {
    model("late writer/gap", None, &[(10, 1), (13, 1), (13, 2)], |swapped| {
        let window = window::<2>();
        window.request(10);
        let after_gap = |window: &AtomicWindow<2>| {
            assert_eq!(window.request(13), 13);
            window.requests(13)
        };
        let (asked, seen) = race(&window, swapped, |window| window.request(10), after_gap);
        settles(&window, 13, &[10, asked, 13]);
        (asked, seen)
    });
}

#[test]
fn record_undo() {
    model("record/undo", None, &[()], |swapped| {
        let window = window::<2>();
        window.request(10);
        race(&window, swapped, |window| window.request(10), |window| window.withdraw(10));
        settles(&window, 10, &[10]);
    });
}

#[test]
fn undo_roll_over() {
    model("undo/roll-over", None, &[1, 2], |swapped| {
        let window = window::<2>();
        window.request(10);
        window.request(10);
        let undo = |window: &AtomicWindow<2>| {
            window.withdraw(10);
            assert_eq!(window.requests(10), 1, "a thread sees what it undid");
        };
        let ((), seen) = race(&window, swapped, undo, |window| window.requests(11));
        settles(&window, 11, &[10]);
        seen
    });
}

#[test]
fn undo_sealed_roll_over() {
    model("undo in a sealed second/roll-over", None, &[1, 2], |swapped| {
        let window = window::<3>();
        window.request(10);
        window.request(10);
        assert_eq!(window.requests(11), 2);
        let ((), seen) = race(&window, swapped, |window| window.withdraw(10), |window| window.requests(12));
        settles(&window, 12, &[10]);
        seen
    });
}

#[test]
fn undo_recycling() {
    model("undo/recycling", None, &[()], |swapped| {
        let window = window::<1>();
        window.request(10);
        let recycle = |window: &AtomicWindow<1>| {
            window.request(11);
            assert_eq!(window.requests(11), 1);
        };
        race(&window, swapped, |window| window.withdraw(10), recycle);
        settles(&window, 11, &[11]);
    });
}

#[test]
fn reserve_reserve() {
    model("reserve/reserve", Some(3), &[(false, true), (true, false)], |swapped| {
        let window = window::<2>();
        window.request(10);
        let reserve_and_retry = |window: &AtomicWindow<2>| {
            let mine = window.reserve(10, below(1)).is_ok();
            if mine {
                window.retry(10);
            }
            mine
        };
        let won = race(&window, swapped, reserve_and_retry, |window| window.reserve(11, below(1)).is_ok());
        let counts = window.counts(11);
        assert_eq!((counts.retries, counts.waiting), (u32::from(won.0), u32::from(won.1)));
        assert_eq!(counts.requests, 1 + counts.retries);
        won
    });
}

/// A retry of the whole budget starts, by `retry`, while another thread asks for one.
fn retry_while_reserved(swapped: bool, retry: impl FnOnce(&AtomicWindow<2>) -> u64 + 'static) -> u64 {
    let window = window::<2>();
    window.request(10);
    window.reserve(10, below(1)).unwrap();
    let reserve = |window: &AtomicWindow<2>| {
        assert!(window.reserve(11, below(1)).is_err(), "the unit is either waiting or counted");
    };
    let (asked, ()) = race(&window, swapped, retry, reserve);
    let counts = window.counts(11);
    assert_eq!((counts.requests, counts.retries, counts.waiting), (2, 1, 0));
    settles(&window, 11, &[10, asked]);
    asked
}

#[test]
fn retry_reserve() {
    model("retry/reserve", None, &[10, 11], |swapped| retry_while_reserved(swapped, |window| window.retry(10)));
}

#[test]
fn attempt_reserve() {
    model("attempt of a retry/reserve", Some(3), &[10, 11], |swapped| {
        retry_while_reserved(swapped, |window| window.attempt(10, true).1)
    });
}

#[test]
fn attempt_reserve_now() {
    model("attempt of a retry/reserve in its second", None, &[()], |swapped| {
        let window = window::<1>();
        window.request(10);
        window.reserve(10, below(1)).unwrap();
        let reserve = |window: &AtomicWindow<1>| {
            assert!(window.reserve(10, below(1)).is_err(), "the unit is either waiting or counted");
        };
        race(&window, swapped, |window| window.attempt(10, true).1, reserve);
        let counts = window.counts(10);
        assert_eq!((counts.requests, counts.retries, counts.waiting), (2, 1, 0));
    });
}

#[test]
fn retry_and_reserve_reserve() {
    model("retry and reserve/reserve", None, &[(false, true), (true, false)], |swapped| {
        let window = window::<1>();
        window.request(10);
        window.reserve(10, below(2)).unwrap();
        // As many wait before as after, so that only the sequence tells the two apart.
        let retry_and_reserve = |window: &AtomicWindow<1>| {
            window.retry(10);
            window.reserve(10, below(2)).is_ok()
        };
        let won = race(&window, swapped, retry_and_reserve, |window| window.reserve(10, below(2)).is_ok());
        let counts = window.counts(10);
        assert_eq!((counts.requests, counts.retries, counts.waiting), (2, 1, 1));
        won
    });
}

#[test]
fn release_reserve() {
    model("release/reserve", None, &[false, true], |swapped| {
        let window = window::<2>();
        window.request(10);
        window.reserve(10, below(1)).unwrap();
        let ((), mine) =
            race(&window, swapped, |window| window.release(), |window| window.reserve(11, below(1)).is_ok());
        let counts = window.counts(11);
        assert_eq!((counts.retries, counts.waiting), (0, u32::from(mine)));
        mine
    });
}

#[test]
fn release_release() {
    model("release/release", None, &[()], |swapped| {
        let window = window::<1>();
        window.request(10);
        for _ in 0..3 {
            window.reserve(10, below(3)).unwrap();
        }
        race(&window, swapped, |window| window.release(), |window| window.release());
        assert_eq!(window.counts(10).waiting, 1);
    });
}

#[test]
fn in_flight_answer() {
    model("in flight/answer a second later", None, &[1, 2], |swapped| {
        let window = window::<2>();
        let asked = window.request(10);
        let answer = move |window: &AtomicWindow<2>| window.answer(asked, 11, true);
        let ask = |window: &AtomicWindow<2>| {
            assert_eq!(window.request(11), 11);
            window.in_flight(11, 1)
        };
        let ((), seen) = race(&window, swapped, answer, ask);
        assert_eq!(window.in_flight(11, 1), 1);
        window.answer(11, 11, false);
        assert_eq!(window.in_flight(11, 1), 0);
        let counts = window.counts(11);
        assert_eq!((counts.requests, counts.accepts), (2, 1));
        assert_eq!(window.counts(12).accepts, 1, "accepted in second 11");
        seen
    });
}

#[test]
fn late_answer_recycling() {
    model("late answer/recycling", None, &[()], |swapped| {
        let window = window::<1>();
        let asked = window.request(10);
        let recycle = |window: &AtomicWindow<1>| {
            let asked = window.request(18);
            window.answer(asked, 18, false);
        };
        race(&window, swapped, move |window| window.answer(asked, 10, false), recycle);
        assert_eq!((window.requests(18), window.in_flight(18, 0)), (1, 0));
    });
}

#[test]
fn answer_refuse() {
    model("answer/refuse", None, &[()], |swapped| {
        let window = window::<2>();
        let asked = window.request(10);
        window.request(10);
        let answer = move |window: &AtomicWindow<2>| window.answer(asked, 10, false);
        race(&window, swapped, answer, move |window| window.refuse(asked));
        assert_eq!(window.in_flight(10, 1), 0);
        assert_eq!(window.counts(10).requests, 2);
    });
}

/// Of a window nothing but the word of the recovery; whatever draws low, the formula refuses.
struct Paced<W>(W);

impl<W: Tally> Tally for Paced<W> {
    fn counts(&self, _: u64) -> Counts {
        Counts { requests: 1_000, ..Counts::ZERO }
    }

    fn in_flight(&self, _: u64, _: u8) -> u32 {
        0
    }

    fn request(&self, second: u64) -> u64 {
        second
    }

    fn refuse(&self, _: u64) {}

    fn answer(&self, _: u64, _: u64, _: bool) {}

    fn withdraw(&self, _: u64) {}

    fn reserve(&self, _: u64, _: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
        Ok(())
    }

    fn retry(&self, second: u64) -> u64 {
        second
    }

    fn release(&self) {}

    fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T {
        self.0.pace(change)
    }
}

/// A client whose extra sends are paced.
struct Recovering<W>(Arc<Policy<Paced<W>>>);

impl<W> Clone for Recovering<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W: Tally> Handle for Recovering<W> {
    type Tally = Paced<W>;
    type Settings = Config;

    fn policy(&self) -> &Policy<Paced<W>> {
        &self.0
    }
}

impl<W: Tally + 'static> Recovering<W> {
    /// At the slowest it waits 64 seconds, three quarters of 86, and for three quarters of so many attempts.
    fn new(window: W, attempts: u16) -> Self {
        let config = Config::overload().to_builder().recovery(Recovery::new(86, attempts).unwrap()).build().unwrap();
        Self(Arc::new(Policy::new(config, Paced(window))))
    }

    /// An attempt that the formula refuses: the call, if it is sent all the same.
    fn extra(&self, second: u64) -> Option<Call<Self>> {
        let mut call = Call::new(self.clone());
        matches!(call.next(Instant::from_secs(second), &mut ScriptedRng::new(&[0])), Step::Send { .. }).then_some(call)
    }

    /// After so many extra sends, one in each hundred seconds, that nobody has answered: the level is 16, 13, 10, 7, 4, 1
    /// and then 0. The last of them comes back.
    fn after(self, sends: u64) -> (Self, Option<Call<Self>>) {
        let last = (1..=sends).fold(None, |_, send| Some(self.extra(send * 100).expect("it is due")));
        (self, last)
    }

    /// The seconds until the next extra send is due that waits for no attempts: 64, halved as often as the level says.
    fn wait(&self, last: u64) -> u64 {
        let word = self.0.window().pace(|word| (word, word));
        let copy = Recovering::new(Window::<1>::of_len(), 1);
        copy.0.window().pace(|_| ((), word));
        (0..).find(|wait| copy.extra(last + wait).is_some()).unwrap()
    }
}

/// Two threads with one such client.
fn recover<A: 'static, B: 'static>(
    client: &Recovering<AtomicWindow<1>>,
    swapped: bool,
    a: impl FnOnce(&Recovering<AtomicWindow<1>>) -> A + 'static,
    b: impl FnOnce(&Recovering<AtomicWindow<1>>) -> B + 'static,
) -> (A, B) {
    let other = client.clone();
    if swapped {
        let a = thread::spawn(move || a(&other));
        let b = b(client);
        (a.join().unwrap(), b)
    } else {
        let b = thread::spawn(move || b(&other));
        (a(client), b.join().unwrap())
    }
}

#[test]
fn extra_extra() {
    model("extra send/extra send", None, &[(false, true), (true, false)], |swapped| {
        let (client, _) = Recovering::new(AtomicWindow::of_len(), 1).after(6);
        let extra = |client: &Recovering<_>| client.extra(700).is_some();
        let sent = recover(&client, swapped, extra, extra);
        assert!(client.extra(763).is_none() && client.wait(700) == 64, "one is sent in each wait");
        sent
    });
}

#[test]
fn extra_accepted() {
    model("extra send/accepted answer to another", None, &[4, 16], |swapped| {
        let (client, mut sent) = Recovering::new(AtomicWindow::of_len(), 1).after(5);
        let accept = |mut call: Call<_>| call.reply(Instant::from_secs(600), Reply::ACCEPTED);
        let answer = move |_: &Recovering<_>| accept(sent.take().unwrap());
        let ((), extra) = recover(&client, swapped, answer, |client| client.extra(600));
        // The level was 1. An accept adds 1 to it and the stake of 3; the other one stakes 3 after that, and 1 before it.
        let wait = client.wait(600);
        accept(extra.expect("it is due"));
        assert_eq!(client.wait(600), 1, "both accepts have given back what was staked, and 1");
        wait
    });
}

#[test]
fn extra_refused() {
    model("refused attempt/refused attempt", None, &[()], |swapped| {
        let (client, _) = Recovering::new(AtomicWindow::of_len(), 4).after(6);
        let refused = |client: &Recovering<_>| assert!(client.extra(601).is_none());
        recover(&client, swapped, refused, refused);
        assert!(client.extra(700).is_some(), "the third attempt is due, if both of the first are counted");
    });
}

#[test]
fn retry_retry_reserve() {
    model("retry/retry/reserve", Some(2), &[()], |swapped| {
        let window = window::<2>();
        window.request(10);
        for _ in 0..2 {
            window.reserve(10, below(2)).unwrap();
        }
        let other = spawn(&window, |window| window.retry(10));
        let reserve = |window: &AtomicWindow<2>| {
            for _ in 0..2 {
                assert!(window.reserve(11, below(2)).is_err(), "both units are either waiting or counted");
            }
        };
        let (asked, ()) = race(&window, swapped, |window| window.retry(10), reserve);
        let asked = [10, asked, other.join().unwrap()];
        let counts = window.counts(11);
        assert_eq!((counts.requests, counts.retries, counts.waiting), (3, 2, 0));
        settles(&window, 11, &asked);
    });
}

#[test]
fn record_undo_roll_over() {
    model("record/undo/roll-over", Some(3), &[1, 2, 3], |swapped| {
        let window = window::<2>();
        window.request(10);
        let other = spawn(&window, |window| window.withdraw(10));
        let roll_over = |window: &AtomicWindow<2>| {
            assert_eq!(window.request(11), 11);
            window.requests(11)
        };
        let (asked, seen) = race(&window, swapped, |window| window.request(10), roll_over);
        other.join().unwrap();
        settles(&window, 11, &[asked, 11]);
        seen
    });
}
