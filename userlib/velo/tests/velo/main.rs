//! VELO through the library, on the model: in one process and as between processes.

mod hostile;
#[cfg(feature = "kernels")]
mod kernels;
mod messages;
mod pressure;
mod soak;

use std::sync::Arc;
use std::time::Duration;

use extoll_abi::regs;
use ggas_device::Device;
use ggas_device::sim::{FabricKind, Progress, SimNetwork, Simulation};
use ggas_velo::{MailboxSlots, VeloConfig, VeloPort};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);

const SLOTS: [MailboxSlots; 2] = [MailboxSlots::B64, MailboxSlots::B128];

/// Both ways of progress, in one process and as between processes.
fn networks(nodes: usize) -> Vec<SimNetwork> {
    let build = |fabric, progress| {
        drops_nothing(
            SimNetwork::builder().nodes(nodes).fabric(fabric).progress(progress).build().unwrap(),
            nodes,
        )
    };
    let kinds = [FabricKind::InProcess, FabricKind::Process];
    kinds
        .into_iter()
        .flat_map(|kind| [Progress::Inline, Progress::Threads(1)].map(|p| build(kind, p)))
        .collect()
}

/// Two nodes in virtual time, for waits in vain.
fn simulated() -> (SimNetwork, Arc<Simulation>) {
    let simulation = Simulation::new(1);
    (drops_nothing(SimNetwork::builder().nodes(2).simulation(&simulation).build().unwrap(), 2), simulation)
}

/// For want of time, however long a reader loses its processor.
fn drops_nothing(network: SimNetwork, nodes: usize) -> SimNetwork {
    for node in 0..nodes {
        network.device(node).unwrap().write_register(regs::EXTOLL_RF_VELO_TIMEOUT, 0).unwrap();
    }
    network
}

/// A mailbox of one page: 64 or 32 slots.
fn small(slots: MailboxSlots) -> VeloConfig {
    VeloConfig { mailbox_bytes: 4096, segment_bytes: 4096, slots, ..VeloConfig::default() }
}

fn card(network: &SimNetwork, node: u16) -> Arc<dyn Device> {
    network.device(node.into()).unwrap()
}

fn open(network: &SimNetwork, node: u16, config: VeloConfig) -> VeloPort {
    VeloPort::open(&card(network, node), config).unwrap()
}

/// `len` bytes that `seed` selects.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| (i * 31 + seed * 7 + (seed >> 8)) as u8).collect()
}
