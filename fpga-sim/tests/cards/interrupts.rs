//! Interrupts through the system notification queue, on whole cards (spec 3.3, 8.4).

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Pages, Setup};
use extoll_abi::{
    Address, BqReadPointer, BqSegment, BqTable, Descriptor, Modifier, PageOption, Request, SlotSize, Spec,
    VeloHeader, regs, velo_page,
};
use extoll_sim::{HostMemory, MAPPED_REGISTERS, Nic, NicConfig, fabric};
use regs::*;

const VELO: u64 = 23;
const RMA: u64 = 25;

/// Microcode: a trigger reads the four interrupt vectors into payload words 3..7 and emits them.
fn program(nic: &Nic, queue: &Pages) -> Arc<AtomicU32> {
    let read = 3 | 0x40 << 4 | 3 << 16 | 3 << 19 | (EXTOLL_RF_RMA_INT_VEC / 8) << 22;
    let emit = 4 | 0xff << 4 | 1 << 48 | 4 << 49;
    for (register, value) in [
        (EXTOLL_RF_SNQ_PROGRAM + 8 * RMA, read),
        (EXTOLL_RF_SNQ_PROGRAM + 8 * 0x40, emit),
        (EXTOLL_RF_SNQ_PROGRAM + 8 * VELO, emit),
        (EXTOLL_RF_SNQ_PROGRAM + 8 * 28, emit),
        (EXTOLL_RF_SNQ_MASK, 15),
        (EXTOLL_RF_SNQ_BASE, queue.address() >> 10),
        (EXTOLL_RF_SNQ_TRIGGER_ENABLE, 1 << VELO | 1 << RMA | 1 << 28),
        (EXTOLL_RF_SNQ_WATERMARK, 1 << 16 | 1),
        (EXTOLL_RF_SNQ_EXECUTE, 1),
    ] {
        nic.reg_write(register, value);
    }
    let interrupts = Arc::new(AtomicU32::new(0));
    let count = interrupts.clone();
    nic.on_interrupt(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    interrupts
}

fn arm(nic: &Nic, vpid: u8, armed: bool) {
    nic.reg_write(regs::bq_rp(vpid), BqReadPointer::new(0, armed).0);
}

/// A notification put with the interrupt option, to its own port.
fn interrupting(port: &crate::common::Port<'_>) {
    let request = Request::NotificationPut { class: 7, payload: 42 };
    let put = Descriptor::encode(port.address(), Spec::COMPLETER, Modifier::NONE, &request).unwrap();
    port.post_words(PageOption::IRQ, put.word);
}

#[test]
fn a_notification_interrupts_once_for_each_arming() {
    let node = Setup::inline().node(3);
    let queue = Pages::new(&node.memory, 4096, 4096);
    let interrupts = program(&node.nic, &queue);
    let port = node.open(70, 1);

    arm(&node.nic, 70, false);
    interrupting(&port);
    assert_eq!(interrupts.load(Ordering::SeqCst), 0, "not armed");
    assert_eq!(node.nic.reg_read(EXTOLL_RF_RMA_INT_RETRIG_VEC + 8), 1 << 6);
    arm(&node.nic, 70, true);
    assert_eq!(interrupts.load(Ordering::SeqCst), 1, "remembered until armed");
    let word = |i: usize| queue.load(i);
    assert_eq!([word(3), word(4), word(5), word(6)], [0, 1 << 6, 0, 0]);
    assert_eq!((word(7) >> 40 & 0xff, word(7) >> 48 & 0xfff, word(7) >> 63), (RMA, 0x40, 1));
    assert_eq!(node.nic.reg_read(regs::int_vec(1)), 0, "the program took the vector");

    // Armed before the notification; the watermark is not renewed, so there is an entry and no interrupt.
    arm(&node.nic, 70, true);
    interrupting(&port);
    assert_eq!(node.nic.reg_read(EXTOLL_RF_SNQ_WP), 2);
    assert_eq!(interrupts.load(Ordering::SeqCst), 1);
    node.nic.reg_write(EXTOLL_RF_SNQ_WATERMARK, 1 << 16 | 2);
    assert_eq!(interrupts.load(Ordering::SeqCst), 2);
}

#[test]
fn what_was_read_before_arming_takes_no_interrupt_from_what_comes_next() {
    let node = Setup::inline().node(3);
    let queue = Pages::new(&node.memory, 4096, 4096);
    let interrupts = program(&node.nic, &queue);
    let port = node.open(70, 1);
    arm(&node.nic, 70, false);
    interrupting(&port);
    // Software found the entry by itself, and now sleeps for the next one.
    node.nic.reg_write(regs::bq_rp(70), BqReadPointer::new(1, true).0);
    assert_eq!(interrupts.load(Ordering::SeqCst), 0, "nothing is there");
    interrupting(&port);
    assert_eq!(interrupts.load(Ordering::SeqCst), 1);
}

/// A mailbox of 32 slots of 128 bytes, of which one stays free.
struct Mailbox<'a> {
    node: &'a crate::common::Node,
    slots: Pages,
    _table: Pages,
}

