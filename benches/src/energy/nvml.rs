//! GPUs' own counters of energy, by NVIDIA's management library, which comes with the driver.
//!
//! On an H200 the counter changes every 100 ms, and reading it takes 2.8 ms.

use std::ffi::OsStr;
use std::sync::Arc;

use nvml_wrapper::Nvml;

use super::Class;
use super::counter::{Component, Counter, Found};

/// The name that drivers install; that without a number is for developers.
const LIBRARY: &str = "libnvidia-ml.so.1";

struct Gpu {
    nvml: Arc<Nvml>,
    pci: String,
}

impl Counter for Gpu {
    fn joules(&mut self) -> Result<f64, String> {
        let read = || self.nvml.device_by_pci_bus_id(&*self.pci)?.total_energy_consumption();
        read().map(|millijoules| millijoules as f64 / 1e3).map_err(|error| error.to_string())
    }
}

/// The first `count` GPUs of this process.
pub(super) fn gpus(count: u32) -> Found {
    let gpus = match ggas_gpu::probe() {
        Ok(gpus) => gpus,
        Err(error) => return Found::missing("gpu", error.to_string()),
    };
    let nvml = match Nvml::builder().lib_path(OsStr::new(LIBRARY)).init() {
        Ok(nvml) => Arc::new(nvml),
        Err(error) => {
            return Found::missing("gpu", format!("{LIBRARY}, which comes with the driver: {error}"));
        }
    };
    let mut found = Found::default();
    for gpu in gpus.into_iter().take(count as usize) {
        let name = format!("gpu {}", gpu.ordinal);
        let mut counter = Gpu { nvml: nvml.clone(), pci: gpu.pci };
        found.extend(match counter.joules() {
            Ok(_) => {
                let source = format!("NVML's total energy of {}", counter.pci);
                let counter = Box::new(counter);
                let component = Component { class: Class::Gpu, name, source, counter, wraps_at: None };
                Found { components: vec![component], ..Found::default() }
            }
            Err(reason) => Found::missing(&name, format!("NVML's total energy: {reason}")),
        });
    }
    found
}
