//! A job: this process as one of several, with one node of the network.

use std::fmt;
use std::time::Duration;

use extoll_sim::process::PeerState;
use ggas_boot::LossGuard;
use ggas_device::LockedMemory;
use ggas_device::sim::{BuildError, Progress, SimBuilder, SimNetwork};
use ggas_rma::Node;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use ggas_boot::JobError;

/// This process's part in a job of one or more processes of this host, joined by a network between them.
///
/// Rank r is on node `r / per_node`; processes of one node share its registers and its VPIDs, and each has ports,
/// queues and translations of its own. `ggas run -n 4 -- ./program` starts four of them; a program started plainly
/// is a job of one.
///
/// ```
/// use std::time::Duration;
/// use ggas::{HostBuffer, Job, PortConfig, RemoteRegion, Spec};
///
/// const SOON: Duration = Duration::from_secs(10);
/// let job = Job::join()?;
/// let port = job.node().open_port(PortConfig::default())?;
/// let inbox = port.register(HostBuffer::zeroed(8)?)?;
///
/// // Everyone learns where everyone else's memory is.
/// let inboxes = job.exchange_values(&RemoteRegion::of(&inbox), SOON)?;
/// let next = inboxes[((job.rank() + 1) % job.size()) as usize];
/// let value = u64::from(job.rank());
/// port.connect(next.port()).immediate_put(value, 8, next.nla(0, 8)?, Spec::COMPLETER)?;
///
/// port.wait(SOON)?;
/// assert_eq!(inbox.load_u64(0)?, u64::from((job.rank() + job.size() - 1) % job.size()));
/// job.barrier(SOON)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Order
/// What one port posts to one destination and traffic class arrives in order, whether or not the destination is in
/// another process: a notification says that the posts before it are done as well. Ports of different processes are
/// not ordered with each other, except by what the program does: a put whose completer notification the target has
/// consumed is visible to it, and to whom it tells so by another put or a [`barrier`](Job::barrier). A barrier itself
/// orders no puts: one that was posted before it may arrive after it.
///
/// # Progress
/// A process need do nothing for puts into its memory and gets from it to complete: where nobody polls, a thread of
/// the library does the card's work, and sleeps while there is none. Buffers made after joining
/// ([`HostBuffer`](crate::HostBuffer)) are copied once on their way; other registered memory is copied twice.
///
/// # Death
/// A process that dies takes nothing with it: what it had sent is delivered, and then posts to it and waits that name
/// it fail with `PeerLost` at once, as do [`barrier`](Job::barrier) and [`exchange`](Job::exchange); other waits go
/// on to their timeouts. One that is stopped shows as timeouts.
///
/// Dropping the job leaves it; close ports and drop regions before.
pub struct Job {
    // The node goes before the membership.
    node: Node,
    network: SimNetwork,
    boot: ggas_boot::Job,
}

/// How this process takes part in its job; see [`Job::builder`].
#[derive(Clone, Debug, Default)]
pub struct JobBuilder {
    network: SimBuilder,
}

/// Errors of joining.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The job did not come together.
    #[error(transparent)]
    Job(#[from] JobError),
    /// This process's node could not be set up.
    #[error(transparent)]
    Node(#[from] BuildError),
}

/// Errors of exchanging values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The exchange itself failed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The value has no encoding.
    #[error("this value cannot be sent: {0}; give a type whose length is known when it is encoded")]
    Encode(postcard::Error),
    /// What a process gave is no value of this type.
    #[error(
        "what rank {rank} gave is no value of this type: {problem}; all ranks must exchange the same type"
    )]
    Decode {
        /// The process.
        rank: usize,
        /// What is wrong with it.
        problem: postcard::Error,
    },
}

impl JobBuilder {
    /// Who drives this process's node.
    pub fn progress(self, progress: Progress) -> JobBuilder {
        JobBuilder { network: self.network.progress(progress) }
    }

