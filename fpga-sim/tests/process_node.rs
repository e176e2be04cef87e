//! What the processes of a node share: registers, counters, VPIDs, the SMFU; and what becomes of packets for VPIDs
//! that nobody opened. Members of a job lie in this process, each with a card and memory of its own.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use extoll_abi::regs::*;
use extoll_abi::smfu;
use extoll_abi::*;
use extoll_sim::process::{JobSegment, ProcessFabric, Shape, SharedNode, local};
use extoll_sim::smfu::SmfuError;
use extoll_sim::*;

/// The cards of a job's members, by rank.
fn members(processes: u32, per_node: u32) -> Vec<Node> {
    let job = local(Shape::new(processes, per_node).unwrap()).unwrap();
    job.into_iter().map(member).collect()
}

fn member(member: process::Membership) -> Node {
    let (rank, job) = (member.rank, member.job.clone());
    let node = job.shape().node_of(rank);
    let shared = Some(SharedNode { job, rank });
    let setup = Setup { shared, ..Setup::over(ProcessFabric::new(member).unwrap()) };
    setup.node(node)
}

fn job(node: &Node) -> &JobSegment {
    &node.shared.as_ref().unwrap().job
}

/// Opens the lowest free VPID of the member's node, as drivers do.
fn open(node: &Node) -> Port<'_> {
    let shared = node.shared.as_ref();
    node.open(shared.map_or(0, |shared| shared.job.take_vpid(shared.rank, 251).unwrap()), 1)
}

