//! Processes' worth of GMPI over nodes of the model in this process, and scripts of calls that their kernels make.

#![allow(dead_code, reason = "not every test binary uses all")]

use std::sync::Arc;
use std::time::Duration;

use ggas::device::sim::SimNetwork;
use ggas::kernels::{KernelMem, start};
use ggas::{Node, Processor};
use ggas_gmpi::carrier::own::Own;
use ggas_gmpi::{Config, Gmpi};
use ggas_selftest::args::{SELFTEST_PUT_BLOCK, selftest_gmpi, selftest_gmpi_call};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const SOON: Duration = Duration::from_secs(60);
/// Attached bytes of each rank.
pub const BYTES: usize = 1 << 20;
pub const WORLD: u64 = 1;
pub const INT: u64 = ggas_gmpi::layout::GMPI_INT as u64;
pub const LONG: u64 = ggas_gmpi::layout::GMPI_LONG as u64;
pub const DOUBLE: u64 = ggas_gmpi::layout::GMPI_DOUBLE as u64;
pub const ANY: u64 = u64::MAX;

/// Two halves of an argument.
pub fn both(first: u64, second: u64) -> u64 {
    first | second << 32
}

pub fn config() -> Config {
    Config { timeout: SOON, ..Config::default() }
}

/// One rank.
pub struct Rank {
    pub processor: Processor,
    pub gmpi: Gmpi,
    pub memory: Arc<KernelMem>,
}

impl Rank {
    /// Address of byte `offset` of its memory.
    pub fn at(&self, offset: usize) -> u64 {
        self.memory.address() + offset as u64
    }
}

pub struct World {
    pub ranks: Vec<Rank>,
    network: SimNetwork,
}

impl World {
    pub fn new(size: usize, config: &Config) -> World {
        World::with(size, config, |own| own)
    }

    /// Over carriers that this changes.
    pub fn with(size: usize, config: &Config, change: impl Fn(Own) -> Own) -> World {
        let network = SimNetwork::builder().nodes(size).build().expect("a network");
        let nodes: Vec<Node> = (0..size).map(|i| Node::new(network.device(i).expect("a node"))).collect();
        let rank = |(rank, own): (usize, Own)| {
            let processor = ggas_selftest::processor(rank);
            let own = change(own.timeout(SOON));
            let gmpi = Gmpi::with(&processor, config, move || Ok(Box::new(own))).expect("GMPI opens");
            let memory = Arc::new(processor.alloc(BYTES).expect("memory"));
            gmpi.attach(&memory).expect("memory is attached");
            Rank { processor, gmpi, memory }
        };
        let ranks = Own::local(&nodes).expect("a carrier").into_iter().enumerate().map(rank).collect();
        World { ranks, network }
    }

    /// The node of a rank.
    pub fn node(&self, rank: usize) -> Node {
        Node::new(self.network.device(rank).expect("a node"))
    }

    /// Something that all ranks do together.
    pub fn all<T: Send>(&self, work: impl Fn(&Gmpi, usize) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let work = &work;
            let handles: Vec<_> = self
                .ranks
                .iter()
                .enumerate()
                .map(|(i, rank)| scope.spawn(move || work(&rank.gmpi, i)))
                .collect();
            handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
        })
    }

    /// Runs a script on each rank, each as one block.
    pub fn run(&self, scripts: Vec<Script>) -> Vec<Results> {
        self.run_blocks(scripts.into_iter().map(|script| vec![script]).collect(), 64)
    }

    /// Runs scripts on the blocks of each rank.
    pub fn run_blocks(&self, scripts: Vec<Vec<Script>>, block: u32) -> Vec<Results> {
        let memories: Vec<_> = self
            .ranks
            .iter()
            .zip(scripts)
            .map(|(rank, blocks)| Results::new(&rank.processor, rank.gmpi.address(), blocks))
            .collect();
        let launches: Vec<_> = self
            .ranks
            .iter()
            .zip(&memories)
            .map(|(rank, results)| {
                // SAFETY: the structure is this kernel's, and its memory lives until the kernels have ended.
                unsafe {
                    ggas_selftest::launch(
                        &rank.processor,
                        "ggas_selftest_gmpi",
                        results.blocks,
                        block,
                        &results.args,
                    )
                }
            })
            .collect();
        start(&launches).expect("kernels start").wait(SOON).expect("kernels end");
        memories
    }

    /// Runs, and expects that all went well.
    pub fn succeed(&self, scripts: Vec<Script>) -> Vec<Results> {
        self.succeed_in(scripts, 64)
    }

    /// The same with blocks of so many threads.
    pub fn succeed_in(&self, scripts: Vec<Script>, threads: u32) -> Vec<Results> {
        let results = self.run_blocks(scripts.into_iter().map(|script| vec![script]).collect(), threads);
        for (rank, result) in results.iter().enumerate() {
            assert!(result.errors(0).iter().all(|error| *error == 0), "rank {rank}: {:?}", result.errors(0));
        }
        results
    }
}

