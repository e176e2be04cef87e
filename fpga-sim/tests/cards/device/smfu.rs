//! The SMFU of a card whose memory behind it is a device's.

use extoll_abi::smfu::{ENABLE, Interval};
use extoll_sim::smfu::{Refusal, SmfuError};

use super::*;

const WINDOW: u64 = 0x80_0000_0000;

/// Offset in the BAR.
const fn at(offset: u64) -> u64 {
    EXTOLL_SMFU_RRA_BYTES + offset
}

/// The window of these nodes leads to node 1's device.
fn lead_to(pages: &DevicePages, nodes: &[&Node]) {
    for node in nodes {
        node.nic.reg_write(EXTOLL_RF_SMFU_O_START_ADDR, WINDOW);
        node.nic.reg_write(EXTOLL_RF_SMFU_T_START_ADDR, pages.base);
        let Interval { control, start, end } = Interval::new(1, WINDOW + at(0), 4096 * pages.pages() as u64);
        node.nic.reg_write(smfu_control(1), control);
        node.nic.reg_write(smfu_start(1), start);
        node.nic.reg_write(smfu_end(1), end);
        node.nic.reg_write(EXTOLL_RF_SMFU_STATUS_CONTROL, ENABLE.put(1));
    }
}

/// Nobody drives a card whose device is slow.
fn drive(node: &Node, until: impl Fn() -> bool) {
    while !until() {
        node.nic.progress();
    }
}

/// The SMFU of node 1 leads to memory of a device (spec 6): what is stored is loaded again, in order.
#[test]
fn loads_and_stores_through_the_smfu_reach_a_device() {
    let setup = Setup::inline();
    let (a, b) = (setup.node(0), setup.node(1));
    let device = Arc::new(Device::default());
    let mut db = DevicePages::new(&b.memory, &device, 8);
    lead_to(&db, &[&a, &b]);
    let mut out = [0; 200];
    a.nic.smfu_store(at(100), &[7; 200]).unwrap();
    a.nic.smfu_load(at(100), &mut out, PATIENCE).unwrap();
    assert!(out == [7; 200] && db.bytes(100, 200) == [7; 200], "the load came behind the store");

    // A load waits for the device, and so does what comes behind it.
    device.hold(true);
    std::thread::scope(|threads| {
        let loading = threads.spawn(|| {
            let mut out = [0; 8];
            a.nic.smfu_load(at(100), &mut out, PATIENCE).map(|()| out)
        });
        drive(&b, || device.pending() > 0);
        a.nic.smfu_store(at(100), &[9; 8]).unwrap();
        for _ in 0..100 {
            b.nic.progress();
        }
        assert_eq!(device.pending(), 1, "the store overtook the load");
        device.hold(false);
        device.end(TicketState::Done);
        drive(&b, || loading.is_finished());
        assert_eq!(loading.join().unwrap(), Ok([7; 8]));
    });
    a.nic.smfu_load(at(100), &mut out[..8], PATIENCE).unwrap();
    assert_eq!(out[..9], [9, 9, 9, 9, 9, 9, 9, 9, 7]);

    // One that the device fails is answered by an error.
    device.hold(true);
    std::thread::scope(|threads| {
        let loading = threads.spawn(|| a.nic.smfu_load(at(0), &mut [0; 8], PATIENCE));
        drive(&b, || device.pending() > 0);
        device.hold(false);
        device.end(TicketState::Failed);
        drive(&b, || loading.is_finished());
        assert!(matches!(loading.join().unwrap(), Err(SmfuError::Target { .. })));
    });
    a.nic.smfu_load(at(100), &mut out[..8], PATIENCE).unwrap();

    // A copier without atomics: they are refused, behind the stores of before.
    a.nic.smfu_store(at(0), &[3; 8]).unwrap();
    let error = a.nic.smfu_atomic(at(0), Atomic::add(1), PATIENCE).unwrap_err();
    assert!(error.to_string().contains("only while its copier runs"), "{error}");
    a.nic.smfu_reduce(at(0), Atomic::add(1)).unwrap();
    a.nic.smfu_load(at(0), &mut out[..8], PATIENCE).unwrap();
    assert_eq!(out[..8], [3; 8]);
    let count = |node: &Node, register| node.nic.reg_read(register);
    // Pieces: 200 bytes from 100 on are 4.
    assert_eq!(count(&b, EXTOLL_RF_SMFU_RCVD_NP), 4 + 1 + 1 + 1 + 1 + 2);
    assert_eq!(count(&b, EXTOLL_RF_SMFU_SENT_RSP), count(&a, EXTOLL_RF_SMFU_RCVD_RSP));
}

