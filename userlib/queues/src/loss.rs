//! The death of a process is told to kernels.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas_members::{Job, LossGuard};

use crate::QueuesError;
use crate::endpoint::PeerTables;

/// Watches the processes of a job, each of which has one member.
pub(crate) struct Loss {
    lost: Arc<Mutex<Vec<u32>>>,
    _guard: LossGuard,
}

impl Loss {
    /// Processes that died already count.
    pub fn watch(job: &Job, tables: &Arc<PeerTables>) -> Loss {
        let lost = Arc::new(Mutex::new(Vec::new()));
        let (known, tables) = (lost.clone(), tables.clone());
        let guard = job.on_loss(Box::new(move |rank| {
            let (known, told) = (known.clone(), tables.clone());
            let tell = move || {
                locked(&known).push(rank);
                if let Err(error) = told.lose(rank as usize) {
                    tracing::warn!("rank {rank} died; waits for it end at their time-outs only: {error}");
                }
            };
            if !tables.on_gpu() {
                return tell();
            }
            // A copy to a GPU may take its time, and the caller watches the other processes.
            if let Err(error) = std::thread::Builder::new().name("ggas-queues".to_owned()).spawn(tell) {
                tracing::warn!("rank {rank} died, and kernels do not hear of it: {error}");
            }
        }));
        Loss { lost, _guard: guard }
    }

    /// Fails once a process has died.
    pub fn check(&self) -> Result<(), QueuesError> {
        match locked(&self.lost).first() {
            Some(&rank) => Err(QueuesError::PeerLost { member: rank as usize }),
            None => Ok(()),
        }
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
