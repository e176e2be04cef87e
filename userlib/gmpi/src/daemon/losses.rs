//! Members of a direct communicator that are dead, for kernels that wait for them without the daemon.

use std::sync::Arc;

use ggas::kernels::KernelMem;

use super::Daemon;
use crate::GmpiError;
use crate::carrier::Comm;

/// Where kernels look: a word of 4 bytes for each member of a communicator.
pub(crate) struct Marks {
    comm: Comm,
    members: u32,
    memory: Arc<KernelMem>,
}

impl Daemon {
    /// Marks members that die, and those that have died already; `None`: no more.
    ///
    /// # Errors
    /// The memory cannot be written; [`GmpiError::Failed`]: no such communicator.
    pub fn mark_losses(&mut self, marks: Option<(u64, Arc<KernelMem>)>) -> Result<(), GmpiError> {
        self.marks = None;
        let Some((handle, memory)) = marks else { return Ok(()) };
        let none = |class| GmpiError::Failed { what: "a direct communicator", class };
        let (comm, place) = self.comm(handle).map_err(none)?;
        self.marks = Some(Marks { comm, members: place.size, memory });
        self.mark()
    }

    /// After each round: there is something to do once in a lifetime.
    pub(super) fn look_for_losses(&mut self) -> Result<(), GmpiError> {
        let losses = self.carrier.losses();
        if losses == self.losses {
            return Ok(());
        }
        self.losses = losses;
        self.mark()
    }

    fn mark(&self) -> Result<(), GmpiError> {
        let Some(Marks { comm, members, memory }) = &self.marks else { return Ok(()) };
        for rank in (0..*members).filter(|rank| self.carrier.is_gone(*comm, *rank)) {
            memory.store_u32(4 * rank as usize, 1)?;
        }
        Ok(())
    }
}