/// Drives all cards until `done`.
fn drive(nodes: &[Node], what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not come");
        if !nodes.iter().fold(false, |moved, node| moved | node.nic.progress()) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn registers_of_a_node_are_one_to_its_processes() {
    let nodes = members(4, 2);
    let [a, b, other, _] = &nodes[..] else { unreachable!() };
    let scratchpad = EXTOLL_RF_INFO_SCRATCHPAD;
    let shared = [
        scratchpad,
        EXTOLL_RF_NP_GENERAL,
        EXTOLL_RF_RMA_LOCK_CONFIG,
        EXTOLL_RF_RMA_BQ_TIMEOUT,
        EXTOLL_RF_RMA_WCB_TIMEOUT,
        EXTOLL_RF_SMFU_O_START_ADDR,
        vpid_table(77),
    ];
    for (i, register) in shared.into_iter().enumerate() {
        let (before, value) = (other.nic.reg_read(register), 0x1000 * (i as u64 + 1));
        a.nic.reg_write(register, value);
        assert_eq!(b.nic.reg_read(register), value, "{register:#x}");
        assert_eq!(other.nic.reg_read(register), before, "{register:#x} of another node");
    }
    let own = [gat(9), EXTOLL_RF_RMA_LOCK_BASE];
    for register in own {
        let before = b.nic.reg_read(register);
        a.nic.reg_write(register, 0x8000_4000);
        assert_eq!(b.nic.reg_read(register), before, "{register:#x}");
    }
    a.nic.reg_write(EXTOLL_RF_ATU_ENABLE, 0);
    assert_eq!(b.nic.reg_read(EXTOLL_RF_ATU_ENABLE), 1);
    assert_eq!(INFO_NODE.get(other.nic.reg_read(EXTOLL_RF_INFO_NODE)), 1);
}

#[test]
fn a_vpid_has_its_queue_registers_where_it_is_served() {
    let nodes = members(2, 2);
    let port = open(&nodes[1]);
    let register = bq_ub(port.vpid);
    assert_eq!(nodes[1].nic.reg_read(register), 255);
    nodes[0].nic.reg_write(register, 7);
    nodes[0].nic.reg_write(bq_rp(port.vpid), 3);
    nodes[0].nic.reg_write(wcb_state(port.vpid), 3);
    let there = [register, bq_rp(port.vpid), wcb_state(port.vpid)].map(|at| nodes[0].nic.reg_read(at));
    assert_eq!(there, [0; 3], "a process answers for its own VPIDs only");
    assert_eq!((nodes[1].nic.reg_read(register), nodes[1].nic.reg_read(bq_rp(port.vpid)) as u32), (255, 0));
}

#[test]
fn counters_of_a_node_are_those_of_its_processes() {
    let nodes = members(2, 2);
    let ports: Vec<Port> = nodes.iter().map(open).collect();
    for (count, port) in [(3, &ports[0]), (5, &ports[1])] {
        let word = Pages::new(&port.node.memory, 4096, 4096);
        let nla = port.node.register(port.vpid, &word, Access::ALL);
        for _ in 0..count {
            port.put(port.address(), Spec::NONE, nla, nla + 64, 8);
            port.put(port.address(), Spec::NONE, nla + (1 << 24), nla, 8);
        }
        drive(&nodes, "the puts", || !port.node.nic.progress() && port.node.nic.requester_idle(port.vpid));
    }
    let puts = |node: &Node| (node.perf(counters::REQ_BT_PUT), node.errors(REQ_TRANS));
    drive(&nodes, "the counts", || puts(&nodes[0]) == (8, 8) && nodes[1].errors(COMPL_ERRCMD) == 8);
    assert_eq!(puts(&nodes[1]), (8, 8));
    let errors = |node: &Node| node.nic.reg_read(EXTOLL_RF_RMA_REQ_ERRORS);
    assert_eq!(errors(&nodes[0]), errors(&nodes[1]));

    // Cleared by one, for both; then they count on.
    nodes[1].nic.reg_write(EXTOLL_RF_RMA_REQ_ERROR_CONTROL, ERROR_CLEAR_COUNTS.put(1));
    nodes[0].nic.reg_write(EXTOLL_RF_RMA_PERF_CONTROL, 1);
    assert_eq!((puts(&nodes[0]), puts(&nodes[1])), ((0, 0), (0, 0)));
    assert_eq!(nodes[0].errors(COMPL_ERRCMD), 8, "another unit's count stays");
    ports[0].put(ports[0].address(), Spec::NONE, 1 << 24, 0, 8);
    drive(&nodes, "one more", || puts(&nodes[1]) == (0, 1));

    // Wrong stores to the requester's pages.
    nodes[0].nic.requester_store(PageOption::TE.page_offset(ports[0].vpid) + 4, 1);
    nodes[1].nic.requester_store(PageOption::TE.page_offset(ports[1].vpid) + 4, 1);
    assert_eq!(nodes[0].nic.reg_read(EXTOLL_RF_RMA_WCB_ERRORS) >> 32, 2);
    assert_eq!(nodes[0].nic.reg_read(EXTOLL_RF_RMA_WCB_ERRORS_2), u64::from(ports[1].vpid));
}

#[test]
fn a_full_queue_of_one_process_shows_at_the_other() {
    let nodes = members(2, 2);
    let ports: Vec<Port> = nodes.iter().map(open).collect();
    nodes[0].nic.reg_write(EXTOLL_RF_RMA_BQ_TIMEOUT, 1 << 32); // on, and over at once
    for _ in 0..400 {
        ports[1].post(
            ports[1].address(),
            Spec::COMPLETER,
            Modifier::NONE,
            &Request::NotificationPut { class: 1, payload: 1 },
        );
        nodes[1].nic.progress();
    }
    let general = || nodes[0].nic.reg_read(EXTOLL_RF_BQ_RMA_GENERAL);
    drive(&nodes, "the queue error", || BQ_ERRORS.get(general()) > 0 && nodes[0].errors(COMPL_BQT) > 0);
    assert_eq!(BQ_FAILED_QUEUE.get(general()), u64::from(ports[1].vpid));
}

/// Takes every VPID of a node, from many threads of different members.
#[test]
fn no_vpid_is_given_twice() {
    let (job, _fd) = JobSegment::create(Shape::new(4, 4).unwrap()).unwrap();
    let start = std::sync::Barrier::new(4);
    let taken: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let take = |rank| {
            let (job, start) = (&job, &start);
            scope.spawn(move || {
                start.wait();
                std::iter::from_fn(|| job.take_vpid(rank, 251)).collect()
            })
        };
        let threads: Vec<_> = (0..4).map(take).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all: Vec<u8> = taken.iter().flatten().copied().collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (251, 251));
    for (rank, vpids) in taken.iter().enumerate() {
        assert!(vpids.iter().all(|vpid| job.owner(0, *vpid) == Some(rank as u32)));
    }
    let owner = job.owner(0, 100).unwrap();
    job.give_vpid((owner + 1) % 4, 100);
    assert_eq!(job.take_vpid(2, 251), None, "only its owner gives a VPID back");
    job.give_vpid(owner, 100);
    job.set_state(owner, process::PeerState::Lost);
    assert_eq!(job.take_vpid(2, 251), Some(100));
    assert_eq!(job.take_vpid(2, 251), None, "those of a lost process stay reserved");
}

