//! Any text as header fields.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forbear_fuzz::retry_after(bytes));
