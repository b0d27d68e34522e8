//! Operations on the lock-free window.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forbear_fuzz::atomic_window(bytes));
