//! The death of a process poisons the groups of which it has a member.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas_members::{Job, LossGuard};

use crate::GroupError;
use crate::members::Members;

/// Poisons the group when a process dies.
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
            let (known, poisoned) = (known.clone(), members.clone());
            let poison = move || note(rank, &known, &poisoned);
            if !members.on_gpu() {
                return poison();
            }
            // A copy to a GPU may take its time, and the caller watches the other processes.
            if let Err(error) = std::thread::Builder::new().name("ggas-poison".to_owned()).spawn(poison) {
                tracing::warn!("rank {rank} died, and its group is not poisoned: {error}");
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

/// A process died.
fn note(rank: u32, lost: &Mutex<Vec<u32>>, members: &Members) {
    // Held while poisoning, so that `clear` comes before or after both.
    let mut lost = locked(lost);
    lost.push(rank);
    if let Err(error) = members.poison() {
        tracing::warn!("rank {rank} died; collectives end at their time-outs only: {error}");
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loss").field(&*locked(&self.lost)).finish()
    }
}

fn locked(lost: &Mutex<Vec<u32>>) -> MutexGuard<'_, Vec<u32>> {
    lost.lock().unwrap_or_else(PoisonError::into_inner)
}
