//! A network that stands by itself: this process as one of its members, with one node.

use std::env::{self, VarError};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ggas_device::sim::{BuildError, HostsFile, Progress, SimBuilder, SimNetwork};
use ggas_device::{DeviceError, Kind, LockedMemory, choose};
use ggas_members::{JobError, Member, Members};
use ggas_rma::Node;

use crate::JoinError;
use crate::carrier::Carrier;

/// Node ids of a network of cards.
const NODES: u32 = extoll_abi::regs::EXTOLL_NODES as u32;

/// Names the file of a network of hosts.
const HOSTS: &str = "GGAS_HOSTS";
/// The node of this process.
const NODE: &str = "GGAS_NODE";

/// This process as a member of a network, as on a node with a card: programs open ports on it one after
/// the other, leave, and others come. Nothing here waits for another process; a peer is found when it is first
/// addressed. For processes that begin together and wait for each other there is [`Job`](crate::Job).
///
/// [`ggas_device::choose`] says which device the node is of. `sim`: a network of the model, on this host or, where
/// `GGAS_HOSTS` names a file of them ([`HostsFile`]), on several hosts with a process on each. `hw`: the node is
/// the card's, in the network that the card is in. There is no such network on `nvlink`, whose engines join the processes
/// of jobs.
///
/// Members find a service by its address, as they agree on it: a node of its own (`GGAS_NODE`), where the first port that
/// is opened has VPID 0. A notification to a port that is not open is lost without an error, so a client repeats its first
/// request until an answer comes, which brings the client's address the other way. To learn whether a client is still
/// there, a service posts a notification put to it with [`Spec::NONE`](crate::Spec::NONE), which nobody is notified of:
/// [`PostError::PeerLost`](crate::PostError::PeerLost) says that its process is gone.
///
/// ```
/// use std::time::Duration;
/// use ggas::{Network, PortConfig, Spec};
///
/// # // SAFETY: no other thread of this example looks at the environment.
/// # unsafe { std::env::set_var("GGAS_NETWORK", format!("example-{}", std::process::id())) };
/// let network = Network::join()?; // GGAS_NETWORK or this user's default network, on GGAS_NODE or node 0
/// let port = network.node().open_port(PortConfig::default())?;
/// port.connect(port.address()).notification_put(7, 42, Spec::COMPLETER)?;
/// assert_eq!(port.wait(Duration::from_secs(10))?.remote(), port.address());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Network {
    // The node goes before what it is of.
    node: Node,
    carrier: Carrier,
    /// On the model.
    member: Option<Arc<Member>>,
}

/// How this process takes part; see [`Network::builder`].
#[derive(Clone, Debug, Default)]
pub struct NetworkBuilder {
    device: Option<Kind>,
    model: SimBuilder,
}

impl NetworkBuilder {
    /// The device, whatever the environment says.
    pub fn device(self, kind: Kind) -> NetworkBuilder {
        NetworkBuilder { device: Some(kind), ..self }
    }

    /// Who drives this process's node, if it is of the model.
    pub fn progress(self, progress: Progress) -> NetworkBuilder {
        NetworkBuilder { model: self.model.progress(progress), ..self }
    }

    /// How much memory the regions of this process may lock on the model; by default what the system allows.
    pub fn locked_memory(self, limit: LockedMemory) -> NetworkBuilder {
        NetworkBuilder { model: self.model.locked_memory(limit), ..self }
    }

    /// How long unregistering memory on the model waits for other processes to let go of it; see
    /// [`SimBuilder::release_timeout`].
    pub fn release_timeout(self, timeout: Duration) -> NetworkBuilder {
        NetworkBuilder { model: self.model.release_timeout(timeout), ..self }
    }

    /// Opens the card, or joins the model's network that the environment names ([`Member::join`]).
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join(self) -> Result<Network, JoinError> {
        let choice = choose(self.device, None)?;
        if choice.kind == Kind::Nvlink {
            let reason =
                "engines join processes that begin together: use Job::join and ggas run, or sim or hw";
            return Err(DeviceError::NotAvailable { kind: choice.kind, reason: reason.to_owned() }.into());
        }
        match Carrier::card(&choice)? {
            Some(card) => Ok(Network { node: Node::new(card), carrier: Carrier::Card, member: None }),
            None => match hosts()? {
                Some((path, node)) => self.join_hosts(&path, node),
                None => self.join_as(Member::join()?),
            },
        }
    }

    /// Takes part as this node of a network of hosts of the model, which a file describes ([`HostsFile::read`]). The other
    /// processes have the same file.
    ///
    /// # Errors
    /// [`JoinError::Node`].
    pub fn join_hosts(self, file: &Path, node: u16) -> Result<Network, JoinError> {
        let file = HostsFile::read(file).map_err(BuildError::from)?;
        let (node, carrier) = Carrier::hosts(self.model, &file, node)?;
        Ok(Network { node, carrier, member: None })
    }

    /// Takes part as this member of a network of the model.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join_as(self, member: Arc<Member>) -> Result<Network, JoinError> {
        let (node, carrier) = Carrier::model(self.model, member.clone())?;
        Ok(Network { node, carrier, member: Some(member) })
    }
}

impl Network {
    /// Takes part in the network that the environment names, with default settings.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join() -> Result<Network, JoinError> {
        Network::builder().join()
    }

    /// Describes how to take part. Name and node are the environment's; a program that chooses them joins with
    /// [`Member::join_network`] and hands the member to [`NetworkBuilder::join_as`].
    pub fn builder() -> NetworkBuilder {
        NetworkBuilder::default()
    }

    /// This process's node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Its id.
    pub fn node_id(&self) -> u16 {
        self.node.id()
    }

    /// Nodes of the network; their ids are 0, 1, ... A card does not know how many its network has: any id may be there.
    pub fn nodes(&self) -> u32 {
        let hosts = self.network().and_then(SimNetwork::hosts).map(|hosts| hosts.nodes() as u32);
        let members = self.member.as_ref().map(|member| member.shape().nodes());
        members.or(hosts).unwrap_or(NODES)
    }

    /// The name of the model's network; `None` on a card and between hosts.
    pub fn name(&self) -> Option<&str> {
        self.member.as_ref().map(|member| member.network())
    }

    /// This process as a member of the model's network: who else is there. `None` on a card and between hosts.
    pub fn member(&self) -> Option<&Arc<Member>> {
        self.member.as_ref()
    }

    /// The network of the model as this process sees it, with one node: for counters. `None` on a card.
    pub fn network(&self) -> Option<&SimNetwork> {
        self.carrier.network()
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("node", &self.node).field("member", &self.member).finish()
    }
}

/// The file of `GGAS_HOSTS`, and the node of `GGAS_NODE`, 0 unless set.
fn hosts() -> Result<Option<(PathBuf, u16)>, JobError> {
    let Some(path) = env::var_os(HOSTS).filter(|path| !path.is_empty()) else { return Ok(None) };
    let wrong = |value: String| JobError::Setting {
        name: NODE,
        value,
        advice: "write the node's number, 0 for the first".to_owned(),
    };
    let node = match env::var(NODE) {
        Ok(text) => text.parse().map_err(|_| wrong(text))?,
        Err(VarError::NotPresent) => 0,
        Err(VarError::NotUnicode(text)) => return Err(wrong(text.to_string_lossy().into_owned())),
    };
    Ok(Some((path.into(), node)))
}
