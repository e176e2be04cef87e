//! Memory of a device: copies that end later, what waits for them and what does not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::hosts::Hosts;
use crate::common::joined::join;
use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::memory::{MemoryError, TicketState};
use extoll_sim::*;

mod closed;
mod smfu;
mod staged;

/// A device whose copies end when the test says so.
#[derive(Default)]
struct Device(Mutex<State>);

#[derive(Default)]
struct State {
    next: u64,
    pending: Vec<(u64, Copy)>,
    ended: HashMap<u64, TicketState>,
    hold: bool,
    /// Writes queue entries behind copies.
    notifies: bool,
    atomics: Atomics,
    /// What atomic operations found that are over.
    before: HashMap<u64, u64>,
}

/// Whether a device takes atomic operations.
#[derive(Clone, Copy, Default, PartialEq)]
enum Atomics {
    #[default]
    None,
    /// It has no room for them.
    Full,
    Taken,
}

enum Copy {
    Memory { destination: u64, source: u64, len: usize },
    Bytes { destination: u64, bytes: Vec<u8> },
    Entry { destination: u64, source: u64, len: usize, entry: u64, word: [u64; 2] },
    Change { address: u64, atomic: Atomic },
}

impl Device {
    fn hold(&self, on: bool) {
        self.0.lock().unwrap().hold = on;
    }

    fn pending(&self) -> usize {
        self.0.lock().unwrap().pending.len()
    }

    /// Copies that are over, and of which nobody has heard.
    fn unasked(&self) -> usize {
        self.0.lock().unwrap().ended.len()
    }

    /// Bytes of the oldest copy.
    fn oldest(&self) -> usize {
        match &self.0.lock().unwrap().pending[0].1 {
            Copy::Memory { len, .. } | Copy::Entry { len, .. } => *len,
            Copy::Bytes { bytes, .. } => bytes.len(),
            Copy::Change { atomic, .. } => atomic.width().bytes(),
        }
    }

    /// Ends the oldest copy.
    fn end(&self, state: TicketState) {
        self.end_one(0, state);
    }

    /// Ends the copy before which so many came that are pending.
    fn end_one(&self, at: usize, state: TicketState) {
        let mut device = self.0.lock().unwrap();
        let (id, copy) = device.pending.remove(at);
        device.is_over(id, &copy, state);
    }

    fn start(&self, copy: Copy) -> u64 {
        let mut device = self.0.lock().unwrap();
        device.next += 1;
        let id = device.next;
        if device.hold {
            device.pending.push((id, copy));
        } else {
            device.is_over(id, &copy, TicketState::Done);
        }
        id
    }
}

impl State {
    fn is_over(&mut self, id: u64, copy: &Copy, state: TicketState) {
        match copy {
            _ if state != TicketState::Done => {}
            Copy::Change { address, atomic } => _ = self.before.insert(id, change(*address, *atomic)),
            copy => carry_out(copy),
        }
        self.ended.insert(id, state);
    }
}

/// By plain accesses, one after another: whoever else changes the word meanwhile is lost.
fn change(address: u64, atomic: Atomic) -> u64 {
    // SAFETY: as below, and aligned.
    unsafe {
        if atomic.width() == Width::Four {
            let word = address as *mut u32;
            let before = word.read();
            word.write(atomic.apply(before.into()) as u32);
            return before.into();
        }
        let word = address as *mut u64;
        let before = word.read();
        word.write(atomic.apply(before));
        before
    }
}

fn carry_out(copy: &Copy) {
    // SAFETY: the addresses are declared ranges, checked by `HostMemory`, and allocated in these tests.
    unsafe {
        match copy {
            Copy::Memory { destination, source, len } => {
                std::ptr::copy(*source as *const u8, *destination as *mut u8, *len);
            }
            Copy::Bytes { destination, bytes } => {
                std::ptr::copy(bytes.as_ptr(), *destination as *mut u8, bytes.len());
            }
            Copy::Entry { destination, source, len, entry, word } => {
                std::ptr::copy(*source as *const u8, *destination as *mut u8, *len);
                AtomicU64::from_ptr(*entry as *mut u64).store(word[0], Ordering::Relaxed);
                AtomicU64::from_ptr((*entry + 8) as *mut u64).store(word[1], Ordering::Release);
            }
            Copy::Change { .. } => unreachable!("it is changed elsewhere"),
        }
    }
}

