//! Packets for VPIDs and SMFUs that nobody in a job serves: register access, refusals, and that both are those of
//! the network inside one process.

use std::time::Duration;

use crate::common::members::*;
use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::smfu;
use extoll_abi::*;
use extoll_sim::smfu::SmfuError;
use extoll_sim::{counters, fabric};

#[test]
fn registers_of_unopened_vpids_are_read_and_written() {
    for nodes in [members(2, 1), members(2, 2)] {
        let (origin, target) = (&nodes[0], nodes.last().unwrap());
        let mut port = open(origin);
        let memory = Pages::new(&origin.memory, 4096, 4096);
        let to = Address::new(target.nic.node(), 200);
        let access = |request: &Request| {
            let d = Descriptor::encode(to, Spec::ALL, Modifier::NONE, request).unwrap();
            port.post_words(PageOption::PHYSICAL | PageOption::RRA, d.word);
        };
        let scratchpad = EXTOLL_RF_INFO_SCRATCHPAD + 8;
        access(&Request::ImmediatePut { count: 8, write: scratchpad, value: 0xfeed });
        (0..62).for_each(|i| memory.store(i, 0x100 + i as u64));
        let wide = 0x1_0800; // the SNQ's program
        access(&Request::Put { qw: true, read: memory.address(), write: wide, size: 496 });
        access(&Request::Get { qw: false, read: scratchpad, write: memory.address() + 1024, size: 8 });
        access(&Request::Get { qw: true, read: wide, write: memory.address() + 2048, size: 496 });
        let mut kinds = Vec::new();
        drive(&nodes, "the answers", || {
            kinds
                .extend(port.try_next().map(|n| (n.header().unwrap().kind as u8, n.header().unwrap().error)));
            kinds.len() == 6
        });
        kinds.sort_by_key(|(kind, _)| *kind);
        let ok = ErrorUnits::NONE;
        assert_eq!(kinds, [(1, ok), (1, ok), (1, ok), (1, ok), (4, ok), (4, ok)]);
        assert_eq!((memory.load(128), target.nic.reg_read(scratchpad)), (0xfeed, 0xfeed));
        assert_eq!(target.nic.reg_read(wide + 8 * 61), 0x100 + 61);
        assert_eq!(memory.bytes(2048, 496), memory.bytes(0, 496));
        assert_eq!(target.perf(counters::RESP_BT_GET), 1, "the target's responder served it");
        assert_eq!((target.perf(counters::RESP_QW_GET), target.perf(counters::RESP_QUADWORDS)), (1, 63));
        assert_eq!(target.perf(counters::COMPL_IMM_PUT), 1);
    }
}

/// Two nodes of the network inside one process, and two of a job.
fn both_networks() -> [Vec<Node>; 2] {
    let fabric = fabric::Loopback::new(4096, true);
    let inside = |node| Setup::over(fabric.clone()).node(node);
    [vec![inside(0), inside(1)], members(2, 1)]
}

/// A command to a VPID that nobody opened, as an option page and words, from memory and NLA of the origin.
type Command = fn(Address, &Pages, u64) -> (PageOption, [u64; 3]);

fn words(to: Address, modifier: Modifier, request: &Request) -> [u64; 3] {
    Descriptor::encode(to, Spec::ALL, modifier, request).unwrap().word
}

const RRA: PageOption = PageOption::RRA;
const TE: PageOption = PageOption::TE;

