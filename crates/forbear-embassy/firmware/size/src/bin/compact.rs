//! Sends once a second through forbear: retries with backoff and jitter, retry budget, throttle; over the compact window.
#![no_std]
#![no_main]

use core::hint::black_box;

use embassy_executor::Spawner;
use embassy_time::Timer;
use forbear_embassy::forbear::{Backoff, Config, Reply, Window, settings};
use forbear_embassy::{Client, NoopRawMutex};
use forbear_size::{Radio, generator};
use rand_xoshiro::Xoshiro128PlusPlus;
use static_cell::StaticCell;

settings! { struct Cloud = Config::overload().to_builder().k(1.7).backoff(Backoff::DEFAULT) }

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let mut radio = Radio::start();
    static API: StaticCell<Client<Xoshiro128PlusPlus, NoopRawMutex, Window<120, u16>, Cloud>> = StaticCell::new();
    let api = API.init(Client::with_window(Cloud, generator(), Window::of_len()));
    loop {
        let answer = api.call(
            async || radio.send().await,
            |result| match result {
                Ok(_) => Reply::ACCEPTED,
                Err(_) => Reply::OVERLOADED,
            },
        );
        black_box(answer.await.is_ok());
        Timer::after_ticks(32_768).await;
    }
}
