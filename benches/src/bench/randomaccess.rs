//! `randomaccess` (thesis 6.9.3): HPCC RandomAccess by GGAS mailboxes, by RMA puts and by remote atomics.

use std::sync::Arc;
use std::time::Instant;

use crate::args::{BENCH_RANDOM_NODES, bench_random};
use ggas::KernelPort;
use ggas_kernels::{KernelMem, Processor};
use ggas_window::Window;

use crate::ends::Place;
use crate::error::Doing;
use crate::host::require_memory;
use crate::hpcc::{self, LOOK_AHEAD, Table};
use crate::kernel::{self, Probe};
use crate::payload::Payload;
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team, Via};

pub(crate) struct RandomAccess;

impl Bench for RandomAccess {
    fn name(&self) -> &'static str {
        "randomaccess"
    }

    fn about(&self) -> &'static str {
        "HPCC RandomAccess over all nodes, by GGAS mailboxes, RMA puts or remote atomics (thesis 6.9.3)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["ggas", "rma", "atomics"]
    }

    /// By peer memory, all methods but `rma`.
    fn by_windows(&self) -> bool {
        true
    }

    fn by_engines(&self) -> &'static [&'static str] {
        &["rma"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if options.nodes > BENCH_RANDOM_NODES {
            let advice = format!("randomaccess takes 2 to {BENCH_RANDOM_NODES} nodes");
            return Err(BenchError::option("nodes", options.nodes, advice));
        }
        let entries = if options.device == Device::Gpu { 1 << 24 } else { 1 << 15 };
        let tables = options.sizes_or(&[entries], 64..=1 << 32, 1)?;
        if let Some(bad) = tables.iter().find(|entries| !entries.is_power_of_two()) {
            let advice = "the table has a power of two of entries, over all nodes";
            return Err(BenchError::option("sizes", bad, advice));
        }
        for &entries in &tables {
            // The table, its copy for the check, and what passes on the way there.
            require_memory(entries, entries.saturating_mul(4 * 8))?;
        }
        let mut report = task.report();
        let mut methods = task.methods();
        if options.via == Via::Nvlink && !options.engines(self) {
            methods.retain(|method| *method != "rma");
        }
        progress.begin(self.name(), (methods.len() * tables.len()) as u64);
        for method in methods {
            for &entries in &tables {
                for shape in Shape::all(options, method)? {
                    progress.now(format!("{method}, {entries} entries"));
                    let run = Run::new(task, Table { entries, nodes: options.nodes }, shape)?;
                    let (row, check) = run.measure(method)?;
                    report.push(row.method(method), check);
                }
                progress.step();
            }
        }
        Ok(report)
    }
}

/// Blocks and threads of every node, and the updates that a block makes per round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub blocks: u32,
    pub threads: u32,
    look_ahead: u32,
}

impl Shape {
    /// With RMA a node has one block, which consumes its port's notifications.
    fn all(options: &Options, method: &str) -> Result<Vec<Self>, BenchError> {
        let gpu = options.device == Device::Gpu;
        let (blocks, threads) = match method {
            "rma" => (vec![1], 1024),
            // Threads of a warp wait for the slowest of their updates, so each has a block of its own.
            "atomics" if gpu => (options.blocks_or(&[LOOK_AHEAD]), 1),
            // Blocks exchange mailboxes with their like only: small ones wait for less.
            _ if gpu => (options.blocks_or(&[16]), 64),
            _ => (options.blocks_or(&[1]), 32),
        };
        let threads = options.threads_or(&[if gpu { threads } else { 32 }]);
        blocks.iter().flat_map(|b| threads.iter().map(move |t| Self::new(*b, *t))).collect()
    }

    pub fn new(blocks: u32, threads: u32) -> Result<Self, BenchError> {
        let look_ahead = LOOK_AHEAD / blocks / threads * threads;
        if look_ahead == 0 {
            let advice =
                format!("with {threads} threads each, a node may have {LOOK_AHEAD} threads (look-ahead)");
            return Err(BenchError::option("blocks", blocks, advice));
        }
        Ok(Self { blocks, threads, look_ahead })
    }

    fn threads_of_node(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.threads)
    }

    /// Bytes of the mailboxes of a node: blocks x 2 x senders, each a count and the numbers, whole 16 bytes.
    pub fn mailbox_bytes(&self, nodes: u32) -> usize {
        let words = (self.look_ahead as usize + 1).next_multiple_of(2);
        self.blocks as usize * 2 * nodes as usize * words * 8
    }

    /// Bytes of the flags before the mailboxes in the window.
    pub fn flag_bytes(&self, nodes: u32) -> usize {
        (self.blocks as usize * nodes as usize * 8).next_multiple_of(256)
    }

    /// Rounds until the thread with the most updates has made them.
    fn rounds(&self, table: &Table) -> u64 {
        let most = (0..table.nodes).map(|node| table.updates_of(node).1).max().unwrap_or(0);
        let per_round = u64::from(self.look_ahead / self.threads);
        most.div_ceil(self.threads_of_node()).div_ceil(per_round).max(1)
    }
}