    /// How much memory the regions of this process may lock; by default what the system allows.
    pub fn locked_memory(self, limit: LockedMemory) -> JobBuilder {
        JobBuilder { network: self.network.locked_memory(limit) }
    }

    /// How long unregistering memory waits for other processes to let go of it; see
    /// [`SimBuilder::release_timeout`].
    pub fn release_timeout(self, timeout: Duration) -> JobBuilder {
        JobBuilder { network: self.network.release_timeout(timeout) }
    }

    /// Joins; returns once all processes of the job have.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join(self) -> Result<Job, JoinError> {
        let boot = ggas_boot::Job::join()?;
        let network = self.network.join(boot.fabric().clone())?;
        let node = Node::new(network.device(0)?);
        Ok(Job { node, network, boot })
    }
}

impl Job {
    /// Joins the job that the environment names ([`ggas_boot::Job::join`] has the variables), with default
    /// settings; returns once all of its processes have.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join() -> Result<Job, JoinError> {
        Job::builder().join()
    }

    /// Describes how to take part.
    pub fn builder() -> JobBuilder {
        JobBuilder::default()
    }

    /// This process's node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Its id.
    pub fn node_id(&self) -> u16 {
        self.boot.node()
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.boot.rank()
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.boot.size()
    }

    /// Nodes of the job; their ids are 0, 1, ...
    pub fn nodes(&self) -> u32 {
        self.boot.nodes()
    }

    /// Processes of each node; the last node may have fewer.
    pub fn per_node(&self) -> u32 {
        self.boot.per_node()
    }

    /// Node of a rank; `None` for ranks that do not exist.
    pub fn node_of(&self, rank: u32) -> Option<u16> {
        (rank < self.size()).then(|| self.boot.fabric().job().shape().node_of(rank))
    }

    /// Waits until all processes have called it. After a timeout the same call goes on waiting.
    ///
    /// # Errors
    /// [`JobError::PeerLost`] at once when a process that has not called it is gone, [`JobError::Timeout`].
    pub fn barrier(&self, timeout: Duration) -> Result<(), JobError> {
        self.boot.barrier(timeout)
    }

    /// Gives everyone up to 64 KiB, and returns what all gave, by rank. All have called it when it returns.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier); [`JobError::TooLong`], [`JobError::Mismatch`].
    pub fn exchange(&self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, JobError> {
        self.boot.exchange(bytes, timeout)
    }

    /// As [`exchange`](Self::exchange), with values of one type: a [`RemoteRegion`](crate::RemoteRegion), an
    /// [`Address`](crate::Address), tuples and vectors of them.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn exchange_values<T>(&self, value: &T, timeout: Duration) -> Result<Vec<T>, ExchangeError>
    where
        T: Serialize + DeserializeOwned,
    {
        let bytes = postcard::to_stdvec(value).map_err(ExchangeError::Encode)?;
        let all = self.exchange(&bytes, timeout)?;
        let decode = |(rank, bytes): (usize, Vec<u8>)| {
            postcard::from_bytes(&bytes).map_err(|problem| ExchangeError::Decode { rank, problem })
        };
        all.into_iter().enumerate().map(decode).collect()
    }

    /// Ranks that died so far, ascending; not those that left. Every rank that an error has named is among them.
    pub fn lost(&self) -> Vec<u32> {
        let job = self.boot.fabric().job();
        (0..self.size()).filter(|rank| job.state(*rank) == PeerState::Lost).collect()
    }

    /// Calls `callback` once for each rank that dies, and at once for those that have, until the guard is dropped.
    /// It runs on a thread that watches all processes: it must not block.
    pub fn on_loss(&self, callback: impl Fn(u32) + Send + Sync + 'static) -> LossGuard {
        self.boot.on_loss(Box::new(callback))
    }

    /// The network as this process sees it, with one node: for counters.
    pub fn network(&self) -> &SimNetwork {
        &self.network
    }

    /// The membership itself: name of the job, file descriptors between its processes.
    pub fn membership(&self) -> &ggas_boot::Job {
        &self.boot
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.boot.fmt(f)
    }
}
