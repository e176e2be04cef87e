//! Numbers in memory of a runtime's device, by one pointer for the host's copies and all devices' kernels.

use std::ops::Range;

use ggas_gpu::{Gpu, ManagedBuffer};
use ggas_hpe::{HpeError, Runtime};

use crate::BenchError;
use crate::error::Doing;

/// Memory that lives as long as the runtime. `T`: a number, of which all bytes are good.
pub(super) struct Array<T> {
    runtime: Runtime,
    start: *mut T,
    inside: u64,
    len: usize,
    _managed: Option<ManagedBuffer>,
}

// SAFETY: an address, used by copies and kernels; who may use it when is for the programs to order.
unsafe impl<T> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Array<T> {}

impl<T: Copy + Default> Array<T> {
    /// `len` numbers of the device with this place in the runtime.
    pub fn new(runtime: &Runtime, device: usize, len: usize) -> Result<Self, BenchError> {
        Self::made(runtime, len, |bytes| runtime.alloc(runtime.devices()[device], bytes))
    }

    /// The same as a shared object, which the host touches as it likes.
    pub fn shared(runtime: &Runtime, device: usize, len: usize) -> Result<Self, BenchError> {
        Self::made(runtime, len, |bytes| runtime.alloc_shared(runtime.devices()[device], bytes))
    }

    fn made(
        runtime: &Runtime,
        len: usize,
        alloc: impl FnOnce(usize) -> Result<*mut u8, HpeError>,
    ) -> Result<Self, BenchError> {
        let start = alloc(len.max(1) * size_of::<T>()).doing("allocating memory of a device")?;
        let inside = runtime.device_address(start).doing("asking where kernels find memory")?;
        Ok(Array { runtime: runtime.clone(), start: start.cast(), inside, len, _managed: None })
    }

    /// CUDA's managed memory, which the host touches as it likes, too.
    pub fn managed(runtime: &Runtime, gpu: &Gpu, len: usize) -> Result<Self, BenchError> {
        let bytes = len.max(1) * size_of::<T>();
        let managed = gpu.alloc_managed(bytes).doing("allocating managed memory")?;
        let inside = managed.address();
        let start = inside as *mut T;
        Ok(Array { runtime: runtime.clone(), start, inside, len, _managed: Some(managed) })
    }

    /// Where kernels find number `at`, of whatever device.
    pub fn kernels(&self, at: usize) -> u64 {
        debug_assert!(at <= self.len);
        self.inside + (at * size_of::<T>()) as u64
    }

    /// The host's pointer to number `at`.
    fn pointer(&self, at: usize) -> *mut T {
        debug_assert!(at <= self.len);
        self.start.wrapping_add(at)
    }

    /// The pointer by which the object is known.
    pub fn object(&self) -> *const u8 {
        self.start.cast_const().cast()
    }

    /// Copies `values` to number `at` and on.
    pub fn write(&self, at: usize, values: &[T]) -> Result<(), BenchError> {
        let (to, from) = (self.pointer(at).cast(), values.as_ptr().cast());
        // SAFETY: the slice is memory; the runtime checks the device's range, which no kernel uses meanwhile.
        unsafe { self.runtime.copy(to, from, size_of_val(values)) }.doing("copying to a device")
    }

    /// Copies numbers out.
    pub fn read(&self, at: usize, values: &mut [T]) -> Result<(), BenchError> {
        let (to, from) = (values.as_mut_ptr().cast(), self.pointer(at).cast_const().cast());
        // SAFETY: as above.
        unsafe { self.runtime.copy(to, from, size_of_val(values)) }.doing("copying from a device")
    }

    /// The same as a new list.
    pub fn list(&self, range: Range<usize>) -> Result<Vec<T>, BenchError> {
        let mut values = vec![T::default(); range.len()];
        self.read(range.start, &mut values)?;
        Ok(values)
    }

    /// Copies `len` numbers from another device by one call, whatever way they go.
    pub fn take(&self, at: usize, from: &Array<T>, other: usize, len: usize) -> Result<(), BenchError> {
        let (to, from) = (self.pointer(at).cast(), from.pointer(other).cast_const().cast());
        // SAFETY: the runtime checks both ranges; neither is used by others meanwhile.
        unsafe { self.runtime.copy(to, from, len * size_of::<T>()) }.doing("copying between devices")
    }

    /// Numbers of a shared object, or of managed memory, as the host sees them.
    ///
    /// # Safety
    /// It is one, and no kernel writes these numbers meanwhile.
    pub unsafe fn seen(&self, range: Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the object; the caller's contract.
        unsafe { std::slice::from_raw_parts(self.pointer(range.start), range.len()) }
    }

    /// The same to write to.
    ///
    /// # Safety
    /// It is one, and nobody else uses these numbers meanwhile.
    #[allow(clippy::mut_from_ref)] // as for a cell
    pub unsafe fn seen_mut(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the object; the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(range.start), range.len()) }
    }
}

/// The bytes of numbers.
pub(super) fn bytes_of<T: Copy>(values: &[T]) -> &[u8] {
    // SAFETY: numbers of this module's kinds have no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The same to write to: all bytes are good.
pub(super) fn bytes_of_mut<T: Copy>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
