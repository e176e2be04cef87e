//! Nodes with engines.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ggas_device::engine::{EngineConfig, EngineErrors, EngineNetwork};
use ggas_kernels::Processor;
use ggas_rma::{KernelPort, Modifier, Node, PageOption, Path, Port, PortConfig, Region, Request, Spec};

use super::{SOON, region};

/// Of the queue of a small port; one of them stays free.
pub const ENTRIES: u64 = 256;
/// Payload bytes of a fragment.
pub const FRAGMENT: u64 = 496;

pub const CONFIG: PortConfig = PortConfig {
    queue_bytes: 64 << 10,
    segment_bytes: 64 << 10,
    path: Some(Path::Slots),
    slots: 64,
    slot_option: PageOption::TE,
    post_timeout: SOON,
    kernel_timeout: SOON,
    kernel_free_batch: 32,
    watch_page: false,
    traced: true,
};

/// Nodes on the CPU executor, whose engines may take long to end on a busy machine.
pub fn engines(nodes: usize) -> EngineNetwork {
    with_config(nodes, EngineConfig { timeout: Duration::from_secs(600), ..EngineConfig::default() })
}

/// The same, with settings.
pub fn with_config(nodes: usize, config: EngineConfig) -> EngineNetwork {
    EngineNetwork::with_config(&vec![Processor::cpu(); nodes], config).unwrap()
}

/// Two where nothing is dropped for want of time, and whose host does not wait for as long as a full queue is waited for.
pub fn patient(timeout: Duration) -> EngineNetwork {
    with_config(
        2,
        EngineConfig { queue_timeout: Duration::from_secs(600), timeout, ..EngineConfig::default() },
    )
}

/// A port with the slot path.
pub fn port(network: &EngineNetwork, node: usize) -> Port {
    Node::new(network.device(node).unwrap()).open_port(CONFIG).unwrap()
}

/// The same for kernels.
pub fn kernel_port(network: &EngineNetwork, node: usize) -> KernelPort {
    let node = Node::new(network.device(node).unwrap());
    node.open_kernel_port(CONFIG, &Processor::cpu()).unwrap()
}

/// The same with a queue that is soon full.
pub fn small_port(network: &EngineNetwork, node: usize) -> Port {
    let small = PortConfig { queue_bytes: 4096, segment_bytes: 4096, ..CONFIG };
    Node::new(network.device(node).unwrap()).open_port(small).unwrap()
}

/// Posts a put of so many fragments with a notification for each; where it is read and written.
pub fn put_of_fragments(origin: &Port, target: &Port, count: u64, spec: Spec) -> [Region; 2] {
    let bytes = (count * FRAGMENT) as usize;
    let (from, to) = (region(origin, bytes, 1), region(target, bytes, 0));
    let (read, write) = (from.nla(0).unwrap(), to.nla(0).unwrap());
    let put = Request::Put { qw: false, read, write, size: bytes as u32 };
    origin.connect(target.address()).post(&put, spec, Modifier::NTR).unwrap();
    [from, to]
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
