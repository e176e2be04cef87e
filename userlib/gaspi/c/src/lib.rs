//! GASPI.h: `ggas-gaspi` as C programs know it.
//!
//! Each function has two names, `gaspi_X` and `pgaspi_X` (helpers one); the first becomes weak when the library is linked. Pointers for
//! results are null or valid, as in every C interface, and need not be aligned.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod collective;
mod config;
mod ffi;
mod gpu;
mod info;
mod numa;
mod print;
mod process;
mod segment;
mod threads;
mod transfer;
