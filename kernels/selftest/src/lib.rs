//! Kernels that only tests start: those that check the headers for kernels on whatever runs them, those of the GPU
//! self-test, and those with a planted bug that the CPU executor has to catch. They are an image of their own, so that
//! programs that use the library do not carry them.
//!
//! ```
//! use ggas_kernels::{Processor, start};
//! use ggas_selftest::args::planted_args;
//!
//! let cpu = Processor::cpu();
//! let flag = cpu.alloc(8)?;
//! flag.store_u64(0, 42)?;
//! let args = planted_args { flag: flag.address() };
//! // SAFETY: the structure is this kernel's, and the memory lives beyond the wait.
//! let launch = unsafe { ggas_selftest::launch(&cpu, "planted_unbounded_wait", 1, 32, &args) };
//! start(&[launch])?.wait(std::time::Duration::from_secs(10))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[allow(missing_docs, non_camel_case_types)]
#[rustfmt::skip]
pub mod args;

use ggas_kernels::{Launch, Processor};

ggas_kernels::kernels! {
    /// All of them, each with the structure of its arguments.
    pub static KERNELS = [
        ggas_selftest_threads(args::selftest_threads),
        ggas_selftest_map(args::selftest_map),
        ggas_selftest_blocks(args::selftest_blocks),
        ggas_selftest_edge(args::selftest_edge),
        ggas_selftest_parts(args::selftest_parts),
        ggas_selftest_vocab(args::selftest_vocab),
        ggas_selftest_rma(args::selftest_rma),
        ggas_selftest_posts(args::selftest_posts),
        ggas_selftest_rma_calls(args::selftest_rma_calls),
        ggas_selftest_rubbish(args::selftest_rubbish),
        ggas_selftest_velo(args::selftest_velo),
        ggas_selftest_verbs(args::selftest_verbs),
        ggas_selftest_coll(args::selftest_coll),
        ggas_selftest_coll_types(args::selftest_coll),
        ggas_selftest_window(args::selftest_window),
        ggas_selftest_put(args::selftest_put),
        ggas_selftest_calls(args::selftest_calls),
        ggas_selftest_access(args::selftest_access),
        ggas_selftest_proxy(args::selftest_proxy),
        ggas_selftest_tn(args::selftest_tn),
        ggas_selftest_queue(args::selftest_queue),
        ggas_selftest_gaspi(args::selftest_gaspi),
        ggas_selftest_gmpi(args::selftest_gmpi),
        ggas_gputest_ping(args::gputest_ping),
        ggas_gputest_hold(args::gputest_hold),
        ggas_gputest_poke(args::gputest_poke),
        ggas_gputest_fault(args::gputest_fault),
        planted_unbounded_wait(args::planted_args),
        planted_no_pause(args::planted_args),
        planted_divergent_exit(args::planted_args),
        planted_divergent_barrier(args::planted_args),
        planted_divergent_warp(args::planted_args),
    ];
}

/// Names and numbers of methods.
macro_rules! methods {
    ($($method:ident),* $(,)?) => { [$((stringify!($method), args::$method)),*] };
}

/// All collectives of `ggas_selftest_coll`, each with its name.
pub const COLLECTIVES: [(&str, u32); 21] = methods![
    SELFTEST_SYNC,
    SELFTEST_BARRIER,
    SELFTEST_BARRIER_MASTER,
    SELFTEST_ALLREDUCE,
    SELFTEST_ALLREDUCE_ONE_SHOT,
    SELFTEST_ALLREDUCE_TWO_SHOT,
    SELFTEST_ALLREDUCE_READ,
    SELFTEST_ALLREDUCE_GATHER,
    SELFTEST_ALLREDUCE_ALL_GATHER,
    SELFTEST_ALLREDUCE_TREE,
    SELFTEST_ALLREDUCE_ALL_TO_ALL,
    SELFTEST_ALLREDUCE_WINDOW,
    SELFTEST_REDUCE,
    SELFTEST_REDUCE_READ,
    SELFTEST_REDUCE_GATHER,
    SELFTEST_REDUCE_TREE,
    SELFTEST_REDUCE_ALL_TO_ALL,
    SELFTEST_REDUCE_SCATTER,
    SELFTEST_BROADCAST,
    SELFTEST_ALL_GATHER,
    SELFTEST_ALL_TO_ALL,
];

/// Makes them known. [`launch`] does so, too; tests on GPUs call this first, as a GPU loads all kernels when it is
/// opened. Again does nothing.
///
/// # Panics
/// Where another crate has taken one of their names, or their structures here are not those in C++.
pub fn add() {
    ggas_kernels::add(&KERNELS).expect("the kernels of the tests have names and structures of their own");
}

/// Where tests run kernels of rank `rank`: on the CPU executor, or on the first `GGAS_TEST_GPUS` GPUs by turns.
///
/// # Panics
/// Where there is no such GPU.
pub fn processor(rank: usize) -> Processor {
    add();
    match std::env::var("GGAS_TEST_GPUS") {
        Ok(gpus) => Processor::gpu(rank % gpus.parse::<usize>().expect("a number of GPUs")).expect("a GPU"),
        Err(_) => Processor::cpu(),
    }
}

/// Whether [`processor`] gives GPUs.
pub fn on_gpus() -> bool {
    std::env::var_os("GGAS_TEST_GPUS").is_some()
}

/// A launch of one of them.
///
/// # Safety
/// As of [`Launch::new`]: `T` is the structure that [`KERNELS`] names for this kernel, and every address in it is valid
/// on `processor` until the launch was waited for.
///
/// # Panics
/// As [`add`].
pub unsafe fn launch<'a, T: Copy>(
    processor: &'a Processor,
    kernel: &'a str,
    grid: u32,
    block: u32,
    args: &T,
) -> Launch<'a> {
    add();
    // SAFETY: the caller's contract.
    unsafe { Launch::new(processor, kernel, grid, block, args) }
}
