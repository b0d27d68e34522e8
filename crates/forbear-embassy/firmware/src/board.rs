//! The board, mps2-an385: everything that needs `unsafe`, and nothing else.
#![allow(unsafe_code, reason = "registers, interrupts and semihosting calls")]

use core::ptr::{read_volatile, write_volatile};

use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::NVIC;
use cortex_m_rt::exception;
use cortex_m_semihosting::{nr, syscall};

/// What the core and SysTick run at.
pub const CORE_HZ: u32 = 25_000_000;

const ETHERNET: usize = 0x4020_0000;
const ETHERNET_REGISTERS: usize = 0x100;

/// The interrupt line of the Ethernet controller.
#[derive(Clone, Copy)]
struct EthernetLine;

// SAFETY: the board wires its Ethernet controller to line 13.
unsafe impl InterruptNumber for EthernetLine {
    fn number(self) -> u16 {
        13
    }
}

/// Reads the Ethernet controller's register at `offset`.
pub fn ethernet_read(offset: usize) -> u32 {
    assert!(offset < ETHERNET_REGISTERS && offset.is_multiple_of(4));
    // SAFETY: an aligned register inside the controller, which is always mapped.
    unsafe { read_volatile((ETHERNET + offset) as *const u32) }
}

/// Writes the Ethernet controller's register at `offset`.
pub fn ethernet_write(offset: usize, value: u32) {
    assert!(offset < ETHERNET_REGISTERS && offset.is_multiple_of(4));
    // SAFETY: as for reading; the controller has no access to memory of its own.
    unsafe { write_volatile((ETHERNET + offset) as *mut u32, value) }
}

/// Lets the Ethernet controller interrupt.
pub fn ethernet_unmask() {
    // SAFETY: called outside of critical sections, and no code relies on the line being masked.
    unsafe { NVIC::unmask(EthernetLine) }
}

/// The only interrupt besides SysTick.
// SAFETY: cortex-m-rt asks for the word; the handler touches nothing that is not shared safely.
#[exception]
unsafe fn DefaultHandler(_line: i16) {
    crate::lan9118::interrupted();
}

/// The command line that the emulator was given, or none where it is longer than `buffer` or not text.
pub fn command_line(buffer: &mut [u8]) -> Option<&str> {
    #[repr(C)]
    struct Block {
        at: *mut u8,
        len: usize,
    }
    let block = Block { at: buffer.as_mut_ptr(), len: buffer.len() };
    // SAFETY: the host writes at most `len` bytes at `at`, which are ours, and the length of the text to `len`.
    let failed = unsafe { syscall(nr::GET_CMDLINE, &block) };
    if failed != 0 {
        return None;
    }
    let end = buffer.iter().position(|&byte| byte == 0)?;
    core::str::from_utf8(&buffer[..end]).ok()
}
