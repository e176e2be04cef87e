//! `tn-jacobi`: iterations of a two-dimensional Jacobi relaxation, edges exchanged after each (GPU-TN, section 5.3, Fig. 9).

use std::time::Duration;

use ggas_kernels::{KernelMem, Launch, Stream};

use super::litmus::in_one_process;
use super::tn_jacobi_host as by_hosts;
use crate::args::*;
use crate::error::Doing;
use crate::grid::{Field, Grid, bytes, opposite};
use crate::host::require_memory;
use crate::hosts::{Outgoing, TwoSided, together, warm_up};
use crate::kernel;
use crate::messages::{How, Message, Parts, Table};
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_tn_jacobi_iterations";
const COUNTER: usize = BENCH_JACOBI_COUNTER as usize;
const EDGES: usize = BENCH_JACOBI_EDGES as usize;
/// Edges of a node: of each side, two in turn.
const EDGES_OF_NODE: usize = 2 * BENCH_JACOBI_SIDES as usize;

pub(crate) struct TnJacobi;

impl Bench for TnJacobi {
    fn name(&self) -> &'static str {
        "tn-jacobi"
    }

    fn about(&self) -> &'static str {
        "an iteration of a 2-D Jacobi relaxation, sizes: points along a side of each node's square; edges go to neighbours"
    }

    fn methods(&self) -> &'static [&'static str] {
        How::NAMES
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let sides: &[u64] = match options.device {
            Device::Gpu => &[16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
            Device::Cpu => &[16, 64],
        };
        let sides = options.sizes_or(sides, 1..=16_384, 1)?;
        let hows = How::wanted(&task)?;
        let work = |side: u64| {
            let points = side * side * u64::from(options.nodes);
            require_memory(side, points.saturating_mul(4 * 8))?;
            Ok(Work::new(options, side as usize))
        };
        let row = |work: &Work, how: How, _| {
            let (row, check) = work.row(task, how)?;
            Ok((row.method(how.name()), check))
        };
        let sides = (&sides[..], "points a side");
        let mut report = super::sizes_by_methods(task, &hows, sides, progress, work, row)?;
        let Grid { rows, columns, .. } = Grid::new(1, options.nodes);
        report.notes.push(format!(
            "nodes in {rows} x {columns}; every run is compared with a serial one, bit by bit"
        ));
        Ok(report)
    }
}

/// What is computed, and the result.
pub(super) struct Work {
    pub grid: Grid,
    pub nodes: u32,
    /// Of one run, and how many runs.
    pub iterations: u64,
    runs: u64,
    pub timeout: Duration,
    parts: Vec<Part>,
}

/// A node's points.
struct Part {
    input: Field,
    /// What fields 0 and 1 hold before: the input, and its border alone.
    before: [Vec<u8>; 2],
    result: Field,
}

impl Work {
    fn new(options: &Options, side: usize) -> Work {
        let grid = Grid::new(side, options.nodes);
        let whole = grid.whole(options.seed);
        // An even number, as the last iteration's result is field 0 then.
        let (iterations, runs) = match (options.device, side) {
            (Device::Cpu, _) => (10, 5),
            (_, ..=1024) => (50, 20),
            _ => (20, 5),
        };
        let runs = options.iterations.map_or(runs, |all| all.div_ceil(iterations));
        let inputs: Vec<Field> = (0..options.nodes).map(|node| grid.part(&whole, node)).collect();
        let relaxed = whole.relaxed(iterations);
        let part = |(node, input): (u32, Field)| Part {
            before: [bytes(&input.points), bytes(&input.clone().poisoned().points)],
            result: grid.part(&relaxed, node),
            input,
        };
        let parts = (0..).zip(inputs).map(part).collect();
        Work { grid, nodes: options.nodes, iterations, runs, timeout: options.timeout, parts }
    }

