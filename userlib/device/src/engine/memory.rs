//! Memory that engines share: a part for each node, with its state and the rings that nodes write to.

use std::fmt::Debug;
use std::sync::Arc;

use ggas_kernels::args::{ENGINE_CLASSES, ENGINE_LINES, engine_line, engine_node};
use ggas_kernels::{KernelMem, MemoryError, Processor};

use super::refused;
use crate::{Departures, DeviceError, LostPeer};

/// Where the rings of a part begin: behind the state, aligned as memory for kernels is.
pub(super) const RINGS_AT: usize = size_of::<engine_node>().next_multiple_of(256);

/// Bytes of a node's part in a network of `nodes`.
pub fn engine_part_bytes(nodes: usize) -> usize {
    let lines = ENGINE_CLASSES as usize * nodes * ENGINE_LINES as usize;
    RINGS_AT + lines * size_of::<engine_line>()
}

/// Memory of a network of engines, for which other crates have ways across processes: a part of
/// [`engine_part_bytes`] for each node, zeroed before any engine runs. Words are aligned and little-endian; loads
/// acquire and stores release, whatever kernels do to the same words. Offsets are in bytes and lie inside the part.
///
/// # Safety
/// Until the value is dropped, [`address`](Self::address) is that of a part which kernels of this process's
/// processors, and of all other processes', read and write.
pub unsafe trait EngineMemory: Debug + Send + Sync {
    /// Where kernels of this process reach the part of `node`; aligned to 256 bytes.
    fn address(&self, node: u16) -> u64;

    /// Loads words of the part of `node`.
    ///
    /// # Errors
    /// [`DeviceError::Gpu`].
    fn load(&self, node: u16, offset: usize, words: &mut [u64]) -> Result<(), DeviceError>;

    /// Stores words to the part of `node`.
    ///
    /// # Errors
    /// [`DeviceError::Gpu`].
    fn store(&self, node: u16, offset: usize, words: &[u64]) -> Result<(), DeviceError>;

    /// Stores half a word, and leaves the other half alone.
    ///
    /// # Errors
    /// [`DeviceError::Gpu`].
    fn store_u32(&self, node: u16, offset: usize, value: u32) -> Result<(), DeviceError>;

    /// Counts the processes that are gone.
    fn departures(&self) -> Departures {
        Departures::default()
    }

    /// The process of a node, if it is gone.
    fn lost(&self, _node: u16) -> Option<LostPeer> {
        None
    }
}

/// Memory of nodes that are all in this process.
#[derive(Debug)]
pub(super) struct OwnMemory(Vec<KernelMem>);

impl OwnMemory {
    pub(super) fn new(processors: &[Processor]) -> Result<OwnMemory, DeviceError> {
        let bytes = engine_part_bytes(processors.len());
        let parts = processors.iter().map(|processor| processor.alloc(bytes).map_err(refused("an engine")));
        Ok(OwnMemory(parts.collect::<Result<_, _>>()?))
    }

    fn part(
        &self,
        node: u16,
        what: impl FnOnce(&KernelMem) -> Result<(), MemoryError>,
    ) -> Result<(), DeviceError> {
        what(&self.0[usize::from(node)]).map_err(refused("an engine's state"))
    }
}

// SAFETY: the parts are kernel memory of this process's processors, and live as long as the value.
unsafe impl EngineMemory for OwnMemory {
    fn address(&self, node: u16) -> u64 {
        self.0[usize::from(node)].address()
    }

    fn load(&self, node: u16, offset: usize, words: &mut [u64]) -> Result<(), DeviceError> {
        self.part(node, |memory| {
            let loaded = super::load_words(memory, offset, words.len())?;
            words.copy_from_slice(&loaded);
            Ok(())
        })
    }

    fn store(&self, node: u16, offset: usize, words: &[u64]) -> Result<(), DeviceError> {
        self.part(node, |memory| super::store_words(memory, offset, words))
    }

    fn store_u32(&self, node: u16, offset: usize, value: u32) -> Result<(), DeviceError> {
        self.part(node, |memory| memory.store_u32(offset, value))
    }
}

/// The state of a node, `struct engine_node`, at the begin of its part.
#[derive(Debug)]
pub(super) struct State {
    memory: Arc<dyn EngineMemory>,
    node: u16,
}

impl State {
    pub(super) fn new(memory: Arc<dyn EngineMemory>, node: u16) -> State {
        State { memory, node }
    }

    pub(super) fn memory(&self) -> &Arc<dyn EngineMemory> {
        &self.memory
    }

    /// Words that kernels may be writing.
    pub(super) fn load(&self, offset: usize, count: usize) -> Result<Vec<u64>, DeviceError> {
        let mut words = vec![0; count];
        self.memory.load(self.node, offset, &mut words)?;
        Ok(words)
    }

    /// Words that kernels may be reading.
    pub(super) fn store(&self, offset: usize, words: &[u64]) -> Result<(), DeviceError> {
        self.memory.store(self.node, offset, words)
    }

    pub(super) fn store_u32(&self, offset: usize, value: u32) -> Result<(), DeviceError> {
        self.memory.store_u32(self.node, offset, value)
    }
}
