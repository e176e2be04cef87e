//! A grid that nodes hold: their memory, its data, and what came out.

use std::sync::Arc;
use std::time::Duration;

use extoll_abi::layout::GGAS_ERR_LOST;
use ggas_kernels::{KernelMem, Launch};
use ggas_window::Window;

use super::shape::{STEP_THREADS, Shape, flags_bytes, groups, places, shape, slabs};
use super::{Data, Parts, Reference};
use crate::args::{
    BENCH_HIMENO_BOUNDARY, BENCH_HIMENO_INTERIOR, BENCH_HIMENO_LASTING, BENCH_HIMENO_MEET, bench_himeno,
    bench_himeno_edge, bench_himeno_side, bench_himeno_state,
};
use crate::error::Doing;
use crate::kernel;
use crate::setup::Setup;
use crate::space::window;
use crate::{BenchError, Check, Device};

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
    /// What it exchanges with neighbours by messages, and the same for its kernels.
    pub sides: Vec<bench_himeno_side>,
    sides_there: KernelMem,
}

/// A grid on the nodes of this process.
pub(crate) struct Run<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) parts: Parts,
    pub(super) window: Arc<Window>,
    pub(super) nodes: Vec<Node>,
    /// Of kernels that end with an iteration; blocks, where they do not have one for each item.
    pub step: Shape,
    /// Of kernels whose blocks live for all iterations.
    pub lasting: Shape,
}

