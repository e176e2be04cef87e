//! The death of a process poisons the groups of which it has a member. One that left ends waits for it, and nothing else: others may go on
//! with what it has done its part of.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use ggas_clock::{Clock, Event};
use ggas_members::{Job, LossGuard};
use ggas_window::Window;

use crate::GroupError;
use crate::members::Members;

/// A neighbour that hears of a death first poisons this process's members; on one host the death itself is known here
/// some ms later, on a busy one some hundred.
const NEWS: Duration = Duration::from_secs(2);

/// Where stores pass network cards, what a process stored before it left may come later than the news; a network that is left sees to it for
/// so long that all has come.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Processes that died, and those that left, in the order of the news.
#[derive(Default)]
struct Lost {
    ranks: Mutex<Vec<u32>>,
    left: Mutex<Vec<u32>>,
    /// Kernels are told of one that left.
    tells: Mutex<()>,
    grown: Event,
}

/// Poisons the group when a process dies.
pub(crate) struct Loss {
    lost: Arc<Lost>,
    _guards: [LossGuard; 2],
}

impl Loss {
    /// Processes that died already count.
    pub fn watch(job: &Job, window: &Window, members: &Arc<Members>) -> Loss {
        let lost = Arc::<Lost>::default();
        let leaves = watch_leaves(job, window, &lost, members);
        let (known, members) = (lost.clone(), members.clone());
        let guard = job.on_loss(Box::new(move |rank| {
            let (known, poisoned) = (known.clone(), members.clone());
            let poison = move || note(rank, &known, &poisoned);
            if !members.on_gpu() {
                return poison();
            }
            // A copy to a GPU may take its time, and the caller watches the other processes.
            if let Err(error) = thread::Builder::new().name("ggas-poison".to_owned()).spawn(poison) {
                tracing::warn!("rank {rank} died, and its group is not poisoned: {error}");
            }
        }));
        Loss { lost, _guards: [guard, leaves] }
    }

    /// Fails once a process has died.
    pub fn check(&self) -> Result<(), GroupError> {
        first(&self.lost.locked())
    }

    /// Fails with the death that made a neighbour poison the group, if there was one, or with who left before. `waited_for`: by this process.
    pub fn check_for_news(&self, waited_for: Option<u32>) -> Result<(), GroupError> {
        let is_there = || !self.lost.locked().is_empty() || !self.lost.leavers().is_empty();
        self.lost.grown.wait(Clock::REAL, NEWS, &mut { is_there }, || ());
        first(&self.lost.locked())?;
        let left = self.lost.leavers();
        let rank = waited_for.filter(|rank| left.contains(rank)).or(left.first().copied());
        rank.map_or(Ok(()), |rank| Err(GroupError::PeerLeft { rank }))
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

fn watch_leaves(job: &Job, window: &Window, lost: &Arc<Lost>, members: &Arc<Members>) -> LossGuard {
    let (known, members) = (lost.clone(), Arc::downgrade(members));
    let posted = window.info().passes_the_cards();
    job.on_leave(Box::new(move |rank| {
        known.leavers().push(rank);
        known.grown.signal();
        let (known, members) = (known.clone(), members.clone());
        let tell = move |members: Weak<Members>| {
            let _one = known.tells.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Err(error)) = members.upgrade().map(|members| members.tell_left(rank)) {
                tracing::warn!("rank {rank} left; who waits for it does so until its time-out: {error}");
            }
        };
        if !posted && !members.upgrade().is_some_and(|members| members.on_gpu()) {
            return tell(members);
        }
        let later = move || {
            if posted {
                Clock::REAL.sleep(UNDER_WAY);
            }
            tell(members);
        };
        if let Err(error) = thread::Builder::new().name("ggas-left".to_owned()).spawn(later) {
            tracing::warn!("rank {rank} left, and who waits for it does so until its time-out: {error}");
        }
    }))
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

    fn leavers(&self) -> MutexGuard<'_, Vec<u32>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
