//! The simulation: a fleet against a backend, event by event, in virtual time.
//!
//! Arrivals are one Poisson process for the fleet, and each falls on a client at random: the same as a process for every client, at
//! the cost of one. What happens later (answers, timeouts, retries) waits in a wheel of milliseconds, rounded up as a timer does.
//! An event costs the same whatever the size of the fleet, but for the caches of the machine.

use std::time::Duration;

use forbear::{Instant, Reply};
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use super::{
    backend::{Backend, Build, Fate},
    record::{Record, Second},
    strategies::{Attempts, Client, Draws, Move},
    weather::{Forecast, Weather},
    wheel::Wheel,
};

/// What is simulated, all but the strategy and the seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Scenario {
    pub(super) clients: u32,
    pub(super) seconds: u32,
    pub(super) forecast: Forecast,
    pub(super) backend: Build,
    /// Nobody waits longer for an answer: the timeout of every attempt.
    pub(super) timeout: Duration,
}

const SECOND: u64 = 1_000_000_000;
const TICK: u64 = 1_000_000;
const TICKS: u64 = SECOND / TICK;

/// So many arrivals know their clients ahead: the clients' memory is fetched while there is still something else to do.
const AHEAD: usize = 16;

/// A call that waits for something.
struct Waiting<C> {
    call: C,
    sends: u32,
    /// What it is told when its time has come; `None` for one that waits to try again.
    reply: Option<Reply>,
}

/// A fleet, its backend, and what is pending between them.
struct Simulation<'c, C: Client + 'c> {
    clients: &'c [C],
    timeout: Duration,
    backend: Backend,
    weather: Weather,
    wheel: Wheel<Waiting<C::Call<'c>>>,
    /// Draws of the clients.
    draws: Draws,
    /// What is up to chance in the backend.
    chance: Xoshiro256PlusPlus,
    now: u64,
    /// The end of the tick that is under way: what is put in the wheel is due then or later.
    tick: u64,
    bin: Second,
    attempts: u64,
}

/// Simulates until the end, or until `go_on` says so after a second.
///
/// The same arguments give the same record. Arrivals depend on the seed alone, so that every strategy meets the same demand.
pub(super) fn simulate<C: Client>(
    clients: &[C],
    scenario: &Scenario,
    seed: u64,
    mut go_on: impl FnMut(&Record) -> bool,
) -> Record {
    // Four independent streams out of one seed.
    let mut arrivals = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut chance = arrivals.clone();
    chance.jump();
    let mut draws = chance.clone();
    draws.jump();
    let mut dice = draws.clone();
    dice.jump();

    let mut simulation = Simulation {
        clients,
        timeout: scenario.timeout,
        backend: Backend::new(scenario.backend),
        weather: scenario.forecast.at(0),
        wheel: Wheel::new(),
        draws,
        chance,
        now: 0,
        tick: 0,
        bin: Second::default(),
        attempts: 0,
    };
    let mut record = Record::default();
    let mut due = Vec::new();
    let mut callers = Vec::with_capacity(AHEAD);
    let mut arrival = Arrival { at: 0, left: Exp1.sample(&mut arrivals), gap: f64::INFINITY };
    for second in 0..scenario.seconds {
        simulation.weather = scenario.forecast.at(second);
        arrival.change(u64::from(second) * SECOND, simulation.weather.demand);
        for tick in u64::from(second) * TICKS..u64::from(second + 1) * TICKS {
            simulation.now = tick * TICK;
            simulation.tick = tick;
            simulation.wheel.take(tick, &mut due);
            let mut woken = due.drain(..);
            while !woken.as_slice().is_empty() {
                woken.as_slice().iter().take(AHEAD).for_each(|waiting| waiting.call.touch());
                woken.by_ref().take(AHEAD).for_each(|waiting| simulation.wake(waiting));
            }
            while arrival.at < (tick + 1) * TICK {
                if callers.is_empty() {
                    simulation.expect(&mut callers, &mut dice);
                }
                simulation.now = arrival.at;
                if let Some(client) = callers.pop() {
                    simulation.arrive(client);
                }
                arrival.next(&mut arrivals);
            }
        }
        record.seconds.push(core::mem::take(&mut simulation.bin));
        record.weather.push(simulation.weather);
        record.attempts = simulation.attempts;
        if !go_on(&record) {
            break;
        }
    }
    record
}

/// The next arrival of a process whose rate changes from second to second.
struct Arrival {
    /// When it comes, in nanoseconds.
    at: u64,
    /// What is left until then, in mean gaps, as of the last change.
    left: f64,
    /// The mean gap in nanoseconds.
    gap: f64,
}

