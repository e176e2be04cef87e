//! The card as a device, driven through the calls that the protocol's library makes: no virtual machine.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_vm::*;
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

#[test]
fn a_put_goes_from_one_guest_to_another() {
    let network = network(2);
    let (mut a, mut b) = (Guest::new(&network, 0, vec![]), Guest::new(&network, 1, vec![]));
    a.open(3, 0x1_0000);
    b.open(5, 0x2_0000);
    let bytes: Vec<u8> = (0..70_001u32).map(|i| (i * 7 + 3) as u8).collect();
    a.ram.write_all_at(&bytes, FILE_AT + 0x10_0000).unwrap();
    let request = put(BUS + 0x10_0000, BUS + 0x20_0001, bytes.len() as u32);
    a.post(PageOption::PHYSICAL, 3, Address::new(1, 5), Spec::COMPLETER, &request);
    let word1 = b.wait(0x2_0008, "the completer's notification");
    let notification = Notification { word0: b.load(0x2_0000), word1 };
    assert_eq!((notification.remote(), notification.error().is_empty()), (Address::new(0, 3), true));
    let mut arrived = vec![0; bytes.len()];
    b.ram.read_exact_at(&mut arrived, FILE_AT + 0x20_0001).unwrap();
    assert!(arrived == bytes, "the bytes differ");
    assert_eq!(a.read(wcb_state(3)) & 0xff, 1, "the descriptor was committed");
}

#[test]
fn only_a_bus_master_reaches_memory() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    a.open(3, 0x1_0000);
    a.master(false);
    a.store(0x10_0000, 77);
    let request = put(BUS + 0x10_0000, BUS + 0x20_0000, 8);
    a.post(PageOption::PHYSICAL, 3, Address::new(0, 3), Spec::NONE, &request);
    assert_eq!(a.load(0x20_0000), 0);
    assert_eq!(REQ_TRANS.count(a.read(REQ_TRANS.register)), 1, "refused as an address without translation");
    a.master(true);
    a.post(PageOption::PHYSICAL, 3, Address::new(0, 3), Spec::NONE, &request);
    assert_eq!(a.wait(0x20_0000, "the put"), 77);
}

#[test]
fn addresses_outside_the_guest_are_refused() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    a.open(3, 0x1_0000);
    a.store(0x10_0000, 77);
    let self_address = Address::new(0, 3);
    let hostile = [0, 8, BUS - 8, BUS + RAM, BUS + RAM - 4, u64::MAX - 7, a.ram_address()];
    for (i, address) in hostile.into_iter().enumerate() {
        a.post(PageOption::PHYSICAL, 3, self_address, Spec::NONE, &put(address, BUS + 0x20_0000, 8));
        a.post(PageOption::PHYSICAL, 3, self_address, Spec::NONE, &put(BUS + 0x10_0000, address, 8));
        assert_eq!(REQ_TRANS.count(a.read(REQ_TRANS.register)), i as u16 + 1, "from {address:#x}");
        assert_eq!(COMPL_TRANS.count(a.read(COMPL_TRANS.register)), i as u16 + 1, "to {address:#x}");
    }
    assert_eq!(a.load(0x20_0000), 0);
}

impl Guest {
    /// An address of this process that a guest must not reach: its card's own code.
    fn ram_address(&self) -> u64 {
        std::ptr::from_ref(&self.card) as u64 & !7
    }
}

#[test]
fn memory_that_was_unmapped_is_gone() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    a.open(3, 0x1_0000);
    a.store(0x10_0000, 77);
    a.back().dma_unmap(DmaUnmapFlags::empty(), BUS, RAM).unwrap();
    let request = put(BUS + 0x10_0000, BUS + 0x20_0000, 8);
    a.post(PageOption::PHYSICAL, 3, Address::new(0, 3), Spec::NONE, &request);
    assert_eq!((a.load(0x20_0000), REQ_TRANS.count(a.read(REQ_TRANS.register))), (0, 1));
    a.map();
    a.post(PageOption::PHYSICAL, 3, Address::new(0, 3), Spec::NONE, &request);
    assert_eq!(a.wait(0x20_0000, "the put"), 77);
}

#[test]
fn declarations_that_make_no_sense_are_refused() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    let flags = DmaMapFlags::READ_WRITE;
    for (offset, bus, size) in [
        (0, BUS + RAM - 4096, 8192),
        (0, u64::MAX - 4095, 8192),
        (0, 0, 0),
        (FILE_AT, 0, RAM + 4096),
        (u64::MAX - 4095, 0, 4096),
        (1, 0, u64::MAX),
    ] {
        let file = a.ram.try_clone().unwrap();
        assert!(
            a.back().dma_map(flags, offset, bus, size, Some(file)).is_err(),
            "{offset:#x} {bus:#x} {size:#x}"
        );
    }
    // Another device's BAR, and firmware: taken, and not reached.
    a.back().dma_map(flags, 0, 0x1000, 4096, None).unwrap();
    let file = a.ram.try_clone().unwrap();
    a.back().dma_map(DmaMapFlags::from_bits_truncate(1), 0, 0x1000, 4096, Some(file)).unwrap();
}