/// Stores that wait for a device, and go on where the one before ends, are one access of it; each counts.
#[test]
fn stores_that_go_on_are_one_access_of_a_device() {
    let setup = Setup::inline();
    let (a, b) = (setup.node(0), setup.node(1));
    let device = Arc::new(Device::default());
    let mut pages = DevicePages::new(&b.memory, &device, 8);
    lead_to(&pages, &[&a, &b]);
    let bytes: Vec<u8> = (0..6000).map(|i| (i * 7 + i / 256) as u8).collect();
    device.hold(true);
    a.nic.smfu_store(at(40), &bytes[..24]).unwrap();
    drive(&b, || device.pending() == 1);
    // What does not go on, and what goes on behind it, but in other memory.
    a.nic.smfu_store(at(64), &bytes[24..5000]).unwrap();
    a.nic.smfu_store(at(8192), &bytes[5000..]).unwrap();
    a.nic.smfu_store(at(100), &[1, 2, 3]).unwrap();
    let mut lens = Vec::new();
    for accesses in 1.. {
        let device_len = |device: &Device| match &device.0.lock().unwrap().pending.last() {
            Some((_, Copy::Memory { len, .. } | Copy::Entry { len, .. })) => *len,
            Some((_, Copy::Bytes { bytes, .. })) => bytes.len(),
            _ => 0,
        };
        lens.push(device_len(&device));
        device.end(TicketState::Done);
        if accesses == 5 {
            break;
        }
        drive(&b, || device.pending() == 1);
    }
    device.hold(false);
    let mut out = [0; 3];
    a.nic.smfu_load(at(100), &mut out, PATIENCE).unwrap();
    assert_eq!(out, [1, 2, 3]);
    assert_eq!(lens, [24, 4096, 4976 - 4096, 1000, 3]);
    assert_eq!(*pages.bytes(40, 60), bytes[..60]);
    assert_eq!(*pages.bytes(103, 4937), bytes[63..5000]);
    assert_eq!(*pages.bytes(8192, 1000), bytes[5000..]);
    let stores = 1 + 4976_u64.div_ceil(64) + 1000_u64.div_ceil(64) + 1;
    assert_eq!(b.nic.reg_read(EXTOLL_RF_SMFU_RCVD_P), stores);
}

/// A device with atomics, behind node 1.
struct Pair {
    a: Node,
    b: Node,
    device: Arc<Device>,
    pages: DevicePages,
}

impl Pair {
    fn new() -> Pair {
        let setup = Setup::inline();
        let (a, b) = (setup.node(0), setup.node(1));
        let device = Arc::new(Device::default());
        device.0.lock().unwrap().atomics = Atomics::Taken;
        let pages = DevicePages::new(&b.memory, &device, 8);
        lead_to(&pages, &[&a, &b]);
        Pair { a, b, device, pages }
    }

    fn change(&self, offset: u64, atomic: Atomic) -> Result<u64, SmfuError> {
        self.a.nic.smfu_atomic(at(offset), atomic, PATIENCE)
    }

    fn take(&self, atomics: Atomics) {
        self.device.0.lock().unwrap().atomics = atomics;
    }

    /// Gives the card of the device many turns, which must not let anything further happen.
    fn turn(&self) {
        for _ in 0..100 {
            self.b.nic.progress();
        }
    }

