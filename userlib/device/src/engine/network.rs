//! Nodes with engines, and what joins them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ggas_kernels::Processor;
use ggas_kernels::args::{ENGINE_NODES, ENGINE_REQUESTERS};

use super::memory::{EngineMemory, OwnMemory};
use super::node::{EngineDevice, Node};
use super::runner::{EngineGuard, EngineLosses, Runner};
use crate::{Device, DeviceError};

/// How engines run.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// Warps of each node that serve its ports, 1 to 4: port `p` belongs to warp `p % requesters`, and the commands of
    /// one warp are carried out one after the other. `None`: as suits most.
    pub requesters: Option<u32>,
    /// Warps of each node that share the work of large packets, for those sent and those taken each, as far as there is
    /// room; `None`: as suits most.
    pub helpers: Option<u32>,
    /// How long a notification waits for room in a full queue before it is dropped (spec 3.2). A requester's or a
    /// responder's holds up changes by the host for as long: ports and regions that come or go. A responder's that still
    /// waits when its engine ends is dropped then.
    pub queue_timeout: Duration,
    /// How long the host waits for an engine: to end, or to let go of memory.
    pub timeout: Duration,
}

impl EngineConfig {
    /// Checks itself, and the number of nodes.
    ///
    /// # Errors
    /// [`EngineBuildError::Nodes`], [`EngineBuildError::Requesters`].
    pub fn check(&self, nodes: usize) -> Result<(), EngineBuildError> {
        let max = ENGINE_NODES;
        if nodes == 0 || nodes > max as usize {
            return Err(EngineBuildError::Nodes { nodes, max });
        }
        let max = ENGINE_REQUESTERS;
        match self.requesters {
            Some(requesters) if requesters == 0 || requesters > max => {
                Err(EngineBuildError::Requesters { requesters, max })
            }
            _ => Ok(()),
        }
    }
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            requesters: None,
            helpers: None,
            queue_timeout: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
        }
    }
}

/// Errors of joining nodes.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum EngineBuildError {
    /// Too few or too many.
    #[error("{nodes} nodes: engines join 1 to {max}")]
    Nodes {
        /// Nodes asked for.
        nodes: usize,
        /// Most nodes.
        max: u32,
    },
    /// Kernels of the CPU and of GPUs do not share memory.
    #[error("nodes on GPUs and on the CPU executor cannot be joined: put all on one kind of processor")]
    Mixed,
    /// No plain stores between two GPUs.
    #[error(
        "GPU {from} cannot store to memory of GPU {to}: choose GPUs with peer access (`ggas info` shows them), or let \
         the software EXTOLL carry the traffic"
    )]
    NoPeer {
        /// GPU that would store.
        from: usize,
        /// GPU whose memory it would be.
        to: usize,
    },
    /// More or fewer warps than there are.
    #[error("{requesters} requester warps: use 1 to {max}")]
    Requesters {
        /// Warps asked for.
        requesters: u32,
        /// Most warps.
        max: u32,
    },
    /// There is no such node.
    #[error("no node {node}: this network has nodes 0 to {last}")]
    NoSuchNode {
        /// Number asked for.
        node: usize,
        /// Last node.
        last: usize,
    },
    /// The node is in another process.
    #[error("node {node} is in another process: this one has node {own}")]
    Elsewhere {
        /// Number asked for.
        node: usize,
        /// Node of this process.
        own: usize,
    },
    /// A node could not be set up.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

ggas_errors::debug_as_display!(EngineBuildError);

/// Nodes with an engine each, on GPUs that reach each other's memory or on the CPU executor: all in this process, where
/// several may be on one GPU, or one in each of several processes.
///
/// ```
/// use ggas_device::engine::EngineNetwork;
/// use ggas_device::{Device, PortSetup};
/// use ggas_kernels::Processor;
///
/// let network = EngineNetwork::new(&[Processor::cpu(), Processor::cpu()])?;
/// let port = network.device(1)?.open_port(&PortSetup::default())?;
/// assert_eq!(port.address().node, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EngineNetwork {
    /// The nodes of this process.
    devices: Vec<Arc<EngineDevice>>,
    /// Id of the first of them.
    first: usize,
    /// Nodes in all processes.
    len: usize,
    runner: Arc<Runner>,
}

impl EngineNetwork {
    /// A node on each of `processors`, numbered from 0.
    ///
    /// # Errors
    /// [`EngineBuildError`].
    pub fn new(processors: &[Processor]) -> Result<EngineNetwork, EngineBuildError> {
        EngineNetwork::with_config(processors, EngineConfig::default())
    }