#[test]
fn registers_take_aligned_words_only() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    assert_eq!(a.read(EXTOLL_RF_INFO_NODE) >> EXTOLL_INFO_VPIDS_SHIFT, 256);
    assert_eq!(a.read(EXTOLL_RF_INFO_NETWORK_STATE), EXTOLL_NETWORK_CONFIGURED);
    let mut half = [0xee; 4];
    a.back().region_read(0, EXTOLL_RF_INFO_NODE, &mut half).unwrap();
    assert_eq!(half, [0; 4]);
    a.back().region_write(0, EXTOLL_RF_RMA_LOCK_CONFIG, &[1; 4]).unwrap();
    a.back().region_write(0, EXTOLL_RF_RMA_LOCK_CONFIG + 4, &[1; 8]).unwrap();
    assert_eq!(a.read(EXTOLL_RF_RMA_LOCK_CONFIG), 0);
    assert_eq!(a.read(EXTOLL_BAR0_RMA), u64::MAX);
    for offset in [(128 << 20) - 8, 128 << 20, u64::MAX - 7, u64::MAX] {
        a.write(offset, 1);
        a.read(offset);
    }
}

#[test]
fn accesses_that_trap_are_counted() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    let counts = |a: &mut Guest| {
        let mut words = [0; 8];
        a.back().region_read(CONFIG, 0xe0, &mut words).unwrap();
        u64::from_le_bytes(words)
    };
    a.open(3, 0x1_0000);
    let before = counts(&mut a);
    let request = Request::NotificationPut { class: 1, payload: 2 };
    a.post(PageOption::PHYSICAL, 3, Address::new(0, 3), Spec::NONE, &request);
    assert_eq!(counts(&mut a) - before, 3, "the words of a descriptor");
    a.read(EXTOLL_RF_INFO_NODE);
    a.write(vpid_table(3), 0);
    assert_eq!(counts(&mut a) - before, 2 << 32 | 3);
    a.back().region_write(CONFIG, 0xe0, &[0xff; 8]).unwrap();
    a.back().reset().unwrap();
    assert_eq!(counts(&mut a), 0);
}

#[test]
fn a_reset_forgets_everything_and_keeps_the_mapped_pages() {
    let network = network(2);
    let (mut a, mut b) = (Guest::new(&network, 0, vec![]), Guest::new(&network, 1, vec![]));
    a.open(3, 0x1_0000);
    a.write(EXTOLL_RF_SNQ_MASK, 255);
    let old = Arc::downgrade(a.card.nic());
    // By the device control register, as a guest does.
    a.back().region_write(CONFIG, 0x68, &[0, 0x80]).unwrap();
    assert_eq!((a.read(vpid_table(3)), a.read(bq_rp(3)), a.read(EXTOLL_RF_SNQ_MASK)), (0, 0, 0));
    let deadline = Instant::now() + PATIENCE;
    while old.upgrade().is_some() {
        assert!(Instant::now() < deadline, "the old card lives on");
        std::thread::yield_now();
    }
    // No bus master any more; then it works as before, also from its neighbour.
    a.master(true);
    a.open(3, 0x1_0000);
    b.open(5, 0x2_0000);
    b.store(0x10_0000, 99);
    b.post(
        PageOption::PHYSICAL,
        5,
        Address::new(0, 3),
        Spec::COMPLETER,
        &put(BUS + 0x10_0000, BUS + 0x20_0000, 8),
    );
    a.wait(0x1_0008, "the notification after the reset");
    assert_eq!(a.load(0x20_0000), 99);
    a.back().reset().unwrap();
    assert_eq!(a.read(vpid_table(3)), 0);
}

#[test]
fn the_card_reaches_a_gpu_of_its_guest() {
    let mut gpu = Gpu::new(1 << 20).unwrap();
    let mut a = Guest::new(&network(1), 0, vec![gpu.bar()]);
    a.open(3, 0x1_0000);
    a.store(0x10_0000, 0x1234);
    const AT: u64 = 0xe000_0000;
    let to_gpu = put(BUS + 0x10_0000, AT + 0x100, 8);
    a.post(PageOption::PHYSICAL, 3, Address::new(0, 3), Spec::NONE, &to_gpu);
    assert_eq!(COMPL_TRANS.count(a.read(COMPL_TRANS.register)), 1, "the BAR is nowhere yet");
    let mut device = Backend(&mut gpu);
    device.region_write(CONFIG, 0x10, &AT.to_le_bytes()).unwrap();
    device.region_write(CONFIG, 4, &[6, 0]).unwrap();
    a.post(PageOption::PHYSICAL, 3, Address::new(0, 3), Spec::NONE, &to_gpu);
    let mut word = [0; 8];
    device.region_read(0, 0x100, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 0x1234);
    device.region_write(0, 0x108, &5u64.to_le_bytes()).unwrap();
    a.post(PageOption::PHYSICAL, 3, Address::new(0, 3), Spec::NONE, &put(AT + 0x108, BUS + 0x20_0000, 8));
    assert_eq!(a.wait(0x20_0000, "the put from GPU memory"), 5);
    let over = put(BUS + 0x10_0000, AT + (1 << 20) - 4, 8);
    a.post(PageOption::PHYSICAL, 3, Address::new(0, 3), Spec::NONE, &over);
    assert_eq!(COMPL_TRANS.count(a.read(COMPL_TRANS.register)), 2, "over the BAR's end");
}

