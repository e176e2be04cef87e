//! Who is where: networks of a host, their members, and jobs.
//!
//! A *network* stands by itself, as a cabled cluster does: its first member makes it, members join and leave at any
//! moment ([`Member::join`]) without waiting for anyone, and the last one clears it away. A *job* ([`Job::join`]) is a
//! network of its own whose members are *ranks*, which wait for each other. How the processes are started is none of its
//! business; [`launch::Launch`], the command `ggas run`, is one way. There is no server: what members share lies in
//! files of a private directory and in memory without names, and each notices the ends of those it has to do with.
//!
//! Nothing here knows of cards or packets: transports send their greetings as messages ([`Member::send`]) and keep what
//! belongs to a node, or to the network, in memory that all members find ([`Member::node_memory`],
//! [`Member::network_memory`]).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod channel;
mod collective;
mod directory;
mod error;
mod fds;
mod futex;
mod job;
pub mod launch;
mod limits;
mod mailbox;
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
mod words;

pub use error::JobError;
pub use job::{Job, LossGuard};
pub use mailbox::LETTER_FDS_MAX;
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

/// Most bytes that a process gives to an [`exchange`](Job::exchange), or publishes.
pub const EXCHANGE_MAX: usize = 64 << 10;