impl Arrival {
    /// From `now` on there are `rate` arrivals a second.
    fn change(&mut self, now: u64, rate: f64) {
        let gap = SECOND as f64 / rate;
        if gap == self.gap {
            return;
        }
        if self.gap.is_finite() {
            self.left = self.at.saturating_sub(now) as f64 / self.gap;
        }
        self.gap = gap;
        self.at = if gap.is_finite() { now + (self.left * gap) as u64 } else { u64::MAX };
    }

    fn next(&mut self, arrivals: &mut Xoshiro256PlusPlus) {
        let left: f64 = Exp1.sample(arrivals);
        self.at += (left * self.gap) as u64;
    }
}

impl<'c, C: Client> Simulation<'c, C> {
    /// Throws the dice for the next arrivals, and lets those whom they fall on get ready.
    fn expect(&self, callers: &mut Vec<usize>, dice: &mut Xoshiro256PlusPlus) {
        let all = self.clients.len() as u128;
        callers.extend((0..AHEAD).map(|_| ((u128::from(dice.next_u64()) * all) >> 64) as usize));
        // One pass after the other: where a pass has branches on what it reads, the next client is not read ahead of them.
        for &client in callers.iter() {
            self.clients[client].touch();
        }
        let now = Instant::from_origin(Duration::from_nanos(self.tick * TICK));
        for &client in callers.iter() {
            self.clients[client].expire(now);
        }
    }

    fn arrive(&mut self, client: usize) {
        self.bin.calls += 1;
        let call = self.clients[client].call();
        self.go_on(call, 0, false);
    }

    fn wake(&mut self, waiting: Waiting<C::Call<'c>>) {
        let Waiting { mut call, sends, reply } = waiting;
        let mut served = false;
        if let Some(reply) = reply {
            call.reply(self.instant(), reply);
            served = is_served(reply);
        }
        self.go_on(call, sends, served);
    }

    /// Takes a call as far as it goes now.
    #[inline]
    fn go_on(&mut self, mut call: C::Call<'c>, mut sends: u32, mut served: bool) {
        let now = self.instant();
        loop {
            self.attempts += 1;
            match call.next(now, &mut self.draws) {
                Move::Send { within } => {
                    sends += 1;
                    self.bin.sent += 1;
                    let within = within.map_or(self.timeout, |within| within.min(self.timeout));
                    let (reply, after) = match self.backend.send(self.now, &self.weather, &mut self.chance) {
                        Fate::Answered { reply, after } if after <= within => {
                            self.bin.accepted += u64::from(reply.is_accepted());
                            (reply, after)
                        }
                        // Too late or never: it is told so by its own timer, and what was done for it is lost.
                        Fate::Answered { .. } | Fate::Unanswered => (Reply::UNREACHABLE, within),
                    };
                    if !after.is_zero() {
                        return self.later(after, Waiting { call, sends, reply: Some(reply) });
                    }
                    call.reply(now, reply);
                    served = is_served(reply);
                }
                Move::Wait(wait) => {
                    self.attempts -= 1;
                    return self.later(wait, Waiting { call, sends, reply: None });
                }
                Move::Done => {
                    // The end of a call that was sent is no attempt; the refusal of one that was not is.
                    self.attempts -= u64::from(sends > 0);
                    self.bin.served += u64::from(served);
                    self.bin.refused += u64::from(sends == 0);
                    return;
                }
            }
        }
    }

    fn later(&mut self, after: Duration, waiting: Waiting<C::Call<'c>>) {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let due = self.now.saturating_add(after).div_ceil(TICK);
        self.wheel.insert(due.max(self.tick + 1), waiting);
    }

    fn instant(&self) -> Instant {
        Instant::from_origin(Duration::from_nanos(self.now))
    }
}

/// Whether a call that ends with this reply ends well.
fn is_served(reply: Reply) -> bool {
    reply == Reply::ACCEPTED
}

#[cfg(test)]
mod tests {
    use forbear::Config;

    use super::{
        super::{
            strategies::{Forbear, Plain},
            weather::{Change, Event},
        },
        *,
    };

    fn scenario(demand: f64, capacity: f64, seconds: u32) -> Scenario {
        Scenario {
            clients: 10,
            seconds,
            forecast: Forecast { demand, capacity, flip: None, events: Vec::new() },
            backend: Build::PLAIN,
            timeout: Duration::from_secs(30),
        }
    }

    fn plain(attempts: u32, scenario: &Scenario, seed: u64) -> Record {
        simulate(&vec![Plain { attempts }; scenario.clients as usize], scenario, seed, |_| true)
    }

    fn total(record: &Record, count: fn(&Second) -> u64) -> u64 {
        record.seconds.iter().map(count).sum()
    }