#[test]
fn the_window_leads_to_memory_and_registers_of_another_guest() {
    let network = network(2);
    let (mut a, mut b) = (Guest::new(&network, 0, vec![]), Guest::new(&network, 1, vec![]));
    for guest in [&mut a, &mut b] {
        guest.write(EXTOLL_RF_SMFU_T_START_ADDR, BUS + 0x40_0000);
        guest.write(EXTOLL_RF_SMFU_STATUS_CONTROL, 1);
        for (i, start, bytes) in [(0, 0, 32 << 20), (1, 32 << 20, 1 << 20)] {
            let interval = smfu::Interval::new(1, start, bytes);
            guest.write(smfu_start(i), interval.start);
            guest.write(smfu_end(i), interval.end);
            guest.write(smfu_control(i), interval.control);
        }
    }
    a.back().region_write(2, (32 << 20) + 0x10, &[1, 2, 3, 4]).unwrap();
    assert_eq!(b.wait(0x40_0010, "the store"), 0x0403_0201);
    let mut back = [0; 2];
    a.back().region_read(2, (32 << 20) + 0x11, &mut back).unwrap();
    assert_eq!(back, [2, 3]);
    let mut node = [0; 8];
    a.back().region_read(2, EXTOLL_RF_INFO_NODE, &mut node).unwrap();
    assert_eq!(INFO_NODE.get(u64::from_le_bytes(node)), 1, "the other node's register");
    let mut outside = [0; 8];
    a.back().region_read(2, 256 << 20, &mut outside).unwrap();
    assert_eq!(outside, [0xff; 8]);
}

/// The reader's side of a queue of 256 entries.
struct Entries {
    at: u64,
    rp: u64,
}

impl Entries {
    /// Waits for the next entry and frees it, through the page that guests map.
    fn next(&mut self, guest: &Guest, vpid: u8, what: &str) -> Notification {
        let entry = self.at + 16 * self.rp;
        let word1 = guest.wait(entry + 8, what);
        let word0 = guest.load(entry);
        guest.store(entry + 8, 0);
        self.rp = (self.rp + 1) % 256;
        let rp = BqReadPointer::new(self.rp as u32, true).0;
        guest.card.nic().rp_register(vpid).store(rp, std::sync::atomic::Ordering::Release);
        Notification { word0, word1 }
    }
}

/// One side of a conversation: notification puts to and fro on one port, long gets on another.
fn converse(mut guest: Guest, me: u16, rounds: u64) {
    let node = 1 - me;
    let (mut notes, mut gets) = (Entries { at: 0x1_0000, rp: 0 }, Entries { at: 0x2_0000, rp: 0 });
    let get = Request::Get { qw: false, read: BUS + 0x10_0000, write: BUS + 0x20_0000, size: 256 << 10 };
    for payload in 1..=rounds {
        let note = Request::NotificationPut { class: 1, payload };
        let send = |guest: &mut Guest| {
            guest.post(PageOption::PHYSICAL, 3, Address::new(node, 3), Spec::COMPLETER, &note);
        };
        if me == 0 {
            send(&mut guest);
        }
        assert_eq!(notes.next(&guest, 3, &format!("note {payload} at node {me}")).word0, payload);
        if me == 1 {
            send(&mut guest);
        }
        if payload % 16 == 0 {
            guest.post(PageOption::PHYSICAL, 4, Address::new(node, 4), Spec::COMPLETER, &get);
            gets.next(&guest, 4, &format!("get {payload} at node {me}"));
        }
    }
}

#[test]
fn two_guests_talk_without_a_pause() {
    let network = network(2);
    let mut guests: Vec<Guest> = (0..2).map(|node| Guest::new(&network, node, vec![])).collect();
    for guest in &mut guests {
        guest.open(3, 0x1_0000);
        guest.open(4, 0x2_0000);
    }
    std::thread::scope(|scope| {
        for (guest, me) in guests.drain(..).zip(0..) {
            scope.spawn(move || converse(guest, me, 5000));
        }
    });
}
