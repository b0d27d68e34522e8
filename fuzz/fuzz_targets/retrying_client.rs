//! Whole calls of the second specification.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forbear_fuzz::retrying_client(bytes));
