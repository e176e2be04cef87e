//! The C side of a fiber: `kernels/include/ggas/impl/exec.h`.

use std::alloc::Layout;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use corosensei::Yielder;
use ggas_clock::Clock;

use crate::trap;

/// One CUDA thread, as kernels see it (`struct ggas_exec_thread`).
#[repr(C)]
#[derive(Debug)]
pub(super) struct Thread {
    pub thread: u32,
    pub threads: u32,
    pub block: u32,
    pub blocks: u32,
    pub wait: u32,
    pub line: u32,
    pub peer: u32,
    virtual_time: u32,
    pub address: u64,
    pub expected: u64,
    pub seen: u64,
    runtime: *const c_void,
    shared: *mut c_void,
}

impl Thread {
    /// `shared` lives longer than it.
    pub fn new(thread: u32, threads: u32, block: u32, blocks: u32, shared: *mut Shared) -> Self {
        Self {
            thread,
            threads,
            block,
            blocks,
            wait: 0,
            line: 0,
            peer: !0,
            // SAFETY: the caller's, which lives longer than the thread.
            virtual_time: u32::from(!unsafe { &*shared }.clock.is_real()),
            address: 0,
            expected: 0,
            seen: 0,
            runtime: ptr::null(),
            shared: shared.cast(),
        }
    }

    /// Called on the fiber itself, before its kernel.
    pub fn set_yielder(&mut self, yielder: &Yielder<u64, Event>) {
        self.runtime = std::ptr::from_ref(yielder).cast();
    }
}

/// Where a thread stands: the source line of a barrier call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Site {
    pub file: *const c_char,
    pub line: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WarpOp {
    Sync,
    Shuffle,
    Ballot,
}

/// Why a fiber gave up its OS thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// One round of a wait loop; `attempt` counts the rounds of this wait.
    Pause {
        attempt: u32,
    },
    Barrier {
        site: Site,
        predicate: bool,
    },
    Warp {
        op: WarpOp,
        mask: u32,
        value: u64,
        argument: u32,
    },
    Mmio {
        address: u64,
        value: u64,
        /// 8 or 4.
        bytes: u32,
    },
    Access(Access),
}

/// An access to a trapped address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub kind: trap::Kind,
    pub address: u64,
    /// On the fiber's stack, while it is suspended.
    value: *mut u8,
    pub len: usize,
}

impl Access {
    /// What is stored, or takes what is loaded; of an atomic operation two words.
    ///
    /// # Safety
    /// The fiber that asked is suspended and has not been dropped.
    pub unsafe fn value(&mut self) -> &mut [u8] {
        let words = if self.kind.is_atomic() { 2 } else { 1 };
        // SAFETY: a variable of the fiber, of so many bytes.
        unsafe { std::slice::from_raw_parts_mut(self.value, words * self.len) }
    }
}

/// What the threads of a block share: memory, made on first use by key, the clock, and what the grid has left.
pub(super) struct Shared {
    variables: Vec<(*const c_void, *mut u8, Layout)>,
    clock: Clock,
    /// What the device clock counts from.
    origin: Instant,
    /// Blocks of the grid that have not started.
    unstarted: Arc<AtomicU32>,
}

impl Shared {
    /// Fresh shared memory is not zero on a GPU either; this pattern is a NaN and no small number.
    const PATTERN: u8 = 0xff;

    pub fn new(clock: Clock, origin: Instant, unstarted: Arc<AtomicU32>) -> Shared {
        Shared { variables: Vec::new(), clock, origin, unstarted }
    }

