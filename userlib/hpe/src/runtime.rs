//! The devices of a program behind one set of calls.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ggas_gpu::Gpu;

use crate::address::{DeviceId, Owner, owner};
use crate::builder::Builder;
use crate::context::{Context, LockCounts};
use crate::copy::{Copier, Counters, WayCounts};
use crate::direct::Direct;
use crate::error::HpeError;
use crate::fork;
use crate::network::Network;
use crate::objects::{Allocation, Kind, Objects, Place};
use crate::pinned::{PinnedCounts, Pool};
use crate::segment::{Room, Segment, is_reserved};
use crate::shared::fault::Handler;
use crate::shared::object::{Keeping, Object};
use crate::shared::serve::Server;
use crate::shared::table;
use crate::spread::{Spread, stride};
use crate::staged::Staging;

/// All devices of a program, which any of its threads may use. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub generation: u32,
    pub timeout: Duration,
    /// Once this rank has joined others.
    pub network: OnceLock<Network>,
    pub direct: Result<Direct, String>,
    pub objects: Objects,
    pub keeping: Arc<Keeping>,
    pub _handler: Handler,
    pub _server: Server,
    pub pool: Pool,
    pub counters: Counters,
    pub peers: bool,
    pub staging: Staging,
    pub contexts: Vec<Context>,
    pub segments: Vec<Arc<Segment>>,
}

impl Inner {
    /// Counts copies so.
    pub fn copier<'a>(&'a self, counters: &'a Counters) -> Copier<'a> {
        let Inner { contexts, pool, peers, staging, .. } = self;
        Copier { contexts, pool, counters, peers: *peers, staging: *staging }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // What a child of a fork has is a copy of another process's state, which a thread may have been changing then: it stays as it is.
        if self.is_forked() {
            std::mem::forget(self.inner.clone());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody copies for others any more.
        drop(self.network.take());
        // Before the handler and the server go: somebody may wait for them.
        self.objects.clear();
    }
}

/// Counters of shared objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCounts {
    /// Accesses that were not allowed and were then served.
    pub faults: u64,
    /// Bytes that came from devices to the host.
    pub fetched: u64,
    /// Bytes that went to devices before kernels.
    pub stored: u64,
    /// Threads that wait right now for another one's copy or for a kernel.
    pub waiting: u32,
    /// How often one did.
    pub waited: u64,
}

/// Counters of a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Copies and how they went.
    pub ways: WayCounts,
    /// Pinned memory.
    pub pinned: PinnedCounts,
    /// The lock of each device.
    pub locks: Vec<LockCounts>,
    /// Shared objects.
    pub shared: SharedCounts,
}

impl Runtime {
    /// A runtime's settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Its devices.
    pub fn devices(&self) -> Vec<DeviceId> {
        self.inner.contexts.iter().map(Context::id).collect()
    }

    /// Those of them that are GPUs.
    pub fn gpus(&self) -> Vec<DeviceId> {
        let is_gpu = |context: &&Context| context.device.gpu().is_some();
        self.inner.contexts.iter().filter(is_gpu).map(Context::id).collect()
    }

    /// Zeroed memory of a device, which the host reaches by [`copy`](Self::copy) only. 0 bytes are as good as one.
    ///
    /// # Errors
    /// [`HpeError::NoDevice`], [`HpeError::Full`], [`HpeError::Forked`], what the device's driver refuses.
    pub fn alloc(&self, device: DeviceId, bytes: usize) -> Result<*mut u8, HpeError> {
        self.make(device, bytes, |context, room| {
            let memory = context.device.map(room.start, room.size)?;
            Ok(Kind::Plain(memory, context.device.clone(), room))
        })
    }

    /// Zeroed memory that a device and the host use by the same pointer. Kernels use it in [`launch`](Self::launch) only, at
    /// [`device_address`](Self::device_address). Takes twice its size of addresses, and of memory.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); [`HpeError::Objects`]; what the operating system refuses.
    pub fn alloc_shared(&self, device: DeviceId, bytes: usize) -> Result<*mut u8, HpeError> {
        self.make(device, bytes, |context, room| {
            let memory = context.device.map(room.start, room.size)?;
            let keeping = self.inner.keeping.clone();
            let object = Arc::new(Object::new(room, memory, context.device.clone(), keeping)?);
            table::insert(&object)?;
            Ok(Kind::Shared(object))
        })
    }

