//! Memory of a GPU, and how the host reads and writes it.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{GpuError, code};
use crate::gpu::Gpu;
use crate::ranges;
use crate::resident::gate;
use crate::stream::Stream;
use crate::sys::*;

/// Bound of a copy between host and GPU memory.
const COPY_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of the buffer through which the host reads and writes GPU memory.
const STAGING_BYTES: usize = 1 << 20;

/// Memory of one GPU, zeroed at first. Freed on drop, as soon as no waiting kernel is resident; unless it was
/// [borrowed](Self::borrow).
#[derive(Debug)]
pub struct DeviceBuffer {
    gpu: Gpu,
    address: u64,
    bytes: usize,
    owned: bool,
}

impl DeviceBuffer {
    /// Allocates and zeroes; `bytes` 0 allocates one byte, so that each buffer has an address of its own.
    pub(crate) fn new(gpu: &Gpu, bytes: usize) -> Result<DeviceBuffer, GpuError> {
        gpu.enter()?;
        let mut address = 0;
        // SAFETY: `address` is written on success.
        let result = gpu.check("cuMemAlloc", unsafe { cuMemAlloc_v2(&mut address, bytes.max(1)) });
        result.map_err(|error| out_of_memory(gpu, bytes, error))?;
        ranges::insert(address, bytes.max(1), gpu.ordinal());
        let buffer = DeviceBuffer { gpu: gpu.clone(), address, bytes, owned: true };
        zero(gpu, address, bytes)?;
        Ok(buffer)
    }

    /// Memory that somebody else has allocated in this GPU and frees, such as by `cudaMalloc`.
    ///
    /// # Safety
    /// So many bytes are allocated there, and stay so until this is dropped.
    ///
    /// # Errors
    /// [`GpuError::NotInMemory`].
    pub unsafe fn borrow(gpu: &Gpu, address: u64, bytes: usize) -> Result<DeviceBuffer, GpuError> {
        if Gpu::holder(address) != Some(gpu.ordinal()) {
            return Err(GpuError::NotInMemory { address, gpu: gpu.ordinal() });
        }
        Ok(DeviceBuffer { gpu: gpu.clone(), address, bytes, owned: false })
    }

    /// The GPU that holds it.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Whether other processes can open it by an IPC handle of CUDA, as MPI libraries do: memory of `cudaMalloc` and this crate's, not that of
    /// windows.
    pub fn has_ipc_handle(&self) -> bool {
        Gpu::has_ipc_handle(self.address)
    }

    /// Its address for kernels, aligned to 256 bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies bytes into it and returns when they are there. Does not wait for running kernels.
    ///
    /// # Errors
    /// [`GpuError::OutOfRange`]; [`GpuError::Timeout`] after 10 s; driver errors.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), GpuError> {
        check_range(offset, data.len(), self.bytes as u64)?;
        write(&self.gpu, self.address + offset, data)
    }

    /// Copies bytes out of it. Does not wait for running kernels.
    ///
    /// # Errors
    /// As [`DeviceBuffer::write`].
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), GpuError> {
        check_range(offset, data.len(), self.bytes as u64)?;
        read(&self.gpu, self.address + offset, data)
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        ranges::remove(self.address);
        let (gpu, address) = (self.gpu.clone(), self.address);
        gate().defer(move || {
            if gpu.enter().is_ok() {
                // SAFETY: the buffer is gone, so nobody on the host uses the address, and the gate says that no
                // kernel runs that could.
                let _ = gpu.check("cuMemFree", unsafe { cuMemFree_v2(address) });
            }
        });
    }
}

/// Says that GPU memory ran out where the driver did.
pub(crate) fn out_of_memory(gpu: &Gpu, bytes: usize, error: GpuError) -> GpuError {
    match error {
        GpuError::Driver(error) if error.code == code::OUT_OF_MEMORY => {
            GpuError::OutOfMemory { gpu: gpu.ordinal(), bytes }
        }
        error => error,
    }
}

/// Fails unless `len` bytes at `offset` lie within `size`.
pub(crate) fn check_range(offset: u64, len: usize, size: u64) -> Result<(), GpuError> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(GpuError::OutOfRange { offset, len, size }),
    }
}

/// Fills GPU memory with zeroes and waits for it.
pub(crate) fn zero(gpu: &Gpu, address: u64, bytes: usize) -> Result<(), GpuError> {
    if bytes == 0 {
        return Ok(());
    }
    if gate().is_busy() {
        // The driver's own fill is a kernel, which may find no room beside kernels that wait; copies need none.
        return gpu.with_staging(|staging| {
            staging.bytes_mut().fill(0);
            for start in (0..bytes).step_by(STAGING_BYTES) {
                let len = STAGING_BYTES.min(bytes - start);
                staging.copy(address + start as u64, staging.address(), len)?;
            }
            Ok(())
        });
    }
    let stream = gpu.stream()?;
    // SAFETY: the callers own the range and wait here.
    unsafe { stream.fill(address, 0, bytes)? };
    stream.wait("zeroing GPU memory", COPY_TIMEOUT)
}

