//! A grid that nodes hold: their memory, its data, and what came out.

use std::sync::Arc;
use std::time::Duration;

use ggas_kernels::{KernelMem, Launch, Processor};
use ggas_window::Window;

use super::{Data, Reference, Slices};
use crate::args::{
    BENCH_HIMENO_BOUNDARY, BENCH_HIMENO_INTERIOR, BENCH_HIMENO_KEPT, BENCH_HIMENO_LASTING, bench_himeno,
    bench_himeno_edge, bench_himeno_state,
};
use crate::error::Doing;
use crate::kernel;
use crate::setup::Setup;
use crate::space::window;
use crate::{BenchError, Check, Device};

// Blocks have no more without being asked for it, and the barriers need some bytes.
const _: () = assert!(BENCH_HIMENO_KEPT < 48 << 10);

/// Places in the state of a node (`struct bench_himeno_state`).
const ITERATION: usize = 0;
const LEFT: usize = 8;
const STATUS: usize = size_of::<bench_himeno_state>() - 8;

/// One node's memory beside its part of the window.
pub(super) struct Node {
    pub id: u32,
    coefficients: KernelMem,
    sums: KernelMem,
    pub state: KernelMem,
}

/// A grid on the nodes of this process.
pub(crate) struct Run<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) slices: Slices,
    pub(super) window: Arc<Window>,
    pub(super) nodes: Vec<Node>,
    /// Of kernels that end with an iteration; blocks, where they do not have one for each item.
    pub step: Shape,
    /// Of kernels whose blocks live for all iterations.
    pub lasting: Shape,
}

/// Of a grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub blocks: u32,
    pub threads: u32,
}

impl<'a> Run<'a> {
    pub fn new(setup: &'a Setup<'a>, slices: Slices) -> Result<Self, BenchError> {
        let step = shape(setup, 256, 512)?;
        let lasting = shape(setup, 128, BENCH_HIMENO_LASTING)?;
        let bytes = slices.window_bytes() + flags_bytes(&slices, lasting);
        let window = window(setup, bytes as usize)?;
        let node = |id| {
            let alloc = |bytes: u64| {
                setup.processor(id).alloc(bytes as usize).doing("allocating the arrays of a node")
            };
            Ok(Node {
                id,
                coefficients: alloc(12 * slices.array_bytes())?,
                sums: alloc((u64::from(slices.planes) + 2) * slices.sums_of_plane() * 8)?,
                state: alloc(size_of::<bench_himeno_state>() as u64)?,
            })
        };
        let nodes = setup.local().map(node).collect::<Result<Vec<_>, BenchError>>()?;
        Ok(Self { setup, slices, window, nodes, step, lasting })
    }

    /// Without the kernels of a node, as if its process had died.
    #[cfg(test)]
    pub fn lose(&mut self, node: u32) {
        self.nodes.retain(|kept| kept.id != node);
    }

    /// Bound of everything that kernels do in one go.
    pub(super) fn limit(&self) -> Duration {
        self.setup.options.timeout * 2 + Duration::from_secs(20)
    }

    /// First data, and nothing done yet, on all nodes.
    pub fn fill(&self, data: &Data) -> Result<(), BenchError> {
        // A node that has ended may have neighbours that still tell it so: flags go back once all have ended.
        self.setup.share::<()>(Vec::new())?;
        let clear = [0; size_of::<bench_himeno_state>()];
        let mut launches = Vec::new();
        for node in &self.nodes {
            node.state.write(0, &clear).doing("writing kernel memory")?;
            for word in [super::slices::FROM_BELOW, super::slices::FROM_ABOVE] {
                self.window.store_u64(node.id as usize, word as usize, 0).doing("writing the window")?;
            }
            let flags = self.slices.window_bytes() as usize;
            let none = vec![0; flags_bytes(&self.slices, self.lasting) as usize];
            self.window.write(node.id as usize, flags, &none).doing("writing the window")?;
            let args = bench_himeno { seed: data.seed, ..self.args(node, 0)? };
            launches.push(self.launch(node, "bench_himeno_fill", self.step, &args));
        }
        kernel::run(&launches, self.setup.options)?;
        // No node sends before all have their data.
        self.setup.share::<()>(Vec::new()).map(drop)
    }

    pub(super) fn args(&self, node: &Node, what: u32) -> Result<bench_himeno, BenchError> {
        let slices = &self.slices;
        let edge = |edge: Option<super::slices::Edge>| {
            let none =
                bench_himeno_edge { to: [0; 2], signal: 0, seen: 0, plane: 0, node: u32::MAX, reserved: 0 };
            edge.map_or(none, |edge| bench_himeno_edge {
                to: edge.to,
                signal: edge.signal,
                seen: edge.seen,
                plane: edge.plane,
                node: edge.node,
                reserved: 0,
            })
        };
        let member = self.window.member(node.id as usize).doing("choosing a member")?;
        let timing = crate::args::bench_timing { clock: 0, samples: 0, count: 0, warm_up: 0 };
        Ok(bench_himeno {
            timing,
            window: member.address(),
            local: member.pointer_of(node.id as usize).doing("choosing a member")?,
            state: node.state.address(),
            coefficients: node.coefficients.address(),
            sums: node.sums.address(),
            field: slices.fields(),
            edge: slices.edges(node.id).map(edge),
            flags: slices.window_bytes(),
            seed: 0,
            x: slices.whole.x,
            y: slices.whole.y,
            z: slices.planes,
            pitch: slices.pitch(),
            first_z: node.id * slices.planes,
            whole_z: slices.whole.z,
            what,
            offset: 0,
            places: places(slices, self.lasting) as u32,
            reserved: 0,
        })
    }

