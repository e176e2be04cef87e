//! Job start: several processes of a host become one job, and notice each other's deaths.
//!
//! A program calls [`Job::join`] and is a *rank* of its job: one process of `size`, on node `rank / per_node`, with a
//! [fabric](Job::fabric) that reaches all others. How the processes are started is none of its business: a launcher
//! ([`launch::Launch`], the command `ggas run`) hands each one a socket, and without a launcher rank 0 listens under
//! the job's name in a private directory. After the start nobody serves anybody: what the processes share lies in
//! memory without names, and each watches all others through pidfds.

mod channel;
mod collective;
mod env;
mod error;
mod futex;
mod hub;
mod job;
mod join;
pub mod launch;
mod limits;
mod mailbox;
mod pidfd;
mod protocol;
mod ranks;
mod rendezvous;
mod watch;
mod words;

pub use error::JobError;
use extoll_sim::quiet;
pub use job::{Job, LossGuard};
pub use mailbox::LETTER_FDS_MAX;
pub use protocol::Refusal;

/// Most bytes that a process gives to an [`exchange`](Job::exchange).
pub const EXCHANGE_MAX: usize = 64 << 10;
