//! Firmware that posts the readings of two sensors to a cloud API through forbear, and reports by semihosting what became
//! of each call.
#![no_std]
#![no_main]

mod board;
mod cloud;
mod lan9118;
mod say;
mod scenario;
mod sensor;
mod ticks;

use cortex_m_semihosting::debug;
use embassy_executor::Spawner;
use embassy_net::{Config, Ipv4Address, Ipv4Cidr, Runner, Stack, StackResources, StaticConfigV4};
use forbear_embassy::{Client, seed};
use panic_semihosting as _;
use rand_core::SeedableRng as _;
use static_cell::StaticCell;

use crate::cloud::{Cloud, Connections};
use crate::lan9118::Lan9118;
use crate::sensor::{Api, Settings, Window};

/// Unique to the device, as a board's own would be.
const ADDRESS: [u8; 6] = [0x02, 0x00, 0x5E, 0x10, 0x00, 0x01];

#[embassy_executor::task]
async fn network(mut runner: Runner<'static, Lan9118>) -> ! {
    runner.run().await
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let mut core = cortex_m::Peripherals::take().expect("taken once");
    ticks::start(&mut core.SYST);
    let (port, entropy) = arguments().expect("arguments: PORT ENTROPY");
    let seed = seed(&ADDRESS, entropy).expect("an address is an id");

    let stack = network_up(spawner, seed);
    stack.wait_config_up().await;
    static CONNECTIONS: StaticCell<Connections> = StaticCell::new();
    let connections: &'static Connections = CONNECTIONS.init(Connections::new());
    let cloud = || Cloud::new(stack, connections, port);

    static API: StaticCell<Api> = StaticCell::new();
    let rng = rand_xoshiro::Xoshiro128PlusPlus::seed_from_u64(seed);
    let api: &'static Api = API.init(Client::with_window(Settings, rng, Window::of_len()));

    scenario::play(spawner, api, cloud).await;
    debug::exit(debug::EXIT_SUCCESS);
}

/// What differs from run to run comes by the emulator's command line: the server's port, and entropy.
fn arguments() -> Option<(u16, u64)> {
    let mut buffer = [0; 64];
    let mut words = board::command_line(&mut buffer)?.split_ascii_whitespace().skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

fn network_up(spawner: Spawner, seed: u64) -> Stack<'static> {
    let device = Lan9118::start(ADDRESS).expect("the board has an Ethernet controller");
    let address = Config::ipv4_static(StaticConfigV4 {
        address: Ipv4Cidr::new(Ipv4Address::new(10, 0, 2, 15), 24),
        gateway: Some(Ipv4Address::new(10, 0, 2, 2)),
        dns_servers: Default::default(),
    });
    static RESOURCES: StaticCell<StackResources<4>> = StaticCell::new();
    let (stack, runner) = embassy_net::new(device, address, RESOURCES.init(StackResources::new()), seed);
    spawner.spawn(network(runner).expect("spawned once"));
    stack
}
