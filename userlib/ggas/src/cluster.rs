//! A cluster: nodes of one network that this process holds.

use std::sync::Arc;

use ggas_device::LockedMemory;
#[cfg(doc)]
use ggas_device::sim::Torus;
use ggas_device::sim::timed::{Moves, Timed};
use ggas_device::sim::{BuildError, FabricKind, Faults, Progress, SimBuilder, SimNetwork, Simulation};
use ggas_rma::Node;

/// Modelled nodes in this process, joined by a network.
///
/// Handles of nodes, ports and regions stay valid when the cluster is dropped.
#[derive(Debug)]
pub struct Cluster {
    network: SimNetwork,
    nodes: Vec<Node>,
}

/// What a cluster will be; see [`Cluster::builder`].
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    network: SimBuilder,
}

impl ClusterBuilder {
    /// Number of nodes, ids from 0; 2 unless set.
    pub fn nodes(self, nodes: usize) -> ClusterBuilder {
        ClusterBuilder { network: self.network.nodes(nodes) }
    }

    /// What joins them: a torus in this process unless set, else shared memory as between the processes of a job.
    pub fn fabric(self, fabric: FabricKind) -> ClusterBuilder {
        ClusterBuilder { network: self.network.fabric(fabric) }
    }

    /// Shape of the 3-d torus that joins them; by default the smallest near-cube that holds them.
    pub fn torus(self, x: u32, y: u32, z: u32) -> ClusterBuilder {
        ClusterBuilder { network: self.network.torus(x, y, z) }
    }

    /// Seeded faults of the network; none unless set.
    pub fn faults(self, faults: Faults) -> ClusterBuilder {
        ClusterBuilder { network: self.network.faults(faults) }
    }

    /// Who drives the nodes: NIC threads (default: one), or mainly the callers that post and poll.
    pub fn progress(self, progress: Progress) -> ClusterBuilder {
        ClusterBuilder { network: self.network.progress(progress) }
    }

    /// Runs the nodes in the virtual time of a simulation, from its seed; see [`Simulation`].
    pub fn simulation(self, simulation: &Arc<Simulation>) -> ClusterBuilder {
        ClusterBuilder { network: self.network.simulation(simulation) }
    }

    /// Runs the nodes in virtual time at the costs of a system, joined by its network; see [`SimBuilder::timed`].
    pub fn timed(self, timed: &Arc<Timed>, moves: Moves) -> ClusterBuilder {
        ClusterBuilder { network: self.network.timed(timed, moves) }
    }

    /// How much memory the regions of each node may lock; by default what the system allows.
    pub fn locked_memory(self, limit: LockedMemory) -> ClusterBuilder {
        ClusterBuilder { network: self.network.locked_memory(limit) }
    }

    /// Starts the nodes.
    ///
    /// # Errors
    /// [`BuildError`]: no nodes, a torus that does not hold them, faults that make no sense, no memory.
    pub fn build(self) -> Result<Cluster, BuildError> {
        let network = self.network.build()?;
        let nodes = (0..network.len()).map(|i| network.device(i).map(Node::new)).collect::<Result<_, _>>()?;
        Ok(Cluster { network, nodes })
    }
}

impl Cluster {
    /// Describes a cluster of two nodes without faults.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder { network: SimNetwork::builder() }
    }

    /// A cold start of node `index`: another card, at reset, takes the place of its own, and a dead node is alive again.
    /// Ports of the old one stay valid and reach nobody.
    ///
    /// # Errors
    /// [`BuildError::NoSuchNode`]; [`BuildError::NotBetweenProcesses`].
    pub fn restart(&mut self, index: usize) -> Result<&Node, BuildError> {
        let device = self.network.restart(index)?.clone();
        self.nodes[index] = Node::new(device);
        Ok(&self.nodes[index])
    }

    /// Node `index`. Its id is the index in networks of up to 1,024 nodes (see [`Torus`]).
    ///
    /// # Errors
    /// [`BuildError::NoSuchNode`].
    pub fn node(&self, index: usize) -> Result<&Node, BuildError> {
        let last = self.nodes.len().saturating_sub(1);
        self.nodes.get(index).ok_or(BuildError::NoSuchNode { node: index, last })
    }

    /// All nodes in the order of their ids.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The network, for counters and faults.
    pub fn network(&self) -> &SimNetwork {
        &self.network
    }
}
