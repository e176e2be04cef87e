//! Puts whose payload the fabric still has when it gives them to the card: nothing that software sees differs from those that have it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::common::members::packet;
use crate::common::*;
use extoll_abi::*;
use extoll_sim::fabric::{Carriage, Fabric, FabricError, First, Pending};
use extoll_sim::packet::{Class, Kind as PacketKind, Packet, Payload};
use extoll_sim::runs::Runs;
use extoll_sim::*;

/// Gives what is put into it, with its payload or without.
struct Giving {
    at_once: bool,
    puts: Mutex<VecDeque<(Packet, Vec<u8>)>>,
    /// Those that the card wrote from our bytes.
    placed: Mutex<u32>,
}

impl Fabric for Giving {
    fn send(&self, _from: u16, _packet: Packet) -> Result<(), Packet> {
        Ok(())
    }

    fn poll(&self, _node: u16, _class: Class) -> Option<Packet> {
        None
    }

    fn carriage(&self, _to: Address, _runs: &Runs) -> Carriage {
        Carriage::Bytes { most: 0 }
    }

    fn polled(&self) -> bool {
        true
    }

    fn pending(&self, _node: u16, first: &mut dyn First) -> Pending {
        let mut puts = self.puts.lock().unwrap();
        while first.is_free()
            && let Some((mut packet, bytes)) = puts.pop_front()
        {
            if self.at_once && first.place(&mut packet, &bytes) {
                *self.placed.lock().unwrap() += 1;
                continue;
            }
            packet.payload = Payload::copy_of(&bytes);
            first.take(packet);
        }
        if first.is_free() { Pending::Nothing } else { Pending::First }
    }

    fn attach(&self, _node: u16, _wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        Ok(())
    }

    fn detach(&self, _node: u16) {}
}

const VPID: u8 = 2;
const NODE: u16 = 0;
const LEN: usize = 300;

type Seen = (Vec<(u64, u8)>, Vec<(&'static str, u16)>, Vec<u8>);

/// What software sees of a put after another one; how many the card wrote from the fabric's bytes.
fn seen(at_once: bool, change: &dyn Fn(&mut Packet, &mut Vec<u8>)) -> (Seen, u32) {
    let (puts, placed) = Default::default();
    let fabric = Arc::new(Giving { at_once, puts, placed });
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
    let notes = port.drain().iter().map(|note| (note.word0, note.error().bits())).collect();
    let placed = *fabric.placed.lock().unwrap();
    ((notes, a.all_errors(), memory.bytes(0, 3 * 4096)), placed)
}

/// A change of a put, and how many of the two the card writes at once then.
type Case = (&'static str, u32, &'static dyn Fn(&mut Packet, &mut Vec<u8>));

#[test]
fn payloads_that_are_written_at_once_are_as_others() {
    let cases: [Case; 11] = [
        ("whole", 2, &|_, _| {}),
        ("without a notification", 2, &|put, _| put.spec = Spec::NONE),
        ("into pages that lie apart", 2, &|put, _| put.address += 4096 - 100),
        ("to an address that nobody has", 2, &|put, _| put.address += 1 << 24),
        ("to a VPID that is closed", 2, &|put, _| put.destination.vpid += 1),
        ("of another protection domain", 2, &|put, _| put.protection = 9),
        ("that met an error", 2, &|put, _| put.error = ErrorUnits::REQUESTER),
        ("of which bytes are missing", 2, &|_, bytes| bytes.truncate(LEN - 1)),
        ("with more bytes than it says", 2, &|_, bytes| bytes.push(1)),
        ("of a command with more to come", 2, &|put, _| put.total += 1),
        ("to registers", 1, &|put, bytes| {
            (put.mode, put.address, put.len, put.total) = (put.mode | Mode::RRA, 0, 8, 8);
            bytes.truncate(8);
        }),
    ];
    for (what, at_once, change) in cases {
        let (expected, none) = seen(false, change);
        let (found, placed) = seen(true, change);
        assert!(
            found == expected,
            "a put {what}: {:?}, {:?}",
            (&found.0, &found.1),
            (&expected.0, &expected.1)
        );
        assert_eq!((none, placed), (0, at_once), "a put {what}");
    }
}
