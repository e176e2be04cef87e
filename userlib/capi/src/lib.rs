//! librma2: the library's ports, connections, regions and notifications as C programs know them (spec 10).
//!
//! Handles that come from C are looked up, never followed: ports, connections and descriptors live in address ranges
//! of their own whose places are not used twice (`slab`), regions are known by their address (`registry`). So a
//! null, foreign or stale handle is an error code. Nothing on the way of posting and probing allocates.
//!
//! Pointers for results are null or valid, as in every C interface; `ffi` is where they are followed.

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
