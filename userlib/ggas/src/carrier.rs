//! What carries a process's traffic: the device that was chosen, as a job or a network joins it.

use std::sync::Arc;
use std::time::Duration;

use ggas_device::engine::{EngineBuildError, EngineGuard, EngineNetwork};
use ggas_device::sim::{BuildError, HostsFabric, HostsFile, SimBuilder, SimNetwork};
use ggas_device::{Choice, ChoiceError, Device, DeviceError, Kind, hw};
use ggas_kernels::Processor;
use ggas_members::{Job, JobError, Member};
use ggas_rma::Node;
use ggas_window::WindowError;

/// How long ranks that have all joined wait for each other to say which device they have.
const SAID: Duration = Duration::from_secs(60);
/// How long they wait for each other's engines: opening GPUs takes its time.
const ENGINES: Duration = Duration::from_secs(120);

/// Errors of joining.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// There is no device to use.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The job did not come together.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The ranks of the job have chosen different devices.
    #[error(
        "this rank's device is {own} and that of rank {rank} is {theirs}: set GGAS_DEVICE to the same word in all \
         processes of the job"
    )]
    Mixed {
        /// This rank's.
        own: Kind,
        /// The first rank with another one.
        rank: usize,
        /// Its device; what it said, where that is none.
        theirs: String,
    },
    /// This process's node of the model could not be set up.
    #[error(transparent)]
    Node(#[from] BuildError),
    /// The device could not be opened, or cannot do this.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The engines of the ranks were not joined.
    #[error(transparent)]
    Engines(#[from] WindowError),
}

ggas_errors::debug_as_display!(JoinError);

/// What a node is of.
pub(crate) enum Carrier {
    Model(SimNetwork),
    Card,
    Engines {
        /// Goes before the network.
        _running: EngineGuard,
        _network: EngineNetwork,
    },
}

impl Carrier {
    /// The network of the model, if it is that.
    pub(crate) fn network(&self) -> Option<&SimNetwork> {
        match self {
            Carrier::Model(network) => Some(network),
            Carrier::Card | Carrier::Engines { .. } => None,
        }
    }

    /// The card, if that was chosen.
    pub(crate) fn card(choice: &Choice) -> Result<Option<Arc<dyn Device>>, DeviceError> {
        (choice.kind == Kind::Hw).then(hw::open).transpose()
    }

    /// This member's node of the model.
    pub(crate) fn model(model: SimBuilder, member: Arc<Member>) -> Result<(Node, Carrier), JoinError> {
        let network = model.join_as(member)?;
        let node = Node::new(network.device(0)?);
        Ok((node, Carrier::Model(network)))
    }

    /// This process's node of a network of hosts.
    pub(crate) fn hosts(
        model: SimBuilder,
        file: &HostsFile,
        node: u16,
    ) -> Result<(Node, Carrier), JoinError> {
        let network = model.join_hosts(HostsFabric::join(file, node).map_err(BuildError::from)?)?;
        let node = Node::new(network.device(0)?);
        Ok((node, Carrier::Model(network)))
    }

    /// This rank's node with an engine, which runs from now on.
    pub(crate) fn engines(job: &Job, processor: &Processor) -> Result<(Node, Carrier), JoinError> {
        if job.per_node() > 1 {
            let reason = format!(
                "an engine serves one process, and here are {} for each node: start the job with one for each \
                 (ggas run --per-node 1)",
                job.per_node()
            );
            return Err(DeviceError::NotAvailable { kind: Kind::Nvlink, reason }.into());
        }
        let network = ggas_window::engines_across(job, processor, ENGINES)?;
        let built = |error: EngineBuildError| JoinError::Engines(error.into());
        let node = Node::new(network.device(job.rank() as usize).map_err(built)?);
        let running = network.run()?;
        Ok((node, Carrier::Engines { _running: running, _network: network }))
    }
}

/// Tells the other ranks of this one's device; the node ids of all, by rank.
pub(crate) fn meet(job: &Job, own: Kind, card: Option<&Arc<dyn Device>>) -> Result<Vec<u16>, JoinError> {
    let node = match own {
        Kind::Hw => card.map_or(0, |card| card.info().node),
        Kind::Nvlink => job.rank() as u16,
        Kind::Sim => job.node(),
    };
    let all = job.exchange(format!("{own} {node}").as_bytes(), SAID)?;
    let said = |(rank, said): (usize, Vec<u8>)| {
        let said = String::from_utf8_lossy(&said).into_owned();
        let node = said.split_once(' ').filter(|(kind, _)| *kind == own.name());
        node.and_then(|(_, node)| node.parse().ok()).ok_or_else(|| {
            let theirs = said.split(' ').next().unwrap_or_default().to_owned();
            JoinError::Mixed { own, rank, theirs }
        })
    };
    all.into_iter().enumerate().map(said).collect()
}
