//! Collectives of kernels on the CPU executor: barriers, failure, reset.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Setup, small};
use extoll_abi::layout;
use ggas_clock::{Clock, Manual};
use ggas_coll::{Group, GroupConfig, GroupError};
use ggas_device::sim::SimNetwork;
use ggas_kernels::Processor;
use ggas_rma::Node;
use ggas_selftest::args::*;
use ggas_window::Window;

/// How long members wait for one that never comes.
const TIMEOUT: Duration = Duration::from_secs(20);
/// What all else takes, in virtual time.
const SHORTLY: Duration = Duration::from_secs(1);

const BARRIERS: [u32; 3] = [SELFTEST_SYNC, SELFTEST_BARRIER, SELFTEST_BARRIER_MASTER];

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    for (nodes, grid, block) in
        [(1, 1, 1), (2, 1, 32), (3, 1, 2), (5, 1, 64), (8, 1, 3), (2, 3, 33), (4, 2, 32)]
    {
        for master in [0, nodes - 1] {
            let setup = Setup::new(nodes, GroupConfig { master, ..small() });
            for method in BARRIERS {
                let what = format!("method {method}, {nodes} nodes, {grid} x {block}");
                assert_eq!(setup.barrier(method, grid, block, 20), vec![0; nodes], "{what}");
                assert_eq!(setup.wrong.load_u64(0).expect("in range"), 0, "{what}");
                setup.group.check().expect("no failure");
            }
        }
    }
}

#[test]
fn groups_of_different_grids_work_one_after_the_other() {
    let setup = Setup::new(2, small());
    for (grid, block) in [(4, 32), (1, 32), (3, 64), (2, 1), (5, 2)] {
        for method in BARRIERS {
            assert_eq!(setup.barrier(method, grid, block, 5), [0, 0]);
        }
    }
    assert_eq!(setup.wrong.load_u64(0).expect("in range"), 0);
}

/// Runs a collective that node 2 does not come to.
fn without_node_2(setup: &Setup, method: u32, grid: u32) -> Vec<u64> {
    let memory = setup.cpu.alloc(4096).expect("memory");
    let args: Vec<_> = (0..3)
        .map(|rank| selftest_coll {
            input: memory.address(),
            out: memory.address() + 2048,
            count: 32,
            method,
            form: if grid > 1 { SELFTEST_GRID } else { SELFTEST_BLOCK },
            root: 2,
            skip: u32::from(rank == 2),
            ..setup.args(rank)
        })
        .collect();
    setup.run(grid, 32, &args)
}

#[test]
fn a_member_that_never_comes_poisons_the_group_until_reset() {
    let (clock, _time) = Manual::new();
    let setup = Setup::by_clock(3, GroupConfig { timeout: TIMEOUT, ..small() }, &clock);
    let methods = [
        SELFTEST_SYNC,
        SELFTEST_BARRIER,
        SELFTEST_BARRIER_MASTER,
        SELFTEST_ALLREDUCE_ONE_SHOT,
        SELFTEST_ALLREDUCE_TWO_SHOT,
        SELFTEST_ALLREDUCE_ALL_GATHER,
        SELFTEST_ALLREDUCE_TREE,
        SELFTEST_BROADCAST,
        SELFTEST_REDUCE_SCATTER,
        SELFTEST_ALL_TO_ALL,
    ];
    for (method, grid) in methods.into_iter().flat_map(|method| [(method, 1), (method, 2)]) {
        poisoned_until_reset(&setup, &clock, method, grid);
    }
}