    /// Bytes of the device's last pending access.
    fn last(&self) -> Option<(usize, bool)> {
        let device = self.device.0.lock().unwrap();
        device.pending.last().map(|(_, copy)| match copy {
            Copy::Change { atomic, .. } => (atomic.width().bytes(), true),
            Copy::Memory { len, .. } | Copy::Entry { len, .. } => (*len, false),
            Copy::Bytes { bytes, .. } => (bytes.len(), false),
        })
    }

    fn word(&mut self, offset: usize) -> u64 {
        u64::from_le_bytes(self.pages.bytes(offset, 8).try_into().unwrap())
    }

    fn count(&self, register: u64) -> u64 {
        self.b.nic.reg_read(register)
    }
}

#[test]
fn atomics_on_a_device_change_words_and_nothing_else() {
    let (mut pair, mut rng) = (Pair::new(), fastrand::Rng::with_seed(3));
    let mut mirror = [0u64; 8];
    for _ in 0..2000 {
        let word = rng.usize(..8);
        let (width, shift) = if rng.bool() { (Width::Eight, 0) } else { (Width::Four, 32 * rng.u32(..2)) };
        let old = mirror[word] >> shift & if width == Width::Four { u64::from(u32::MAX) } else { u64::MAX };
        let operand = rng.u64(..) >> rng.u32(..64);
        let operation = match Operation::new(rng.u8(..11)).unwrap() {
            Operation::CompareExchange => {
                Atomic::compare_exchange(width, if rng.bool() { old } else { rng.u64(..) }, operand)
            }
            operation => Atomic::new(operation, width, operand),
        };
        let offset = 64 + 8 * word as u64 + u64::from(shift / 8);
        match rng.bool() {
            true => assert_eq!(pair.change(offset, operation), Ok(old), "{operation:?}"),
            false => pair.a.nic.smfu_reduce(at(offset), operation).unwrap(),
        }
        let new = operation.apply(old);
        match width {
            Width::Eight => mirror[word] = new,
            Width::Four => mirror[word] = mirror[word] & !(u64::from(u32::MAX) << shift) | new << shift,
        }
        let mut out = [0; 64];
        pair.a.nic.smfu_load(at(64), &mut out, PATIENCE).unwrap();
        let bytes: Vec<u8> = mirror.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(out[..], bytes, "{operation:?}");
    }
    assert!(pair.pages.bytes(0, 64).iter().all(|byte| *byte == 0));
    assert!(pair.pages.bytes(128, 8 * 4096 - 128).iter().all(|byte| *byte == 0));
    let device = pair.device.0.lock().unwrap();
    assert!(device.ended.is_empty() && device.before.is_empty(), "nothing is left to ask");
}

/// Behind a store, before a load and a store; with a reply and without.
#[test]
fn atomics_on_a_device_keep_the_order_of_packets() {
    for replies in [true, false] {
        let mut pair = Pair::new();
        pair.device.hold(true);
        pair.a.nic.smfu_store(at(0), &40u64.to_le_bytes()).unwrap();
        std::thread::scope(|threads| {
            let pair = &pair;
            let asks = threads.spawn(move || match replies {
                true => pair.change(0, Atomic::add(2)).map(Some),
                false => pair.a.nic.smfu_reduce(at(0), Atomic::add(2)).map(|()| None),
            });
            let register = if replies { EXTOLL_RF_SMFU_SENT_NP } else { EXTOLL_RF_SMFU_SENT_P };
            let sent = if replies { 1 } else { 2 };
            drive(&pair.b, || pair.a.nic.reg_read(register) == sent);
            let loads = threads.spawn(|| {
                let mut out = [0; 8];
                pair.a.nic.smfu_load(at(0), &mut out, PATIENCE).map(|()| u64::from_le_bytes(out))
            });
            let loads_sent = if replies { 2 } else { 1 };
            drive(&pair.b, || pair.a.nic.reg_read(EXTOLL_RF_SMFU_SENT_NP) == loads_sent);
            pair.a.nic.smfu_store(at(0), &[9; 16]).unwrap();
            // The store, the atomic operation, the load, and the store behind it.
            for (step, last) in [(8, false), (8, true), (8, false), (16, false)].into_iter().enumerate() {
                drive(&pair.b, || pair.device.pending() > 0);
                pair.turn();
                assert_eq!((pair.device.pending(), pair.last()), (1, Some(last)), "{step}, {replies}");
                pair.device.end(TicketState::Done);
            }
            drive(&pair.b, || asks.is_finished() && loads.is_finished());
            assert_eq!(asks.join().unwrap(), Ok(replies.then_some(40)));
            assert_eq!(loads.join().unwrap(), Ok(42));
        });
        drive(&pair.b, || pair.device.unasked() == 0);
        assert_eq!(pair.word(0), u64::from_le_bytes([9; 8]));
        let answered = if replies { 2 } else { 1 };
        assert_eq!(pair.count(EXTOLL_RF_SMFU_SENT_RSP), answered);
    }
}