    pub(super) fn launch(
        &'a self,
        node: &Node,
        kernel: &'static str,
        shape: Shape,
        args: &bench_himeno,
    ) -> Launch<'a> {
        kernel::launch(self.setup.processor(node.id), kernel, shape.blocks, shape.threads, args)
    }

    /// Has nodes stop after `iterations` more.
    pub(super) fn plan(&self, iterations: u64) -> Result<(), BenchError> {
        let plan = |node: &Node| node.state.store_u64(LEFT, iterations).doing("writing kernel memory");
        self.nodes.iter().try_for_each(plan)
    }

    /// Fails if a kernel of a node did, and says in which iteration.
    pub(super) fn finished(&self, form: &str, wanted: u64) -> Result<(), BenchError> {
        for node in &self.nodes {
            let read = |at| node.state.load_u64(at).doing("reading kernel memory");
            let (done, status) = (read(ITERATION)?, read(STATUS)?);
            if status == 0 && done == wanted {
                continue;
            }
            let member = self.window.member(node.id as usize).doing("choosing a member")?;
            let why = match member.report() {
                Some(report) => report.to_string(),
                None => format!("status {status} (GGAS_ERR_* of kernels/include/ggas/layout.h)"),
            };
            let reason = format!(
                "node {} stopped in iteration {done} of {wanted}: {why}; a neighbour is gone or slow: see that all nodes \
                 run, or give a longer --timeout",
                node.id
            );
            return Err(BenchError::Kernel { kernel: format!("himeno, {form}"), reason });
        }
        Ok(())
    }

    /// Sums of the squared residuals of the last iteration, of this process's planes in their order.
    pub fn sums(&self) -> Result<Vec<f64>, BenchError> {
        let of_plane = self.slices.sums_of_plane() as usize;
        let mut sums = Vec::new();
        for node in &self.nodes {
            let count = self.slices.planes as usize * of_plane;
            let words = node.sums.read_u64s(of_plane * 8, count).doing("reading kernel memory")?;
            sums.extend(words.chunks(of_plane).map(|plane| {
                plane.iter().map(|bits| f64::from_bits(*bits)).fold(0.0, |sum, next| sum + next)
            }));
        }
        Ok(sums)
    }

    /// This process's planes of the field after `iterations`, without what fills rows up.
    pub fn field(&self, iterations: u64) -> Result<Vec<f32>, BenchError> {
        let Slices { whole, planes, .. } = self.slices;
        let row = whole.x as usize * 4;
        let mut field = Vec::new();
        let mut bytes = vec![0; planes as usize * self.slices.plane_bytes() as usize];
        for node in &self.nodes {
            let at = self.slices.plane_at((iterations % 2) as usize, 1) as usize;
            self.window.read(node.id as usize, at, &mut bytes).doing("reading the window")?;
            for line in bytes.chunks_exact(self.slices.pitch() as usize * 4) {
                let floats = line[..row].chunks_exact(4);
                field.extend(floats.map(|b| f32::from_le_bytes(b.try_into().unwrap_or_default())));
            }
        }
        Ok(field)
    }

    /// Compares this process's planes, bit by bit.
    pub fn compare(&self, iterations: u64, reference: &Reference) -> Result<Check, BenchError> {
        let Slices { whole, planes, .. } = self.slices;
        let plane = whole.x as usize * whole.y as usize;
        let first = self.setup.local().start as usize * planes as usize * plane;
        let seen = self.field(iterations)?;
        let mut check = Check::default();
        let wanted = &reference.field[first..first + seen.len()];
        let wrong = seen.iter().zip(wanted).enumerate().filter(|(_, (a, b))| a.to_bits() != b.to_bits());
        let mut wrong = wrong.map(|(at, (seen, wanted))| (first + at, *seen, *wanted));
        if let Some((at, seen, wanted)) = wrong.next() {
            let (z, y, x) = (at / plane, at % plane / whole.x as usize, at % whole.x as usize);
            let text =
                format!("point ({x}, {y}, {z}) is {seen:e} after {iterations} iterations, not {wanted:e}");
            check.wrong(1 + wrong.count() as u64, || text);
        }
        let planes = self.setup.local().start as usize * planes as usize;
        for (at, sum) in self.sums()?.into_iter().enumerate() {
            let wanted = reference.sums[planes + at];
            if sum.to_bits() != wanted.to_bits() {
                check
                    .wrong(1, || format!("the residual of plane {} is {sum:e}, not {wanted:e}", planes + at));
            }
        }
        Ok(check)
    }

    /// Spoils what neighbours have of each other's planes.
    pub fn poison(&self) -> Result<(), BenchError> {
        let poison = vec![0xa5; self.slices.plane_bytes() as usize];
        for node in &self.nodes {
            for (field, plane) in [(0, 0), (0, self.slices.planes + 1), (1, 0), (1, self.slices.planes + 1)] {
                let at = self.slices.plane_at(field, plane) as usize;
                self.window.write(node.id as usize, at, &poison).doing("writing the window")?;
            }
        }
        self.setup.share::<()>(Vec::new()).map(drop)
    }

    /// Compares what neighbours of this process's nodes have of their planes, in both fields.
    pub fn compare_boundaries(&self) -> Result<Check, BenchError> {
        let mut check = Check::default();
        let [mut own, mut there] = [0, 1].map(|_| vec![0; self.slices.plane_bytes() as usize]);
        for node in &self.nodes {
            for (field, edge) in [0, 1].into_iter().flat_map(|field| {
                self.slices.edges(node.id).into_iter().flatten().map(move |edge| (field, edge))
            }) {
                let at = self.slices.plane_at(field, edge.plane as u32) as usize;
                let read = self.window.read(node.id as usize, at, &mut own);
                let other = self.window.read(edge.node as usize, edge.to[field] as usize, &mut there);
                read.and(other).doing("reading the window")?;
                check.bytes(&format!("boundary of node {} at node {}", node.id, edge.node), &own, &there);
            }
        }
        Ok(check)
    }

    /// A node's planes that others need: address, the neighbour's address, bytes.
    pub(super) fn addresses(&self, node: &Node, field: usize) -> Result<Vec<(u64, u64, usize)>, BenchError> {
        let member = self.window.member(node.id as usize).doing("choosing a member")?;
        let own = member.pointer_of(node.id as usize).doing("choosing a member")?;
        let mut copies = Vec::new();
        for edge in self.slices.edges(node.id).into_iter().flatten() {
            let to = member.pointer_of(edge.node as usize).doing("choosing a member")? + edge.to[field];
            let from = own + self.slices.plane_at(field, edge.plane as u32);
            copies.push((from, to, self.slices.plane_bytes() as usize));
        }
        Ok(copies)
    }
}

