//! Pinned memory through which copies go that no engine makes in one: pairs of buffers, few and counted (digest 2.4).

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock};

use ggas_gpu::{Gpu, HostMapping};

use crate::error::HpeError;
use crate::fork;
use crate::runtime::Runtime;
use crate::segment::PAGE;
use crate::slots::{ALL, SLOT, Slots};

/// What is pinned, and how often it was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedCounts {
    /// Bytes that are pinned now.
    pub bytes: usize,
    /// Bytes that may be pinned at most.
    pub bound: usize,
    /// Bytes in use now.
    pub in_use: usize,
    /// The most bytes that were in use at a time.
    pub most_in_use: usize,
    /// Copies that waited for buffers of others.
    pub waited: u64,
    /// Bytes that were given up, besides, as a copy that was not done in time may still use them.
    pub abandoned: usize,
}

/// Two buffers of one size. The driver, where it has them, keeps the pages until it has forgotten them.
pub(crate) struct Buffers {
    _registered: Option<HostMapping>,
    memory: Arc<pages::Pages>,
}

impl Buffers {
    /// Where the first begins; the second follows.
    pub fn start(&self) -> *mut u8 {
        self.memory.start()
    }
}

pub(crate) mod pages {
    //! Pages of the host.
    use std::os::fd::{AsRawFd, BorrowedFd};

    use crate::error::HpeError;

    pub struct Pages {
        start: *mut u8,
        len: usize,
    }

    // SAFETY: plain memory with one owner.
    unsafe impl Send for Pages {}
    // SAFETY: the same; who writes where is for the owner to say.
    unsafe impl Sync for Pages {}

    impl Pages {
        pub fn new(len: usize) -> Result<Pages, HpeError> {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            Pages::map(len, flags, -1).ok_or_else(|| HpeError::system("mapping pinned buffers"))
        }

        /// Those of a file, which children of a fork do not get.
        pub fn of(file: BorrowedFd<'_>, len: usize) -> Option<Pages> {
            let pages = Pages::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, file.as_raw_fd())?;
            // SAFETY: mapped just now.
            unsafe { libc::madvise(pages.start.cast(), len, libc::MADV_DONTFORK) };
            Some(pages)
        }

        fn map(len: usize, flags: i32, file: i32) -> Option<Pages> {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: new pages.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file, 0) };
            // Not made where there are none: to drop them would unmap, and change what errno says.
            (start != libc::MAP_FAILED).then(|| Pages { start: start.cast(), len })
        }

        pub fn start(&self) -> *mut u8 {
            self.start
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: mapped by `new`; nobody else has them.
            unsafe { libc::munmap(self.start.cast(), self.len) };
        }
    }
}

#[derive(Default)]
struct State {
    idle: Vec<Buffers>,
    counts: PinnedCounts,
    /// Whether the slots' bytes are among those that are pinned, or never will be: until then the bound has room for them.
    has_slots: bool,
}

/// The buffers of a runtime.
pub(crate) struct Pool {
    buffer: usize,
    bound: usize,
    /// Registers buffers for all GPUs of the process.
    gpu: Option<Gpu>,
    state: Mutex<State>,
    returned: Condvar,
    slots: Slots,
    /// What the slots are, once one was taken; none where the bound has no room for them.
    slot_memory: OnceLock<Option<Buffers>>,
    /// Where pairs are that were pinned, and will be as long as the pool is there.
    ranges: RwLock<Vec<u64>>,
}

impl Pool {
    /// Buffers of `buffer` bytes, and never more than `bound` bytes of them.
    pub fn new(buffer: usize, bound: usize, gpu: Option<Gpu>) -> Result<Pool, HpeError> {
        let whole = buffer.max(1).checked_next_multiple_of(PAGE);
        match whole.and_then(|size| size.checked_mul(2)) {
            Some(pair) if pair <= bound => {}
            _ => return Err(HpeError::Pinned { bound, buffer }),
        }
        let buffer = whole.unwrap_or(PAGE);
        Ok(Pool {
            buffer,
            bound,
            gpu,
            state: Mutex::default(),
            returned: Condvar::new(),
            slots: Slots::default(),
            slot_memory: OnceLock::new(),
            ranges: RwLock::default(),
        })
    }

