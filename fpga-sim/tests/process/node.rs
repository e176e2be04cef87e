//! What the processes of a node share: registers, counters, VPIDs, the SMFU; the cards of its processes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::members::*;
use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::shared::{JoinError, ProcessFabric};
use extoll_sim::smfu::SmfuError;
use extoll_sim::*;
use ggas_members::{Member, Members, NetworkShape, PeerState, Shape};

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

/// Members of one node, as its processes see them.
fn on_one_node(processes: u32) -> Vec<Arc<ProcessFabric>> {
    let members = Member::all_of_job(Shape::new(processes, processes).unwrap()).unwrap();
    members.into_iter().map(|member| ProcessFabric::join(member).unwrap()).collect()
}

/// Takes every VPID of a node, from threads of different members.
#[test]
fn no_vpid_is_given_twice() {
    let job = on_one_node(4);
    let start = std::sync::Barrier::new(4);
    let taken: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let take = |member: &Arc<ProcessFabric>| {
            let (nodes, start) = (member.nodes().clone(), &start);
            scope.spawn(move || {
                start.wait();
                std::iter::from_fn(|| nodes.take_vpid(251)).collect()
            })
        };
        let threads: Vec<_> = job.iter().map(take).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all: Vec<u8> = taken.iter().flatten().copied().collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (251, 251));
    let owner = |vpid| job[0].nodes().owner(0, vpid);
    for (member, vpids) in job.iter().zip(&taken) {
        assert!(vpids.iter().all(|vpid| owner(*vpid) == Some(member.member().me())));
    }
    let first = owner(100).unwrap().slot as usize;
    job[(first + 1) % 4].nodes().give_vpid(100);
    assert_eq!(job[2].nodes().take_vpid(251), None, "only its owner gives a VPID back");
    job[first].nodes().give_vpid(100);
    assert_eq!((owner(100), job[0].nodes().last_owner(0, 100)), (None, Some(job[first].member().me())));
    // It rests, but there is no other.
    assert_eq!(job[2].nodes().take_vpid(251), Some(100));
    assert_eq!(job[2].nodes().take_vpid(251), None);
}

#[test]
fn vpids_of_the_dead_come_free() {
    let job = on_one_node(2);
    let (left, lost) = (job[0].nodes(), job[1].nodes());
    let taken: Vec<u8> = (0..3).map(|_| lost.take_vpid(251).unwrap()).collect();
    assert_eq!((taken, left.take_vpid(251)), (vec![0, 1, 2], Some(3)));
    job[0].lose(1);
    assert_eq!(job[0].member().state(job[1].member().me()), PeerState::Lost);
    assert_eq!(left.take_vpid(251), Some(4), "packets to the dead one's may be on the way");
    assert_eq!(left.take_vpid(3), Some(0), "but where there is no other, that is better than none");
    std::thread::sleep(REST);
    let card = over(&job[0]);
    card.nic.reg_write(vpid_table(1), vpid_entry(0));
    assert_eq!([left.take_vpid(251), left.take_vpid(251), left.take_vpid(251)], [Some(1), Some(2), Some(5)]);
    assert_eq!(card.nic.reg_read(vpid_table(1)), 0, "open as the dead one left it");
}

/// Longer than a VPID rests.
const REST: Duration = Duration::from_millis(300);

#[test]
fn a_closed_vpid_rests() {
    let job = on_one_node(2);
    let (a, b) = (job[0].nodes(), job[1].nodes());
    // A machine that stops this test between two calls gives VPIDs time to rest; not each time.
    let rested = (0..20).any(|_| {
        std::thread::sleep(REST);
        let first = a.take_vpid(251).unwrap();
        let started = Instant::now();
        a.give_vpid(first);
        let next = [b.take_vpid(251).unwrap(), a.take_vpid(251).unwrap()];
        let rests = started.elapsed() < Duration::from_millis(250);
        next.iter().zip([b, a]).for_each(|(vpid, nodes)| nodes.give_vpid(*vpid));
        assert!(!rests || !next.contains(&first), "{first} was given out at once: {next:?}");
        rests
    });
    assert!(rested, "the machine stood still each time");
    std::thread::sleep(REST);
    assert_eq!(b.take_vpid(251), Some(0), "the lowest comes first again");
    // The one that rests longest is taken where there is no other.
    a.take_vpid(3).into_iter().chain(a.take_vpid(3)).for_each(|vpid| a.give_vpid(vpid));
    assert_eq!(b.take_vpid(3), Some(1));
}

