//! Interrupts, and what makes them: the system notification queue and its triggers.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_vm::*;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use vfio_user::ServerBackend;

/// Where the queue lies in the guest's memory.
const QUEUE: u64 = 0x3_0000;

/// A queue whose programs write an entry without payload, for these triggers.
fn listen(guest: &mut Guest, triggers: &[u64]) {
    for trigger in triggers {
        guest.write(EXTOLL_RF_SNQ_PROGRAM + 8 * trigger, 6 | 0xff << 4 | 1 << 48);
    }
    for (register, value) in [
        (EXTOLL_RF_SNQ_MASK, 255),
        (EXTOLL_RF_SNQ_BASE, (BUS + QUEUE) >> 10),
        (EXTOLL_RF_SNQ_TRIGGER_ENABLE, triggers.iter().fold(0, |bits, trigger| bits | 1 << trigger)),
        (EXTOLL_RF_SNQ_EXECUTE, 1),
    ] {
        guest.write(register, value);
    }
}

/// Waits for entry `index`; its trigger.
fn entry(guest: &Guest, index: u64) -> u64 {
    guest.wait(QUEUE + 64 * index + 56, "an entry of the system queue") >> 40 & 0xff
}

#[test]
fn the_timer_fires_each_period_or_once() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    listen(&mut a, &[7]);
    let begin = Instant::now();
    a.write(EXTOLL_RF_INFO_TIMER, 1 << 48 | 20_000);
    assert_eq!([0, 1, 2].map(|index| entry(&a, index)), [7; 3]);
    assert!(begin.elapsed() >= Duration::from_millis(60));
    a.write(EXTOLL_RF_INFO_TIMER, 0);
    let written = a.read(EXTOLL_RF_SNQ_WP);
    a.write(EXTOLL_RF_INFO_TIMER, 1 << 49 | 1 << 48 | 1000);
    assert_eq!(entry(&a, written), 7);
    assert_eq!(a.read(EXTOLL_RF_INFO_TIMER), 1 << 49 | 1000, "it turned itself off");
    assert_eq!(a.read(EXTOLL_RF_SNQ_WP), written + 1);
}

/// The thread that runs the cards writes there: it must neither die nor take the process with it.
#[test]
fn a_card_goes_on_when_its_guest_truncates_its_memory() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    a.ram.set_len(0).unwrap();
    listen(&mut a, &[7]);
    a.write(EXTOLL_RF_INFO_TIMER, 1 << 48 | 1000);
    let deadline = Instant::now() + PATIENCE;
    while a.read(EXTOLL_RF_SNQ_WP) < 2 {
        assert!(Instant::now() < deadline, "the card has stopped");
        std::thread::yield_now();
    }
}

#[test]
fn malformed_stores_fire_the_trigger_of_the_wcb() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    a.open(3, 0x1_0000);
    let page = |base: u64, option: PageOption| base + option.page_offset(3);
    listen(&mut a, &[22]);
    a.write(page(EXTOLL_BAR0_RMA, PageOption::PHYSICAL) + 24, 1);
    assert_eq!(entry(&a, 0), 22, "behind a descriptor's last word");
    a.write(page(EXTOLL_BAR0_RMA, PageOption::PHYSICAL), 1);
    a.write(page(EXTOLL_BAR0_RMA, PageOption::TE) + 8, 1);
    assert_eq!(entry(&a, 1), 22, "a line that another page's ended");
    a.write(EXTOLL_RF_RMA_WCB_TIMEOUT, 1 << 32 | 1);
    a.write(page(EXTOLL_BAR0_RMA, PageOption::TE) + 16, 1);
    assert_eq!(entry(&a, 2), 22, "a line that was not finished in time");
    a.write(EXTOLL_BAR0_VELO + (3 << 12) + 1024, 1);
    assert_eq!(entry(&a, 3), 22, "behind a message's last word");
}

#[test]
fn errors_of_the_rma_units_fire_their_trigger() {
    let network = network(2);
    let (mut a, mut b) = (Guest::new(&network, 0, vec![]), Guest::new(&network, 1, vec![]));
    a.open(3, 0x1_0000);
    b.open(5, 0x1_0000);
    listen(&mut a, &[27]);
    listen(&mut b, &[27]);
    let post = |from: &mut Guest, request| {
        from.post(PageOption::PHYSICAL, 3, Address::new(1, 5), Spec::NONE, &request);
    };
    post(&mut a, put(BUS, BUS + 0x20_0000, 8));
    post(&mut a, put(BUS + RAM, BUS, 8));
    assert_eq!((entry(&a, 0), entry(&b, 0)), (27, 27), "the requester, and the completer of its error");
    post(&mut a, put(BUS, BUS + RAM, 8));
    assert_eq!(entry(&b, 1), 27, "the completer");
    post(&mut a, Request::Get { qw: false, read: BUS + RAM, write: BUS, size: 8 });
    assert_eq!(entry(&b, 2), 27, "the responder");
    assert_eq!(COMPL_TRANS.count(b.read(COMPL_TRANS.register)), 1);
}

