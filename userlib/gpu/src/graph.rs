//! Rounds of kernels as a graph: a barrier by the end of kernels.

use std::time::Duration;

use crate::error::GpuError;
use crate::gpu::{Gpu, Handle};
use crate::launch::Launch;
use crate::place::Reservation;
use crate::running::Running;
use crate::stream::{Event, Stream};
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
            graph.launch(stream)?;
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

/// A graph, and what can be launched of it.
pub(crate) struct Graph {
    raw: Handle<CUgraph>,
    exec: Handle<CUgraphExec>,
}

impl Graph {
    fn new(gpu: &Gpu, rounds: &[Vec<Launch<'_>>], behind: Behind) -> Result<Graph, GpuError> {
        let mut graph = Graph::empty(gpu)?;
        let mut before: Vec<CUgraphNode> = Vec::new();
        for round in rounds {
            let add = |(place, launch): (usize, &Launch<'_>)| {
                let own = before.get(place).map_or(&[][..], std::slice::from_ref);
                launch.add_to(graph.raw.0, if behind == Behind::All { &before } else { own })
            };
            before = round.iter().enumerate().map(add).collect::<Result<Vec<_>, _>>()?;
        }
        graph.instantiate(gpu)?;
        Ok(graph)
    }

    /// Without nodes, not to be launched yet.
    pub fn empty(gpu: &Gpu) -> Result<Graph, GpuError> {
        let mut graph = Graph { raw: Handle(std::ptr::null_mut()), exec: Handle(std::ptr::null_mut()) };
        gpu.enter()?;
        // SAFETY: written on success; 0 is the only flag word that exists.
        gpu.check("cuGraphCreate", unsafe { cuGraphCreate(&mut graph.raw.0, 0) })?;
        Ok(graph)
    }

    /// Adds a loop that is made once and then again while its condition is not 0: the condition's handle and the graph of a
    /// round, which belongs to this one.
    pub fn add_while(&mut self, gpu: &Gpu) -> Result<(CUgraphConditionalHandle, CUgraph), GpuError> {
        gpu.enter()?;
        let mut handle = 0;
        let (context, flags) = (gpu.context(), CU_GRAPH_COND_ASSIGN_DEFAULT);
        // SAFETY: graph and context are alive; the handle is written on success.
        let result = unsafe { cuGraphConditionalHandleCreate(&mut handle, self.raw.0, context, 1, flags) };
        gpu.check("cuGraphConditionalHandleCreate", result)?;
        // SAFETY: numbers, and pointers that may be null.
        let mut node: CUgraphNodeParams = unsafe { std::mem::zeroed() };
        node.type_ = NodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
        node.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
            handle,
            type_: ConditionalType::CU_GRAPH_COND_TYPE_WHILE,
            size: 1,
            phGraph_out: std::ptr::null_mut(),
            ctx: context,
        };
        let (mut added, none) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: the graph is alive and the node depends on nothing; `added` is written on success.
        let result =
            unsafe { cuGraphAddNode_v2(&mut added, self.raw.0, none, std::ptr::null(), 0, &mut node) };
        gpu.check("cuGraphAddNode", result)?;
        // SAFETY: for a conditional node that was added, the driver points to its graphs, `size` of them.
        let body = unsafe { *node.__bindgen_anon_1.conditional.phGraph_out };
        Ok((handle, body))
    }

    /// Makes it ready to launch, once.
    pub fn instantiate(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        gpu.enter()?;
        // SAFETY: the graph is alive, `exec` is written on success.
        let result = unsafe { cuGraphInstantiateWithFlags(&mut self.exec.0, self.raw.0, 0) };
        gpu.check("cuGraphInstantiateWithFlags", result)
    }

    /// Puts it into a stream of its GPU.
    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        let gpu = stream.gpu();
        gpu.enter()?;
        // SAFETY: graph and stream are alive, and both are of this GPU's context.
        gpu.check("cuGraphLaunch", unsafe { cuGraphLaunch(self.exec.0, stream.raw()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: nothing runs or uses them any more (who runs one keeps a graph that does); null is passed over.
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
