//! The nodes of a window, all of them in this process.

use std::sync::Arc;
use std::time::Duration;

use extoll_abi::regs::{
    EXTOLL_RF_SMFU_RCVD_NP, EXTOLL_RF_SMFU_RCVD_P, EXTOLL_RF_SMFU_RCVD_RSP, EXTOLL_RF_SMFU_SENT_NP,
    EXTOLL_RF_SMFU_SENT_P, EXTOLL_RF_SMFU_SENT_RSP,
};
use extoll_sim::Simulation;
use extoll_sim::faults::Faults;
use ggas_device::sim::SimNetwork;
use ggas_kernels::{CpuConfig, KernelMem, LaunchError, Processor, start};
use ggas_rma::Node;
use ggas_selftest::args::selftest_put;
use ggas_window::Window;

/// Bound of what is not expected to fail; hours of virtual time are cheap.
pub const SOON: Duration = Duration::from_secs(120);

/// What a network is like.
#[derive(Clone, Debug)]
pub enum Links {
    /// In real time.
    Clean,
    /// In virtual time, drawn from a seed, with these faults.
    Simulated(u64, Faults),
}

impl Links {
    /// In real time; and in virtual time, clean and with frames that are lost.
    pub fn all() -> [Links; 3] {
        [Links::Clean, Links::Simulated(1, Faults::none()), Links::lossy(2)]
    }

    pub fn lossy(seed: u64) -> Links {
        Links::Simulated(seed, Faults::none().seed(seed).drop(0.03))
    }
}

/// What each node has, by rank.
pub struct Sides {
    pub windows: Vec<Arc<Window>>,
    pub nodes: Vec<Node>,
    pub cpu: Processor,
    pub network: SimNetwork,
    pub simulation: Option<Arc<Simulation>>,
}

impl Sides {
    /// A window of `bytes` of each of so many nodes; waits and loads of kernels end after `timeout`.
    pub fn new(nodes: usize, bytes: usize, links: &Links, timeout: Duration) -> Sides {
        let builder = SimNetwork::builder().nodes(nodes);
        let (builder, cpu, simulation) = match links {
            Links::Clean => (builder, Processor::cpu(), None),
            Links::Simulated(seed, faults) => {
                let simulation = Simulation::new(*seed);
                let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
                (builder.faults(faults.clone()).simulation(&simulation), cpu, Some(simulation))
            }
        };
        let network = builder.build().expect("a network");
        let members: Vec<_> = (0..nodes).map(|i| Node::new(network.device(i).expect("a device"))).collect();
        let ids: Vec<u16> = members.iter().map(Node::id).collect();
        let window = |node| Window::on_nodes(node, &ids, &cpu, bytes, timeout).expect("a window");
        let windows = members.iter().map(|node| Arc::new(window(node))).collect();
        Sides { windows, nodes: members, cpu, network, simulation }
    }

    /// Address of a member's `struct ggas_window`.
    pub fn window(&self, rank: usize) -> u64 {
        self.windows[rank].member(rank).expect("of this process").address()
    }

    /// `args` of a member, whose status and count of wrong bytes lie at its place in `results`.
    pub fn put(&self, rank: usize, results: &KernelMem, args: selftest_put) -> selftest_put {
        let status = results.address() + 16 * rank as u64;
        selftest_put { window: self.window(rank), status, wrong: status + 8, ..args }
    }

    /// One block of so many threads for each of `args`.
    pub fn run<T: Copy>(&self, kernel: &str, threads: u32, args: &[T]) -> Result<(), LaunchError> {
        self.run_grids(kernel, (1, threads), args)
    }

    /// So many blocks of so many threads for each of `args`.
    pub fn run_grids<T: Copy>(
        &self,
        kernel: &str,
        (blocks, threads): (u32, u32),
        args: &[T],
    ) -> Result<(), LaunchError> {
        let launch = |args| {
            // SAFETY: callers give the structure of the kernel, and keep its memory.
            unsafe { ggas_selftest::launch(&self.cpu, kernel, blocks, threads, args) }
        };
        let launches: Vec<_> = args.iter().map(launch).collect();
        start(&launches).and_then(|running| running.wait(100 * SOON))
    }

    pub fn register(&self, rank: usize, register: u64) -> u64 {
        self.nodes[rank].read_register(register).expect("a register")
    }

    /// Posted, non-posted and response packets of a node: sent, then received (spec 6.1).
    pub fn counts(&self, rank: usize) -> [u64; 6] {
        [
            EXTOLL_RF_SMFU_SENT_P,
            EXTOLL_RF_SMFU_SENT_NP,
            EXTOLL_RF_SMFU_SENT_RSP,
            EXTOLL_RF_SMFU_RCVD_P,
            EXTOLL_RF_SMFU_RCVD_NP,
            EXTOLL_RF_SMFU_RCVD_RSP,
        ]
        .map(|register| self.register(rank, register))
    }
}
