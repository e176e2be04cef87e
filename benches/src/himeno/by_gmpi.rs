//! Forms whose blocks exchange by MPI calls of kernels (GMPI paper, V).

use std::sync::Arc;

use ggas::Node as Endpoint;
use ggas_gmpi::carrier::own::Own;
use ggas_gmpi::{Comm, Config, Direct, Gmpi, GmpiError, Polling};
use ggas_kernels::KernelMem;

use super::forms::{ALL_PLANES, Form};
use super::run::{Node, Run};
use crate::args::{BENCH_HIMENO_MEET, BENCH_HIMENO_MOST_PIECES, bench_himeno, bench_himeno_gmpi};
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::space::window;
use crate::{BenchError, Samples};

const KERNEL: &str = "bench_himeno_gmpi_rounds";

/// Bytes of a piece of a message, a block each: as many as travel without a fence.
const PIECE: u64 = 4096;

/// Microseconds of an iteration, by a node's first block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Apart {
    pub computation: f64,
    pub halo: f64,
    pub convergence: f64,
}

/// What a node's kernel uses beside its grid.
struct End {
    gmpi: Gmpi,
    requests: KernelMem,
    /// Blocks that met, then times of the three parts.
    words: KernelMem,
    residuals: KernelMem,
}

impl<'a> Run<'a> {
    /// All blocks compute and meet; those that have a piece of the boundary exchange it.
    pub(super) fn by_gmpi(&'a self, form: Form, iterations: u64) -> Result<Samples, BenchError> {
        let pieces = self.pieces();
        let (ends, comm) = self.ends(form, pieces)?;
        let (mut probes, mut launches) = (Vec::new(), Vec::new());
        for (node, end) in self.nodes.iter().zip(&ends) {
            let probe = Probe::new(self.setup.processor(node.id), iterations, 0)?;
            let himeno = self.args(node, ALL_PLANES | BENCH_HIMENO_MEET)?;
            let args = bench_himeno_gmpi {
                himeno: bench_himeno { timing: probe.args(), ..himeno },
                buf: end.gmpi.address(),
                comm: comm.0,
                requests: end.requests.address(),
                met: end.words.address(),
                residuals: end.residuals.address(),
                spent: end.words.address() + 8,
                count: node.sides.len() as u32,
                pieces,
                converges: u32::from(form == Form::GmpiConverges),
                reserved: 0,
            };
            let shape = self.lasting;
            let processor = self.setup.processor(node.id);
            launches.push(kernel::launch(processor, KERNEL, shape.blocks, shape.threads, &args).cached());
            probes.push(probe);
        }
        kernel::run(&launches, self.setup.options)?;
        let said = |node: u32| ends[node as usize].gmpi.check().err().map(|error| error.to_string());
        self.finished(form.name(), iterations, said)?;
        ends.iter().try_for_each(|end| end.gmpi.check()).doing("exchanging by MPI calls")?;
        self.keep_apart(&ends[0], iterations)?;
        probes.first().map_or(Ok(Samples::new(Vec::new(), 1)), Probe::samples)
    }

    fn pieces(&self) -> u32 {
        let longest = self.nodes.iter().flat_map(|node| &node.sides);
        let longest =
            longest.map(|side| side.extent.iter().map(|points| u64::from(*points)).product::<u64>() * 4);
        let most = BENCH_HIMENO_MOST_PIECES.min(self.lasting.blocks);
        longest.max().unwrap_or(0).div_ceil(PIECE).clamp(1, most.into()) as u32
    }

    fn ends(&'a self, form: Form, pieces: u32) -> Result<(Vec<End>, Comm), BenchError> {
        let options = self.setup.options;
        let config =
            Config { ports: pieces, polling: Polling::Yield, timeout: options.timeout, ..Config::default() };
        let nodes = self.nodes.iter().map(|node| self.setup.node(node.id).cloned());
        let nodes = nodes.collect::<Result<Vec<Endpoint>, BenchError>>()?;
        let carriers = Own::local(&nodes).doing("opening carriers")?;
        let ends = self.nodes.iter().zip(carriers).map(|(node, own)| self.end(node, own, &config, pieces));
        let ends = ends.collect::<Result<Vec<End>, BenchError>>()?;
        let comm = if form == Form::Gmpi { Comm::WORLD } else { self.direct(&ends, pieces)? };
        Ok((ends, comm))
    }

    fn end(&self, node: &Node, own: Own, config: &Config, pieces: u32) -> Result<End, BenchError> {
        let processor = self.setup.processor(node.id);
        let gmpi = Gmpi::with(processor, config, move || Ok(Box::new(own))).doing("opening GMPI")?;
        let alloc = |bytes: usize| -> Result<KernelMem, BenchError> {
            let memory = processor.alloc(bytes).doing("allocating kernel memory")?;
            memory.write(0, &vec![0; bytes]).doing("writing kernel memory")?;
            Ok(memory)
        };
        let part = self.window.member(node.id as usize).doing("choosing a member")?;
        let part = part.pointer_of(node.id as usize).doing("choosing a member")? as *mut u8;
        // SAFETY: a node's part of the window is in its kernels' memory, and lives longer than what is made here, as `self` does.
        let part = unsafe { processor.borrow(part, self.window.bytes()) }
            .doing("naming a node's part of the window")?;
        gmpi.attach(&Arc::new(part)).doing("attaching memory")?;
        Ok(End {
            gmpi,
            requests: alloc(8 * 2 * node.sides.len().max(1) * pieces as usize)?,
            words: alloc(32)?,
            residuals: alloc(8 * (2 + self.lasting.blocks as usize))?,
        })
    }

    /// A communicator whose messages go from kernel to kernel.
    fn direct(&self, ends: &[End], pieces: u32) -> Result<Comm, BenchError> {
        let mailboxes = Direct::default();
        let bytes = mailboxes
            .end(pieces, ends.len())
            .ok_or_else(|| BenchError::Unsupported("mailboxes of so many nodes have no room".to_owned()))?;
        let (window, mailboxes) = (&window(self.setup, bytes)?, &mailboxes);
        std::thread::scope(|scope| {
            let call = |gmpi: &Gmpi| gmpi.direct(Comm::WORLD, window, mailboxes);
            let all: Vec<_> = ends.iter().map(|end| scope.spawn(move || call(&end.gmpi))).collect();
            let comms: Result<Vec<Comm>, GmpiError> = all
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect();
            Ok(comms.doing("making a direct communicator")?[0])
        })
    }

    fn keep_apart(&self, end: &End, iterations: u64) -> Result<(), BenchError> {
        let spent = end.words.read_u64s(8, 3).doing("reading kernel memory")?;
        let us = |ns: u64| ns as f64 / iterations.max(1) as f64 / 1e3;
        let apart = Apart { computation: us(spent[0]), halo: us(spent[1]), convergence: us(spent[2]) };
        let residual = f64::from_bits(end.residuals.load_u64(0).doing("reading kernel memory")?);
        self.apart.set(Some((apart, residual)));
        Ok(())
    }
}