    fn row(&self, task: Task, how: How) -> Result<(Row, Check), BenchError> {
        let mut check = Check::default();
        let mut ns = Vec::new();
        let mut shape = None;
        let setup = Setup::new(task, Worker::Kernels)?;
        let run = match how {
            How::Cpu => None,
            _ => Some(Run::new(self, &setup, how)?),
        };
        // The first is warm-up.
        for number in 0..=self.runs {
            let took = match &run {
                None => by_hosts::run(self, &mut check)?,
                Some(run) => {
                    shape = Some((run.blocks, run.threads));
                    run.run(&mut check)?
                }
            };
            if number > 0 {
                ns.push(took.as_nanos() as f64 / self.iterations as f64);
            }
        }
        if let Some(run) = &run {
            for (node, table) in (0..).zip(&run.tables) {
                table.check(node, &mut check)?;
            }
        }
        let side = self.grid.side as u64;
        let mut row = Row::new(&Samples::new(ns, self.iterations)).bytes(4 * side).with("side", side);
        row.elements = Some(side * side);
        (row.blocks, row.threads) = shape.unzip();
        Ok((row, check))
    }

    pub fn input(&self, node: u32) -> &Field {
        &self.parts[node as usize].input
    }

    /// Compares a node's points, and the edges that came last.
    pub fn check(&self, node: u32, seen: &[u8], came: &[(u32, Vec<u8>)], check: &mut Check) {
        let Field { shape, points } = &self.parts[node as usize].result;
        for row in 1..=self.grid.side {
            let places = shape.inner(row);
            let seen = &seen[4 * places.start..4 * places.end];
            check.bytes(&format!("row {row} of node {node}"), &bytes(&points[places]), seen);
        }
        for (side, edge) in came {
            let expected = bytes(shape.edge(*side, true).map(|at| &points[at]));
            check.bytes(&format!("the edge {side} that came to node {node}"), &expected, edge);
        }
    }
}

/// Kernels and memory for one way.
struct Run<'a> {
    work: &'a Work,
    how: How,
    blocks: u32,
    threads: u32,
    stride: usize,
    // Kernels use the tables until they have ended.
    launches: Vec<Vec<Launch<'a>>>,
    tables: Vec<Table>,
    fields: Vec<[KernelMem; 2]>,
    met: Vec<KernelMem>,
    parts: Parts<'a>,
}

