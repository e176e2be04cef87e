//! The devices of tests.

#![allow(dead_code, reason = "not every test binary uses all")]

pub mod cases;
pub mod objects;

use ggas_gpu::Gpu;
use ggas_hpe::address::DeviceId;
use ggas_hpe::{Builder, Runtime};

/// Whether tests run on GPUs.
pub fn on_gpus() -> bool {
    std::env::var_os("GGAS_TEST_GPUS").is_some()
}

/// GPUs that tests may use, if they run on GPUs.
fn gpus() -> Option<usize> {
    let gpus = std::env::var("GGAS_TEST_GPUS").ok()?;
    Some(gpus.parse().expect("GGAS_TEST_GPUS is a number"))
}

/// So many devices: of the CPU executor, or with `GGAS_TEST_GPUS` so many of the first GPUs, as far as they go.
pub fn devices(count: usize) -> Builder {
    match gpus() {
        Some(gpus) => {
            let open = |i| Gpu::open(i).expect("a GPU");
            Runtime::builder().gpus((0..count.min(gpus)).map(open).collect())
        }
        None => Runtime::builder().executors(count),
    }
}

/// The first device and the last one: two, but on one GPU.
pub fn pair(runtime: &Runtime) -> [DeviceId; 2] {
    let devices = runtime.devices();
    [devices[0], devices[devices.len() - 1]]
}