/// What a node has.
pub(super) struct Node {
    pub id: u32,
    table: KernelMem,
    starts: KernelMem,
    pub probe: Probe,
}

struct Run<'a> {
    setup: Setup<'a>,
    table: Table,
    shape: Shape,
    nodes: Vec<Node>,
}

impl<'a> Run<'a> {
    fn new(task: Task<'a>, table: Table, shape: Shape) -> Result<Self, BenchError> {
        let setup = Setup::new(task, Worker::Kernels)?;
        let nodes = setup.local().map(|node| Node::new(setup.processor(node), &table, shape, node));
        let nodes = nodes.collect::<Result<_, _>>()?;
        Ok(Self { setup, table, shape, nodes })
    }

    fn measure(&self, method: &str) -> Result<(Row, Check), BenchError> {
        let per_round = u64::from(self.shape.look_ahead) * u64::from(self.shape.blocks);
        let first = self.nodes.iter().find(|node| node.id == 0);
        let (seconds, samples) = if method == "atomics" {
            let seconds = self.by_atomics()?;
            let updates = self.table.updates_of(0).1;
            (seconds, first.map(|_| Samples::new(vec![seconds * 1e9], 1).divided(updates)))
        } else {
            if method == "ggas" {
                self.by_ggas()?
            } else {
                self.by_rma()?
            }
            let samples = first.map(|node| node.probe.samples()).transpose()?;
            (self.seconds()?, samples.map(|samples| samples.divided(per_round)))
        };
        let (check, wrong) = self.check()?;
        let (samples, check) = self.setup.collect(samples, check)?;
        let mut row = Row::new(&samples);
        row.elements = Some(self.table.entries);
        (row.blocks, row.threads) = (Some(self.shape.blocks), Some(self.shape.threads));
        let rate = self.table.updates() as f64 / seconds;
        row.rate_per_s = Some(rate);
        row.errors = wrong - check.errors;
        Ok((row.with("gups", rate / 1e9).with("look_ahead", per_round), check))
    }

    /// The time of the slowest node.
    fn seconds(&self) -> Result<f64, BenchError> {
        let seconds = self.nodes.iter().map(|node| node.probe.seconds()).collect::<Result<Vec<_>, _>>()?;
        Ok(self.setup.share(seconds)?.into_iter().fold(1e-9, f64::max))
    }

    fn by_ggas(&self) -> Result<(), BenchError> {
        const KERNEL: &str = "bench_random_ggas";
        let nodes = self.table.nodes;
        let bytes = self.shape.flag_bytes(nodes) + self.shape.mailbox_bytes(nodes);
        let window: Arc<Window> = window(&self.setup, bytes)?;
        let mut launches = Vec::new();
        for own in &self.nodes {
            let args =
                bench_random { window: window_of(&window, own.id)?, ..own.args(&self.table, self.shape) };
            launches.push(self.launch(KERNEL, own, &args));
        }
        self.setup.share::<()>(Vec::new())?;
        kernel::run(&launches, self.setup.options)?;
        for own in &self.nodes {
            let member = window.member(own.id as usize).doing("choosing a member")?;
            own.probe.finished(KERNEL, member.report())?;
        }
        // The window goes when all have done with it.
        self.setup.share::<()>(Vec::new()).map(drop)
    }

    /// The table passes through a window, where the others reach it. Gives the seconds of the slowest process by the
    /// host's clock, starting the kernels included: nobody in them knows when the last block ends.
    fn by_atomics(&self) -> Result<f64, BenchError> {
        const KERNEL: &str = "bench_random_atomics";
        let window: Arc<Window> = window(&self.setup, self.table.per_node() as usize * 8)?;
        let mut launches = Vec::new();
        for own in &self.nodes {
            let mut part = vec![0; self.table.part(own.id).1 as usize * 8];
            own.table.read(0, &mut part).doing("reading the table")?;
            window.write(own.id as usize, 0, &part).doing("writing the window")?;
            let args =
                bench_random { window: window_of(&window, own.id)?, ..own.args(&self.table, self.shape) };
            launches.push(self.launch(KERNEL, own, &args));
        }
        self.setup.share::<()>(Vec::new())?;
        let began = Instant::now();
        kernel::run(&launches, self.setup.options)?;
        let seconds = began.elapsed().as_secs_f64();
        // Others' updates are performed when their kernels have ended.
        self.setup.share::<()>(Vec::new())?;
        for own in &self.nodes {
            own.probe.finished(KERNEL, None)?;
            let mut part = vec![0; self.table.part(own.id).1 as usize * 8];
            window.read(own.id as usize, 0, &mut part).doing("reading the window")?;
            own.table.write(0, &part).doing("writing the table")?;
        }
        Ok(self.setup.share(vec![seconds])?.into_iter().fold(1e-9, f64::max))
    }