impl Mailbox<'_> {
    const VPID: u8 = 70;
    const ROOM: u32 = 31;

    fn open(node: &crate::common::Node) -> Mailbox<'_> {
        let (slots, table) = (Pages::new(&node.memory, 4096, 4096), Pages::new(&node.memory, 4096, 4096));
        let segment = BqSegment::new(SlotSize::B128, 32, slots.address()).unwrap();
        table.store(0, segment.0);
        for (register, value) in [
            (EXTOLL_RF_BQ_VELO_GENERAL, BQ_ENABLE.put(1)),
            (velo_bq_ub(Self::VPID), 31),
            (velo_bq_table(Self::VPID), BqTable::new(table.address(), 1).unwrap().0),
            (velo_bq_current(Self::VPID), segment.with_valid(true).0),
            (velo_bq_next(Self::VPID), segment.with_valid(true).0),
            (velo_bq_wp(Self::VPID), 0),
            (velo_bq_rp(Self::VPID), 0),
            (velo_tx(Self::VPID), velo_tx_value(node.nic.node(), Self::VPID, 0)),
            (velo_rx(Self::VPID), velo_rx_value(0)),
        ] {
            node.nic.reg_write(register, value);
        }
        Mailbox { node, slots, _table: table }
    }

    /// A message to itself.
    fn send(&self, interrupt: bool) {
        let destination = Address::new(self.node.nic.node(), Self::VPID);
        let header = VeloHeader { destination, length: 8, interrupt, ..VeloHeader::default() };
        self.node.nic.velo_store(velo_page(0, Self::VPID), &[header.encode().unwrap(), 42]);
    }

    /// Software has read so many in all, and allows an interrupt or not.
    fn read(&self, all: u32, armed: bool) {
        self.node.nic.reg_write(velo_bq_rp(Self::VPID), BqReadPointer::new(all % 32, armed).0);
    }

    /// Messages that lie in slots.
    fn written(&self) -> u64 {
        self.node.nic.reg_read(EXTOLL_RF_VELO_COUNT) & 0xffff_ffff
    }
}

/// What there is of interrupts since the last call.
fn news(count: &AtomicU32, nic: &Nic) -> u32 {
    // The queue of system notifications is read: the next one interrupts.
    nic.reg_write(EXTOLL_RF_SNQ_WATERMARK, 1 << 16 | (nic.reg_read(EXTOLL_RF_SNQ_WP) + 1));
    count.swap(0, Ordering::SeqCst)
}

