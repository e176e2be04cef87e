//! What a job knows of its ranks' ends, and the letters that they sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::mailbox::Mailbox;
use crate::table::{MemberId, PeerState};

/// What is known of the ends of ranks, and letters.
pub(crate) struct Watched {
    /// The process that joined: forks have a copy of this, and locks that nobody may ever open.
    process: u32,
    pub(crate) mailbox: Mailbox,
    lost: Mutex<Lost>,
}

#[derive(Default)]
pub(crate) struct Lost {
    /// Members that are gone, in the order of the news.
    pub(crate) ends: Vec<(MemberId, PeerState)>,
    /// Members that are gone, lost or not, whose letters have all come.
    pub(crate) gone: BTreeSet<MemberId>,
    /// Each of one kind of end.
    pub(crate) callbacks: BTreeMap<u64, (PeerState, Callback)>,
    pub(crate) next: u64,
}

pub(crate) type Callback = Arc<dyn Fn(MemberId) + Send + Sync>;

/// Ends a registration of [`Job::on_loss`](crate::Job::on_loss) or [`Job::on_leave`](crate::Job::on_leave) when dropped. A call that is running then runs to its end.
pub struct LossGuard {
    pub(crate) watched: Arc<Watched>,
    pub(crate) id: u64,
}

impl Drop for LossGuard {
    fn drop(&mut self) {
        if self.watched.is_here() {
            let callback = self.watched.lost().callbacks.remove(&self.id);
            drop(callback);
        }
    }
}

impl Watched {
    pub(crate) fn new() -> Watched {
        Watched { process: std::process::id(), mailbox: Mailbox::default(), lost: Mutex::default() }
    }

    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    pub(crate) fn lost(&self) -> MutexGuard<'_, Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rank is gone, and all that it had sent has come.
    pub(crate) fn went(&self, id: MemberId, how: PeerState) {
        let callbacks: Vec<Callback> = {
            let mut lost = self.lost();
            let news = lost.gone.insert(id);
            if news {
                lost.ends.push((id, how));
            }
            let told = lost.callbacks.values().filter(|(of, _)| news && *of == how);
            told.map(|(_, callback)| callback.clone()).collect()
        };
        self.mailbox.went(id.slot);
        self.mailbox.look_again();
        callbacks.iter().for_each(|callback| callback(id));
    }
}
