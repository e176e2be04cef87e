//! A kernel driver in miniature, for tests and examples: opens VPIDs, builds queues, registers memory, all through
//! the card's registers (spec 3.2, 4.2, 8.3, 9.2).
#![allow(dead_code, reason = "each test uses its own part")]

pub mod far;
pub mod hosts;
pub mod joined;
pub mod members;
pub mod window;

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const PATIENCE: Duration = Duration::from_secs(60);

use extoll_abi::*;
use extoll_sim::*;
use ggas_clock::Clock;
use ggas_members::memory::{Arena, ArenaBlock};

/// Ends what goes on beside a test, also when the test fails.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Zeroed memory at an alignment, declared to the card's memory while it lives.
pub struct Pages {
    base: *mut u8,
    layout: Layout,
    memory: Arc<HostMemory>,
    /// Where it is part of an arena.
    block: Option<ArenaBlock>,
}

// SAFETY: reached through raw pointers and atomics only.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    pub fn new(memory: &Arc<HostMemory>, len: usize, align: usize) -> Pages {
        let layout = Layout::from_size_align(len.next_multiple_of(4096), align).unwrap();
        // SAFETY: the layout is not empty.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        assert!(!base.is_null());
        // SAFETY: removed again before the memory is freed.
        unsafe { memory.add_range(RangeKind::Host, base as u64, layout.size()).unwrap() };
        Pages { base, layout, memory: memory.clone(), block: None }
    }

    /// Memory that other processes of a job can copy from.
    pub fn in_arena(memory: &Arc<HostMemory>, arena: &Arc<Arena>, len: usize) -> Pages {
        let layout = Layout::from_size_align(len.next_multiple_of(4096), 4096).unwrap();
        let block = arena.alloc(layout.size(), 4096).unwrap();
        let base = block.ptr();
        // SAFETY: removed again before the block is given back.
        unsafe { memory.add_range(RangeKind::Host, base as u64, layout.size()).unwrap() };
        Pages { base, layout, memory: memory.clone(), block: Some(block) }
    }

    pub fn address(&self) -> u64 {
        self.base as u64
    }

    pub fn len(&self) -> usize {
        self.layout.size()
    }

    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(8 * index < self.len());
        // SAFETY: inside the allocation, aligned.
        unsafe { AtomicU64::from_ptr(self.base.cast::<u64>().add(index)) }
    }

    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }

    /// # Panics
    /// If the range is outside.
    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len());
        // SAFETY: inside the allocation; tests read when nothing writes there.
        unsafe { std::slice::from_raw_parts(self.base.add(offset), len) }.to_vec()
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len());
        // SAFETY: inside the allocation; tests write when nothing reads there.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.base.add(offset), bytes.len()) };
    }

    /// Different bytes everywhere.
    pub fn fill_pattern(&self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        for i in 0..self.len() / 8 {
            self.store(i, rng.u64(..));
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.memory.remove_range(self.base as u64, self.layout.size()).unwrap();
        if self.block.is_none() {
            // SAFETY: allocated with this layout; no card reaches it any more.
            unsafe { std::alloc::dealloc(self.base, self.layout) };
        }
    }
}

/// A card with translation table 0, locks and registers as a driver leaves them.
pub struct Node {
    pub nic: Arc<Nic>,
    pub memory: Arc<HostMemory>,
    pub locks: Pages,
    pub shared: Option<Arc<shared::Nodes>>,
    table: Pages,
    flush: Pages,
    next_page: std::sync::Mutex<u32>,
}

pub struct Setup {
    pub memory: Arc<HostMemory>,
    pub fabric: Arc<dyn Fabric>,
    pub driver: Option<Arc<dyn Driver>>,
    pub clock: Clock,
    pub inline: bool,
    pub shared: Option<Arc<shared::Nodes>>,
}

impl Setup {
    /// One thread, everything inline.
    pub fn inline() -> Setup {
        Setup::over(fabric::Loopback::new(4096, true))
    }

    pub fn over(fabric: Arc<dyn Fabric>) -> Setup {
        Setup {
            memory: HostMemory::new(),
            fabric,
            driver: None,
            clock: Clock::real(),
            inline: true,
            shared: None,
        }
    }

