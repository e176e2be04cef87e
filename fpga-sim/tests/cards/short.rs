//! Puts that go out the short way: nothing that software or the network sees differs from those that units carry out.

use std::sync::{Arc, Mutex};

use crate::common::*;
use extoll_abi::*;
use extoll_sim::fabric::{Carriage, Fabric, FabricError, First, Pending};
use extoll_sim::packet::{Class, Packet};
use extoll_sim::runs::Runs;
use extoll_sim::short_put::ShortPut;
use extoll_sim::*;

/// Keeps what is sent, and takes short puts or none.
#[derive(Default)]
struct Keeping {
    takes: bool,
    sent: Mutex<Vec<Vec<u8>>>,
    short: Mutex<u32>,
}

impl Keeping {
    fn keep(&self, packet: &Packet) {
        let mut bytes = Vec::new();
        packet.wire_bytes(&mut bytes);
        self.sent.lock().unwrap().push(bytes);
    }
}

impl Fabric for Keeping {
    fn send(&self, _from: u16, packet: Packet) -> Result<(), Packet> {
        self.keep(&packet);
        Ok(())
    }

    fn sends_short(&self, to: Address) -> bool {
        self.takes && to.node != BUSY
    }

    fn send_short(&self, put: &ShortPut, bytes: &[u8]) -> bool {
        if put.destination.node == FULL {
            return false;
        }
        self.keep(&put.packet(bytes));
        *self.short.lock().unwrap() += 1;
        true
    }

    fn poll(&self, _node: u16, _class: Class) -> Option<Packet> {
        None
    }

    fn carriage(&self, _to: Address, _runs: &Runs) -> Carriage {
        Carriage::Bytes { most: 4096 }
    }

    fn pending(&self, _node: u16, _first: &mut dyn First) -> Pending {
        Pending::Nothing
    }

    fn attach(&self, _node: u16, _wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        Ok(())
    }

    fn detach(&self, _node: u16) {}
}

const VPID: u8 = 2;
/// To there none go the short way, and to there not now.
const BUSY: u16 = 8;
const FULL: u16 = 9;

/// A put, as its card is told of it.
#[derive(Clone, Copy)]
struct Post {
    to: Address,
    spec: Spec,
    modifier: Modifier,
    option: PageOption,
    vpid: u8,
    qw: bool,
    read: u64,
    size: u32,
}

type Seen = (Vec<Vec<u8>>, Vec<(u64, u64)>, Vec<(&'static str, u16)>, Vec<u32>);

/// What is seen of a put, of a changed one, and of the first one again; how many of them went the short way.
fn seen(takes: bool, change: &dyn Fn(&mut Post)) -> (Seen, u32) {
    let fabric = Arc::new(Keeping { takes, ..Keeping::default() });
    let a = Setup::over(fabric.clone()).node(0);
    let mut port = a.open(VPID, 1);
    let memory = Pages::new(&a.memory, 2 * 4096, 4096);
    (0..1024).for_each(|i| memory.store(i, i as u64 * 0x0101_0101_0101));
    let first = a.register(VPID, &memory, Access::READ);
    // For one that is closed, behind it.
    a.register(VPID + 1, &memory, Access::READ);
    let plain = Post {
        to: Address::new(1, 7),
        spec: Spec::COMPLETER,
        modifier: Modifier::NONE,
        option: PageOption::TE,
        vpid: VPID,
        qw: false,
        read: first + 8,
        size: 8,
    };
    let mut changed = plain;
    change(&mut changed);
    for Post { to, spec, modifier, option, vpid, qw, read, size } in [plain, changed, plain] {
        let read = if option == PageOption::PHYSICAL { memory.address() } else { read };
        let request = Request::Put { qw, read, write: 0x1234_5678, size };
        let descriptor = Descriptor::encode(to, spec, modifier, &request).unwrap();
        a.nic.requester_line(option.page_offset(vpid), descriptor.word);
    }
    let notes = port.drain().iter().map(|note| (note.word0, note.word1)).collect();
    let all = [
        counters::REQ_BT_PUT,
        counters::REQ_QW_PUT,
        counters::REQ_FRAGMENTS,
        counters::REQ_QUADWORDS,
        counters::REQ_NOTIFICATIONS,
        counters::ATU_TRANSLATIONS,
        counters::ATU_MEMORY_READS,
    ];
    let counts = all.map(|counter| a.perf(counter)).to_vec();
    let (sent, short) = (fabric.sent.lock().unwrap().clone(), *fabric.short.lock().unwrap());
    ((sent, notes, a.all_errors(), counts), short)
}

/// A change of a put, and how many of the three go the short way then.
type Case = (&'static str, u32, &'static dyn Fn(&mut Post));

#[test]
fn puts_that_go_the_short_way_are_as_others() {
    let cases: [Case; 17] = [
        ("of eight bytes", 3, &|_| {}),
        ("of one byte", 3, &|put| put.size = 1),
        ("of 64 bytes", 3, &|put| put.size = 64),
        ("of 65 bytes", 2, &|put| put.size = 65),
        ("of quadwords", 3, &|put| (put.qw, put.size) = (true, 16)),
        ("without notifications", 3, &|put| put.spec = Spec::NONE),
        ("that the requester reports", 2, &|put| put.spec = Spec::ALL),
        ("with a modifier", 2, &|put| put.modifier = Modifier::NTR),
        ("of another traffic class", 3, &|put| put.option = put.option.with_traffic_class(3)),
        ("with an interrupt", 2, &|put| {
            put.option = PageOption::new(PageOption::TE.bits() | PageOption::IRQ.bits()).unwrap()
        }),
        ("of physical memory", 2, &|put| put.option = PageOption::PHYSICAL),
        ("of two pages", 2, &|put| put.read += 4096 - 12),
        ("of another page", 3, &|put| put.read += 4096),
        ("of memory that is not registered", 2, &|put| put.read += 1 << 24),
        ("of a VPID that is closed", 2, &|put| (put.vpid, put.read) = (put.vpid + 1, put.read + 2 * 4096)),
        ("to where none goes the short way", 2, &|put| put.to.node = BUSY),
        ("to where none goes the short way now", 2, &|put| put.to.node = FULL),
    ];
    for (what, short, change) in cases {
        let (expected, none) = seen(false, change);
        let (found, went) = seen(true, change);
        assert_eq!(found, expected, "a put {what}");
        assert_eq!((none, went), (0, short), "a put {what}");
    }
}
