//! The phases of a run: how the server is asked to behave, and what the sensors do meanwhile.

use embassy_executor::Spawner;
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_sync::channel::Channel;
use embassy_time::{Duration, TICK_HZ, Timer};
use static_cell::StaticCell;

use crate::cloud::Cloud;
use crate::say;
use crate::sensor::{Api, SENSORS, Tally, WINDOW_SECONDS, sensor};

/// One phase.
pub struct Phase {
    /// What the server is told.
    pub name: &'static str,
    /// For how long no sensor calls before it.
    idle: Duration,
    /// How many calls each sensor makes.
    pub calls: u32,
    /// The time between two calls of a sensor.
    pub every: Duration,
}

/// Where sensors report that a phase is over for them.
pub type Done = Channel<NoopRawMutex, Tally, SENSORS>;

/// Long enough for everything to leave the window.
const WINDOW: Duration = Duration::from_secs(WINDOW_SECONDS as u64);

/// The server is healthy, overloaded, silent, and healthy again. What it was before is forgotten before it falls silent, so
/// that the window of that phase says something about it; the last phase begins with a window full of silence.
static PHASES: [Phase; 4] = [
    Phase { name: "healthy", idle: Duration::from_ticks(0), calls: 10, every: Duration::from_millis(50) },
    Phase { name: "overloaded", idle: Duration::from_ticks(0), calls: 100, every: Duration::from_millis(40) },
    Phase { name: "silent", idle: WINDOW, calls: 25, every: Duration::from_millis(100) },
    Phase { name: "recovered", idle: Duration::from_ticks(0), calls: 80, every: Duration::from_millis(50) },
];

/// Plays all phases and reports them.
pub async fn play(spawner: Spawner, api: &'static Api, cloud: impl Fn() -> Cloud) {
    let config = api.policy().config();
    let ratio = config.retry_ratio().expect("there is a budget");
    let most = config.max_attempts();
    say!("start tick_ms={} window_s={WINDOW_SECONDS} retry_ratio={ratio} max_attempts={most}", 1_000 / TICK_HZ);
    static DONE: StaticCell<Done> = StaticCell::new();
    let done: &'static Done = DONE.init(Done::new());
    for phase in &PHASES {
        Timer::after(phase.idle).await;
        cloud().put_mode(phase.name).await.expect("the server takes the mode");
        for id in 0..SENSORS {
            spawner.spawn(sensor(id, api, cloud(), phase, done).expect("the sensors of the last phase are done"));
        }
        let mut sum = Tally::default();
        for _ in 0..SENSORS {
            let one = done.receive().await;
            sum.calls += one.calls;
            sum.attempts += one.attempts;
        }
        let (Tally { calls, attempts }, counts) = (sum, api.counts());
        let (name, requests, accepts, retries) = (phase.name, counts.requests, counts.accepts, counts.retries);
        say!(
            "phase phase={name} calls={calls} attempts={attempts} requests={requests} accepts={accepts} retries={retries}"
        );
    }
    say!("done");
}
