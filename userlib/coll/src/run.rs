//! Collectives that the host starts and waits for: by kernels where these reach all parts of the window, else by the processes,
//! as those that share a GPU do.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ggas_kernels::{Launch, Processor, start};
use ggas_members::Job;
use ggas_shared_gpu::{
    self as shared_gpu, Config, Hierarchy, HierarchyConfig, SharedGpuError, Through, Vector,
};
use ggas_window::{Mapping, Window};

use crate::{Collective, Element, Group, GroupConfig, GroupError, Op, Tuning, Vectors};

/// Waits of a collective that may each take as long as a group's time-out.
const WAITS: u32 = 8;

/// By whom a group between processes makes the collectives of [`Group::run`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunBy {
    /// By kernels where they reach all parts of the window, on a GPU without the host, else by the processes.
    #[default]
    Reach,
    /// By the processes, whatever kernels reach: to compare, and on the CPU executor to test. [`Group::collective`] is as ever.
    Processes,
}

/// Bytes that this process has put to other hosts for [`Group::run`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BetweenHosts {
    /// Through memory of the hosts, where cores reduce.
    pub through_host: u64,
    /// Through memory of GPUs, which reduce.
    pub through_gpu: u64,
    /// Of both, what was put from vectors in the window themselves, without a copy.
    pub straight: u64,
}

/// Whether kernels reach all parts, and not by a thread of the host that makes the accesses of a GPU's: it would make each of a
/// collective for itself. All members have the same kind of processor.
fn reach_quickly(window: &Window) -> Result<bool, GroupError> {
    let member = window.member(window.local().start)?;
    let by_host =
        matches!(member.processor(), Processor::Gpu(_)) && window.info().mapped == Ok(Mapping::Trapped);
    Ok(window.info().mapped.is_ok() && !by_host)
}

/// Processes that make collectives together: each copies, some have their GPUs reduce, and one of each host passes on between hosts.
#[derive(Debug)]
pub(crate) struct Processes {
    // It borrows from the window, and so goes first.
    all: Mutex<Hierarchy>,
    window: Arc<Window>,
    /// Of each part, where no vectors are.
    area: Range<usize>,
    config: HierarchyConfig,
}

impl Processes {
    /// Collective over the job. `None`: kernels make the group's collectives, or nobody can.
    pub fn new(
        job: &Job,
        window: &Arc<Window>,
        area: Range<usize>,
        config: &GroupConfig,
        table: Tuning,
    ) -> Result<Option<Processes>, GroupError> {
        let by_processes = config.run_by == RunBy::Processes || !reach_quickly(window)?;
        if !by_processes {
            return Ok(None);
        }
        let between = Config { timeout: config.timeout, ..Config::default() };
        let inside = Config { table: table.shared_gpu, ..between.clone() };
        let config =
            HierarchyConfig { inside, between, hosts: table.between_hosts, ..HierarchyConfig::default() };
        let window = window.clone();
        let all = Mutex::new(Processes::set_up(job, &window, &area, &config)?);
        Ok(Some(Processes { all, window, area, config }))
    }

    /// What is set up goes before the window.
    fn set_up(
        job: &Job,
        window: &Window,
        area: &Range<usize>,
        config: &HierarchyConfig,
    ) -> Result<Hierarchy, GroupError> {
        let member = window.member(window.local().start)?;
        let mut all = Hierarchy::new(job, Some(member.node()), member.processor(), config)?;
        let part = member.pointer_of(member.rank())? as *mut u8;
        // Vectors are in front of the area or behind it.
        for place in [0..area.start, area.end.next_multiple_of(8)..window.bytes()] {
            if !place.is_empty() {
                // SAFETY: this process's part, which the caller keeps longer than the result; accessed as vectors are.
                let memory = unsafe { member.processor().borrow(part.add(place.start), place.len()) }?;
                all.attach(&Arc::new(memory));
            }
        }
        Ok(all)
    }

    /// As new. Collective over the job.
    pub fn reset(&self, job: &Job) -> Result<(), GroupError> {
        let new = Processes::set_up(job, &self.window, &self.area, &self.config)?;
        *self.locked() = new;
        Ok(())
    }

    fn between_hosts(&self) -> BetweenHosts {
        let all = self.locked();
        let [through_host, through_gpu] = [Through::Host, Through::Gpu].map(|memory| all.put_bytes(memory));
        BetweenHosts { through_host, through_gpu, straight: all.straight_bytes() }
    }

    pub fn is_broken(&self) -> bool {
        self.locked().is_broken()
    }

    fn locked(&self) -> MutexGuard<'_, Hierarchy> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, what: Collective, vectors: &Vectors) -> Result<(), GroupError> {
        let window = &self.window;
        let rank = window.local().start;
        let member = window.member(rank)?;
        let part = member.pointer_of(rank)? as *mut u8;
        // SAFETY: this process's part, which the window keeps; who runs a collective leaves its vectors alone meanwhile.
        let part = unsafe { member.processor().borrow(part, window.bytes()) }?;
        let (input, output) = (Vector::at(&part, vectors.input), Vector::at(&part, vectors.output));
        let (count, element) = (vectors.count, vectors.element.shared());
        let mut all = self.locked();
        let done = match what {
            Collective::Barrier => all.barrier(),
            Collective::Broadcast { root } => all.broadcast(root, output, count, element),
            Collective::AllGather => all.allgather(input, output, count, element),
            Collective::AllToAll => all.alltoall(input, output, count, element),
            Collective::Reduce { root, op } => all.reduce(root, input, output, count, element, op.shared()),
            Collective::ReduceScatter { op } => {
                all.reduce_scatter(input, output, count, element, op.shared())
            }
            Collective::Allreduce { op } => all.allreduce(input, output, count, element, op.shared()),
        };
        done.map_err(|error| match error {
            SharedGpuError::PeerLost { rank } => GroupError::PeerLost { rank },
            SharedGpuError::PeerLeft { rank } => GroupError::PeerLeft { rank },
            error => error.into(),
        })
    }
}

