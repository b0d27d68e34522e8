//! The client on paused time: limits, budget and backoff, and what is left behind by calls that are dropped.

use core::future::{pending, ready};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use forbear_tokio::{
    Backoff, Client, Config, Counts, Error, Mode, Reply, Report, SharedWindow, Stop, ThreadRng, TokioClock,
};
use tokio::time::{Instant, sleep, timeout};

type TestClient = Client<TokioClock, ThreadRng, SharedWindow>;

const SECOND: Duration = Duration::from_secs(1);

/// Never throttles, and hardly ever runs out of retries.
const WILLING: Config = forbear::config!(Config::overload().to_builder().no_throttle().retry_ratio(10.0));

fn client(config: Config) -> TestClient {
    Client::with(TokioClock::new(), ThreadRng, config, SharedWindow::default())
}

/// A 503 asks for a second; anything else is what `forbear` makes of it.
fn read<T>(result: &Result<T, u16>) -> Reply {
    match result {
        Ok(_) => Reply::ACCEPTED,
        Err(503) => Reply::OVERLOADED.after(SECOND),
        Err(status) => forbear::http::status(*status),
    }
}

#[derive(Default)]
struct Backend {
    sent: AtomicU32,
}

impl Backend {
    /// Answers 503 to the first `failures` requests.
    async fn ask(&self, failures: u32) -> Result<u32, u16> {
        tokio::task::yield_now().await;
        let sent = self.sent.fetch_add(1, Ordering::SeqCst);
        if sent < failures { Err(503) } else { Ok(sent) }
    }

