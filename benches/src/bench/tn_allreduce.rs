//! `tn-allreduce`: a ring of nodes that add floats, a slice by each work-group (GPU-TN, section 5.4.1, Fig. 10).

use std::time::Duration;

use ggas_kernels::{Launch, Stream};

use super::litmus::in_one_process;
use super::tn_allreduce_host as by_hosts;
use crate::args::{BENCH_RING_COUNTER, bench_tn_allreduce};
use crate::error::Doing;
use crate::grid::bytes;
use crate::host::require_memory;
use crate::hosts::{Outgoing, TwoSided, together, warm_up};
use crate::kernel;
use crate::messages::{How, Message, Parts, Table};
use crate::ring::{Ring, UNIT};
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, RandomStream, Report, Row, Samples, Team};

const RING: &str = "bench_tn_allreduce_ring";
const ADD: &str = "bench_tn_allreduce_add";
const COUNTER: usize = BENCH_RING_COUNTER as usize;
/// Most slices of a part: a block of a GPU's multiprocessors each.
const MOST_SLICES: usize = 128;
/// Bytes of a slice at least.
const LEAST_SLICE: usize = 4096;

pub(crate) struct TnAllreduce;

impl Bench for TnAllreduce {
    fn name(&self) -> &'static str {
        "tn-allreduce"
    }

    fn about(&self) -> &'static str {
        "a float sum at every node by a ring of puts, sizes in bytes: by triggers of work-groups, or a kernel each step"
    }

    fn methods(&self) -> &'static [&'static str] {
        How::NAMES
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes: &[u64] = match options.device {
            Device::Gpu => &[64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20],
            Device::Cpu => &[64 << 10],
        };
        allreduces(task, sizes, progress)
    }
}

/// The report of allreduces of the sizes that the options ask for, or of these, by all ways.
pub(super) fn allreduces(task: Task, sizes: &[u64], progress: &mut Progress) -> Result<Report, BenchError> {
    let options = task.options;
    in_one_process(task.team)?;
    // No part is empty.
    let least = 4 * UNIT as u64 * u64::from(options.nodes);
    let sizes = options.sizes_or(sizes, least..=256 << 20, 4)?;
    let hows = How::wanted(&task)?;
    let work = |size: u64| {
        require_memory(size, size.saturating_mul(6 * u64::from(options.nodes)))?;
        Ok(Work::new(options, size as usize / 4))
    };
    let row = |work: &Work, how: How, size| {
        let (row, check) = work.row(task, how)?;
        Ok((row.method(how.name()).bytes(size), check))
    };
    super::sizes_by_methods(task, &hows, (&sizes, "bytes"), progress, work, row)
}

/// What is added, and the sums.
pub(super) struct Work {
    pub ring: Ring,
    runs: u64,
    pub timeout: Duration,
    inputs: Vec<Vec<f32>>,
    sums: Vec<u8>,
}

impl Work {
    fn new(options: &Options, elements: usize) -> Work {
        let ring = Ring { nodes: options.nodes as usize, elements };
        // Small whole numbers: whatever the order, sums of floats are exact.
        let input = |node: u32| {
            let random = RandomStream::new(options.seed, u64::from(node));
            (0..elements as u64).map(|i| (random.word(i) % 1024) as f32).collect()
        };
        let inputs: Vec<Vec<f32>> = (0..options.nodes).map(input).collect();
        let sum = |at: usize| inputs.iter().map(|input| input[at]).sum();
        let sums: Vec<f32> = (0..elements).map(sum).collect();
        let runs = options.iterations.unwrap_or(if options.device == Device::Gpu { 30 } else { 5 });
        Work { ring, runs, timeout: options.timeout, inputs, sums: bytes(&sums) }
    }

    fn row(&self, task: Task, how: How) -> Result<(Row, Check), BenchError> {
        let mut check = Check::default();
        let mut ns = Vec::new();
        let setup = Setup::new(task, Worker::Kernels)?;
        let run = match how {
            How::Cpu => None,
            _ => Some(Run::new(self, &setup, how)?),
        };
        // The first are warm-up.
        let warm_up = (self.runs / 10).max(1);
        for number in 0..warm_up + self.runs {
            let took = match &run {
                None => by_hosts::run(self, &mut check)?,
                Some(run) => run.run(&mut check)?,
            };
            if number >= warm_up {
                ns.push(took.as_nanos() as f64);
            }
        }
        let mut row = Row::new(&Samples::new(ns, 1));
        if let Some(run) = &run {
            for (node, table) in (0..).zip(&run.tables) {
                table.check(node, &mut check)?;
            }
            (row.blocks, row.threads) = (Some(run.blocks), Some(run.threads));
        }
        row.elements = Some(self.ring.elements as u64);
        Ok((row.bandwidth_of(4 * self.ring.elements as u64), check))
    }

