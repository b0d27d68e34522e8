//! Calls on embassy-time's mock clock: when they send, what cuts them, and what they leave when they are dropped.

mod mock;

use core::cell::{Cell, RefCell};
use core::future::{Future, pending, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;

use embassy_time::Timer;
use forbear::testing::ScriptedRng;
use forbear::{Config, ConfigBuilder, Error, Mode, Reply, Stop, Window};
use forbear_embassy::{Client, CriticalSectionRawMutex, NoopRawMutex};
use static_cell::StaticCell;

use crate::mock::{Api, HIGH, MS, api, classify, clock, counts, pass, poll};

#[test]
fn a_retry_waits_for_its_backoff_and_no_longer() {
    let _clock = clock();
    let api = api(|builder| builder);
    let mut replies = [Err(Reply::OVERLOADED), Ok("stored")].into_iter();
    let mut sends = 0;
    {
        // Borrowed mutably, as an HTTP client is.
        let mut call = pin!(api.call(
            async || {
                sends += 1;
                replies.next().unwrap()
            },
            classify
        ));
        assert_eq!(poll(call.as_mut()), Poll::Pending);
        assert_eq!(counts(&api), (1, 0, 0, 1));
        pass(MS(100));
        assert_eq!(poll(call.as_mut()), Poll::Pending, "part of the tick had passed when the wait began");
        pass(Duration::from_micros(2));
        assert_eq!(poll(call.as_mut()), Poll::Ready(Ok("stored")));
    }
    assert_eq!(sends, 2);
    assert_eq!(counts(&api), (2, 1, 1, 0));
}

#[test]
fn retry_after_is_never_early() {
    let _clock = clock();
    for asked in [1, 999, 1_000, 1_001, 1_000_000, 1_500_000_000, 29_999_999_999].map(Duration::from_nanos) {
        let api = api(|builder| builder);
        let sent = Cell::new(0);
        let mut call = pin!(api.call(
            async || {
                sent.set(sent.get() + 1);
                Err::<(), _>(Reply::OVERLOADED.after(asked))
            },
            classify
        ));
        assert!(poll(call.as_mut()).is_pending());
        let micros = asked.as_nanos().div_ceil(1_000) as u64;
        pass(Duration::from_micros(micros));
        let _ = poll(call.as_mut());
        assert_eq!(sent.get(), 1, "{asked:?}");
        pass(Duration::from_micros(2));
        let _ = poll(call.as_mut());
        assert_eq!(sent.get(), 2, "{asked:?}");
    }
}

#[test]
fn a_wait_that_no_timer_holds_waits_for_ever() {
    let _clock = clock();
    let api = api(|builder| builder.max_retry_after(Duration::MAX));
    let mut call = pin!(api.call(async || Err::<(), _>(Reply::OVERLOADED.after(Duration::MAX)), classify));
    assert!(poll(call.as_mut()).is_pending());
    pass(Duration::from_secs(1 << 40));
    assert!(poll(call.as_mut()).is_pending());
}

#[test]
fn an_attempt_is_cut_and_dropped_where_it_takes_too_long() {
    let _clock = clock();
    struct Dropped<'d>(&'d Cell<u32>);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let dropped = Cell::new(0);
    let api = api(|builder| builder.attempt_timeout(MS(1_500)).max_attempts(1));
    let mut call = pin!(api.call(
        async || {
            let _send = Dropped(&dropped);
            pending::<Result<(), Reply>>().await
        },
        classify
    ));
    assert!(poll(call.as_mut()).is_pending());
    pass(MS(1_500));
    assert!(poll(call.as_mut()).is_pending());
    pass(Duration::from_micros(2));
    let Poll::Ready(Err(Error::TimedOut(report))) = poll(call.as_mut()) else { panic!("not cut") };
    assert_eq!((report.stop, report.attempts, dropped.get()), (Stop::AttemptsSpent, 1, 1));
    assert_eq!(counts(&api), (1, 0, 0, 0));
}

#[test]
fn the_deadline_cuts_the_last_attempt() {
    let _clock = clock();
    let api = api(|builder| builder.deadline(MS(300)));
    let sends = Cell::new(0);
    let mut call = pin!(api.call(
        async || {
            sends.set(sends.get() + 1);
            Timer::after_millis(200).await;
            Err::<(), _>(Reply::OVERLOADED)
        },
        classify
    ));
    // 200 ms of sending, 100 ms of backoff would end right at the deadline, two ticks make it late.
    for _ in 0..50 {
        if let Poll::Ready(result) = poll(call.as_mut()) {
            assert_eq!(result.unwrap_err().report().stop, Stop::Deadline);
            assert_eq!(sends.get(), 1);
            return;
        }
        pass(MS(10));
    }
    panic!("the deadline was not kept");
}

