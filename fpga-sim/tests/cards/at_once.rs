//! Puts with which the card deals while the fabric has them: nothing that software sees differs from those that it takes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::common::members::packet;
use crate::common::*;
use extoll_abi::*;
use extoll_sim::fabric::{Carriage, Fabric, FabricError, First, Pending};
use extoll_sim::memory::{Far, FarSource, TAIL, TicketState};
use extoll_sim::packet::{Class, Kind as PacketKind, Packet, Payload};
use extoll_sim::runs::Runs;
use extoll_sim::short_put::ShortPut;
use extoll_sim::*;

/// Gives what is put into it, with its payload or without.
struct Giving {
    at_once: bool,
    puts: Mutex<VecDeque<(Packet, Vec<u8>)>>,
    /// What comes with them, or is there once the card has asked for more.
    response: Mutex<Option<(Packet, bool)>>,
    /// Those that the card dealt with at once, and those of them that were no packets yet.
    settled: Mutex<u32>,
    short: Mutex<u32>,
}

impl Fabric for Giving {
    fn send(&self, _from: u16, _packet: Packet) -> Result<(), Packet> {
        Ok(())
    }

    fn poll(&self, _node: u16, class: Class) -> Option<Packet> {
        let mut response = self.response.lock().unwrap();
        response
            .take_if(|(response, asked)| *asked && response.class() == class)
            .map(|(response, _)| response)
    }

    fn carriage(&self, _to: Address, _runs: &Runs) -> Carriage {
        Carriage::Bytes { most: 0 }
    }

    fn polled(&self) -> bool {
        true
    }

    fn pending(&self, _node: u16, first: &mut dyn First) -> Pending {
        let (mut puts, mut came) = (self.puts.lock().unwrap(), false);
        while first.is_free()
            && let Some((mut packet, bytes)) = puts.pop_front()
        {
            came = true;
            if self.at_once
                && let Some(put) = ShortPut::of(&packet, &bytes)
                && first.put(&put, &bytes)
            {
                *self.settled.lock().unwrap() += 1;
                *self.short.lock().unwrap() += 1;
                continue;
            }
            if self.at_once && first.settle(&mut packet, &bytes) {
                *self.settled.lock().unwrap() += 1;
                continue;
            }
            packet.payload = Payload::copy_of(&bytes);
            first.take(&mut packet);
        }
        match &mut *self.response.lock().unwrap() {
            Some((_, asked)) => {
                *asked = true;
                Pending::Packets
            }
            // As over hosts: of what the card has not dealt with, nobody tells it again.
            None if came => Pending::First,
            None => Pending::Nothing,
        }
    }

    fn attach(&self, _node: u16, _wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        Ok(())
    }

    fn detach(&self, _node: u16) {}
}

fn giving(at_once: bool) -> Arc<Giving> {
    let (puts, response, settled, short) = Default::default();
    Arc::new(Giving { at_once, puts, response, settled, short })
}

const VPID: u8 = 2;
const CLOSED: u8 = 3;
const DEAF: u8 = 4;
const NODE: u16 = 0;
const LEN: usize = 300;