    fn by_rma(&self) -> Result<(), BenchError> {
        const KERNEL: &str = "bench_random_rma";
        let ends = self.nodes.iter().map(|own| RmaEnd::new(self, own.id)).collect::<Result<Vec<_>, _>>()?;
        let places = ends.iter().map(|end| Ok(Place::new(&end.port, end.mailboxes.nla(0)?)));
        let places = self.setup.share(places.collect::<Result<_, BenchError>>()?)?;
        let (mut launches, mut peers) = (Vec::new(), Vec::new());
        for (own, end) in self.nodes.iter().zip(&ends) {
            let to = self.peers_for(own.id, &places)?;
            let args = bench_random {
                port: end.port.address(),
                mailboxes: end.mailboxes.address(),
                outboxes: end.outboxes.address(),
                outboxes_nla: end.outboxes.nla(0)?,
                peers: to.address(),
                ..own.args(&self.table, self.shape)
            };
            launches.push(self.launch(KERNEL, own, &args));
            peers.push(to);
        }
        let armed: Vec<_> = ends.iter().map(|end| end.port.arm()).collect();
        kernel::run(&launches, self.setup.options)?;
        drop(armed);
        for (own, end) in self.nodes.iter().zip(&ends) {
            own.probe.finished(KERNEL, end.port.report())?;
        }
        self.setup.share::<()>(Vec::new()).map(drop)
    }

    /// The mailboxes of all nodes, as kernels of `node` address them (`struct bench_peer`).
    fn peers_for(&self, node: u32, places: &[Place]) -> Result<KernelMem, BenchError> {
        let mut words = Vec::new();
        for peer in places.iter().map(Place::peer) {
            words.extend([peer.target, u64::from(peer.node) | u64::from(peer.vpid) << 32]);
        }
        let memory = self.setup.processor(node).alloc(words.len() * 8).doing("allocating kernel memory")?;
        memory.write_u64s(0, &words).doing("writing kernel memory")?;
        Ok(memory)
    }

    fn launch<'b>(&'b self, kernel: &'b str, own: &Node, args: &bench_random) -> ggas_kernels::Launch<'b> {
        kernel::launch(self.setup.processor(own.id), kernel, self.shape.blocks, self.shape.threads, args)
    }

    /// All updates once more leave every entry at its own index; HPCC lets 1 % be wrong. Gives what fails the
    /// run, and how many entries were wrong; the process of node 0 looks.
    fn check(&self) -> Result<(Check, u64), BenchError> {
        let parts = self.nodes.iter().map(|own| own.entries(&self.table)).collect::<Result<Vec<_>, _>>()?;
        let parts = self.setup.share(parts)?;
        let mut check = Check::default();
        if self.setup.local().start > 0 {
            return Ok((check, 0));
        }
        let wrong = self.table.count_wrong(parts.concat());
        if wrong * 100 > self.table.entries {
            check.wrong(wrong, || format!("{wrong} of {} entries; HPCC allows 1 %", self.table.entries));
        }
        Ok((check, wrong))
    }
}

impl Node {
    /// The part of the table, each entry its index, and where each thread's part of the stream begins.
    pub fn new(processor: &Processor, table: &Table, shape: Shape, node: u32) -> Result<Self, BenchError> {
        let (first, entries) = table.part(node);
        let part = processor.alloc(entries.max(1) as usize * 8).doing("allocating the table")?;
        part.write_u64s(0, &(first..first + entries).collect::<Vec<_>>()).doing("writing the table")?;
        let threads = shape.threads_of_node();
        let (begin, updates) = table.updates_of(node);
        let (each, rest) = (updates / threads, updates % threads);
        let starts: Vec<u64> =
            (0..threads).map(|t| hpcc::start((begin + each * t + rest.min(t)) as i64)).collect();
        let starts_memory = processor.alloc(starts.len() * 8).doing("allocating kernel memory")?;
        starts_memory.write_u64s(0, &starts).doing("writing kernel memory")?;
        Ok(Self {
            id: node,
            table: part,
            starts: starts_memory,
            probe: Probe::new(processor, shape.rounds(table), 0)?,
        })
    }

    /// Arguments that all methods share.
    pub fn args(&self, table: &Table, shape: Shape) -> bench_random {
        bench_random {
            timing: self.probe.args(),
            table: self.table.address(),
            starts: self.starts.address(),
            entries: table.entries,
            per_node: table.per_node(),
            updates: table.updates_of(self.id).1,
            look_ahead: shape.look_ahead,
            node: self.id,
            nodes: table.nodes,
            ..bench_random::default()
        }
    }

    /// The entries of this node.
    pub fn entries(&self, table: &Table) -> Result<Vec<u64>, BenchError> {
        self.table.read_u64s(0, table.part(self.id).1 as usize).doing("reading the table")
    }
}

/// A node's port and its registered mailboxes.
struct RmaEnd {
    mailboxes: Payload,
    outboxes: Payload,
    port: KernelPort,
}

impl RmaEnd {
    fn new(run: &Run, node: u32) -> Result<Self, BenchError> {
        let bytes = run.shape.mailbox_bytes(run.table.nodes);
        let processor = run.setup.processor(node);
        let port = run.setup.open_kernel_port(node)?;
        let boxes = || Payload::new(&run.setup, node, &port, bytes)?.for_kernels(processor);
        let (mailboxes, outboxes) = (boxes()?, boxes()?);
        Ok(Self { mailboxes, outboxes, port })
    }
}