impl<'a> Run<'a> {
    fn new(work: &'a Work, setup: &'a Setup<'a>, how: How) -> Result<Run<'a>, BenchError> {
        let (side, options) = (work.grid.side, setup.options);
        let stride = (4 * side).next_multiple_of(256);
        let edges = EDGES_OF_NODE * stride;
        let parts = Parts::new(setup, how, edges + 8 * EDGES_OF_NODE, EDGES + edges)?;
        // Small squares have few blocks, large ones all that are resident at once.
        let (threads, blocks) = match options.device {
            Device::Gpu => (256, (side * side / 1024).clamp(1, 264)),
            Device::Cpu => (32, 2),
        };
        let threads = options.threads_or(&[threads])[0].clamp(32, 512);
        let blocks = options.blocks_or(&[blocks as u32])[0].min(side as u32);
        let alloc = |node, bytes| setup.processor(node).alloc(bytes).doing("allocating kernel memory");
        let field = 4 * (side + 2) * (side + 2);
        let fields = (0..work.nodes).map(|node| Ok([alloc(node, field)?, alloc(node, field)?]));
        let fields = fields.collect::<Result<Vec<_>, BenchError>>()?;
        let met = (0..work.nodes).map(|node| alloc(node, 8)).collect::<Result<Vec<_>, _>>()?;
        let (launches, tables) = (Vec::new(), Vec::new());
        let mut run = Run { work, how, blocks, threads, stride, launches, tables, fields, met, parts };
        if how.triggers() {
            let tables =
                (0..work.nodes).map(|node| run.parts.table(node, EDGES_OF_NODE, &run.messages(node)));
            run.tables = tables.collect::<Result<_, _>>()?;
        }
        for node in 0..work.nodes {
            let launches = run.launches(setup, node)?;
            run.launches.push(launches);
        }
        Ok(run)
    }

    /// Where an edge lies among a node's, and in the part of who gets it.
    fn edge(&self, parity: u64, side: u32) -> usize {
        (parity as usize * BENCH_JACOBI_SIDES as usize + side as usize) * self.stride
    }

    /// A node's edges: at the neighbour they come from the other side.
    fn messages(&self, node: u32) -> Vec<Message> {
        let one = |parity: u64, side: u32, to: u32| {
            let tag = parity * u64::from(BENCH_JACOBI_SIDES) + u64::from(side);
            let local = self.edge(parity, side);
            let ends = side == BENCH_JACOBI_NORTH || side == BENCH_JACOBI_SOUTH;
            Message {
                tag,
                to,
                local: local..local + 4 * self.work.grid.side,
                at: EDGES + self.edge(parity, opposite(side)),
                counter: opposite(side) as usize * COUNTER,
                threshold: if ends { 1 } else { self.blocks },
                value: EDGES_OF_NODE * self.stride + 8 * tag as usize,
            }
        };
        let of = |parity| self.work.grid.neighbours(node).map(move |(side, to)| one(parity, side, to));
        (0..2).flat_map(of).collect()
    }

    /// With triggers one kernel of all iterations; else those of the first, of odd and of even ones. At the end one of
    /// none.
    fn launches(&self, setup: &'a Setup<'a>, node: u32) -> Result<Vec<Launch<'a>>, BenchError> {
        let table = self.tables.get(node as usize);
        let neighbours = self.work.grid.neighbours(node).fold(0, |bits, (side, _)| bits | 1 << side);
        let [even, odd] = &self.fields[node as usize];
        let args = bench_tn_jacobi {
            program: self.parts.program(node, table)?,
            fields: [even.address(), odd.address()],
            edges: self.parts.memory(node).address(),
            stride: self.stride as u64,
            met: self.met[node as usize].address(),
            first: 0,
            iterations: if table.is_some() { self.work.iterations } else { 1 },
            side: self.work.grid.side as u32,
            neighbours,
        };
        let kernels = if table.is_some() { 1 } else { 3 };
        let launch = |first| {
            let args = bench_tn_jacobi { first, ..args };
            kernel::launch(setup.processor(node), KERNEL, self.blocks, self.threads, &args)
        };
        let nothing = bench_tn_jacobi { iterations: 0, ..args };
        let nothing = kernel::launch(setup.processor(node), KERNEL, self.blocks, self.threads, &nothing);
        Ok((0..kernels).map(launch).chain([nothing]).collect())
    }

    /// Input everywhere, nothing sent.
    fn reset(&self) -> Result<(), BenchError> {
        for (node, fields) in (0..).zip(&self.fields) {
            for (field, before) in fields.iter().zip(&self.work.parts[node as usize].before) {
                field.write(0, before).doing("writing kernel memory")?;
            }
            self.met[node as usize].write(0, &[0; 8]).doing("writing kernel memory")?;
            self.parts.write(node, 0, &[0; EDGES])?;
            self.parts.write(node, EDGES, &vec![0xff; EDGES_OF_NODE * self.stride])?;
        }
        Ok(())
    }

    fn run(&self, check: &mut Check) -> Result<Duration, BenchError> {
        self.reset()?;
        let armed: Vec<_> = self.tables.iter().map(Table::arm).collect();
        let two_sided =
            TwoSided::new(self.work.nodes as usize * BENCH_JACOBI_SIDES as usize, self.work.timeout);
        let took = together(self.work.nodes, self.work.timeout, |node, gate| {
            let launches = &self.launches[node as usize];
            let stream = Stream::new(launches, kernel::limit(self.work.timeout)).doing("making a stream")?;
            warm_up(&stream, launches.len() - 1)?;
            gate.pass()?;
            match self.how {
                How::Hdn => self.between_kernels(node, &stream, &two_sided)?,
                How::Gds => self.posted_ahead(node, &stream)?,
                _ => stream.launch(0).doing("starting a kernel")?,
            }
            stream.wait().doing("waiting for a stream")
        });
        drop(armed);
        self.parts.finished(KERNEL, &self.tables)?;
        let took = took?;
        for node in 0..self.work.nodes {
            self.look(node, check)?;
        }
        Ok(took)
    }

