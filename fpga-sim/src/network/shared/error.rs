//! Why a member has no end of its network.

use std::io;

/// Errors of joining the cards of a network's processes.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// No memory for packets of others.
    #[error("no memory for packets of other processes: {0}; raise ulimit -v, -f and -n")]
    Inbox(io::Error),
    /// No memory that others can copy from.
    #[error(
        "no room for memory that other processes copy from ({0}): raise `ulimit -v` (RLIMIT_AS) and `ulimit -f` \
         (RLIMIT_FSIZE), both `unlimited` if possible"
    )]
    Arena(io::Error),
    /// No memory for the state of the network's cables.
    #[error("the network's cables cannot be looked at: {0}")]
    Cables(io::Error),
    /// A member's card has one way to the others.
    #[error(
        "this member has its end of the network already: keep it as long as the member, and use it again"
    )]
    Twice,
    /// The network has faults that this version does not know.
    #[error("{0}; make the network anew with `ggas net up`")]
    Faults(String),
    /// No thread for wake-ups.
    #[error("the wake-up thread was not started: {0}; raise the limit on threads (ulimit -u)")]
    Thread(io::Error),
}

ggas_errors::debug_as_display!(JoinError);
