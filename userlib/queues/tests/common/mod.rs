//! Members in a ring, each of which sends to the next one.

#![allow(dead_code, reason = "not every test binary uses all")]

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use ggas_device::engine::{EngineConfig, EngineGuard, EngineNetwork};
use ggas_device::sim::SimNetwork;
use ggas_kernels::{KernelMem, Processor, start};
use ggas_queues::{Memory, Queues, QueuesConfig, Shared, Way};
use ggas_rma::{Node, Path, PortConfig};
use ggas_selftest::args::{
    SELFTEST_PUT_BLOCK, SELFTEST_PUT_THREAD, SELFTEST_PUT_WARP, SELFTEST_QUEUE_COUNTERS,
    SELFTEST_QUEUE_EXCHANGE, SELFTEST_QUEUE_READ, selftest_queue,
};
use ggas_window::Window;

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const SOON: Duration = Duration::from_secs(60);
/// Bytes of a lane's buffers.
const EACH: usize = 20_480;

/// What carries the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The model, by slots.
    Slots,
    /// The model, by stores to requester pages.
    Card,
    /// The same to pages in memory.
    Watched,
    /// Loads and stores to a window; there are no ports.
    Stores,
    /// RMA engines.
    Engine,
}

pub fn carriers() -> [Carrier; 5] {
    [Carrier::Slots, Carrier::Card, Carrier::Watched, Carrier::Stores, Carrier::Engine]
}

impl Carrier {
    pub fn way(self) -> Way {
        if self == Carrier::Stores { Way::Stores } else { Way::Device }
    }

    pub fn port(self) -> PortConfig {
        let port = PortConfig {
            kernel_timeout: SOON,
            queue_bytes: 64 << 10,
            segment_bytes: 64 << 10,
            ..PortConfig::default()
        };
        match self {
            Carrier::Card => PortConfig { path: Some(Path::Card), ..port },
            Carrier::Watched => PortConfig { path: Some(Path::Card), watch_page: true, ..port },
            _ => PortConfig { path: Some(Path::Slots), ..port },
        }
    }

    pub fn nodes(self, members: usize) -> Vec<Node> {
        match self {
            Carrier::Engine => {
                let config = EngineConfig { timeout: Duration::from_secs(600), ..EngineConfig::default() };
                let network = EngineNetwork::with_config(&vec![Processor::cpu(); members], config).unwrap();
                let nodes = (0..members).map(|i| Node::new(network.device(i).unwrap())).collect();
                ENGINES.set(Some(network));
                nodes
            }
            _ => nodes_of(&SimNetwork::builder().nodes(members).build().unwrap()),
        }
    }
}

thread_local! {
    /// The engines of the nodes made last.
    static ENGINES: Cell<Option<EngineNetwork>> = const { Cell::new(None) };
}

pub fn nodes_of(network: &SimNetwork) -> Vec<Node> {
    (0..network.len()).map(|i| Node::new(network.device(i).unwrap())).collect()
}

/// Blocks of one launch.
#[derive(Clone, Copy)]
pub struct Lanes {
    pub scope: u32,
    pub first: u32,
    pub grid: u32,
    pub block: u32,
    pub resident: Option<u32>,
}

impl Lanes {
    pub fn blocks(first: u32, grid: u32) -> Lanes {
        Lanes { scope: SELFTEST_PUT_BLOCK, first, grid, block: 8, resident: None }
    }

    fn count(&self) -> u32 {
        match self.scope {
            SELFTEST_PUT_THREAD => self.grid * self.block,
            SELFTEST_PUT_WARP => self.grid * self.block.div_ceil(32),
            _ => self.grid,
        }
    }
}

pub struct Ring {
    pub queues: Queues,
    shared: Shared,
    /// Reached by stores, if there is such a way.
    other: Option<Shared>,
    parts: Parts,
    counters: Vec<KernelMem>,
    results: Vec<KernelMem>,
    round: Cell<u32>,
    lanes: usize,
    carrier: Carrier,
    /// Whether launches arm the queues.
    pub arms: bool,
    /// Goes before its network.
    _running: Option<EngineGuard>,
    _engines: Option<EngineNetwork>,
}

enum Parts {
    Window(Arc<Window>),
    Own(Vec<Arc<KernelMem>>),
}

