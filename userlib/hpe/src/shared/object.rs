//! A shared object: one pointer for host and device, coherent by protecting pages (digest 2.5).
//!
//! The host's copy is a file in memory that is mapped twice. The user's mapping, at the object's address, is protected as the states
//! of its blocks say. The shadow mapping may always be written: copies to and from the device go there, so that the user's mapping
//! stays shut while they run, and whoever touches it waits.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ggas_gpu::{Gpu, HostMapping};

use super::memory_file::memory_file;
use super::serve::Desk;
use super::track::{Access, Track};
use crate::device::{Device, Host, Memory, Side};
use crate::error::HpeError;
use crate::futex;
use crate::pinned::pages::Pages;
use crate::segment::{Room, map_over, unmap};

/// Who has the newest bytes of a block.
pub(crate) mod state {
    /// The device; the host may not touch the block.
    pub const INVALID: u32 = 0;
    /// Both; the host may read.
    pub const CLEAN: u32 = 1;
    /// The host, which may read and write.
    pub const DIRTY: u32 = 2;
    /// One thread changes the state; the others wait.
    pub const BUSY: u32 = 3;
}
use state::{BUSY, CLEAN, DIRTY, INVALID};

/// Counters of a runtime's shared objects.
#[derive(Default)]
pub(crate) struct Counters {
    pub faults: AtomicU64,
    pub fetched: AtomicU64,
    pub stored: AtomicU64,
    pub waiting: AtomicU32,
    pub waited: AtomicU64,
}

/// Called between the halves of a copy to or from the host: for tests that look at what others see meanwhile.
pub(crate) type Between = Option<Arc<dyn Fn() + Send + Sync>>;

/// How a runtime keeps its shared objects.
pub(crate) struct Keeping {
    pub track: Track,
    /// Whether copies go to a second mapping. Without one, threads may read halves: for comparison.
    pub shadow: bool,
    pub block: usize,
    pub between: Between,
    pub counters: Counters,
    /// Where handlers hand faults over that they may not serve themselves.
    pub desk: Desk,
    /// Whether they hand over all.
    pub by_thread: bool,
}

impl Keeping {
    /// Where a fault of an object on that device goes, unless the handler serves it itself.
    pub fn server_for(&self, device: &dyn Device) -> Option<&Desk> {
        (self.by_thread || !device.is_signal_safe()).then_some(&self.desk)
    }
}

pub(crate) struct Object {
    pub start: u64,
    /// Whole pages.
    pub size: usize,
    /// Not dropped in children, which do not have it.
    shadow: ManuallyDrop<Arc<Pages>>,
    /// Of a GPU, whose engine then copies from and to the shadow with nothing in between; without it through a pinned buffer. The driver
    /// keeps the shadow until it has forgotten it.
    pinned: Option<HostMapping>,
    _file: OwnedFd,
    /// Given back last.
    _room: Room,
    pub memory: Memory,
    pub device: Arc<dyn Device>,
    pub keeping: Arc<Keeping>,
    pub(super) states: Box<[AtomicU32]>,
    /// Whether any block may not be INVALID: else the end of a launch has none to take back.
    pub(super) touched: AtomicBool,
    /// Whether a block may be DIRTY or BUSY, as one was served since a launch last looked at them: else a launch has none to send.
    pub(super) served: AtomicBool,
    /// The thread that launches a kernel with this object ([`futex::thread`]), or 0.
    pub(super) launcher: AtomicUsize,
    /// Whether it was freed: who prepared launches of it may still have it.
    pub freed: AtomicBool,
    /// Copies through the shadow that are under way; launches wait for them.
    pub(super) copies: AtomicI32,
    generation: u32,
}

/// What became of a fault that could be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// The access may be tried again.
    Yes,
    /// It has to wait for a kernel or for another thread.
    Later,
}

impl Object {
    /// An object whose bytes are zero on both sides; its pages are those of `room`.
    pub fn new(
        room: Room,
        memory: Memory,
        device: Arc<dyn Device>,
        keeping: Arc<Keeping>,
    ) -> Result<Object, HpeError> {
        let (start, size) = (room.start, room.size);
        let file = memory_file(size).inspect_err(|_| device.unmap(&memory, size))?;
        let Some(shadow) = Pages::of(file.as_fd(), size).map(Arc::new) else {
            let error = HpeError::system("mapping a shared object a second time");
            device.unmap(&memory, size);
            return Err(error);
        };
        // SAFETY: it keeps the shadow, which is in memory already; where it cannot be pinned blocks go through a buffer.
        let pin = |gpu: &Gpu| unsafe { gpu.map_kept(shadow.start(), size, shadow.clone()) }.ok();
        let pinned = device.gpu().filter(|_| keeping.shadow).and_then(pin);
        let blocks = size.div_ceil(keeping.block);
        let object = Object {
            start,
            size,
            shadow: ManuallyDrop::new(shadow),
            pinned,
            memory,
            device,
            states: (0..blocks).map(|_| AtomicU32::new(INVALID)).collect(),
            keeping,
            touched: AtomicBool::new(false),
            served: AtomicBool::new(false),
            launcher: AtomicUsize::new(0),
            freed: AtomicBool::new(false),
            copies: AtomicI32::new(0),
            generation: crate::fork::watch(),
            _file: file,
            _room: room,
        };
        // SAFETY: pages that the caller took for this object.
        unsafe {
            map_over(start, size, object.keeping.track.first_protection(), Some(object._file.as_raw_fd()))?
        };
        object.keeping.track.begin(start, size)?;
        Ok(object)
    }

    /// Whether this process made it, and not a parent.
    pub fn is_ours(&self) -> bool {
        crate::fork::generation() == self.generation
    }

