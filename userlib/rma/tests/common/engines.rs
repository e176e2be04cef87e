//! Nodes with engines.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ggas_device::engine::{EngineErrors, EngineNetwork};
use ggas_kernels::Processor;
use ggas_rma::{Node, PageOption, Path, Port, PortConfig};

pub const CONFIG: PortConfig = PortConfig {
    queue_bytes: 64 << 10,
    segment_bytes: 64 << 10,
    path: Path::Slots,
    slots: 64,
    slot_option: PageOption::TE,
    post_timeout: Duration::from_secs(20),
    kernel_timeout: Duration::from_secs(20),
    kernel_free_batch: 32,
};

/// Nodes on the CPU executor.
pub fn engines(nodes: usize) -> EngineNetwork {
    EngineNetwork::new(&vec![Processor::cpu(); nodes]).unwrap()
}

/// A port with the slot path.
pub fn port(network: &EngineNetwork, node: usize) -> Port {
    Node::new(network.device(node).unwrap()).open_port(CONFIG).unwrap()
}

/// What the engine of a node could not carry out.
pub fn errors(network: &EngineNetwork, node: usize) -> EngineErrors {
    network.engine_device(node).unwrap().errors().unwrap()
}

/// Whether no entry but the one that always stays free is free.
pub fn is_full(port: &Port) -> bool {
    let queue = port.device().queue();
    // SAFETY: an entry of the queue, which lives as long as the port.
    let last = unsafe { queue.base.add(queue.entries as usize - 2).as_ref() };
    last[1].load(Ordering::Acquire) != 0
}