fn poisoned_until_reset(setup: &Setup, clock: &Clock, method: u32, grid: u32) {
    let what = format!("method {method}, {grid} blocks");
    let failed = without_node_2(setup, method, grid);
    assert!(failed[..2].iter().all(|&status| status != 0), "{what}: {failed:?}");
    // Of several blocks one waits in vain; what a node returns may be of another, which saw the poison.
    let timed_out = failed.contains(&u64::from(layout::GGAS_ERR_TIMEOUT));
    assert!(timed_out || grid > 1, "{what}: {failed:?}");
    let report = match setup.group.check() {
        Err(GroupError::Failed { report, .. }) => report,
        other => panic!("{what}: {other:?}"),
    };
    assert_eq!(report.status, layout::GGAS_ERR_TIMEOUT, "{what}: {report}");
    assert!((TIMEOUT..TIMEOUT + SHORTLY).contains(&report.waited), "{what}: {report}");
    assert!(report.peer == Some(2) || grid > 1, "{what}: {report}");
    assert!([0, 1].iter().all(|&rank| setup.group.member(rank).unwrap().is_poisoned().unwrap()));
    // At once, and for the member that did not fail itself too.
    let begun = clock.now();
    let poisoned = setup.barrier(SELFTEST_BARRIER, 1, 32, 1);
    assert!(clock.since(begun) < SHORTLY, "{what}: {:?}", clock.since(begun));
    assert!(
        poisoned.iter().all(|&status| status == u64::from(layout::GGAS_ERR_POISONED)),
        "{what}: {poisoned:?}"
    );
    setup.group.reset().expect("reset");
    assert_eq!(setup.barrier(SELFTEST_BARRIER, 1, 32, 3), [0; 3], "{what}");
    setup.group.check().expect("mended");
}

#[test]
fn impossible_arguments_are_refused_by_kernels() {
    let setup = Setup::new(2, small());
    let refused = |method, form, root, grid| {
        let memory = setup.cpu.alloc(4096).expect("memory");
        let args: Vec<_> = (0..2)
            .map(|rank| selftest_coll {
                input: memory.address(),
                out: memory.address(),
                count: 8,
                method,
                form,
                root,
                ..setup.args(rank)
            })
            .collect();
        let status = setup.run(grid, 32, &args);
        assert_eq!(status, [u64::from(layout::GGAS_ERR_ARGUMENT); 2], "method {method}, form {form}");
    };
    refused(SELFTEST_REDUCE, SELFTEST_BLOCK, 2, 1);
    refused(SELFTEST_BROADCAST, SELFTEST_BLOCK, 2, 1);
    refused(SELFTEST_REDUCE_TREE, SELFTEST_BLOCK, 7, 1);
    refused(SELFTEST_ALLREDUCE_TREE, SELFTEST_OWNED, 0, 2);
    setup.group.check().expect("nothing was poisoned");
    assert_eq!(setup.barrier(SELFTEST_BARRIER, 1, 32, 3), [0; 2]);
}

#[test]
fn a_group_that_does_not_fit_is_refused() {
    let network = SimNetwork::builder().nodes(2).build().expect("a network");
    let nodes = [0, 1].map(|n| Node::new(network.device(n).expect("a device")));
    let cpu = Processor::cpu();
    let window = Arc::new(Window::new(&[(&nodes[0], &cpu), (&nodes[1], &cpu)], 128 << 10).expect("a window"));
    let refused = |config: GroupConfig| Group::new(window.clone(), &config).expect_err("refused");
    let small = small();
    assert!(matches!(refused(GroupConfig::default()), GroupError::NoRoom { .. }));
    assert!(matches!(refused(GroupConfig { offset: 100, ..small.clone() }), GroupError::Offset(100)));
    assert!(matches!(refused(GroupConfig { master: 2, ..small.clone() }), GroupError::Master { .. }));
    assert!(matches!(refused(GroupConfig { slot_bytes: 0, ..small.clone() }), GroupError::SlotBytes(0)));
    assert!(matches!(
        refused(GroupConfig { offset: usize::MAX, ..small.clone() }),
        GroupError::TooLarge { .. }
    ));
    let group = Group::new(window.clone(), &small).expect("it fits");
    assert!(matches!(group.member(2), Err(GroupError::NoSuchMember { .. })));
}