    pub fn input(&self, node: usize) -> &[f32] {
        &self.inputs[node]
    }

    pub fn check(&self, node: usize, seen: &[u8], check: &mut Check) {
        check.bytes(&format!("sums at node {node}"), &self.sums, seen);
    }
}

/// Kernels and memory for one way.
struct Run<'a> {
    work: &'a Work,
    how: How,
    blocks: u32,
    threads: u32,
    slices: usize,
    /// Offsets in each part.
    landing: usize,
    result: usize,
    launches: Vec<Vec<Launch<'a>>>,
    tables: Vec<Table>,
    /// Counters' values behind the steps, in the memory of each node.
    values: usize,
    parts: Parts<'a>,
}

impl<'a> Run<'a> {
    fn new(work: &'a Work, setup: &'a Setup<'a>, how: How) -> Result<Run<'a>, BenchError> {
        let Work { ring, .. } = work;
        let vector = (4 * ring.elements).next_multiple_of(256);
        let part = 4 * ring.elements / ring.nodes;
        let (threads, blocks) = match setup.options.device {
            Device::Gpu => (512, (part / LEAST_SLICE).clamp(1, MOST_SLICES)),
            Device::Cpu => (32, 2),
        };
        let threads = setup.options.threads_or(&[threads])[0].clamp(32, 512);
        let mut blocks = setup.options.blocks_or(&[blocks as u32])[0];
        if how.triggers() {
            // No slice is empty.
            blocks = blocks.min((ring.elements / ring.nodes / UNIT) as u32);
        }
        let slices = if how.triggers() { blocks as usize } else { 1 };
        let landing = (COUNTER * slices).next_multiple_of(256);
        let own = vector + 8 * ring.steps();
        let parts = Parts::new(setup, how, own, landing + 2 * vector)?;
        let (launches, tables) = (Vec::new(), Vec::new());
        let result = landing + vector;
        let mut run = Run {
            work,
            how,
            blocks,
            threads,
            slices,
            landing,
            result,
            launches,
            tables,
            values: vector,
            parts,
        };
        if how.triggers() {
            let table = |node| run.parts.table(node as u32, ring.steps() * slices, &run.messages(node));
            run.tables = (0..ring.nodes).map(table).collect::<Result<_, _>>()?;
        }
        for node in 0..ring.nodes {
            let launches = run.launches(setup, node)?;
            run.launches.push(launches);
        }
        Ok(run)
    }

    /// Where in the next node's part a step's elements go.
    fn arrival(&self, step: usize, first: usize) -> usize {
        4 * first + if self.work.ring.adds(step) { self.landing } else { self.result }
    }

    /// What a node's work-groups send, in each step.
    fn messages(&self, node: usize) -> Vec<Message> {
        let ring = self.work.ring;
        let one = |step: usize, slice: usize| {
            let range = ring.range(ring.sent(node, step), slice, self.slices);
            Message {
                tag: (step * self.slices + slice) as u64,
                to: ring.next(node) as u32,
                local: 4 * range.start..4 * range.end,
                at: self.arrival(step, range.start),
                counter: slice * COUNTER,
                threshold: 1,
                value: self.values + 8 * step,
            }
        };
        (0..ring.steps()).flat_map(|step| (0..self.slices).map(move |slice| one(step, slice))).collect()
    }

    /// With triggers one kernel for all steps; else one for each that adds. At the end one that has nothing to add.
    fn launches(&self, setup: &'a Setup<'a>, node: usize) -> Result<Vec<Launch<'a>>, BenchError> {
        let ring = self.work.ring;
        let table = self.tables.get(node);
        let args = bench_tn_allreduce {
            program: self.parts.program(node as u32, table)?,
            data: self.parts.memory(node as u32).address(),
            landing: self.landing as u64,
            result: self.result as u64,
            elements: ring.elements as u64,
            nodes: ring.nodes as u32,
            node: node as u32,
            slices: self.slices as u32,
            step: 0,
        };
        let (name, kernels) = if table.is_some() { (RING, 1) } else { (ADD, ring.nodes - 1) };
        let launch = |step| {
            let args = bench_tn_allreduce { step: step as u32, ..args };
            kernel::launch(setup.processor(node as u32), name, self.blocks, self.threads, &args)
        };
        let nothing = bench_tn_allreduce { elements: 0, ..args };
        let nothing = kernel::launch(setup.processor(node as u32), ADD, self.blocks, self.threads, &nothing);
        Ok((0..kernels).map(launch).chain([nothing]).collect())
    }

