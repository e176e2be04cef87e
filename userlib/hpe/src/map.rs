//! What kernels need to use memory of several devices by its pointers, and to count which accesses leave their device
//! (`kernels/include/ggas/hpe.cuh`; digest 2.2, 2.3).

use crate::address::{DeviceId, MAX_DEVICES, SEGMENT_BITS, SEGMENT_BYTES, VIEW_BIT, view};
use crate::error::HpeError;
use crate::layout::{GGAS_HPE_DEVICES, GGAS_HPE_SEGMENT_BITS, ggas_hpe_counts, ggas_hpe_map};
use crate::objects::Place;
use crate::runtime::Runtime;

const _: () = assert!(GGAS_HPE_SEGMENT_BITS == SEGMENT_BITS && GGAS_HPE_DEVICES == MAX_DEVICES as u32);

const COUNTS: usize = size_of::<ggas_hpe_counts>();
const MAP: usize = size_of::<ggas_hpe_map>();

/// Where some bytes begin, and how many they are.
type Bytes = (u64, u64);

/// Accesses of kernels with one [`Map`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteCounts {
    /// To memory of the device that ran the kernel.
    pub local: u64,
    /// That went to other devices: words, or lines where kernels keep those.
    pub remote: u64,
    /// Loads of other devices' memory that a kept line answered.
    pub kept: u64,
    /// To memory that the map does not have.
    pub outside: u64,
}

/// A `struct ggas_hpe_map` in memory of a device, for its kernels; freed on drop, when no kernel uses it any more.
pub struct Map {
    runtime: Runtime,
    /// The counters, then the map.
    memory: *mut u8,
    address: u64,
}

// SAFETY: an address of a device's memory, used by copies only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Runtime {
    /// For kernels of `device`: all of the object that `object` lies in, distributed or not; without one all segments of the executor,
    /// whose pointers tell their device.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); [`HpeError::Unknown`]; [`HpeError::Unmapped`] without an object for a GPU, for memory of the host, for a
    /// shared object, and where a device's parts do not lie side by side.
    pub fn map(&self, device: DeviceId, object: Option<*const u8>) -> Result<Map, HpeError> {
        let index = self.index(device)?;
        let is_gpu = self.inner.contexts[index].device.gpu().is_some();
        let (all, own) = match object {
            None if is_gpu => return Err(HpeError::Unmapped { address: 0 }),
            None => {
                let first = 1 << SEGMENT_BITS;
                let own = (view(device.segment()), SEGMENT_BYTES);
                ((view(first), SEGMENT_BYTES * u64::from(MAX_DEVICES)), own)
            }
            Some(object) => self.ranges(index, object as u64)?,
        };
        let memory = self.alloc(device, COUNTS + MAP)?;
        let address = self.device_address(memory)?;
        let map = ggas_hpe_map {
            begin: all.0,
            bytes: all.1,
            own: own.0,
            own_bytes: own.1,
            bit: if is_gpu { 0 } else { VIEW_BIT },
            counts: address,
        };
        let made = Map { runtime: self.clone(), memory, address };
        // SAFETY: bytes of a plain structure, to memory that was allocated just now.
        unsafe { self.copy(memory.wrapping_add(COUNTS), (&raw const map).cast(), MAP)? };
        Ok(made)
    }

    /// Where kernels find an object, and the device's part of it: begin and bytes.
    fn ranges(&self, index: usize, object: u64) -> Result<(Bytes, Bytes), HpeError> {
        let unmapped = HpeError::Unmapped { address: object };
        match self.place(object, 1)? {
            Place::Spread(spread, _) => {
                let (inside, stride) = (spread.inside(), spread.stride as u64);
                let range = |parts: std::ops::Range<usize>| {
                    (inside + parts.start as u64 * stride, parts.len() as u64 * stride)
                };
                let own = own_parts(&spread.parts, index).ok_or(unmapped)?;
                Ok((range(0..spread.parts.len()), range(own)))
            }
            Place::Device { index: holder, _kept: Some(kept), .. } => {
                let all = (kept.inside(), kept.len as u64);
                Ok((all, if holder == index { all } else { (all.0, 0) }))
            }
            _ => Err(unmapped),
        }
    }
}

/// The parts of a device, if they lie side by side.
fn own_parts(parts: &[usize], index: usize) -> Option<std::ops::Range<usize>> {
    let first = parts.iter().position(|part| *part == index).unwrap_or(0);
    let count = parts.iter().filter(|part| **part == index).count();
    let own = first..first + count;
    parts[own.clone()].iter().all(|part| *part == index).then_some(own)
}

impl Map {
    /// Where kernels find the map.
    pub fn address(&self) -> u64 {
        self.address + COUNTS as u64
    }

    /// What kernels that have ended counted since it was made.
    ///
    /// # Errors
    /// As [`Runtime::copy`].
    pub fn counts(&self) -> Result<RemoteCounts, HpeError> {
        let mut counts = ggas_hpe_counts { local: 0, remote: 0, kept: 0, outside: 0 };
        // SAFETY: a plain structure; the memory is this map's.
        unsafe { self.runtime.copy((&raw mut counts).cast(), self.memory, COUNTS)? };
        let ggas_hpe_counts { local, remote, kept, outside } = counts;
        Ok(RemoteCounts { local, remote, kept, outside })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: whoever drops it has waited for the kernels that use it.
        let _ = unsafe { self.runtime.free(self.memory) };
    }
}

#[cfg(test)]
mod tests {
    use super::own_parts;

    #[test]
    fn parts_of_a_device_lie_side_by_side() {
        assert_eq!(own_parts(&[0, 1, 1, 2], 1), Some(1..3));
        assert_eq!(own_parts(&[0, 1], 0), Some(0..1));
        assert_eq!(own_parts(&[0, 1], 7), Some(0..0), "none");
        assert_eq!(own_parts(&[1, 0, 1], 1), None);
    }
}
