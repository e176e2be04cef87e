//! The death of a process poisons the groups of which it has a member.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ggas_clock::{Clock, Event};
use ggas_members::{Job, LossGuard};

use crate::GroupError;
use crate::members::Members;

/// A neighbour that hears of a death first poisons this process's members; on one host the death itself is known here
/// some ms later, on a busy one some hundred.
const NEWS: Duration = Duration::from_secs(2);

/// Processes that died, in the order of the news.
#[derive(Default)]
struct Lost {
    ranks: Mutex<Vec<u32>>,
    grown: Event,
}

/// Poisons the group when a process dies.
pub(crate) struct Loss {
    lost: Arc<Lost>,
    _guard: LossGuard,
}

impl Loss {
    /// Processes that died already count.
    pub fn watch(job: &Job, members: &Arc<Members>) -> Loss {
        let lost = Arc::<Lost>::default();
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
        first(&self.lost.locked())
    }

    /// Fails with the death that made a neighbour poison the group, if there was one.
    pub fn check_for_news(&self) -> Result<(), GroupError> {
        self.lost.grown.wait(Clock::REAL, NEWS, &mut || !self.lost.locked().is_empty(), || ());
        first(&self.lost.locked())
    }

    /// Makes the members as new, but for the poison of a death.
    pub fn clear(&self, members: &Members) -> Result<(), GroupError> {
        let lost = self.lost.locked();
        members.clear()?;
        if !lost.is_empty() {
            members.poison()?;
        }
        Ok(())
    }
}

fn first(lost: &[u32]) -> Result<(), GroupError> {
    lost.first().map_or(Ok(()), |&rank| Err(GroupError::PeerLost { rank }))
}

/// A process died.
fn note(rank: u32, lost: &Lost, members: &Members) {
    // Held while poisoning, so that `clear` comes before or after both.
    let mut ranks = lost.locked();
    ranks.push(rank);
    lost.grown.signal();
    if let Err(error) = members.poison() {
        tracing::warn!("rank {rank} died; collectives end at their time-outs only: {error}");
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loss").field(&*self.lost.locked()).finish()
    }
}

impl Lost {
    fn locked(&self) -> MutexGuard<'_, Vec<u32>> {
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