/// What the calls of one rank came to.
pub struct Results {
    pub args: selftest_gmpi,
    pub blocks: u32,
    count: usize,
    calls: KernelMem,
    pub requests: KernelMem,
    statuses: KernelMem,
}

const CALL: usize = size_of::<selftest_gmpi_call>();

impl Results {
    pub fn new(processor: &Processor, buf: u64, mut scripts: Vec<Script>) -> Results {
        let (blocks, count) = (scripts.len(), scripts.iter().map(|script| script.0.len()).max().unwrap_or(0));
        // Scripts that are shorter end with nothing.
        let nothing =
            selftest_gmpi_call { function: ggas_selftest::args::SELFTEST_GMPI_FILL, ..Default::default() };
        scripts.iter_mut().for_each(|script| script.0.resize(count, nothing));
        let calls = processor.alloc(CALL * count * blocks).expect("memory");
        for (i, call) in scripts.iter().flat_map(|script| &script.0).enumerate() {
            let words: Vec<u64> = call
                .arguments
                .into_iter()
                .chain([
                    u64::from(call.function) | u64::from(call.request) << 32,
                    u64::from(call.status) | u64::from(call.scope) << 32,
                    0,
                ])
                .collect();
            calls.write_u64s(i * CALL, &words).expect("in range");
        }
        let requests = processor.alloc(8 * count * blocks).expect("memory");
        let statuses = processor.alloc(24 * count * blocks).expect("memory");
        let args = selftest_gmpi {
            buf,
            calls: calls.address(),
            requests: requests.address(),
            statuses: statuses.address(),
            count: count as u32,
            reserved: 0,
        };
        Results { args, blocks: blocks as u32, count, calls, requests, statuses }
    }

    fn last(&self, block: usize, call: usize) -> u64 {
        let index = block * self.count + call;
        self.calls.load_u64(index * CALL + CALL - 8).expect("in range")
    }

    pub fn errors(&self, block: usize) -> Vec<u32> {
        (0..self.count).map(|call| self.last(block, call) as u32).collect()
    }

    /// Flag, rank or count that a call of block 0 gave.
    pub fn value(&self, call: usize) -> u32 {
        (self.last(0, call) >> 32) as u32
    }

    /// Source, tag, error and bytes of a status of block 0.
    pub fn status(&self, number: usize) -> (i32, i32, u32, u64) {
        self.status_of(0, number as u32)
    }

    /// The same of any block.
    pub fn status_of(&self, block: usize, number: u32) -> (i32, i32, u32, u64) {
        let at = 24 * (block * self.count + number as usize);
        let words = self.statuses.read_u64s(at, 3).expect("in range");
        (words[0] as i32, (words[0] >> 32) as i32, words[1] as u32, words[2])
    }
}

/// Calls of one block.
#[derive(Clone, Default)]
pub struct Script(pub Vec<selftest_gmpi_call>);

impl Script {
    /// Adds a call, made by the block.
    pub fn call(mut self, function: u32, arguments: &[u64]) -> Script {
        let mut all = [0; 8];
        all[..arguments.len()].copy_from_slice(arguments);
        self.0.push(selftest_gmpi_call {
            arguments: all,
            function,
            status: u32::MAX,
            scope: SELFTEST_PUT_BLOCK,
            ..Default::default()
        });
        self
    }

    fn last(mut self, change: impl FnOnce(&mut selftest_gmpi_call)) -> Script {
        change(self.0.last_mut().expect("a call"));
        self
    }

    /// The last call uses this request.
    pub fn request(self, request: u32) -> Script {
        self.last(|call| call.request = request)
    }

    /// The last call tells this status.
    pub fn status(self, status: u32) -> Script {
        self.last(|call| call.status = status)
    }

    /// All calls so far are made by this scope.
    pub fn scope(mut self, scope: u32) -> Script {
        self.0.iter_mut().for_each(|call| call.scope = scope);
        self
    }
}
