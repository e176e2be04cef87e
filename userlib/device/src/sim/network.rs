//! A network of modelled nodes in this process.

use std::fmt;
use std::sync::Arc;

use extoll_sim::faults::Event;
use extoll_sim::hosts::HostsFabric;
use extoll_sim::network::Network;
use extoll_sim::shared::ProcessFabric;
use extoll_sim::timed::Timed;
use extoll_sim::{Driver, HostMemory};

use super::builder::{BuildError, SimBuilder};
use super::node::SimDevice;
use crate::Device;

/// What joins the nodes.
pub(super) enum Joined {
    Torus(Box<TorusNodes>),
    Processes(Vec<Arc<ProcessFabric>>),
    Hosts(Arc<HostsFabric>),
    /// Of a job over hosts: the end on this host, and that between hosts.
    Job(Vec<Arc<ProcessFabric>>, Arc<HostsFabric>),
    Timed(Arc<Timed>),
}

/// What the nodes of a torus are made with.
pub(super) struct TorusNodes {
    pub(super) network: Arc<Network>,
    pub(super) memory: Arc<HostMemory>,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) builder: SimBuilder,
}

/// Modelled nodes of this process, joined by a network.
pub struct SimNetwork {
    pub(super) devices: Vec<Arc<SimDevice>>,
    pub(super) joined: Joined,
}

impl fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimNetwork").field("nodes", &self.devices.len()).finish_non_exhaustive()
    }
}

impl SimNetwork {
    /// Describes a network of two nodes without faults.
    pub fn builder() -> SimBuilder {
        SimBuilder::default()
    }

    /// Starts the one node that this process has as a member of a network; see [`SimBuilder::join`].
    ///
    /// # Errors
    /// As there.
    pub fn join(fabric: Arc<ProcessFabric>) -> Result<SimNetwork, BuildError> {
        SimBuilder::default().join(fabric)
    }

    /// Number of nodes that this process has.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// The torus that joins the nodes: counters of links, and faults that happen at once. `None` between processes and hosts, and in
    /// timed systems.
    pub fn torus(&self) -> Option<&Arc<Network>> {
        match &self.joined {
            Joined::Torus(torus) => Some(&torus.network),
            Joined::Processes(_) | Joined::Hosts(_) | Joined::Job(..) | Joined::Timed(_) => None,
        }
    }

    /// The timed system that the nodes belong to, if they do.
    pub fn timed(&self) -> Option<&Arc<Timed>> {
        match &self.joined {
            Joined::Timed(timed) => Some(timed),
            Joined::Torus(_) | Joined::Processes(_) | Joined::Hosts(_) | Joined::Job(..) => None,
        }
    }

    /// This process's end of the network of hosts that the node belongs to, if it does.
    pub fn hosts(&self) -> Option<&Arc<HostsFabric>> {
        match &self.joined {
            Joined::Hosts(fabric) | Joined::Job(_, fabric) => Some(fabric),
            Joined::Torus(_) | Joined::Processes(_) | Joined::Timed(_) => None,
        }
    }

    /// A cold start of a node: its card leaves the network, and another one at reset takes its place, on a node that is
    /// alive again if it was dead ([`Event::Return`]). What the old one had open stays valid and reaches nobody.
    ///
    /// # Errors
    /// [`BuildError::NoSuchNode`], [`BuildError::NotBetweenProcesses`], and as when the network was started.
    pub fn restart(&mut self, node: usize) -> Result<&Arc<SimDevice>, BuildError> {
        let Joined::Torus(torus) = &self.joined else {
            return Err(BuildError::NotBetweenProcesses("nodes start with their processes"));
        };
        let last = self.devices.len().saturating_sub(1);
        let place = self.devices.get_mut(node).ok_or(BuildError::NoSuchNode { node, last })?;
        place.nic().detach();
        torus.network.happen(Event::Return(torus.network.torus().id_of_index(node)))?;
        *place = torus.builder.torus_node(node, &torus.memory, &torus.driver, &torus.network)?;
        Ok(place)
    }

    /// This process's ends of the fabric between processes, by node; none in a torus.
    pub fn process_fabrics(&self) -> &[Arc<ProcessFabric>] {
        match &self.joined {
            Joined::Torus(_) | Joined::Hosts(_) | Joined::Timed(_) => &[],
            Joined::Processes(fabrics) | Joined::Job(fabrics, _) => fabrics,
        }
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
