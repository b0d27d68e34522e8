//! Any bits as a configuration.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forbear_fuzz::config(bytes));
