//! Why there is no network of hosts for a process, and what to do.

use std::io;
use std::path::PathBuf;

use ggas_wire::WireError;

/// Why a process cannot be a node of a network of hosts.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HostsError {
    /// The file has no such node.
    #[error("{} has no node {node}: its nodes are 0 to {last}", path.display())]
    NoSuchNode {
        /// The file.
        path: PathBuf,
        /// The node asked for.
        node: u16,
        /// The last one.
        last: usize,
    },
    /// The node's place is not free, or not on this host.
    #[error("node {node} is at {place}, where this process cannot listen: {source}{}", advice(.source))]
    Listen {
        /// The node.
        node: u16,
        /// Where the file says it is.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing to carry packets between hosts.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The system refused a thread, or another thing.
    #[error("the process cannot join its network: {}{}", .0, advice(.0))]
    System(#[from] io::Error),
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => ": raise the limit of open files (`ulimit -n`, RLIMIT_NOFILE)",
        Some(libc::EAGAIN) => ": raise the limit of processes and threads (`ulimit -u`, RLIMIT_NPROC)",
        _ => "",
    }
}

ggas_errors::debug_as_display!(HostsError);
