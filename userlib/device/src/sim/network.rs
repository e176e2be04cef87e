//! A network of modelled nodes in this process.

use std::fmt;
use std::sync::Arc;

use extoll_sim::faults::{FaultError, Faults};
use extoll_sim::network::{Network, NetworkError};
use extoll_sim::torus::{Torus, TorusError};
use extoll_sim::{Engine, Fabric, HostMemory, Memory, Nic, NicConfig, NicError};

use super::node::{Node, SimDevice};
use crate::{Device, DeviceError, LockedMemory};

/// Who drives the nodes' units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Callers that post and poll do the work on their own thread, which is fastest with few cores. The process's
    /// NIC threads do what callers leave undone, so a put into a node that polls nothing completes too.
    #[default]
    Inline,
    /// This many NIC threads of the network's own do all the work, as a card would.
    Threads(usize),
}

/// Errors of building a network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A network has nodes.
    #[error("a network of 0 nodes: ask for at least one")]
    NoNodes,
    /// More nodes than the torus has places.
    #[error("{nodes} nodes do not fit into a torus of {places} places: make it larger")]
    TorusTooSmall {
        /// Nodes asked for.
        nodes: usize,
        /// Places of the torus.
        places: usize,
    },
    /// The torus has no such shape.
    #[error(transparent)]
    Torus(#[from] TorusError),
    /// The faults make no sense.
    #[error(transparent)]
    Faults(#[from] FaultError),
    /// A node could not be set up.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The network has no such shape.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The model refused a node.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// There is no such node.
    #[error("no node {node}: this network has nodes 0 to {last}")]
    NoSuchNode {
        /// Number asked for.
        node: usize,
        /// Last node.
        last: usize,
    },
}

/// What a network will be.
#[derive(Clone, Debug)]
pub struct SimBuilder {
    nodes: usize,
    torus: Option<(u32, u32, u32)>,
    faults: Faults,
    progress: Progress,
    locked_memory: LockedMemory,
}

impl SimBuilder {
    /// Number of nodes, 2 unless set.
    pub fn nodes(self, nodes: usize) -> SimBuilder {
        SimBuilder { nodes, ..self }
    }

    /// Shape of the 3-d torus that joins them; by default the smallest near-cube that holds them.
    pub fn torus(self, x: u32, y: u32, z: u32) -> SimBuilder {
        SimBuilder { torus: Some((x, y, z)), ..self }
    }

    /// Faults of the network; none unless set.
    pub fn faults(self, faults: Faults) -> SimBuilder {
        SimBuilder { faults, ..self }
    }

    /// Who drives the nodes.
    pub fn progress(self, progress: Progress) -> SimBuilder {
        SimBuilder { progress, ..self }
    }

    /// How much memory the regions of each node may lock.
    pub fn locked_memory(self, limit: LockedMemory) -> SimBuilder {
        SimBuilder { locked_memory: limit, ..self }
    }

    /// Starts the nodes.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(self) -> Result<SimNetwork, BuildError> {
        if self.nodes == 0 {
            return Err(BuildError::NoNodes);
        }
        self.faults.validate()?;
        let torus = match self.torus {
            Some((x, y, z)) => Torus::new(x, y, z)?,
            None => Torus::with_nodes(u32::try_from(self.nodes).unwrap_or(u32::MAX))?,
        };
        if self.nodes > torus.len() {
            return Err(BuildError::TorusTooSmall { nodes: self.nodes, places: torus.len() });
        }
        let fabric = Network::new(torus, self.faults)?;
        let memory = HostMemory::new();
        let (engine, inline) = match self.progress {
            Progress::Inline => (Engine::global(), true),
            Progress::Threads(threads) => (Engine::new(threads.max(1)), false),
        };
        let start = |node: usize| -> Result<Arc<SimDevice>, BuildError> {
            let config = NicConfig {
                node: torus.id_of_index(node),
                memory: memory.clone() as Arc<dyn Memory>,
                fabric: fabric.clone() as Arc<dyn Fabric>,
                engine: Some(engine.clone()),
                inline,
                shared: None,
            };
            let node = Node::start(Nic::new(config)?, memory.clone(), inline, self.locked_memory)?;
            Ok(Arc::new(SimDevice::new(node)))
        };
        let devices = (0..self.nodes).map(start).collect::<Result<_, _>>()?;
        Ok(SimNetwork { devices, fabric })
    }
}

/// Modelled nodes in this process, joined by a network.
pub struct SimNetwork {
    devices: Vec<Arc<SimDevice>>,
    fabric: Arc<Network>,
}

impl fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimNetwork").field("nodes", &self.devices.len()).finish_non_exhaustive()
    }
}

impl SimNetwork {
    /// Describes a network of two nodes without faults.
    pub fn builder() -> SimBuilder {
        SimBuilder {
            nodes: 2,
            torus: None,
            faults: Faults::none(),
            progress: Progress::default(),
            locked_memory: LockedMemory::default(),
        }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// What joins the nodes: counters of links, and faults that happen at once.
    pub fn fabric(&self) -> &Arc<Network> {
        &self.fabric
    }

    /// The modelled node `node`.
    ///
    /// # Errors
    /// [`BuildError::NoSuchNode`].
    pub fn sim_device(&self, node: usize) -> Result<&Arc<SimDevice>, BuildError> {
        let last = self.devices.len().saturating_sub(1);
        self.devices.get(node).ok_or(BuildError::NoSuchNode { node, last })
    }

    /// Node `node` as a device.
    ///
    /// # Errors
    /// [`BuildError::NoSuchNode`].
    pub fn device(&self, node: usize) -> Result<Arc<dyn Device>, BuildError> {
        Ok(self.sim_device(node)?.clone())
    }
}