    /// Bytes of a buffer.
    pub fn buffer(&self) -> usize {
        self.buffer
    }

    pub fn counts(&self) -> PinnedCounts {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = SLOT * self.slots.taken();
        PinnedCounts { bound: self.bound, in_use: state.counts.in_use + slots, ..state.counts }
    }

    /// Two buffers, both at once, so that copies that wait for buffers hold none. Waits until copies of others end where the
    /// bound is reached; those are bounded.
    pub fn take(&self) -> Result<Pair<'_>, HpeError> {
        let buffers = self.take_buffers(true)?.ok_or_else(|| self.too_small())?;
        Ok(Pair { pool: self, buffers: Some(buffers) })
    }

    /// The same without waiting.
    pub fn take_if_free(&self) -> Option<Pair<'_>> {
        let buffers = self.take_buffers(false).ok()??;
        Some(Pair { pool: self, buffers: Some(buffers) })
    }

    /// Whether `len` bytes at an address of the host lie in pinned buffers: a copy engine takes them from there.
    pub fn holds(&self, address: u64, len: usize) -> bool {
        let pair = 2 * self.buffer as u64;
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        ranges.iter().any(|start| address >= *start && address - start <= pair.saturating_sub(len as u64))
    }

    /// Whether the bound has room for so many pairs, beside slots.
    pub fn has_pairs(&self, pairs: usize) -> bool {
        let slots = if self.has_slots() { ALL } else { 0 };
        pairs.saturating_mul(2 * self.buffer) <= self.bound - slots
    }

    /// What to say where it has not.
    pub fn too_small(&self) -> HpeError {
        HpeError::Pinned { bound: self.bound, buffer: self.buffer }
    }

    /// Two buffers; without `wait` nothing where the bound is reached.
    pub fn take_buffers(&self, wait: bool) -> Result<Option<Buffers>, HpeError> {
        let pair = 2 * self.buffer;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waited = false;
        let buffers = loop {
            if let Some(buffers) = state.idle.pop() {
                break buffers;
            }
            if state.counts.bytes + pair <= self.bound - self.reserved(&state) {
                let buffers = self.pin(pair)?;
                state.counts.bytes += pair;
                break buffers;
            }
            if !wait {
                return Ok(None);
            }
            if !std::mem::replace(&mut waited, true) {
                state.counts.waited += 1;
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.counts.in_use += pair;
        state.counts.most_in_use = state.counts.most_in_use.max(state.counts.in_use);
        Ok(Some(buffers))
    }

    /// Bytes of the bound that are for slots which are not pinned yet.
    fn reserved(&self, state: &State) -> usize {
        if !state.has_slots && self.has_slots() { ALL } else { 0 }
    }

    fn has_slots(&self) -> bool {
        self.bound >= ALL + 2 * self.buffer
    }

    /// A slot for a short copy: nothing for a longer one, or where there are none.
    pub fn slot(&self, len: usize) -> Option<Slot<'_>> {
        if len > SLOT || !self.has_slots() {
            return None;
        }
        let memory = self.slot_memory.get_or_init(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let memory = self.pin(ALL).ok();
            state.has_slots = true;
            match memory {
                Some(_) => state.counts.bytes += ALL,
                // What was kept for slots is there for pairs now.
                None => self.returned.notify_all(),
            }
            memory
        });
        let start = memory.as_ref()?.memory.start();
        let number = self.slots.take()?;
        Some(Slot { slots: &self.slots, number, start: start.wrapping_add(number * SLOT) })
    }

    pub fn give_back(&self, buffers: Buffers) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.counts.in_use -= 2 * self.buffer;
        state.idle.push(buffers);
        self.returned.notify_one();
    }

    fn pin(&self, pair: usize) -> Result<Buffers, HpeError> {
        let memory = Arc::new(pages::Pages::new(pair)?);
        let registered = match &self.gpu {
            // SAFETY: they keep the pages.
            Some(gpu) => Some(unsafe { gpu.map_kept(memory.start(), pair, memory.clone())? }),
            None => {
                // The executor copies without DMA: that the pages stay in memory is asked for, and not needed.
                // SAFETY: pages of this pair.
                unsafe { libc::mlock(memory.start().cast(), pair) };
                None
            }
        };
        if pair == 2 * self.buffer {
            self.ranges.write().unwrap_or_else(PoisonError::into_inner).push(memory.start() as u64);
        }
        Ok(Buffers { memory, _registered: registered })
    }
}

