//! A job: this process as one of several, with one node of the network.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use ggas_device::sim::{Progress, SimBuilder, SimNetwork};
use ggas_device::{Choice, ChoiceError, Kind, LockedMemory, ProcessorKind, choose};
use ggas_kernels::Processor;
use ggas_members::{LossGuard, PeerState};
use ggas_rma::Node;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::carrier::{Carrier, JoinError, meet};

pub use ggas_members::JobError;

/// This process's part in a job of one or more processes of this host, joined by a network between them.
///
/// `ggas run -n 4 -- ./program` starts four of them; a program started plainly is a job of one. Processes of one node
/// share its registers and its VPIDs, and each has ports, queues and translations of its own.
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
/// # Devices
/// [`ggas_device::choose`] says which device the node is of: what the program asks for
/// ([`JobBuilder::device`]), the variable `GGAS_DEVICE`, or what is there.
///
/// * `sim`, the model: rank r is on node `r / per_node` of a network of the job's own.
/// * `hw`, the card of this host: all ranks share its node, whose id is the card's, and exchange and barrier go
///   through the host. Its paths are requester pages only, for the host and the CPU executor.
/// * `nvlink`, RMA engines: each rank has a node, numbered as the ranks are, whose engine runs on its GPU (its
///   [`processor`](Job::processor)) from joining on until the job is dropped. Ports post by slots only; there is neither
///   VELO nor SMFU, no register file, and one process for each node.
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
/// the library does the work of the model's card, and sleeps while there is none. On the model, buffers made after
/// joining ([`HostBuffer`](crate::HostBuffer)) are copied once on their way; other registered memory is copied twice.
///
/// # Death
/// A process that dies takes nothing with it: what it had sent is delivered, and then posts to it and waits that name
/// it fail with `PeerLost` at once, as do [`barrier`](Job::barrier) and [`exchange`](Job::exchange); other waits go
/// on to their timeouts. One that is stopped shows as timeouts. A card knows nothing of processes: there, posts to a dead
/// one go nowhere, and waits for it go on to their timeouts.
///
/// Dropping the job leaves it; close ports and drop regions before.
pub struct Job {
    // The node goes before what it is of, and that before the membership.
    node: Node,
    carrier: Carrier,
    choice: Choice,
    /// Where kernels run, once that is known.
    processor: OnceLock<(Processor, Option<String>)>,
    /// Node ids by rank.
    nodes: Vec<u16>,
    boot: ggas_members::Job,
}

/// How this process takes part in its job; see [`Job::builder`].
#[derive(Clone, Debug, Default)]
pub struct JobBuilder {
    device: Option<Kind>,
    processor: Option<Processor>,
    model: SimBuilder,
    join_timeout: Option<Duration>,
}

/// Errors of exchanging values.
#[derive(thiserror::Error)]
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

ggas_errors::debug_as_display!(ExchangeError);

impl JobBuilder {
    /// The device, whatever the environment says; the same in all processes.
    pub fn device(self, kind: Kind) -> JobBuilder {
        JobBuilder { device: Some(kind), ..self }
    }

    /// Where this process's kernels run, and on `nvlink` the engine of its node; else see [`Job::processor`].
    pub fn processor(self, processor: Processor) -> JobBuilder {
        JobBuilder { processor: Some(processor), ..self }
    }

    /// Who drives this process's node, if it is of the model.
    pub fn progress(self, progress: Progress) -> JobBuilder {
        JobBuilder { model: self.model.progress(progress), ..self }
    }

    /// How much memory the regions of this process may lock on the model; by default what the system allows.
    pub fn locked_memory(self, limit: LockedMemory) -> JobBuilder {
        JobBuilder { model: self.model.locked_memory(limit), ..self }
    }

    /// How long unregistering memory on the model waits for other processes to let go of it; see
    /// [`SimBuilder::release_timeout`].
    pub fn release_timeout(self, timeout: Duration) -> JobBuilder {
        JobBuilder { model: self.model.release_timeout(timeout), ..self }
    }