    fn sent(&self) -> u32 {
        self.sent.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_retried_after_its_wait() {
    let (client, backend, start) = (client(WILLING), Backend::default(), Instant::now());
    let answer = client.call(|| backend.ask(2), read).await;
    assert_eq!(answer.unwrap(), 2);
    assert_eq!(start.elapsed(), 2 * SECOND);
    let Counts { requests, accepts, retries, waiting, .. } = client.counts();
    assert_eq!((requests, accepts, retries, waiting), (3, 1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_borrows_runs_in_a_spawned_task() {
    let client = client(WILLING);
    let task = tokio::spawn(async move {
        let (backend, path) = (Backend::default(), String::from("/"));
        let answer = client.call(|| async { backend.ask(1).await.map(|sent| (path.len(), sent)) }, read).await;
        (answer, client.counts().retries)
    });
    assert_eq!(task.await.unwrap(), (Ok((1, 1)), 1));
}

#[tokio::test(start_paused = true)]
async fn a_send_that_borrows_mutably_runs_in_a_loop_in_a_spawned_task() {
    struct Connection(u32);
    impl Connection {
        async fn query(&mut self, path: &str) -> Result<usize, u16> {
            tokio::task::yield_now().await;
            self.0 += 1;
            if self.0 < 3 { Err(503) } else { Ok(path.len()) }
        }
    }
    let client = client(WILLING);
    let task = tokio::spawn(async move {
        let (mut connection, path) = (Connection(0), String::from("/path"));
        let mut call = client.begin();
        let mut last = None;
        while call.ready().await {
            let result = connection.query(&path).await;
            call.reply(read(&result));
            last = Some(result);
        }
        call.finish(last)
    });
    assert_eq!(task.await.unwrap(), Ok(5));
}

#[tokio::test(start_paused = true)]
async fn the_last_error_comes_back_with_the_reason() {
    let (client, backend) = (client(WILLING), Backend::default());
    match client.call(|| backend.ask(9), read).await {
        Err(Error::Failed { last: 503, report }) => {
            assert_eq!((report.stop, report.attempts), (Stop::AttemptsSpent, 3));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_never_sent() {
    let (client, backend) = (client(WILLING.to_builder().k(0.0).build().unwrap()), Backend::default());
    // Every accepted call raises p, which is requests / (requests + 1).
    let mut refused = 0;
    for _ in 0..200 {
        refused += u32::from(client.call(|| backend.ask(0), read).await.is_err_and(|error| error.is_refused()));
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(backend.sent(), 200 - refused);
    client.set_mode(Mode::Shadow);
    assert!(client.call(|| backend.ask(0), read).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_cut_counted_as_unreachable_and_sent_again() {
    let config = WILLING.to_builder().attempt_timeout(5 * SECOND).build().unwrap();
    let (client, sent, start) = (client(config), AtomicU32::new(0), Instant::now());
    let send = || {
        sent.fetch_add(1, Ordering::SeqCst);
        pending::<Result<(), u16>>()
    };
    match client.call(send, read).await {
        Err(Error::TimedOut(report)) => assert_eq!((report.stop, report.attempts), (Stop::AttemptsSpent, 3)),
        other => panic!("{other:?}"),
    }
    assert_eq!((sent.into_inner(), start.elapsed()), (3, 15 * SECOND));
    assert_eq!((client.requests(), client.accepts()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_reply_outlives_an_attempt_that_is_cut() {
    let config = WILLING.to_builder().attempt_timeout(SECOND).build().unwrap();
    let (client, sent) = (client(config), AtomicU32::new(0));
    let send = || async {
        if sent.fetch_add(1, Ordering::SeqCst) > 0 {
            pending::<()>().await;
        }
        Err::<(), _>(503)
    };
    match client.call(send, read).await {
        Err(Error::Failed { last: 503, report }) => assert_eq!(report.attempts, 3),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_must_not_be_repeated_is_sent_once_even_when_it_is_cut() {
    let config = WILLING.to_builder().attempt_timeout(SECOND).build().unwrap();
    let client = client(config);
    let moved = String::from("what is sent may be moved");
    let send = || async move {
        let _moved = moved;
        pending::<Result<(), u16>>().await
    };
    match client.call_once(send, read).await {
        Err(Error::TimedOut(report)) => assert_eq!((report.stop, report.attempts), (Stop::AttemptsSpent, 1)),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.call_once(|| ready(Err::<(), _>(503)), read).await.unwrap_err().into_last(), Some(503));
    assert_eq!((client.requests(), client.accepts(), client.retries()), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_the_attempt_and_ends_the_waiting() {
    let config = WILLING.to_builder().deadline(Duration::from_millis(2_500)).build().unwrap();
    let (limited, backend, start) = (client(config), Backend::default(), Instant::now());
    match limited.call(|| backend.ask(9), read).await {
        // Two waits of a second; a third would end past the deadline, but attempts are spent by then.
        Err(Error::Failed { last: 503, report }) => assert_eq!(report.stop, Stop::AttemptsSpent),
        other => panic!("{other:?}"),
    }
    assert_eq!(start.elapsed(), 2 * SECOND);

    let slow = || async {
        sleep(2 * SECOND).await;
        Err::<(), _>(503)
    };
    match limited.call(slow, read).await {
        Err(Error::Failed { last: 503, report }) => assert_eq!((report.stop, report.attempts), (Stop::Deadline, 1)),
        other => panic!("{other:?}"),
    }

    let (limited, start) = (client(config.to_builder().backoff(Backoff::DEFAULT).build().unwrap()), Instant::now());
    match limited.call(pending::<Result<(), u16>>, read).await {
        Err(Error::TimedOut(report)) => assert_eq!((report.stop, report.attempts), (Stop::Deadline, 1)),
        other => panic!("{other:?}"),
    }
    assert_eq!(start.elapsed(), Duration::from_millis(2_500));
}

#[tokio::test(start_paused = true)]
async fn blocking_and_async_callers_share_one_budget() {
    let blocking = forbear_std::Client::new(Config::overload().to_builder().no_throttle().build().unwrap());
    let client = Client::from(blocking.clone());
    assert!(blocking.call(|| Ok::<_, u16>(()), |_| Reply::ACCEPTED).is_ok());
    // 0 < 0.1 * 2 allows one retry, 1 < 0.1 * 4 no other.
    let overloaded = |_: &Result<(), u16>| Reply::OVERLOADED;
    let report = |answer: Result<(), Error<u16>>| *answer.unwrap_err().report();
    assert_eq!(report(client.call(|| ready(Err(503)), overloaded).await).attempts, 2);
    assert_eq!(report(blocking.call(|| Err(503), overloaded)).stop, Stop::Budget);
    assert_eq!(report(client.clone().call(|| ready(Err(503)), overloaded).await).stop, Stop::Budget);
    assert_eq!((client.requests(), client.accepts(), client.retries()), (5, 1, 1));
}

/// Those that are dropped included: in an outage with timeouts around the calls there may be no others.
#[tokio::test(start_paused = true)]
async fn the_observer_is_told_of_every_end() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let told = told.clone();
        move |report: &Report| told.lock().unwrap().push((report.stop, report.attempts))
    };
    let client = client(WILLING).observed(observer);
    let _ = client.call(|| ready(Ok::<_, u16>(())), read).await;
    let _ = client.call_once(|| ready(Err::<(), _>(503)), read).await;
    let _ = client.begin().finish(None::<Result<(), ()>>);
    assert!(timeout(SECOND, client.call(pending::<Result<(), u16>>, read)).await.is_err());
    // Not begun.
    drop(client.call(|| ready(Ok::<_, u16>(())), read));
    drop(client.begin());
    let mut call = client.begin();
    assert!(call.ready().await);
    call.reply(Reply::OVERLOADED.after(SECOND));
    assert!(timeout(SECOND / 2, call.ready()).await.is_err());
    drop(call);
    let expected = [
        (Stop::Accepted, 1),
        (Stop::AttemptsSpent, 1),
        (Stop::Abandoned, 0),
        (Stop::Abandoned, 1),
        (Stop::Abandoned, 1),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

/// It is told once, the counts are settled, and where the call itself panics, too, the process goes on.
#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_ends_no_more_than_its_call() {
    let told = Arc::new(AtomicU32::new(0));
    let observer = {
        let told = told.clone();
        move |report: &Report| {
            told.fetch_add(1, Ordering::SeqCst);
            panic!("{report}");
        }
    };
    let watch = client(WILLING);
    let client = watch.clone().observed(observer);
    for (number, send) in [|| Ok(()), || panic!("a send that panics")].into_iter().enumerate() {
        let client = client.clone();
        let task =
            tokio::spawn(async move { client.call(|| async { send() }, |_: &Result<_, u16>| Reply::ACCEPTED).await });
        assert!(task.await.unwrap_err().is_panic());
        assert_eq!(told.load(Ordering::SeqCst) as usize, number + 1);
    }
    assert_eq!((watch.requests(), watch.accepts()), (2, 1));
    assert!(watch.call(|| ready(Ok::<_, u16>(())), read).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_off_counts_and_refuses_nothing() {
    let (client, backend, start) =
        (client(WILLING.to_builder().k(0.0).build().unwrap()), Backend::default(), Instant::now());
    client.set_mode(Mode::Off);
    for _ in 0..50 {
        // Attempts and waits hold.
        match client.call(|| backend.ask(u32::MAX), read).await {
            Err(Error::Failed { last: 503, report }) => {
                assert_eq!((report.stop, report.attempts), (Stop::AttemptsSpent, 3))
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((backend.sent(), start.elapsed()), (150, 100 * SECOND));
    assert_eq!(client.counts(), Counts::ZERO);
}

/// A wait that is dropped and asked for again lasts no longer and no shorter.
#[tokio::test(start_paused = true)]
async fn waiting_can_be_interrupted() {
    let (client, start) = (client(WILLING), Instant::now());
    let mut call = client.begin();
    assert!(call.ready().await);
    call.reply(Reply::OVERLOADED.after(SECOND));
    assert!(timeout(SECOND / 4, call.ready()).await.is_err());
    assert_eq!(call.due(), Some(start + SECOND));
    assert!(call.ready().await);
    assert_eq!((start.elapsed(), call.due()), (SECOND, None));
    call.reply(Reply::ACCEPTED);
    assert!(!call.ready().await && !call.ready().await);
    assert_eq!((client.requests(), client.retries()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_does_not_panic() {
    let client = client(WILLING);
    let mut call = client.begin();
    assert!(call.ready().await);
    call.reply(Reply::OVERLOADED.after(Duration::MAX));
    assert!(timeout(1_000 * SECOND, call.ready()).await.is_err());
}

/// 100 calls at once on a healthy backend: by the specification alone nearly all of them would be refused.
#[tokio::test(start_paused = true)]
async fn a_fresh_client_sends_its_first_hundred_calls() {
    for (config, all) in [(Config::resilient(), true), (Config::overload(), false)] {
        let client = client(config);
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    let send = || async {
                        sleep(SECOND / 10).await;
                        Ok::<_, u16>(())
                    };
                    client.call(send, read).await.is_ok()
                })
            })
            .collect();
        let mut answered = 0;
        for task in tasks {
            answered += u32::from(task.await.unwrap());
        }
        assert_eq!(answered == 100, all, "{answered} of 100");
    }
}

/// Dropping at each await point: before the first poll, in the first attempt, in its backoff, in the retry.
mod dropped {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    /// Answers 503 once, then hangs.
    async fn drop_after(client: &TestClient, time: Duration) -> (u32, u32, u32, u32) {
        let sent = AtomicU32::new(0);
        let send = || async {
            sleep(SECOND).await;
            if sent.fetch_add(1, Ordering::SeqCst) > 0 {
                pending::<()>().await;
            }
            Err::<(), _>(503)
        };
        {
            let call = client.call(send, read);
            if !time.is_zero() {
                assert!(timeout(time, call).await.is_err());
            }
        }
        let Counts { requests, accepts, retries, waiting, .. } = client.counts();
        (requests, accepts, retries, waiting)
    }

    fn graced() -> TestClient {
        client(WILLING.to_builder().in_flight_grace(GRACE).build().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn before_it_is_polled() {
        assert_eq!(drop_after(&client(WILLING), Duration::ZERO).await, (0, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn in_the_first_attempt() {
        assert_eq!(drop_after(&client(WILLING), SECOND / 2).await, (1, 0, 0, 0));
        assert_eq!(drop_after(&graced(), SECOND / 2).await, (0, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn in_the_backoff() {
        let client = client(WILLING);
        let watch = client.clone();
        let (counts, waiting) = tokio::join!(drop_after(&client, SECOND * 3 / 2), async {
            sleep(SECOND * 5 / 4).await;
            watch.counts().waiting
        });
        assert_eq!(waiting, 1);
        assert_eq!(counts, (1, 0, 0, 0));
        assert_eq!(drop_after(&graced(), SECOND * 3 / 2).await, (1, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn in_the_retry() {
        assert_eq!(drop_after(&client(WILLING), SECOND * 5 / 2).await, (2, 0, 1, 0));
        // Young: its request is taken back, the retry that it was stays.
        assert_eq!(drop_after(&graced(), SECOND * 5 / 2).await, (1, 0, 1, 0));
        // Older than the grace: it hangs, and counts.
        assert_eq!(drop_after(&graced(), SECOND * 9 / 2).await, (2, 0, 1, 0));
    }

    /// A loop of the caller's own is dropped where it stands, too: in `limit`, and in `ready`.
    #[tokio::test(start_paused = true)]
    async fn in_a_loop() {
        for (client, time, expected) in [
            (client(WILLING), SECOND / 2, (1, 0, 0, 0)),
            (graced(), SECOND / 2, (0, 0, 0, 0)),
            (client(WILLING), SECOND * 3 / 2, (1, 0, 0, 0)),
            (graced(), SECOND * 3 / 2, (1, 0, 0, 0)),
            (client(WILLING), SECOND * 5 / 2, (2, 0, 1, 0)),
            (graced(), SECOND * 5 / 2, (1, 0, 1, 0)),
        ] {
            let looped = async {
                let mut call = client.begin();
                while call.ready().await {
                    call.limit(sleep(SECOND)).await;
                    call.reply(Reply::OVERLOADED.after(SECOND));
                }
            };
            assert!(timeout(time, looped).await.is_err());
            let Counts { requests, accepts, retries, waiting, .. } = client.counts();
            assert_eq!((requests, accepts, retries, waiting), expected, "{time:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn in_an_attempt_with_a_limit() {
        let config = WILLING.to_builder().attempt_timeout(9 * SECOND).in_flight_grace(GRACE).build().unwrap();
        assert_eq!(drop_after(&client(config), SECOND / 2).await, (0, 0, 0, 0));
        assert_eq!(drop_after(&client(config), SECOND * 9 / 2).await, (2, 0, 1, 0));
    }
}
