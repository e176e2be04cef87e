//! Forms whose ranks make MPI calls: kernels, or hosts between kernels.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas_gmpi::Comm;
use ggas_gmpi::carrier::{Carrier, Operation, Type};
use ggas_gmpi::layout::{GMPI_DOUBLE, GMPI_FLOAT, GMPI_SUM};
use ggas_kernels::{KernelMem, Launch, Processor, Stream};

use super::forms::ALL_PLANES;
use super::run::{Node, Run};
use super::shape::Shape;
use crate::args::*;
use crate::error::Doing;
use crate::gmpi::{Ranks, finish, span};
use crate::kernel::{self, Probe};
use crate::space::Space;
use crate::{BenchError, Samples};

const LASTING: &str = "bench_gmpi_himeno_lasting";

/// Bytes of a boundary that are worth a block of their own.
const PIECE: u64 = 2048;

/// Blocks of the kernels that pack for the host.
const PACKERS: u32 = 32;

/// Who carries halos and sums.
pub(crate) enum Way<'w> {
    /// Calls of kernels, by the daemons.
    Calls(&'w Ranks),
    /// Calls of kernels on a communicator whose messages go from kernel to kernel.
    Direct(&'w Ranks, Comm),
    /// Puts of kernels, and a group.
    Puts,
    /// Hosts, between kernels that end.
    Ends(&'w Ranks),
}

/// Times of an iteration and of its parts: computation, halo, convergence.
pub(crate) struct Phases {
    pub all: Samples,
    pub parts: [Samples; 3],
    /// Squared residuals of all ranks after the last iteration, as this process's first one has them.
    pub sum: f64,
}

/// Memory of a rank beside its part of the window.
struct Rank {
    /// Boundaries out and in.
    messages: Arc<KernelMem>,
    /// This rank's sum, that of all, and of each; the host's copies of the first two lie in its own memory.
    sums: Arc<KernelMem>,
    host_sums: Arc<KernelMem>,
    place: KernelMem,
    places: Vec<u64>,
    parts: KernelMem,
    requests: KernelMem,
}

/// A grid whose boundaries are messages.
pub(crate) struct ByGmpi<'a> {
    run: &'a Run<'a>,
    ranks: Vec<Rank>,
    space: Space,
    message_bytes: u64,
    pieces: u32,
}

impl<'a> ByGmpi<'a> {
    pub fn new(run: &'a Run<'a>) -> Result<Self, BenchError> {
        let bytes_of =
            |side: &bench_himeno_side| side.extent.iter().map(|n| u64::from(*n)).product::<u64>() * 4;
        let all = run
            .nodes
            .iter()
            .map(|node| node.sides.iter().map(|side| bytes_of(side).next_multiple_of(256)).sum());
        let message_bytes = all.max().unwrap_or(0).max(256);
        let longest = run.nodes.iter().flat_map(|node| &node.sides).map(bytes_of).max().unwrap_or(0);
        let most = u64::from(BENCH_GMPI_PIECES.min(run.lasting.blocks));
        // The same at both ends of each boundary, whichever process has them.
        let pieces =
            run.setup.share(vec![longest.div_ceil(PIECE).clamp(1, most)])?.into_iter().max().unwrap_or(1);
        let rank = |node: &Node| -> Result<Rank, BenchError> {
            let processor = run.setup.processor(node.id);
            let alloc = |bytes: u64| processor.alloc(bytes as usize).doing("allocating memory of a rank");
            let mut next = 0;
            let mut place_of = |side| {
                let at = next;
                next += bytes_of(side).next_multiple_of(256);
                at
            };
            let places: Vec<u64> = node.sides.iter().map(&mut place_of).collect();
            let place = alloc(8 * places.len().max(1) as u64)?;
            place.write_u64s(0, &places).doing("writing kernel memory")?;
            let requests = 2 * node.sides.len().max(1) as u64 * u64::from(BENCH_GMPI_PIECES);
            let host_sums = processor.alloc_host(16).doing("allocating memory of a rank")?;
            Ok(Rank {
                messages: Arc::new(alloc(2 * message_bytes)?),
                sums: Arc::new(alloc(16)?),
                host_sums: Arc::new(host_sums),
                place,
                places,
                parts: alloc(8 * u64::from(run.lasting.blocks.max(PACKERS)))?,
                requests: alloc(8 * requests)?,
            })
        };
        let ranks = run.nodes.iter().map(rank).collect::<Result<Vec<_>, _>>()?;
        let space = Space::new(run.setup, 256, 4096)?;
        Ok(Self { run, ranks, space, message_bytes, pieces: pieces as u32 })
    }

    /// Has the daemons of these ranks know the memory; once for each.
    pub fn attach(&self, to: &Ranks) -> Result<usize, BenchError> {
        let first = to.attach(self.ranks.iter().map(|rank| &rank.messages))?;
        to.attach(self.ranks.iter().map(|rank| &rank.sums))?;
        to.attach(self.ranks.iter().map(|rank| &rank.host_sums))?;
        Ok(first)
    }

    fn args(&self, node: &Node, rank: &Rank, what: u32) -> Result<bench_gmpi_himeno, BenchError> {
        let mut grid = self.run.args(node, what)?;
        grid.sides = node.sides.len() as u32;
        Ok(bench_gmpi_himeno {
            grid,
            buf: 0,
            comm: Comm::WORLD.0,
            group: self.space.group_of(node.id)?,
            message: rank.messages.address(),
            message_bytes: self.message_bytes,
            place: rank.place.address(),
            sums: rank.sums.address(),
            parts: rank.parts.address(),
            requests: rank.requests.address(),
            phases: 0,
            tolerance: 0.0,
            way: BENCH_GMPI_DAEMON,
            pieces: self.pieces,
        })
    }

    /// Makes `iterations` from the first data on; `attached`: what [`attach`](Self::attach) said.
    ///
    /// # Errors
    /// [`BenchError::Kernel`]: a rank waited in vain.
    pub fn iterate(&self, way: &Way, attached: usize, iterations: u64) -> Result<Phases, BenchError> {
        let phases = match way {
            Way::Ends(ranks) => self.by_hosts(ranks, attached, iterations),
            _ => self.by_kernels(way, iterations),
        };
        // What a kernel says of itself tells more than that it did not end.
        self.run.finished("by MPI calls", iterations, |_| None)?;
        if let Way::Calls(ranks) | Way::Direct(ranks, _) | Way::Ends(ranks) = way {
            ranks.check()?;
        }
        self.space.check()?;
        phases
    }

    fn by_kernels(&self, way: &Way, iterations: u64) -> Result<Phases, BenchError> {
        let run = self.run;
        let (mut probes, mut launches, mut phases) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (node, rank)) in run.nodes.iter().zip(&self.ranks).enumerate() {
            let processor = run.setup.processor(node.id);
            let probe = Probe::new(processor, iterations, 0)?;
            let times = processor.alloc(24 * iterations as usize).doing("allocating memory for samples")?;
            let mut args = bench_gmpi_himeno {
                phases: times.address(),
                ..self.args(node, rank, ALL_PLANES | BENCH_HIMENO_MEET)?
            };
            args.grid.timing = probe.args();
            match way {
                Way::Calls(ranks) => args.buf = ranks.gmpis[at].address(),
                Way::Direct(ranks, comm) => {
                    (args.buf, args.comm, args.way) = (ranks.gmpis[at].address(), comm.0, BENCH_GMPI_DIRECT);
                }
                _ => args.way = BENCH_GMPI_PUT,
            }
            let Shape { blocks, threads } = run.lasting;
            launches.push(kernel::launch(processor, LASTING, blocks, threads, &args).cached());
            probes.push(probe);
            phases.push(times);
        }
        kernel::run(&launches, run.setup.options)?;
        let (Some(probe), Some(times), Some(rank)) = (probes.first(), phases.first(), self.ranks.first())
        else {
            return Err(BenchError::Unsupported("a process without nodes".to_owned()));
        };
        let sum = rank.sums.load_u64(8).doing("reading kernel memory")?;
        let ticks = times.read_u64s(0, 3 * iterations as usize).doing("reading samples")?;
        let tick = probe.tick_ns()?;
        let part = |which: usize| {
            let of = ticks.chunks_exact(3).map(|all| all[which] as f64 * tick).collect();
            Samples::new(of, 1)
        };
        Ok(Phases { all: probe.samples()?, parts: [0, 1, 2].map(part), sum: f64::from_bits(sum) })
    }

    /// Kernels that end for each call of the host (the paper's CUDA+MPI): unpacking, an iteration and packing in a row, then messages, then
    /// the sum. What packs and unpacks counts as computation.
    fn by_hosts(&self, ranks: &Ranks, attached: usize, iterations: u64) -> Result<Phases, BenchError> {
        let run = self.run;
        let host = |(node, rank): (&Node, &Rank)| -> Result<Host, BenchError> {
            let step = run.args(node, ALL_PLANES | BENCH_HIMENO_ADVANCE)?;
            let blocks = run.blocks_of_step(node, ALL_PLANES);
            let message = |i: usize, side: &bench_himeno_side| {
                let bytes = side.extent.iter().map(|points| *points as usize).product::<usize>() * 4;
                let at = |offset: u64| span(attached, &rank.messages, offset as usize, bytes);
                let (of, to) = (Type(GMPI_FLOAT), side.node);
                let came = at(self.message_bytes + rank.places[i]);
                let receive = Operation::Recv { at: came, of, from: Some(to), tag: Some(0), comm: 0 };
                (receive, Operation::Send { at: at(rank.places[i]), of, to, tag: 0, comm: 0 })
            };
            let (mut messages, sends): (Vec<_>, Vec<_>) =
                node.sides.iter().enumerate().map(|(i, side)| message(i, side)).unzip();
            messages.extend(sends);
            let sum = |offset| span(attached + 2, &rank.host_sums, offset, 8);
            Ok(Host {
                processor: run.setup.processor(node.id).clone(),
                pack: bench_gmpi_himeno {
                    sums: rank.host_sums.address(),
                    ..self.args(node, rank, ALL_PLANES)?
                },
                step,
                steps: Shape { blocks, ..run.step },
                messages,
                sums: Operation::Allreduce {
                    from: sum(0),
                    to: sum(8),
                    of: Type(GMPI_DOUBLE),
                    op: GMPI_SUM,
                    comm: 0,
                },
                limit: run.limit(),
                timeout: ranks.timeout(),
            })
        };
        let hosts = run.nodes.iter().zip(&self.ranks).map(host).collect::<Result<Vec<_>, _>>()?;
        let bound = run.limit().saturating_mul(iterations.min(1 << 20) as u32);
        let works =
            hosts.into_iter().map(|host| move |carrier: &mut dyn Carrier| host.iterate(carrier, iterations));
        let all = ranks.by_carriers(bound, works)?;
        let (Some(first), Some(rank)) = (all.into_iter().next(), self.ranks.first()) else {
            return Err(BenchError::Unsupported("a process without nodes".to_owned()));
        };
        let sum = rank.host_sums.load_u64(8).doing("reading memory of the host")?;
        let part = |which: usize| Samples::new(first.iter().map(|times| times[which]).collect(), 1);
        Ok(Phases { all: part(3), parts: [0, 1, 2].map(part), sum: f64::from_bits(sum) })
    }
}

