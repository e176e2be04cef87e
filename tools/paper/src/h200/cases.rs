//! The rows of the benchmarks' results, in the shapes that `benches/src/bench` gives them on a GPU.

use super::Case;

/// Bytes of a thread's word in `ggas-pingpong`.
const WORD: u64 = 8;
const THREADS: [u64; 6] = [1, 8, 32, 128, 512, 1024];
const WARP: u64 = 32;

fn words(form: &'static str, threads: u64, added_at: (&'static str, u64)) -> Case {
    Case { form, bytes: WORD * threads, blocks: 1, threads, added_at, gave_rate: false }
}

/// `ggas-pingpong`, `write`.
pub(super) fn stores() -> Vec<Case> {
    THREADS.map(|threads| words("write", threads, ("write", WORD))).into()
}

/// `ggas-pingpong`, `read`. Blocks of one warp and of several have a fence each: two sizes.
pub(super) fn loads() -> Vec<Case> {
    let of = |threads: u64| if threads <= WARP { WORD } else { 1024 };
    THREADS.map(|threads| words("read", threads, ("read", of(threads)))).into()
}

/// `ggas-bandwidth`: 128 blocks of 512 threads.
pub(super) fn copies() -> Vec<Case> {
    let case = |form: &'static str, bytes: u64| Case {
        form,
        bytes,
        blocks: 128,
        threads: 512,
        added_at: (form, 64 << 10),
        gave_rate: false,
    };
    ["store", "load"]
        .into_iter()
        .flat_map(|form| [64 << 10, 1 << 20, 16 << 20].map(|bytes| case(form, bytes)))
        .collect()
}

/// `put-signal`. Warps, blocks and grids meet as the block of 8 B does; a thread has nobody to meet.
pub(super) fn puts() -> Vec<Case> {
    let case = |form: &'static str, bytes: u64, blocks: usize, threads: u64| {
        let added_at = (if form == "thread" { form } else { "block" }, 8);
        // `gpu.block_store_bytes_per_ns` is of these two.
        let gave_rate = form == "block" && bytes >= 256 << 10;
        Case { form, bytes, blocks, threads, added_at, gave_rate }
    };
    let threads = |bytes: u64| bytes.div_ceil(16).clamp(WARP, 512).next_multiple_of(WARP);
    let mut cases = Vec::new();
    cases.extend([8, 64].map(|bytes| case("thread", bytes, 1, 1)));
    cases.extend([8, 64, 256, 1024].map(|bytes| case("warp", bytes, 1, WARP)));
    cases.extend(
        [8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]
            .map(|bytes| case("block", bytes, 1, threads(bytes))),
    );
    cases.extend(
        [(16 << 10, 2), (64 << 10, 8), (256 << 10, 32), (1 << 20, 64)]
            .map(|(bytes, blocks)| case("grid", bytes, blocks, threads(bytes / blocks as u64))),
    );
    cases
}
