//! What the benchmarks set up: nodes, ports, buffers.

use std::sync::{Arc, Mutex, PoisonError};

use ggas::{
    Cluster, Connection, HostBuffer, LockedMemory, Notification, Path as PostPath, Port, PortConfig,
    PortHandle, Progress as Drive, Region,
};
use ggas_gpu::{Copier, CopierGuard};
use ggas_kernels::{Mapped, Processor};

use crate::error::Doing;
use crate::{Bench, BenchError, Check, Device, Memory, NicProgress, Options, Path, Pattern, Report};

/// Largest payload of one command (spec 2.2).
pub(crate) const MAX_PUT: u64 = 8 << 20;

/// Nodes, and where the kernels of each run.
pub(crate) struct Setup<'a> {
    pub options: &'a Options,
    pub cluster: Cluster,
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
    /// Checks the options and starts the nodes.
    pub fn new(bench: &dyn Bench, options: &'a Options, worker: Worker) -> Result<Self, BenchError> {
        options.validate(bench)?;
        let drive = match options.progress.unwrap_or(default_progress(options, worker)) {
            NicProgress::Inline => Drive::Inline,
            NicProgress::Threads => Drive::Threads(nic_threads(options.nodes)),
        };
        // The model pins nothing, so the user's limit on locked memory need not hold here.
        let builder = Cluster::builder()
            .nodes(options.nodes as usize)
            .progress(drive)
            .locked_memory(LockedMemory::Unlimited);
        let cluster = builder.build().doing(format!("starting {} nodes", options.nodes))?;
        let needs_gpu = worker != Worker::Host || options.memory == Memory::Gpu;
        let processors = match options.device {
            Device::Gpu if needs_gpu => gpus(options.gpus)?,
            _ => vec![Processor::cpu()],
        };
        let copiers = match options.memory {
            Memory::Host => Vec::new(),
            Memory::Gpu => processors.iter().filter_map(copier).collect::<Result<_, _>>()?,
        };
        Ok(Self { options, cluster, processors, _copiers: copiers })
    }

    /// Where the kernels of `node` run: nodes take the GPUs in turn.
    pub fn processor(&self, node: u32) -> &Processor {
        &self.processors[node as usize % self.processors.len()]
    }

    /// Opens a port of `node`, posting over the path that the options name.
    pub fn open_port(&self, node: u32) -> Result<Port, BenchError> {
        let path = match self.options.path.unwrap_or(Path::Slots) {
            Path::Card => PostPath::Card,
            Path::Slots => PostPath::Slots,
        };
        let config = PortConfig {
            path,
            slots: self.options.slots,
            post_timeout: self.options.timeout,
            kernel_timeout: self.options.timeout,
            ..PortConfig::default()
        };
        let node = self.cluster.node(node as usize).doing("choosing a node")?;
        node.open_port(config).doing(format!("opening a port on node {}", node.id()))
    }
}

/// Has the copier of a GPU run; nothing for the CPU.
fn copier(processor: &Processor) -> Option<Result<CopierGuard, BenchError>> {
    let Processor::Gpu(gpu) = processor else { return None };
    let copier = Copier::of(gpu.device()).and_then(|copier| copier.arm());
    Some(copier.doing("starting the copier of a GPU"))
}

/// Nobody but NIC threads can work for kernels on a GPU; those of the executor help.
fn default_progress(options: &Options, worker: Worker) -> NicProgress {
    match (options.device, worker) {
        (Device::Gpu, Worker::Kernels) => NicProgress::Threads,
        _ => NicProgress::Inline,
    }
}

/// A NIC thread per node where a quarter of the cores suffices for that.
fn nic_threads(nodes: u32) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, nodes as usize)
}

/// An empty report of `bench`.
pub(crate) fn report(bench: &dyn Bench, options: &Options) -> Report {
    let mut report = Report::new(bench.name(), options, "in process");
    if options.device == Device::Gpu {
        report.host.add_gpus(options.gpus);
    }
    report.settings.insert("path", options.path.unwrap_or(Path::Slots).name().into());
    report.settings.insert("slots", options.slots.into());
    report
}

/// One processor per GPU asked for. Opening a GPU and loading the kernels takes long, so it happens once.
fn gpus(count: u32) -> Result<Vec<Processor>, BenchError> {
    static OPEN: Mutex<Vec<Processor>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    while open.len() < count as usize {
        let ordinal = open.len();
        open.push(Processor::gpu(ordinal).doing(format!("opening GPU {ordinal}"))?);
    }
    Ok(open[..count as usize].to_vec())
}

/// A registered buffer of a node.
pub(crate) struct Payload {
    // Gone before the memory.
    mapped: Option<Mapped>,
    pub region: Region,
    on_gpu: bool,
}

impl Payload {
    /// Registers `bytes` of zeroed memory on `port` of `node`, where the options want the payload.
    pub fn new(setup: &Setup, node: u32, port: &PortHandle, bytes: usize) -> Result<Self, BenchError> {
        match setup.options.memory {
            Memory::Host => Self::host(port, bytes),
            Memory::Gpu => {
                let memory = setup.processor(node).alloc(bytes).doing("allocating GPU memory")?;
                let region = port.register_kernel_memory(Arc::new(memory));
                let region = region.doing(format!("registering {bytes} bytes of GPU memory"))?;
                Ok(Self { mapped: None, region, on_gpu: true })
            }
        }
    }