    /// Input everywhere, nothing sent.
    fn reset(&self) -> Result<(), BenchError> {
        let ring = self.work.ring;
        let poison = vec![0xff; 4 * ring.elements];
        let values: Vec<u64> = (1..=ring.steps() as u64).collect();
        for node in 0..ring.nodes {
            let memory = self.parts.memory(node as u32);
            memory.write(0, &bytes(self.work.input(node))).doing("writing kernel memory")?;
            memory.write_u64s(self.values, &values).doing("writing kernel memory")?;
            self.parts.write(node as u32, 0, &vec![0; self.landing])?;
            self.parts.write(node as u32, self.landing, &poison)?;
            self.parts.write(node as u32, self.result, &poison)?;
        }
        Ok(())
    }

    fn run(&self, check: &mut Check) -> Result<Duration, BenchError> {
        self.reset()?;
        let (ring, timeout) = (self.work.ring, self.work.timeout);
        let armed: Vec<_> = self.tables.iter().map(Table::arm).collect();
        let two_sided = TwoSided::new(ring.nodes, timeout);
        let took = together(ring.nodes as u32, timeout, |node, gate| {
            let node = node as usize;
            let launches = &self.launches[node];
            let stream = Stream::new(launches, kernel::limit(timeout)).doing("making a stream")?;
            warm_up(&stream, launches.len() - 1)?;
            let outgoing = match self.how.triggers() {
                true => Vec::new(),
                false => (0..ring.steps()).map(|step| self.outgoing(node, step)).collect::<Result<_, _>>()?,
            };
            gate.pass()?;
            match self.how {
                How::Hdn => self.between_kernels(node, &stream, &two_sided, &outgoing)?,
                How::Gds => self.posted_ahead(node, &stream, &outgoing)?,
                _ => stream.launch(0).doing("starting a kernel")?,
            }
            stream.wait().doing("waiting for a stream")
        });
        drop(armed);
        self.parts.finished(if self.how.triggers() { RING } else { ADD }, &self.tables)?;
        let took = took?;
        for node in 0..ring.nodes {
            let seen = self.parts.read(node as u32, self.result, 4 * ring.elements)?;
            self.work.check(node, &seen, check);
        }
        Ok(took)
    }

    /// What a node sends in a step, whole: its own and sums so far, then sums that came.
    fn outgoing(&self, node: usize, step: usize) -> Result<Outgoing, BenchError> {
        let ring = self.work.ring;
        let (range, next) = (ring.range(ring.sent(node, step), 0, 1), ring.next(node));
        let own = self.parts.memory(node as u32).address() + 4 * range.start as u64;
        Ok(Outgoing {
            slot: next,
            to: self.parts.address(node as u32, next as u32, self.arrival(step, range.start))?,
            from: match step < ring.nodes {
                true => own,
                false => self.parts.address(node as u32, node as u32, self.result + 4 * range.start)?,
            },
            bytes: 4 * range.len(),
        })
    }

    /// The host sends, receives, and starts the kernel that adds.
    fn between_kernels(
        &self,
        node: usize,
        stream: &Stream<'_>,
        hosts: &TwoSided,
        outgoing: &[Outgoing],
    ) -> Result<(), BenchError> {
        for (step, message) in outgoing.iter().enumerate() {
            let times = step as u64 + 1;
            hosts.post(node, times);
            // SAFETY: the kernel that wrote it has ended; the place of a step is used by none before.
            unsafe { hosts.send(stream, std::slice::from_ref(message), times)? };
            hosts.receive(node, times)?;
            if self.work.ring.adds(step) {
                stream.launch(step).doing("starting a kernel")?;
                stream.wait().doing("waiting for a kernel")?;
            }
        }
        Ok(())
    }

    /// All steps in a stream.
    fn posted_ahead(
        &self,
        node: usize,
        stream: &Stream<'_>,
        outgoing: &[Outgoing],
    ) -> Result<(), BenchError> {
        const POSTING: &str = "posting a step";
        let own = self.parts.address(node as u32, node as u32, 0)?;
        let theirs = self.parts.address(node as u32, self.work.ring.next(node) as u32, 0)?;
        for (step, Outgoing { to, from, bytes, .. }) in outgoing.iter().enumerate() {
            let times = step as u64 + 1;
            // SAFETY: memory of the parts; the place of a step is used by none before its counter.
            unsafe { stream.copy(*to, *from, *bytes) }.doing(POSTING)?;
            // SAFETY: counters, accessed by atomics.
            unsafe { stream.store(theirs, times) }.doing(POSTING)?;
            // SAFETY: as above.
            unsafe { stream.wait_for(own, times) }.doing(POSTING)?;
            if self.work.ring.adds(step) {
                stream.launch(step).doing("starting a kernel")?;
            }
        }
        Ok(())
    }
}