#[test]
fn a_load_without_an_answer_fires_the_trigger_of_the_smfu() {
    let network = network(2);
    let (mut a, _silent) = (Guest::new(&network, 0, vec![]), Guest::new(&network, 1, vec![]));
    listen(&mut a, &[12]);
    let interval = smfu::Interval::new(1, 32 << 20, 1 << 20);
    for (register, value) in [
        (EXTOLL_RF_SMFU_STATUS_CONTROL, 1),
        (smfu_start(0), interval.start),
        (smfu_end(0), interval.end),
        (smfu_control(0), interval.control),
        (EXTOLL_RF_SMFU_TIMEOUT_CONTROL, 2000),
    ] {
        a.write(register, value);
    }
    let mut word = [0; 8];
    a.back().region_read(2, 32 << 20, &mut word).unwrap();
    assert_eq!((word, entry(&a, 0)), ([0xff; 8], 12));
    assert_eq!(a.read(EXTOLL_RF_SMFU_TIMEOUT_CONTROL), 1 << 32 | 2000);
    a.write(EXTOLL_RF_SMFU_TIMEOUT_CONTROL, 0);
    // A kernel that copies loads each byte, and must come to an end: 200 of them are not 400 s.
    let begun = Instant::now();
    for offset in 0..200 {
        a.back().region_read(2, (32 << 20) + offset, &mut word[..1]).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60), "byte {offset} after {:?}", begun.elapsed());
    }
}

/// Reads an event without waiting.
fn taken(event: &EventFd) -> u64 {
    event.read().unwrap_or(0)
}

#[test]
fn notifications_interrupt_through_the_system_queue() {
    let mut a = Guest::new(&network(1), 0, vec![]);
    let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).unwrap();
    let file = || File::from(std::os::fd::AsFd::as_fd(&event).try_clone_to_owned().unwrap());
    const TRIGGER_EVENTFD: u32 = 1 << 5 | 1 << 2;
    // As QEMU does: first without an event.
    a.back().set_irqs(1, TRIGGER_EVENTFD, 0, 1, vec![]).unwrap();
    a.back().set_irqs(1, TRIGGER_EVENTFD, 0, 1, vec![file()]).unwrap();
    a.open(3, 0x1_0000);
    let read = 3 | 0xff << 4 | 3 << 16 | 3 << 19 | (EXTOLL_RF_RMA_INT_VEC / 8) << 22 | 1 << 48 | 4 << 49;
    for (register, value) in [
        (EXTOLL_RF_SNQ_PROGRAM + 8 * 25, read),
        (EXTOLL_RF_SNQ_MASK, 255),
        (EXTOLL_RF_SNQ_BASE, (BUS + QUEUE) >> 10),
        (EXTOLL_RF_SNQ_TRIGGER_ENABLE, 1 << 25),
        (EXTOLL_RF_SNQ_WATERMARK, 1 << 16 | 1),
        (EXTOLL_RF_SNQ_EXECUTE, 1),
    ] {
        a.write(register, value);
    }
    let request = Request::NotificationPut { class: 1, payload: 2 };
    let interrupting = |a: &mut Guest| {
        a.post(PageOption::IRQ, 3, Address::new(0, 3), Spec::COMPLETER, &request);
    };
    interrupting(&mut a);
    assert_eq!(taken(&event), 1);
    assert_eq!(a.load(QUEUE + 24), 1 << 3, "the vector, in payload word 3");
    assert_eq!(a.load(QUEUE + 56) >> 40, 25 | 25 << 8 | 1 << 23);

    // The guest arms through the page that it maps: the card looks there.
    interrupting(&mut a);
    a.write(EXTOLL_RF_SNQ_WATERMARK, 1 << 16 | 2);
    assert_eq!(taken(&event), 0, "not armed");
    let armed = BqReadPointer::new(1, true).0;
    a.card.nic().rp_register(3).store(armed, std::sync::atomic::Ordering::Release);
    let deadline = Instant::now() + PATIENCE;
    while taken(&event) == 0 {
        assert!(Instant::now() < deadline, "the card did not look at the page");
        std::thread::sleep(Duration::from_micros(100));
    }
    a.back().set_irqs(1, 1 << 5 | 1, 0, 0, vec![]).unwrap();
    assert!(!a.card.interrupts().raise(0), "silent");
}

#[test]
fn an_interrupt_line_that_nobody_reads_does_not_block() {
    let lines = Interrupts::new(1);
    let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).unwrap();
    event.write(u64::MAX - 1).unwrap();
    let file = File::from(std::os::fd::AsFd::as_fd(&event).try_clone_to_owned().unwrap());
    let mut reader = file.try_clone().unwrap();
    lines.set(0, 1, vec![file]).unwrap();
    assert!(!lines.raise(0), "full");
    reader.read_exact(&mut [0; 8]).unwrap();
    assert!(lines.raise(0));
    assert!(!lines.raise(7), "no such vector");
}

#[test]
fn a_client_cannot_make_an_interrupt_block() {
    let lines = Arc::new(Interrupts::new(1));
    let (_reader, writer) = std::io::pipe().unwrap();
    let refused = lines.set(0, 1, vec![File::from(std::os::fd::OwnedFd::from(writer))]).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("no eventfd"), "{refused}");

    let event = EventFd::from_value_and_flags(0, EfdFlags::empty()).unwrap();
    let file = File::from(std::os::fd::AsFd::as_fd(&event).try_clone_to_owned().unwrap());
    lines.set(0, 1, vec![file]).unwrap();
    let flags = fcntl(&event, FcntlArg::F_GETFL).unwrap();
    assert!(flags & OFlag::O_NONBLOCK.bits() != 0);
    // The client turns that off again, and reads nothing.
    fcntl(&event, FcntlArg::F_SETFL(OFlag::from_bits_retain(flags & !OFlag::O_NONBLOCK.bits()))).unwrap();
    event.write(u64::MAX - 1).unwrap();
    let (tell, told) = channel();
    let raised = lines.clone();
    std::thread::spawn(move || tell.send(raised.raise(0)));
    assert_eq!(told.recv_timeout(PATIENCE), Ok(false), "full");
}