impl DeviceCopier for Device {
    fn copy(&self, destination: u64, source: u64, len: usize) -> u64 {
        self.start(Copy::Memory { destination, source, len })
    }
    fn copy_then_entry(
        &self,
        destination: u64,
        source: u64,
        len: usize,
        entry: u64,
        word: [u64; 2],
    ) -> Option<u64> {
        let notifies = self.0.lock().unwrap().notifies;
        notifies.then(|| self.start(Copy::Entry { destination, source, len, entry, word }))
    }
    fn write_inline(&self, destination: u64, bytes: &[u8]) -> u64 {
        assert!((1..=memory::WRITE_MAX).contains(&bytes.len()), "no copier takes {} bytes so", bytes.len());
        self.start(Copy::Bytes { destination, bytes: bytes.to_vec() })
    }
    fn modify(&self, address: u64, atomic: Atomic) -> Result<Option<u64>, MemoryError> {
        let atomics = self.0.lock().unwrap().atomics;
        match atomics {
            Atomics::None => Err(MemoryError::Device { address }),
            Atomics::Full => Ok(None),
            Atomics::Taken => Ok(Some(self.start(Copy::Change { address, atomic }))),
        }
    }
    fn take_before(&self, id: u64) -> Option<u64> {
        self.0.lock().unwrap().before.remove(&id)
    }
    fn poll(&self, id: u64) -> TicketState {
        self.0.lock().unwrap().ended.remove(&id).unwrap_or(TicketState::Pending)
    }
}

/// Device memory: pages that only the device's copies reach.
struct DevicePages {
    words: Vec<[u64; 512]>,
    memory: Arc<HostMemory>,
    base: u64,
}

impl DevicePages {
    fn new(memory: &Arc<HostMemory>, device: &Arc<Device>, pages: usize) -> DevicePages {
        let words = vec![[0u64; 512]; pages + 1];
        let base = (words.as_ptr() as u64).next_multiple_of(4096);
        // SAFETY: undeclared before the words are freed.
        unsafe { memory.add_range(RangeKind::Device(device.clone()), base, 4096 * pages).unwrap() };
        DevicePages { words, memory: memory.clone(), base }
    }

    fn pages(&self) -> usize {
        self.words.len() - 1
    }

    fn bytes(&mut self, offset: usize, len: usize) -> &mut [u8] {
        let skip = (self.base - self.words.as_ptr() as u64) as usize;
        let flat = self.words.as_flattened_mut();
        // SAFETY: u64s are bytes; the range lies in the vector.
        let bytes = unsafe { std::slice::from_raw_parts_mut(flat.as_mut_ptr().cast::<u8>(), 8 * flat.len()) };
        &mut bytes[skip + offset..skip + offset + len]
    }

    fn register(&self, node: &Node, vpid: u8, first: u32) -> u64 {
        for page in 0..self.pages() as u32 {
            let address = self.base + 4096 * u64::from(page);
            node.set_gate(first + page, Gate::new(vpid, Access::ALL, address, PageSize::K4).unwrap());
        }
        u64::from(first) << 12
    }
}

impl Drop for DevicePages {
    fn drop(&mut self) {
        let _ = self.memory.remove_range(self.base, 4096 * self.pages());
    }
}

const FIRST: u32 = 1 << 16;

#[test]
fn every_direction_moves_the_bytes() {
    for direct in [true, false] {
        let setup = Setup::over(fabric::Loopback::new(64, direct));
        let (a, b) = (setup.node(0), setup.node(1));
        let (mut p, mut q) = (a.open(1, 1), b.open(2, 1));
        let device = Arc::new(Device::default());
        let (mut da, mut db) =
            (DevicePages::new(&a.memory, &device, 8), DevicePages::new(&b.memory, &device, 8));
        let (ha, hb) = (Pages::new(&a.memory, 1 << 15, 4096), Pages::new(&b.memory, 1 << 15, 4096));
        ha.fill_pattern(1);
        let (nda, ndb) = (da.register(&a, 1, FIRST), db.register(&b, 2, FIRST));
        let (nha, nhb) = (a.register(1, &ha, Access::ALL), b.register(2, &hb, Access::ALL));
        for size in [1usize, 8, 64, 65, 496, 500, 5000, 20_000] {
            let bytes = ha.bytes(0, size);
            p.put(q.address(), ALL, nha, ndb + 3, size as u32);
            assert_eq!(p.next().error(), ErrorUnits::NONE);
            assert_eq!(q.next().error(), ErrorUnits::NONE);
            assert!(db.bytes(3, size) == bytes, "host to device, {size}, {direct}");
            p.get(q.address(), ALL, ndb + 3, nda + 5, size as u32);
            let _ = [p.next(), p.next(), q.next()];
            assert!(da.bytes(5, size) == bytes, "device to device, {size}, {direct}");
            p.put(q.address(), ALL, nda + 5, nhb, size as u32);
            let _ = [p.next(), q.next()];
            assert!(hb.bytes(0, size) == bytes, "device to host, {size}, {direct}");
            da.bytes(0, 8 * 4096).fill(0);
            db.bytes(0, 8 * 4096).fill(0);
        }
        assert_eq!((a.all_errors(), b.all_errors()), (vec![], vec![]));
    }
}

