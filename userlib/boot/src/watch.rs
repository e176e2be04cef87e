//! One thread per process that sees peers go: it sleeps in `poll` until one ends, closes its mailbox (by exec, too),
//! or sends a letter. It costs no CPU otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use extoll_sim::process::{PeerState, ProcessFabric};
use nix::poll::{PollFd, PollFlags};

use crate::channel::{Channel, poll_until};
use crate::futex;
use crate::mailbox::Mailbox;

type Callback = Arc<dyn Fn(u32) + Send + Sync>;

/// What the watcher knows; shared with the job.
#[derive(Default)]
pub(crate) struct Watched {
    pub(crate) mailbox: Mailbox,
    /// Counted up with every process that goes; sleepers in collective calls wait for it, too.
    pub(crate) losses: AtomicU32,
    lost: Mutex<Lost>,
}

#[derive(Default)]
struct Lost {
    ranks: Vec<u32>,
    /// Ranks that are gone, lost or not, and whose letters have all been taken out of the socket since.
    gone: BTreeSet<u32>,
    callbacks: BTreeMap<u64, Callback>,
    next: u64,
}

/// A peer, as the watcher sees it.
pub(crate) struct Watch {
    pub(crate) rank: u32,
    pub(crate) pidfd: OwnedFd,
    /// Sending end of its mailbox: hung up once the peer has closed its own.
    pub(crate) mailbox: Arc<Channel>,
}

/// What the thread needs.
pub(crate) struct Setup {
    pub(crate) fabric: Arc<ProcessFabric>,
    pub(crate) watched: Arc<Watched>,
    pub(crate) peers: Vec<Watch>,
    pub(crate) mailbox: Channel,
    /// A launcher that this process must not outlive.
    pub(crate) guardian: Option<OwnedFd>,
}

/// The thread; stops when dropped.
pub(crate) struct Watcher {
    kick: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watched {
    fn lost(&self) -> MutexGuard<'_, Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ranks lost so far, ascending.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        let mut ranks = self.lost().ranks.clone();
        ranks.sort_unstable();
        ranks
    }

    /// Whether a process is gone and no letter of it can come any more. Later than its state in the job says.
    pub(crate) fn is_silent(&self, rank: u32) -> bool {
        self.lost().gone.contains(&rank)
    }

    /// Registers a callback; each hears of each loss once, also of those before.
    pub(crate) fn on_loss(&self, callback: Callback) -> u64 {
        let (id, before) = {
            let mut lost = self.lost();
            lost.next += 1;
            let id = lost.next;
            lost.callbacks.insert(id, callback.clone());
            (id, lost.ranks.clone())
        };
        before.into_iter().for_each(|rank| callback(rank));
        id
    }

    pub(crate) fn forget(&self, id: u64) {
        self.lost().callbacks.remove(&id);
    }

    /// A process is gone: the fabric first, then sleepers, then callbacks.
    fn went(&self, fabric: &ProcessFabric, rank: u32) {
        let left = fabric.job().state(rank) == PeerState::Left;
        if !left {
            fabric.lose(rank);
        }
        self.lost().gone.insert(rank);
        self.losses.fetch_add(1, Ordering::SeqCst);
        futex::wake_private(&self.losses);
        self.mailbox.look_again();
        if left {
            return;
        }
        let callbacks: Vec<Callback> = {
            let mut lost = self.lost();
            lost.ranks.push(rank);
            lost.callbacks.values().cloned().collect()
        };
        callbacks.iter().for_each(|callback| callback(rank));
    }
}

impl Watcher {
    pub(crate) fn start(setup: Setup) -> io::Result<Watcher> {
        let (stop, kick) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC | nix::fcntl::OFlag::O_NONBLOCK)?;
        let thread = crate::quiet::spawn("ggas-watch", move || {
            if let Err(error) = run(setup, &stop) {
                tracing::error!("deaths of peers are no longer noticed: {error}");
            }
        })?;
        Ok(Watcher { kick: Some(kick), thread: Some(thread) })
    }

    /// Makes the thread look at the mailbox again.
    pub(crate) fn kick(&self) {
        if let Some(kick) = &self.kick {
            // A full pipe kicks as well.
            let _ = nix::unistd::write(kick, &[0]);
        }
    }

    /// In a fork there is no thread to stop.
    pub(crate) fn forget(&mut self) {
        std::mem::forget(self.thread.take());
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.kick.take());
        let Some(thread) = self.thread.take() else { return };
        // A callback may hold the last reference to the job.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

fn run(setup: Setup, stop: &OwnedFd) -> io::Result<()> {
    let Setup { fabric, watched, mut peers, mailbox, guardian } = setup;
    let size = fabric.job().shape().processes();
    let mut mailbox_open = true;
    loop {
        let mailbox_asked = mailbox_open && watched.mailbox.has_room();
        let mut fds = vec![PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        let mail = if mailbox_asked { PollFlags::POLLIN } else { PollFlags::empty() };
        fds.push(PollFd::new(if mailbox_asked { mailbox.as_fd() } else { stop.as_fd() }, mail));
        fds.extend(peers.iter().flat_map(|peer| {
            // Nothing asked of the mailbox: a hang-up is reported in any case.
            [
                PollFd::new(peer.pidfd.as_fd(), PollFlags::POLLIN),
                PollFd::new(peer.mailbox.as_fd(), PollFlags::empty()),
            ]
        }));
        fds.extend(guardian.iter().map(|guardian| PollFd::new(guardian.as_fd(), PollFlags::POLLIN)));
        poll_until(&mut fds, None)?;
        let happened: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        drop(fds);
        if happened[0] && !drain(stop) {
            return Ok(());
        }
        if guardian.is_some() && happened.last() == Some(&true) {
            tracing::error!("the launcher of this job is gone: this process ends");
            // As the launcher's direct children do, by PR_SET_PDEATHSIG.
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
        }
        // Letters first: one that a peer sent before it went counts.
        if mailbox_asked && (happened[1] || happened[2..].contains(&true)) {
            mailbox_open = watched.mailbox.collect(&mailbox, size);
        }
        let mut at = 2;
        peers.retain(|peer| {
            let gone = happened[at] || happened[at + 1];
            at += 2;
            if gone {
                watched.went(&fabric, peer.rank);
            }
            !gone
        });
    }
}

/// Empties the pipe of kicks: `false` if its other end is closed.
fn drain(stop: &OwnedFd) -> bool {
    let mut bytes = [0; 64];
    loop {
        match nix::unistd::read(stop, &mut bytes) {
            Ok(0) => return false,
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return true,
        }
    }
}
