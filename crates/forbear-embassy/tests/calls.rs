//! Calls on embassy-time's mock clock: when they send, what cuts them, and what they leave when they are dropped.

use core::cell::{Cell, RefCell};
use core::future::{Future, pending};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use embassy_time::{MockDriver, Timer};
use forbear::testing::ScriptedRng;
use forbear::{Config, ConfigBuilder, Counts, Error, Reply, Stop};
use forbear_embassy::{Client, CriticalSectionRawMutex, NoopRawMutex};

type Api = Client<ScriptedRng<'static>>;

/// No draw is rejected, and every jitter is the longest.
const HIGH: &[u64] = &[u64::MAX];

const MS: fn(u64) -> Duration = Duration::from_millis;

/// embassy-time has one clock for the whole program: a test holds it until its end.
fn clock() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    MockDriver::get().reset();
    alone
}

fn pass(time: Duration) {
    MockDriver::get().advance(time.try_into().unwrap());
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn api(change: impl Fn(ConfigBuilder) -> ConfigBuilder) -> Api {
    // One request is enough for one retry, and waits are as told.
    let builder = Config::resilient().to_builder().retry_after_jitter(false);
    Client::new(change(builder).build().unwrap(), ScriptedRng::new(HIGH))
}

fn counts(api: &Api) -> (u32, u32, u32, u32) {
    let Counts { requests, accepts, retries, waiting, .. } = api.counts();
    (requests, accepts, retries, waiting)
}

/// The reply itself is the error.
fn classify<T>(result: &Result<T, Reply>) -> Reply {
    match result {
        Ok(_) => Reply::ACCEPTED,
        Err(reply) => *reply,
    }
}

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
fn a_wait_that_is_dropped_goes_on_when_it_is_asked_again() {
    let _clock = clock();
    let api = api(|builder| builder);
    let mut call = api.begin();
    assert_eq!(poll(pin!(call.ready())), Poll::Ready(true));
    call.reply(Reply::OVERLOADED.after(MS(500)));
    for _ in 0..5 {
        assert!(poll(pin!(call.ready())).is_pending());
        pass(MS(100));
    }
    pass(Duration::from_micros(2));
    assert_eq!(poll(pin!(call.ready())), Poll::Ready(true));
    assert_eq!(call.finish(Some(Ok::<_, ()>(7))), Ok(7));
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
