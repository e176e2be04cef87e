//! Reading triggers of kernels from a ring of slots.

use std::sync::atomic::{AtomicU64, Ordering};

use ggas_device::{DeviceError, HostBuffer, PAGE, Slot, SlotMap};

/// A ring in memory of this library, for a reader that is a thread of the host.
pub(crate) struct TagRing {
    memory: HostBuffer,
    slots: u32,
}

impl TagRing {
    pub(crate) fn new(slots: u32) -> Result<TagRing, DeviceError> {
        const MOST: u32 = 1 << 16;
        if !slots.is_power_of_two() || slots > MOST {
            return Err(DeviceError::SlotCount { slots, max: MOST });
        }
        let memory = HostBuffer::zeroed(PAGE + slots as usize * size_of::<Slot>())?;
        Ok(TagRing { memory, slots })
    }

    pub(crate) fn map(&self) -> SlotMap {
        let base = std::ptr::NonNull::from(self.memory.word(PAGE)).cast();
        SlotMap { base, slots: self.slots, consumed: self.memory.word(0).into() }
    }

    /// The words of entry `index` of the running count, once it is there.
    pub(crate) fn entry(&self, index: u64) -> Option<[u64; 3]> {
        let at = PAGE + (index % u64::from(self.slots)) as usize * size_of::<Slot>();
        let word = |i: usize| self.memory.word(at + 8 * i);
        if word(3).load(Ordering::Acquire) != index.wrapping_add(1) {
            return None;
        }
        Some([0, 1, 2].map(|i| AtomicU64::load(word(i), Ordering::Relaxed)))
    }

    /// Frees all slots before `index`.
    pub(crate) fn free(&self, index: u64) {
        self.memory.word(0).store(index, Ordering::Release);
    }
}