const COMMANDS: &[(&str, Command)] = &[
    ("put", |to, _, nla| {
        (TE, words(to, Modifier::NONE, &Request::Put { qw: false, read: nla, write: nla, size: 8 }))
    }),
    ("longer put", |to, _, nla| {
        (TE, words(to, Modifier::NONE, &Request::Put { qw: true, read: nla, write: nla, size: 904 }))
    }),
    ("physical put of fragments that notify", |to, memory, _| {
        let (read, write) = (memory.address(), memory.address());
        (PageOption::PHYSICAL, words(to, Modifier::NTR, &Request::Put { qw: false, read, write, size: 904 }))
    }),
    ("put from nowhere", |to, _, nla| {
        (TE, words(to, Modifier::NONE, &Request::Put { qw: false, read: nla + (1 << 24), write: 0, size: 8 }))
    }),
    ("immediate put", |to, _, nla| {
        (TE, words(to, Modifier::NONE, &Request::ImmediatePut { count: 4, write: nla, value: 1 }))
    }),
    ("notification put", |to, _, _| {
        (TE, words(to, Modifier::NONE, &Request::NotificationPut { class: 3, payload: 4 }))
    }),
    ("get", |to, _, nla| {
        (TE, words(to, Modifier::NONE, &Request::Get { qw: true, read: nla, write: nla, size: 8 }))
    }),
    ("longer get", |to, _, nla| {
        (TE, words(to, Modifier::NTR, &Request::Get { qw: false, read: nla, write: nla, size: 2000 }))
    }),
    ("lock", |to, _, _| {
        (TE, words(to, Modifier::NONE, &Request::Lock { to_responder: false, number: 1, compare: 9, add: 1 }))
    }),
    ("illegal command", |to, _, _| {
        (TE, [3 | 4 << 2 | u64::from(to.vpid) << 8 | u64::from(to.node) << 16 | 7 << 32, 0, 0])
    }),
    ("disabled Excellerate port", |to, _, nla| {
        (TE, words(to, Modifier::EWA, &Request::Put { qw: false, read: nla, write: nla, size: 8 }))
    }),
    ("registers of no alignment", |to, memory, _| {
        (
            RRA,
            words(
                to,
                Modifier::NONE,
                &Request::Get { qw: false, read: 0x8009, write: memory.address(), size: 8 },
            ),
        )
    }),
    ("too many registers", |to, memory, _| {
        (
            RRA,
            words(
                to,
                Modifier::NONE,
                &Request::Get { qw: true, read: 0x8000, write: memory.address(), size: 504 },
            ),
        )
    }),
    ("registers behind the last", |to, memory, _| {
        let (read, write) = (memory.address(), EXTOLL_BAR0_PART_BYTES - 8);
        (RRA, words(to, Modifier::NONE, &Request::Put { qw: true, read, write, size: 16 }))
    }),
    ("half a register", |to, memory, _| {
        let (read, write) = (memory.address(), EXTOLL_RF_INFO_SCRATCHPAD);
        (RRA, words(to, Modifier::NONE, &Request::Put { qw: false, read, write, size: 4 }))
    }),
    ("error and performance counters", |to, memory, _| {
        let read = EXTOLL_RF_RMA_COMPL_ERRORS;
        (RRA, words(to, Modifier::NONE, &Request::Get { qw: true, read, write: memory.address(), size: 496 }))
    }),
    ("a clear", |to, _, _| {
        let write = EXTOLL_RF_RMA_COMPL_ERROR_CONTROL;
        (
            RRA,
            words(
                to,
                Modifier::NONE,
                &Request::ImmediatePut { count: 8, write, value: ERROR_CLEAR_COUNTS.put(1) },
            ),
        )
    }),
    ("a register without a function", |to, _, _| {
        (RRA, words(to, Modifier::NONE, &Request::ImmediatePut { count: 8, write: 0x8018, value: 77 }))
    }),
];

