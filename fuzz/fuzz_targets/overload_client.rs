//! Whole calls of the first specification.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forbear_fuzz::overload_client(bytes));
