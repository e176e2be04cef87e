//! Networks of a host, their members, and jobs.
//!
//! The first process that joins a *network* creates it, further processes join and leave at any time
//! ([`Member::join`]) without waiting for another process, and the last member that leaves removes the network. A *job*
//! ([`Job::join`]) is a network of its own whose members are *ranks*, which wait for each other. Any launcher can start
//! the processes of a job; [`launch::Launch`], behind the command `ggas run`, is one. There is no server: members share
//! files of a private directory and sealed memfds, and each member notices the end of every peer that it is connected to.
//!
//! This crate knows nothing of cards or packets. A *transport* (which carries packets between members) sets up its
//! connections by messages ([`Member::send`]) and keeps the state of a node, or of the network, in memory that all
//! members can map ([`Member::node_memory`],
//! [`Member::network_memory`]).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod channel;
mod collective;
pub mod cores;
mod directory;
mod error;
mod far;
mod fds;
mod futex;
mod job;
pub mod launch;
mod limits;
mod mailbox;
pub mod meeting;
mod member;
mod members;
pub mod memory;
mod network;
mod node_memory;
mod pidfd;
mod place;
mod post;
mod process;
mod published;
pub mod quiet;
mod ranks;
mod round;
mod seat;
mod shape;
mod socket;
mod table;
mod trace;
mod watched;
mod words;

pub use error::JobError;
pub use far::{HostsOfJob, HubLine, HubNews};
pub use job::Job;
pub use mailbox::{LETTER_BYTES_MAX, LETTER_FDS_MAX};
pub use member::Member;
pub use members::{GoneGuard, Members};
pub use network::{
    MemberInfo, NetworkInfo, look_at_network, memory_of_network, networks, put_up, take_down, which,
};
pub use node_memory::NodeMemory;
pub use place::{DEFAULT_NETWORK, is_quiet};
pub use post::Handler;
pub use shape::{MEMBERS, NODES_MAX, NetworkShape, PROCESSES_MAX, Shape, ShapeError};
pub use table::{MemberId, PeerState};
pub use trace::{Lasting, Trace};
pub use watched::LossGuard;

/// Most bytes that a process can pass to an [`exchange`](Job::exchange), or publish.
pub const EXCHANGE_MAX: usize = 64 << 10;
