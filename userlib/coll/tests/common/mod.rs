//! Groups on the CPU executor, and on GPUs where the test runs there.
#![allow(dead_code)] // each test uses a part of it

use std::sync::Arc;
use std::time::Duration;

use ggas_clock::Clock;
use ggas_coll::{Group, GroupConfig};
use ggas_device::sim::SimNetwork;
use ggas_kernels::{CpuConfig, KernelMem, Processor, start};
use ggas_rma::Node;
use ggas_selftest::args::{SELFTEST_BARRIER_MASTER, SELFTEST_FLOAT, selftest_coll};
use ggas_window::Window;

pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of each part before the group's area.
pub const USER: usize = 64 << 10;

/// Little of everything, so that short vectors take several exchanges.
pub fn small() -> GroupConfig {
    GroupConfig { slot_bytes: 256, packed_bytes: 512, packed_channels: 2, ..GroupConfig::default() }
}

pub struct Setup {
    pub cpu: Processor,
    /// Where the kernels of each rank run.
    pub processors: Vec<Processor>,
    pub group: Group,
    status: Vec<KernelMem>,
    pub wrong: KernelMem,
    _network: SimNetwork,
}

impl Setup {
    pub fn new(nodes: usize, config: GroupConfig) -> Self {
        Self::on(vec![Processor::cpu(); nodes], config)
    }

    /// Kernels and their waits go by `clock`.
    pub fn by_clock(nodes: usize, config: GroupConfig, clock: &Clock) -> Self {
        Self::on(vec![Processor::cpu_with(CpuConfig::on_clock(clock.clone())); nodes], config)
    }

    /// With `GGAS_TEST_GPUS=2`, ranks take turns on the first two GPUs.
    pub fn anywhere(nodes: usize, config: GroupConfig) -> Self {
        let gpus: Option<usize> =
            std::env::var("GGAS_TEST_GPUS").ok().map(|gpus| gpus.parse().expect("a number of GPUs"));
        let processor = |rank: usize| match gpus {
            Some(gpus) => Processor::gpu(rank % gpus).expect("a GPU"),
            None => Processor::cpu(),
        };
        Self::on((0..nodes).map(processor).collect(), config)
    }

    fn on(processors: Vec<Processor>, config: GroupConfig) -> Self {
        let nodes = processors.len();
        let network = SimNetwork::builder().nodes(nodes).build().expect("a network");
        let is_cpu = |processor: &&Processor| matches!(processor, Processor::Cpu(_));
        let cpu = processors.iter().find(is_cpu).cloned().unwrap_or_else(Processor::cpu);
        let members: Vec<_> = (0..nodes).map(|n| Node::new(network.device(n).expect("a device"))).collect();
        let config = GroupConfig { offset: USER, ..config };
        let pairs: Vec<_> = members.iter().zip(&processors).collect();
        let window = Window::new(&pairs, config.end(nodes).expect("it fits")).expect("a window");
        let group = Group::new(Arc::new(window), &config).expect("a group");
        let status = (0..nodes).map(|_| cpu.alloc(8).expect("memory")).collect();
        let wrong = cpu.alloc(8).expect("memory");
        Self { cpu, processors, group, status, wrong, _network: network }
    }

    pub fn args(&self, rank: usize) -> selftest_coll {
        selftest_coll {
            group: self.group.member(rank).expect("a member").address(),
            status: self.status[rank].address(),
            wrong: self.wrong.address(),
            rounds: 1,
            ..selftest_coll::default()
        }
    }

    /// Runs one kernel per node and returns what each node's collectives returned.
    pub fn run(&self, grid: u32, block: u32, args: &[selftest_coll]) -> Vec<u64> {
        self.status.iter().for_each(|status| status.store_u64(0, 0).expect("in range"));
        let launches: Vec<_> = args
            .iter()
            // SAFETY: the structure is this kernel's, and its memory outlives the wait.
            .map(|args| unsafe { ggas_selftest::launch(&self.cpu, kernel(args), grid, block, args) })
            .collect();
        start(&launches).and_then(|running| running.wait(TIMEOUT)).expect("kernels end");
        self.status.iter().map(|status| status.load_u64(0).expect("in range")).collect()
    }

    /// Barriers of one kind; the counters that they check are in the window.
    pub fn barrier(&self, method: u32, grid: u32, block: u32, rounds: u32) -> Vec<u64> {
        let window = self.group.window();
        let base = window.member(0).and_then(|m| m.global_pointer(0)).expect("mapped");
        let args: Vec<_> = (0..self.group.len())
            .map(|rank| selftest_coll {
                input: base,
                input_stride: window.info().stride as u64,
                method,
                rounds,
                ..self.args(rank)
            })
            .collect();
        (0..self.group.len()).for_each(|rank| window.store_u64(rank, 0, 0).expect("in range"));
        self.run(grid, block, &args)
    }
}

/// Floats have a kernel of their own, which makes barriers too.
fn kernel(args: &selftest_coll) -> &'static str {
    if args.method <= SELFTEST_BARRIER_MASTER || args.element == SELFTEST_FLOAT {
        "ggas_selftest_coll"
    } else {
        "ggas_selftest_coll_types"
    }
}
