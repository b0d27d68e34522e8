//! Sends once a second, and retries with the exponential backoff and jitter of backon.
#![no_std]
#![no_main]

use core::hint::black_box;
use core::time::Duration;

use backon::{EmbassySleeper, ExponentialBuilder, RetryableWithContext as _};
use embassy_executor::Spawner;
use embassy_time::Timer;
use forbear_size::{Overloaded, Radio};

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let mut radio = Radio::start();
    let backoff = ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(2))
        .with_max_times(2);
    loop {
        // It lends nothing to its futures, so the radio goes in and comes out again.
        let send = |mut radio: Radio| async move {
            let answer = radio.send().await;
            (radio, answer)
        };
        let (back, answer) = send.retry(backoff).context(radio).sleep(EmbassySleeper).when(|_: &Overloaded| true).await;
        radio = back;
        black_box(answer.is_ok());
        Timer::after_ticks(32_768).await;
    }
}
