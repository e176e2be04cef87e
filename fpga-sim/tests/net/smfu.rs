//! The SMFU: intervals, mask mode, bases, counters, timeouts, register access.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use extoll_abi::regs::*;
use extoll_abi::smfu::{ENABLE, Interval, TIMEOUT, TIMEOUT_ERROR};
use extoll_abi::{Atomic, Mode, Operation, Width};
use extoll_sim::memory::{HostMemory, RangeKind};
use extoll_sim::packet::{Class, Kind, Packet, Payload};
use extoll_sim::smfu::{Ingress, Refusal, RegisterFile, Smfu, SmfuError, SmfuErrors};

const WINDOW: u64 = 0x80_0000_0000;
const BYTES: usize = 1 << 16;
/// Offset in the BAR of the interval of node `n`.
const fn at(node: u64) -> u64 {
    EXTOLL_SMFU_RRA_BYTES + node * BYTES as u64
}

#[derive(Default)]
struct File(Mutex<HashMap<u64, u64>>);

impl RegisterFile for File {
    fn read(&self, offset: u64) -> u64 {
        self.0.lock().unwrap().get(&offset).copied().unwrap_or(0)
    }
    fn write(&self, offset: u64, value: u64) {
        self.0.lock().unwrap().insert(offset, value);
    }
}

/// A card: its unit, its register file and the memory it shares, `BYTES` long.
struct Card {
    smfu: Smfu,
    file: File,
    memory: Arc<HostMemory>,
    shared: Box<[AtomicU64]>,
}