/// Two pinned buffers of a runtime side by side, for what a program stages itself: copies between them and devices go by the copy engine
/// alone. Given back on drop.
pub struct PinnedBuffers {
    runtime: Runtime,
    buffers: Option<Buffers>,
}

// SAFETY: plain memory with one owner; its registration is the driver's.
unsafe impl Send for PinnedBuffers {}

impl Runtime {
    /// Two buffers of the size that [`Builder::pinned`](crate::Builder::pinned) set; `None` where its bound is reached: they are not waited
    /// for, as who holds some may want more. Copies do wait for them: who holds all until a copy of another thread ends, waits for ever.
    ///
    /// # Errors
    /// [`HpeError::Forked`], what the operating system or a driver refuses.
    pub fn pinned_buffers(&self) -> Result<Option<PinnedBuffers>, HpeError> {
        fork::check(self.inner.generation)?;
        let buffers = self.inner.pool.take_buffers(false)?;
        Ok(buffers.map(|buffers| PinnedBuffers { runtime: self.clone(), buffers: Some(buffers) }))
    }
}

impl PinnedBuffers {
    /// Where the first begins; the second follows.
    pub fn start(&self) -> *mut u8 {
        self.buffers.as_ref().map_or(std::ptr::null_mut(), |buffers| buffers.start())
    }

    /// Bytes of each.
    pub fn size(&self) -> usize {
        self.runtime.inner.pool.buffer
    }
}

impl Drop for PinnedBuffers {
    fn drop(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            self.runtime.inner.pool.give_back(buffers);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A slot that was abandoned may still be written to.
        if self.slots.taken() > 0 {
            std::mem::forget(self.slot_memory.take());
        }
    }
}

/// A slot, given back on drop.
pub(crate) struct Slot<'a> {
    slots: &'a Slots,
    number: usize,
    pub start: *mut u8,
}

impl Slot<'_> {
    /// Leaves it to a copy that may still be under way.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.give_back(self.number);
    }
}

/// Two pinned buffers, returned on drop.
pub(crate) struct Pair<'a> {
    pool: &'a Pool,
    buffers: Option<Buffers>,
}

impl Pair<'_> {
    /// Where buffer 0 or 1 begins.
    pub fn buffer(&self, which: usize) -> *mut u8 {
        let start = self.buffers.as_ref().map_or(std::ptr::null_mut(), |buffers| buffers.start());
        start.wrapping_add(which % 2 * self.pool.buffer)
    }

    /// Leaves the memory to a copy that may still be under way: it is never given out again.
    pub fn abandon(mut self) {
        std::mem::forget(self.buffers.take());
    }
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        let pair = 2 * self.pool.buffer;
        let mut state = self.pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.counts.in_use -= pair;
        match self.buffers.take() {
            Some(buffers) => state.idle.push(buffers),
            // What was abandoned no longer counts: else a bound would be used up for good.
            None => {
                state.counts.bytes -= pair;
                state.counts.abandoned += pair;
            }
        }
        self.pool.returned.notify_one();
    }
}
