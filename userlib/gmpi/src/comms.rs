//! Communicators and windows that the host makes for kernels.

use std::sync::Arc;

use ggas::kernels::KernelMem;

use crate::carrier::Place;
use crate::layout::{GMPI_COMM_SELF, GMPI_COMM_WORLD};
use crate::{Gmpi, GmpiError};

/// A communicator, for kernels: what `MPI_Comm` holds there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm(pub u64);

impl Comm {
    /// All processes.
    pub const WORLD: Comm = Comm(GMPI_COMM_WORLD as u64);
}

/// A window, for kernels: what `MPI_Win` holds there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win(pub u64);

impl Gmpi {
    /// What this process is in a communicator: its rank, and how many members there are.
    ///
    /// # Errors
    /// [`GmpiError::Failed`]: one that was freed.
    pub fn place(&self, of: Comm) -> Result<Place, GmpiError> {
        self.ask("a look at a communicator", move |daemon| {
            let gone = GmpiError::Failed { what: "a look at a communicator", class: crate::Class::COMM };
            daemon.comms.get(of.0).and_then(|comm| daemon.carrier.place(comm)).ok_or(gone)
        })
    }

    /// A communicator of those members of `of` that give the same `color`, ordered by `key`; `None`: of none. Collective, and not while
    /// kernels of a member use `of`.
    ///
    /// # Errors
    /// [`GmpiError::Failed`] for one that was freed; members that do not come.
    pub fn split(&self, of: Comm, color: Option<u32>, key: i32) -> Result<Option<Comm>, GmpiError> {
        self.ask("a split of a communicator", move |daemon| {
            let gone = GmpiError::Failed { what: "a split of a communicator", class: crate::Class::COMM };
            let of = daemon.comms.get(of.0).ok_or(gone)?;
            let made = daemon.carrier.split(of, color, key)?;
            Ok(made.map(|comm| Comm(daemon.comms.add(comm))))
        })
    }

    /// A communicator of the same members, whose messages and collectives are its own. Collective, as [`split`](Self::split).
    ///
    /// # Errors
    /// As of [`split`](Self::split).
    pub fn dup(&self, of: Comm) -> Result<Comm, GmpiError> {
        // Equal keys: the order of ranks.
        let gone = GmpiError::Failed { what: "a copy of a communicator", class: crate::Class::COMM };
        self.split(of, Some(0), 0)?.ok_or(gone)
    }

    /// Ends a communicator: kernels that use it from then on get `GMPI_ERR_COMM`.
    ///
    /// # Errors
    /// [`GmpiError::Kept`]: the world, or that of this process alone; [`GmpiError::Failed`]: one that was freed.
    pub fn free(&self, comm: Comm) -> Result<(), GmpiError> {
        if [GMPI_COMM_WORLD, GMPI_COMM_SELF].map(u64::from).contains(&comm.0) {
            return Err(GmpiError::Kept);
        }
        self.undirect(comm)?;
        self.ask("freeing a communicator", move |daemon| {
            let found = daemon.comms.remove(comm.0);
            let none = GmpiError::Failed { what: "freeing a communicator", class: crate::Class::COMM };
            daemon.carrier.free(found.ok_or(none)?);
            Ok(())
        })
    }

    /// A window over attached memory of each member of `comm`, all of it. Collective.
    ///
    /// # Errors
    /// [`GmpiError::Failed`]: memory that is not attached, a communicator that was freed.
    pub fn window(&self, comm: Comm, memory: &Arc<KernelMem>) -> Result<Win, GmpiError> {
        let (address, len) = (memory.address(), memory.len() as u64);
        self.ask("making a window", move |daemon| {
            let failed = |class| GmpiError::Failed { what: "making a window", class };
            let span = daemon.attached.span(address, len).map_err(failed)?;
            let comm = daemon.comms.get(comm.0).ok_or(failed(crate::Class::COMM))?;
            let win = daemon.carrier.make_window(comm, span)?;
            Ok(Win(daemon.wins.add(win)))
        })
    }

    /// Ends a window, when all members have fenced.
    ///
    /// # Errors
    /// [`GmpiError::Failed`]: it was freed.
    pub fn free_window(&self, win: Win) -> Result<(), GmpiError> {
        self.ask("freeing a window", move |daemon| {
            let none = GmpiError::Failed { what: "freeing a window", class: crate::Class::WIN };
            let win = daemon.wins.remove(win.0).ok_or(none)?;
            daemon.carrier.free_window(win);
            Ok(())
        })
    }
}