    #[test]
    fn demand_is_poisson_at_the_rate_asked_for() {
        let mut scenario = scenario(100.0, 1e6, 1_000);
        scenario.forecast.events = vec![Event { seconds: 500..600, change: Change::Demand(0.0) }];
        let record = plain(1, &scenario, 1);
        let calls: Vec<_> = record.seconds[..500].iter().map(|s| s.calls as f64).collect();
        let mean = calls.iter().sum::<f64>() / 500.0;
        let variance = calls.iter().map(|calls| (calls - mean).powi(2)).sum::<f64>() / 499.0;
        assert!((98.6..101.4).contains(&mean), "{mean}");
        assert!((80.0..120.0).contains(&variance), "{variance}");
        assert_eq!(total(&Record { seconds: record.seconds[500..600].to_vec(), ..record.clone() }, |s| s.calls), 0);
        assert!(record.seconds[600].calls > 60);
    }

    #[test]
    fn the_same_seed_gives_the_same_record_and_another_does_not() {
        let mut scenario = scenario(200.0, 100.0, 60);
        scenario.backend.overloaded = 0.1;
        assert_eq!(plain(3, &scenario, 7), plain(3, &scenario, 7));
        assert_ne!(plain(3, &scenario, 7), plain(3, &scenario, 8));
    }

    #[test]
    fn an_outage_triples_the_load_of_plain_retries() {
        let mut scenario = scenario(100.0, 1_000.0, 20);
        scenario.forecast.events = vec![Event { seconds: 10..20, change: Change::Outage }];
        let record = plain(3, &scenario, 1);
        for (i, second) in record.seconds.iter().enumerate() {
            let (sends, served) = if i < 10 { (1, second.calls) } else { (3, 0) };
            // Early bursts may be refused: nothing is saved up yet.
            assert!(i == 0 || (second.sent, second.served) == (sends * second.calls, served), "{i}: {second:?}");
        }
        assert_eq!(record.attempts, total(&record, |s| s.sent));
    }

    #[test]
    fn an_answer_takes_its_time_and_no_answer_serves_nobody() {
        let mut scenario = scenario(100.0, 1_000.0, 10);
        scenario.backend = Build { latency: Duration::from_millis(2_500), silent: 1.0, ..Build::PLAIN };
        assert_eq!(total(&plain(3, &scenario, 1), |s| s.served), 0);
        scenario.backend.silent = 0.0;
        let record = plain(1, &scenario, 1);
        assert_eq!(record.seconds[1].served, 0);
        assert!(record.seconds[4].served > 60);
    }

    #[test]
    fn an_attempt_timeout_of_the_core_is_kept() {
        let mut scenario = scenario(50.0, 1_000.0, 30);
        scenario.backend.silent = 1.0;
        let timeout = Duration::from_millis(100);
        let config = Config::retrying().to_builder().attempt_timeout(timeout).build().expect("valid");
        let clients: Vec<_> = (0..10).map(|_| Forbear::<120>::new(config)).collect();
        let record = simulate(&clients, &scenario, 1, |_| true);
        assert_eq!(total(&record, |s| s.accepted), 0);
        // All but the last calls give up twice in the time that the scenario would have an attempt wait.
        assert!(total(&record, |s| s.sent) > total(&record, |s| s.calls) * 28 / 10);
    }

    #[test]
    fn an_attempt_is_sent_or_refused_and_a_wait_is_none() {
        let mut scenario = scenario(50.0, 100.0, 60);
        scenario.forecast.events = vec![Event { seconds: 20..40, change: Change::Outage }];
        let clients: Vec<_> = (0..10).map(|_| Forbear::<30>::new(Config::resilient())).collect();
        let record = simulate(&clients, &scenario, 1, |_| true);
        let (sent, refused) = (total(&record, |s| s.sent), total(&record, |s| s.refused));
        assert!(sent > total(&record, |s| s.calls) - refused, "some were sent again");
        assert!(refused > 100, "{refused}");
        assert_eq!(record.attempts, sent + refused);
    }

    #[test]
    fn ends_when_told_to() {
        let record = simulate(&[Plain { attempts: 1 }], &scenario(10.0, 10.0, 100), 1, |r| r.seconds.len() < 7);
        assert_eq!(record.seconds.len(), 7);
    }

    /// A client that gets no time to prepare.
    struct Unprepared(Forbear<30>);

    impl Client for Unprepared {
        type Call<'c> = <Forbear<30> as Client>::Call<'c>;

        fn call(&self) -> Self::Call<'_> {
            self.0.call()
        }
    }

    #[test]
    fn to_prepare_a_client_changes_nothing() {
        let mut scenario = scenario(50.0, 40.0, 200);
        scenario.backend.latency = Duration::from_millis(300);
        scenario.forecast.events = vec![Event { seconds: 60..100, change: Change::Outage }];
        let client = || Forbear::new(Config::resilient());
        let prepared: Vec<_> = (0..10).map(|_| client()).collect();
        let unprepared: Vec<_> = (0..10).map(|_| Unprepared(client())).collect();
        assert_eq!(simulate(&prepared, &scenario, 1, |_| true), simulate(&unprepared, &scenario, 1, |_| true));
    }
}