    /// Bytes `start..end` of a block.
    pub(super) fn block(&self, block: usize) -> (usize, usize) {
        let start = block * self.keeping.block;
        (start, (start + self.keeping.block).min(self.size))
    }

    /// The host's address for copies of byte `offset`.
    pub fn side(&self, offset: usize) -> u64 {
        if self.keeping.shadow {
            self.shadow.start() as u64 + offset as u64
        } else {
            self.start + offset as u64
        }
    }

    /// Serves an access of the host that was not allowed. Safe in a signal handler where the device's copies are: it takes no lock
    /// and does not allocate. Who holds the object ([`hold`](Self::hold)) is not kept back by a launch that waits for it.
    pub fn serve(&self, offset: usize, writes: bool, holds: bool) -> Result<Served, HpeError> {
        let index = offset / self.keeping.block;
        let address = self.start + offset as u64;
        let state = self.states.get(index).ok_or(HpeError::NotShared { address })?;
        let seen = state.load(Ordering::Acquire);
        let needs = match (seen, writes) {
            (BUSY, _) => return Ok(Served::Later),
            // Another thread was quicker.
            (DIRTY, _) | (CLEAN, false) => return Ok(Served::Yes),
            (CLEAN, true) => Access::Write,
            (_, true) => Access::Write,
            (_, false) => Access::Read,
        };
        if state.compare_exchange(seen, BUSY, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return Ok(Served::Later);
        }
        // A launch sets its mark and then looks for served objects and busy blocks: one of both sees the other.
        self.touched.store(true, Ordering::SeqCst);
        self.served.store(true, Ordering::SeqCst);
        if !holds && self.launcher.load(Ordering::SeqCst) != 0 {
            self.leave(state, seen);
            return Ok(Served::Later);
        }
        self.keeping.counters.faults.fetch_add(1, Ordering::Relaxed);
        let (from, to) = self.block(index);
        match self.admit(seen, (from, to), needs) {
            Ok(may) => {
                self.leave(state, if may == Access::Write { DIRTY } else { CLEAN });
                Ok(Served::Yes)
            }
            Err(error) => {
                self.leave(state, seen);
                Err(error)
            }
        }
    }

    /// Brings bytes to the host if the device has them, and lets the host in: says what it may do. The block is busy.
    fn admit(&self, seen: u32, (from, to): (usize, usize), access: Access) -> Result<Access, HpeError> {
        let (start, len) = (self.start + from as u64, to - from);
        let track = &self.keeping.track;
        if seen == INVALID {
            if !self.keeping.shadow {
                track.admit_copy(start, len)?;
            }
            let inside = self.memory.inside + from as u64;
            // SAFETY: both sides are this object's; the block is busy, so no other thread copies it.
            let copied = unsafe { self.copy(self.side(from), inside, len, Side::Host) };
            if let Err(error) = copied {
                if !self.keeping.shadow {
                    // Nothing arrived: the next access has to be seen, too.
                    let _ = track.shut(start, len);
                }
                return Err(error);
            }
            self.keeping.counters.fetched.fetch_add(len as u64, Ordering::Relaxed);
        }
        track.allow(start, len, seen == INVALID && self.keeping.shadow, access)
    }

    /// Copies in halves if somebody wants to look in between.
    ///
    /// # Safety
    /// As [`Device::copy_now`].
    pub(super) unsafe fn copy(&self, dst: u64, src: u64, len: usize, to: Side) -> Result<(), HpeError> {
        let host = if self.pinned.is_some() { Host::Pinned } else { Host::Pageable };
        let Some(between) = &self.keeping.between else {
            // SAFETY: the caller's contract.
            return unsafe { self.device.copy_now(dst, src, len, to, host) };
        };
        let half = len / 2;
        // SAFETY: the caller's contract.
        unsafe { self.device.copy_now(dst, src, half, to, host)? };
        between();
        let behind = half as u64;
        // SAFETY: the same.
        unsafe { self.device.copy_now(dst + behind, src + behind, len - half, to, host) }
    }

    pub(super) fn leave(&self, state: &AtomicU32, to: u32) {
        state.store(to, Ordering::SeqCst);
        if self.keeping.counters.waiting.load(Ordering::SeqCst) > 0 {
            futex::wake_all(state);
        }
    }

    /// Waits until something changed that [`Served::Later`] may be for, or a millisecond.
    pub fn wait(&self, offset: usize) {
        let Some(state) = self.states.get(offset / self.keeping.block) else { return };
        let counters = &self.keeping.counters;
        counters.waited.fetch_add(1, Ordering::Relaxed);
        counters.waiting.fetch_add(1, Ordering::SeqCst);
        let seen = state.load(Ordering::SeqCst);
        // Of a launch too: its end wakes who waits for blocks.
        futex::wait_briefly(state, seen);
        counters.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether the host may access the byte so: for who handed a fault to another thread.
    pub fn is_open(&self, offset: usize, writes: bool) -> bool {
        let state = self.states.get(offset / self.keeping.block).map(|state| state.load(Ordering::Acquire));
        matches!((state, writes), (Some(DIRTY), _) | (Some(CLEAN), false))
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let pinned = self.pinned.take();
        if !self.is_ours() {
            // The parent's driver has it.
            std::mem::forget(pinned);
            return;
        }
        drop(pinned);
        self.keeping.track.end(self.start, self.size);
        // SAFETY: the table no longer has the object, and nobody serves a fault of it. The shadow is not used again here.
        unsafe {
            unmap(self.start, self.size);
            ManuallyDrop::drop(&mut self.shadow);
        }
        self.device.unmap(&self.memory, self.size);
    }
}
