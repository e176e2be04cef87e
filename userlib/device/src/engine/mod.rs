//! RMA without a CPU: ports of GPUs (or of the CPU executor) served by a small resident kernel beside them, the engine.
//!
//! Descriptors, notifications, translation and protection are the card's (spec 2 to 5), and kernels use the same
//! `rma.cuh`. Slot rings and notification queues of [kernels' ports](crate::Device::open_port_for_kernels) lie in memory of
//! the GPU whose kernels use them, so posting and polling never leave it (thesis 5.6.2), and what is posted is carried out
//! while the poster computes (thesis 6.11). `kernels/src/engine.cu` says how.
//!
//! The engines of a process's nodes, all of a network or one, run while somebody [holds](EngineNetwork::run) them or a
//! port is [armed](crate::PortDevice::arm), and keep what is under way in between. They run one block on each GPU. What
//! others send to a node whose engine does not run waits in its ring, and they wait once that is full, with whatever else
//! their warp serves.
//!
//! A network [across processes](EngineNetwork::across) outlives them: what is sent to a node whose process has ended is
//! refused and counted ([`EngineErrors::gone`]) with an error notification where one was asked for; what was under way
//! then is lost. Host posts to it fail with the rank. A put that such a process left half sent counts for nothing, what
//! it had sent before arrives.
//!
//! Differences from the card: the slot path only; no physical addresses, remote registers, interrupts, multicast, VELO
//! or SMFU; 32 VPIDs, of which all are the applications'. A put to a node that does not exist is an error of the
//! requester. Data and notifications of one port to one other keep their order; a get does not wait for puts before it.

mod memory;
mod network;
mod node;
mod port;
mod region;
mod runner;
mod shape;
mod shared;

use std::sync::{Mutex, MutexGuard, PoisonError};

use ggas_gpu::GpuError;
use ggas_kernels::{KernelMem, MemoryError};

pub use memory::{EngineMemory, engine_part_bytes};
pub use network::{EngineBuildError, EngineConfig, EngineNetwork};
pub use node::{EngineDevice, EngineErrors};
pub use runner::{EngineGuard, EngineLosses};

use crate::DeviceError;

/// State under these locks is consistent between any two statements that can panic, so poisoning says nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error of memory that was wanted for `what`.
fn refused(what: &'static str) -> impl FnOnce(MemoryError) -> DeviceError {
    move |error| match error {
        MemoryError::Gpu(error) => error.into(),
        MemoryError::NoMemory { bytes } | MemoryError::OutOfRange { len: bytes, .. } => {
            DeviceError::Memory { what, bytes, source: std::io::ErrorKind::OutOfMemory.into() }
        }
        // Later kinds of errors of the same crate.
        other => DeviceError::Gpu(GpuError::Invalid(other.to_string())),
    }
}

/// Words of memory that kernels may be writing.
fn load_words(memory: &KernelMem, offset: usize, count: usize) -> Result<Vec<u64>, MemoryError> {
    match memory.device_buffer() {
        Some(_) => memory.read_u64s(offset, count),
        None => (0..count).map(|i| memory.load_u64(offset + 8 * i)).collect(),
    }
}

/// Words of memory that kernels may be reading.
fn store_words(memory: &KernelMem, offset: usize, words: &[u64]) -> Result<(), MemoryError> {
    match memory.device_buffer() {
        Some(_) => memory.write_u64s(offset, words),
        None => words.iter().enumerate().try_for_each(|(i, word)| memory.store_u64(offset + 8 * i, *word)),
    }
}
