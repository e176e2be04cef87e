//! Jobs whose processes are all this one.

use std::sync::Arc;
use std::time::Duration;

use extoll_sim::shared::ProcessFabric;
use ggas_device::sim::SimNetwork;
use ggas_device::{Device, PortDevice, PortSetup};
use ggas_members::{Member, Shape};

pub const PART: u64 = 1 << 16;
/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Job {
    pub fabrics: Vec<Arc<ProcessFabric>>,
    pub nodes: Vec<SimNetwork>,
}

/// A job of `processes`, `per_node` on a node, all joined.
pub fn job(processes: u32, per_node: u32) -> Job {
    let members = Member::all_of_job(Shape::new(processes, per_node).unwrap()).unwrap();
    let fabrics: Vec<_> = members.into_iter().map(|member| ProcessFabric::join(member).unwrap()).collect();
    let nodes = fabrics.iter().map(|fabric| SimNetwork::join(fabric.clone()).unwrap()).collect();
    Job { fabrics, nodes }
}

impl Job {
    pub fn device(&self, rank: usize) -> Arc<dyn Device> {
        self.nodes[rank].device(0).unwrap()
    }

    pub fn open(&self, rank: usize) -> Arc<dyn PortDevice> {
        self.device(rank).open_port(&PortSetup::default()).unwrap()
    }
}
