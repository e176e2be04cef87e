//! librma2: the library's ports, connections, regions and notifications as C programs know them (spec 10).
//!
//! Handles that come from C are looked up, never dereferenced unchecked. Ports, connections and descriptors have
//! addresses in ranges of their own that are not soon reused (`slab`); regions are found by their address (`registry`).
//! So a null, foreign or stale handle gives an error code. Posting and probing do not allocate.
//!
//! Pointers for results are null or valid, as in every C interface; `ffi` dereferences them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod abi;
mod bare;
mod cache;
mod connection;
mod descriptor;
mod elf;
mod error;
mod ffi;
mod fields;
mod hooks;
mod list;
mod node;
mod notification;
mod open;
mod pages;
mod pmap;
mod port;
mod post;
mod region;
mod registry;
mod report;
mod settings;
mod slab;
mod slots;
mod stdio;
mod velo;
mod velo_error;
mod velo_port;