    pub fn node(&self, node: u16) -> Node {
        let config = NicConfig {
            node,
            memory: self.memory.clone(),
            fabric: self.fabric.clone(),
            driver: self.driver.clone(),
            inline: self.inline,
            clock: self.clock.clone(),
            shared: self.shared.clone(),
        };
        let nic = Nic::new(config).unwrap();
        let memory = self.memory.clone();
        let table = Pages::new(&memory, 2 << 20, 2 << 20);
        let locks = Pages::new(&memory, 16 << 10, 4096);
        let flush = Pages::new(&memory, 4096, 4096);
        nic.reg_write(regs::gat(0), GatRegister::new(table.address()).unwrap().0);
        nic.reg_write(regs::EXTOLL_RF_ATU_ENABLE, 1);
        nic.reg_write(regs::EXTOLL_RF_RMA_LOCK_BASE, locks.address());
        nic.reg_write(regs::EXTOLL_RF_RMA_LOCK_CONFIG, regs::lock_config(16, 256));
        // Not the driver's: a machine that stalls would run into them. Tests of time-outs set their own.
        nic.reg_write(regs::EXTOLL_RF_RMA_WCB_TIMEOUT, 0);
        nic.reg_write(regs::EXTOLL_RF_RMA_BQ_TIMEOUT, 0);
        nic.reg_write(regs::EXTOLL_RF_BQ_RMA_GENERAL, 1);
        let shared = self.shared.clone();
        Node { nic, memory, locks, shared, table, flush, next_page: std::sync::Mutex::new(1) }
    }
}

pub const SEGMENT: usize = 4096;

impl Node {
    /// Opens a VPID with a notification queue of `segments` × 256 entries.
    pub fn open(&self, vpid: u8, segments: usize) -> Port<'_> {
        let queue = Pages::new(&self.memory, segments * SEGMENT, 4096);
        let dcq = Pages::new(&self.memory, 4096, 4096);
        let entries = (segments * SEGMENT / 16) as u32;
        let segment = |i: usize| {
            let address = queue.address() + (i * SEGMENT) as u64;
            BqSegment::new(SlotSize::B16, (SEGMENT / 16) as u32, address).unwrap()
        };
        (0..segments).for_each(|i| dcq.store(i, segment(i).0));
        let write = |offset, value| self.nic.reg_write(offset, value);
        write(regs::bq_ub(vpid), u64::from(entries - 1));
        write(regs::bq_table(vpid), BqTable::new(dcq.address(), segments as u32).unwrap().0);
        write(regs::bq_current(vpid), segment(0).with_valid(true).0);
        write(regs::bq_next(vpid), segment(1 % segments).with_valid(true).0);
        write(regs::bq_wp(vpid), if segments >= 3 { 2 } else { 0 });
        write(regs::bq_rp(vpid), BqReadPointer::new(0, true).0);
        write(regs::wcb_state(vpid), 0);
        write(regs::vpid_table(vpid), regs::vpid_entry(0));
        Port { node: self, vpid, queue, _dcq: dcq, entries, rp: 0, wp: Count::default() }
    }

    /// NLA of `pages`, for `vpid`.
    pub fn register(&self, vpid: u8, pages: &Pages, access: Access) -> u64 {
        let count = (pages.len() / 4096) as u32;
        let first = {
            let mut next = self.next_page.lock().unwrap();
            let first = *next;
            *next += count;
            first
        };
        for i in 0..count {
            let address = pages.address() + 4096 * u64::from(i);
            self.set_gate(first + i, Gate::new(vpid, access, address, PageSize::K4).unwrap());
        }
        u64::from(first) << 12
    }

    pub fn set_gate(&self, entry: u32, gate: Gate) {
        self.table.store(entry as usize, gate.0);
    }

    /// Zeroes the entries, flushes them and waits for the card's word (spec 4.2).
    pub fn unregister(&self, nla: u64, pages: &Pages) {
        let (first, count) = ((nla >> 12) as u32, (pages.len() / 4096) as u32);
        (0..count).for_each(|i| self.set_gate(first + i, Gate::INVALID));
        for page in (first..first + count).step_by(1024) {
            let flush = AtuCommand::FlushPages { page, count: (first + count - page).min(1024) };
            self.command(flush);
        }
        self.flush.store(0, 0);
        self.command(AtuCommand::Notify(self.flush.address()));
        let deadline = Instant::now() + PATIENCE;
        while self.flush.load(0) == 0 {
            self.nic.progress();
            assert!(Instant::now() < deadline, "the flush was not notified");
            std::thread::yield_now();
        }
    }

    pub fn command(&self, command: AtuCommand) {
        self.nic.reg_write(regs::EXTOLL_RF_ATU_COMMAND, command.encode().unwrap());
    }

    /// An error counter of the card.
    pub fn errors(&self, counter: regs::ErrorCounter) -> u16 {
        counter.count(self.nic.reg_read(counter.register))
    }

    /// All error counters that are not 0.
    pub fn all_errors(&self) -> Vec<(&'static str, u16)> {
        let counts = regs::ERROR_COUNTERS.iter().map(|c| (c.name, self.errors(*c)));
        counts.filter(|(_, count)| *count != 0).collect()
    }

    pub fn perf(&self, counter: counters::PerfCounter) -> u32 {
        let value = self.nic.reg_read(counter.register);
        if counter.high { (value >> 32) as u32 } else { value as u32 }
    }
}