    /// The kernel of an iteration, by its place.
    fn kernel(iteration: u64) -> usize {
        match iteration {
            0 => 0,
            odd if odd % 2 == 1 => 1,
            _ => 2,
        }
    }

    /// Kernels end, the host waits, sends all edges and receives all.
    fn between_kernels(&self, node: u32, stream: &Stream<'_>, hosts: &TwoSided) -> Result<(), BenchError> {
        let slot = |node: u32, side: u32| (node * BENCH_JACOBI_SIDES + side) as usize;
        let outgoing = [self.outgoing(node, 0, slot)?, self.outgoing(node, 1, slot)?];
        for k in 0..self.work.iterations {
            stream.launch(Self::kernel(k)).doing("starting a kernel")?;
            stream.wait().doing("waiting for a kernel")?;
            self.work.grid.neighbours(node).for_each(|(side, _)| hosts.post(slot(node, side), k + 1));
            let messages = &outgoing[(k + 1) as usize % 2];
            // SAFETY: the kernel has ended; who posted reads this place in its next kernel only.
            unsafe { hosts.send(stream, messages, k + 1)? };
            for (side, _) in self.work.grid.neighbours(node) {
                hosts.receive(slot(node, side), k + 1)?;
            }
        }
        Ok(())
    }

    /// A node's edges of even or odd numbers, as its processor addresses them.
    fn outgoing(
        &self,
        node: u32,
        parity: u64,
        slot: impl Fn(u32, u32) -> usize,
    ) -> Result<Vec<Outgoing>, BenchError> {
        let one = |(side, to): (u32, u32)| {
            Ok(Outgoing {
                slot: slot(to, opposite(side)),
                to: self.parts.address(node, to, EDGES + self.edge(parity, opposite(side)))?,
                from: self.parts.memory(node).address() + self.edge(parity, side) as u64,
                bytes: 4 * self.work.grid.side,
            })
        };
        self.work.grid.neighbours(node).map(one).collect()
    }

    /// All iterations in a stream: the end of a kernel starts its messages, and the next waits for those that come.
    fn posted_ahead(&self, node: u32, stream: &Stream<'_>) -> Result<(), BenchError> {
        const POSTING: &str = "posting an exchange";
        let outgoing = [self.outgoing(node, 0, |_, _| 0)?, self.outgoing(node, 1, |_, _| 0)?];
        let counter = |viewer, node, side: u32| self.parts.address(viewer, node, side as usize * COUNTER);
        let theirs = self.work.grid.neighbours(node).map(|(side, to)| counter(node, to, opposite(side)));
        let own = self.work.grid.neighbours(node).map(|(side, _)| counter(node, node, side));
        let (theirs, own) = (theirs.collect::<Result<Vec<_>, _>>()?, own.collect::<Result<Vec<_>, _>>()?);
        for k in 0..self.work.iterations {
            stream.launch(Self::kernel(k)).doing("starting a kernel")?;
            for Outgoing { to, from, bytes, .. } in &outgoing[(k + 1) as usize % 2] {
                // SAFETY: memory of the parts; the neighbour reads this place behind its counter only.
                unsafe { stream.copy(*to, *from, *bytes) }.doing(POSTING)?;
            }
            for at in &theirs {
                // SAFETY: a counter, accessed by atomics.
                unsafe { stream.store(*at, k + 1) }.doing(POSTING)?;
            }
            for at in &own {
                // SAFETY: as above.
                unsafe { stream.wait_for(*at, k + 1) }.doing(POSTING)?;
            }
        }
        Ok(())
    }

    fn look(&self, node: u32, check: &mut Check) -> Result<(), BenchError> {
        let [last, _] = &self.fields[node as usize];
        let mut seen = vec![0; last.len()];
        last.read(0, &mut seen).doing("reading kernel memory")?;
        let mut came = Vec::new();
        for (side, _) in self.work.grid.neighbours(node) {
            let edge = self.parts.read(node, EDGES + self.edge(0, side), 4 * self.work.grid.side)?;
            came.push((side, edge));
        }
        self.work.check(node, &seen, &came, check);
        Ok(())
    }
}
