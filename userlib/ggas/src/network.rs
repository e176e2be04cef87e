//! A network that stands by itself: this process as one of its members, with one node.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ggas_device::sim::{Progress, SimBuilder, SimNetwork};
use ggas_device::{DeviceError, Kind, LockedMemory, choose};
use ggas_members::{Member, Members};
use ggas_rma::Node;

use crate::JoinError;
use crate::carrier::Carrier;

/// Node ids of a network of cards.
const NODES: u32 = extoll_abi::regs::EXTOLL_NODES as u32;

/// This process as a member of a network, as on a node with a card: programs open ports on it one after
/// the other, leave, and others come. Nothing here waits for another process; a peer is found when it is first
/// addressed. For processes that begin together and wait for each other there is [`Job`](crate::Job).
///
/// [`ggas_device::choose`] says which device the node is of. `sim`: a network of the model on this host. `hw`: the node is
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
            None => self.join_as(Member::join()?),
        }
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
        self.member.as_ref().map_or(NODES, |member| member.shape().nodes())
    }

    /// The name of the model's network; `None` on a card.
    pub fn name(&self) -> Option<&str> {
        self.member.as_ref().map(|member| member.network())
    }

    /// This process as a member of the model's network: who else is there. `None` on a card.
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
