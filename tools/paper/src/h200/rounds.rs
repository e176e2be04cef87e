//! What the benchmarks of `benches/src/bench` do, on the timed driver: `ggas_pingpong`, `ggas_bandwidth`, `put`.

use extoll_sim::timed::{Block, Flag, Kernel, Place, Ps, Put, System, Timed};

use super::Case;
use crate::PaperError;
use crate::memory::Memory;
use crate::programs::{Span, between_gpus, on_all};

const ROUNDS: u64 = 100;
/// Bytes that a thread moves at a time.
const UNIT: u64 = 16;
/// Units that a thread loads before it stores the first (`kernels/include/ggas/impl/copy.h`).
const TOGETHER: u64 = 4;

/// A block's share of a copy: each pass waits for its loads, and then stores.
#[derive(Clone, Copy)]
struct Share {
    bytes: u64,
    passes: u64,
}

impl Share {
    fn of(case: &Case) -> Share {
        let units = case.bytes.div_ceil(UNIT * case.threads * case.blocks as u64);
        Share { bytes: case.bytes / case.blocks as u64, passes: (units / TOGETHER + units % TOGETHER).max(1) }
    }

    /// Bytes of each pass.
    fn parts(self) -> impl Iterator<Item = u64> {
        let each = self.bytes / self.passes;
        (1..=self.passes)
            .map(move |pass| if pass < self.passes { each } else { self.bytes - each * (pass - 1) })
    }

    /// Stores to the other node.
    fn store(self, block: &Block<'_>, load: Ps) {
        for bytes in self.parts() {
            block.work(load);
            block.store(to_peer(block, bytes));
        }
    }
}

fn to_peer(block: &Block<'_>, bytes: u64) -> Put {
    between_gpus(1 - block.node(), bytes)
}

/// A load past the L1 takes as long as a look at a word.
fn look(system: &System) -> Ps {
    Ps::ns(system.gpu.poll_ns)
}

/// A fence behind stores to the other node: over when they were acknowledged, however long the link is busy with them.
/// A load of nothing goes the way of the acknowledgement.
fn release(block: &Block<'_>, fence: Ps) {
    let begin = block.now();
    block.load(1 - block.node(), 0);
    block.work(fence.saturating_sub(block.now() - begin));
}

/// Both nodes send and wait in turn; half a round trip in us. Waits begin anywhere within a poll's period, since no
/// round of GPUs is quite like the one before.
fn pingpong(
    system: &System,
    blocks: usize,
    seed: u64,
    send: impl Fn(&Block<'_>, &Flag) + Clone + Send + Sync + 'static,
) -> Result<f64, PaperError> {
    let timed = Timed::new(system, 2, seed)?;
    let flags = [timed.flag(), timed.flag()];
    let (span, period) = (Span::default(), look(system).0);
    on_all(&timed, 2, |node| {
        let me = node.index();
        let (mine, theirs, span, send) =
            (flags[me].clone(), flags[1 - me].clone(), span.clone(), send.clone());
        node.stream(0).launch(Kernel::new("pingpong", blocks), move |block| {
            let wait = |round: u64| {
                let phase = round * [37, 61][me] % ROUNDS;
                block.work(Ps(period * phase / ROUNDS));
                block.wait(&mine, round * blocks as u64, Place::Gpu);
            };
            let rounds = || crate::programs::pingpong(me, ROUNDS, |_| send(&block, &theirs), wait);
            span.over(me + block.index(), || block.now(), rounds);
        });
        node.stream(0).synchronize();
    });
    Ok(span.length().as_us() / (2 * ROUNDS) as f64)
}

/// `bench_ggas_write`: each thread stores a word that it has in a register.
pub(super) fn store(system: &System, case: &Case, seed: u64) -> Result<f64, PaperError> {
    let bytes = case.bytes;
    pingpong(system, 1, seed, move |block, theirs| block.store(to_peer(block, bytes).arrived(theirs)))
}

/// `bench_put_signal`: the data, and behind a release the signal of each block.
pub(super) fn put_signal(system: &System, case: &Case, seed: u64) -> Result<f64, PaperError> {
    let (share, load, fence) = (Share::of(case), look(system), Ps::ns(system.gpu.fence_ns));
    pingpong(system, case.blocks, seed, move |block, theirs| {
        share.store(block, load);
        release(block, fence);
        block.store(to_peer(block, 8).arrived(theirs));
    })
}

/// `bench_ggas_read`: a load, a store of what came, a fence.
pub(super) fn load(system: &System, case: &Case, seed: u64) -> Result<f64, PaperError> {
    let (bytes, store) = (case.bytes, Ps::ns(system.gpu.store_ns));
    grid(system, 1, seed, move |block| {
        block.load(1, bytes);
        block.work(store);
        block.fence();
    })
}

/// `bench_ggas_store`: a copy to the other node, and a fence.
pub(super) fn store_all(system: &System, case: &Case, seed: u64) -> Result<f64, PaperError> {
    let (share, load, fence) = (Share::of(case), look(system), Ps::ns(system.gpu.fence_ns));
    grid(system, case.blocks, seed, move |block| {
        share.store(block, load);
        release(block, fence);
    })
}

/// `bench_ggas_load`: a copy from the other node.
pub(super) fn load_all(system: &System, case: &Case, seed: u64) -> Result<f64, PaperError> {
    let (share, store) = (Share::of(case), Ps::ns(system.gpu.store_ns));
    grid(system, case.blocks, seed, move |block| {
        for bytes in share.parts() {
            block.load(1, bytes);
            block.work(store);
        }
        block.fence();
    })
}

/// From the first block's beginning to the last one's end, in us: a round of a kernel of node 0.
fn grid(
    system: &System,
    blocks: usize,
    seed: u64,
    program: impl Fn(&Block<'_>) + Clone + Send + Sync + 'static,
) -> Result<f64, PaperError> {
    let timed = Timed::new(system, 2, seed)?;
    let times = Memory::new(Vec::new());
    on_all(&timed, 1, |node| {
        let (times, program) = (times.clone(), program.clone());
        node.stream(0).launch(Kernel::new("copy", blocks), move |block| {
            let begin = block.now();
            program(&block);
            times.lock().push((begin, block.now()));
        });
        node.stream(0).synchronize();
    });
    let times = times.lock();
    let begin = times.iter().map(|time| time.0).min().unwrap_or_default();
    let end = times.iter().map(|time| time.1).max().unwrap_or_default();
    Ok((end - begin).as_us())
}
