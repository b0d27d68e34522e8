//! embassy-time's driver: SysTick counts the ticks.

use core::cell::RefCell;
use core::task::Waker;

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;
use critical_section::Mutex;
use embassy_time_driver::{Driver, TICK_HZ, time_driver_impl};
use embassy_time_queue_utils::Queue;

use crate::board::CORE_HZ;

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
        // The next tick looks at the queue anyway, so there is no alarm to set.
        self.with(|state| state.queue.schedule_wake(at, waker));
    }
}

/// Starts the ticks.
pub fn start(systick: &mut SYST) {
    systick.set_clock_source(SystClkSource::Core);
    systick.set_reload(CORE_HZ / TICK_HZ as u32 - 1);
    systick.clear_current();
    systick.enable_counter();
    systick.enable_interrupt();
}

#[exception]
fn SysTick() {
    TICKS.with(|state| {
        state.now += 1;
        state.queue.next_expiration(state.now);
    });
}
