//! A job with a card for each member.

use std::sync::Arc;

use extoll_sim::process::{ProcessFabric, Shape, SharedNode, local};
use extoll_sim::*;

use crate::common::*;

/// A member: its fabric, its card, its memory.
pub struct Member {
    pub fabric: Arc<ProcessFabric>,
    pub node: Node,
}

impl Member {
    /// Opens a VPID of the member's node, the first that is free.
    pub fn open(&self, segments: usize) -> Port<'_> {
        let vpid = self.fabric.job().take_vpid(self.fabric.rank(), 256).unwrap();
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
    let members = local(Shape::new(processes, per_node).unwrap()).unwrap();
    members.into_iter().map(|member| ProcessFabric::new(member).unwrap()).collect()
}

/// Members whose cards run where somebody drives them, or on their wake-up threads.
pub fn members(processes: u32, per_node: u32) -> Vec<Member> {
    let engine = Engine::new(1);
    let start = |fabric: Arc<ProcessFabric>| {
        let node = fabric.job().shape().node_of(fabric.rank());
        let setup = Setup {
            memory: HostMemory::new(),
            fabric: fabric.clone(),
            engine: Some(engine.clone()),
            inline: true,
            shared: Some(SharedNode { job: fabric.job().clone(), rank: fabric.rank() }),
        };
        Member { node: setup.node(node), fabric }
    };
    fabrics(processes, per_node).into_iter().map(start).collect()
}
