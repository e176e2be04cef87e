//! The nodes that a benchmark runs on, and where their kernels run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use ggas::{KernelPort, LockedMemory, Node, Path as PostPath, Port, PortConfig, Progress as Drive};
use ggas_device::engine::{EngineConfig, EngineNetwork};
use ggas_device::sim::SimNetwork;
use ggas_gpu::{Copier, CopierGuard};
use ggas_kernels::Processor;
use ggas_members::Job;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Doing;
use crate::kernel::Probe;
use crate::team::Task;
use crate::{BenchError, Check, Device, Memory, NicProgress, Options, Path, Samples, Via, cards};

/// The nodes that this process holds, all or one, and where the kernels of each run. A benchmark does its part for
/// each of them; what it needs of the others comes through [`share`](Self::share).
pub(crate) struct Setup<'a> {
    pub options: &'a Options,
    task: Task<'a>,
    /// Id of the first node here.
    first: u32,
    nodes: Vec<Node>,
    processors: Vec<Processor>,
    /// Short copies to and from GPU memory stay quick while these live.
    _copiers: Vec<CopierGuard>,
}

/// Who works while the benchmark runs; decides who drives the model unless the user says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worker {
    /// One host thread posts and polls.
    Host,
    /// Kernels do.
    Kernels,
    /// Kernels have one host thread post and poll for them.
    KernelsByHost,
}

impl<'a> Setup<'a> {
    /// Starts the nodes.
    pub fn new(task: Task<'a>, worker: Worker) -> Result<Self, BenchError> {
        // First of all: a GPU loads all kernels when it is opened.
        ggas_kernels::add(&crate::image::KERNELS).doing("adding the kernels of the benchmarks")?;
        let options = task.options;
        let turn = task.team.turn();
        let needs_gpu = worker != Worker::Host || options.memory == Memory::Gpu;
        let processors = match (options.device, turn) {
            (Device::Gpu, None) if needs_gpu => gpus(0..options.gpus)?,
            (Device::Gpu, Some(turn)) if needs_gpu => gpus(turn % options.gpus..turn % options.gpus + 1)?,
            _ => vec![Processor::cpu()],
        };
        let engines = options.engines(task.bench);
        let (nodes, first) = match options.via {
            Via::Hw => cards::nodes(task.team)?,
            _ if engines => engines_on(task, &processors)?,
            _ => modelled(task, worker)?,
        };
        let copiers = match options.memory {
            Memory::Gpu if !engines => processors.iter().filter_map(copier).collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        Ok(Self { options, task, first, nodes, processors, _copiers: copiers })
    }

    /// The job of the processes, if there are several.
    pub fn job(&self) -> Option<&'a Job> {
        self.task.team.job()
    }

    /// Ids of the nodes that this process holds.
    pub fn local(&self) -> Range<u32> {
        self.first..self.first + self.nodes.len() as u32
    }

    /// Those of them that are node 0 or 1: the ends of whatever two nodes do.
    pub fn ends(&self) -> Range<u32> {
        let Range { start, end } = self.local();
        start.min(2)..end.min(2)
    }

    /// A node of this process.
    pub fn node(&self, node: u32) -> Result<&Node, BenchError> {
        let here = node.checked_sub(self.first).and_then(|index| self.nodes.get(index as usize));
        here.ok_or_else(|| BenchError::Unsupported(format!("node {node} is not of this process")))
    }

    /// Where the kernels of `node` run: nodes take the GPUs in turn.
    pub fn processor(&self, node: u32) -> &Processor {
        &self.processors[node as usize % self.processors.len()]
    }

    /// Opens a port of `node`, posting over the path that the options name.
    pub fn open_port(&self, node: u32) -> Result<Port, BenchError> {
        self.node(node)?.open_port(self.port_config()).doing(format!("opening a port on node {node}"))
    }

    /// The same for kernels of `node`.
    pub fn open_kernel_port(&self, node: u32) -> Result<KernelPort, BenchError> {
        let port = self.node(node)?.open_kernel_port(self.port_config(), self.processor(node));
        port.doing(format!("opening a port for kernels on node {node}"))
    }

    pub fn port_config(&self) -> PortConfig {
        PortConfig {
            path: Some(self.path()),
            slots: self.options.slots,
            post_timeout: self.options.timeout,
            kernel_timeout: self.options.timeout,
            ..PortConfig::default()
        }
    }

    /// How descriptors reach the requester.
    pub fn path(&self) -> PostPath {
        match self.options.path() {
            Path::Card => PostPath::Card,
            Path::Slots => PostPath::Slots,
        }
    }

    /// Joins what each process says of its nodes, in their order. No process goes on before all have called it, so
    /// it also parts set-up, measurement and tear-down.
    pub fn share<T>(&self, own: Vec<T>) -> Result<Vec<T>, BenchError>
    where
        T: Serialize + DeserializeOwned + Clone,
    {
        Ok(self.task.team.gather(&own, self.options)?.into_iter().flatten().collect())
    }