    /// The same, with settings.
    ///
    /// # Errors
    /// [`EngineBuildError`].
    pub fn with_config(
        processors: &[Processor],
        config: EngineConfig,
    ) -> Result<EngineNetwork, EngineBuildError> {
        config.check(processors.len())?;
        check_reach(processors)?;
        let memory: Arc<dyn EngineMemory> = Arc::new(OwnMemory::new(processors)?);
        Ok(EngineNetwork::of(memory, processors, 0, processors.len(), config))
    }

    /// The node `node` of `nodes`, each in a process of its own, over memory that all of them map. `ggas_window` makes
    /// such networks for the processes of a job; all give the same number of nodes.
    ///
    /// # Errors
    /// [`EngineBuildError`].
    pub fn across(
        memory: Arc<dyn EngineMemory>,
        processor: &Processor,
        node: usize,
        nodes: usize,
        config: EngineConfig,
    ) -> Result<EngineNetwork, EngineBuildError> {
        config.check(nodes)?;
        if node >= nodes {
            return Err(EngineBuildError::NoSuchNode { node, last: nodes - 1 });
        }
        Ok(EngineNetwork::of(memory, std::slice::from_ref(processor), node, nodes, config))
    }

    fn of(
        memory: Arc<dyn EngineMemory>,
        processors: &[Processor],
        first: usize,
        len: usize,
        config: EngineConfig,
    ) -> EngineNetwork {
        let node = |(i, processor)| Arc::new(Node::new((first + i) as u16, processor, &memory));
        let nodes: Vec<_> = processors.iter().enumerate().map(node).collect();
        let runner = Arc::new(Runner::new(memory.clone(), nodes.clone(), len, config));
        let ranks = (nodes.len() < len || len == 1).then_some(len as u32);
        let device = |node| Arc::new(EngineDevice::new(node, runner.clone(), ranks));
        EngineNetwork { devices: nodes.into_iter().map(device).collect(), first, len, runner }
    }

    /// Number of nodes, in all processes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Nodes of this process: all, but for a network [`across`](Self::across) processes.
    pub fn local(&self) -> Range<usize> {
        self.first..self.first + self.devices.len()
    }

    /// For whoever watches the processes of the network.
    pub fn losses(&self) -> EngineLosses {
        EngineLosses::new(&self.runner)
    }

    /// Node `node`, by its id.
    ///
    /// # Errors
    /// [`EngineBuildError::NoSuchNode`], [`EngineBuildError::Elsewhere`].
    pub fn engine_device(&self, node: usize) -> Result<&Arc<EngineDevice>, EngineBuildError> {
        if node >= self.len {
            return Err(EngineBuildError::NoSuchNode { node, last: self.len - 1 });
        }
        let here = node.checked_sub(self.first).and_then(|index| self.devices.get(index));
        here.ok_or(EngineBuildError::Elsewhere { node, own: self.first })
    }

    /// Node `node` as a device.
    ///
    /// # Errors
    /// As for [`engine_device`](Self::engine_device).
    pub fn device(&self, node: usize) -> Result<Arc<dyn Device>, EngineBuildError> {
        Ok(self.engine_device(node)?.clone())
    }

    /// Has the engines of this process run until the result is dropped, for hosts that post or consume themselves;
    /// kernels' ports do it by [`arm`](crate::PortDevice::arm). Calls nest. The engines end once nothing is left to do:
    /// what waits for room in the ring of another process is kept after five seconds, and what others go on sending is
    /// left in the rings after one.
    ///
    /// # Errors
    /// [`DeviceError::Engine`] where they do not fit beside what runs on a GPU.
    pub fn run(&self) -> Result<EngineGuard, DeviceError> {
        self.runner.clone().hold()
    }
}

/// All on one kind of processor, and each GPU reaches the others' memory.
fn check_reach(processors: &[Processor]) -> Result<(), EngineBuildError> {
    let gpus = processors.iter().filter_map(|processor| match processor {
        Processor::Gpu(gpu) => Some(gpu.device()),
        _ => None,
    });
    let gpus: Vec<_> = gpus.collect();
    if !gpus.is_empty() && gpus.len() < processors.len() {
        return Err(EngineBuildError::Mixed);
    }
    for from in &gpus {
        for to in &gpus {
            if from != to && !from.reaches(to) {
                return Err(EngineBuildError::NoPeer { from: from.ordinal(), to: to.ordinal() });
            }
        }
    }
    Ok(())
}
