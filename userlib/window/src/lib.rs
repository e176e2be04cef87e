//! GGAS: a global address space over the memory of several nodes (thesis chapter 6).
//!
//! A [`Window`] gives each member a part of one address range. Where the parts can be mapped for all members'
//! kernels, plain pointers reach them; where they cannot, [`WindowInfo`] says why, and the calls that go through
//! the SMFU remain. The members of a window are nodes of this process, the processes of a job
//! ([`Window::across`]), or nodes that only their cards join ([`Window::on_nodes`]), whose kernels' accesses are the SMFU's.
//!
//! Memory that all processes map carries [RMA engines](engines_across), too.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod across;
#[cfg(test)]
mod apart;
mod cards;
mod copier;
mod engines;
mod error;
mod info;
mod member;
mod memory;
mod plan;
mod rings;
mod setup;
mod trace;
mod window;

pub use engines::engines_across;
pub use error::WindowError;
pub use extoll_abi::{Atomic, Operation, Width};
pub use info::{Mapping, WindowInfo};
pub use member::Member;
pub use rings::Rings;
pub use setup::Setup;
pub use trace::{Moves, TraceWords};
pub use window::Window;
