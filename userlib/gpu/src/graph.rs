//! Rounds of kernels as a graph: a barrier by the end of kernels.

use std::time::Duration;

use crate::error::GpuError;
use crate::gpu::{Gpu, Handle};
use crate::launch::{Launch, Reservation, Running};
use crate::stream::Event;
use crate::sys::*;

/// What a kernel of a round waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// All kernels of the round before, whatever GPUs they are on.
    All,
    /// The kernel at its place in the round before. Kernels that wait for each other need a GPU each.
    Own,
}

/// Runs the sequence of rounds of kernels `times` times. A kernel begins when the kernels that it is [`Behind`] have
/// ended; the GPUs enforce this order, since the rounds are one CUDA graph. Returns the duration of each repetition.
///
/// # Errors
/// [`GpuError::Invalid`] for a round without kernels, or of another length than the first; [`GpuError::DoesNotFit`], and errors of names, shapes and
/// arguments, before anything starts; [`GpuError::Timeout`] if all rounds together take longer, once, than `timeout`.
pub fn run_rounds(
    rounds: &[Vec<Launch<'_>>],
    behind: Behind,
    times: u32,
    timeout: Duration,
) -> Result<Vec<Duration>, GpuError> {
    let kernels = rounds.first().map_or(&[][..], Vec::as_slice);
    let Some(first) = kernels.first().filter(|_| rounds.iter().all(|round| round.len() == kernels.len()))
    else {
        return Err(GpuError::Invalid("every round needs kernels, as many as the first".into()));
    };
    let gpu = first.gpu();
    let graph = Graph::new(gpu, rounds, behind)?;
    let (begin, end) = (Event::new(gpu)?, Event::new(gpu)?);
    let mut took = Vec::new();
    for _ in 0..times {
        let name = format!("{} rounds of {}", rounds.len(), first.describe());
        let mut running = Running::in_stream(Reservation::new(kernels)?, name, gpu.stream()?, |stream| {
            begin.record(stream)?;
            // SAFETY: graph and stream are alive, and both are of this GPU's context.
            gpu.check("cuGraphLaunch", unsafe { cuGraphLaunch(graph.exec.0, stream.raw()) })?;
            end.record(stream)
        })?;
        if let Err(error) = running.wait(timeout) {
            // Its kernels may still run.
            std::mem::forget(graph);
            return Err(error);
        }
        took.push(end.since(&begin)?);
    }
    Ok(took)
}

struct Graph {
    raw: Handle<CUgraph>,
    exec: Handle<CUgraphExec>,
}

impl Graph {
    fn new(gpu: &Gpu, rounds: &[Vec<Launch<'_>>], behind: Behind) -> Result<Graph, GpuError> {
        let mut graph = Graph { raw: Handle(std::ptr::null_mut()), exec: Handle(std::ptr::null_mut()) };
        gpu.enter()?;
        // SAFETY: written on success; 0 is the only flag word that exists.
        gpu.check("cuGraphCreate", unsafe { cuGraphCreate(&mut graph.raw.0, 0) })?;
        let mut before: Vec<CUgraphNode> = Vec::new();
        for round in rounds {
            let add = |(place, launch): (usize, &Launch<'_>)| {
                let own = before.get(place).map_or(&[][..], std::slice::from_ref);
                launch.add_to(graph.raw.0, if behind == Behind::All { &before } else { own })
            };
            before = round.iter().enumerate().map(add).collect::<Result<Vec<_>, _>>()?;
        }
        gpu.enter()?;
        // SAFETY: the graph is alive, `exec` is written on success.
        let result = unsafe { cuGraphInstantiateWithFlags(&mut graph.exec.0, graph.raw.0, 0) };
        gpu.check("cuGraphInstantiateWithFlags", result)?;
        Ok(graph)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: nothing runs or uses them any more (`run_rounds` keeps a graph that does); null is passed over.
        unsafe {
            if !self.exec.0.is_null() {
                let _ = cuGraphExecDestroy(self.exec.0);
            }
            if !self.raw.0.is_null() {
                let _ = cuGraphDestroy(self.raw.0);
            }
        }
    }
}
