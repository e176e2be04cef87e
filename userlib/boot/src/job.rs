//! [`Job`]: this process as one of several that work together.

use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use extoll_sim::process::{PeerState, ProcessFabric};

use crate::channel::{Channel, WireError};
use crate::collective::{Collective, Meeting};
use crate::mailbox::{self, LETTER_FDS_MAX, Letter};
use crate::watch::{Watched, Watcher};
use crate::{JobError, env, join};

/// This process's membership of a job. Dropping it leaves the job: peers then find this rank gone, in good order.
///
/// It belongs to the process that joined: a child made by `fork` gets [`JobError::Forked`] from every call, and
/// dropping its copy does nothing.
///
/// ```
/// use std::time::Duration;
///
/// let job = ggas_boot::Job::join()?; // started plainly: a job of one
/// let names = job.exchange(format!("rank {}", job.rank()).as_bytes(), Duration::from_secs(10))?;
/// assert_eq!(names.len(), job.size() as usize);
/// job.barrier(Duration::from_secs(10))?;
/// # Ok::<(), ggas_boot::JobError>(())
/// ```
pub struct Job {
    /// The process that joined.
    member: u32,
    name: String,
    fabric: ManuallyDrop<Arc<ProcessFabric>>,
    watched: Arc<Watched>,
    watcher: Option<Watcher>,
    /// Sending ends of the peers' mailboxes.
    peers: Vec<Option<Arc<Channel>>>,
    calls: Mutex<Collective>,
}

/// What a job is made of.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) fabric: Arc<ProcessFabric>,
    pub(crate) watched: Arc<Watched>,
    pub(crate) watcher: Option<Watcher>,
    pub(crate) peers: Vec<Option<Arc<Channel>>>,
}

/// Ends a registration of [`Job::on_loss`] when dropped. A call that is running then runs to its end.
pub struct LossGuard {
    watched: Arc<Watched>,
    id: u64,
}

impl Drop for LossGuard {
    fn drop(&mut self) {
        self.watched.forget(self.id);
    }
}

impl Job {
    /// Joins the job that the environment names, and returns once all of its processes have.
    ///
    /// A launcher (`ggas run`) sets everything. Without one, set in every process `GGAS_RANK`, `GGAS_SIZE`,
    /// `GGAS_JOB` (a name), and `GGAS_PER_NODE` if several ranks shall be on one node; rank 0 then listens in
    /// `GGAS_RUNTIME_DIR` (else `XDG_RUNTIME_DIR`, else `~/.cache/ggas`). A program started plainly gets a job of its
    /// own with one process. `GGAS_JOIN_TIMEOUT` bounds the start, in seconds (30).
    ///
    /// # Errors
    /// [`JobError`] says what is wrong with the environment, or who did not come. A process can try once.
    pub fn join() -> Result<Job, JobError> {
        join::join(&|name| std::env::var_os(name))
    }

    /// Whether the environment names a job of several processes.
    pub fn is_launched() -> bool {
        std::env::var_os(env::RANK).is_some()
    }

    pub(crate) fn new(parts: Parts, calls: Collective) -> Job {
        let Parts { name, fabric, watched, watcher, peers } = parts;
        let member = std::process::id();
        let fabric = ManuallyDrop::new(fabric);
        Job { member, name, fabric, watched, watcher, peers, calls: Mutex::new(calls) }
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.fabric.rank()
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.fabric.job().shape().processes()
    }

    /// The node that this process is on.
    pub fn node(&self) -> u16 {
        self.fabric.job().shape().node_of(self.rank())
    }

    /// Nodes of the job.
    pub fn nodes(&self) -> u32 {
        self.fabric.job().shape().nodes()
    }