    /// Zeroed memory in one range of addresses whose parts lie on these devices, in order: equal ones, but that each is rounded up to what
    /// is mapped at once (4 KiB on the executor, 2 MiB on GPUs), so that the last ones may have less, or nothing. The host copies to and
    /// from it by one call across parts; kernels of all its devices reach all of it at [`device_address`](Self::device_address).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); [`HpeError::Apart`] without devices, of GPUs and executor devices together, or of GPUs that do not
    /// reach each other.
    pub fn alloc_spread(&self, devices: &[DeviceId], bytes: usize) -> Result<*mut u8, HpeError> {
        fork::check(self.inner.generation)?;
        let parts = devices.iter().map(|&device| self.index(device)).collect::<Result<Vec<_>, _>>()?;
        let first = *devices.first().ok_or(HpeError::Apart)?;
        let stride = stride(bytes, parts.len()).ok_or(HpeError::Full { device: first, bytes })?;
        let gpu = |&index: &usize| self.inner.contexts[index].device.gpu().cloned();
        let gpus: Vec<_> = parts.iter().filter_map(gpu).collect();
        let spread = if gpus.is_empty() {
            let segment = self.inner.objects.spread_segment()?;
            let all = stride.checked_mul(parts.len()).ok_or(HpeError::Full { device: first, bytes })?;
            Spread::of_executors(segment.room(all)?, stride, parts)?
        } else {
            let reach = |one: &Gpu| gpus.iter().all(|other| one == other || one.reaches(other));
            if gpus.len() < parts.len() || !gpus.iter().all(reach) {
                return Err(HpeError::Apart);
            }
            Spread::of_gpus(&gpus, stride, parts)?
        };
        let allocation = Allocation::new(bytes, Kind::Spread(Arc::new(spread)));
        Ok(self.inner.objects.insert(allocation) as *mut u8)
    }

    fn make(
        &self,
        device: DeviceId,
        bytes: usize,
        kind: impl FnOnce(&Context, Room) -> Result<Kind, HpeError>,
    ) -> Result<*mut u8, HpeError> {
        fork::check(self.inner.generation)?;
        let index = self.index(device)?;
        let room = self.inner.segments[index].room(bytes)?;
        let kind = kind(&self.inner.contexts[index], room)?;
        Ok(self.inner.objects.insert(Allocation::new(bytes, kind)) as *mut u8)
    }

    pub(crate) fn index(&self, device: DeviceId) -> Result<usize, HpeError> {
        let contexts = &self.inner.contexts;
        let found = contexts.iter().position(|context| context.id() == device);
        found.ok_or(HpeError::NoDevice { device, count: contexts.len() })
    }

    /// Frees what [`alloc`](Self::alloc), [`alloc_shared`](Self::alloc_shared) or [`alloc_spread`](Self::alloc_spread) returned. Copies that
    /// use it end first.
    ///
    /// # Safety
    /// No kernel uses it, and the host no longer touches it.
    ///
    /// # Errors
    /// [`HpeError::NotAllocated`], [`HpeError::InUse`], [`HpeError::Forked`].
    pub unsafe fn free(&self, start: *mut u8) -> Result<(), HpeError> {
        fork::check(self.inner.generation)?;
        self.inner.objects.remove(start as u64).map(drop)
    }

    /// Whose memory an address is: by its bits, or as CUDA's driver says; of distributed objects by the offset, which a child of a fork does
    /// not look at. `None` for the host's.
    pub fn owner(&self, address: *const u8) -> Option<DeviceId> {
        let (address, contexts) = (address as u64, &self.inner.contexts);
        let is_of = |device| contexts.iter().any(|context: &Context| context.id() == device);
        let index = match owner(address) {
            Owner::Device(device, _) if is_of(device) => return Some(device),
            Owner::Device(device, _) if is_reserved(device) && self.is_forked() => return Some(device),
            Owner::Device(device, _) if is_reserved(device) => {
                match self.inner.objects.owner_of_part(address) {
                    None => return Some(device),
                    index => index,
                }
            }
            _ => crate::objects::of_gpu(address, contexts),
        };
        index.map(|index| contexts[index].id())
    }