#[test]
fn processes_take_vpids_of_one_table() {
    const CHILDREN: u32 = 4;
    const EACH: u32 = 60;
    let (job, _fd) = JobSegment::create(Shape::new(CHILDREN, CHILDREN).unwrap()).unwrap();
    let children: Vec<i32> = (0..CHILDREN)
        .map(|rank| {
            // SAFETY: the child only changes atomics in shared memory, and leaves without running destructors.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let taken = (0..EACH).filter(|_| job.take_vpid(rank, 251).is_some()).count();
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(taken as u32 != EACH)) };
            }
            assert!(pid > 0, "fork: {}", std::io::Error::last_os_error());
            pid
        })
        .collect();
    for pid in children {
        let mut status = 0;
        // SAFETY: our child, and `status` is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0, "a child got too few VPIDs");
    }
    let mut owned = [0; CHILDREN as usize];
    for vpid in 0..(CHILDREN * EACH) as u8 {
        owned[job.owner(0, vpid).expect("the lowest are taken") as usize] += 1;
    }
    assert_eq!(owned, [EACH; CHILDREN as usize]);
    assert_eq!(job.owner(0, (CHILDREN * EACH) as u8), None);
}

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
        let load = |word: &mut [u8], millis| {
            a.nic.smfu_load(EXTOLL_SMFU_RRA_BYTES, word, Duration::from_millis(millis))
        };
        assert!(matches!(load(&mut word, 20), Err(SmfuError::Timeout { .. })));
        assert_eq!(b.nic.reg_read(EXTOLL_RF_SMFU_RCVD_NP), 0, "a disabled unit counts nothing as received");
        // Now somebody is there.
        let memory = Pages::new(&b.memory, 4096, 4096);
        memory.store(0, 0x77);
        b.nic.claim_smfu().unwrap();
        b.nic.reg_write(EXTOLL_RF_SMFU_T_START_ADDR, memory.address());
        b.nic.reg_write(EXTOLL_RF_SMFU_STATUS_CONTROL, smfu::ENABLE.put(1));
        let loaded = std::thread::scope(|scope| {
            let answer = scope.spawn(|| drive(&nodes[1..], "the load", || memory.load(1) == 1));
            let loaded = load(&mut word, 5000);
            memory.store(1, 1);
            answer.join().unwrap();
            loaded
        });
        loaded.unwrap();
        assert_eq!(word, [0x77, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(b.nic.reg_read(EXTOLL_RF_SMFU_RCVD_NP), 1);
    }
}

#[test]
fn one_process_of_a_node_has_its_smfu() {
    let nodes = members(3, 2);
    nodes[1].nic.claim_smfu().unwrap();
    nodes[1].nic.claim_smfu().unwrap();
    let refused = nodes[0].nic.smfu_store(EXTOLL_SMFU_RRA_BYTES, &[1; 8]).unwrap_err();
    assert_eq!(refused, SmfuError::Elsewhere { node: 0, rank: 1 });
    nodes[2].nic.claim_smfu().unwrap();
    nodes[0].nic.release_smfu();
    assert_eq!(job(&nodes[0]).smfu_owner(0), Some(1), "only its owner gives it back");
    nodes[1].nic.release_smfu();
    nodes[0].nic.claim_smfu().unwrap();
    assert_eq!((job(&nodes[0]).smfu_owner(0), job(&nodes[0]).smfu_owner(1)), (Some(0), Some(2)));
}