#[test]
fn a_refused_call_is_not_sent() {
    let _clock = clock();
    let api: Api =
        Client::new(Config::overload().to_builder().max_attempts(1).build().unwrap(), ScriptedRng::new(&[u64::MAX, 0]));
    let sends = Cell::new(0);
    let send = async || {
        sends.set(sends.get() + 1);
        Err::<(), _>(Reply::OVERLOADED)
    };
    assert!(matches!(poll(pin!(api.call(send, classify))), Poll::Ready(Err(Error::Failed { .. }))));
    let Poll::Ready(Err(Error::Refused(refused))) = poll(pin!(api.call(send, classify))) else { panic!("sent") };
    assert_eq!((refused.report().stop, sends.get()), (Stop::Throttled, 1));
    assert_eq!(counts(&api), (2, 0, 0, 0));
}

#[test]
fn dropped_before_its_first_poll_a_call_counts_nothing() {
    let _clock = clock();
    let api = api(|builder| builder);
    drop(api.call(async || Ok::<(), Reply>(()), classify));
    assert_eq!(counts(&api), (0, 0, 0, 0));
}

#[test]
fn dropped_in_flight_a_call_stays_counted_unless_it_is_young() {
    for (age, left) in [(MS(999), (0, 0, 0, 0)), (MS(1_000), (1, 0, 0, 0))] {
        let _clock = clock();
        let api = api(|builder| builder.in_flight_grace(MS(1_000)));
        {
            let mut call = pin!(api.call(async || pending::<Result<(), Reply>>().await, classify));
            assert!(poll(call.as_mut()).is_pending());
            assert_eq!(counts(&api), (1, 0, 0, 0));
            pass(age);
        }
        assert_eq!(counts(&api), left, "after {age:?}");
    }
    let _clock = clock();
    let api = api(ConfigBuilder::no_in_flight_grace);
    {
        let mut call = pin!(api.call(async || pending::<Result<(), Reply>>().await, classify));
        assert!(poll(call.as_mut()).is_pending());
    }
    assert_eq!(counts(&api), (1, 0, 0, 0), "without a grace every sent attempt counts");
}

#[test]
fn dropped_while_it_waits_a_call_gives_its_retry_back() {
    let _clock = clock();
    let api = api(|builder| builder);
    {
        let mut call = pin!(api.call(async || Err::<(), _>(Reply::OVERLOADED), classify));
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!(counts(&api), (1, 0, 0, 1));
    }
    assert_eq!(counts(&api), (1, 0, 0, 0));
}

#[test]
fn dropped_in_its_retry_a_call_leaves_what_had_begun() {
    let _clock = clock();
    let api = api(|builder| builder.in_flight_grace(MS(1_000)));
    {
        let first = Cell::new(true);
        let mut call = pin!(
            api.call(async || if first.take() { Err::<(), _>(Reply::OVERLOADED) } else { pending().await }, classify)
        );
        assert!(poll(call.as_mut()).is_pending());
        pass(MS(101));
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!(counts(&api), (2, 0, 1, 0));
    }
    // The young attempt is taken back; the one before it and the started retry stay.
    assert_eq!(counts(&api), (1, 0, 1, 0));
}

#[test]
fn one_client_serves_calls_that_overlap() {
    let _clock = clock();
    let api = api(|builder| builder);
    let order = RefCell::new(Vec::new());
    let one = |id: u8| {
        let (api, order) = (&api, &order);
        async move {
            let send = async || {
                Timer::after_millis(u64::from(id)).await;
                order.borrow_mut().push(id);
                Ok::<_, Reply>(id)
            };
            api.call(send, classify).await
        }
    };
    let (mut slow, mut fast) = (pin!(one(20)), pin!(one(10)));
    assert!(poll(slow.as_mut()).is_pending() && poll(fast.as_mut()).is_pending());
    assert_eq!(api.counts().requests, 2);
    pass(MS(10));
    assert!(poll(slow.as_mut()).is_pending());
    assert_eq!(poll(fast.as_mut()), Poll::Ready(Ok(10)));
    pass(MS(10));
    assert_eq!(poll(slow.as_mut()), Poll::Ready(Ok(20)));
    assert_eq!((order.take(), counts(&api)), (vec![10, 20], (2, 2, 0, 0)));
}

