//! Segments in the memory of GPUs (thesis 4.4), or of executors in their place, and segments that kernels reach.

mod attached;
mod calls;
mod config;
mod context;
mod direct;
mod locality;
mod memory;
mod near;
mod pieces;
mod reduce;
mod staged;
mod standby;
mod sums;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use extoll_abi::layout::{GGAS_GASPI_SEGMENTS, GGAS_MEMORY_TRACED_BIT, ggas_gaspi_part};
use ggas::Processor;
use ggas::kernels::KernelMem;
use ggas::members::Trace;

use crate::GaspiError;
use crate::error::because;

pub use calls::Policy;
pub use config::{GpuConfig, GpuCopies, GpuWay};
pub use context::GpuContext;
pub(crate) use memory::{Memory, Told};
pub(crate) use near::{Near, Nears};

use direct::Lanes;
use staged::Staging;
use sums::Sums;

/// What a process has of GPUs.
#[derive(Debug, Default)]
pub(crate) struct Gpus {
    begun: OnceLock<Begun>,
    nears: RwLock<Nears>,
}

/// Since GPUs were initialised.
#[derive(Debug)]
struct Begun {
    processor: Processor,
    config: GpuConfig,
    /// Hosts write between GPUs without the network device.
    is_direct: bool,
    /// `ggas_gaspi_part` by rank and segment, for kernels.
    table: KernelMem,
    lanes: Mutex<Lanes>,
    staging: Mutex<Option<Staging>>,
    sums: Sums,
    /// By rank: requests went through the card since it was last seen that they have arrived.
    card_used: Vec<AtomicBool>,
}

impl Gpus {
    fn begun(&self) -> Option<&Begun> {
        self.begun.get()
    }

    /// Where kernels of this process run, once that was asked for.
    pub(crate) fn processor(&self) -> Option<&Processor> {
        self.begun().map(|begun| &begun.processor)
    }

    /// The same, and the address of the table of segments.
    fn kernels(&self) -> Option<(&Processor, u64)> {
        self.begun().map(|begun| (&begun.processor, begun.table.address()))
    }

    fn nears(&self) -> std::sync::RwLockReadGuard<'_, Nears> {
        self.nears.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn nears_mut(&self) -> std::sync::RwLockWriteGuard<'_, Nears> {
        self.nears.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request to a rank goes through the card.
    pub(crate) fn card_used(&self, rank: usize) {
        if let Some(begun) = self.begun() {
            begun.card_used[rank].store(true, Ordering::Relaxed);
        }
    }
}

impl Begun {
    fn new(
        processor: Processor,
        config: GpuConfig,
        is_direct: bool,
        ranks: usize,
    ) -> Result<Begun, GaspiError> {
        let parts = ranks * GGAS_GASPI_SEGMENTS as usize;
        let table = processor.alloc(parts * size_of::<ggas_gaspi_part>());
        let table = table.map_err(because(GaspiError::Memory))?;
        Ok(Begun {
            processor,
            config,
            is_direct,
            table,
            lanes: Mutex::default(),
            staging: Mutex::default(),
            sums: Sums::default(),
            card_used: (0..ranks).map(|_| AtomicBool::new(true)).collect(),
        })
    }

    /// Tells kernels where a segment is.
    fn show(&self, rank: usize, id: u8, near: Option<&Near>) -> Result<(), GaspiError> {
        let at = rank * GGAS_GASPI_SEGMENTS as usize + usize::from(id);
        // What kernels move to others' is counted where somebody asks ([`Queues`](ggas::Queues)).
        let traced = |near: &Near| u64::from(Trace::is_asked() && !near.is_own()) << GGAS_MEMORY_TRACED_BIT;
        let words = near.map_or([0; 4], |near| [near.data, near.bytes | traced(near), near.flags, 0]);
        let write = self.table.write_u64s(at * size_of::<ggas_gaspi_part>(), &words);
        write.map_err(because(GaspiError::Failed))
    }
}
