//! A job with a card for each member.

use std::sync::Arc;
use std::time::Instant;

use extoll_sim::shared::ProcessFabric;
use extoll_sim::*;
use ggas_clock::Clock;
use ggas_members::{Members, Shape};

use crate::common::*;

/// A member: its fabric, its card, its memory.
pub struct Member {
    pub fabric: Arc<ProcessFabric>,
    pub node: Node,
}

impl Member {
    /// Opens a VPID of the member's node, the first that is free.
    pub fn open(&self, segments: usize) -> Port<'_> {
        let vpid = self.fabric.nodes().take_vpid(256).unwrap();
        self.node.open(vpid, segments)
    }

    pub fn private(&self, len: usize) -> Pages {
        Pages::new(&self.node.memory, len, 4096)
    }

    pub fn shared(&self, len: usize) -> Pages {
        Pages::in_arena(&self.node.memory, self.fabric.arena(), len)
    }
}

pub fn fabrics(processes: u32, per_node: u32) -> Vec<Arc<ProcessFabric>> {
    let members = ggas_members::Member::all_of_job(Shape::new(processes, per_node).unwrap()).unwrap();
    members.into_iter().map(|member| ProcessFabric::join(member).unwrap()).collect()
}

/// Has all of them meet, so that none refuses packets for want of it.
pub fn meet(fabrics: &[Arc<ProcessFabric>]) {
    let deadline = Instant::now() + PATIENCE;
    for (a, b) in fabrics.iter().flat_map(|a| fabrics.iter().map(move |b| (a, b))) {
        while a.rank() != b.rank() && !a.has_met(b.rank()) {
            assert!(Instant::now() < deadline, "{} and {} do not meet", a.rank(), b.rank());
            std::thread::yield_now();
        }
    }
}

/// Members whose cards run where somebody drives them, or on their wake-up threads.
pub fn members(processes: u32, per_node: u32) -> Vec<Member> {
    let threads = NicThreads::new(1);
    fabrics(processes, per_node).into_iter().map(|fabric| member(fabric, Some(threads.clone()))).collect()
}

/// A member with a card.
pub fn member(fabric: Arc<ProcessFabric>, driver: Option<Arc<dyn Driver>>) -> Member {
    let setup = Setup {
        memory: HostMemory::new(),
        fabric: fabric.clone(),
        driver,
        clock: Clock::real(),
        inline: true,
        shared: Some(fabric.nodes().clone()),
    };
    Member { node: setup.node(fabric.member().node()), fabric }
}
