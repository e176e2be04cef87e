//! What carries calls: our own messages, or an MPI library. Used by the daemon's thread alone.

use std::sync::Arc;

use ggas::kernels::KernelMem;

use crate::memory::{Landed, Span};
use crate::{Class, GmpiError, Status};

pub mod mpi;
pub mod own;

/// A communicator of a carrier, from 0; the first two are the world and the process itself.
pub type Comm = usize;
/// A window of a carrier, from 0.
pub type Win = usize;
/// An operation that was started.
pub type Token = u64;

/// What a communicator is to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Rank in it.
    pub rank: u32,
    /// Members.
    pub size: u32,
}

/// A datatype with its size (`GMPI_INT` ...).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type(pub u32);

impl Type {
    /// Bytes of one.
    pub fn size(self) -> usize {
        (self.0 & crate::layout::GMPI_TYPE_SIZE_MASK) as usize
    }
}

/// What is started. Arguments have been checked against the communicator; spans are as long as their counts say. Of gathers and scatters those
/// that are not the root have one block, which is both `from` and `to`.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "MPI's arguments")]
pub enum Operation {
    Send { at: Span, of: Type, to: u32, tag: i32, comm: Comm },
    Recv { at: Span, of: Type, from: Option<u32>, tag: Option<i32>, comm: Comm },
    Barrier { comm: Comm },
    Bcast { at: Span, of: Type, root: u32, comm: Comm },
    Reduce { from: Span, to: Span, of: Type, op: u32, root: u32, comm: Comm },
    Allreduce { from: Span, to: Span, of: Type, op: u32, comm: Comm },
    Allgather { from: Span, to: Span, of: Type, comm: Comm },
    Alltoall { from: Span, to: Span, of: Type, comm: Comm },
    Gather { from: Span, to: Span, of: Type, root: u32, comm: Comm },
    Scatter { from: Span, to: Span, of: Type, root: u32, comm: Comm },
    Put { at: Span, rank: u32, displacement: u64, win: Win },
    Get { at: Span, rank: u32, displacement: u64, win: Win },
    Flush { rank: Option<u32>, win: Win },
}

/// Makes calls. No function waits, but for those that say so.
pub trait Carrier {
    /// For people.
    fn name(&self) -> String;

    /// A communicator, unless it was freed.
    fn place(&self, comm: Comm) -> Option<Place>;

    /// Bytes of a member's part of a window, unless it was freed.
    fn window(&self, win: Win, rank: u32) -> Option<u64>;

    /// The communicator of a window's members, which is its own: collectives on it do not meet those on another.
    fn window_comm(&self, win: Win) -> Option<Comm>;

    /// Memory that spans will name; the `index`th.
    ///
    /// # Errors
    /// It cannot be had where messages are sent from.
    fn attach(&mut self, index: usize, memory: Arc<KernelMem>) -> Result<(), GmpiError>;

    /// Whether it may be started now: a carrier keeps a bounded number of things that others have not taken.
    fn has_room(&self, _: &Operation) -> bool {
        true
    }

    /// Begins.
    ///
    /// # Errors
    /// What is wrong with it.
    fn start(&mut self, operation: &Operation) -> Result<Token, Class>;

    /// Begins a message, or an allreduce, that does not go through the memory of its spans: these bytes are sent, which are as many and need
    /// not live on; what is received is kept for [`landed`](Self::landed) where the carrier can.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    fn start_short(&mut self, operation: &Operation, bytes: &[u8]) -> Result<Token, Class>;

    /// What such a receive, or allreduce, has brought, once it was told to be over; `None`: it is in its place.
    fn landed(&mut self, token: Token) -> Option<Landed>;

    /// Whether it is over, and how it ended; what is over is told once.
    fn test(&mut self, token: Token) -> Option<Result<Status, Class>>;

    /// Nobody will ask for it any more: a receive is given up, anything else goes on.
    fn forget(&mut self, token: Token);

    /// The library's own blocking send between hosts, which kernels' calls are compared with: in `GMPI_COMM_WORLD`, of host memory. Waits.
    ///
    /// # Errors
    /// [`Class::CALL`]: this carrier has none.
    fn send_plain(&mut self, _bytes: &[u8], _to: u32) -> Result<(), Class> {
        Err(Class::CALL)
    }

    /// The same for a receive of so many bytes.
    ///
    /// # Errors
    /// As of [`send_plain`](Self::send_plain).
    fn receive_plain(&mut self, _bytes: &mut [u8], _from: u32) -> Result<(), Class> {
        Err(Class::CALL)
    }

    /// A message that a receive would get.
    ///
    /// # Errors
    /// Nothing can come any more.
    fn probe(&mut self, comm: Comm, from: Option<u32>, tag: Option<i32>) -> Result<Option<Status>, Class>;

    /// Of how many processes it is known that they are dead.
    fn losses(&self) -> usize {
        0
    }

    /// Whether a member of a communicator is one of them.
    fn is_gone(&self, _comm: Comm, _rank: u32) -> bool {
        false
    }

    /// Whether it counts who sends how much to whom.
    fn traces(&self) -> bool {
        false
    }

    /// Adds what kernels have sent without it: bytes and messages, by rank of a communicator.
    fn add_sent(&mut self, _comm: Comm, _sent: &[[u64; 2]]) {}

    /// Works on what is under way; whether there was something to do.
    fn progress(&mut self) -> bool;

    /// A communicator of those members of `of` that give the same `color`, in the order of their keys; `None`: in none. Collective over
    /// `of`, and waits for its members.
    ///
    /// # Errors
    /// Members that do not come or are gone.
    fn split(&mut self, of: Comm, color: Option<u32>, key: i32) -> Result<Option<Comm>, GmpiError>;

    /// A communicator is not used any more: nothing is begun on it, and what is under way goes on.
    fn free(&mut self, comm: Comm);

    /// A window over `span` of each member of `comm`. Collective, and waits.
    ///
    /// # Errors
    /// As of [`split`](Self::split).
    fn make_window(&mut self, comm: Comm, span: Span) -> Result<Win, GmpiError>;

    /// A window is not used any more. Its members have met before.
    fn free_window(&mut self, win: Win);

    /// The end, which the members of the world reach together. Waits.
    ///
    /// # Errors
    /// As of [`split`](Self::split).
    fn finish(&mut self) -> Result<(), GmpiError>;
}