/// An open VPID and the software's side of its queue.
pub struct Port<'a> {
    pub node: &'a Node,
    pub vpid: u8,
    queue: Pages,
    _dcq: Pages,
    pub entries: u32,
    rp: u32,
    /// Descriptors written so far, for users of the replay protocol.
    pub wp: Count,
}

/// A count modulo 256 that may be shared.
#[derive(Default)]
pub struct Count(std::sync::atomic::AtomicU8);

impl Count {
    pub fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, value: u8) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl Port<'_> {
    pub fn address(&self) -> Address {
        Address::new(self.node.nic.node(), self.vpid)
    }

    /// Stores three words to the page of `option`, in ascending order, without flow control.
    #[inline]
    pub fn post_words(&self, option: PageOption, words: [u64; 3]) {
        self.node.nic.requester_line(option.page_offset(self.vpid), words);
    }

    #[inline]
    pub fn post(&self, dst: Address, spec: Spec, modifier: Modifier, request: &Request) {
        let descriptor = Descriptor::encode(dst, spec, modifier, request).unwrap();
        self.post_words(PageOption::TE, descriptor.word);
    }

    pub fn put(&self, dst: Address, spec: Spec, read: u64, write: u64, size: u32) {
        self.post(dst, spec, Modifier::NONE, &Request::Put { qw: false, read, write, size });
    }

    pub fn get(&self, dst: Address, spec: Spec, read: u64, write: u64, size: u32) {
        self.post(dst, spec, Modifier::NONE, &Request::Get { qw: false, read, write, size });
    }

    /// Consumes the next notification if there is one.
    #[inline]
    pub fn try_next(&mut self) -> Option<Notification> {
        let at = 2 * self.rp as usize;
        let word1 = self.queue.load(at + 1);
        if word1 == 0 {
            return None;
        }
        let word0 = self.queue.load(at);
        self.queue.store(at + 1, 0);
        self.rp = if self.rp + 1 == self.entries { 0 } else { self.rp + 1 };
        self.node.nic.rp_register(self.vpid).store(BqReadPointer::new(self.rp, true).0, Ordering::Release);
        Some(Notification { word0, word1 })
    }

    /// Waits for the next notification, driving the card.
    pub fn next(&mut self) -> Notification {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(notification) = self.try_next() {
                return notification;
            }
            self.node.nic.progress();
            assert!(Instant::now() < deadline, "no notification; errors: {:?}", self.node.all_errors());
            std::thread::yield_now();
        }
    }

    /// Whatever is there now.
    pub fn drain(&mut self) -> Vec<Notification> {
        while self.node.nic.progress() {}
        std::iter::from_fn(|| self.try_next()).collect()
    }

    pub fn close(&self) {
        self.node.nic.reg_write(regs::vpid_table(self.vpid), 0);
    }
}

impl Drop for Port<'_> {
    fn drop(&mut self) {
        self.close();
        self.node.nic.reg_write(regs::bq_current(self.vpid), 0);
    }
}

/// The least CPU time that was used in one of several windows, the first that stays below `bound` the last of them: a
/// machine that takes the processor away counts as use what is none, but not each time.
pub fn least_used(bound: Duration, mut used: impl FnMut() -> Duration) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..10 {
        least = least.min(used());
        if least < bound {
            break;
        }
    }
    least
}

/// CPU time that all threads of this process used for `work`, whatever else the machine does.
pub fn cpu_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let now = || {
        let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
        Duration::from(time)
    };
    let before = now();
    let result = work();
    (result, now() - before)
}