    /// Copies between any two memories, of other ranks, too, once this one has [joined](Self::join) them; returns when it is done.
    ///
    /// # Safety
    /// `len` bytes of the host's are memory; nobody writes the source or uses the destination until this returns, and after
    /// [`HpeError::Timeout`] not at all. Ranges of devices are checked.
    ///
    /// # Errors
    /// [`HpeError::Unknown`], [`HpeError::AcrossObjects`], [`HpeError::Overlap`], [`HpeError::NoMemory`], [`HpeError::NoRank`] change
    /// nothing. Behind [`HpeError::Timeout`], [`HpeError::Lost`] and errors of drivers the destination may have a part of the bytes, as
    /// behind [`HpeError::Refused`], [`HpeError::PeerLost`] and [`HpeError::PeerLate`] of other ranks.
    pub unsafe fn copy(&self, dst: *mut u8, src: *const u8, len: usize) -> Result<(), HpeError> {
        fork::check(self.inner.generation)?;
        if len == 0 {
            return Ok(());
        }
        let (to, from) = (self.own(dst as u64), self.own(src as u64));
        let (dst, src) = (self.place(to, len)?, self.place(from, len)?);
        if to.abs_diff(from) < len as u64 {
            return Err(HpeError::Overlap { src: from, dst: to, len });
        }
        if let (Some(network), true) = (self.network(), is_remote(&dst) || is_remote(&src)) {
            // SAFETY: the caller's contract; the other rank checks its ranges.
            return unsafe { network.copy(&self.copier(), &dst, &src, len) };
        }
        // SAFETY: the caller's contract; ranges of devices were checked.
        unsafe { self.copier().copy(&dst, &src, len) }
    }

    /// Whether `len` bytes there can be copied: of a device all of one object. Ranges of the host, and those that others allocated on GPUs,
    /// are not looked at. Not in a child of a fork.
    pub fn holds(&self, address: *const u8, len: usize) -> bool {
        self.place(address as u64, len).is_ok()
    }

    /// Whether this process is a child of the one that made it: then calls give [`HpeError::Forked`].
    pub fn is_forked(&self) -> bool {
        fork::check(self.inner.generation).is_err()
    }

    pub(crate) fn place(&self, address: u64, len: usize) -> Result<Place, HpeError> {
        fork::check(self.inner.generation)?;
        if let Some((rank, address)) = crate::address::rank(address) {
            return self.remote_place(rank, address, len);
        }
        self.inner.objects.place(address, len, &self.inner.contexts)
    }

    pub(crate) fn copier(&self) -> Copier<'_> {
        self.inner.copier(&self.inner.counters)
    }

    /// Where kernels find what the host calls `address`. For executor devices: [`view`](crate::address::view).
    ///
    /// # Errors
    /// [`HpeError::Unknown`], [`HpeError::NoMemory`], [`HpeError::Forked`].
    pub fn device_address(&self, address: *const u8) -> Result<u64, HpeError> {
        match self.place(address as u64, 1)? {
            Place::Host(address) | Place::Device { address, .. } => Ok(address),
            Place::Shared(object, offset) => Ok(object.memory.inside + offset as u64),
            Place::Spread(object, offset) => Ok(object.inside() + offset as u64),
            Place::Remote { rank, address } => Err(HpeError::Elsewhere { rank, address }),
        }
    }

    /// Its counters.
    pub fn counts(&self) -> Counts {
        use std::sync::atomic::Ordering::Relaxed;
        let shared = &self.inner.keeping.counters;
        Counts {
            ways: self.inner.counters.read(),
            pinned: self.inner.pool.counts(),
            locks: self.inner.contexts.iter().map(Context::counts).collect(),
            shared: SharedCounts {
                faults: shared.faults.load(Relaxed),
                fetched: shared.fetched.load(Relaxed),
                stored: shared.stored.load(Relaxed),
                waiting: shared.waiting.load(Relaxed),
                waited: shared.waited.load(Relaxed),
            },
        }
    }

    /// Ends the copy engine of a device of the executor: copies that wait for it, and later ones, fail with [`HpeError::Lost`]. Its memory stays,
    /// so another device that copies from it as a peer still can. A GPU stays.
    ///
    /// # Errors
    /// [`HpeError::NoDevice`], [`HpeError::Forked`].
    pub fn end_device(&self, device: DeviceId) -> Result<(), HpeError> {
        fork::check(self.inner.generation)?;
        self.inner.contexts[self.index(device)?].device.end();
        Ok(())
    }
}

fn is_remote(place: &Place) -> bool {
    matches!(place, Place::Remote { .. })
}
