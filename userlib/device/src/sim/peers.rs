//! The other processes of a job: what a node shares with them, and which of them are gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use extoll_abi::regs;
use extoll_sim::Nic;
use extoll_sim::process::{JobSegment, PeerState, ProcessFabric};

use crate::{Departures, LostPeer, PeerEnd};

/// How long what lost peers had sent may take to be taken in.
const DRAIN: Duration = Duration::from_millis(100);

/// The job that a node is part of, if it is part of one.
#[derive(Clone, Default)]
pub(super) struct Peers(Option<Arc<ProcessFabric>>);

impl Peers {
    pub(super) fn new(fabric: Arc<ProcessFabric>) -> Peers {
        Peers(Some(fabric))
    }

    pub(super) fn fabric(&self) -> Option<&Arc<ProcessFabric>> {
        self.0.as_ref()
    }

    /// Makes this process the one that serves the node's SMFU; `false` where another does.
    pub(super) fn claim_smfu(&self) -> bool {
        self.0.as_ref().is_none_or(|fabric| fabric.job().claim_smfu(fabric.rank()))
    }

    pub(super) fn release_smfu(&self) {
        if let Some(fabric) = &self.0 {
            fabric.job().release_smfu(fabric.rank());
        }
    }

    /// Other processes that hold references to this one's memory.
    pub(super) fn holders(&self) -> Vec<u32> {
        self.0.as_ref().map_or_else(Vec::new, |fabric| fabric.holders())
    }

    /// See [`PortDevice::departures`](crate::PortDevice::departures).
    pub(super) fn departures(&self) -> Departures {
        self.0
            .as_ref()
            .map_or_else(Departures::default, |fabric| Departures::new(fabric.departures().clone()))
    }

    /// See [`PortDevice::lost_peer`](crate::PortDevice::lost_peer). A port that nobody serves is gone when nobody is
    /// left on its node to open it.
    pub(super) fn lost(&self, node: u16, vpid: Option<u8>) -> Option<LostPeer> {
        let job = self.with_departures()?.job();
        match vpid.and_then(|vpid| job.owner(node, vpid)) {
            Some(owner) => ended(job, node, vpid, owner),
            None => all_ended(job, node, vpid),
        }
    }

    /// The process that served the SMFU of a node, or the last one of the node, if it is gone.
    pub(super) fn lost_smfu(&self, node: u16) -> Option<LostPeer> {
        let job = self.with_departures()?.job();
        match job.smfu_owner(node) {
            Some(owner) => ended(job, node, None, owner),
            None => all_ended(job, node, None),
        }
    }

    fn with_departures(&self) -> Option<&Arc<ProcessFabric>> {
        self.0.as_ref().filter(|fabric| fabric.departures().load(Ordering::Acquire) > 0)
    }

    /// See [`PortDevice::drain_lost`](crate::PortDevice::drain_lost).
    pub(super) fn drain_lost(&self, nic: &Nic) {
        let Some(fabric) = &self.0 else { return };
        let started = Instant::now();
        while !fabric.drained() && started.elapsed() < DRAIN {
            if !nic.progress() {
                std::thread::yield_now();
            }
        }
        // Whoever runs the card now may hold the last packet: this call waits for its turn.
        nic.reg_read(regs::EXTOLL_RF_INFO_NODE);
    }
}

/// What became of `rank`, if it is gone.
fn ended(job: &JobSegment, node: u16, vpid: Option<u8>, rank: u32) -> Option<LostPeer> {
    let end = match job.state(rank) {
        PeerState::Left => PeerEnd::Left,
        PeerState::Lost => PeerEnd::Lost,
        PeerState::Absent | PeerState::Joined => return None,
    };
    Some(LostPeer { rank, node, vpid, end })
}

/// One of the processes of a node, if all of them are gone; one that died, since that explains more.
fn all_ended(job: &JobSegment, node: u16, vpid: Option<u8>) -> Option<LostPeer> {
    let mut all = job.shape().ranks_of(node).map(|rank| ended(job, node, vpid, rank));
    let first = all.next()??;
    all.try_fold(first, |worst, one| one.map(|one| if worst.end == PeerEnd::Lost { worst } else { one }))
}