const ALL: Spec = Spec::ALL;

/// In one message, in several, by a landing, and by reads: what a packet brings may be more than a copier takes into a buffer of its own.
#[test]
fn payloads_of_other_hosts_reach_a_device() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ((_near, a), (_far, b)) = (join(&hosts, 0), join(&hosts, 1));
    let (p, mut q) = (a.open(1, 1), b.open(2, 1));
    let device = Arc::new(Device::default());
    let mut target = DevicePages::new(&b.memory, &device, 64);
    let source = Pages::new(&a.memory, 1 << 18, 4096);
    source.fill_pattern(1);
    let (from, to) = (a.register(1, &source, Access::ALL), target.register(&b, 2, FIRST));
    for size in [8, 4096, 4097, 6_000, 20_000, 40_000, 64 << 10, 200_000] {
        // Each kind has had its turn once something was sent so before.
        for round in 0..3 {
            let at = 100 * round;
            p.put(q.address(), Spec::COMPLETER, from + at, to + at, size);
            let mut came = None;
            members::drive(std::slice::from_ref(&a), "a put", || {
                b.nic.progress();
                came = came.or_else(|| q.try_next());
                came.is_some()
            });
            assert_eq!(came.unwrap().error(), ErrorUnits::NONE, "{size}");
            let (at, size) = (at as usize, size as usize);
            assert!(target.bytes(at, size) == source.bytes(at, size), "{size}");
            target.bytes(at, size).fill(0);
        }
    }
}

/// Notification puts that tell how far a port has come.
fn mark(p: &Port, q: &Port, payload: u64) {
    p.post(q.address(), Spec::COMPLETER, Modifier::NONE, &Request::NotificationPut { class: 9, payload });
}

#[test]
fn what_is_ordered_behind_waits_and_others_do_not() {
    let setup = Setup::inline();
    let (a, b) = (setup.node(0), setup.node(1));
    let (mut p, mut q, mut other) = (a.open(1, 1), b.open(2, 1), b.open(3, 1));
    let device = Arc::new(Device::default());
    let db = DevicePages::new(&b.memory, &device, 8);
    let ha = Pages::new(&a.memory, 1 << 15, 4096);
    ha.fill_pattern(1);
    let (src, dst) = (a.register(1, &ha, Access::ALL), db.register(&b, 2, FIRST));
    device.hold(true);
    p.put(q.address(), ALL, src, dst, 4000);
    p.put(q.address(), ALL, src, dst + 4000, 8);
    mark(&p, &q, 1);
    mark(&p, &other, 2);
    assert_eq!(other.drain().len(), 1, "another port does not wait");
    assert_eq!((q.drain().len(), device.pending()), (0, 1), "one copy at a time, for order");
    assert_eq!(p.drain().len(), 0, "the source of the first put is still read");
    device.end(TicketState::Done);
    assert_eq!(q.drain().len(), 1);
    assert_eq!((p.drain().len(), device.pending()), (2, 1), "the second one's source was read at once");
    device.end(TicketState::Done);
    assert_eq!(q.drain().iter().map(|n| n.command().get()).collect::<Vec<_>>(), [2, 5]);
}

#[test]
fn a_device_that_fails_is_an_error_not_a_hang() {
    let setup = Setup::inline();
    let (a, b) = (setup.node(0), setup.node(1));
    let (mut p, mut q) = (a.open(1, 1), b.open(2, 1));
    let device = Arc::new(Device::default());
    let db = DevicePages::new(&b.memory, &device, 8);
    let ha = Pages::new(&a.memory, 1 << 15, 4096);
    let (src, dst) = (a.register(1, &ha, Access::ALL), db.register(&b, 2, FIRST));
    device.hold(true);
    p.put(q.address(), Spec::COMPLETER, src, dst, 4000);
    while device.pending() == 0 {
        b.nic.progress();
    }
    device.end(TicketState::Failed);
    assert_eq!(q.next().error(), ErrorUnits::COMPLETER);
    assert_eq!(b.all_errors(), [(COMPL_TRANS.name, 1)]);
    device.hold(false);
    p.put(q.address(), Spec::COMPLETER, src, dst, 4000);
    assert_eq!(q.next().error(), ErrorUnits::NONE);
    assert_eq!(p.drain(), []);
}

