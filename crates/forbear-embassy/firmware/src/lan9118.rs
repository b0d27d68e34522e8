//! An embassy-net driver for the LAN9118, as far as QEMU models it: one packet at a time, through the FIFOs.

use core::task::Context;

use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, RxToken, TxToken};
use embassy_sync::waitqueue::AtomicWaker;

use crate::board::{ethernet_read as read, ethernet_unmask, ethernet_write as write};

const RX_DATA: usize = 0x00;
const TX_DATA: usize = 0x20;
const RX_STATUS: usize = 0x40;
const TX_STATUS: usize = 0x48;
const IRQ_CFG: usize = 0x54;
const INT_STS: usize = 0x58;
const INT_EN: usize = 0x5C;
const BYTE_TEST: usize = 0x64;
const FIFO_INT: usize = 0x68;
const TX_CFG: usize = 0x70;
const HW_CFG: usize = 0x74;
const RX_FIFO_INF: usize = 0x7C;
const TX_FIFO_INF: usize = 0x80;
const MAC_CSR_CMD: usize = 0xA4;
const MAC_CSR_DATA: usize = 0xA8;

/// In `INT_STS` and `INT_EN`: the receive status FIFO is above its level, which is zero packets.
const RX_READY: u32 = 1 << 3;
const MAC_BUSY: u32 = 1 << 31;

const FRAME: usize = 1514;
/// A frame and its checksum, in whole words.
const BUFFER: usize = (FRAME + 4).next_multiple_of(4);

static ARRIVED: AtomicWaker = AtomicWaker::new();

/// Silences the controller until the driver has looked.
pub fn interrupted() {
    write(INT_EN, 0);
    ARRIVED.wake();
}

/// The controller, running.
pub struct Lan9118 {
    address: [u8; 6],
}

impl Lan9118 {
    /// Resets the controller and starts it; none where there is no such controller.
    pub fn start(address: [u8; 6]) -> Option<Self> {
        if read(BYTE_TEST) != 0x8765_4321 {
            return None;
        }
        write(HW_CFG, 1);
        while read(HW_CFG) & 1 != 0 {}
        // A bit that has to be one, and 5 KiB for sending.
        write(HW_CFG, 1 << 20 | 5 << 16);
        write(FIFO_INT, 0);
        write(INT_STS, !0);
        // Enabled, active high, push-pull.
        write(IRQ_CFG, 1 << 8 | 1 << 4 | 1);
        write(TX_CFG, 1 << 1);
        let [a, b, c, d, e, f] = address;
        mac_write(3, u32::from_le_bytes([a, b, c, d]));
        mac_write(2, u32::from_le_bytes([e, f, 0, 0]));
        // Full duplex, sender and receiver on.
        mac_write(1, 1 << 20 | 1 << 3 | 1 << 2);
        ethernet_unmask();
        Some(Self { address })
    }
}

fn mac_write(register: u32, value: u32) {
    while read(MAC_CSR_CMD) & MAC_BUSY != 0 {}
    write(MAC_CSR_DATA, value);
    write(MAC_CSR_CMD, MAC_BUSY | register);
    while read(MAC_CSR_CMD) & MAC_BUSY != 0 {}
}

/// The oldest frame in the receive FIFO.
pub struct Received;

impl RxToken for Received {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, take: F) -> R {
        let mut buffer = [0; BUFFER];
        let length = (read(RX_STATUS) >> 16 & 0x3FFF) as usize;
        let mut words = buffer.chunks_exact_mut(4);
        for _ in 0..length.div_ceil(4) {
            let word = read(RX_DATA).to_le_bytes();
            if let Some(place) = words.next() {
                place.copy_from_slice(&word);
            }
        }
        let frame = length.saturating_sub(4).min(FRAME);
        take(&mut buffer[..frame])
    }
}

/// Room for one frame in the send FIFO.
pub struct Sendable;

impl TxToken for Sendable {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut buffer = [0; BUFFER];
        let filled = fill(&mut buffer[..length]);
        // First and last segment of its frame, then its length again as a tag.
        write(TX_DATA, 1 << 13 | 1 << 12 | length as u32);
        write(TX_DATA, length as u32);
        for word in buffer[..length.next_multiple_of(4)].chunks_exact(4) {
            write(TX_DATA, u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        }
        while read(TX_FIFO_INF) >> 16 & 0xFF != 0 {
            read(TX_STATUS);
        }
        filled
    }
}

impl Driver for Lan9118 {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sendable;

    fn receive(&mut self, context: &mut Context<'_>) -> Option<(Received, Sendable)> {
        ARRIVED.register(context.waker());
        // Acknowledged before looking: what arrives after the look interrupts again.
        write(INT_STS, RX_READY);
        let waiting = read(RX_FIFO_INF) >> 16 & 0xFF;
        if waiting == 0 {
            write(INT_EN, RX_READY);
            return None;
        }
        Some((Received, Sendable))
    }

    fn transmit(&mut self, _: &mut Context<'_>) -> Option<Sendable> {
        // The model sends a frame as it is written, so there is always room.
        Some(Sendable)
    }

    fn link_state(&mut self, _: &mut Context<'_>) -> LinkState {
        LinkState::Up
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.max_transmission_unit = FRAME;
        capabilities.max_burst_size = Some(1);
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ethernet(self.address)
    }
}
