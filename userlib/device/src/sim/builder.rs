//! What a network of modelled nodes will be, and starting it.

use std::sync::Arc;
use std::time::Duration;

use extoll_sim::faults::{FaultError, Faults};
use extoll_sim::hosts::{HostsError, HostsFabric, HostsFileError};
use extoll_sim::memory::Lengths;
use extoll_sim::network::{Network, NetworkError};
use extoll_sim::shared::{JoinError, Nodes, ProcessFabric};
use extoll_sim::timed::{Moves, Timed};
use extoll_sim::torus::{Torus, TorusError};
use extoll_sim::{Driver, Fabric, HostMemory, Memory, Nic, NicConfig, NicError, NicThreads, Simulation};
use ggas_clock::Clock;
use ggas_members::{JobError, Member, Members, Shape, ShapeError};

use super::ends::Ends;
use super::network::{Joined, SimNetwork, TorusNodes};
use super::node::{Node, NodeConfig, SimDevice};
use super::peers::Peers;
use crate::{DeviceError, LockedMemory, buffer};

/// What joins the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FabricKind {
    /// A torus in this process, with faults if wanted.
    #[default]
    InProcess,
    /// Shared memory, as between the processes of a job; here all of them are in this process.
    Process,
}

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
#[derive(thiserror::Error)]
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
    /// Something that only the network in one process has.
    #[error("{0} between processes: leave it out, or use FabricKind::InProcess")]
    NotBetweenProcesses(&'static str),
    /// The job has no such shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// There is no network between the processes, or this one is not let in.
    #[error(transparent)]
    Members(#[from] JobError),
    /// The cards of the network's processes cannot be joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The file of the network's hosts cannot be used.
    #[error(transparent)]
    HostsFile(#[from] HostsFileError),
    /// The process cannot be a node of its network of hosts.
    #[error(transparent)]
    Hosts(#[from] HostsError),
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

ggas_errors::debug_as_display!(BuildError);

/// What a network will be.
#[derive(Clone, Debug)]
pub struct SimBuilder {
    nodes: usize,
    fabric: FabricKind,
    torus: Option<(u32, u32, u32)>,
    faults: Faults,
    progress: Progress,
    locked_memory: LockedMemory,
    release_timeout: Duration,
    simulation: Option<Arc<Simulation>>,
    timed: Option<(Arc<Timed>, Moves)>,
}

impl Default for SimBuilder {
    fn default() -> SimBuilder {
        SimBuilder {
            nodes: 2,
            fabric: FabricKind::default(),
            torus: None,
            faults: Faults::none(),
            progress: Progress::default(),
            locked_memory: LockedMemory::default(),
            release_timeout: Duration::from_secs(10),
            simulation: None,
            timed: None,
        }
    }
}

impl SimBuilder {
    /// Number of nodes, 2 unless set.
    pub fn nodes(self, nodes: usize) -> SimBuilder {
        SimBuilder { nodes, ..self }
    }

    /// What joins them; a torus in this process unless set.
    pub fn fabric(self, fabric: FabricKind) -> SimBuilder {
        SimBuilder { fabric, ..self }
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

    /// How long unregistering memory, and closing a port, wait for other processes to let go of memory that was
    /// sent; 10 s unless set. Dead ones let go at once. The memory of one that is stopped longer is kept: the call
    /// fails with [`DeviceError::HeldByPeers`], and so do the next ones, at once, until that process goes on.
    pub fn release_timeout(self, timeout: Duration) -> SimBuilder {
        SimBuilder { release_timeout: timeout, ..self }
    }

    /// Runs the nodes in virtual time, on the threads that wait for them ([`Simulation`]), in a torus in this process.
    /// [`Progress`] then says whether callers drive them as well.
    pub fn simulation(self, simulation: &Arc<Simulation>) -> SimBuilder {
        SimBuilder { simulation: Some(simulation.clone()), ..self }
    }

    /// Runs the nodes in virtual time at the costs of a system, joined by its network ([`Timed`]): the first nodes of it are
    /// these. Torus, faults and [`Progress`] have no meaning then: cards run by themselves. Of payloads above
    /// what packets hold themselves, `moves` says whether bytes are moved.
    pub fn timed(self, timed: &Arc<Timed>, moves: Moves) -> SimBuilder {
        SimBuilder { timed: Some((timed.clone(), moves)), ..self }
    }

    /// Starts the nodes.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(self) -> Result<SimNetwork, BuildError> {
        if self.nodes == 0 {
            return Err(BuildError::NoNodes);
        }
        if let Some((timed, moves)) = self.timed.clone() {
            return self.build_timed(&timed, moves);
        }
        match self.fabric {
            FabricKind::InProcess => self.build_torus(),
            FabricKind::Process => self.build_processes(),
        }
    }

    /// Starts the one node that this process has as a member of a network. Number of nodes, torus and faults are the
    /// network's. From now on [`HostBuffer`](crate::HostBuffer)s lie in memory that the
    /// other processes can read.
    ///
    /// # Errors
    /// [`BuildError::Nic`] where the process has its node already, [`BuildError::Device`].
    pub fn join(self, fabric: Arc<ProcessFabric>) -> Result<SimNetwork, BuildError> {
        buffer::use_arena(fabric.arena());
        let device = self.process_node(&HostMemory::new(), &self.driver(), fabric.clone())?;
        Ok(SimNetwork { devices: vec![device], joined: Joined::Processes(vec![fabric]) })
    }

    /// Starts the one node that this process has in a network of hosts. Number of nodes, torus and faults are the network's.
    ///
    /// # Errors
    /// [`BuildError::Nic`] where the process has its node already, [`BuildError::Device`].
    pub fn join_hosts(self, fabric: Arc<HostsFabric>) -> Result<SimNetwork, BuildError> {
        let (memory, driver) = (HostMemory::new(), self.driver());
        let config = self.config(fabric.node(), &memory, &driver, fabric.clone(), None);
        let device = self.start(config, &memory, Peers::Hosts(fabric.clone()))?;
        Ok(SimNetwork { devices: vec![device], joined: Joined::Hosts(fabric) })
    }

    /// As [`join`](Self::join), for a member of a network between processes, whose job may be on several hosts.
    ///
    /// # Errors
    /// As there; [`BuildError::Join`], [`BuildError::Hosts`].
    pub fn join_as(self, member: Arc<Member>) -> Result<SimNetwork, BuildError> {
        self.join_by(&Ends::join(member)?, false)
    }

    /// The same on ends that the process keeps, for one node after the other: it leaves the network between hosts with the last
    /// of ends and nodes, and not when a node goes.
    ///
    /// # Errors
    /// As for [`join`](Self::join).
    pub fn join_ends(self, ends: &Ends) -> Result<SimNetwork, BuildError> {
        self.join_by(ends, true)
    }

    fn join_by(self, ends: &Ends, stays: bool) -> Result<SimNetwork, BuildError> {
        let near = ends.near.clone();
        let Some((both, hosts)) = ends.both(stays) else { return self.join(near) };
        buffer::use_arena(near.arena());
        let (memory, driver) = (HostMemory::new(), self.driver());
        let config = self.config(ends.node(), &memory, &driver, both, Some(near.nodes().clone()));
        let device = self.start(config, &memory, Peers::Job(near.clone(), hosts.clone()))?;
        Ok(SimNetwork { devices: vec![device], joined: Joined::Job(vec![near], hosts) })
    }

    fn build_torus(self) -> Result<SimNetwork, BuildError> {
        self.faults.validate()?;
        let torus = match self.torus {
            Some((x, y, z)) => Torus::new(x, y, z)?,
            None => Torus::with_nodes(u32::try_from(self.nodes).unwrap_or(u32::MAX))?,
        };
        if self.nodes > torus.len() {
            return Err(BuildError::TorusTooSmall { nodes: self.nodes, places: torus.len() });
        }
        let fabric = Network::with_clock(torus, self.faults.clone(), self.clock())?;
        let (memory, driver) = (HostMemory::new(), self.driver());
        let start = |node: usize| self.torus_node(node, &memory, &driver, &fabric);
        let devices = (0..self.nodes).map(start).collect::<Result<_, _>>()?;
        let nodes = TorusNodes { network: fabric, memory, driver, builder: self };
        Ok(SimNetwork { devices, joined: Joined::Torus(Box::new(nodes)) })
    }

    fn build_timed(mut self, timed: &Arc<Timed>, moves: Moves) -> Result<SimNetwork, BuildError> {
        if self.nodes > timed.nodes() {
            return Err(BuildError::TorusTooSmall { nodes: self.nodes, places: timed.nodes() });
        }
        // Callers that ran cards would do so at no cost.
        self.progress = Progress::Threads(1);
        let memory = HostMemory::new();
        let seen: Arc<dyn Memory> = match moves {
            Moves::Bytes => memory.clone(),
            Moves::Lengths => Arc::new(Lengths(memory.clone())),
        };
        timed.join(seen.clone(), moves);
        let driver: Arc<dyn Driver> = timed.clone();
        let start = |index: usize| {
            let config = self.config(timed.id(index), &memory, &driver, timed.clone(), None);
            self.start(NicConfig { memory: seen.clone(), ..config }, &memory, Peers::default())
        };
        let devices = (0..self.nodes).map(start).collect::<Result<_, _>>()?;
        Ok(SimNetwork { devices, joined: Joined::Timed(timed.clone()) })
    }

    /// A job with one process for each node, all of them this one.
    fn build_processes(self) -> Result<SimNetwork, BuildError> {
        if self.torus.is_some() {
            return Err(BuildError::NotBetweenProcesses("there is no torus"));
        }
        if self.faults != Faults::none() {
            return Err(BuildError::NotBetweenProcesses("links have no faults"));
        }
        if self.simulation.is_some() {
            return Err(BuildError::NotBetweenProcesses("time is real"));
        }
        let processes = u32::try_from(self.nodes).unwrap_or(u32::MAX);
        let members = Member::all_of_job(Shape::new(processes, 1)?)?;
        let fabrics = members.into_iter().map(ProcessFabric::join).collect::<Result<Vec<_>, _>>()?;
        // Buffers cannot be known to be of one node: those of the first node travel by reference.
        buffer::use_arena(fabrics[0].arena());
        let (memory, driver) = (HostMemory::new(), self.driver());
        let start = |fabric: &Arc<ProcessFabric>| self.process_node(&memory, &driver, fabric.clone());
        let devices = fabrics.iter().map(start).collect::<Result<_, _>>()?;
        Ok(SimNetwork { devices, joined: Joined::Processes(fabrics) })
    }

    pub(super) fn torus_node(
        &self,
        index: usize,
        memory: &Arc<HostMemory>,
        driver: &Arc<dyn Driver>,
        network: &Arc<Network>,
    ) -> Result<Arc<SimDevice>, BuildError> {
        let fabric = network.clone() as Arc<dyn Fabric>;
        let config = self.config(network.torus().id_of_index(index), memory, driver, fabric, None);
        self.start(config, memory, Peers::default())
    }

    fn process_node(
        &self,
        memory: &Arc<HostMemory>,
        driver: &Arc<dyn Driver>,
        fabric: Arc<ProcessFabric>,
    ) -> Result<Arc<SimDevice>, BuildError> {
        let (shared, node) = (fabric.nodes().clone(), fabric.member().node());
        let config = self.config(node, memory, driver, fabric.clone() as Arc<dyn Fabric>, Some(shared));
        self.start(config, memory, Peers::Here(fabric))
    }

    fn start(
        &self,
        config: NicConfig,
        memory: &Arc<HostMemory>,
        peers: Peers,
    ) -> Result<Arc<SimDevice>, BuildError> {
        let node = NodeConfig {
            inline: config.inline,
            locked_memory: self.locked_memory,
            release_timeout: self.release_timeout,
        };
        let node = Node::start(Nic::new(config)?, memory.clone(), peers, &node)?;
        Ok(Arc::new(SimDevice::new(node)))
    }

    fn config(
        &self,
        node: u16,
        memory: &Arc<HostMemory>,
        driver: &Arc<dyn Driver>,
        fabric: Arc<dyn Fabric>,
        shared: Option<Arc<Nodes>>,
    ) -> NicConfig {
        let memory = memory.clone() as Arc<dyn Memory>;
        let inline = self.progress == Progress::Inline;
        NicConfig { node, memory, fabric, driver: Some(driver.clone()), clock: self.clock(), inline, shared }
    }

    fn driver(&self) -> Arc<dyn Driver> {
        match (&self.simulation, self.progress) {
            (Some(simulation), _) => simulation.clone(),
            (None, Progress::Inline) => NicThreads::global(),
            (None, Progress::Threads(threads)) => NicThreads::new(threads.max(1)),
        }
    }

    fn clock(&self) -> Clock {
        if let Some((timed, _)) = &self.timed {
            return timed.clock();
        }
        self.simulation.as_ref().map_or_else(Clock::real, |simulation| simulation.clock())
    }
}
