//! Sends once a second, and retries nothing.
#![no_std]
#![no_main]

use core::hint::black_box;

use embassy_executor::Spawner;
use embassy_time::Timer;
use forbear_size::Radio;

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let mut radio = Radio::start();
    loop {
        black_box(radio.send().await.is_ok());
        Timer::after_ticks(32_768).await;
    }
}