impl Card {
    fn new(node: u16) -> Card {
        let shared: Box<[AtomicU64]> = (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        let memory = HostMemory::new();
        // SAFETY: the buffer lives as long as the memory that it is declared in, in the same card.
        unsafe { memory.add_range(RangeKind::Host, shared.as_ptr() as u64, BYTES).unwrap() };
        let card = Card { smfu: Smfu::new(node), file: File::default(), memory, shared };
        card.set(EXTOLL_RF_SMFU_STATUS_CONTROL, ENABLE.put(1));
        card.set(EXTOLL_RF_SMFU_O_START_ADDR, WINDOW);
        card.set(EXTOLL_RF_SMFU_T_START_ADDR, card.shared.as_ptr() as u64);
        card
    }

    fn set(&self, offset: u64, value: u64) {
        assert!(self.smfu.reg_write(offset, value), "{offset:#x}");
    }

    fn get(&self, offset: u64) -> u64 {
        self.smfu.reg_read(offset).unwrap()
    }

    fn interval(&self, index: u32, interval: Interval) {
        self.set(smfu_control(index), interval.control);
        self.set(smfu_start(index), interval.start);
        self.set(smfu_end(index), interval.end);
    }

    fn byte(&self, offset: usize) -> u8 {
        let mut byte = [0];
        extoll_sim::Memory::read(&*self.memory, self.shared.as_ptr() as u64 + offset as u64, &mut byte)
            .unwrap();
        byte[0]
    }
}

/// Two cards; interval n leads to node n, interval 0 to the registers of node 1.
fn pair() -> [Card; 2] {
    let cards = [Card::new(0), Card::new(1)];
    for card in &cards {
        card.interval(EXTOLL_SMFU_RRA_INTERVAL as u32, Interval::new(1, WINDOW, EXTOLL_SMFU_RRA_BYTES));
        for node in 0..2 {
            card.interval(2 + node, Interval::new(node as u16, WINDOW + at(node.into()), BYTES as u64));
        }
    }
    cards
}

/// Carries a packet to its card, and its replies, until all is quiet.
fn carry(cards: &[Card; 2], packet: Packet) {
    let mut next = Some(packet);
    while let Some(packet) = next.take() {
        if packet.kind != Kind::SmfuReply {
            cards[usize::from(packet.source.node)].smfu.sent(packet.kind, packet.aux);
        }
        let card = &cards[usize::from(packet.destination.node)];
        if let Ingress::Reply(reply) = card.smfu.ingress(packet, &*card.memory, &card.file) {
            assert_eq!(reply.class(), Class::Response);
            next = Some(reply);
        }
    }
}

fn store(cards: &[Card; 2], from: usize, offset: u64, bytes: &[u8]) -> Result<usize, SmfuError> {
    let packets: Vec<Packet> = cards[from].smfu.store(offset, bytes)?.collect();
    let count = packets.len();
    packets.into_iter().for_each(|packet| carry(cards, packet));
    Ok(count)
}

fn load(cards: &[Card; 2], from: usize, offset: u64, len: usize) -> Result<Vec<u8>, SmfuError> {
    let mut load = cards[from].smfu.load(Instant::now(), offset, len)?;
    while let Some(packet) = load.request() {
        carry(cards, packet);
    }
    let mut out = vec![0; len];
    load.poll(Instant::now(), Duration::from_secs(1), &mut out).expect("all replies are there").map(|()| out)
}

#[test]
fn intervals_to_one_node_name_its_processes_in_order() {
    let cards = pair();
    cards[0].interval(9, Interval::new(1, WINDOW + at(7), BYTES as u64));
    cards[0].interval(4, Interval::new(1, WINDOW + at(5), BYTES as u64));
    for (part, to) in [(0, (0, 0)), (1, (1, 0)), (5, (1, 1)), (7, (1, 2))] {
        let mut load = cards[0].smfu.load(Instant::now(), at(part), 8).unwrap();
        let mut request = load.request().unwrap();
        assert_eq!((request.destination.node, request.destination.vpid), to, "interval {}", request.aux);
        // The answer is for the process that asked.
        request.source.vpid = 3;
        let (asks, asked) = (request.source, request.destination);
        let card = &cards[usize::from(asked.node)];
        let Ingress::Reply(reply) = card.smfu.ingress(request, &*card.memory, &card.file) else { panic!() };
        assert_eq!((reply.source, reply.destination), (asked, asks));
    }
    // The interval for registers is not counted: those are the node's.
    let registers = cards[0].smfu.store(0, &[0; 8]).unwrap().next().unwrap();
    assert_eq!((registers.destination.node, registers.destination.vpid), (1, 0));
}

#[test]
fn what_is_stored_is_loaded_at_any_alignment() {
    let cards = pair();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut mirror = vec![0u8; BYTES];
    for _ in 0..500 {
        let len = rng.usize(0..700);
        let offset = rng.usize(0..BYTES - len);
        let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(len).collect();
        mirror[offset..offset + len].copy_from_slice(&bytes);
        store(&cards, 0, at(1) + offset as u64, &bytes).unwrap();
    }
    assert_eq!(load(&cards, 0, at(1), BYTES).unwrap(), mirror);
    assert_eq!(load(&cards, 0, at(1) + 13, 1001).unwrap(), mirror[13..1014]);
    assert_eq!(load(&cards, 1, at(1), BYTES).unwrap(), mirror, "the target sees it through its own window");
    assert!((0..BYTES).all(|i| cards[0].byte(i) == 0), "nothing anywhere else");
}

/// Thesis table 6.1: requests for consecutive and non-consecutive accesses to 4-byte values.
#[test]
fn counters_count_requests_as_on_the_card() {
    for (values, consecutive) in [(1, 1), (16, 1), (64, 4), (256, 16), (1024, 64), (4096, 256)] {
        let cards = pair();
        let count = |card: &Card, offset| card.get(offset);
        store(&cards, 0, at(1), &vec![1; 4 * values]).unwrap();
        assert_eq!(count(&cards[0], EXTOLL_RF_SMFU_SENT_P), consecutive);
        assert_eq!(count(&cards[1], EXTOLL_RF_SMFU_RCVD_P), consecutive);
        load(&cards, 0, at(1), 4 * values).unwrap();
        assert_eq!(count(&cards[0], EXTOLL_RF_SMFU_SENT_NP), consecutive);
        assert_eq!(count(&cards[1], EXTOLL_RF_SMFU_RCVD_NP), consecutive);
        assert_eq!(count(&cards[1], EXTOLL_RF_SMFU_SENT_RSP), consecutive);
        assert_eq!(count(&cards[0], EXTOLL_RF_SMFU_RCVD_RSP), consecutive);
        assert_eq!(count(&cards[0], smfu_count(3)), consecutive << 32 | consecutive);
        assert_eq!(count(&cards[1], smfu_count(3)), 0, "intervals count at the origin");
        (0..values as u64).for_each(|i| _ = store(&cards, 0, at(1) + 8 * i, &[1; 4]).unwrap());
        assert_eq!(count(&cards[0], EXTOLL_RF_SMFU_SENT_P), consecutive + values as u64);
    }
}

#[test]
fn accesses_that_cross_a_line_are_cut() {
    let cards = pair();
    assert_eq!(store(&cards, 0, at(1) + 60, &[7; 8]).unwrap(), 2);
    assert_eq!(store(&cards, 0, at(1) + 64, &[7; 64]).unwrap(), 1);
    assert_eq!(store(&cards, 0, at(1) + 1, &[7; 128]).unwrap(), 3);
    assert_eq!(store(&cards, 0, at(1), &[]).unwrap(), 0);
    load(&cards, 0, at(1) + 1, 128).unwrap();
    assert_eq!(cards[0].get(EXTOLL_RF_SMFU_SENT_NP), 3);
}

#[test]
fn bases_follow_the_interval() {
    let cards = pair();
    let base = cards[1].shared.as_ptr() as u64;
    let own = (base + 8191) & !4095;
    cards[1].set(smfu_target_base(3), own);
    store(&cards, 0, at(1), &[9]).unwrap();
    assert_eq!(cards[1].byte((own - base) as usize), 9, "base of the interval that it hit");
    cards[1].set(smfu_target_base(3), 0);
    store(&cards, 0, at(1), &[8]).unwrap();
    assert_eq!(cards[1].byte(0), 8, "otherwise the default");
}

#[test]
fn outside_intervals_the_mask_names_the_node() {
    let cards = pair();
    (0..64).for_each(|index| cards[0].set(smfu_control(index), 0));
    // Bit 27 is the node, the bits below the offset.
    cards[0].set(EXTOLL_RF_SMFU_ADDR_MASK, 1 << 27);
    store(&cards, 0, 1 << 27 | at(0), &[5]).unwrap();
    assert_eq!(cards[1].smfu.errors().bad_address, 1, "node 1, at a base too high by the offset");
    cards[1].set(EXTOLL_RF_SMFU_T_START_ADDR, cards[1].shared.as_ptr() as u64 - at(0));
    store(&cards, 0, 1 << 27 | at(0), &[5]).unwrap();
    assert_eq!(cards[1].byte(0), 5);
    assert_eq!(cards[0].get(smfu_count(0)), 0);
    // The node offset shifts everybody by one.
    cards[0].set(EXTOLL_RF_SMFU_N_NODE_OFFSET, 1);
    store(&cards, 0, at(0) + 1, &[6]).unwrap();
    assert_eq!(cards[1].byte(1), 6);
    // Without a mask all goes to the node of the offset.
    cards[0].set(EXTOLL_RF_SMFU_ADDR_MASK, 0);
    store(&cards, 0, at(0) + 2, &[7]).unwrap();
    assert_eq!(cards[1].byte(2), 7);
}

#[test]
fn the_first_interval_leads_to_registers() {
    let cards = pair();
    store(&cards, 0, 0x8038, &42u64.to_le_bytes()).unwrap();
    assert_eq!(cards[1].file.read(0x8038), 42);
    assert_eq!(load(&cards, 0, 0x8038, 8).unwrap(), 42u64.to_le_bytes());
    let words: Vec<u8> = (0..16u64).flat_map(u64::to_le_bytes).collect();
    store(&cards, 0, 0x8030, &words).unwrap();
    assert_eq!(load(&cards, 0, 0x8030, words.len()).unwrap(), words);
    let refused = store(&cards, 0, 0x8034, &[0; 8]);
    assert_eq!(refused, Err(SmfuError::Unaligned { offset: 0x8034, len: 8 }));
    assert!((0..BYTES).all(|i| cards[1].byte(i) == 0), "memory is not touched");
}

#[test]
fn refusals_come_before_anything_is_sent() {
    let cards = pair();
    let outside = EXTOLL_SMFU_WINDOW_BYTES;
    assert!(matches!(store(&cards, 0, outside - 4, &[0; 8]), Err(SmfuError::OutsideWindow { .. })));
    assert!(matches!(load(&cards, 0, u64::MAX, 8), Err(SmfuError::OutsideWindow { .. })));
    cards[0].set(EXTOLL_RF_SMFU_STATUS_CONTROL, 0);
    assert_eq!(store(&cards, 0, at(1), &[0]), Err(SmfuError::Disabled { node: 0 }));
    assert_eq!(load(&cards, 0, at(1), 1), Err(SmfuError::Disabled { node: 0 }));
    assert_eq!(cards[0].get(EXTOLL_RF_SMFU_SENT_P), 0);
}

fn atomic(cards: &[Card; 2], from: usize, offset: u64, atomic: Atomic) -> Result<u64, SmfuError> {
    let mut load = cards[from].smfu.atomic(Instant::now(), offset, atomic)?;
    while let Some(packet) = load.request() {
        carry(cards, packet);
    }
    let mut old = [0; 8];
    let out = &mut old[..atomic.width().bytes()];
    load.poll(Instant::now(), Duration::from_secs(1), out).expect("the reply is there")?;
    Ok(u64::from_le_bytes(old))
}

fn reduce(cards: &[Card; 2], from: usize, offset: u64, atomic: Atomic) -> Result<(), SmfuError> {
    carry(cards, cards[from].smfu.reduce(offset, atomic)?);
    Ok(())
}

#[test]
fn operations_change_words_and_nothing_else() {
    let (cards, mut rng) = (pair(), fastrand::Rng::with_seed(2));
    let mut mirror = [0u64; 8];
    for _ in 0..2000 {
        let word = rng.usize(..8);
        let (width, shift) = if rng.bool() { (Width::Eight, 0) } else { (Width::Four, 32 * rng.u32(..2)) };
        let old = mirror[word] >> shift & if width == Width::Four { u64::from(u32::MAX) } else { u64::MAX };
        let operand = rng.u64(..) >> rng.u32(..64);
        let operation = match Operation::new(rng.u8(..11)).unwrap() {
            // Half of them find what they expect.
            Operation::CompareExchange => {
                Atomic::compare_exchange(width, if rng.bool() { old } else { rng.u64(..) }, operand)
            }
            operation => Atomic::new(operation, width, operand),
        };
        let place = at(1) + 8 * word as u64 + u64::from(shift / 8);
        match rng.bool() {
            true => assert_eq!(atomic(&cards, 0, place, operation), Ok(old), "{operation:?}"),
            false => reduce(&cards, 0, place, operation).unwrap(),
        }
        let new = operation.apply(old);
        match width {
            Width::Eight => mirror[word] = new,
            Width::Four => mirror[word] = mirror[word] & !(u64::from(u32::MAX) << shift) | new << shift,
        }
        let bytes: Vec<u8> = mirror.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(load(&cards, 0, at(1), 64).unwrap(), bytes, "{operation:?}");
    }
    assert!((64..BYTES).all(|i| cards[1].byte(i) == 0));
}

#[test]
fn operations_count_as_loads_and_stores_do() {
    let cards = pair();
    (0..3).for_each(|_| _ = atomic(&cards, 0, at(1), Atomic::add(1)).unwrap());
    (0..5).for_each(|_| reduce(&cards, 0, at(1), Atomic::add(1)).unwrap());
    let counts =
        [EXTOLL_RF_SMFU_SENT_P, EXTOLL_RF_SMFU_SENT_NP, EXTOLL_RF_SMFU_RCVD_RSP].map(|at| cards[0].get(at));
    assert_eq!(counts, [5, 3, 3]);
    let counts =
        [EXTOLL_RF_SMFU_RCVD_P, EXTOLL_RF_SMFU_RCVD_NP, EXTOLL_RF_SMFU_SENT_RSP].map(|at| cards[1].get(at));
    assert_eq!(counts, [5, 3, 3]);
    assert_eq!(cards[0].get(smfu_count(3)), 5 << 32 | 3);
}

/// The origin refuses what it sees to be none; the target what a broken or hostile origin sends, and counts it.
#[test]
fn operations_that_are_none_are_refused() {
    let cards = pair();
    let no_word = |offset, len| Err(SmfuError::NoWord { offset, len });
    for (offset, operation, len) in [
        (at(1) + 4, Atomic::add(1), 8),
        (at(1) + 2, Atomic::new(Operation::Add, Width::Four, 1), 4),
        (0x8038, Atomic::add(1), 8), // registers
    ] {
        assert_eq!(atomic(&cards, 0, offset, operation).map(|_| ()), no_word(offset, len));
        assert_eq!(reduce(&cards, 0, offset, operation), no_word(offset, len));
    }
    assert_eq!(cards[0].get(EXTOLL_RF_SMFU_SENT_P) + cards[0].get(EXTOLL_RF_SMFU_SENT_NP), 0);

    let sane = || cards[0].smfu.reduce(at(1), Atomic::add(1)).unwrap();
    let mut hostile = Vec::new();
    for code in [0, 0x080b, 0x0200, u16::MAX] {
        hostile.push((Packet { protection: code, ..sane() }, Refusal::Operation));
    }
    for len in [0, 1, 4, 7, 9, 16, 64, 100] {
        hostile.push((Packet { payload: Payload::copy_of(&vec![1; len]), ..sane() }, Refusal::Operation));
    }
    hostile.push((Packet { mode: Mode::RRA, ..sane() }, Refusal::Operation));
    for address in [4, 1, BYTES as u64, u64::MAX - 7, 1 << 63] {
        hostile.push((Packet { address, ..sane() }, Refusal::Address));
    }
    let count = hostile.len() as u64;
    for (packet, refusal) in hostile {
        let said = format!("{packet:?}");
        let mut asked = cards[0].smfu.atomic(Instant::now(), at(1), Atomic::add(1)).unwrap();
        let tag = asked.request().unwrap().tag;
        let payload = Payload::copy_of(packet.payload.bytes().unwrap());
        carry(&cards, Packet { kind: Kind::SmfuAtomic, tag, payload, ..packet });
        let offset = at(1);
        let refused = Some(Err(SmfuError::Atomic { offset, refusal }));
        assert_eq!(asked.poll(Instant::now(), Duration::MAX, &mut [0; 8]), refused, "{said}");
        carry(&cards, packet);
    }
    assert_eq!(cards[1].smfu.errors(), SmfuErrors { refused: 2 * count, ..SmfuErrors::default() });
    assert!((0..BYTES).all(|i| cards[1].byte(i) == 0), "memory is not touched");
    assert!(cards.iter().all(|card| card.file.0.lock().unwrap().is_empty()), "nor registers");
}

#[test]
fn memory_that_is_not_there_is_counted_and_told() {
    let cards = pair();
    cards[1].set(EXTOLL_RF_SMFU_T_START_ADDR, 0x1000);
    store(&cards, 0, at(1), &[1; 64]).unwrap();
    assert_eq!(load(&cards, 0, at(1), 200), Err(SmfuError::Target { offset: at(1) }));
    assert_eq!(cards[1].smfu.errors(), SmfuErrors { bad_address: 5, ..SmfuErrors::default() });
}

#[test]
fn loads_without_an_answer_time_out() {
    let cards = pair();
    cards[1].set(EXTOLL_RF_SMFU_STATUS_CONTROL, 0);
    let start = Instant::now();
    let mut load = cards[0].smfu.load(start, at(1), 100).unwrap();
    assert_eq!(cards[0].get(EXTOLL_RF_SMFU_STATUS_CONTROL) >> 3 & 1, 0, "not idle");
    let requests: Vec<Packet> = std::iter::from_fn(|| load.request()).collect();
    let tag = requests[0].tag;
    requests.into_iter().for_each(|packet| carry(&cards, packet));
    assert_eq!(cards[1].smfu.errors().disabled, 2);
    let limit = Duration::from_millis(5);
    assert!(load.poll(start + limit / 2, limit, &mut []).is_none());
    let late = load.poll(start + limit, limit, &mut []);
    assert_eq!(late, Some(Err(SmfuError::Timeout { offset: at(1), waited: limit })));
    assert!(!TIMEOUT_ERROR.is_set(cards[0].get(EXTOLL_RF_SMFU_TIMEOUT_CONTROL)), "the caller's limit");
    // The card's own timeout of 1 ms sets the error bit; writing it back clears it.
    cards[0].set(EXTOLL_RF_SMFU_TIMEOUT_CONTROL, TIMEOUT.put(1000));
    assert!(matches!(load.poll(start + limit, Duration::MAX, &mut []), Some(Err(SmfuError::Timeout { .. }))));
    let control = cards[0].get(EXTOLL_RF_SMFU_TIMEOUT_CONTROL);
    assert!(TIMEOUT_ERROR.is_set(control));
    cards[0].set(EXTOLL_RF_SMFU_TIMEOUT_CONTROL, control);
    assert_eq!(cards[0].get(EXTOLL_RF_SMFU_TIMEOUT_CONTROL), TIMEOUT.put(1000));
    // Given up: a late reply is a stray.
    drop(load);
    assert_eq!(cards[0].get(EXTOLL_RF_SMFU_STATUS_CONTROL) >> 3 & 1, 1, "idle");
    cards[1].set(EXTOLL_RF_SMFU_STATUS_CONTROL, 1);
    let mut again = cards[0].smfu.load(start, at(1), 8).unwrap();
    carry(&cards, Packet { tag, ..again.request().unwrap() });
    assert_eq!(cards[0].smfu.errors().stray_replies, 1);
    assert_eq!(cards[0].smfu.errors().timeouts, 2);
}

#[test]
fn registers_keep_their_bits() {
    let card = Card::new(0);
    for (offset, kept) in [
        (EXTOLL_RF_SMFU_TRAFFIC_CLASS, 0x333),
        (EXTOLL_RF_SMFU_N_NODE_OFFSET, 0xffff),
        (EXTOLL_RF_SMFU_ADDR_MASK, 0xffff_ffff_ffc0),
        (smfu_control(63), 0xffff_0701),
        (smfu_start(5), 0xffff_ffff_f000),
        (smfu_target_base(63), 0xffff_ffff_f000),
        (EXTOLL_RF_SMFU_SENT_P, 0xffff_ffff_ffff),
        (0xa018, 0),
    ] {
        card.set(offset, u64::MAX);
        assert_eq!(card.get(offset), kept, "{offset:#x}");
    }
    card.set(EXTOLL_RF_SMFU_STATUS_CONTROL, 0x301);
    assert_eq!(card.get(EXTOLL_RF_SMFU_STATUS_CONTROL), 0x309, "idle");
    for other in [0x9ff8, 0xaa80, 0xa001, u64::MAX] {
        assert!(card.smfu.reg_read(other).is_none() && !card.smfu.reg_write(other, 1), "{other:#x}");
    }
}
