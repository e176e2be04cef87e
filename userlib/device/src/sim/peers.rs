//! The other processes of a network: what a node shares with them, and which of them are gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use extoll_abi::{Address, regs};
use extoll_sim::Nic;
use extoll_sim::hosts::{End, HostsFabric};
use extoll_sim::shared::{Nodes, ProcessFabric};
use ggas_clock::Backoff;
use ggas_members::{Member, MemberId, Members, PeerState};

use crate::{Departures, LostPeer, PeerEnd};

/// How long what lost peers had sent may take to be taken in.
const DRAIN: Duration = Duration::from_secs(2);

/// The network of processes that a node is part of, if it is part of one.
#[derive(Clone, Default)]
pub(super) enum Peers {
    #[default]
    Alone,
    /// Of one host.
    Here(Arc<ProcessFabric>),
    /// Of several hosts, with a node for each.
    Hosts(Arc<HostsFabric>),
    /// Of a job over hosts: on this one, and on others.
    Job(Arc<ProcessFabric>, Arc<HostsFabric>),
}

impl Peers {
    /// What joins it to processes of its host.
    pub(super) fn fabric(&self) -> Option<&Arc<ProcessFabric>> {
        match self {
            Peers::Here(fabric) | Peers::Job(fabric, _) => Some(fabric),
            Peers::Alone | Peers::Hosts(_) => None,
        }
    }

    /// What joins it to the process of a node on another host.
    fn far(&self, node: u16) -> Option<&HostsFabric> {
        match self {
            Peers::Hosts(fabric) => Some(fabric),
            Peers::Job(near, fabric) if near.is_far(node) => Some(fabric),
            Peers::Alone | Peers::Here(_) | Peers::Job(..) => None,
        }
    }

    /// What the processes of this host know of each other's SMFUs, where there are several.
    pub(super) fn nodes(&self) -> Option<&Nodes> {
        self.fabric().map(|fabric| &**fabric.nodes())
    }

    /// Other processes that hold references to this one's memory.
    pub(super) fn holders(&self) -> Vec<u32> {
        self.fabric().map_or_else(Vec::new, |fabric| fabric.holders())
    }

    /// See [`Device::process`](crate::Device::process); `None`: that of its node.
    pub(super) fn process(&self) -> Option<u32> {
        self.fabric().map(|fabric| fabric.rank())
    }

    /// See [`Device::ranks`](crate::Device::ranks).
    pub(super) fn ranks(&self) -> Option<u32> {
        Some(self.fabric()?.member().shape().ranks()?.processes())
    }

    /// See [`Device::process_of`](crate::Device::process_of).
    pub(super) fn process_of(&self, port: Address) -> Option<u32> {
        if let Some(fabric) = self.far(port.node) {
            return fabric.process_of(port).map(u32::from);
        }
        match self.fabric() {
            Some(fabric) => Some(fabric.nodes().last_owner(port.node, port.vpid)?.slot),
            None => Some(port.node.into()),
        }
    }

    /// See [`Device::process_of_part`](crate::Device::process_of_part).
    pub(super) fn process_of_part(&self, node: u16) -> Option<u32> {
        let first = Address::new(node, 0);
        match self.fabric() {
            Some(fabric) if self.far(node).is_none() => Some(fabric.nodes().last_smfu_owner(first)?.slot),
            _ => self.process_of(first),
        }
    }

    /// See [`UnitDevice::departures`](crate::UnitDevice::departures).
    pub(super) fn departures(&self) -> Departures {
        match self {
            Peers::Alone => Departures::default(),
            Peers::Here(fabric) => Departures::new(fabric.departures().clone()),
            Peers::Hosts(fabric) => Departures::new(fabric.departures().clone()),
            Peers::Job(near, far) => Departures::both(near.departures().clone(), far.departures().clone()),
        }
    }

    /// See [`UnitDevice::lost_peer`](crate::UnitDevice::lost_peer). A port of a job's node that nobody serves is gone
    /// when nobody is left on its node to open it.
    pub(super) fn lost(&self, node: u16, vpid: Option<u8>) -> Option<LostPeer> {
        if let Some(fabric) = self.far(node) {
            return ended_there(fabric, node, vpid);
        }
        let fabric = self.with_departures()?;
        match vpid.and_then(|vpid| fabric.nodes().last_owner(node, vpid)) {
            Some(owner) => ended(fabric.member(), node, vpid, owner),
            None => all_ended(fabric.member(), node, vpid),
        }
    }

    /// The process that has a seat of a node's SMFU, or the last one of the node, if it is gone.
    pub(super) fn lost_smfu(&self, Address { node, vpid: seat }: Address) -> Option<LostPeer> {
        if let Some(fabric) = self.far(node) {
            return ended_there(fabric, node, Some(seat)).map(|peer| LostPeer { vpid: None, ..peer });
        }
        let fabric = self.with_departures()?;
        match fabric.nodes().last_smfu_owner(Address::new(node, seat)) {
            Some(owner) => ended(fabric.member(), node, None, owner),
            None => all_ended(fabric.member(), node, None),
        }
    }

    fn with_departures(&self) -> Option<&Arc<ProcessFabric>> {
        self.fabric().filter(|fabric| fabric.departures().load(Ordering::Acquire) > 0)
    }

    /// See [`UnitDevice::drain_lost`](crate::UnitDevice::drain_lost).
    pub(super) fn drain_lost(&self, nic: &Nic) {
        let drained = || match self {
            Peers::Alone => true,
            Peers::Here(fabric) => fabric.drained(),
            Peers::Hosts(fabric) => fabric.drained(),
            Peers::Job(near, far) => near.drained() && far.drained(),
        };
        if let Peers::Alone = self {
            return;
        }
        let mut backoff = Backoff::new(nic.clock(), DRAIN);
        while !drained() && backoff.waited() < DRAIN {
            if !nic.progress() {
                let _ = backoff.pause();
            }
        }
        // Whoever runs the card now may hold the last packet: this call waits for its turn.
        nic.reg_read(regs::EXTOLL_RF_INFO_NODE);
    }
}

/// What became of the process of a host's node, if it is gone.
fn ended_there(fabric: &HostsFabric, node: u16, vpid: Option<u8>) -> Option<LostPeer> {
    let (process, end) = fabric.end_of(node, vpid)?;
    let end = match end {
        End::Left => PeerEnd::Left,
        End::Lost => PeerEnd::Lost,
    };
    Some(LostPeer { rank: u32::from(process), node, vpid, end })
}

/// What became of a member, if it is gone.
fn ended(member: &Member, node: u16, vpid: Option<u8>, id: MemberId) -> Option<LostPeer> {
    let end = match member.state(id) {
        // Of one whose slot another has, nothing else is known.
        PeerState::Left if member.at(id.slot).is_some_and(|now| now.id != id) => PeerEnd::Replaced,
        PeerState::Left => PeerEnd::Left,
        PeerState::Lost => PeerEnd::Lost,
        PeerState::Absent | PeerState::Joined => return None,
    };
    Some(LostPeer { rank: id.slot, node, vpid, end })
}

/// One of the ranks of a job's node, if all of them are gone; one that died, since that explains more. Elsewhere others
/// may always come.
fn all_ended(member: &Member, node: u16, vpid: Option<u8>) -> Option<LostPeer> {
    let ranks = member.shape().ranks()?.ranks_of(node);
    let mut all = ranks.map(|rank| ended(member, node, vpid, member.at(rank)?.id));
    let first = all.next()??;
    all.try_fold(first, |worst, one| one.map(|one| if worst.end == PeerEnd::Lost { worst } else { one }))
}