#[test]
fn a_message_interrupts_once_for_each_arming() {
    let node = Setup::inline().node(3);
    let queue = Pages::new(&node.memory, 4096, 4096);
    let (count, mailbox) = (program(&node.nic, &queue), Mailbox::open(&node));
    mailbox.send(true);
    assert_eq!((mailbox.written(), news(&count, &node.nic)), (1, 0), "not armed");
    assert_ne!(mailbox.slots.load(15), 0, "the status of the first slot");
    mailbox.read(0, true);
    assert_eq!(news(&count, &node.nic), 1, "remembered until armed");
    mailbox.read(1, true);
    mailbox.send(false);
    assert_eq!(news(&count, &node.nic), 0, "it asks for none");
    mailbox.send(true);
    mailbox.send(true);
    assert_eq!(news(&count, &node.nic), 1, "one for each arming");
    // Software found all of them by itself, and now sleeps for the next one.
    mailbox.read(4, true);
    assert_eq!(news(&count, &node.nic), 0, "nothing is there");
    mailbox.send(true);
    assert_eq!(news(&count, &node.nic), 1);
}

#[test]
fn a_message_that_waited_for_room_interrupts_and_one_that_was_dropped_does_not() {
    let (clock, time) = ggas_clock::Manual::new();
    let node = Setup { clock, ..Setup::inline() }.node(3);
    let queue = Pages::new(&node.memory, 4096, 4096);
    let (count, mailbox) = (program(&node.nic, &queue), Mailbox::open(&node));
    let fill = |messages| (0..messages).for_each(|_| mailbox.send(false));
    fill(Mailbox::ROOM);
    mailbox.read(0, true);
    mailbox.send(true);
    assert_eq!((mailbox.written(), news(&count, &node.nic)), (31, 0), "it waits");
    mailbox.read(1, true);
    assert_eq!((mailbox.written(), news(&count, &node.nic)), (32, 1));

    // One that asks for an interrupt is dropped; the next ones to wait ask for none.
    node.nic.reg_write(EXTOLL_RF_VELO_TIMEOUT, VELO_TIMEOUT.put(1) | VELO_TIMEOUT_ENABLE.put(1));
    mailbox.send(true);
    node.nic.progress();
    time.advance(std::time::Duration::from_secs(1));
    node.nic.progress();
    assert_eq!(BQ_ERRORS.get(node.nic.reg_read(EXTOLL_RF_BQ_VELO_GENERAL)), 1, "dropped");
    news(&count, &node.nic); // that of the error, if the driver asks for it
    mailbox.read(2, true);
    fill(2);
    assert_eq!(mailbox.written(), 33);
    mailbox.read(3, true);
    assert_eq!((mailbox.written(), news(&count, &node.nic)), (34, 0), "nobody asked for an interrupt");
}

#[test]
fn a_new_network_state_interrupts() {
    let node = Setup::inline().node(3);
    let queue = Pages::new(&node.memory, 4096, 4096);
    let interrupts = program(&node.nic, &queue);
    node.nic.reg_write(EXTOLL_RF_INFO_NETWORK_STATE, EXTOLL_NETWORK_CONFIGURED);
    node.nic.reg_write(EXTOLL_RF_INFO_NETWORK_STATE, EXTOLL_NETWORK_CONFIGURED);
    assert_eq!(interrupts.load(Ordering::SeqCst), 1);
    assert_eq!(node.nic.reg_read(EXTOLL_RF_SNQ_WP), 1);
    assert_eq!(queue.load(7) >> 40 & 0xff, 28);
}

#[test]
fn register_pages_lie_in_the_bar() {
    let bar = std::fs::File::from(
        nix::sys::memfd::memfd_create("bar", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap(),
    );
    bar.set_len(EXTOLL_BAR0_BYTES).unwrap();
    let config = NicConfig { ..NicConfig::new(0, HostMemory::new(), fabric::Loopback::new(8, true)) };
    let nic = Nic::over_bar(config, bar.as_fd()).unwrap();
    let at = |offset: u64| {
        let mut word = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&bar, &mut word, offset).unwrap();
        u64::from_le_bytes(word)
    };
    for (area, (place, bytes)) in MAPPED_REGISTERS.into_iter().enumerate() {
        for vpid in [0u64, 255] {
            let value = 1 + area as u64 * 1000 + vpid;
            nic.reg_write(place + vpid * 4096, value);
            assert_eq!(at(place + vpid * 4096), value);
        }
        assert_eq!(bytes, 1 << 20);
    }
}