#[test]
fn what_is_called_once_is_sent_once() {
    let _clock = clock();
    let api = api(|builder| builder.attempt_timeout(MS(1_500)));
    let order = String::from("a pump on"); // given away by the one attempt
    let Poll::Ready(Err(Error::Failed { last, report })) =
        poll(pin!(api.call_once(async move || Err::<(), _>(order), |_| Reply::OVERLOADED)))
    else {
        panic!("not over")
    };
    assert_eq!((last.as_str(), report.stop, report.attempts), ("a pump on", Stop::AttemptsSpent, 1));
    assert_eq!(counts(&api), (1, 0, 0, 0));
    assert_eq!(poll(pin!(api.call_once(async || Ok::<_, Reply>(1), classify))), Poll::Ready(Ok(1)));

    let mut cut = pin!(api.call_once(async || pending::<Result<(), Reply>>().await, classify));
    assert!(poll(cut.as_mut()).is_pending());
    pass(MS(1_501));
    let Poll::Ready(Err(Error::TimedOut(report))) = poll(cut.as_mut()) else { panic!("not over") };
    assert_eq!((report.stop, report.attempts, counts(&api)), (Stop::AttemptsSpent, 1, (3, 1, 0, 0)));
}

#[test]
fn what_is_called_once_may_be_refused() {
    let _clock = clock();
    let api: Api = Client::new(Config::overload(), ScriptedRng::new(&[u64::MAX, 0]));
    let send = async || Err::<(), _>(Reply::OVERLOADED);
    assert!(poll(pin!(api.call_once(send, classify))).is_ready());
    let Poll::Ready(Err(Error::Refused(refused))) = poll(pin!(api.call_once(send, classify))) else { panic!("sent") };
    assert_eq!(refused.report().stop, Stop::Throttled);
}

#[test]
fn a_client_for_the_tasks_of_one_executor_is_in_a_static_cell() {
    static API: StaticCell<Api> = StaticCell::new();
    let _clock = clock();
    let api: &'static Api = API.init(Client::new(Config::resilient(), ScriptedRng::new(HIGH)));
    assert_eq!(poll(pin!(api.call(async || Ok::<_, Reply>(1), classify))), Poll::Ready(Ok(1)));
}

#[test]
fn a_client_for_any_task_is_a_static() {
    static API: Client<ScriptedRng<'static>, CriticalSectionRawMutex> =
        Client::new(Config::resilient(), ScriptedRng::new(HIGH));
    let _clock = clock();
    let call = std::thread::spawn(|| poll(pin!(API.call(async || Ok::<_, Reply>(1), classify))));
    assert_eq!(call.join().unwrap(), Poll::Ready(Ok(1)));
    assert_eq!(API.counts().accepts, 1);
}

/// What devices make of these, with pointers of 32 bits, is measured by `cargo xtask size`.
#[test]
fn a_call_in_flight_is_small() {
    let _clock = clock();
    let api = api(|builder| builder);
    let send = async || {
        let mut packet = [0u8; 1_000];
        pending::<()>().await;
        packet[1] += 1;
        Ok::<_, Reply>(core::hint::black_box(packet)[1])
    };
    let alone = size_of_val(&send());
    let added = size_of_val(&api.call(send, classify)) - alone;
    assert!(alone >= 1_000 && added <= 232, "{added} bytes more than the {alone} of the send");
    assert!(size_of::<Client<(), NoopRawMutex>>() <= 1_700);
    assert!(size_of::<Client<(), NoopRawMutex, forbear::Window<120, u16>>>() <= 980);
}

/// A future, looked at only when it was woken.
struct Task<F> {
    future: Pin<Box<F>>,
    woken: Arc<Woken>,
    looks: u32,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<F: Future> Task<F> {
    fn new(future: F) -> Self {
        Self { future: Box::pin(future), woken: Arc::new(Woken(true.into())), looks: 0 }
    }

    /// Lets time pass, a millisecond after the other.
    fn run(&mut self, time: Duration) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.woken));
        for _ in 0..=time.as_millis() {
            if self.woken.0.swap(false, Ordering::SeqCst) {
                self.looks += 1;
                if let Poll::Ready(output) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Poll::Ready(output);
                }
            }
            pass(MS(1));
        }
        Poll::Pending
    }
}

