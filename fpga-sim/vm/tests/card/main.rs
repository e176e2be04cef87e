//! The card as a virtual machine sees it. One program: linking takes longer than compiling each of these.

#[path = "../common/mod.rs"]
mod common;

mod device;
mod events;
mod host;
mod protocol;
