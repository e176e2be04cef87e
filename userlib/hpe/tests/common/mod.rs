//! The devices of tests.

#![allow(dead_code, reason = "not every test binary uses all")]

pub mod objects;

use ggas_gpu::Gpu;
use ggas_hpe::{Builder, Runtime};

/// Whether tests run on GPUs.
pub fn on_gpus() -> bool {
    std::env::var_os("GGAS_TEST_GPUS").is_some()
}

/// So many devices: of the CPU executor, or with `GGAS_TEST_GPUS` the first GPUs.
pub fn devices(count: usize) -> Builder {
    if on_gpus() {
        return Runtime::builder().gpus((0..count).map(|i| Gpu::open(i).expect("a GPU")).collect());
    }
    Runtime::builder().executors(count)
}
