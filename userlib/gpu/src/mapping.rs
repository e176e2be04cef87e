//! Host memory that kernels access in place.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::error::{GpuError, code};
use crate::gpu::Gpu;
use crate::resident::gate;
use crate::sys::*;
use ggas_clock::{Backoff, Clock, Ladder};

/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`: for all GPUs of the process.
const PORTABLE_MAPPED: u32 =
    cudarc::driver::sys::CU_MEMHOSTREGISTER_PORTABLE | cudarc::driver::sys::CU_MEMHOSTREGISTER_DEVICEMAP;

/// For memory of another device: its pages are not locked, and the GPU reaches them over the bus.
const OF_DEVICE: u32 = cudarc::driver::sys::CU_MEMHOSTREGISTER_IOMEMORY;

/// What keeps memory: it goes when this is dropped, and not before.
pub type Keeper = Arc<dyn Any + Send + Sync>;

/// Existing host memory that is page-locked and mapped for all GPUs of this process.
///
/// Whole pages are registered, and a page only once: mappings that share pages share their registration. The last
/// one to go unregisters, as soon as no waiting kernel is resident.
#[derive(Debug)]
pub struct HostMapping {
    address: u64,
    bytes: usize,
    _pages: Vec<Arc<Pages>>,
}

/// One registration with the driver.
#[derive(Debug)]
struct Pages {
    gpu: Gpu,
    start: usize,
    end: usize,
    /// Of the mappings that used the pages: dropped once the driver has forgotten them.
    keepers: Mutex<Vec<Keeper>>,
}

/// All registrations by first address. A dead one is one that waits for kernels to end before the driver forgets it.
static REGISTERED: Mutex<BTreeMap<usize, Registered>> = Mutex::new(BTreeMap::new());

type Table = MutexGuard<'static, BTreeMap<usize, Registered>>;

struct Registered {
    end: usize,
    pages: Weak<Pages>,
}

impl Gpu {
    /// Maps host memory for kernels, to be accessed by them at [`HostMapping::address`].
    ///
    /// # Safety
    /// The memory must stay allocated until the mapping is dropped and, if kernels run then, until they have ended.
    ///
    /// # Errors
    /// [`GpuError::NotMappable`] says why; [`GpuError::Busy`] where the pages still belong to a mapping that was
    /// dropped while a kernel runs; driver errors.
    pub unsafe fn map_host(&self, memory: *const u8, bytes: usize) -> Result<HostMapping, GpuError> {
        self.map(memory, bytes, PORTABLE_MAPPED, None)
    }

    /// As [`map_host`](Self::map_host), of memory that `keeper` keeps: the mapping holds on to it until the driver has forgotten the pages,
    /// which may be long after the mapping was dropped, where a kernel runs then.
    ///
    /// # Safety
    /// The memory is allocated as long as `keeper` is.
    ///
    /// # Errors
    /// As [`map_host`](Self::map_host).
    pub unsafe fn map_kept(
        &self,
        memory: *const u8,
        bytes: usize,
        keeper: Keeper,
    ) -> Result<HostMapping, GpuError> {
        self.map(memory, bytes, PORTABLE_MAPPED, Some(keeper))
    }

    /// Maps what the driver of another device mapped for this process, registers of a network card say, for kernels, to be
    /// accessed by them at [`HostMapping::address`] (thesis 5.6.2).
    ///
    /// # Safety
    /// As [`map_host`](Self::map_host).
    ///
    /// # Errors
    /// As [`map_host`](Self::map_host).
    pub unsafe fn map_device(&self, memory: *const u8, bytes: usize) -> Result<HostMapping, GpuError> {
        let (start, end) = pages(memory as usize, bytes)?;
        // The GPU's driver looks for the pages in page tables, which drivers fill at the first access.
        // SAFETY: advice about the caller's own pages; where it is not understood nothing changes.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_WILLNEED) };
        self.map(memory, bytes, PORTABLE_MAPPED | OF_DEVICE, None)
    }

    fn map(
        &self,
        memory: *const u8,
        bytes: usize,
        flags: u32,
        keeper: Option<Keeper>,
    ) -> Result<HostMapping, GpuError> {
        let address = memory as usize;
        let (start, end) = pages(address, bytes)?;
        if !self.info().host_pointers_are_device_pointers {
            let why = "this GPU gives host memory other addresses than the host's".to_owned();
            return Err(GpuError::NotMappable { address, bytes, why });
        }
        self.enter()?;
        // Declared before the lock, so that on an error it is dropped after the lock: dropping pages takes it.
        let mut held = Vec::new();
        let mut registered = self.settled(start, end, address)?;
        for old in overlapping(&registered, start, end) {
            held.push(old.pages.upgrade().ok_or_else(|| busy(address))?);
        }
        let covered: Vec<_> = held.iter().map(|pages: &Arc<Pages>| (pages.start, pages.end)).collect();
        for (from, to) in gaps(start, end, &covered) {
            let pages = Arc::new(self.register(from, to, (address, bytes), flags)?);
            registered.insert(from, Registered { end: to, pages: Arc::downgrade(&pages) });
            held.push(pages);
        }
        for pages in held.iter().filter(|_| keeper.is_some()) {
            pages.keepers.lock().unwrap_or_else(PoisonError::into_inner).extend(keeper.clone());
        }
        Ok(HostMapping { address: address as u64, bytes, _pages: held })
    }

    /// The table, once no dropped registration of these pages is left in it.
    fn settled(&self, start: usize, end: usize, address: usize) -> Result<Table, GpuError> {
        let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, Duration::from_millis(200));
        loop {
            let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
            if overlapping(&registered, start, end).iter().all(|old| old.pages.strong_count() > 0) {
                return Ok(registered);
            }
            drop(registered);
            gate().exclusive("mapping host memory again that was unmapped while a kernel runs", || ())?;
            // What is left is being dropped by another thread just now.
            if backoff.pause().is_err() {
                return Err(busy(address));
            }
        }
    }

    /// Registers whole pages; `request` is what the caller asked for.
    fn register(
        &self,
        start: usize,
        end: usize,
        request: (usize, usize),
        flags: u32,
    ) -> Result<Pages, GpuError> {
        let pointer = start as *mut std::ffi::c_void;
        // SAFETY: the caller of `map_host` vouches for the memory; whole pages around it stay mapped with it. The
        // driver refuses addresses that are not mapped.
        let result = unsafe { cuMemHostRegister_v2(pointer, end - start, flags) };
        self.check("cuMemHostRegister", result).map_err(|error| refused(error, request, flags))?;
        let pages = Pages { gpu: self.clone(), start, end, keepers: Mutex::default() };
        let mut device = 0;
        // SAFETY: the memory is registered; `device` is written on success.
        let result = unsafe { cuMemHostGetDevicePointer_v2(&mut device, pointer, 0) };
        let identical = self.check("cuMemHostGetDevicePointer", result).map(|()| device == start as u64);
        match identical {
            Ok(true) => Ok(pages),
            other => {
                // Not in the table yet: forget it without the table's lock, which `map_host` holds.
                // SAFETY: registered above, and nobody knows of it.
                let _ = unsafe { cuMemHostUnregister(pointer) };
                std::mem::forget(pages);
                other?;
                let why = "this GPU gives it another address than the host's".to_owned();
                Err(GpuError::NotMappable { address: request.0, bytes: request.1, why })
            }
        }
    }
}

fn busy(address: usize) -> GpuError {
    GpuError::Busy { what: format!("mapping host memory at {address:#x} again") }
}

/// Explains a refused registration.
fn refused(error: GpuError, (address, bytes): (usize, usize), flags: u32) -> GpuError {
    let GpuError::Driver(error) = error else { return error };
    let why = match error.code {
        code::HOST_ALREADY_REGISTERED => {
            "other code of this process registered a part of it with CUDA: unregister it there".to_owned()
        }
        code::OUT_OF_MEMORY => "the system cannot lock so many pages: free memory or use less".to_owned(),
        _ if flags & OF_DEVICE != 0 => format!(
            "{error}; to reach another device's registers, kernels need a GPU whose driver has the option \
             NVreg_RegistryDwords=\"PeerMappingOverride=1;\", and that device on the same PCI root; otherwise run them on \
             the CPU executor"
        ),
        _ => format!("{error}; memory of devices and of files opened read-only cannot be registered"),
    };
    GpuError::NotMappable { address, bytes, why }
}

impl HostMapping {
    /// Its address for kernels, which is the host's.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether nothing is mapped; never true.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let (gpu, start) = (self.gpu.clone(), self.start);
        let keepers = std::mem::take(self.keepers.get_mut().unwrap_or_else(PoisonError::into_inner));
        gate().defer(move || {
            let forgotten = gpu.enter().and_then(|()| {
                // SAFETY: no mapping uses the pages any more, and the gate says that no kernel runs that could.
                let result = unsafe { cuMemHostUnregister(start as *mut std::ffi::c_void) };
                gpu.check("cuMemHostUnregister", result)
            });
            if let Err(error) = &forgotten {
                tracing::warn!("host memory at {start:#x} stays locked: {error}");
            }
            REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).remove(&start);
            // Memory that the driver still has, as it failed to forget it, stays.
            if forgotten.is_ok() { drop(keepers) } else { std::mem::forget(keepers) }
        });
    }
}

/// Whether kernels can access all of a host range: it is registered.
pub(crate) fn is_mapped(address: u64, len: usize) -> bool {
    let Ok((start, end)) = pages(address as usize, len.max(1)) else { return false };
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let covered: Vec<_> = overlapping_ranges(&registered, start, end);
    gaps(start, end, &covered).is_empty()
}

/// The whole pages around a range.
fn pages(address: usize, bytes: usize) -> Result<(usize, usize), GpuError> {
    let page = page_size();
    let end = address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(page));
    match end {
        Some(end) if address != 0 && bytes != 0 => Ok((address / page * page, end)),
        _ => {
            let why = "it is null, empty or passes the end of the address space".to_owned();
            Err(GpuError::NotMappable { address, bytes, why })
        }
    }
}

fn page_size() -> usize {
    static PAGE: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {
        // SAFETY: no arguments beyond the constant.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    });
    *PAGE
}

/// Registrations that share pages with `start..end`, in order.
fn overlapping(table: &BTreeMap<usize, Registered>, start: usize, end: usize) -> Vec<&Registered> {
    table.range(..end).filter(|(_, old)| old.end > start).map(|(_, old)| old).collect()
}

fn overlapping_ranges(table: &BTreeMap<usize, Registered>, start: usize, end: usize) -> Vec<(usize, usize)> {
    let alive = |old: &Registered| old.pages.strong_count() > 0;
    let found = table.range(..end).filter(|(_, old)| old.end > start && alive(old));
    found.map(|(first, old)| (*first, old.end)).collect()
}

/// The parts of `start..end` outside all of `covered`, which is sorted and disjoint.
fn gaps(start: usize, end: usize, covered: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut gaps = Vec::new();
    let mut at = start;
    for &(from, to) in covered {
        if from > at {
            gaps.push((at, from.min(end)));
        }
        at = at.max(to);
    }
    if at < end {
        gaps.push((at, end));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_registered() {
        let page = page_size();
        assert_eq!(pages(page + 1, 1), Ok((page, 2 * page)));
        assert_eq!(pages(page, page), Ok((page, 2 * page)));
        assert_eq!(pages(page + 8, page), Ok((page, 3 * page)));
        assert!(matches!(pages(0, 8), Err(GpuError::NotMappable { .. })));
        assert!(matches!(pages(page, 0), Err(GpuError::NotMappable { .. })));
        assert!(matches!(pages(usize::MAX - 1, 8), Err(GpuError::NotMappable { .. })));
        assert!(matches!(pages(usize::MAX - 1, 1), Err(GpuError::NotMappable { .. })));
    }

    #[test]
    fn only_pages_that_nobody_registered_are_registered() {
        assert_eq!(gaps(10, 20, &[]), [(10, 20)]);
        assert_eq!(gaps(10, 20, &[(5, 12), (15, 16), (18, 30)]), [(12, 15), (16, 18)]);
        assert_eq!(gaps(10, 20, &[(10, 20)]), []);
        assert_eq!(gaps(10, 20, &[(0, 30)]), []);
        assert_eq!(gaps(10, 20, &[(12, 14)]), [(10, 12), (14, 20)]);
    }
}
