//! GPU memory that several processes map: parts of a window across the processes of a host.
//!
//! The physical memory of a part is named by a file descriptor, which travels over a Unix socket (CUDA driver API,
//! "Virtual memory management"). It exists until the last process that maps it has let go, so the death of a process
//! takes no memory away from kernels of the others.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::resident::gate;
use crate::sys::*;
use crate::window::{GpuWindow, Physical, create, granularity_of};

const POSIX: HandleType = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// One process's part of a window, before the others have mapped it.
#[derive(Debug)]
pub struct GpuPart {
    /// `None` once it is in a window.
    memory: Option<Physical>,
    gpu: Gpu,
    stride: usize,
}

impl Gpu {
    /// What the bytes of a [`GpuPart`] on this GPU are a multiple of.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] where its memory cannot be passed to other processes; driver errors.
    pub fn part_granularity(&self) -> Result<usize, GpuError> {
        let gpu = self.ordinal();
        if !self.info().virtual_memory {
            return Err(GpuError::Unsupported { gpu, what: "virtual memory management" });
        }
        if !self.info().posix_handles {
            return Err(GpuError::Unsupported { gpu, what: "memory that other processes map" });
        }
        granularity_of(self, POSIX)
    }
}

impl GpuPart {
    /// Takes `stride` bytes of `gpu`, a multiple of [`Gpu::part_granularity`] of every GPU of the window.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`], [`GpuError::Invalid`], [`GpuError::OutOfMemory`], driver errors.
    pub fn new(gpu: &Gpu, stride: usize) -> Result<GpuPart, GpuError> {
        let granularity = gpu.part_granularity()?;
        if stride == 0 || !stride.is_multiple_of(granularity) {
            return Err(GpuError::Invalid(format!(
                "a part of {stride} bytes on GPU {}: use a multiple of {granularity}",
                gpu.ordinal()
            )));
        }
        Ok(GpuPart { memory: Some(create(gpu, stride, POSIX)?), gpu: gpu.clone(), stride })
    }

    /// A file descriptor that names its memory, for other processes.
    ///
    /// # Errors
    /// Driver errors.
    pub fn export(&self) -> Result<OwnedFd, GpuError> {
        let Some(memory) = &self.memory else {
            return Err(GpuError::Invalid("this part is in a window already".into()));
        };
        self.gpu.enter()?;
        let mut fd: std::ffi::c_int = -1;
        // SAFETY: for this type of handle the driver writes an int.
        let result = unsafe { cuMemExportToShareableHandle((&raw mut fd).cast(), memory.handle, POSIX, 0) };
        self.gpu.check("cuMemExportToShareableHandle", result)?;
        // SAFETY: the driver opened it for us, and nobody else closes it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: our own descriptor; programs started meanwhile have no use for it.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        Ok(fd)
    }

    /// Maps this part, as part `rank`, and the `others` (`None` at `rank`) for kernels of this GPU, and zeroes this
    /// one: `bytes` of each are used. All processes give the same stride and bytes.
    ///
    /// # Errors
    /// [`GpuError::Invalid`] for an impossible order or size; driver errors, as for a descriptor that names no GPU
    /// memory, or memory of a GPU that this one does not reach.
    pub fn window(
        mut self,
        rank: usize,
        others: &[Option<BorrowedFd<'_>>],
        bytes: usize,
    ) -> Result<GpuWindow, GpuError> {
        let own_place = others.iter().enumerate().all(|(i, other)| other.is_none() == (i == rank));
        if !own_place || rank >= others.len() || bytes == 0 || bytes > self.stride {
            return Err(GpuError::Invalid(format!(
                "part {rank} of {} with {bytes} of {} bytes: one descriptor for every other part is needed",
                others.len(),
                self.stride
            )));
        }
        let mut parts = Vec::with_capacity(others.len());
        for other in others {
            match other {
                Some(fd) => parts.push(import(&self.gpu, *fd)?),
                None => parts.extend(self.memory.take()),
            }
        }
        GpuWindow::of_parts(&self.gpu, Some(rank), parts, self.stride, bytes)
    }
}

impl GpuWindow {
    /// Maps memory that another process [exported](GpuPart::export) for kernels of `gpu`: a window of one part, of which
    /// `bytes` are used. What is in it stays. `stride` is that of the [`GpuPart`].
    ///
    /// # Errors
    /// As for [`GpuPart::window`].
    pub fn received(
        gpu: &Gpu,
        fd: BorrowedFd<'_>,
        stride: usize,
        bytes: usize,
    ) -> Result<GpuWindow, GpuError> {
        let granularity = gpu.part_granularity()?;
        if bytes == 0 || bytes > stride || !stride.is_multiple_of(granularity) {
            return Err(GpuError::Invalid(format!(
                "{bytes} of {stride} bytes of another process: use a multiple of {granularity}"
            )));
        }
        GpuWindow::of_parts(gpu, None, vec![import(gpu, fd)?], stride, bytes)
    }
}

impl Drop for GpuPart {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            gate().defer(move || drop(memory));
        }
    }
}

/// Memory of another process. The descriptor may be closed afterwards.
fn import(gpu: &Gpu, fd: BorrowedFd<'_>) -> Result<Physical, GpuError> {
    gpu.enter()?;
    let mut handle = 0;
    let number = fd.as_raw_fd() as usize as *mut std::ffi::c_void;
    // SAFETY: for this type of handle the pointer is the descriptor's number; `handle` is written on success.
    let result = unsafe { cuMemImportFromShareableHandle(&mut handle, number, POSIX) };
    gpu.check("cuMemImportFromShareableHandle", result)?;
    Ok(Physical { gpu: gpu.clone(), handle })
}
