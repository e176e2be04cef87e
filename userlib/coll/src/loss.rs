//! Deaths of processes that have a member of the group.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas_boot::{Job, LossGuard};

use crate::GroupError;
use crate::members::Members;

/// Poisons the group when a process dies.
#[derive(Debug)]
pub(crate) struct Loss {
    lost: Arc<Mutex<Vec<u32>>>,
    _guard: LossGuard,
}

impl Loss {
    /// Processes that died already count.
    pub fn watch(job: &Job, members: &Arc<Members>) -> Loss {
        let lost = Arc::new(Mutex::new(Vec::new()));
        let (known, members) = (lost.clone(), members.clone());
        let guard = job.on_loss(Box::new(move |rank| {
            // Held while poisoning, so that `clear` comes before or after both.
            let mut lost = locked(&known);
            lost.push(rank);
            if let Err(error) = members.poison() {
                tracing::warn!("rank {rank} died; collectives end at their time-outs, for want of poison: {error}");
            }
        }));
        Loss { lost, _guard: guard }
    }

    /// Fails once a process has died.
    pub fn check(&self) -> Result<(), GroupError> {
        match locked(&self.lost).first() {
            Some(&rank) => Err(GroupError::PeerLost { rank }),
            None => Ok(()),
        }
    }

    /// Makes the members as new, but for the poison of a death.
    pub fn clear(&self, members: &Members) -> Result<(), GroupError> {
        let lost = locked(&self.lost);
        members.clear()?;
        if !lost.is_empty() {
            members.poison()?;
        }
        Ok(())
    }
}

fn locked(lost: &Mutex<Vec<u32>>) -> MutexGuard<'_, Vec<u32>> {
    lost.lock().unwrap_or_else(PoisonError::into_inner)
}
