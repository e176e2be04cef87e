//! Every illegal input of the specification's section 12: its counter, its notifications, and no byte elsewhere.

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod commands;
mod hostile;
mod ports;

use common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::*;

const ALL: Spec = Spec::ALL;
const BOTH: [bool; 2] = [true, false];

/// Two cards, a port on each, and a page of memory for each port.
struct Pair {
    a: Node,
    b: Node,
}

struct Memory {
    local: Pages,
    remote: Pages,
    /// NLAs for everything.
    src: u64,
    dst: u64,
}

impl Pair {
    fn new(direct: bool) -> Pair {
        let setup = Setup::over(fabric::Loopback::new(4096, direct));
        Pair { a: setup.node(0), b: setup.node(1) }
    }

    fn memory(&self, p: &Port, q: &Port) -> Memory {
        let (local, remote) =
            (Pages::new(&self.a.memory, 1 << 16, 4096), Pages::new(&self.b.memory, 1 << 16, 4096));
        local.fill_pattern(1);
        remote.fill_pattern(2);
        let (src, dst) =
            (self.a.register(p.vpid, &local, Access::ALL), self.b.register(q.vpid, &remote, Access::ALL));
        Memory { local, remote, src, dst }
    }
}

/// What a notification says, in short: kind, command, error.
fn short(n: &Notification) -> (u8, u8, u8) {
    let header = n.header().unwrap();
    n.decode().unwrap();
    (header.kind as u8, header.command.get(), header.error.bits())
}

fn shorts(notifications: Vec<Notification>) -> Vec<(u8, u8, u8)> {
    notifications.iter().map(short).collect()
}

/// Runs `post` and compares: notifications at origin and target, counters at origin and target.
#[track_caller]
fn expect(
    direct: bool,
    post: impl Fn(&Pair, &Port, &Port, &Memory),
    origin: &[(u8, u8, u8)],
    target: &[(u8, u8, u8)],
    origin_errors: &[ErrorCounter],
    target_errors: &[ErrorCounter],
) {
    let pair = Pair::new(direct);
    let (mut p, mut q) = (pair.a.open(3, 1), pair.b.open(5, 1));
    let memory = pair.memory(&p, &q);
    let before = (memory.local.bytes(0, 1 << 16), memory.remote.bytes(0, 1 << 16));
    post(&pair, &p, &q, &memory);
    assert_eq!((shorts(p.drain()), shorts(q.drain())), (origin.to_vec(), target.to_vec()));
    let names = |counters: &[ErrorCounter]| counters.iter().map(|c| (c.name, 1)).collect::<Vec<_>>();
    assert_eq!(pair.a.all_errors(), names(origin_errors), "origin");
    assert_eq!(pair.b.all_errors(), names(target_errors), "target");
    assert!(memory.local.bytes(0, 1 << 16) == before.0, "a byte changed at the origin");
    assert!(memory.remote.bytes(0, 1 << 16) == before.1, "a byte changed at the target");
}
