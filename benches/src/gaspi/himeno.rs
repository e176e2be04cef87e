//! Himeno's hybrid form through GASPI (thesis 4.5): fields in segments in GPU memory, whose boundaries the host sends by `write_notify`
//! while a kernel computes the rest.

use std::time::{Duration, Instant};

use extoll_abi::layout::ggas_window;
use ggas_gaspi::{
    Datatype, GROUP_ALL, Gaspi, GaspiError, GpuConfig, GpuWay, Notice, Operation, Part, Policy, Timeout,
};
use ggas_kernels::{KernelMem, Launch, Processor, start};

use super::{Job, Line};
use crate::args::*;
use crate::error::Doing;
use crate::himeno::{Data, Parts, Reference, Split};
use crate::stats::Samples;
use crate::{BenchError, Grid, Scaling, kernel};

/// Name of the benchmark; sizes of its job: x, y and z of the whole grid.
pub(crate) const NAME: &str = "gaspi-himeno";
const HYBRID: &str = "hybrid";
/// Iterations that are compared with the host's.
const TESTED: u32 = 4;
const WITHIN: Timeout = Timeout::Within(Duration::from_secs(60));
const LIMIT: Duration = Duration::from_secs(60);
const ALL_PLANES: u32 = BENCH_HIMENO_BOUNDARY | BENCH_HIMENO_INTERIOR;

/// Measures computation alone, and with its communication; the latter is compared first.
pub(super) fn part(gaspi: &Gaspi, job: &Job) -> Result<(), BenchError> {
    let [x, y, z] = job.sizes[..] else {
        return Err(BenchError::Unsupported("a grid has three sizes".to_owned()));
    };
    let grid = Grid { x: x as u32, y: y as u32, z: z as u32 };
    let slices = Slices::new(gaspi, grid)?;
    let data = Data { whole: slices.parts.whole, seed: job.seed };
    slices.fill(&data)?;
    (0..TESTED).try_for_each(|iteration| slices.hybrid(iteration))?;
    let errors = slices.wrong(&Reference::after(&data, TESTED.into()))?;
    for method in ["compute", HYBRID] {
        slices.fill(&data)?;
        let mut times = Vec::new();
        // The first round is warm-up.
        for round in 0..=job.rounds {
            slices.meet()?;
            let begun = Instant::now();
            (0..job.trips).map(|i| round * job.trips + i).try_for_each(|iteration| match method {
                HYBRID => slices.hybrid(iteration),
                _ => slices.compute(iteration),
            })?;
            if round > 0 {
                times.push(begun.elapsed().as_nanos() as f64 / f64::from(job.trips));
            }
        }
        let latency = Samples::new(times, 1).latency();
        let line = Line {
            peer: method.to_owned(),
            bench: NAME.to_owned(),
            nodes: gaspi.ranks().into(),
            bytes: None,
            elements: Some(slices.parts.whole.points()),
            value: latency.median,
            min: latency.min,
            alone: None,
            copies: None,
            runs: None,
            errors: if method == HYBRID { errors } else { 0 },
        };
        if let (0, Ok(text)) = (gaspi.rank(), serde_json::to_string(&line)) {
            println!("{text}");
        }
    }
    slices.meet()
}

/// A process's planes of the grid, and what its kernels need.
struct Slices<'a> {
    gaspi: &'a Gaspi,
    processor: Processor,
    parts: Parts,
    coefficients: KernelMem,
    sums: KernelMem,
    state: KernelMem,
    /// No kernel here communicates, but all read what a window is.
    window: KernelMem,
}

