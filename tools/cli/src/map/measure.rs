//! Copies between the GPUs of this host, for `ggas map --measure`.

use crate::failure::{Failure, chain};
use ggas_gpu::{DeviceBuffer, Event, Gpu, GpuError, Stream};
use ggas_mapping::{Topology, counted};
use std::time::Duration;

/// Copies one after the other that are timed together: of short ones, and of long ones.
const ROUNDS: [u32; 2] = [64, 8];
/// Times that is done: the middle one counts.
const TRIALS: usize = 5;

/// The topology of this host with the figures of its channels.
pub fn measure(topology: &Topology) -> Result<Topology, Failure> {
    let failed =
        |error: GpuError| Failure::Failed(format!("measuring {}: {}", topology.name(), chain(&error)));
    let gpus = gpus(topology)?;
    if let [one] = &gpus[..] {
        eprintln!("ggas: GPU {} is alone: there is nothing to measure", one.0.ordinal());
        return Ok(topology.clone());
    }
    topology.measured(|from, to, bytes| gpus[from].time(&gpus[to], bytes as usize)).map_err(failed)
}

/// In the order of their PCI addresses, which is NVML's and sysfs'.
fn gpus(topology: &Topology) -> Result<Vec<Place>, Failure> {
    let failed = |error: GpuError| Failure::Failed(chain(&error));
    let mut gpus = Gpu::all().map_err(failed)?;
    gpus.sort_by(|one, other| one.info().pci.cmp(&other.info().pci));
    if gpus.len() != topology.places() {
        return Err(Failure::Failed(format!(
            "CUDA sees {}, but {} has {}: measure without CUDA_VISIBLE_DEVICES",
            counted(gpus.len(), "GPU"),
            topology.name(),
            topology.places()
        )));
    }
    gpus.into_iter().map(Place::new).collect::<Result<_, _>>().map_err(failed)
}

/// A GPU with memory to copy.
struct Place(Gpu, DeviceBuffer, Stream);

impl Place {
    fn new(gpu: Gpu) -> Result<Place, GpuError> {
        let memory = gpu.alloc(Topology::LONGEST_COPY as usize)?;
        let stream = gpu.stream()?;
        Ok(Place(gpu, memory, stream))
    }

    /// Of a copy to another GPU that waits for the one before it.
    fn time(&self, to: &Place, bytes: usize) -> Result<Duration, GpuError> {
        let (begun, ended) = (Event::new(&self.0)?, Event::new(&self.0)?);
        let rounds = ROUNDS[usize::from(bytes > 2048)];
        let mut trials = Vec::with_capacity(TRIALS);
        for _ in 0..TRIALS {
            begun.record(&self.2)?;
            for _ in 0..rounds {
                // SAFETY: both have this many bytes and outlive the copy, which is waited for; nobody else uses them.
                unsafe { self.2.copy(to.1.address(), self.1.address(), bytes) }?;
            }
            ended.record(&self.2)?;
            self.2.wait("copies between two GPUs", Duration::from_secs(20))?;
            trials.push(ended.since(&begun)? / rounds);
        }
        trials.sort_unstable();
        Ok(trials[TRIALS / 2])
    }
}