impl Parts {
    fn read(&self, member: usize, offset: usize, bytes: &mut [u8]) {
        match self {
            Parts::Window(window) => window.read(member, offset, bytes).unwrap(),
            Parts::Own(own) => own[member].read(offset, bytes).unwrap(),
        }
    }

    fn write(&self, member: usize, offset: usize, bytes: &[u8]) {
        match self {
            Parts::Window(window) => window.write(member, offset, bytes).unwrap(),
            Parts::Own(own) => own[member].write(offset, bytes).unwrap(),
        }
    }
}

pub fn ring(carrier: Carrier, members: usize, config: QueuesConfig, lanes: usize) -> Ring {
    let config = QueuesConfig { port: carrier.port(), ..config };
    ring_with(carrier, carrier.nodes(members), Processor::cpu(), config, lanes)
}

/// As kernels of the test see a byte.
fn value(member: usize, round: u32, lane: usize, i: usize) -> u8 {
    ((i + 1).wrapping_mul(167)
        ^ (round as usize).wrapping_mul(29)
        ^ lane.wrapping_mul(53)
        ^ member.wrapping_mul(101)
        ^ (i >> 8)) as u8
}

pub fn ring_with(
    carrier: Carrier,
    nodes: Vec<Node>,
    cpu: Processor,
    config: QueuesConfig,
    lanes: usize,
) -> Ring {
    let members: Vec<(&Node, &Processor)> = nodes.iter().map(|node| (node, &cpu)).collect();
    let config =
        QueuesConfig { way: carrier.way(), timeout: SOON, flags: 256.max(2 * lanes as u32), ..config };
    let engines = ENGINES.take().filter(|_| carrier == Carrier::Engine);
    let running = engines.as_ref().map(|network| network.run().unwrap());
    let queues = Queues::new(&members, &config).unwrap();
    let window = Arc::new(Window::with_timeout(&members, 2 * lanes * EACH, SOON).unwrap());
    let shared = queues.share(window.clone()).unwrap();
    let other = queues.share(Memory::from(window.clone()).by(Way::Stores)).unwrap();
    Ring::new(
        queues,
        shared,
        Some(other),
        Parts::Window(window),
        (cpu, nodes.len()),
        (lanes, carrier),
        (running, engines),
    )
}

impl Ring {
    pub fn of_own_memory(nodes: Vec<Node>, config: QueuesConfig, lanes: usize) -> Ring {
        let cpu = Processor::cpu();
        let members: Vec<(&Node, &Processor)> = nodes.iter().map(|node| (node, &cpu)).collect();
        let queues = Queues::new(&members, &QueuesConfig { timeout: SOON, ..config }).unwrap();
        let own: Vec<_> = nodes.iter().map(|_| Arc::new(cpu.alloc(2 * lanes * EACH).unwrap())).collect();
        let shared = queues.share(own.clone()).unwrap();
        Ring::new(
            queues,
            shared,
            None,
            Parts::Own(own),
            (cpu, nodes.len()),
            (lanes, Carrier::Slots),
            (None, None),
        )
    }

    fn new(
        queues: Queues,
        shared: Shared,
        other: Option<Shared>,
        parts: Parts,
        (cpu, members): (Processor, usize),
        (lanes, carrier): (usize, Carrier),
        (running, engines): (Option<EngineGuard>, Option<EngineNetwork>),
    ) -> Ring {
        let words = |count: usize| (0..members).map(|_| cpu.alloc(8 * count).unwrap()).collect();
        Ring {
            queues,
            shared,
            other,
            parts,
            counters: words(SELFTEST_QUEUE_COUNTERS as usize),
            results: words(2),
            round: Cell::new(0),
            lanes,
            carrier,
            arms: true,
            _running: running,
            _engines: engines,
        }
    }

    pub fn clear_counters(&self) {
        self.counters.iter().for_each(|counters| counters.store_u64(0, 0).unwrap());
    }

    /// Runs kernels on all members; all must end well, and see the right bytes.
    pub fn run(&self, form: u32, grids: &[Lanes], bytes: usize, rounds: u32) {
        let statuses = self.try_run(form, grids, bytes, rounds);
        for (member, status) in statuses.iter().enumerate() {
            let report = self.queues.report(member).unwrap();
            assert_eq!(*status, 0, "form {form}, member {member}, {:?}: {report:?}", self.carrier);
        }
        for (member, results) in self.results.iter().enumerate() {
            assert_eq!(
                results.load_u64(8).unwrap(),
                0,
                "wrong bytes, form {form}, member {member}, {:?}",
                self.carrier
            );
        }
        self.queues.check().unwrap();
        if form != SELFTEST_QUEUE_EXCHANGE {
            self.check_arrivals(self.round.get() - 1, bytes);
        }
    }

