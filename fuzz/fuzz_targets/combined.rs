//! Overlapping calls of the whole machine.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forbear_fuzz::combined(bytes));