/// All that shows after a command: the origin's notifications and memory, counters and a register of both nodes.
#[derive(Debug, PartialEq)]
struct Outcome {
    notifications: Vec<(u8, u8, u8, Address)>,
    errors: [Vec<(&'static str, u16)>; 2],
    counts: [Vec<u64>; 2],
    registers: [u64; 2],
    bytes: Vec<u8>,
}

fn outcomes(nodes: &[Node]) -> Vec<Outcome> {
    let mut port = open(&nodes[0]);
    let memory = Pages::new(&nodes[0].memory, 4096, 4096);
    memory.fill_pattern(5);
    let nla = nodes[0].register(port.vpid, &memory, Access::ALL);
    let fence = Pages::new(&nodes[0].memory, 4096, 4096);
    let to = Address::new(1, 200);
    let run = |(_, command): &(&str, Command)| {
        let (option, words) = command(to, &memory, nla);
        port.post_words(option, words);
        // Answered behind it.
        let get = Request::Get { qw: false, read: EXTOLL_RF_INFO_NODE, write: fence.address(), size: 8 };
        let get = Descriptor::encode(to, Spec::COMPLETER, Modifier::NONE, &get).unwrap();
        port.post_words(RRA, get.word);
        let mut notifications = Vec::new();
        drive(nodes, "the end of a command", || {
            let next = port.try_next();
            let ended = next.as_ref().is_some_and(|n| n.word0 == fence.address());
            notifications.extend(next.filter(|_| !ended).map(|n| {
                let h = n.header().unwrap();
                (h.kind as u8, h.command.get(), h.error.bits(), h.remote)
            }));
            ended
        });
        assert_eq!(INFO_NODE.get(fence.load(0)), 1);
        let counts = |node: &Node| {
            let registers = (EXTOLL_RF_RMA_PERF_REQ_PUTS..=EXTOLL_RF_RMA_PERF_COMPL_LAST).step_by(8);
            registers.map(|register| node.nic.reg_read(register)).collect()
        };
        Outcome {
            notifications,
            errors: [nodes[0].all_errors(), nodes[1].all_errors()],
            counts: [counts(&nodes[0]), counts(&nodes[1])],
            registers: [0, 1].map(|i| nodes[i].nic.reg_read(0x8018)),
            bytes: memory.bytes(0, 4096),
        }
    };
    COMMANDS.iter().map(run).collect()
}

#[test]
fn unopened_vpids_refuse_as_in_one_process() {
    let [inside, between] = both_networks().map(|nodes| outcomes(&nodes));
    for ((name, _), (inside, between)) in COMMANDS.iter().zip(inside.iter().zip(&between)) {
        assert_eq!(between, inside, "{name}");
    }
    let get = COMMANDS.iter().position(|(name, _)| *name == "get").unwrap();
    let told: Vec<_> = between[get].notifications.iter().map(|n| (n.0, n.2)).collect();
    assert_eq!(told, [(1, 0), (4, 2)], "the completer hears of the responder's error");
    let last = between.last().unwrap();
    assert_eq!(last.registers, [0, 77]);
    assert!(last.errors[0].is_empty() == inside.last().unwrap().errors[0].is_empty());
}

/// The smallest window: one interval, which leads to the other node.
fn smfu_window(node: &Node, target: u16) {
    let (start, end) = (EXTOLL_SMFU_RRA_BYTES, EXTOLL_SMFU_RRA_BYTES + 4096);
    let interval = smfu::Interval::new(target, start, end - start);
    node.nic.reg_write(smfu_start(0), interval.start);
    node.nic.reg_write(smfu_end(0), interval.end);
    node.nic.reg_write(smfu_control(0), interval.control);
    node.nic.reg_write(EXTOLL_RF_SMFU_STATUS_CONTROL, smfu::ENABLE.put(1));
}

#[test]
fn an_unclaimed_smfu_is_a_disabled_one() {
    for nodes in both_networks() {
        let [a, b] = &nodes[..] else { unreachable!() };
        smfu_window(a, 1);
        let mut word = [0; 8];
        a.nic.smfu_store(EXTOLL_SMFU_RRA_BYTES, &[7; 8]).unwrap();
        let load = |word: &mut [u8], limit| a.nic.smfu_load(EXTOLL_SMFU_RRA_BYTES, word, limit);
        let refused = load(&mut word, Duration::from_millis(20));
        assert!(matches!(refused, Err(SmfuError::Timeout { .. })));
        assert_eq!(b.nic.reg_read(EXTOLL_RF_SMFU_RCVD_NP), 0, "a disabled unit counts nothing as received");
        // Now somebody is there.
        let memory = Pages::new(&b.memory, 4096, 4096);
        memory.store(0, 0x77);
        b.nic.claim_smfu().unwrap();
        b.nic.reg_write(EXTOLL_RF_SMFU_T_START_ADDR, memory.address());
        b.nic.reg_write(EXTOLL_RF_SMFU_STATUS_CONTROL, smfu::ENABLE.put(1));
        let loaded = std::thread::scope(|scope| {
            let answer = scope.spawn(|| drive(&nodes[1..], "the load", || memory.load(1) == 1));
            let loaded = load(&mut word, PATIENCE / 2);
            memory.store(1, 1);
            answer.join().unwrap();
            loaded
        });
        loaded.unwrap();
        assert_eq!(word, [0x77, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(b.nic.reg_read(EXTOLL_RF_SMFU_RCVD_NP), 1);
    }
}