#[test]
fn atomics_wait_for_room_on_the_device_and_so_does_what_is_behind() {
    for replies in [true, false] {
        let mut pair = Pair::new();
        pair.take(Atomics::Full);
        std::thread::scope(|threads| {
            let pair = &pair;
            let asks = threads.spawn(move || match replies {
                true => pair.change(8, Atomic::add(2)),
                false => pair.a.nic.smfu_reduce(at(8), Atomic::add(2)).map(|()| 0),
            });
            let register = if replies { EXTOLL_RF_SMFU_RCVD_NP } else { EXTOLL_RF_SMFU_RCVD_P };
            drive(&pair.b, || pair.count(register) == 1);
            pair.a.nic.smfu_store(at(0), &[7; 8]).unwrap();
            pair.turn();
            assert_eq!(pair.count(EXTOLL_RF_SMFU_RCVD_P), u64::from(!replies), "the store overtook it");
            pair.take(Atomics::Taken);
            drive(&pair.b, || asks.is_finished() && pair.count(EXTOLL_RF_SMFU_RCVD_P) > u64::from(!replies));
            assert_eq!(asks.join().unwrap(), Ok(0));
        });
        drive(&pair.b, || pair.device.unasked() == 0);
        assert_eq!((pair.word(0), pair.word(8)), (u64::from_le_bytes([7; 8]), 2));
        let counts = [EXTOLL_RF_SMFU_RCVD_P, EXTOLL_RF_SMFU_RCVD_NP].map(|register| pair.count(register));
        assert_eq!(counts, if replies { [1, 1] } else { [2, 0] }, "it counts once");
    }
}

#[test]
fn atomics_that_a_device_cannot_do_are_refused() {
    let refused = |refusal| Err(SmfuError::Atomic { offset: at(0), refusal });
    let mut pair = Pair::new();
    // Full at first, and then its copier ends.
    pair.take(Atomics::Full);
    std::thread::scope(|threads| {
        let asks = threads.spawn(|| pair.change(0, Atomic::add(1)));
        drive(&pair.b, || pair.count(EXTOLL_RF_SMFU_RCVD_NP) == 1);
        pair.turn();
        assert!(!asks.is_finished());
        pair.take(Atomics::None);
        drive(&pair.b, || asks.is_finished());
        assert_eq!(asks.join().unwrap(), refused(Refusal::Device));
    });
    // A device that fails may have done it.
    pair.take(Atomics::Taken);
    pair.device.hold(true);
    std::thread::scope(|threads| {
        let asks = threads.spawn(|| pair.change(0, Atomic::add(1)));
        drive(&pair.b, || pair.device.pending() > 0);
        pair.device.end(TicketState::Failed);
        drive(&pair.b, || asks.is_finished());
        assert_eq!(asks.join().unwrap(), refused(Refusal::Failed));
    });
    // Words that are not aligned where the target has them.
    pair.device.hold(false);
    pair.b.nic.reg_write(EXTOLL_RF_SMFU_T_START_ADDR, pair.pages.base + 4);
    assert_eq!(pair.change(0, Atomic::add(1)), refused(Refusal::Address));
    pair.a.nic.smfu_reduce(at(0), Atomic::add(1)).unwrap();
    assert_eq!(pair.change(0, Atomic::new(Operation::Add, Width::Four, 1)), Ok(0));
    assert_eq!((pair.word(0), pair.word(8)), (1 << 32, 0));
}