#[test]
fn segments_that_are_none_are_refused() {
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    let memfd = |bytes: u64, seals: i32| {
        // SAFETY: a C string; the new descriptor is ours alone.
        let fd = unsafe {
            let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_ALLOW_SEALING);
            assert!(fd >= 0);
            std::fs::File::from_raw_fd(fd)
        };
        fd.set_len(bytes).unwrap();
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
        fd
    };
    let sealed = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    let (real, real_fd) = JobSegment::create(Shape::new(3, 2).unwrap()).unwrap();
    let bytes = std::fs::File::from(real_fd.try_clone().unwrap()).metadata().unwrap().len();
    let header = |change: &dyn Fn(&mut [u8])| {
        let mut header = vec![0; 64];
        // SAFETY: a header, mapped, that nobody changes now.
        let map = unsafe { memmap2::Mmap::map(&real_fd).unwrap() };
        header.copy_from_slice(&map[..64]);
        change(&mut header);
        header
    };
    let refused = |fd: OwnedFd| JobSegment::map(fd).expect_err("no segment").to_string();
    let hostile = |bytes: u64, seals: i32, change: &dyn Fn(&mut [u8])| {
        let mut fd = memfd(bytes, seals);
        fd.write_all(&header(change)).unwrap();
        refused(fd.into())
    };
    let all_seals = |change: &dyn Fn(&mut [u8])| hostile(bytes, sealed, change);
    assert!(hostile(bytes, libc::F_SEAL_GROW, &|_| ()).contains("not sealed"));
    assert!(refused(std::fs::File::open("/dev/null").unwrap().into()).contains("not sealed"));
    assert!(hostile(4096, sealed, &|_| ()).contains("size"), "cut off");
    assert!(hostile(2 * bytes, sealed, &|_| ()).contains("size"), "too long");
    assert!(refused(memfd(0, sealed).into()).contains("size"));
    assert!(all_seals(&|header| header[0] ^= 1).contains("something else"));
    assert!(all_seals(&|header| header[8] ^= 0x40).contains("version"));
    assert!(all_seals(&|header| header[12..20].fill(0xff)).contains("shape"));
    assert!(all_seals(&|header| header[16..20].fill(0)).contains("shape"));
    assert!(all_seals(&|header| header[12..16].copy_from_slice(&1024u32.to_le_bytes())).contains("size"));
    // What it was made for.
    let mut copy = memfd(bytes, sealed);
    copy.write_all(&header(&|_| ())).unwrap();
    assert_eq!(JobSegment::map(copy.into()).unwrap().shape(), real.shape());
    let mapped = JobSegment::map(real_fd).unwrap();
    assert_eq!(real.take_vpid(1, 251), Some(0));
    assert_eq!((mapped.owner(0, 0), mapped.owner(0, 1), mapped.owner(9, 0)), (Some(1), None, None));
}

#[test]
fn a_process_joins_then_leaves_or_is_lost() {
    use process::PeerState::*;
    let (job, _fd) = JobSegment::create(Shape::new(2, 1).unwrap()).unwrap();
    assert_eq!(job.state(1), Absent);
    assert!(job.set_state(1, Joined) && !job.set_state(1, Joined));
    assert!(job.set_state(1, Left));
    assert!(!job.set_state(1, Lost), "who has left cannot be lost any more");
    assert!(job.set_state(0, Lost) && !job.set_state(0, Lost), "found lost once");
    assert!(!job.set_state(0, Joined), "and does not come back");
    assert_eq!((job.state(0), job.state(1), job.state(2)), (Lost, Left, Absent));
    assert!(!job.set_state(7, Joined) && job.barrier_word(7, 0).is_none() && job.take_vpid(7, 9).is_none());
}

#[test]
fn a_card_must_be_on_the_node_of_its_process() {
    let (job, _fd) = JobSegment::create(Shape::new(2, 1).unwrap()).unwrap();
    for (node, rank) in [(0, 1), (2, 2), (0, 9)] {
        let fabric = fabric::Loopback::new(4, true);
        let shared = Some(SharedNode { job: job.clone(), rank });
        let config = NicConfig { shared, ..NicConfig::new(node, HostMemory::new(), fabric) };
        assert!(matches!(Nic::new(config), Err(NicError::Rank { .. })), "rank {rank} on node {node}");
    }
    let _: &Arc<JobSegment> = &job;
}