type Seen = (Vec<[u64; 2]>, Vec<(&'static str, u16)>, Vec<u8>, Vec<u32>);

/// What software sees of a put after another one; with how many the card dealt at once, and with how many as short ones.
fn seen(at_once: bool, change: &dyn Fn(&mut Packet, &mut Vec<u8>)) -> (Seen, [u32; 2]) {
    let fabric = giving(at_once);
    let setup = Setup::over(fabric.clone());
    let a = setup.node(NODE);
    let mut port = a.open(VPID, 1);
    let memory = Pages::new(&a.memory, 3 * 4096, 4096);
    // The third page lies in front of the second.
    let first = a.register(VPID, &memory, Access::ALL);
    for (entry, page) in [(1, 2), (2, 1)] {
        let address = memory.address() + 4096 * page;
        let gate = Gate::new(VPID, Access::ALL, address, PageSize::K4).unwrap();
        a.set_gate((first >> 12) as u32 + entry, gate);
    }
    // Behind it for one that is closed, and for one without a queue.
    for vpid in [CLOSED, DEAF] {
        a.register(vpid, &memory, Access::ALL);
    }
    a.nic.reg_write(regs::vpid_table(DEAF), regs::vpid_entry(0));
    for number in 0..2 {
        let mut bytes: Vec<u8> = (0..LEN).map(|i| (i * 7 + number) as u8).collect();
        let to = Address::new(NODE, VPID);
        let mut put = packet(1, to, PacketKind::Put, first + 8 + number as u64, Payload::None);
        (put.len, put.total, put.spec) = (LEN as u32, LEN as u32, Spec::COMPLETER);
        if number == 1 {
            change(&mut put, &mut bytes);
        }
        fabric.puts.lock().unwrap().push_back((put, bytes));
    }
    let notes = port.drain().iter().map(|note| [note.word0, note.word1]).collect();
    let all = [
        counters::COMPL_BT_PUT,
        counters::COMPL_QW_PUT,
        counters::COMPL_NOTIFICATIONS,
        counters::COMPL_INTERRUPTS,
        counters::ATU_TRANSLATIONS,
        counters::ATU_MEMORY_READS,
    ];
    let counts = all.map(|counter| a.perf(counter)).to_vec();
    let settled = [&fabric.settled, &fabric.short].map(|count| *count.lock().unwrap());
    ((notes, a.all_errors(), memory.bytes(0, 3 * 4096), counts), settled)
}

/// A change of a put, with how many of the two the card deals at once then, and whether the second one is short for it.
type Case = (&'static str, u32, bool, &'static dyn Fn(&mut Packet, &mut Vec<u8>));

#[test]
fn puts_that_are_settled_at_once_are_as_others() {
    let cases: [Case; 18] = [
        ("whole", 2, true, &|_, _| {}),
        ("without a notification", 2, true, &|put, _| put.spec = Spec::NONE),
        ("of one byte", 2, true, &|put, bytes| {
            (put.len, put.total) = (1, 1);
            bytes.truncate(1);
        }),
        ("of quadwords", 2, true, &|put, _| put.command = CommandCode::from(Command::QwPut)),
        ("of two fragments", 2, false, &|put, _| put.fragment = 299),
        ("with an interrupt", 2, false, &|put, _| put.mode |= Mode::IRQ),
        ("that a card cannot send", 2, false, &|put, _| {
            put.command = CommandCode::from(Command::ImmediatePut)
        }),
        ("with a notification of each fragment", 2, false, &|put, _| put.mode |= Mode::NTR),
        ("into pages that lie apart", 2, false, &|put, _| put.address += 4096 - 100),
        ("to an address that nobody has", 2, false, &|put, _| put.address += 1 << 24),
        ("to a VPID that is closed", 2, false, &|put, _| {
            (put.destination.vpid, put.address) = (CLOSED, put.address + 3 * 4096);
        }),
        ("to a VPID without a queue", 2, false, &|put, _| {
            (put.destination.vpid, put.address) = (DEAF, put.address + 6 * 4096);
        }),
        ("of another protection domain", 2, false, &|put, _| put.protection = 9),
        ("that met an error", 2, false, &|put, _| put.error = ErrorUnits::REQUESTER),
        ("of which bytes are missing", 2, false, &|_, bytes| bytes.truncate(LEN - 1)),
        ("with more bytes than it says", 2, false, &|_, bytes| bytes.push(1)),
        ("of a command with more to come", 2, false, &|put, _| put.total += 1),
        ("to registers", 1, false, &|put, bytes| {
            (put.mode, put.address, put.len, put.total) = (put.mode | Mode::RRA, 0, 8, 8);
            bytes.truncate(8);
        }),
    ];
    for (what, at_once, short, change) in cases {
        let (expected, none) = seen(false, change);
        let (found, settled) = seen(true, change);
        assert!(
            found == expected,
            "a put {what}: {:?}, {:?}",
            (&found.0, &found.1, &found.3),
            (&expected.0, &expected.1, &expected.3)
        );
        assert_eq!((none, settled), ([0; 2], [at_once, 1 + u32::from(short)]), "a put {what}");
    }
}

/// Also where nothing else is there to do.
#[test]
fn a_put_that_is_refused_at_once_interrupts() {
    const RMA_ERROR: u64 = 27;
    for at_once in [false, true] {
        let fabric = giving(at_once);
        let setup = Setup::over(fabric.clone());
        let a = setup.node(NODE);
        let queue = Pages::new(&a.memory, 4096, 4096);
        for (register, value) in [
            (regs::EXTOLL_RF_SNQ_PROGRAM + 8 * RMA_ERROR, 4 | 0xff << 4 | 1 << 48 | 4 << 49),
            (regs::EXTOLL_RF_SNQ_MASK, 15),
            (regs::EXTOLL_RF_SNQ_BASE, queue.address() >> 10),
            (regs::EXTOLL_RF_SNQ_TRIGGER_ENABLE, 1 << RMA_ERROR),
            (regs::EXTOLL_RF_SNQ_WATERMARK, 1 << 16 | 1),
            (regs::EXTOLL_RF_SNQ_EXECUTE, 1),
        ] {
            a.nic.reg_write(register, value);
        }
        let interrupts = Arc::new(Mutex::new(0));
        let count = interrupts.clone();
        a.nic.on_interrupt(move || *count.lock().unwrap() += 1);
        let mut put = packet(1, Address::new(NODE, VPID), PacketKind::Put, 0, Payload::None);
        (put.len, put.total) = (LEN as u32, LEN as u32);
        fabric.puts.lock().unwrap().push_back((put, vec![7; LEN]));
        a.nic.progress();
        assert_eq!((*interrupts.lock().unwrap(), a.all_errors().len()), (1, 1), "{at_once}");
    }
}

/// Bytes of another host that come when the test says so.
struct Slow(Mutex<TicketState>);

impl FarSource for Slow {
    unsafe fn read(&self, _: usize, _: u64, _: usize, _: bool) -> u64 {
        1
    }

    fn state(&self, _: u64) -> TicketState {
        *self.0.lock().unwrap()
    }

    fn fetch(&self, _: usize) -> u64 {
        unreachable!("nothing goes to a device")
    }

    fn fetched(&self, _: u64) -> Option<Result<Vec<u8>, ()>> {
        None
    }
}

/// Responses that came are taken first; a put that came at once is reported at once, and behind a response whose bytes are awaited.
#[test]
fn a_put_is_reported_behind_a_response_that_waits() {
    for at_once in [false, true] {
        let fabric = giving(at_once);
        let setup = Setup::over(fabric.clone());
        let a = setup.node(NODE);
        let mut port = a.open(VPID, 1);
        let memory = Pages::new(&a.memory, 2 * 4096, 4096);
        let first = a.register(VPID, &memory, Access::ALL);
        let (bytes, to) = (vec![7; LEN], Address::new(NODE, VPID));
        let put = |address| {
            let mut put = packet(1, to, PacketKind::Put, address, Payload::None);
            (put.len, put.total, put.spec) = (LEN as u32, LEN as u32, Spec::COMPLETER);
            (put, bytes.clone())
        };
        let slow = Arc::new(Slow(Mutex::new(TicketState::Pending)));
        let far = Payload::Far(Box::new(Far::new(slow.clone(), LEN as u32, [9; TAIL])));
        let response = packet(1, to, PacketKind::GetResponse, first + 4096, far);
        fabric.puts.lock().unwrap().push_back(put(first));
        *fabric.response.lock().unwrap() = Some((Packet { spec: Spec::COMPLETER, ..response }, false));
        let early = port.drain();
        fabric.puts.lock().unwrap().push_back(put(first + 8));
        assert!(port.drain().is_empty(), "the response waits for its bytes");
        *slow.0.lock().unwrap() = TicketState::Done;
        let notes = [early, port.drain()].concat();
        let seen: Vec<_> = notes.iter().map(|note| (note.word0 - first, note.error())).collect();
        let order = if at_once { [0, 4096, 8] } else { [4096, 0, 8] };
        assert_eq!(seen, order.map(|at| (at, ErrorUnits::NONE)), "{at_once}");
        assert_eq!((a.all_errors(), memory.bytes(0, LEN + 8)), (vec![], [&bytes[..], &[7; 8]].concat()));
        assert_eq!(*fabric.settled.lock().unwrap(), u32::from(at_once));
    }
}

/// It would, where the card asked for nothing as long as it keeps a request.
#[test]
fn no_response_waits_for_a_request_that_is_kept() {
    let fabric = giving(true);
    let a = Setup::over(fabric.clone()).node(NODE);
    let (_full, mut port) = (a.open(VPID, 1), a.open(VPID + 1, 1));
    let memory = Pages::new(&a.memory, 4096, 4096);
    let first = a.register(VPID + 1, &memory, Access::ALL);
    // Nobody looks at the queue, so all of these wait that it has no room for; then the network's do.
    for number in 0..400 {
        let tell = packet(1, Address::new(NODE, VPID), PacketKind::Notification, number, Payload::None);
        let command = CommandCode::from(Command::NotificationPut);
        let tell = Packet { spec: Spec::COMPLETER, command, ..tell };
        fabric.puts.lock().unwrap().push_back((tell, Vec::new()));
    }
    while a.nic.progress() {}
    assert!(!fabric.puts.lock().unwrap().is_empty(), "some wait in the network");
    let to = Address::new(NODE, VPID + 1);
    let response = packet(1, to, PacketKind::GetResponse, first, Payload::copy_of(&[7; 8]));
    *fabric.response.lock().unwrap() = Some((Packet { spec: Spec::COMPLETER, ..response }, false));
    assert_eq!(port.drain().len(), 1);
    assert_eq!(memory.bytes(0, 8), [7; 8]);
}
