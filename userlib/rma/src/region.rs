//! Regions: memory that a port's peers may reach (spec 4).

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::{Access, Address};
use ggas_device::{DeviceError, HostBuffer, Place, Span, copy_in, copy_out};
use ggas_kernels::KernelMem;

use crate::RegionError;
use crate::core::Vpid;
use crate::port::PortBase;

/// What a region keeps alive; the bytes are reached by address.
#[derive(Debug)]
#[allow(dead_code, reason = "held, never looked at")]
enum Backing {
    Host(HostBuffer),
    Shared(Arc<HostBuffer>),
    Kernel(Arc<KernelMem>),
    /// Of another owner.
    Kept(Kept),
    /// The caller promised to keep it.
    Raw,
}

/// Whatever owns the memory.
struct Kept(#[allow(dead_code, reason = "held, never looked at")] Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

/// Registered memory: the port's own commands read and write it, and whoever knows its network logical addresses
/// may put to it and get from it, as its access rights say.
///
/// The card may change the bytes at any time, so they are copied in and out; single words are atomic. Dropping the
/// region unregisters it first and waits until the card has finished with it. Commands that arrive later fail
/// with an error notification.
#[derive(Debug)]
pub struct Region {
    vpid: Arc<Vpid>,
    backing: Option<Backing>,
    address: u64,
    len: usize,
    /// GPU memory is reached through this.
    gpu: Option<Arc<KernelMem>>,
    nla: u64,
}

impl PortBase {
    /// Registers a buffer for reading and writing; the region owns it.
    ///
    /// # Errors
    /// [`RegionError::Device`]: empty buffer, locked-memory limit, no room in the translation tables.
    pub fn register(&self, buffer: HostBuffer) -> Result<Region, RegionError> {
        self.register_with(buffer, Access::ALL)
    }

    /// As [`register`](Self::register), with these rights (spec 4.1).
    ///
    /// # Errors
    /// As above.
    pub fn register_with(&self, buffer: HostBuffer, access: Access) -> Result<Region, RegionError> {
        let span = Span::host(&buffer);
        self.register_span(span, access, Backing::Host(buffer))
    }

    /// Registers a buffer that others use too, for instance regions of other ports.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    pub fn register_shared(&self, buffer: Arc<HostBuffer>) -> Result<Region, RegionError> {
        let span = Span::host(&buffer);
        self.register_span(span, Access::ALL, Backing::Shared(buffer))
    }

    /// Registers host memory by address, of any alignment. The rest of its first and last page becomes reachable
    /// too, as on the card.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    ///
    /// # Safety
    /// The memory stays valid until the region was dropped or unregistered without an error, nothing refers to it
    /// by reference, and it is accessed atomically meanwhile.
    pub unsafe fn register_raw(&self, start: *mut u8, len: usize) -> Result<Region, RegionError> {
        // SAFETY: the caller's promise is ours.
        unsafe { self.register_raw_with(start, len, Access::ALL) }
    }

    /// As [`register_raw`](Self::register_raw), with these rights (spec 4.1).
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    ///
    /// # Safety
    /// As for [`register_raw`](Self::register_raw).
    pub unsafe fn register_raw_with(
        &self,
        start: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<Region, RegionError> {
        let span = Span { address: start as u64, len, place: Place::Host };
        self.register_span(span, access, Backing::Raw)
    }

    /// Registers memory of kernels, on the CPU executor or on a GPU: what kernels compute is sent from where it
    /// is, and arrives where they read it.
    ///
    /// # Errors
    /// As for [`register`](Self::register); also when the GPU that holds it fails.
    pub fn register_kernel_memory(&self, memory: Arc<KernelMem>) -> Result<Region, RegionError> {
        let place = match memory.device_buffer() {
            Some(buffer) => Place::Gpu(buffer.gpu().clone()),
            None => Place::Host,
        };
        let span = Span { address: memory.address(), len: memory.len(), place };
        self.register_span(span, Access::ALL, Backing::Kernel(memory))
    }

    /// Registers memory that `owner` owns, such as a part of a window; the region keeps the owner. In GPU memory
    /// [`Region::read`] and what is like it do not reach it: that is the owner's to offer.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    ///
    /// # Safety
    /// The memory stays valid as long as `owner` lives, and is accessed atomically meanwhile.
    pub unsafe fn register_kept(
        &self,
        span: Span,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Region, RegionError> {
        self.register_span(span, Access::ALL, Backing::Kept(Kept(owner)))
    }

    fn register_span(&self, span: Span, access: Access, backing: Backing) -> Result<Region, RegionError> {
        let Span { address, len, .. } = span;
        let gpu = match (&span.place, &backing) {
            (Place::Gpu(_), Backing::Kernel(memory)) => Some(memory.clone()),
            _ => None,
        };
        // SAFETY: the region keeps the backing until the memory is unregistered; raw memory is the caller's promise.
        let nla = unsafe { self.vpid.device.register(span, access)? };
        Ok(Region { vpid: self.vpid.clone(), backing: Some(backing), address, len, gpu, nla })
    }
}

impl Region {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always `false`: regions have at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Network logical address of byte `offset` (at most the length: one past the end is an address too).
    ///
    /// # Errors
    /// [`RegionError::Range`].
    #[inline]
    pub fn nla(&self, offset: usize) -> Result<u64, RegionError> {
        self.check(offset, 0)?;
        Ok(self.nla + offset as u64)
    }

    /// Address of the first byte where the memory is mapped: for kernels, and for untranslated commands.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The port that it is registered on.
    pub fn port(&self) -> Address {
        self.vpid.address
    }

    /// Copies bytes out. Bytes that the card writes meanwhile are old or new, whole aligned words at a time.
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::Gpu`].
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), RegionError> {
        self.check(offset, into.len())?;
        if let Some(gpu) = &self.gpu {
            return Ok(gpu.read(offset, into)?);
        }
        let start = self.start(offset);
        // SAFETY: the range was checked, and the region keeps the memory.
        unsafe { copy_out(start, into) };
        Ok(())
    }

    /// Copies bytes in, visible to the card before anything posted afterwards.
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::Gpu`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), RegionError> {
        self.check(offset, from.len())?;
        if let Some(gpu) = &self.gpu {
            return Ok(gpu.write(offset, from)?);
        }
        let start = self.start(offset);
        // SAFETY: the range was checked, and the region keeps the memory.
        unsafe { copy_in(from, start) };
        Ok(())
    }

    /// Loads an aligned word with acquire order: what the card wrote before it is visible.
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::Unaligned`], [`RegionError::Gpu`].
    #[inline]
    pub fn load_u64(&self, offset: usize) -> Result<u64, RegionError> {
        match &self.gpu {
            Some(gpu) => Ok(gpu.load_u64(self.check_word(offset)?)?),
            None => Ok(self.word(offset)?.load(Ordering::Acquire)),
        }
    }

    /// Stores an aligned word with release order.
    ///
    /// # Errors
    /// [`RegionError::Range`], [`RegionError::Unaligned`], [`RegionError::Gpu`].
    #[inline]
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), RegionError> {
        match &self.gpu {
            Some(gpu) => gpu.store_u64(self.check_word(offset)?, value)?,
            None => self.word(offset)?.store(value, Ordering::Release),
        }
        Ok(())
    }

    /// Host memory's aligned word at byte `offset`.
    #[inline]
    fn word(&self, offset: usize) -> Result<&AtomicU64, RegionError> {
        let start = self.start(self.check_word(offset)?);
        // SAFETY: inside the region, aligned, and accessed atomically by all.
        Ok(unsafe { AtomicU64::from_ptr(start.cast()) })
    }

    #[inline]
    fn check_word(&self, offset: usize) -> Result<usize, RegionError> {
        self.check(offset, 8)?;
        let address = self.address + offset as u64;
        if address.is_multiple_of(8) { Ok(offset) } else { Err(RegionError::Unaligned { offset, address }) }
    }

    /// Unregisters now instead of at drop, and says whether the card confirmed it.
    ///
    /// # Errors
    /// [`RegionError::Device`] with a timeout: the memory is then never given back, since the card might still
    /// write it.
    pub fn unregister(mut self) -> Result<(), RegionError> {
        self.release()
    }

    fn release(&mut self) -> Result<(), RegionError> {
        let Some(backing) = self.backing.take() else { return Ok(()) };
        match self.vpid.device.unregister(self.nla) {
            // A closed port has no translations left.
            Ok(()) | Err(DeviceError::Closed) => Ok(()),
            Err(error) => {
                std::mem::forget(backing);
                Err(error.into())
            }
        }
    }

    #[inline]
    pub(crate) fn is_of(&self, vpid: &Arc<Vpid>) -> bool {
        Arc::ptr_eq(&self.vpid, vpid)
    }

    #[inline]
    pub(crate) fn first_nla(&self) -> u64 {
        self.nla
    }

    /// Checks that `len` bytes at `offset` lie inside.
    #[inline]
    pub(crate) fn check(&self, offset: usize, len: usize) -> Result<(), RegionError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(RegionError::Range { offset, len, region: self.len }),
        }
    }

    /// Address of byte `offset`, which was checked.
    #[inline]
    fn start(&self, offset: usize) -> *mut u8 {
        (self.address as usize + offset) as *mut u8
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            tracing::error!(port = %self.vpid.address, nla = self.nla, "unregistering: {error}; its memory is kept");
        }
    }
}