impl Run<'_> {
    /// Whether kernels that end with an iteration have a block for each item.
    pub(super) fn has_block_per_item(&self) -> bool {
        let options = self.setup.options;
        options.device == Device::Gpu && options.blocks.is_empty()
    }

    /// Blocks of a kernel that ends with an iteration: on a GPU one for each item, as it starts them in the order of memory.
    pub(super) fn blocks_of_step(&self, node: &Node, what: u32) -> u32 {
        if !self.has_block_per_item() {
            return self.step.blocks;
        }
        let each = groups(&self.slices, self.step.threads);
        let edges = self.slices.edges(node.id).iter().flatten().count() as u32;
        let part = |bit: u32, planes: u32| if what & bit == 0 { 0 } else { planes * each };
        let interior = part(BENCH_HIMENO_INTERIOR, self.slices.planes.saturating_sub(2));
        (part(BENCH_HIMENO_BOUNDARY, edges) + interior).max(1)
    }
}

/// Blocks that have the tiles of a plane, a tile for each warp.
fn groups(slices: &Slices, threads: u32) -> u32 {
    ((slices.whole.y - 2) * slices.tiles()).div_ceil(threads / 32)
}

/// Flags for the parts that blocks which live for all iterations have of a node.
fn places(slices: &Slices, lasting: Shape) -> u64 {
    groups(slices, lasting.threads).max(lasting.blocks).into()
}

/// Bytes of all flags of a node (`flags` of `struct bench_himeno`).
fn flags_bytes(slices: &Slices, lasting: Shape) -> u64 {
    let meeting = u64::from(slices.nodes) * u64::from(lasting.blocks);
    8 * (3 * places(slices, lasting) + meeting)
}

/// Threads of a block as asked for, or as many as given here on a GPU; blocks of a node: on a GPU all that live at once, with
/// `most` threads of a multiprocessor together, shared by the nodes that it has.
fn shape(setup: &Setup, threads: u32, most: u32) -> Result<Shape, BenchError> {
    let options = setup.options;
    let threads = options.threads_or(&[if options.device == Device::Gpu { threads } else { 64 }])[0];
    if threads > BENCH_HIMENO_LASTING || !threads.is_multiple_of(32) {
        let advice = format!("use a multiple of 32, at most {BENCH_HIMENO_LASTING}");
        return Err(BenchError::option("threads", threads, advice));
    }
    let blocks = match setup.processor(setup.local().start) {
        Processor::Gpu(gpu) => {
            let places = gpu.device().info().multiprocessors * (most / threads);
            (places / options.nodes.div_ceil(options.gpus).max(1)).max(1)
        }
        _ => 3,
    };
    Ok(Shape { blocks: options.blocks_or(&[blocks])[0], threads })
}