#[test]
fn a_task_is_woken_for_its_retry_and_for_its_cut() {
    let _clock = clock();
    let api = api(|builder| builder.attempt_timeout(MS(1_500)).max_attempts(2));
    let first = Cell::new(true);
    let send = async || if first.take() { Err::<(), _>(Reply::OVERLOADED) } else { pending().await };
    let mut task = Task::new(api.call(send, classify));
    assert!(task.run(MS(1_550)).is_pending());
    assert_eq!(api.counts().requests, 2);
    let Poll::Ready(Err(Error::TimedOut(report))) = task.run(MS(100)) else { panic!("not woken") };
    assert_eq!((report.stop, report.attempts), (Stop::AttemptsSpent, 2));
    // At the start, for the retry, for the cut.
    assert_eq!(task.looks, 3);
}

#[test]
fn the_answer_that_is_there_wins_over_the_time_that_is_up() {
    let _clock = clock();
    let api = api(|builder| builder.attempt_timeout(MS(1_500)));
    let mut call = pin!(api.call(
        async || {
            Timer::after_secs(2).await;
            Ok::<_, Reply>("late, but there")
        },
        classify
    ));
    assert!(poll(call.as_mut()).is_pending());
    pass(MS(2_000));
    assert_eq!(poll(call.as_mut()), Poll::Ready(Ok("late, but there")));
    assert_eq!(counts(&api), (1, 1, 0, 0));
}

#[test]
fn without_a_limit_no_timer_is_set() {
    let _clock = clock();
    let api: Api = Client::new(Config::overload(), ScriptedRng::new(HIGH));
    let mut task = Task::new(api.call(async || pending::<Result<(), Reply>>().await, classify));
    assert!(task.run(MS(10_000)).is_pending());
    pass(Duration::from_secs(1 << 40));
    assert!(task.run(MS(1)).is_pending());
    assert_eq!(task.looks, 1);
}

#[test]
fn a_deadline_alone_cuts_what_is_in_flight() {
    let _clock = clock();
    let config = Config::overload().to_builder().deadline(MS(700)).build().unwrap();
    let api: Api = Client::new(config, ScriptedRng::new(HIGH));
    let mut task = Task::new(api.call(async || pending::<Result<(), Reply>>().await, classify));
    assert!(task.run(MS(699)).is_pending());
    let Poll::Ready(Err(Error::TimedOut(report))) = task.run(MS(5)) else { panic!("not cut") };
    assert_eq!((report.stop, report.attempts), (Stop::Deadline, 1));
}

#[test]
fn looks_without_a_reason_change_nothing() {
    let _clock = clock();
    let api = api(|builder| builder.attempt_timeout(MS(1_500)));
    let sends = Cell::new(0);
    let mut call = pin!(api.call(
        async || {
            sends.set(sends.get() + 1);
            if sends.get() == 1 { Err::<(), _>(Reply::OVERLOADED) } else { pending().await }
        },
        classify
    ));
    for _ in 0..100 {
        assert!(poll(call.as_mut()).is_pending());
    }
    assert_eq!((sends.get(), counts(&api)), (1, (1, 0, 0, 1)), "in its wait");
    pass(MS(101));
    for _ in 0..100 {
        assert!(poll(call.as_mut()).is_pending());
    }
    assert_eq!((sends.get(), counts(&api)), (2, (2, 0, 1, 0)), "in flight");
}

/// A call of three attempts that takes a step at each look: sent, overloaded and waiting, sent again, and so on.
#[test]
fn dropped_at_any_point_a_call_leaves_what_had_begun() {
    type Left = [(u32, u32, u32, u32); 7];
    let stays: Left =
        [(0, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0), (2, 0, 1, 0), (2, 0, 1, 0), (3, 0, 2, 0), (3, 1, 2, 0)];
    // A young attempt is taken back where it is the one in flight.
    let young: Left =
        [(0, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0), (1, 0, 1, 0), (2, 0, 1, 0), (2, 0, 2, 0), (3, 1, 2, 0)];
    let without: fn(ConfigBuilder) -> ConfigBuilder = ConfigBuilder::no_in_flight_grace;
    for (change, left) in [(without, stays), (|builder| builder.in_flight_grace(MS(1_000)), young)] {
        for (looks, left) in left.into_iter().enumerate() {
            let _clock = clock();
            let api = api(|builder| change(builder).retry_floor(2));
            {
                let sends = Cell::new(0);
                let mut call = pin!(api.call(
                    async || {
                        sends.set(sends.get() + 1);
                        let mut answered = false;
                        poll_fn(
                            |_| if core::mem::replace(&mut answered, true) { Poll::Ready(()) } else { Poll::Pending },
                        )
                        .await;
                        if sends.get() < 3 { Err(Reply::OVERLOADED) } else { Ok(()) }
                    },
                    classify
                ));
                for look in 1..=looks {
                    assert_eq!(poll(call.as_mut()).is_ready(), look == 6);
                    // A backoff passes, and what is in flight stays young.
                    pass(if look % 2 == 0 { MS(300) } else { MS(1) });
                }
            }
            assert_eq!(counts(&api), left, "after {looks} looks");
        }
    }
}

