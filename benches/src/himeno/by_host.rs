//! Forms whose boundaries the host sends.

use std::time::Instant;

use ggas_gpu::Stream;
use ggas_kernels::{Launch, Processor, start};

use super::forms::ALL_PLANES;
use super::run::{Node, Run};
use crate::args::*;
use crate::error::Doing;
use crate::{BenchError, Samples};

impl<'a> Run<'a> {
    /// The host starts and waits.
    pub(super) fn by_host(
        &'a self,
        iterations: u64,
        one: fn(&'a Self, &mut Host<'a>, u64) -> Result<(), BenchError>,
    ) -> Result<Samples, BenchError> {
        let mut host = Host::new(self)?;
        let mut ns = Vec::new();
        for iteration in 0..iterations {
            let begun = Instant::now();
            one(self, &mut host, iteration)?;
            ns.push(begun.elapsed().as_nanos() as f64);
        }
        Ok(Samples::new(ns, 1))
    }

    pub(super) fn hybrid(&'a self, host: &mut Host<'a>, iteration: u64) -> Result<(), BenchError> {
        let wait = |launches: &[Launch<'a>]| {
            start(launches).and_then(|running| running.wait(self.limit())).doing("running kernels")
        };
        wait(&host.boundary)?;
        let interior = start(&host.interior).doing("starting kernels")?;
        host.put(self, ((iteration + 1) % 2) as usize)?;
        interior.wait(self.limit()).doing("running kernels")
    }

    pub(super) fn mpi_like(&'a self, host: &mut Host<'a>, iteration: u64) -> Result<(), BenchError> {
        start(&host.whole).and_then(|running| running.wait(self.limit())).doing("running kernels")?;
        let field = ((iteration + 1) % 2) as usize;
        if !self.is_split() {
            return host.send_and_receive(self, field);
        }
        let run = |launches: &[Launch<'a>]| {
            start(launches).and_then(|running| running.wait(self.limit())).doing("running kernels")
        };
        run(&host.pack)?;
        host.copy_messages(self, field)?;
        run(&host.unpack)
    }
}

/// What the host starts and copies with.
pub(super) struct Host<'a> {
    boundary: Vec<Launch<'a>>,
    interior: Vec<Launch<'a>>,
    whole: Vec<Launch<'a>>,
    /// Of messages, where the grid is cut in more directions than one.
    pack: Vec<Launch<'a>>,
    unpack: Vec<Launch<'a>>,
    /// A stream for the copies of each node that is on a GPU.
    streams: Vec<Option<Stream>>,
}

impl<'a> Host<'a> {
    fn new(run: &'a Run<'a>) -> Result<Self, BenchError> {
        let stream = |node: &Node| match run.setup.processor(node.id) {
            Processor::Gpu(gpu) => gpu.device().stream().doing("making a stream").map(Some),
            _ => Ok(None),
        };
        let of = |what| run.step(what, 0);
        Ok(Self {
            boundary: of(BENCH_HIMENO_BOUNDARY)?,
            interior: of(BENCH_HIMENO_INTERIOR | BENCH_HIMENO_ADVANCE)?,
            whole: of(ALL_PLANES | BENCH_HIMENO_ADVANCE)?,
            pack: run.sides(BENCH_HIMENO_PACK | BENCH_HIMENO_SEND)?,
            unpack: run.sides(BENCH_HIMENO_PACK | BENCH_HIMENO_WAIT)?,
            streams: run.nodes.iter().map(stream).collect::<Result<_, _>>()?,
        })
    }

    /// One-sided: straight to where the neighbour needs it.
    fn put(&self, run: &Run<'_>, field: usize) -> Result<(), BenchError> {
        for (node, stream) in run.nodes.iter().zip(&self.streams) {
            let Some(stream) = stream else {
                for (from, to, plane) in planes(run, node, field) {
                    let mut bytes = vec![0; run.parts.plane_bytes() as usize];
                    let read = run.window.read(node.id as usize, from, &mut bytes);
                    read.and_then(|()| run.window.write(to, plane, &bytes)).doing("copying a boundary")?;
                }
                continue;
            };
            for (from, to, bytes) in run.addresses(node, field)? {
                // SAFETY: parts of the window, mapped for all GPUs of this process; kernels neither write the source nor
                // use the other place before the next iteration.
                unsafe { stream.copy(to, from, bytes) }.doing("copying a boundary")?;
            }
        }
        for stream in self.streams.iter().flatten() {
            stream.wait("copies of boundaries", run.limit()).doing("copying a boundary")?;
        }
        Ok(())
    }

    /// Two-sided: into a message, and out of it.
    fn send_and_receive(&self, run: &Run<'_>, field: usize) -> Result<(), BenchError> {
        let mut messages = Vec::new();
        for node in &run.nodes {
            for (from, to, plane) in planes(run, node, field) {
                let mut bytes = vec![0; run.parts.plane_bytes() as usize];
                run.window.read(node.id as usize, from, &mut bytes).doing("sending a boundary")?;
                messages.push((to, plane, bytes));
            }
        }
        for (to, plane, bytes) in messages {
            run.window.write(to, plane, &bytes).doing("receiving a boundary")?;
        }
        Ok(())
    }
}

impl Host<'_> {
    /// Two-sided, of messages that kernels have packed.
    fn copy_messages(&self, run: &Run<'_>, field: usize) -> Result<(), BenchError> {
        let mut messages = Vec::new();
        for node in &run.nodes {
            for side in &node.sides {
                let floats = side.extent.iter().map(|points| *points as usize).product::<usize>();
                let mut bytes = vec![0; floats * 4];
                let read = run.window.read(node.id as usize, side.sent as usize, &mut bytes);
                read.doing("sending a boundary")?;
                messages.push((side.node as usize, side.arrives_there[field] as usize, bytes));
            }
        }
        for (to, at, bytes) in messages {
            run.window.write(to, at, &bytes).doing("receiving a boundary")?;
        }
        Ok(())
    }
}

/// A node's planes that others need: offset here, the neighbour, offset there.
fn planes(run: &Run<'_>, node: &Node, field: usize) -> Vec<(usize, usize, usize)> {
    let edges = run.parts.edges(node.id).into_iter().flatten();
    let place = |edge: super::parts::Edge| {
        let from = run.parts.plane_at(field, edge.plane as u32);
        (from as usize, edge.node as usize, edge.to[field] as usize)
    };
    edges.map(place).collect()
}
