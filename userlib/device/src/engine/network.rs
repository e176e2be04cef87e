//! Nodes with engines, and what joins them.

use std::sync::Arc;
use std::time::Duration;

use ggas_kernels::Processor;
use ggas_kernels::args::{ENGINE_NODES, ENGINE_REQUESTERS};

use super::node::{EngineDevice, Node};
use super::runner::{EngineGuard, Runner};
use crate::{Device, DeviceError};

/// How engines run.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// Warps of each node that serve its ports, 1 to 4: port `p` belongs to warp `p % requesters`, and the commands of
    /// one warp are carried out one after the other.
    pub requesters: u32,
    /// How long a notification waits for room in a full queue before it is dropped (spec 3.2).
    pub queue_timeout: Duration,
    /// How long the host waits for an engine: to end, or to let go of memory.
    pub timeout: Duration,
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            requesters: ENGINE_REQUESTERS,
            queue_timeout: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
        }
    }
}

/// Errors of joining nodes.
#[derive(Debug, thiserror::Error)]
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
    /// A node could not be set up.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Nodes of this process with an engine each, on GPUs that reach each other's memory or on the CPU executor. Several
/// nodes may be on one GPU.
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
    devices: Vec<Arc<EngineDevice>>,
    runner: Arc<Runner>,
}

impl EngineNetwork {
    /// A node on each of `processors`, numbered from 0.
    ///
    /// # Errors
    /// [`EngineBuildError`].
    pub fn new(processors: &[Processor]) -> Result<EngineNetwork, EngineBuildError> {
        let cpu = processors.iter().all(|processor| matches!(processor, Processor::Cpu(_)));
        // The executor runs a warp's lanes one after the other: more warps only take longer.
        let requesters = if cpu { 1 } else { ENGINE_REQUESTERS };
        EngineNetwork::with_config(processors, EngineConfig { requesters, ..EngineConfig::default() })
    }

    /// The same, with settings.
    ///
    /// # Errors
    /// [`EngineBuildError`].
    pub fn with_config(
        processors: &[Processor],
        config: EngineConfig,
    ) -> Result<EngineNetwork, EngineBuildError> {
        let (nodes, max) = (processors.len(), ENGINE_NODES);
        if nodes == 0 || nodes > max as usize {
            return Err(EngineBuildError::Nodes { nodes, max });
        }
        let (requesters, max) = (config.requesters, ENGINE_REQUESTERS);
        if requesters == 0 || requesters > max {
            return Err(EngineBuildError::Requesters { requesters, max });
        }
        check_reach(processors)?;
        let node = |(id, processor): (usize, &Processor)| Node::new(id as u16, nodes, processor);
        let nodes = processors.iter().enumerate().map(node).collect::<Result<Vec<_>, _>>()?;
        let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        let runner = Arc::new(Runner::new(nodes.clone(), config));
        let device = |node| Arc::new(EngineDevice::new(node, runner.clone()));
        Ok(EngineNetwork { devices: nodes.into_iter().map(device).collect(), runner })
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Node `node`.
    ///
    /// # Errors
    /// [`EngineBuildError::NoSuchNode`].
    pub fn engine_device(&self, node: usize) -> Result<&Arc<EngineDevice>, EngineBuildError> {
        let last = self.devices.len().saturating_sub(1);
        self.devices.get(node).ok_or(EngineBuildError::NoSuchNode { node, last })
    }

    /// Node `node` as a device.
    ///
    /// # Errors
    /// [`EngineBuildError::NoSuchNode`].
    pub fn device(&self, node: usize) -> Result<Arc<dyn Device>, EngineBuildError> {
        Ok(self.engine_device(node)?.clone())
    }

    /// Has the engines run until the result is dropped, for hosts that post or consume themselves; kernels' ports do it
    /// by [`arm`](crate::PortDevice::arm). Calls nest. The engines end once nothing is left to do.
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
