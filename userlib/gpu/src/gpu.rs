//! One GPU and its context.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::{DriverError, GpuError, code};
use crate::memory::{DeviceBuffer, Staging};
use crate::probe::{self, GpuInfo};
use crate::stream::Stream;
use crate::sys::*;

/// A GPU of this host, opened with its primary context. Cheap to clone.
///
/// A GPU stays open until the process ends, so that no teardown has to wait for a kernel.
#[derive(Clone)]
pub struct Gpu(Arc<Inner>);

struct Inner {
    info: GpuInfo,
    context: Context,
    /// The first error after which the context answers nothing else.
    lost: OnceLock<DriverError>,
    /// Idle streams for reuse.
    streams: Mutex<Vec<Handle<CUstream>>>,
    staging: Mutex<Option<Staging>>,
}

/// A driver handle that may move between threads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle<T>(pub T);

// SAFETY: driver handles are names; the driver API may be called from any thread (CUDA driver API, "Context
// management": contexts may be current to several threads).
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

type Context = Handle<CUcontext>;

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gpu({})", self.0.info)
    }
}

impl PartialEq for Gpu {
    fn eq(&self, other: &Self) -> bool {
        self.ordinal() == other.ordinal()
    }
}

impl Eq for Gpu {}

impl Gpu {
    /// Opens GPU `ordinal` (from 0). Opening one again returns the same context.
    ///
    /// # Errors
    /// [`GpuError::NoGpu`] and [`GpuError::NoSuchDevice`]; [`GpuError::Unsupported`] for a GPU that cannot map
    /// host memory; driver errors.
    pub fn open(ordinal: usize) -> Result<Gpu, GpuError> {
        static OPENED: Mutex<Vec<Gpu>> = Mutex::new(Vec::new());
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = opened.iter().find(|gpu| gpu.ordinal() == ordinal) {
            return Ok(gpu.clone());
        }
        let infos = probe::probe()?;
        let count = infos.len();
        let info = infos.into_iter().nth(ordinal).ok_or(GpuError::NoSuchDevice { ordinal, count })?;
        if !info.maps_host_memory {
            return Err(GpuError::Unsupported { gpu: ordinal, what: "mapping host memory" });
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: the device handle is valid; the context is written on success and never released.
        let result = unsafe { cuDevicePrimaryCtxRetain(&mut context, probe::device(ordinal)?) };
        check("cuDevicePrimaryCtxRetain", result)?;
        let gpu = Gpu(Arc::new(Inner {
            info,
            context: Handle(context),
            lost: OnceLock::new(),
            streams: Mutex::default(),
            staging: Mutex::default(),
        }));
        gpu.enter()?;
        opened.push(gpu.clone());
        Ok(gpu)
    }

    /// Opens all GPUs of this host.
    ///
    /// # Errors
    /// As [`Gpu::open`].
    pub fn all() -> Result<Vec<Gpu>, GpuError> {
        (0..probe::probe().map_err(GpuError::NoGpu)?.len()).map(Gpu::open).collect()
    }

    /// Number of this GPU, from 0.
    pub fn ordinal(&self) -> usize {
        self.0.info.ordinal
    }

    /// What it is and what it can do.
    pub fn info(&self) -> &GpuInfo {
        &self.0.info
    }

    /// Allocates zeroed memory on this GPU.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::Lost`], driver errors.
    pub fn alloc(&self, bytes: usize) -> Result<DeviceBuffer, GpuError> {
        DeviceBuffer::new(self, bytes)
    }

    /// A stream of its own that waits for no other, from a pool.
    ///
    /// # Errors
    /// [`GpuError::Lost`], driver errors.
    pub fn stream(&self) -> Result<Stream, GpuError> {
        let idle = self.0.streams.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(raw) => Ok(Stream::from_pool(self.clone(), raw)),
            None => Stream::new(self.clone(), false),
        }
    }

    /// Takes an idle stream back.
    pub(crate) fn recycle(&self, stream: Handle<CUstream>) {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    }

    /// Whether this GPU reaches the memory of `other` with plain loads and stores.
    pub fn reaches(&self, other: &Gpu) -> bool {
        self.0.info.peers.get(other.ordinal()).is_some_and(|peer| peer.access)
    }

    /// Lets kernels of this GPU access the memory of `other` (one way).
    ///
    /// # Errors
    /// [`GpuError::NoPeerAccess`], driver errors.
    pub fn enable_peer(&self, other: &Gpu) -> Result<(), GpuError> {
        if self == other {
            return Ok(());
        }
        if !self.reaches(other) {
            return Err(GpuError::NoPeerAccess { from: self.ordinal(), to: other.ordinal() });
        }
        self.enter()?;
        // SAFETY: both contexts live as long as the process; 0 is the only flag word that exists.
        let result = check("cuCtxEnablePeerAccess", unsafe { cuCtxEnablePeerAccess(other.0.context.0, 0) });
        match result {
            Err(error) if error.code == code::PEER_ALREADY_ENABLED => Ok(()),
            result => self.note(result),
        }
    }

    /// The first error that made this GPU unusable for this process, if there was one.
    pub fn lost(&self) -> Option<GpuError> {
        self.0.lost.get().map(|error| GpuError::Lost { gpu: self.ordinal(), error: error.clone() })
    }

    /// Makes the context current to this thread. Every driver call on a GPU comes after it.
    pub(crate) fn enter(&self) -> Result<(), GpuError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        // SAFETY: the context lives as long as the process.
        check("cuCtxSetCurrent", unsafe { cuCtxSetCurrent(self.0.context.0) })?;
        Ok(())
    }

    /// Checks a driver call on this GPU.
    pub(crate) fn check(&self, call: &'static str, result: CUresult) -> Result<(), GpuError> {
        self.note(check(call, result))
    }

    /// Remembers an error after which the context is dead.
    pub(crate) fn note(&self, result: Result<(), DriverError>) -> Result<(), GpuError> {
        result.map_err(|error| {
            if code::is_fatal(error.code) {
                let _ = self.0.lost.set(error.clone());
            }
            GpuError::Driver(error)
        })
    }

    /// Runs `copy` with the staging buffer of this GPU, which it makes on first use. After an error the staging
    /// buffer may still be in use by the GPU: it is left alone, and the next caller gets a new one.
    pub(crate) fn with_staging<T>(
        &self,
        copy: impl FnOnce(&mut Staging) -> Result<T, GpuError>,
    ) -> Result<T, GpuError> {
        let mut slot = self.0.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let mut staging = match slot.take() {
            Some(staging) => staging,
            None => Staging::new(self)?,
        };
        match copy(&mut staging) {
            Ok(value) => {
                *slot = Some(staging);
                Ok(value)
            }
            Err(error) => {
                std::mem::forget(staging);
                Err(error)
            }
        }
    }
}
