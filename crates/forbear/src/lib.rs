//! Client-side overload control.
#![no_std]
