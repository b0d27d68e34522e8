//! What the programs have in common: a clock, a generator, and something to send.
#![no_std]

use core::cell::RefCell;
use core::task::Waker;

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;
use critical_section::Mutex;
use embassy_time::Timer;
use embassy_time_driver::{Driver, time_driver_impl};
use embassy_time_queue_utils::Queue;
use panic_halt as _;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro128PlusPlus;

struct State {
    now: u64,
    queue: Queue,
}

struct Ticks(Mutex<RefCell<State>>);

time_driver_impl!(static TICKS: Ticks = Ticks(Mutex::new(RefCell::new(State { now: 0, queue: Queue::new() }))));

impl Ticks {
    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        critical_section::with(|token| change(&mut self.0.borrow_ref_mut(token)))
    }
}

impl Driver for Ticks {
    fn now(&self) -> u64 {
        self.with(|state| state.now)
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        self.with(|state| state.queue.schedule_wake(at, waker));
    }
}

#[exception]
fn SysTick() {
    TICKS.with(|state| {
        state.now += 1;
        state.queue.next_expiration(state.now);
    });
}

/// A generator.
#[inline(never)]
pub fn generator() -> Xoshiro128PlusPlus {
    Xoshiro128PlusPlus::seed_from_u64(SYST::get_current().into())
}

fn tick(systick: &mut SYST) {
    systick.set_clock_source(SystClkSource::Core);
    systick.set_reload(762);
    systick.clear_current();
    systick.enable_counter();
    systick.enable_interrupt();
}

/// The backend is overloaded.
#[derive(Debug)]
pub struct Overloaded;

/// In place of a driver: takes time, borrows mutably, and fails now and then.
pub struct Radio {
    rng: Xoshiro128PlusPlus,
}

impl Radio {
    /// A radio, and a clock that runs.
    pub fn start() -> Self {
        if let Some(mut core) = cortex_m::Peripherals::take() {
            tick(&mut core.SYST);
        }
        Self { rng: generator() }
    }

    /// Sends.
    #[inline(never)]
    pub async fn send(&mut self) -> Result<u32, Overloaded> {
        Timer::after_ticks(33).await;
        match self.rng.next_u64() {
            x if x % 4 == 0 => Err(Overloaded),
            x => Ok(x as u32),
        }
    }
}