    /// Samples of node 0, if it is here, out of the probes of all nodes here.
    pub fn samples_of_first(&self, probes: &[Probe]) -> Result<Option<Samples>, BenchError> {
        match probes {
            [first, ..] if self.local().start == 0 => first.samples().map(Some),
            _ => Ok(None),
        }
    }

    /// The samples of the process that took some, and what all processes found wrong. Call it while the ports and
    /// buffers live: the other nodes may still use them before.
    pub fn collect(&self, own: Option<Samples>, check: Check) -> Result<(Samples, Check), BenchError> {
        let mut samples = None;
        let mut all = Check::default();
        for (taken, check) in self.task.team.gather(&(own, check), self.options)? {
            samples = samples.or(taken);
            all.merge(check);
        }
        Ok((samples.unwrap_or(Samples::new(Vec::new(), 1)), all))
    }
}

/// The nodes of the software EXTOLL that this process has, and the first one's id.
fn modelled(task: Task, worker: Worker) -> Result<(Vec<Node>, u32), BenchError> {
    let options = task.options;
    let drive = match options.progress.unwrap_or(default_progress(options, worker)) {
        NicProgress::Inline => Drive::Inline,
        NicProgress::Threads => Drive::Threads(nic_threads(options.nodes / task.team.size())),
    };
    // The model pins nothing, so the user's limit on locked memory need not hold here.
    let builder = SimNetwork::builder().progress(drive).locked_memory(LockedMemory::Unlimited);
    let (network, first) = match task.team.ends() {
        None => (builder.nodes(options.nodes as usize).build(), 0),
        Some(ends) => (builder.join_ends(ends), ends.node().into()),
    };
    let network = network.doing(format!("starting {} nodes", options.nodes))?;
    let nodes = (0..network.len()).map(|node| network.device(node).map(Node::new));
    let nodes = nodes.collect::<Result<_, _>>().doing("starting nodes")?;
    Ok((nodes, first))
}

/// Nodes with engines that this process has, and the first one's id; nodes of one process take its processors in turn.
fn engines_on(task: Task, processors: &[Processor]) -> Result<(Vec<Node>, u32), BenchError> {
    const DOING: &str = "joining nodes by engines";
    let Options { requesters, helpers, .. } = *task.options;
    let network = match (task.team.job(), processors) {
        (Some(_), _) if requesters.or(helpers).is_some() => {
            let advice = "engines of several processes choose their warps themselves; leave it out";
            let option = if helpers.is_some() { "helpers" } else { "requesters" };
            return Err(BenchError::option(option, helpers.or(requesters).unwrap_or(0), advice));
        }
        (Some(job), [processor, ..]) => {
            ggas_window::engines_across(job, processor, task.options.timeout).doing(DOING)?
        }
        _ => {
            let turns = processors.iter().cycle().take(task.options.nodes as usize);
            let processors: Vec<_> = turns.cloned().collect();
            // Who reads a queue may lose its processor: what waits for room is waited for as long as anything else.
            let queue_timeout = task.options.timeout;
            let config = EngineConfig { requesters, helpers, queue_timeout, ..EngineConfig::default() };
            EngineNetwork::with_config(&processors, config).doing(DOING)?
        }
    };
    let nodes = network.local().map(|node| network.device(node).map(Node::new));
    Ok((nodes.collect::<Result<_, _>>().doing(DOING)?, network.local().start as u32))
}

/// Has the copier of a GPU run; nothing for the CPU.
fn copier(processor: &Processor) -> Option<Result<CopierGuard, BenchError>> {
    let Processor::Gpu(gpu) = processor else { return None };
    let copier = Copier::of(gpu.device()).and_then(|copier| copier.arm());
    Some(copier.doing("starting the copier of a GPU"))
}

/// Nobody but NIC threads can work for kernels on a GPU; those of the executor help, and so does who watches a page.
fn default_progress(options: &Options, worker: Worker) -> NicProgress {
    match (options.device, worker) {
        (Device::Gpu, Worker::Kernels) if options.path() == Path::Slots => NicProgress::Threads,
        _ => NicProgress::Inline,
    }
}

/// A NIC thread for each of the `nodes` here where a quarter of the cores suffices for that.
fn nic_threads(nodes: u32) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, nodes.max(1) as usize)
}

/// These GPUs. Opening one and loading the kernels takes long, so it happens once.
fn gpus(ordinals: Range<u32>) -> Result<Vec<Processor>, BenchError> {
    static OPEN: Mutex<BTreeMap<u32, Processor>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = |ordinal| match open.entry(ordinal) {
        Entry::Occupied(entry) => Ok(entry.get().clone()),
        Entry::Vacant(entry) => {
            let gpu = Processor::gpu(ordinal as usize).doing(format!("opening GPU {ordinal}"))?;
            Ok(entry.insert(gpu).clone())
        }
    };
    ordinals.map(opened).collect()
}