/// Copies host bytes to GPU memory that the caller owns, through the staging buffer.
pub(crate) fn write(gpu: &Gpu, address: u64, data: &[u8]) -> Result<(), GpuError> {
    gpu.with_staging(|staging| {
        for (i, part) in data.chunks(STAGING_BYTES).enumerate() {
            staging.bytes_mut()[..part.len()].copy_from_slice(part);
            let dst = address + (i * STAGING_BYTES) as u64;
            staging.copy(dst, staging.address(), part.len())?;
        }
        Ok(())
    })
}

/// Copies GPU memory that the caller owns to host bytes, through the staging buffer.
pub(crate) fn read(gpu: &Gpu, address: u64, data: &mut [u8]) -> Result<(), GpuError> {
    gpu.with_staging(|staging| {
        for (i, part) in data.chunks_mut(STAGING_BYTES).enumerate() {
            let src = address + (i * STAGING_BYTES) as u64;
            staging.copy(staging.address(), src, part.len())?;
            part.copy_from_slice(&staging.bytes_mut()[..part.len()]);
        }
        Ok(())
    })
}

/// Page-locked host memory through which host bytes travel, so that the driver never copies pageable memory on its
/// own terms. Lives as long as the process: freeing it would wait for the GPU.
pub(crate) struct Staging {
    stream: Arc<Stream>,
    memory: &'static mut [u8],
    /// Whether a copy was given up that may still be under way.
    late: bool,
}

impl Staging {
    pub fn new(gpu: &Gpu) -> Result<Staging, GpuError> {
        let stream = Arc::new(gpu.stream()?);
        Ok(Staging { stream, memory: pinned(gpu, STAGING_BYTES)?, late: false })
    }

    /// A copy failed, and may still be under way.
    pub fn give_up(&mut self) {
        self.stream.give_up();
        self.late = true;
    }

    /// Waits for a copy that was given up: what comes behind it must not be overwritten by it.
    pub fn settle(&mut self) -> Result<(), GpuError> {
        if self.late {
            self.stream.wait("a copy between host and GPU memory that was given up", COPY_TIMEOUT)?;
            self.late = false;
        }
        Ok(())
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory
    }

    /// Its address: under unified addressing that of the host (CUDA driver API, "Unified addressing").
    fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    fn copy(&self, dst: u64, src: u64, len: usize) -> Result<(), GpuError> {
        // SAFETY: one side is this buffer, which the caller does not touch until `wait` returns; the other is GPU
        // memory that the caller of `read` or `write` holds.
        unsafe { self.queue(dst, src, len)? };
        self.wait()
    }

    /// Begins a copy.
    ///
    /// # Safety
    /// As of [`Stream::copy`], until [`wait`](Self::wait) has returned or, where it fails, no work that was given up is under way.
    pub unsafe fn queue(&self, dst: u64, src: u64, len: usize) -> Result<(), GpuError> {
        // SAFETY: passed on.
        unsafe { self.stream.copy(dst, src, len) }
    }

    /// Waits for all that was begun.
    pub fn wait(&self) -> Result<(), GpuError> {
        self.stream.wait("a copy between host and GPU memory", COPY_TIMEOUT)
    }
}

/// Allocates zeroed page-locked host memory that all GPUs access at its own address, never freed.
pub(crate) fn pinned(gpu: &Gpu, bytes: usize) -> Result<&'static mut [u8], GpuError> {
    let memory = lock_pages(gpu, bytes)?;
    // SAFETY: so many zeroed bytes are ours for good.
    Ok(unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), bytes) })
}

/// Allocates zeroed page-locked host memory that all GPUs access at its own address, for the caller to free.
pub(crate) fn lock_pages(gpu: &Gpu, bytes: usize) -> Result<NonNull<u8>, GpuError> {
    const PORTABLE_MAPPED: u32 =
        cudarc::driver::sys::CU_MEMHOSTALLOC_PORTABLE | cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;
    gpu.enter()?;
    let mut memory = std::ptr::null_mut();
    // SAFETY: `memory` is written on success.
    let result = unsafe { cuMemHostAlloc(&mut memory, bytes, PORTABLE_MAPPED) };
    let allocated = gpu.check("cuMemHostAlloc", result);
    allocated.map_err(|error| out_of_memory(gpu, bytes, error))?;
    let none = GpuError::OutOfMemory { gpu: gpu.ordinal(), bytes };
    let memory = NonNull::new(memory.cast::<u8>()).ok_or(none)?;
    // SAFETY: the driver returned so many bytes.
    unsafe { memory.write_bytes(0, bytes) };
    Ok(memory)
}