#[test]
fn a_device_may_write_the_notification_behind_its_copy() {
    let setup = Setup::inline();
    let (a, b) = (setup.node(0), setup.node(1));
    let (p, mut q) = (a.open(1, 1), b.open(2, 1));
    let device = Arc::new(Device::default());
    device.0.lock().unwrap().notifies = true;
    let mut db = DevicePages::new(&b.memory, &device, 8);
    let ha = Pages::new(&a.memory, 1 << 15, 4096);
    ha.fill_pattern(1);
    let (src, dst) = (a.register(1, &ha, Access::ALL), db.register(&b, 2, FIRST));
    for end in [TicketState::Done, TicketState::Failed] {
        device.hold(true);
        p.put(q.address(), Spec::COMPLETER, src, dst, 4000);
        // Its own queue's requester notification goes behind the slot that the device has.
        q.post(
            p.address(),
            Spec::REQUESTER,
            Modifier::NONE,
            &Request::NotificationPut { class: 1, payload: 7 },
        );
        assert_eq!((q.drain().len(), device.pending()), (0, 1));
        device.end(end);
        b.nic.progress();
        let seen: Vec<_> = q.drain().iter().map(|n| (n.kind().unwrap(), n.error())).collect();
        let error = if end == TicketState::Done { ErrorUnits::NONE } else { ErrorUnits::COMPLETER };
        assert_eq!(seen, [(Kind::Completer, error), (Kind::Requester, ErrorUnits::NONE)]);
        assert!(db.bytes(0, 4000) == ha.bytes(0, 4000));
    }
    assert_eq!(b.all_errors(), [(COMPL_TRANS.name, 1)]);
}

#[test]
fn a_flush_waits_for_copies_in_flight() {
    for at_target in [true, false] {
        let setup = Setup::inline();
        let (a, b) = (setup.node(0), setup.node(1));
        let (p, mut q) = (a.open(1, 1), b.open(2, 1));
        let device = Arc::new(Device::default());
        let db = DevicePages::new(&b.memory, &device, 8);
        let ha = Pages::new(&a.memory, 1 << 15, 4096);
        let (src, dst) = (a.register(1, &ha, Access::ALL), db.register(&b, 2, FIRST));
        device.hold(true);
        p.put(q.address(), Spec::COMPLETER, src, dst, 4000);
        while device.pending() == 0 {
            b.nic.progress();
        }
        // The side whose memory is still in use: the target's by the copy, the origin's as its source.
        let node = if at_target { &b } else { &a };
        let word = Pages::new(&node.memory, 4096, 4096);
        node.command(AtuCommand::FlushVpid(if at_target { 2 } else { 1 }));
        node.command(AtuCommand::Notify(word.address()));
        while a.nic.progress() | b.nic.progress() {}
        assert_eq!(word.load(0), 0, "the copy is in flight");
        device.end(TicketState::Done);
        q.next();
        while a.nic.progress() | b.nic.progress() {}
        assert_ne!(word.load(0), 0);
    }
}

#[test]
fn the_engine_polls_devices() {
    let setup = Setup { driver: Some(NicThreads::new(1)), ..Setup::inline() };
    let (a, b) = (setup.node(0), setup.node(1));
    let (p, mut q) = (a.open(1, 1), b.open(2, 1));
    let device = Arc::new(Device::default());
    let db = DevicePages::new(&b.memory, &device, 8);
    let ha = Pages::new(&a.memory, 1 << 15, 4096);
    let (src, dst) = (a.register(1, &ha, Access::ALL), db.register(&b, 2, FIRST));
    for _ in 0..20 {
        device.hold(true);
        p.put(q.address(), Spec::COMPLETER, src, dst, 4000);
        while device.pending() == 0 {
            std::thread::yield_now();
        }
        device.end(TicketState::Done);
        let deadline = std::time::Instant::now() + PATIENCE;
        while q.try_next().is_none() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
    }
}

#[test]
fn memory_can_go_after_its_card_went() {
    let setup = Setup::inline();
    let a = setup.node(0);
    let device = Arc::new(Device::default());
    let db = DevicePages::new(&setup.memory, &device, 8);
    let ha = Pages::new(&setup.memory, 1 << 15, 4096);
    {
        let b = setup.node(1);
        let (p, q) = (a.open(1, 1), b.open(2, 1));
        let (src, dst) = (a.register(1, &ha, Access::ALL), db.register(&b, 2, FIRST));
        device.hold(true);
        p.put(q.address(), Spec::COMPLETER, src, dst, 4000);
        while device.pending() == 0 {
            b.nic.progress();
        }
    }
    // Nobody will ask for this copy any more; the memory waits for it all the same.
    device.end(TicketState::Done);
    setup.memory.remove_range(db.base, 4096 * db.pages()).unwrap();
}