impl<'a> Slices<'a> {
    fn new(gaspi: &'a Gaspi, grid: Grid) -> Result<Slices<'a>, BenchError> {
        ggas_kernels::add(&crate::image::KERNELS).doing("adding the kernels of the benchmarks")?;
        let parts = Parts::new(grid, Scaling::Strong, Split::slices(gaspi.ranks().into()))?;
        let (processor, _) = gaspi.job().processor().doing("choosing a processor")?;
        let way = if matches!(processor, Processor::Gpu(_)) { GpuWay::Auto } else { GpuWay::Direct };
        gaspi.gpu_init(GpuConfig { way, ..GpuConfig::tuned(gaspi) }).doing("beginning with GPUs")?;
        let made = gaspi.segment_create_on(0, parts.fields_end(), GROUP_ALL, WITHIN, Policy::Gpu);
        made.doing("creating a segment in GPU memory")?;
        let alloc = |bytes: u64| -> Result<KernelMem, BenchError> {
            let memory = processor.alloc(bytes as usize).doing("allocating the arrays of a node")?;
            memory.write(0, &vec![0; bytes as usize]).doing("writing kernel memory")?;
            Ok(memory)
        };
        let coefficients = alloc(12 * parts.array_bytes())?;
        let sums = alloc((u64::from(parts.own.z) + 2) * parts.sums_of_plane() * 8)?;
        let state = alloc(size_of::<bench_himeno_state>() as u64)?;
        let window = alloc(size_of::<ggas_window>() as u64)?;
        Ok(Slices { gaspi, processor, parts, coefficients, sums, state, window })
    }

    fn meet(&self) -> Result<(), BenchError> {
        self.gaspi.barrier(GROUP_ALL, WITHIN).doing("meeting the other processes")
    }

    fn me(&self) -> u32 {
        self.gaspi.rank().into()
    }

    fn args(&self, what: u32, iteration: u32) -> Result<bench_himeno, BenchError> {
        let parts = &self.parts;
        let none =
            bench_himeno_edge { to: [0; 2], signal: 0, seen: 0, plane: 0, node: u32::MAX, reserved: 0 };
        let edge = |edge: Option<crate::himeno::Edge>| {
            edge.map_or(none, |edge| bench_himeno_edge {
                plane: edge.plane,
                node: edge.node,
                to: edge.to,
                ..none
            })
        };
        let [x, y, z] = parts.first(self.me());
        Ok(bench_himeno {
            timing: bench_timing { clock: 0, samples: 0, count: 0, warm_up: 0 },
            window: self.window.address(),
            local: self.gaspi.segment_ptr(0).doing("finding a segment")? as u64,
            state: self.state.address(),
            coefficients: self.coefficients.address(),
            sums: self.sums.address(),
            field: parts.fields(),
            edge: parts.edges(self.me()).map(edge),
            flags: 0,
            seed: 0,
            side: 0,
            queues: 0,
            memory: 0,
            x: parts.own.x,
            y: parts.rows(),
            z: parts.own.z,
            pitch: parts.pitch(),
            rows: parts.rows(),
            first: [x, y, z],
            whole: [parts.whole.x, parts.whole.y, parts.whole.z],
            sides: 0,
            lanes: 0,
            what: what | BENCH_HIMENO_EVEN,
            offset: iteration,
            places: 0,
            slabs: 1,
            reserved: 0,
        })
    }

    fn launch(&self, kernel: &'static str, args: &bench_himeno) -> Launch<'_> {
        let (blocks, threads) = match &self.processor {
            Processor::Gpu(_) => (self.parts.blocks_of_step(self.me(), args.what, 256), 256),
            _ => (3, 64),
        };
        // No block waits for a later one.
        kernel::launch(&self.processor, kernel, blocks, threads, args).resident(1)
    }

    /// First data, and nothing done yet, on all nodes.
    fn fill(&self, data: &Data) -> Result<(), BenchError> {
        self.meet()?;
        let args = bench_himeno { seed: data.seed, ..self.args(ALL_PLANES, 0)? };
        run(&[self.launch("bench_himeno_fill", &args)])?;
        self.meet()
    }

    /// An iteration without any communication.
    fn compute(&self, iteration: u32) -> Result<(), BenchError> {
        run(&[self.launch("bench_himeno_step", &self.args(ALL_PLANES, iteration)?)])
    }

    /// The planes that neighbours need, then those on their way while the others are computed.
    fn hybrid(&self, iteration: u32) -> Result<(), BenchError> {
        let edges = self.parts.edges(self.me());
        if edges.iter().any(Option::is_some) {
            run(&[self.launch("bench_himeno_step", &self.args(BENCH_HIMENO_BOUNDARY, iteration)?)])?;
        }
        let interior = [self.launch("bench_himeno_step", &self.args(BENCH_HIMENO_INTERIOR, iteration)?)];
        let interior = start(&interior).doing("starting kernels")?;
        let (field, bytes) = (((iteration + 1) % 2) as usize, self.parts.plane_bytes());
        // A plane is told at the other side of the neighbour; in turns, since who is ahead tells of the next iteration before this one's
        // word is taken.
        let turn = 2 * (iteration % 2);
        for (side, edge) in
            edges.iter().enumerate().filter_map(|(side, edge)| Some((side as u32, edge.as_ref()?)))
        {
            let from = self.parts.plane_at(field, edge.plane as u32);
            let part = Part { local: 0, local_offset: from, remote: 0, remote_offset: edge.to[field], bytes };
            let notice = Notice { segment: 0, id: turn + 1 - side, value: iteration + 1 };
            self.gaspi.write_notify(&[part], &notice, edge.node as u16, 0).doing("sending a boundary")?;
        }
        interior.wait(LIMIT).doing("running kernels")?;
        for side in edges.iter().enumerate().filter_map(|(side, edge)| edge.as_ref().map(|_| side as u32)) {
            self.gaspi.notify_waitsome(0, turn + side, 1, WITHIN).doing("waiting for a boundary")?;
            let value = self.gaspi.notify_reset(0, turn + side).doing("taking a notification")?;
            if value != iteration + 1 {
                return Err(GaspiError::Failed).doing("taking the boundary of this iteration");
            }
        }
        self.gaspi.wait(0, WITHIN).doing("waiting on a queue")
    }

    /// Points and sums of planes of all processes that are not the host's.
    fn wrong(&self, reference: &Reference) -> Result<u64, BenchError> {
        let Parts { whole, own, .. } = self.parts;
        let [_, _, first] = self.parts.first(self.me());
        let (row, pitch) = (own.x as usize, self.parts.pitch() as usize);
        let mut bytes = vec![0; own.z as usize * self.parts.plane_bytes() as usize];
        let at = self.parts.plane_at((TESTED % 2) as usize, 1);
        self.gaspi.load(0, at, &mut bytes).doing("reading a segment")?;
        let begin = first as usize * whole.y as usize * row;
        let mut wrong = 0;
        for (seen, wanted) in bytes.chunks_exact(4 * pitch).zip(reference.field[begin..].chunks_exact(row)) {
            let seen = seen.as_chunks::<4>().0;
            wrong += seen.iter().zip(wanted).filter(|(seen, wanted)| **seen != wanted.to_ne_bytes()).count();
        }
        let of_plane = self.parts.sums_of_plane() as usize;
        let words = self.sums.read_u64s(8 * of_plane, own.z as usize * of_plane);
        let sum = |words: &[u64]| words.iter().fold(0.0, |sum, bits| sum + f64::from_bits(*bits));
        let sums = words.doing("reading kernel memory")?;
        let sums = sums.chunks(of_plane).map(sum).zip(&reference.sums[first as usize..]);
        wrong += sums.filter(|(seen, wanted)| seen.to_bits() != wanted.to_bits()).count();
        let all = self.gaspi.allreduce(
            GROUP_ALL,
            &(wrong as u64).to_ne_bytes(),
            Operation::Sum,
            Datatype::Ulong,
            WITHIN,
        );
        Ok(all.doing("adding up errors")?.try_into().map_or(u64::MAX, u64::from_ne_bytes))
    }
}

fn run(launches: &[Launch<'_>]) -> Result<(), BenchError> {
    start(launches).and_then(|running| running.wait(LIMIT)).doing("running kernels")
}
