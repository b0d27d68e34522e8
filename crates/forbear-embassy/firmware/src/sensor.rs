//! A sensor: reads, posts the reading through the client that all sensors share, and reports the outcome.

use core::cell::Cell;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_time::{Instant, Timer};
use forbear_embassy::Client;
use forbear_embassy::forbear::{self, Config, Error, Recovery, Reply, Stop, settings};
use heapless::String;
use rand_xoshiro::Xoshiro128PlusPlus;

use crate::cloud::{Cloud, Failure};
use crate::say;
use crate::scenario::{Done, Phase};

pub const SENSORS: usize = 2;

/// Short, so that a run is.
pub const WINDOW_SECONDS: usize = 10;

/// What the policy counts in.
pub type Window = forbear::Window<WINDOW_SECONDS, u16>;

/// One for all sensors: they call the same backend.
pub type Api = Client<Xoshiro128PlusPlus, NoopRawMutex, Window, Settings>;

settings! {
    /// What a service should run, but without jitter on top of Retry-After, so that a run can show that it is kept to the
    /// tick, with a recovery as quick as the window is short, and with so few attempts that calls run out of them before
    /// anything else ends them.
    pub struct Settings = Config::resilient()
        .to_builder()
        .max_attempts(2)
        .attempt_timeout(Duration::from_millis(1_500))
        .deadline(Duration::from_secs(10))
        .recovery(Recovery::new(1, 8).expect("within range"))
        .retry_after_jitter(false)
}

/// What one phase came to, for one sensor.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub calls: u32,
    pub attempts: u32,
}

/// The calls that all sensors have begun since the reset.
static BEGUN: AtomicU32 = AtomicU32::new(0);

#[embassy_executor::task(pool_size = SENSORS)]
pub async fn sensor(id: usize, api: &'static Api, mut cloud: Cloud, phase: &'static Phase, done: &'static Done) {
    let mut tally = Tally::default();
    for call in 0..phase.calls {
        tally.calls += 1;
        tally.attempts += post(id, call, api, &mut cloud, phase).await;
        Timer::after(phase.every).await;
    }
    done.send(tally).await;
}

/// One call; returns how often it was sent.
async fn post(sensor: usize, call: u32, api: &Api, cloud: &mut Cloud, phase: &Phase) -> u32 {
    BEGUN.store(BEGUN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    let mut attempts = 0;
    // The wait that the last answer asked for, and when that came.
    let told = Cell::new(None::<(Duration, Instant)>);
    let outcome = api
        .call(
            async || {
                if let Some((asked, since)) = told.take() {
                    let (asked, waited) = (asked.as_millis(), since.elapsed().as_millis());
                    say!("wait sensor={sensor} call={call} attempt={attempts} asked_ms={asked} waited_ms={waited}");
                }
                let begun = BEGUN.load(Ordering::Relaxed);
                let mut reading = String::<96>::new();
                write!(reading, r#"{{"sensor":{sensor},"call":{call},"attempt":{attempts},"begun":{begun}}}"#)
                    .expect("a reading fits");
                attempts += 1;
                cloud.post_reading(&reading).await
            },
            |result| match result {
                Ok(()) => Reply::ACCEPTED,
                // A reading has its number, so it may be sent twice although POST may not.
                Err(failure) => {
                    if let Failure::Status { retry_after: Some(wait), .. } = failure {
                        told.set(Some((*wait, Instant::now())));
                    }
                    failure.reply()
                }
            },
        )
        .await;
    let stop = match &outcome {
        Ok(()) => Stop::Accepted.as_str(),
        Err(Error::TimedOut(_)) => "timed_out",
        Err(error) => error.report().stop.as_str(),
    };
    say!("call phase={} sensor={sensor} call={call} stop={stop} attempts={attempts}", phase.name);
    attempts
}