/// A rank whose host makes the calls, in the thread that may.
struct Host {
    processor: Processor,
    step: bench_himeno,
    steps: Shape,
    pack: bench_gmpi_himeno,
    messages: Vec<Operation>,
    sums: Operation,
    limit: Duration,
    timeout: Duration,
}

impl Host {
    /// Nanoseconds of computation, halo, convergence, and of all, for each iteration.
    fn iterate(&self, carrier: &mut dyn Carrier, iterations: u64) -> Result<Vec<[f64; 4]>, BenchError> {
        const DOING: &str = "running kernels";
        let Shape { blocks, threads } = self.steps;
        let packs =
            |kernel| kernel::launch(&self.processor, kernel, PACKERS, threads, &self.pack).resident(2);
        let kernels: [Launch; 3] = [
            packs("bench_gmpi_himeno_unpack"),
            kernel::launch(&self.processor, "bench_himeno_step", blocks, threads, &self.step)
                .cached()
                .resident(2),
            packs("bench_gmpi_himeno_pack"),
        ];
        let stream = Stream::new(&kernels, self.limit).doing(DOING)?;
        let mut times = Vec::new();
        for iteration in 0..iterations {
            let begun = Instant::now();
            let ns = || begun.elapsed().as_nanos() as f64;
            let first = if iteration == 0 { 1 } else { 0 };
            (first..3)
                .try_for_each(|kernel| stream.launch(kernel))
                .and_then(|()| stream.wait())
                .doing(DOING)?;
            let computed = ns();
            finish(carrier, &self.messages, self.timeout)?;
            let exchanged = ns();
            finish(carrier, std::slice::from_ref(&self.sums), self.timeout)?;
            let all = ns();
            times.push([computed, exchanged - computed, all - exchanged, all]);
        }
        // What came last: fields are compared with their own points only, but the next run begins with none under way.
        stream.launch(0).and_then(|()| stream.wait()).doing(DOING)?;
        Ok(times)
    }
}