    /// One nanosecond at least: kernels take 0 for no time.
    fn nanoseconds(&self) -> u64 {
        u64::try_from(self.clock.since(self.origin).as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn get(&mut self, key: *const c_void, layout: Layout) -> *mut u8 {
        if let Some((_, memory, _)) = self.variables.iter().find(|(k, _, _)| *k == key) {
            return *memory;
        }
        // SAFETY: `layout` has a size above 0.
        let memory = unsafe { std::alloc::alloc(layout) };
        if memory.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        // SAFETY: just allocated with this size.
        unsafe { memory.write_bytes(Self::PATTERN, layout.size()) };
        self.variables.push((key, memory, layout));
        memory
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for (_, memory, layout) in self.variables.drain(..) {
            // SAFETY: allocated in `get` with the same layout; the block's fibers are gone.
            unsafe { std::alloc::dealloc(memory, layout) };
        }
    }
}

unsafe extern "C" {
    /// Sets `ggas_exec_self` of this OS thread.
    pub(super) fn ggas_exec_enter(this: *mut Thread);
}

/// Suspends the fiber of `this`; the scheduler handles the event and resumes it with a result.
///
/// # Safety
/// Called on the fiber that `this` belongs to.
unsafe fn suspend(this: *const Thread, event: Event) -> u64 {
    // SAFETY: the fiber set its yielder before its kernel ran, and lives as long as the call.
    unsafe { (*(*this).runtime.cast::<Yielder<u64, Event>>()).suspend(event) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ggas_exec_pause(this: *mut Thread, attempt: u32) {
    // SAFETY: kernels pass ggas_exec_self.
    unsafe { suspend(this, Event::Pause { attempt }) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ggas_exec_syncthreads(
    this: *mut Thread,
    predicate: u32,
    file: *const c_char,
    line: u32,
) -> u32 {
    let event = Event::Barrier { site: Site { file, line }, predicate: predicate != 0 };
    // SAFETY: kernels pass ggas_exec_self.
    unsafe { suspend(this, event) as u32 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ggas_exec_warp(this: *mut Thread, op: u32, mask: u32, value: u64, argument: u32) -> u64 {
    let op = match op {
        1 => WarpOp::Shuffle,
        2 => WarpOp::Ballot,
        _ => WarpOp::Sync,
    };
    // SAFETY: kernels pass ggas_exec_self.
    unsafe { suspend(this, Event::Warp { op, mask, value, argument }) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ggas_exec_mmio(this: *mut Thread, address: u64, value: u64, bytes: u32) {
    // The scheduler carries it out: a device model may want more stack than a fiber has.
    // SAFETY: kernels pass ggas_exec_self.
    unsafe { suspend(this, Event::Mmio { address, value, bytes }) };
}

/// 0: the address is not trapped, or no kernel asks; nothing was done.
#[unsafe(no_mangle)]
unsafe extern "C" fn ggas_exec_access(
    this: *mut Thread,
    op: u32,
    address: u64,
    value: *mut u8,
    bytes: u32,
) -> u32 {
    if this.is_null() || !trap::contains(address) {
        return 0;
    }
    let access = Access { kind: trap::Kind::new(op), address, value, len: bytes as usize };
    // SAFETY: kernels pass ggas_exec_self.
    unsafe { suspend(this, Event::Access(access)) };
    1
}

/// Waits until what kernels stored in trapped ranges is performed.
#[unsafe(no_mangle)]
unsafe extern "C" fn ggas_exec_settle(this: *mut Thread) {
    if this.is_null() || !trap::any() {
        return;
    }
    let value = ptr::NonNull::dangling().as_ptr();
    let access = Access { kind: trap::Kind::Settle, address: 0, value, len: 0 };
    // SAFETY: kernels pass ggas_exec_self.
    unsafe { suspend(this, Event::Access(access)) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ggas_exec_time(this: *mut Thread) -> u64 {
    // SAFETY: kernels pass ggas_exec_self, whose block lives as long as they run.
    unsafe { (*(*this).shared.cast::<Shared>()).nanoseconds() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ggas_exec_unstarted(this: *mut Thread) -> u32 {
    // SAFETY: kernels pass ggas_exec_self, whose block lives as long as they run.
    unsafe { (*(*this).shared.cast::<Shared>()).unstarted.load(Ordering::Relaxed) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ggas_exec_shared(
    this: *mut Thread,
    key: *const c_void,
    size: usize,
    align: usize,
) -> *mut c_void {
    let Ok(layout) = Layout::from_size_align(size.max(1), align) else {
        return ptr::null_mut();
    };
    // SAFETY: kernels pass ggas_exec_self; all fibers of a block run on one OS thread, one at a time.
    unsafe { (*(*this).shared.cast::<Shared>()).get(key, layout).cast() }
}
