//! Shapes of kernels' grids, and how blocks that live for all iterations share a node's planes.

use ggas_kernels::Processor;

use super::Parts;
use crate::args::BENCH_HIMENO_KEPT;
use crate::setup::Setup;
use crate::{BenchError, Device};

// Blocks have no more without being asked for it, and the barriers need some bytes.
const _: () = assert!(BENCH_HIMENO_KEPT < 48 << 10);

/// Most threads of a block that ends with an iteration, or only sends.
pub(super) const STEP_THREADS: u32 = 512;

/// Of a grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub blocks: u32,
    pub threads: u32,
}

/// Blocks that have the tiles of a plane of so many rows, a tile for each warp.
pub(super) fn groups(parts: &Parts, rows: u32, threads: u32) -> u32 {
    ((rows - 2) * parts.tiles()).div_ceil(threads / 32)
}

/// Of the coefficients, blocks that live for all iterations keep at least so much, or they are cut for the order of memory.
const WORTH_KEEPING: f64 = 0.1;

/// Planes of a unit in the order of memory, of blocks that wait for those beside their own, and of those that meet (measured on H100,
/// 256x256x256 and 256x256x512 points): fewer are nearer to each other in memory, and waited for more often.
const HEIGHT: u32 = 4;
const HEIGHT_OF_MEETING: u32 = 2;

/// Units above each other into which blocks that live for all iterations cut a node's planes: as many as there are blocks for, so that
/// each has the same points in all iterations and keeps what it can of their coefficients. Where that is little, more and
/// smaller ones: all blocks then work on the same few planes.
pub(super) fn slabs(parts: &Parts, lasting: Shape, meets: bool) -> u32 {
    let columns = (lasting.blocks / groups(parts, parts.rows(), lasting.threads)).max(1);
    let kept = f64::from(BENCH_HIMENO_KEPT) * f64::from(lasting.blocks);
    if kept >= WORTH_KEEPING * 12.0 * parts.array_bytes() as f64 {
        return columns;
    }
    parts.own.z.div_ceil(if meets { HEIGHT_OF_MEETING } else { HEIGHT }).max(columns)
}

/// Flags for the parts that blocks which live for all iterations have of a neighbour.
pub(super) fn places(parts: &Parts, lasting: Shape) -> u64 {
    groups(parts, parts.rows(), lasting.threads).max(lasting.blocks).into()
}

/// Bytes of all flags of a node (`flags` of `struct bench_himeno`).
pub(super) fn flags_bytes(parts: &Parts, lasting: Shape) -> u64 {
    let slabs = slabs(parts, lasting, true).max(slabs(parts, lasting, false));
    let units = u64::from(groups(parts, parts.rows(), lasting.threads)) * u64::from(slabs);
    // A meeting has a flag for each block, or for each node, and a count.
    let meeting = u64::from(parts.nodes()) * u64::from(lasting.blocks) + 1;
    8 * (2 * places(parts, lasting) + meeting + units)
}

/// Threads of a block as asked for, but not more than `most`, or as many as given here on a GPU; blocks of a node: on a GPU all that
/// live at once, with `most` threads of a multiprocessor together, shared by the nodes that it has, and as many on all nodes.
pub(super) fn shape(setup: &Setup, threads: u32, most: u32) -> Result<Shape, BenchError> {
    let options = setup.options;
    let threads = options.threads_or(&[if options.device == Device::Gpu { threads } else { 64 }])[0];
    if threads > STEP_THREADS || !threads.is_multiple_of(32) {
        let advice = format!("use a multiple of 32, at most {STEP_THREADS}");
        return Err(BenchError::option("threads", threads, advice));
    }
    // One number is asked for all forms, and blocks that live for all iterations cannot have as many as others.
    let threads = threads.min(most);
    let blocks = match setup.processor(setup.local().start) {
        Processor::Gpu(gpu) => {
            let places = gpu.device().info().multiprocessors * (most / threads);
            (places / options.nodes.div_ceil(options.gpus).max(1)).max(1)
        }
        _ => 3,
    };
    // Nodes count each other's blocks, and GPUs of other processes may have fewer.
    let fewest = setup.share(vec![blocks])?.into_iter().min().unwrap_or(blocks);
    Ok(Shape { blocks: options.blocks_or(&[fewest])[0], threads })
}