    /// How long joining waits for the other processes, whatever the environment says.
    pub fn join_timeout(self, timeout: Duration) -> JobBuilder {
        JobBuilder { join_timeout: Some(timeout), ..self }
    }

    /// Joins; returns once all processes of the job have.
    ///
    /// # Errors
    /// [`JoinError`]: the device is not there (before anything is joined), or the job does not come together.
    pub fn join(self) -> Result<Job, JoinError> {
        let choice = choose(self.device, self.processor.as_ref().map(ProcessorKind::of))?;
        let card = Carrier::card(&choice)?;
        let boot = ggas_members::Job::join_within(self.join_timeout)?;
        let nodes = meet(&boot, choice.kind, card.as_ref())?;
        let processor = OnceLock::new();
        if let Some(given) = self.processor {
            let _ = processor.set((given, None));
        }
        let (node, carrier) = match (choice.kind, card) {
            (_, Some(card)) => {
                card.join_job(boot.rank(), &nodes);
                (Node::new(card), Carrier::Card)
            }
            (Kind::Nvlink, None) => {
                let (engine, _) = processor_of(&processor, &choice, boot.rank_on_host())?;
                Carrier::engines(&boot, &engine)?
            }
            (_, None) => Carrier::model(self.model, boot.member().clone())?,
        };
        Ok(Job { node, carrier, choice, processor, nodes, boot })
    }
}

/// The processor in its place, put there if nobody has been asked yet.
fn processor_of(
    place: &OnceLock<(Processor, Option<String>)>,
    choice: &Choice,
    rank_on_host: u32,
) -> Result<(Processor, Option<String>), ChoiceError> {
    match place.get() {
        Some(found) => Ok(found.clone()),
        None => {
            let found = choice.processor(rank_on_host)?;
            Ok(place.get_or_init(|| found).clone())
        }
    }
}

impl Job {
    /// Joins the job that the environment names ([`ggas_members::Job::join`] has the variables), with default
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
        self.node.id()
    }

    /// The device that it is of, and why.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Where this process's kernels run: as the builder, else the variable `GGAS_PROCESSOR` says (`cpu`, `gpu`), else its
    /// GPU if there is one. The ranks of a host take the GPUs that they see in turn. For the CPU executor also why it is not a GPU, if
    /// nobody asked for it; see [`Choice::processor`].
    ///
    /// # Errors
    /// [`ChoiceError::Gpu`], [`ChoiceError::NoKernels`].
    pub fn processor(&self) -> Result<(Processor, Option<String>), ChoiceError> {
        processor_of(&self.processor, &self.choice, self.boot.rank_on_host())
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.boot.rank()
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.boot.size()
    }

    /// Nodes of the job; their ids are 0, 1, ... but on cards.
    pub fn nodes(&self) -> u32 {
        BTreeSet::from_iter(&self.nodes).len() as u32
    }

    /// Processes of each node; the last node may have fewer.
    pub fn per_node(&self) -> u32 {
        match self.carrier {
            Carrier::Card => self.size().div_ceil(self.nodes()),
            _ => self.boot.per_node(),
        }
    }

    /// Node of a rank; `None` for ranks that do not exist.
    pub fn node_of(&self, rank: u32) -> Option<u16> {
        self.nodes.get(rank as usize).copied()
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
        (0..self.size()).filter(|rank| self.boot.state(*rank) == PeerState::Lost).collect()
    }

    /// Calls `callback` once for each rank that dies, and at once for those that have, until the guard is dropped.
    /// It runs on a thread that watches all processes: it must not block.
    pub fn on_loss(&self, callback: impl Fn(u32) + Send + Sync + 'static) -> LossGuard {
        self.boot.on_loss(Box::new(callback))
    }

    /// The network of the model as this process sees it, with one node: for counters. `None` on other devices.
    pub fn network(&self) -> Option<&SimNetwork> {
        self.carrier.network()
    }

    /// The membership itself: name of the job, file descriptors between its processes; what
    /// [`Window::across`](ggas_window::Window::across) asks for.
    pub fn membership(&self) -> &ggas_members::Job {
        &self.boot
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.boot.fmt(f)
    }
}
