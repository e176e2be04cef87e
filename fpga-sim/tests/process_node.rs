//! What the processes of a node share: registers, counters, VPIDs, the SMFU; and the segment that it lies in.

mod common;

use std::collections::BTreeSet;

use common::members::*;
use common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::process::{JobSegment, Shape, SharedNode};
use extoll_sim::smfu::SmfuError;
use extoll_sim::*;

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
}
