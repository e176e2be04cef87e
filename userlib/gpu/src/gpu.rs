//! One GPU and its context.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::copier::Copier;
use crate::error::{DriverError, GpuError, code};
use crate::managed::ManagedBuffer;
use crate::memory::{DeviceBuffer, Staging};
use crate::module::Module;
use crate::probe::{self, GpuInfo};
use crate::resident::gate;
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
    copier: Mutex<Option<Arc<Copier>>>,
    /// The first module that holds the copier's kernel.
    copier_module: OnceLock<Module>,
    /// Bit i: kernels of this GPU may access memory of GPU i.
    peers: AtomicU64,
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
    /// host memory; [`GpuError::Busy`] while kernels wait on another GPU; driver errors.
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
            copier: Mutex::default(),
            copier_module: OnceLock::new(),
            peers: AtomicU64::new(0),
        }));
        gpu.enter()?;
        for other in opened.iter() {
            gpu.enable_peer(other)?;
            other.enable_peer(&gpu)?;
        }
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

    /// Allocates CUDA's managed memory, which the host and all GPUs use at one address; the driver moves its pages.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_managed(&self, bytes: usize) -> Result<ManagedBuffer, GpuError> {
        ManagedBuffer::new(self, bytes)
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

    /// The GPU that is current to this thread, by whatever library; `None` where none is.
    pub fn current() -> Option<usize> {
        load().ok()?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver is loaded, and the context is written on success.
        check("cuCtxGetCurrent", unsafe { cuCtxGetCurrent(&mut context) }).ok()?;
        let mut device = 0;
        // SAFETY: as above; without a current context the call fails.
        check("cuCtxGetDevice", unsafe { cuCtxGetDevice(&mut device) }).ok()?;
        usize::try_from(device).ok().filter(|_| !context.is_null())
    }

    /// The GPU in whose memory an address is, whoever allocated it; `None` for host memory and for no memory.
    pub fn holder(address: u64) -> Option<usize> {
        load().ok()?;
        let of = |attribute| {
            let mut value = 0u32;
            // SAFETY: the driver is loaded; both attributes are words of 4 bytes, and any address may be asked about.
            let result = unsafe { cuPointerGetAttribute((&raw mut value).cast(), attribute, address) };
            // Of host memory it fails: that needs no words.
            (result == CUresult::CUDA_SUCCESS).then_some(value)
        };
        // CU_MEMORYTYPE_DEVICE.
        of(PointerAttr::CU_POINTER_ATTRIBUTE_MEMORY_TYPE).filter(|kind| *kind == 2)?;
        of(PointerAttr::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL).map(|ordinal| ordinal as usize)
    }

    /// Whether there can be an IPC handle of what is at an address.
    pub(crate) fn has_ipc_handle(address: u64) -> bool {
        let mut value = 0u32;
        let attribute = PointerAttr::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
        if load().is_err() {
            return false;
        }
        // SAFETY: the driver is loaded; the attribute is a boolean of at most 4 bytes, and any address may be asked about.
        let result = unsafe { cuPointerGetAttribute((&raw mut value).cast(), attribute, address) };
        check("cuPointerGetAttribute", result).is_ok() && value & 0xff != 0
    }

    /// Copies out of memory of this GPU that is not of this crate, through pinned memory.
    ///
    /// # Safety
    /// So many bytes are allocated there until the call returns.
    ///
    /// # Errors
    /// [`GpuError::Timeout`], driver errors.
    pub unsafe fn read_at(&self, address: u64, into: &mut [u8]) -> Result<(), GpuError> {
        crate::memory::read(self, address, into)
    }

    /// The same into it.
    ///
    /// # Safety
    /// As [`read_at`](Self::read_at).
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub unsafe fn write_at(&self, address: u64, from: &[u8]) -> Result<(), GpuError> {
        crate::memory::write(self, address, from)
    }

    /// Its context, which lives as long as the process.
    pub(crate) fn context(&self) -> CUcontext {
        self.0.context.0
    }

    /// Takes an idle stream back.
    pub(crate) fn recycle(&self, stream: Handle<CUstream>) {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    }

    /// Whether this GPU reaches the memory of `other` with plain loads and stores.
    pub fn reaches(&self, other: &Gpu) -> bool {
        self.0.info.peers.get(other.ordinal()).is_some_and(|peer| peer.access)
    }

    /// Lets kernels of this GPU access the memory of `other` (one way), if the hardware can.
    fn enable_peer(&self, other: &Gpu) -> Result<(), GpuError> {
        if !self.reaches(other) {
            return Ok(());
        }
        self.enter()?;
        // SAFETY: both contexts live as long as the process; 0 is the only flag word that exists.
        let enable = || unsafe { cuCtxEnablePeerAccess(other.0.context.0, 0) };
        let result = gate().exclusive("opening a second GPU", enable)?;
        match check("cuCtxEnablePeerAccess", result) {
            Err(error) if error.code != code::PEER_ALREADY_ENABLED => self.note(Err(error)),
            _ => {
                self.0.peers.fetch_or(1 << (other.ordinal() % 64), Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Whether kernels of this GPU can access all memory of GPU `ordinal`, another one.
    pub(crate) fn has_peer(&self, ordinal: usize) -> bool {
        ordinal < 64 && self.0.peers.load(Ordering::Relaxed) >> ordinal & 1 == 1
    }

    /// The copier of this GPU, made by `new` on first use.
    pub(crate) fn copier(
        &self,
        new: impl FnOnce() -> Result<Arc<Copier>, GpuError>,
    ) -> Result<Arc<Copier>, GpuError> {
        let mut copier = self.0.copier.lock().unwrap_or_else(PoisonError::into_inner);
        match &*copier {
            Some(copier) => Ok(copier.clone()),
            None => Ok(copier.insert(new()?).clone()),
        }
    }

    /// The copier of this GPU, if it was ever used.
    pub(crate) fn copier_in_use(&self) -> Option<Arc<Copier>> {
        self.0.copier.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn copier_module(&self) -> Option<Module> {
        self.0.copier_module.get().cloned()
    }

    pub(crate) fn offer_copier_module(&self, module: &Module) {
        let _ = self.0.copier_module.set(module.clone());
    }

    /// The first error that made this GPU unusable for this process, if there was one.
    pub fn lost(&self) -> Option<GpuError> {
        self.0.lost.get().map(|error| GpuError::Lost { gpu: self.ordinal(), error: error.clone() })
    }

    /// Waits for all work of this process on the GPU as the driver does it, without a bound: for work that waits for nobody.
    ///
    /// # Errors
    /// Errors of the work.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.enter()?;
        // SAFETY: the context is this thread's now.
        self.check("cuCtxSynchronize", unsafe { cuCtxSynchronize() })
    }

    /// Makes the context current to this thread. Every driver call on a GPU comes after it, and calls of NVIDIA's other libraries.
    ///
    /// # Errors
    /// [`GpuError::Lost`], driver errors.
    pub fn enter(&self) -> Result<(), GpuError> {
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

    /// Runs `copy` with the staging buffer of this GPU, which it makes on first use. After an error a copy may still be under way: whoever
    /// comes next waits for it first.
    pub(crate) fn with_staging<T>(
        &self,
        copy: impl FnOnce(&mut Staging) -> Result<T, GpuError>,
    ) -> Result<T, GpuError> {
        let mut slot = self.0.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = match &mut *slot {
            Some(staging) => staging,
            None => slot.insert(Staging::new(self)?),
        };
        staging.settle()?;
        copy(staging).inspect_err(|_| staging.give_up())
    }
}