#[test]
fn processes_take_vpids_of_one_table() {
    const CHILDREN: u32 = 4;
    const EACH: u32 = 60;
    let job = on_one_node(CHILDREN);
    // Maps the node's memory: the children shall only use it.
    assert!(job.iter().all(|member| member.nodes().owner(0, 0).is_none()));
    let children: Vec<i32> = job
        .iter()
        .map(|member| {
            // SAFETY: the child only changes atomics in shared memory, and leaves without running destructors.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let taken = (0..EACH).filter(|_| member.nodes().take_vpid(251).is_some()).count();
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
    let owner = |vpid| job[0].nodes().owner(0, vpid);
    for vpid in 0..(CHILDREN * EACH) as u8 {
        owned[owner(vpid).expect("the lowest are taken").slot as usize] += 1;
    }
    assert_eq!(owned, [EACH; CHILDREN as usize]);
    assert_eq!(owner((CHILDREN * EACH) as u8), None);
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
    let owner =
        |node| crate::common::members::nodes(&nodes[0]).smfu_owner(Address::new(node, 0)).map(|id| id.slot);
    assert_eq!(owner(0), Some(1), "only its owner gives it back");
    nodes[1].nic.release_smfu();
    nodes[0].nic.claim_smfu().unwrap();
    assert_eq!((owner(0), owner(1)), (Some(0), Some(2)));
}

#[test]
fn each_rank_of_a_node_has_a_seat_of_its_smfu() {
    let job = on_one_node(3);
    let nodes: Vec<_> = job.iter().map(|member| member.nodes()).collect();
    let owner = |vpid| nodes[0].smfu_owner(Address::new(0, vpid)).map(|id| id.slot);
    assert_eq!((nodes[0].smfu_seats(0), nodes[0].smfu_seats(9)), (3, 1));
    for (rank, nodes) in nodes.iter().enumerate() {
        let seat = nodes.smfu_own_seat().unwrap();
        assert_eq!(usize::from(seat), rank);
        assert!(nodes.claim_smfu(seat) && nodes.claim_smfu(seat));
    }
    // By turns, as VPIDs.
    assert_eq!([0, 1, 2, 3, 254].map(owner), [Some(0), Some(1), Some(2), Some(0), Some(2)]);
    assert!(!nodes[0].claim_smfu(1), "rank 1 has it");
    nodes[1].release_smfu();
    assert_eq!((owner(1), nodes[2].last_smfu_owner(Address::new(0, 1)).unwrap().slot), (None, 1));
    // Who dies while it sets the unit up is not waited for.
    let turn = |rank: usize| nodes[rank].smfu_turn().expect("its turn");
    let dying = turn(2);
    assert!(dying.hold(5) && dying.hold(5));
    std::mem::forget(dying);
    job[0].lose(2);
    assert!(nodes[1].claim_smfu(2));
    assert_eq!(owner(2), Some(1));
    // Nor does it hold its place, which others can have.
    assert!(!turn(0).is_held(5) && turn(0).is_left(5) && turn(0).hold(5) && turn(1).is_held(5));
    assert!(!turn(1).hold(5), "rank 0 has it");
    nodes[1].let_go_of_smfu(5);
    assert!(turn(1).is_held(5), "only who has it lets go of it");
    nodes[0].let_go_of_smfu(5);
    assert!(!turn(1).is_held(5) && !turn(1).is_left(5));
}

/// A node has a block for each of its processes; cards of one process may come and go without end.
#[test]
fn cards_of_a_member_come_and_go() {
    let member = &on_one_node(1)[0];
    for round in 0..600 {
        let node = over(member);
        let port = node.open(7, 1);
        port.put(port.address(), Spec::NONE, 1 << 24, 0, 8);
        drive(std::slice::from_ref(&node), "the put", || node.errors(REQ_TRANS) == round + 1);
    }
}

#[test]
fn a_card_must_be_on_the_node_of_its_process() {
    let members = Member::all_of_job(Shape::new(2, 1).unwrap()).unwrap();
    let fabrics: Vec<_> = members.into_iter().map(|member| ProcessFabric::join(member).unwrap()).collect();
    for (node, rank) in [(0, 1), (2, 1), (1, 0)] {
        let fabric = fabric::Loopback::new(4, true);
        let shared = Some(fabrics[rank].nodes().clone());
        let config = NicConfig { shared, ..NicConfig::new(node, HostMemory::new(), fabric) };
        let refused = Nic::new(config).err();
        assert!(
            matches!(refused, Some(NicError::Elsewhere { .. })),
            "rank {rank} on node {node}: {refused:?}"
        );
    }
}

#[test]
fn a_member_has_one_way_to_the_others() {
    let member = Member::join_private(&NetworkShape::default(), 3).unwrap();
    let fabric = ProcessFabric::join(member.clone()).unwrap();
    assert!(matches!(ProcessFabric::join(member.clone()), Err(JoinError::Twice)));
    drop(fabric);
    // What it told its peers cannot be taken back.
    assert!(matches!(ProcessFabric::join(member), Err(JoinError::Twice)));
}