#[test]
fn a_send_that_panics_is_one_that_got_no_answer() {
    let _clock = clock();
    let api = api(ConfigBuilder::no_in_flight_grace);
    let panics = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        let send = async || -> Result<(), Reply> { panic!("on purpose") };
        let _ = poll(pin!(api.call(send, classify)));
    }));
    assert!(panics.is_err());
    assert_eq!(counts(&api), (1, 0, 0, 0));
    assert_eq!(poll(pin!(api.call(async || Ok::<_, Reply>(1), classify))), Poll::Ready(Ok(1)));
}

#[test]
fn the_mode_counts_from_a_calls_next_step_on() {
    let _clock = clock();
    let api = api(|builder| builder);
    let call = || api.call(async || Err::<(), _>(Reply::OVERLOADED), classify);
    {
        let mut call = pin!(call());
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!(counts(&api), (1, 0, 0, 1));
        api.set_mode(Mode::Off);
        pass(MS(300));
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!(counts(&api), (1, 0, 0, 0), "off, a retry gives its place back and counts nothing");
        api.set_mode(Mode::Enforce);
        pass(MS(300));
        let Poll::Ready(Err(Error::Failed { report, .. })) = poll(call.as_mut()) else { panic!("not over") };
        assert_eq!((report.stop, report.attempts), (Stop::AttemptsSpent, 3));
        assert_eq!(counts(&api), (2, 0, 0, 0), "a retry that nobody reserved is a request");
    }
    assert_eq!(api.policy().mode(), Mode::Enforce);
}

mod cloud {
    use forbear_embassy::forbear::{Config, ConfigBuilder, settings};

    const fn with_attempts(most: u32) -> ConfigBuilder {
        Config::overload().to_builder().max_attempts(most)
    }

    settings! {
        /// Of one attempt.
        #[derive(PartialEq, Eq)]
        #[must_use]
        pub(crate) struct Once = with_attempts(1)
    }
    settings! { pub(super) struct Twice = with_attempts(2) }
}

#[test]
fn a_configuration_is_a_value_a_reference_or_a_type() {
    let _clock = clock();
    static CONFIG: Config = Config::retrying();
    let refers: Client<_, NoopRawMutex, Window, &'static Config> = Client::new(&CONFIG, ScriptedRng::new(HIGH));
    let once: Client<_, NoopRawMutex, Window, _> = Client::new(cloud::Once, ScriptedRng::new(HIGH));
    let twice: Client<_, NoopRawMutex, Window, _> = Client::new(cloud::Twice, ScriptedRng::new(HIGH));
    assert_eq!(refers.policy().config().max_attempts(), CONFIG.max_attempts());
    let sends = Cell::new(0);
    let send = async || {
        sends.set(sends.get() + 1);
        Err::<(), _>(Reply::OVERLOADED)
    };
    assert!(poll(pin!(once.call(send, classify))).is_ready());
    assert_eq!(sends.take(), 1);
    assert!(poll(pin!(twice.call(send, classify))).is_ready());
    assert_eq!(sends.take(), 2);
    assert!(poll(pin!(refers.call(send, classify))).is_pending(), "in its backoff");
    assert!(size_of_val(&refers) <= size_of_val(&once) + size_of::<usize>());
}

#[test]
fn every_task_on_every_executor_is_counted() {
    const TASKS: u32 = 4;
    const CALLS: u32 = 2_000;
    static API: Client<ScriptedRng<'static>, CriticalSectionRawMutex> =
        Client::new(Config::resilient(), ScriptedRng::new(HIGH));
    let _clock = clock();
    std::thread::scope(|threads| {
        for _ in 0..TASKS {
            threads.spawn(|| {
                for _ in 0..CALLS {
                    assert_eq!(poll(pin!(API.call(async || Ok::<_, Reply>(1), classify))), Poll::Ready(Ok(1)));
                }
            });
        }
    });
    let all = TASKS * CALLS;
    assert_eq!((API.counts().requests, API.counts().accepts, API.counts().in_flight), (all, all, 0));
}