/// Who asks goes, and the card with them: the word stays declared until the device is done, and then nothing is left.
#[test]
fn atomics_that_nobody_waits_for_end_all_the_same() {
    for replies in [true, false] {
        let Pair { a, b, device, pages } = Pair::new();
        device.hold(true);
        match replies {
            true => {
                let late = a.nic.smfu_atomic(at(0), Atomic::add(1), std::time::Duration::from_millis(1));
                assert!(matches!(late, Err(SmfuError::Unanswered { .. })), "{late:?}");
            }
            false => a.nic.smfu_reduce(at(0), Atomic::add(1)).unwrap(),
        }
        drive(&b, || device.pending() > 0);
        let memory = b.memory.clone();
        drop((a, b));
        let (base, len) = (pages.base, 4096 * pages.pages());
        std::thread::scope(|threads| {
            let removal = threads.spawn(|| memory.remove_range(base, len));
            while memory.contains(base, 8) {
                std::thread::yield_now();
            }
            assert!(!removal.is_finished(), "the device still changes it");
            device.end(TicketState::Done);
            assert_eq!(removal.join().unwrap(), Ok(()));
        });
        let device = device.0.lock().unwrap();
        assert!(device.ended.is_empty() && device.before.is_empty());
    }
}

#[test]
fn many_atomics_are_in_flight_on_a_device_and_end_in_any_order() {
    const COUNT: usize = 3000;
    let (mut pair, mut rng) = (Pair::new(), fastrand::Rng::with_seed(4));
    let memory = pair.b.memory.clone();
    let base = pair.pages.base;
    pair.device.hold(true);
    let start = |i: usize| {
        let (offset, atomic) = match i % 2 {
            0 => (0, Atomic::add(1)),
            _ => (8, Atomic::new(Operation::Add, Width::Four, 1)),
        };
        memory.modify(base + offset, atomic).unwrap().unwrap()
    };
    let tickets: Vec<_> = (0..COUNT).map(start).collect();
    assert!(tickets.iter().all(|ticket| memory.fetched(*ticket) == Ok(None)));
    (0..COUNT).rev().for_each(|left| pair.device.end_one(rng.usize(..=left), TicketState::Done));
    let mut found = [vec![], vec![]];
    let mut order: Vec<usize> = (0..COUNT).collect();
    rng.shuffle(&mut order);
    for i in order {
        let bytes = memory.fetched(tickets[i]).unwrap().unwrap();
        assert_eq!(bytes.len(), [8, 4][i % 2]);
        found[i % 2].push(bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte)));
    }
    for found in &mut found {
        found.sort_unstable();
        assert!(found.iter().copied().eq(0..COUNT as u64 / 2));
    }
    assert_eq!((pair.word(0), pair.word(8)), (COUNT as u64 / 2, COUNT as u64 / 2));
    let bad = |address, atomic: Atomic| {
        let refused = memory.modify(address, atomic);
        let error = Err(MemoryError::BadAddress { address, len: atomic.width().bytes() });
        assert_eq!(refused, error);
    };
    bad(base + 4, Atomic::add(1));
    bad(base + 2, Atomic::new(Operation::Add, Width::Four, 1));
    bad(base + 8 * 4096, Atomic::add(1));
    let words = Pages::new(&memory, 4096, 4096);
    bad(words.address(), Atomic::add(1));
}