impl Group {
    /// Makes a collective, and returns when it is done: each process calls it, with the same `what` and vectors. Members of one process
    /// start together. The program's own streams are done with the vectors before.
    ///
    /// By kernels where they reach all parts of the window. Processes that share a GPU, whose kernels would wait for each other's
    /// turns, copy and reduce by [`ggas_shared_gpu`], by the way that was measured to be quickest for the size; those of several GPUs
    /// then go GPU by GPU, and those of several hosts host by host. [`Vectors::shape`] is of kernels only. Sums have the same bits in each run, but not the same by both.
    ///
    /// ```
    /// # use ggas_device::sim::SimNetwork;
    /// # use ggas_rma::Node;
    /// # use std::{sync::Arc, time::Duration};
    /// # let network = SimNetwork::builder().nodes(1).build()?;
    /// # let (node, processor) = (Node::new(network.device(0)?), ggas_kernels::Processor::cpu());
    /// use ggas_coll::{Collective, Element, Group, GroupConfig, Op, Vectors};
    ///
    /// // Of a `ggas::Job` these are `job.membership()`, `job.node()` and what `job.processor()` says.
    /// let job = ggas_members::Job::join()?;
    /// let (rank, ranks) = (job.rank() as usize, job.size() as usize);
    ///
    /// // Vectors in the first MiB of each process's part, the group's area behind it.
    /// let config = GroupConfig { offset: 1 << 20, ..GroupConfig::for_nodes(ranks) };
    /// let bytes = config.end(ranks)?;
    /// let window = ggas_window::Window::across(&job, &node, &processor, bytes, Duration::from_secs(10))?;
    /// let window = Arc::new(window);
    /// let group = Group::across(&job, window.clone(), &config)?;
    ///
    /// window.write(rank, 0, &1.5f64.to_le_bytes())?;
    /// let vectors = Vectors { input: 0, output: 4096, count: 1, element: Element::Double, shape: None };
    /// group.run(Collective::Allreduce { op: Op::Sum }, &vectors)?;
    /// let mut sum = [0; 8];
    /// window.read(rank, 4096, &mut sum)?;
    /// assert_eq!(f64::from_le_bytes(sum), 1.5 * ranks as f64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`collective`](Group::collective), before anything is done; as of [`check`](Group::check), and [`GroupError::Launch`], by kernels;
    /// [`GroupError::PeerLost`], [`GroupError::PeerLeft`], [`GroupError::Shared`] by processes. A failure of those ends the group's use until
    /// [`reset_across`](Group::reset_across).
    pub fn run(&self, what: Collective, vectors: &Vectors) -> Result<(), GroupError> {
        if let Some(processes) = &self.processes {
            self.check_loss()?;
            self.check_vectors(what, vectors, self.window().local().start).map_err(GroupError::Vectors)?;
            return processes.run(what, vectors);
        }
        let launch = |rank| {
            let member = self.window().member(rank)?;
            self.collective(rank, member.processor(), what, vectors)
        };
        let launches = self.window().local().map(launch).collect::<Result<Vec<Launch<'_>>, GroupError>>()?;
        let ended = start(&launches)?.wait(self.bound());
        // Why it failed says more than that it did.
        self.check()?;
        Ok(ended?)
    }

    /// What this process has put to other hosts for [`run`](Self::run) since the set-up, as the one of its host that does; 0 where kernels
    /// make the collectives. Vectors in the window go from where they are wherever they may.
    pub fn between_hosts(&self) -> BetweenHosts {
        self.processes.as_ref().map(Processes::between_hosts).unwrap_or_default()
    }

    /// What no collective of kernels takes longer than.
    fn bound(&self) -> Duration {
        self.timeout.saturating_mul(WAITS)
    }
}

impl Element {
    fn shared(self) -> shared_gpu::Element {
        match self {
            Self::Float => shared_gpu::Element::Float,
            Self::Double => shared_gpu::Element::Double,
            Self::Int32 => shared_gpu::Element::Int32,
            Self::Int64 => shared_gpu::Element::Int64,
            Self::Half => shared_gpu::Element::Half,
            Self::Bfloat16 => shared_gpu::Element::Bfloat16,
        }
    }
}

impl Op {
    fn shared(self) -> shared_gpu::Op {
        match self {
            Self::Sum => shared_gpu::Op::Sum,
            Self::Prod => shared_gpu::Op::Prod,
            Self::Min => shared_gpu::Op::Min,
            Self::Max => shared_gpu::Op::Max,
            Self::And => shared_gpu::Op::And,
            Self::Or => shared_gpu::Op::Or,
            Self::Xor => shared_gpu::Op::Xor,
        }
    }
}
