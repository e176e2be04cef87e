//! Places for kernels whose blocks are all resident at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::GpuError;
use crate::fit::{self, Load};
use crate::gpu::Gpu;
use crate::launch::Launch;

/// What lives on the GPUs now: all [`Running`] sets and the copiers, for the fit check.
static RESIDENT: Mutex<Vec<Resident>> = Mutex::new(Vec::new());

#[derive(Clone, Copy)]
struct Resident {
    id: u64,
    gpu: usize,
    load: Load,
}

fn resident() -> MutexGuard<'static, Vec<Resident>> {
    RESIDENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Places for kernels on their GPUs, beside all that is resident; given back on drop.
pub(crate) struct Reservation(u64);

impl Reservation {
    /// Reserves places for all blocks of `launches` at once, or fails.
    pub fn new(launches: &[Launch<'_>]) -> Result<Reservation, GpuError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut wanted = Vec::with_capacity(launches.len());
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        for launch in launches {
            let (_, load) = launch.prepare()?;
            wanted.push(Resident { id, gpu: launch.gpu().ordinal(), load });
        }
        let mut table = resident();
        for launch in launches {
            let gpu = launch.gpu();
            let here = |entry: &&Resident| entry.gpu == gpu.ordinal();
            let loads: Vec<_> = table.iter().chain(&wanted).filter(here).map(|entry| entry.load).collect();
            if loads.len() > fit::MAX_GRIDS || !fit::fits(&loads, gpu.info().multiprocessors) {
                return Err(does_not_fit(gpu, launches, table.iter().filter(here).count()));
            }
        }
        table.extend(wanted);
        Ok(Reservation(id))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        resident().retain(|entry| entry.id != self.0);
    }
}

fn does_not_fit(gpu: &Gpu, launches: &[Launch<'_>], others: usize) -> GpuError {
    let here = launches.iter().filter(|launch| launch.gpu() == gpu);
    let mut kernels = here.map(Launch::describe).collect::<Vec<_>>().join(" + ");
    if others > 0 {
        kernels += &format!(" beside {others} resident kernel(s)");
    }
    GpuError::DoesNotFit { gpu: gpu.ordinal(), kernels, sms: gpu.info().multiprocessors }
}
