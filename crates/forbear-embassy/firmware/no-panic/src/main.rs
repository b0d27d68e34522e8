//! All of the core with inputs that the compiler knows nothing about, and a handler of panics that must not be linked: the
//! linker refuses the program if any panic is left in it.
//!
//! Not in it: what formats text (`Display` and `Debug`), whose code in the standard library can panic.
#![no_std]
#![no_main]

use core::convert::Infallible;
use core::hint::black_box;
use core::panic::PanicInfo;
use core::time::Duration;

use cortex_m_rt::entry;
use forbear::budget::{self, RetryRatio};
use forbear::rand_core::TryRng;
use forbear::throttle::{self, K};
use forbear::{
    Backoff, Call, Clock, Config, ConfigBuilder, Handle, Instant, Mode, OverloadClient, Policy, Recovery, Reply, Retry,
    RetryingClient, Sleep, Step, Tally, Window, grpc, http,
};

/// Kept apart from its callers, so that it is seen where it is called.
#[panic_handler]
#[inline(never)]
fn panic(info: &PanicInfo<'_>) -> ! {
    loop {
        black_box(info);
    }
}

/// Anything at all.
fn any<T: Default>() -> T {
    black_box(T::default())
}

fn any_duration() -> Duration {
    Duration::from_secs(any()).saturating_add(Duration::from_nanos(any()))
}

fn any_reply() -> Reply {
    let reply = Reply::new(any(), black_box(Retry::Backoff));
    if any() { reply.after(any_duration()) } else { reply.once() }
}

struct AnyRng;

impl TryRng for AnyRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(any())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(any())
    }

    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
        Ok(())
    }
}

struct AnyClock;

impl Clock for AnyClock {
    fn now(&self) -> Instant {
        Instant::from_origin(any_duration())
    }
}

impl Sleep for AnyClock {
    fn sleep(&self, delay: Duration) {
        black_box(delay);
    }
}

/// Any configuration that is accepted.
fn any_config() -> Config {
    let builder: ConfigBuilder = black_box(Config::resilient()).to_builder();
    let mut builder = builder
        .k(any())
        .retry_ratio(any())
        .max_attempts(any())
        .backoff(Backoff::new(any_duration(), any_duration()))
        .deadline(any_duration())
        .attempt_timeout(any_duration())
        .max_retry_after(any_duration())
        .retry_after_jitter(any())
        .min_requests(any())
        .retry_floor(any())
        .in_flight_grace(any_duration())
        .mode(black_box(Mode::Shadow));
    if let Some(recovery) = Recovery::new(any(), any()) {
        builder = builder.recovery(recovery);
    }
    builder.build().unwrap_or(Config::overload())
}

struct Client<W>(Policy<W>);

impl<W: Tally> Handle for Client<W> {
    type Tally = W;
    type Settings = forbear::Config;

    fn policy(&self) -> &Policy<W> {
        &self.0
    }

    fn now(&self) -> Option<Instant> {
        black_box(Some(AnyClock.now()))
    }
}

/// Calls in any state, and what a policy tells.
fn calls<W: Tally>(window: W) {
    let client = Client(Policy::new(any_config(), window));
    client.0.set_mode(black_box(Mode::Off));
    let mut call = Call::new(&client);
    while any() {
        match call.next(AnyClock.now(), &mut AnyRng) {
            Step::Send { within } => {
                black_box(within);
                if any() {
                    call.reply(AnyClock.now(), any_reply());
                }
            }
            Step::Wait(wait) => {
                black_box(wait);
            }
            Step::Done(report) => {
                black_box(report.reject_probability());
                black_box(report.stop.as_str());
                let _ = black_box(report.resolve(black_box(None::<Result<u8, u8>>)));
            }
        }
    }
    if any() {
        black_box(call.abandon());
    }
    black_box(client.0.counts(AnyClock.now()));
    black_box(client.0.reject_probability(AnyClock.now()));
}

/// The first specification's client.
fn overload<W: Tally>(window: W) {
    let mut client = OverloadClient::with_window(AnyClock, AnyRng, any_config(), window);
    black_box(client.call(any_reply));
    black_box((client.requests(), client.reject_probability()));
}

/// Every operation of a window, with any numbers.
fn windows<W: Tally>(window: &W) {
    while any() {
        black_box(window.counts(any()));
        black_box(window.in_flight(any(), any()));
        black_box(window.request(any()));
        black_box(window.attempt(any(), any()));
        window.refuse(any());
        window.answer(any(), any(), any());
        window.withdraw(any());
        let _ = black_box(window.reserve(any(), |retries, requests| black_box(retries < requests)));
        black_box(window.retry(any()));
        window.release();
        black_box(window.pace(|word| (any::<bool>(), word)));
    }
}

#[entry]
fn main() -> ! {
    loop {
        windows(&Window::<1>::of_len());
        windows(&Window::<10>::of_len());
        windows(&Window::<120, u16>::of_len());
        calls(Window::<10>::of_len());
        calls(Window::<60, u16>::of_len());
        calls(());
        overload(Window::<10>::of_len());

        let mut retrying = RetryingClient::new(AnyClock, AnyRng, any_config());
        black_box(retrying.call(any::<u16>, |status| http::status(*status)));

        if let (Some(k), Some(ratio)) = (K::new(any()), RetryRatio::new(any())) {
            black_box(throttle::rejects(any(), any(), k, any()));
            black_box(throttle::reject_probability(any(), any(), k));
            black_box(throttle::unit(any()));
            black_box(budget::allows_retry(any(), any(), ratio));
        }
        let text = black_box("120");
        black_box((http::retry_after(text), http::is_repeatable(text), grpc::pushback(text)));
        let _ = black_box(grpc::code(any()));

        #[cfg(feature = "broken")]
        black_box([1, 2, 3][any::<usize>()]);
    }
}
