//! gmpi.h: `ggas-gmpi` as C and C++ programs know it.
//!
//! Pointers for results are null or valid, as in every C interface, and need not be aligned.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod comm;
mod error;
mod ffi;
mod host;
mod memory;
mod run;