    /// Processes of each node; the last node may have fewer.
    pub fn per_node(&self) -> u32 {
        self.fabric.job().shape().per_node()
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The network between the cards of the job's processes.
    pub fn fabric(&self) -> &Arc<ProcessFabric> {
        &self.fabric
    }

    /// Waits until all ranks have called it.
    ///
    /// After a time-out, the same call goes on waiting: this rank has arrived for the others already.
    ///
    /// # Errors
    /// [`JobError::PeerLost`] as soon as a rank that has not arrived is gone; [`JobError::Timeout`] with the ranks
    /// that are missing.
    pub fn barrier(&self, timeout: Duration) -> Result<(), JobError> {
        self.check_member()?;
        self.meeting().barrier(&mut self.calls(), timeout)
    }

    /// Gives everyone `bytes`, of any length up to [`EXCHANGE_MAX`](crate::EXCHANGE_MAX), and returns what all gave,
    /// by rank. All ranks have called it when it returns.
    ///
    /// After a time-out, the same call goes on waiting; what was given the first time stands.
    ///
    /// # Errors
    /// As [`barrier`](Job::barrier); [`JobError::TooLong`]; [`JobError::Mismatch`] where a rank calls `barrier`
    /// instead.
    pub fn exchange(&self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, JobError> {
        self.check_member()?;
        self.meeting().exchange(&mut self.calls(), bytes, timeout)
    }

    /// Sends file descriptors to a rank, which asks for them with [`recv_fds`](Job::recv_fds) under the same `tag`.
    /// It need not wait for them; letters of one sender and tag keep their order.
    ///
    /// # Errors
    /// [`JobError::PeerLost`], [`JobError::Timeout`], [`JobError::NoSuchRank`], [`JobError::TooManyDescriptors`].
    pub fn send_fds(
        &self,
        to_rank: u32,
        tag: u64,
        fds: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> Result<(), JobError> {
        self.check_member()?;
        self.check_rank(to_rank)?;
        if fds.len() > LETTER_FDS_MAX {
            return Err(JobError::TooManyDescriptors { count: fds.len(), most: LETTER_FDS_MAX });
        }
        let letter = Letter { from: self.rank(), tag, fds: fds.len() as u32 };
        let Some(peer) = &self.peers[to_rank as usize] else {
            let own = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<Vec<OwnedFd>, _>>();
            self.watched.mailbox.put(letter, own.map_err(JobError::system("copy a file descriptor"))?);
            return Ok(());
        };
        mailbox::send(peer, &letter, fds, Instant::now() + timeout, || self.is_gone(to_rank)).map_err(
            |error| match error {
                WireError::Closed => JobError::PeerLost { rank: to_rank },
                WireError::Timeout => JobError::Timeout { waiting_for: vec![to_rank], waited: timeout },
                WireError::System(source) => JobError::System { what: "send file descriptors", source },
                error => {
                    JobError::System { what: "send file descriptors", source: std::io::Error::other(error) }
                }
            },
        )
    }

    /// Receives the file descriptors that a rank sent under `tag`, the oldest first. All are closed on exec.
    ///
    /// # Errors
    /// [`JobError::PeerLost`] if the rank is gone and sent none; [`JobError::Timeout`]; [`JobError::NoSuchRank`].
    pub fn recv_fds(&self, from_rank: u32, tag: u64, timeout: Duration) -> Result<Vec<OwnedFd>, JobError> {
        self.check_member()?;
        self.check_rank(from_rank)?;
        let mailbox = &self.watched.mailbox;
        let was_full = !mailbox.has_room();
        let fds = mailbox.take(from_rank, tag, timeout, || self.watched.is_silent(from_rank));
        if was_full && let Some(watcher) = &self.watcher {
            watcher.kick();
        }
        fds.ok_or_else(|| {
            if self.watched.is_silent(from_rank) {
                JobError::PeerLost { rank: from_rank }
            } else {
                JobError::Timeout { waiting_for: vec![from_rank], waited: timeout }
            }
        })
    }

    /// Ranks that died so far; not those that left.
    pub fn lost(&self) -> Vec<u32> {
        self.watched.ranks()
    }

    /// Calls `callback` once for each rank that dies, and at once for those that have. Calls come from a thread of
    /// the library that watches all peers: they must not block.
    pub fn on_loss(&self, callback: Box<dyn Fn(u32) + Send + Sync>) -> LossGuard {
        let id = self.watched.on_loss(callback.into());
        LossGuard { watched: self.watched.clone(), id }
    }

    fn meeting(&self) -> Meeting<'_> {
        Meeting { fabric: &self.fabric, losses: &self.watched.losses }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Collective> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_gone(&self, rank: u32) -> bool {
        matches!(self.fabric.job().state(rank), PeerState::Left | PeerState::Lost)
    }

    fn check_rank(&self, rank: u32) -> Result<(), JobError> {
        let size = self.size();
        if rank < size { Ok(()) } else { Err(JobError::NoSuchRank { rank, size }) }
    }

    /// A fork has the memory of a member, and none of its threads.
    fn check_member(&self) -> Result<(), JobError> {
        let child = std::process::id();
        if child == self.member { Ok(()) } else { Err(JobError::Forked { member: self.member, child }) }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.check_member().is_err() {
            // The fork's copy: the member, its threads and its locks are none of our business.
            if let Some(watcher) = &mut self.watcher {
                watcher.forget();
            }
            return;
        }
        if self.size() > 1 {
            self.calls().keep_given();
        }
        self.fabric.job().set_state(self.rank(), PeerState::Left);
        // Closes the mailbox, by which the peers' watchers learn of it.
        self.watcher = None;
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.fabric) };
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Job { name, .. } = self;
        f.debug_struct("Job")
            .field("name", name)
            .field("rank", &self.rank())
            .field("size", &self.size())
            .finish()
    }
}
