//! A process's ends of the network that its job has.

use std::fmt;
use std::sync::Arc;

use extoll_sim::across::JobFabric;
use extoll_sim::hosts::HostsFabric;
use extoll_sim::shared::ProcessFabric;
use ggas_members::{Member, Members};

use super::builder::BuildError;

/// What a process has of a network between processes: the end on its host, and where its job is on several hosts that between
/// them. A process has one, on which it starts nodes, one after the other: [`SimBuilder::join_ends`](super::SimBuilder::join_ends).
#[derive(Clone)]
pub struct Ends {
    pub(super) near: Arc<ProcessFabric>,
    hosts: Option<Arc<HostsFabric>>,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").field("node", &self.node()).field("over_hosts", &self.hosts.is_some()).finish()
    }
}

impl Ends {
    /// Those of a member of a network, whose job may be on several hosts.
    ///
    /// # Errors
    /// [`BuildError::Join`]; [`BuildError::Hosts`] where no library carries packets to other hosts.
    pub fn join(member: Arc<Member>) -> Result<Ends, BuildError> {
        let hosts = member.hosts_of_job();
        let near = ProcessFabric::join(member)?;
        let Some(hosts) = hosts else { return Ok(Ends { near, hosts: None }) };
        let hosts = HostsFabric::of_job(hosts)?;
        let member = Arc::downgrade(near.member());
        hosts.on_loss(move |process| {
            if let Some(member) = member.upgrade() {
                member.lost_far(process.into());
            }
        });
        Ok(Ends { near, hosts: Some(hosts) })
    }

    /// The process's node.
    pub fn node(&self) -> u16 {
        self.near.member().node()
    }

    /// Whether packets to other nodes may leave this host.
    pub fn over_hosts(&self) -> bool {
        self.hosts.is_some()
    }

    /// As one, for a node; with `stays` others may follow.
    pub(super) fn both(&self, stays: bool) -> Option<(Arc<JobFabric>, Arc<HostsFabric>)> {
        let hosts = self.hosts.clone()?;
        Some((JobFabric::new(self.near.clone(), hosts.clone(), stays), hosts))
    }
}