    /// Registers `bytes` of zeroed host memory on `port`.
    pub fn host(port: &PortHandle, bytes: usize) -> Result<Self, BenchError> {
        let buffer = HostBuffer::zeroed(bytes).doing("allocating host memory")?;
        let region = port.register(buffer).doing(format!("registering {bytes} bytes"))?;
        Ok(Self { mapped: None, region, on_gpu: false })
    }

    /// Lets kernels of `processor` use it too, at [`address`](Self::address).
    pub fn for_kernels(mut self, processor: &Processor) -> Result<Self, BenchError> {
        if !self.on_gpu {
            let start = self.region.address() as *mut u8;
            // SAFETY: the region keeps the memory, which is only ever accessed atomically or by copies, and the
            // mapping is dropped first.
            let mapped = unsafe { processor.map_host(start, self.region.len()) };
            self.mapped = Some(mapped.doing("mapping host memory for kernels")?);
        }
        Ok(self)
    }

    /// Where kernels see it.
    pub fn address(&self) -> u64 {
        self.mapped.as_ref().map_or(self.region.address(), Mapped::address)
    }

    /// Copies bytes in.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), BenchError> {
        self.region.write(offset, bytes).doing("writing the payload")
    }

    /// Copies `len` bytes out.
    pub fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, BenchError> {
        let mut bytes = vec![0; len];
        self.region.read(offset, &mut bytes).doing("reading the payload")?;
        Ok(bytes)
    }

    /// Network logical address of byte `offset`.
    pub fn nla(&self, offset: usize) -> Result<u64, BenchError> {
        self.region.nla(offset).doing("naming a registered address")
    }
}

/// Consumes the next notification of `port`; one with an error bit is an error.
#[inline]
pub(crate) fn consume(port: &Port, options: &Options) -> Result<Notification, BenchError> {
    let notification = port.wait(options.timeout).doing("waiting for a notification")?;
    if notification.error().is_empty() { Ok(notification) } else { Err(refused(notification)) }
}

#[cold]
fn refused(notification: Notification) -> BenchError {
    BenchError::Refused(format!("{notification:?}"))
}

/// How a node's registered buffer is divided: two sources, sent in turn so that every arrival changes the data,
/// and where data arrive.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub bytes: usize,
    stride: usize,
}

impl Layout {
    /// For payloads of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { bytes: bytes as usize, stride: (bytes as usize).next_multiple_of(256) }
    }

    /// Offset of what is sent in round `round`.
    pub fn source(&self, round: u64) -> usize {
        (round % 2) as usize * self.stride
    }

    /// Offset of where data arrive.
    pub fn arrival(&self) -> usize {
        2 * self.stride
    }

    /// Bytes of the whole buffer.
    pub fn len(&self) -> usize {
        3 * self.stride
    }
}

/// The data of odd and even rounds: different in every byte, and both different from the poison.
pub(crate) struct RoundData {
    even: Vec<u8>,
    poison: Vec<u8>,
}

impl RoundData {
    /// For payloads of `bytes`.
    pub fn new(seed: u64, stream: u64, bytes: usize) -> Self {
        let pattern = Pattern::new(seed, stream);
        Self { even: pattern.bytes(bytes), poison: pattern.poison(bytes) }
    }

    /// What round `round` sends.
    pub fn of(&self, round: u64) -> Vec<u8> {
        if round.is_multiple_of(2) { self.even.clone() } else { self.even.iter().map(|byte| !byte).collect() }
    }

    /// What the place of arrival holds before.
    pub fn poison(&self) -> &[u8] {
        &self.poison
    }

    /// Writes sources and poison into a buffer.
    pub fn lay_out(&self, payload: &Payload, layout: Layout) -> Result<(), BenchError> {
        for round in 0..2 {
            payload.write(layout.source(round), &self.of(round))?;
        }
        payload.write(layout.arrival(), self.poison())
    }

    /// Compares what arrived with what the last of `rounds` sent.
    pub fn check(
        &self,
        what: &str,
        payload: &Payload,
        layout: Layout,
        rounds: u64,
    ) -> Result<Check, BenchError> {
        let seen = payload.read(layout.arrival(), layout.bytes)?;
        let mut check = Check::default();
        check.bytes(what, &self.of(rounds - 1), &seen);
        Ok(check)
    }
}

/// One end of a transfer driven by the host.
pub(crate) struct HostEnd {
    pub port: Port,
    pub payload: Payload,
    pub connection: Connection,
    /// NLA of the place of arrival at the other end.
    pub target: u64,
}

/// Opens ports on nodes 0 and 1, registers their buffers and connects them.
pub(crate) fn host_pair(setup: &Setup, layout: Layout, data: &RoundData) -> Result<[HostEnd; 2], BenchError> {
    let open = |node| -> Result<(Port, Payload), BenchError> {
        let port = setup.open_port(node)?;
        let payload = Payload::new(setup, node, &port, layout.len())?;
        data.lay_out(&payload, layout)?;
        Ok((port, payload))
    };
    let ((first, here), (second, there)) = (open(0)?, open(1)?);
    let end = |port: Port, payload, remote, target| {
        let connection = port.connect(remote);
        HostEnd { port, payload, connection, target }
    };
    let (here_nla, there_nla) = (here.nla(layout.arrival())?, there.nla(layout.arrival())?);
    let (first_address, second_address) = (first.address(), second.address());
    Ok([end(first, here, second_address, there_nla), end(second, there, first_address, here_nla)])
}