impl<'a> Run<'a> {
    pub fn new(setup: &'a Setup<'a>, parts: Parts) -> Result<Self, BenchError> {
        let step = shape(setup, 256, STEP_THREADS)?;
        let lasting = shape(setup, 128, BENCH_HIMENO_LASTING)?;
        let bytes = parts.window_bytes() + flags_bytes(&parts, lasting);
        let window = window(setup, bytes as usize)?;
        let node = |id| {
            let alloc = |bytes: u64| {
                setup.processor(id).alloc(bytes as usize).doing("allocating the arrays of a node")
            };
            let sides = parts.sides(id);
            let sides_there = alloc(size_of_val(&sides[..]).max(8) as u64)?;
            sides_there.write(0, bytes_of(&sides)).doing("writing kernel memory")?;
            Ok(Node {
                id,
                coefficients: alloc(12 * parts.array_bytes())?,
                sums: alloc((u64::from(parts.own.z) + 2) * parts.sums_of_plane() * 8)?,
                state: alloc(size_of::<bench_himeno_state>() as u64)?,
                sides,
                sides_there,
            })
        };
        let nodes = setup.local().map(node).collect::<Result<Vec<_>, BenchError>>()?;
        Ok(Self { setup, parts, window, nodes, step, lasting })
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
            for word in [super::parts::FROM_BELOW, super::parts::FROM_ABOVE] {
                self.window.store_u64(node.id as usize, word as usize, 0).doing("writing the window")?;
            }
            let words = self.parts.words()..self.parts.words() + super::sides::WORDS;
            let flags = self.parts.window_bytes();
            for words in [words, flags..flags + flags_bytes(&self.parts, self.lasting)] {
                let none = vec![0; (words.end - words.start) as usize];
                self.window
                    .write(node.id as usize, words.start as usize, &none)
                    .doing("writing the window")?;
            }
            let args = bench_himeno { seed: data.seed, ..self.args(node, 0)? };
            launches.push(self.launch(node, "bench_himeno_fill", self.step, &args));
        }
        kernel::run(&launches, self.setup.options)?;
        // No node sends before all have their data.
        self.setup.share::<()>(Vec::new()).map(drop)
    }

    pub(super) fn args(&self, node: &Node, what: u32) -> Result<bench_himeno, BenchError> {
        let parts = &self.parts;
        let edge = |edge: Option<super::parts::Edge>| {
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
        let (first_row, rows) = parts.rows_of(node.id);
        let [x, y, z] = parts.first(node.id);
        let timing = crate::args::bench_timing { clock: 0, samples: 0, count: 0, warm_up: 0 };
        Ok(bench_himeno {
            timing,
            window: member.address(),
            local: member.pointer_of(node.id as usize).doing("choosing a member")?,
            state: node.state.address(),
            coefficients: node.coefficients.address(),
            sums: node.sums.address(),
            field: parts.fields(),
            edge: parts.edges(node.id).map(edge),
            flags: parts.window_bytes(),
            seed: 0,
            side: node.sides_there.address(),
            queues: 0,
            memory: 0,
            x: parts.own.x,
            y: rows,
            z: parts.own.z,
            pitch: parts.pitch(),
            rows: parts.rows(),
            first: [x, y - first_row, z],
            whole: [parts.whole.x, parts.whole.y, parts.whole.z],
            sides: if parts.split.is_of_slices() { 0 } else { node.sides.len() as u32 },
            lanes: u32::from(parts.sums_of_tile() > 1),
            what,
            offset: 0,
            places: places(parts, self.lasting) as u32,
            slabs: slabs(parts, self.lasting, what & BENCH_HIMENO_MEET != 0),
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

    /// Whether a kernel of a node has failed.
    pub(super) fn has_failed(&self) -> Result<bool, BenchError> {
        let failed = |node: &Node| node.state.load_u64(STATUS).doing("reading kernel memory");
        self.nodes.iter().try_fold(false, |any, node| Ok(any || failed(node)? != 0))
    }

    /// Fails if a kernel of a node did, and says in which iteration; `known`: what else is known of a
    /// node's failure beside what its window says.
    pub(super) fn finished(
        &self,
        form: &str,
        wanted: u64,
        known: impl Fn(u32) -> Option<String>,
    ) -> Result<(), BenchError> {
        for node in &self.nodes {
            let read = |at| node.state.load_u64(at).doing("reading kernel memory");
            let (done, status) = (read(ITERATION)?, read(STATUS)?);
            if status == 0 && done == wanted {
                continue;
            }
            let member = self.window.member(node.id as usize).doing("choosing a member")?;
            let said = known(node.id).or_else(|| member.report().map(|report| report.to_string()));
            // A kernel may hear of a death first; who meets the others is told whose it was.
            let lost =
                || (status == u64::from(GGAS_ERR_LOST)).then(|| self.setup.share::<()>(Vec::new()).err());
            let said = said.or_else(|| lost().flatten().map(|error| error.to_string()));
            let why = said.unwrap_or_else(|| match status {
                0 => "none of its waits failed, and the host's limit passed".to_owned(),
                _ => format!("status {status} (GGAS_ERR_* of kernels/include/ggas/layout.h)"),
            });
            let advice = match status {
                0 => "ask for fewer --iterations at a time, or give a longer --timeout",
                _ => "a neighbour is gone or slow: see that all nodes run, or give a longer --timeout",
            };
            let reason = format!("node {} stopped in iteration {done} of {wanted}: {why}; {advice}", node.id);
            return Err(BenchError::Kernel { kernel: format!("himeno, {form}"), reason });
        }
        Ok(())
    }

    /// The squared residuals of the last iteration, added up by planes of the whole grid. All processes call it.
    pub fn sums(&self) -> Result<Vec<f64>, BenchError> {
        let parts = &self.parts;
        let of_tile = parts.sums_of_tile() as usize;
        let of_row = parts.tiles() as usize * of_tile;
        let mut own = Vec::new();
        for node in &self.nodes {
            let (first, rows) = parts.rows_of(node.id);
            let of_plane = rows as usize * of_row;
            let count = parts.own.z as usize * of_plane;
            let words = node.sums.read_u64s(of_plane * 8, count).doing("reading kernel memory")?;
            let own_rows = first as usize * of_row..(first + parts.own.y) as usize * of_row;
            for plane in words.chunks(of_plane) {
                let sums = plane[own_rows.clone()].iter().map(|bits| f64::from_bits(*bits));
                match parts.split.is_of_slices() {
                    true => own.push(sums.fold(0.0, |sum, next| sum + next)),
                    false => own.extend(sums),
                }
            }
        }
        let all = self.setup.share(own)?;
        Ok(if parts.split.is_of_slices() { all } else { parts.sums_of_planes(&all) })
    }

    /// A node's points of the field after `iterations`: whole rows, without what is around them.
    fn field(&self, node: &Node, iterations: u64) -> Result<Vec<f32>, BenchError> {
        let parts = &self.parts;
        let (first, _) = parts.rows_of(node.id);
        let row = parts.own.x as usize * 4;
        let at = parts.plane_at((iterations % 2) as usize, 1) as usize;
        let mut bytes = vec![0; parts.own.z as usize * parts.plane_bytes() as usize];
        self.window.read(node.id as usize, at, &mut bytes).doing("reading the window")?;
        let mut field = Vec::new();
        for plane in bytes.chunks_exact(parts.plane_bytes() as usize) {
            let lines = plane.chunks_exact(parts.pitch() as usize * 4).skip(first as usize);
            for line in lines.take(parts.own.y as usize) {
                let floats = line[..row].chunks_exact(4);
                field.extend(floats.map(|b| f32::from_le_bytes(b.try_into().unwrap_or_default())));
            }
        }
        Ok(field)
    }

    /// Compares the points of this process's nodes, bit by bit, and, in the first process, the `sums` of planes.
    pub fn compare(&self, iterations: u64, reference: &Reference, sums: &[f64]) -> Result<Check, BenchError> {
        let Parts { whole, own, .. } = self.parts;
        let mut check = Check::default();
        for node in &self.nodes {
            let first = self.parts.first(node.id);
            let seen = self.field(node, iterations)?;
            let row = own.x as usize;
            let mut wrong = 0;
            let mut text = None;
            for (line, seen) in seen.chunks_exact(row).enumerate() {
                let (y, z) =
                    (first[1] as usize + line % own.y as usize, first[2] as usize + line / own.y as usize);
                let at = (z * whole.y as usize + y) * whole.x as usize + first[0] as usize;
                for (x, (seen, wanted)) in seen.iter().zip(&reference.field[at..at + row]).enumerate() {
                    if seen.to_bits() != wanted.to_bits() {
                        wrong += 1;
                        let x = first[0] as usize + x;
                        text.get_or_insert_with(|| {
                            format!(
                                "point ({x}, {y}, {z}) is {seen:e} after {iterations} iterations, not {wanted:e}"
                            )
                        });
                    }
                }
            }
            if let Some(text) = text {
                check.wrong(wrong, || text);
            }
        }
        if self.setup.local().start == 0 {
            for (plane, (sum, wanted)) in sums.iter().zip(&reference.sums).enumerate() {
                if sum.to_bits() != wanted.to_bits() {
                    check.wrong(1, || format!("the residual of plane {plane} is {sum:e}, not {wanted:e}"));
                }
            }
        }
        Ok(check)
    }

    /// Spoils what neighbours have of each other's planes, and makes their own in the second field unlike those in the first,
    /// so that a plane of the wrong field is seen.
    pub fn poison(&self) -> Result<(), BenchError> {
        let [poison, unlike] = [0xa5, 0x3c].map(|byte| vec![byte; self.parts.plane_bytes() as usize]);
        for node in &self.nodes {
            for edge in self.parts.edges(node.id).into_iter().flatten() {
                let at = self.parts.plane_at(1, edge.plane as u32) as usize;
                self.window.write(node.id as usize, at, &unlike).doing("writing the window")?;
            }
            for (field, plane) in [(0, 0), (0, self.parts.own.z + 1), (1, 0), (1, self.parts.own.z + 1)] {
                let at = self.parts.plane_at(field, plane) as usize;
                self.window.write(node.id as usize, at, &poison).doing("writing the window")?;
            }
        }
        self.setup.share::<()>(Vec::new()).map(drop)
    }

    /// Compares what neighbours of this process's nodes have of their planes, in both fields.
    pub fn compare_boundaries(&self) -> Result<Check, BenchError> {
        let mut check = Check::default();
        let [mut own, mut there] = [0, 1].map(|_| vec![0; self.parts.plane_bytes() as usize]);
        for node in &self.nodes {
            for (field, edge) in [0, 1].into_iter().flat_map(|field| {
                self.parts.edges(node.id).into_iter().flatten().map(move |edge| (field, edge))
            }) {
                let at = self.parts.plane_at(field, edge.plane as u32) as usize;
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
        for edge in self.parts.edges(node.id).into_iter().flatten() {
            let to = member.pointer_of(edge.node as usize).doing("choosing a member")? + edge.to[field];
            let from = own + self.parts.plane_at(field, edge.plane as u32);
            copies.push((from, to, self.parts.plane_bytes() as usize));
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
        self.parts.blocks_of_step(node.id, what, self.step.threads)
    }
}

impl Parts {
    /// Blocks of so many threads with an item each, of a kernel that ends with an iteration.
    pub(crate) fn blocks_of_step(&self, node: u32, what: u32, threads: u32) -> u32 {
        let each = groups(self, self.rows_of(node).1, threads);
        let edges = self.edges(node).iter().flatten().count() as u32;
        let part = |bit: u32, planes: u32| if what & bit == 0 { 0 } else { planes * each };
        let interior = part(BENCH_HIMENO_INTERIOR, self.own.z.saturating_sub(2));
        (part(BENCH_HIMENO_BOUNDARY, edges) + interior).max(1)
    }
}

/// As kernels read them.
fn bytes_of(sides: &[bench_himeno_side]) -> &[u8] {
    // SAFETY: the structure has no gaps (its size is that of its fields), and the bytes live as long as the slice.
    unsafe { std::slice::from_raw_parts(sides.as_ptr().cast(), size_of_val(sides)) }
}