    /// The same by the host: of all lanes what the member before has sent.
    fn check_arrivals(&self, round: u32, bytes: usize) {
        let members = self.results.len();
        for member in 0..members {
            let before = (member + members - 1) % members;
            for lane in 0..self.lanes {
                let mut seen = vec![0; bytes];
                self.parts.read(member, (self.lanes + lane) * EACH, &mut seen);
                let differs = (0..bytes).find(|i| seen[*i] != value(before, round, lane, *i));
                assert_eq!(differs, None, "lane {lane} of member {member}, round {round}");
            }
        }
    }

    /// How the kernels of each member ended.
    pub fn try_run(&self, form: u32, grids: &[Lanes], bytes: usize, rounds: u32) -> Vec<u64> {
        let first = self.round.get();
        self.round.set(first + rounds);
        self.try_run_from(form, first, grids, bytes, rounds)
    }

    pub fn try_run_from(
        &self,
        form: u32,
        first: u32,
        grids: &[Lanes],
        bytes: usize,
        rounds: u32,
    ) -> Vec<u64> {
        self.try_run_on(self, form, first, grids, bytes, rounds)
    }

    /// One block of each member, with memory that the queues of another ring share.
    pub fn try_run_with(&self, theirs: &Ring, form: u32, first: u32, bytes: usize) -> Vec<u64> {
        self.try_run_on(theirs, form, first, &[Lanes::blocks(0, 1)], bytes, 1)
    }

    fn try_run_on(
        &self,
        theirs: &Ring,
        form: u32,
        first: u32,
        grids: &[Lanes],
        bytes: usize,
        rounds: u32,
    ) -> Vec<u64> {
        if form == SELFTEST_QUEUE_READ {
            self.fill(first, bytes);
        }
        let mut args = Vec::new();
        for member in 0..self.results.len() {
            self.results[member].write_u64s(0, &[0, 0]).unwrap();
            for grid in grids {
                let one = selftest_queue {
                    queues: self.queues.address(member).unwrap(),
                    memory: theirs.shared.address(member).unwrap(),
                    other: self.other.as_ref().map_or(0, |other| other.address(member).unwrap()),
                    counters: self.counters[member].address(),
                    status: self.results[member].address(),
                    wrong: self.results[member].address() + 8,
                    bytes: bytes as u64,
                    each: EACH as u64,
                    form,
                    scope: grid.scope,
                    rounds,
                    first,
                    lane: grid.first,
                    lanes: grids.iter().map(Lanes::count).sum(),
                };
                args.push((member, grid, one));
            }
        }
        let _armed = self.arms.then(|| self.queues.arm());
        let launches: Vec<_> = args
            .iter()
            .map(|(member, grid, args)| {
                let cpu = self.queues.processor(*member).unwrap();
                // SAFETY: the arguments are this kernel's, and their memory outlives the wait.
                let launch =
                    unsafe { ggas_selftest::launch(cpu, "ggas_selftest_queue", grid.grid, grid.block, args) };
                grid.resident.map_or(launch.clone(), |blocks| launch.resident(blocks))
            })
            .collect();
        start(&launches).unwrap().wait(3 * SOON).unwrap();
        self.results.iter().map(|results| results.load_u64(0).unwrap()).collect()
    }

    /// Gives all members something to be read.
    fn fill(&self, round: u32, bytes: usize) {
        for member in 0..self.results.len() {
            for lane in 0..self.lanes {
                let data: Vec<u8> = (0..bytes).map(|i| value(member, round, lane, i)).collect();
                self.parts.write(member, lane * EACH, &data);
            }
        }
    }

    /// Nobody has written anything.
    pub fn is_untouched(&self) -> bool {
        (0..self.results.len()).all(|member| {
            let mut all = vec![0; 2 * self.lanes * EACH];
            self.parts.read(member, 0, &mut all);
            all.iter().all(|byte| *byte == 0)
        })
    }
}
