//! Queues between members of this process: on the model by slots and card pages, over mapped windows, and on engines.

use std::sync::Arc;

use crate::common::{self, Carrier, Lanes, Ring, carriers, ring, ring_with};
use extoll_abi::layout::{GGAS_ERR_ARGUMENT, GGAS_ERR_TIMEOUT};
use ggas_device::sim::{Faults, SimNetwork, Simulation};
use ggas_kernels::{CpuConfig, Processor};
use ggas_queues::{Queues, QueuesConfig, QueuesError, Way};
use ggas_rma::{Node, PortConfig};
use ggas_selftest::args::{
    SELFTEST_PUT_BLOCK, SELFTEST_PUT_THREAD, SELFTEST_PUT_WARP, SELFTEST_QUEUE_AWAIT as AWAIT,
    SELFTEST_QUEUE_EXCHANGE as EXCHANGE, SELFTEST_QUEUE_LAST as LAST, SELFTEST_QUEUE_MEET as MEET,
    SELFTEST_QUEUE_NOTIFY as NOTIFY, SELFTEST_QUEUE_QUIET as QUIET, SELFTEST_QUEUE_READ as READ,
    SELFTEST_QUEUE_REFUSE as REFUSE,
};
use ggas_window::Window;

fn queues(queues: u32) -> QueuesConfig {
    QueuesConfig { queues, ..QueuesConfig::default() }
}

#[test]
fn writes_with_flags_arrive_by_threads_warps_and_blocks() {
    for carrier in carriers() {
        for (scope, block, lanes) in
            [(SELFTEST_PUT_THREAD, 3, 6), (SELFTEST_PUT_WARP, 40, 4), (SELFTEST_PUT_BLOCK, 24, 2)]
        {
            let ring = ring(carrier, 2, queues(3), lanes);
            for bytes in [1, 100, 5000] {
                ring.run(EXCHANGE, &[Lanes { scope, block, ..Lanes::blocks(0, 2) }], bytes, 3);
            }
        }
    }
}

#[test]
fn any_block_waits_for_what_others_posted() {
    for carrier in carriers() {
        for members in [2, 3, 4] {
            let ring = ring(carrier, members, queues(3), 7);
            // Even rounds wait for each queue, odd ones for any.
            for _ in 0..4 {
                ring.run(LAST, &[Lanes::blocks(0, 7)], 700, 1);
            }
        }
    }
}

#[test]
fn any_block_waits_for_what_others_read() {
    for carrier in carriers() {
        let ring = ring(carrier, 3, queues(4), 6);
        for _ in 0..3 {
            ring.run(READ, &[Lanes::blocks(0, 6)], 3000, 1);
        }
    }
}

#[test]
fn notifications_are_counted_for_their_queue() {
    for carrier in carriers() {
        let ring = ring(carrier, 2, queues(3), 8);
        for _ in 0..3 {
            ring.run(NOTIFY, &[Lanes::blocks(0, 8)], 500, 1);
        }
    }
}

#[test]
fn quiet_puts_data_before_flags_that_go_another_way() {
    for carrier in carriers() {
        let ring = ring(carrier, 2, queues(2), 4);
        for _ in 0..3 {
            ring.run(QUIET, &[Lanes::blocks(0, 4)], 20_000, 1);
        }
    }
}

#[test]
fn kernels_that_run_at_once_share_queues() {
    for carrier in carriers() {
        let ring = ring(carrier, 2, queues(2), 9);
        let grids = [Lanes::blocks(0, 4), Lanes::blocks(4, 3), Lanes::blocks(7, 2)];
        for _ in 0..3 {
            ring.run(LAST, &grids, 300, 1);
        }
        ring.run(EXCHANGE, &grids, 300, 3);
    }
}

#[test]
fn one_to_thirty_two_queues() {
    for carrier in carriers() {
        for count in [1, 2, 5, 16, 31, 32] {
            let ring = ring(carrier, 2, queues(count), 33);
            assert_eq!(ring.queues.queues(), count);
            ring.run(LAST, &[Lanes { block: 4, ..Lanes::blocks(0, 33) }], 64, 1);
        }
    }
}

#[test]
fn grids_that_do_not_fit_at_once_end() {
    for carrier in carriers() {
        let ring = ring(carrier, 2, queues(4), 50);
        for resident in [1, 3] {
            ring.run(LAST, &[Lanes { resident: Some(resident), ..Lanes::blocks(0, 50) }], 200, 1);
            ring.run(READ, &[Lanes { resident: Some(resident), ..Lanes::blocks(0, 50) }], 200, 1);
            // Both nodes have the same lanes alive, sooner or later.
            ring.run(EXCHANGE, &[Lanes { resident: Some(resident), ..Lanes::blocks(0, 50) }], 200, 1);
        }
    }
}

#[test]
fn a_grid_that_meets_must_fit_at_once_and_that_is_said() {
    let simulation = Simulation::new(1);
    let network = SimNetwork::builder().nodes(2).simulation(&simulation).build().unwrap();
    let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
    let ring = ring_with(Carrier::Slots, common::nodes_of(&network), cpu, queues(2), 6);
    assert_eq!(ring.try_run(MEET, &[Lanes::blocks(0, 6)], 8, 1), [0, 0]);
    ring.clear_counters();
    let few = Lanes { resident: Some(4), ..Lanes::blocks(0, 6) };
    let statuses = ring.try_run(MEET, &[few], 8, 1);
    assert_eq!(statuses, [1, 1], "timed out");
    let report = ring.queues.report(0).unwrap().expect("reported");
    assert_eq!(report.unstarted, 2);
    let said = ring.queues.check().unwrap_err().to_string();
    assert!(said.contains("2 blocks of the grid had not started") && said.contains("launch fewer"), "{said}");
}

/// Of a small queue, and more posts than it has entries.
#[test]
fn posts_consume_where_their_notifications_would_not_fit() {
    for carrier in carriers() {
        let port = PortConfig { queue_bytes: 4096, segment_bytes: 4096, slots: 16, ..carrier.port() };
        for under_way in [Some(1), None] {
            let config = QueuesConfig { port, under_way, ..queues(1) };
            let ring = ring_with(carrier, carrier.nodes(2), Processor::cpu(), config, 600);
            for _ in 0..2 {
                ring.run(LAST, &[Lanes { block: 2, resident: Some(8), ..Lanes::blocks(0, 600) }], 16, 1);
            }
        }
    }
}

#[test]
fn queues_share_the_ports_that_are_free() {
    let network = SimNetwork::builder().nodes(2).build().unwrap();
    let nodes = common::nodes_of(&network);
    let small = PortConfig { queue_bytes: 4096, segment_bytes: 4096, ..PortConfig::default() };
    let taken: Vec<_> = (0..248).map(|_| nodes[0].open_port(small).unwrap()).collect();
    let config = QueuesConfig { port: PortConfig { ..small }, way: Way::Device, ..queues(8) };
    let some = ring_with(Carrier::Slots, nodes.clone(), Processor::cpu(), config, 20);
    assert_eq!([0, 1].map(|member| some.queues.ports(member).unwrap()), [3, 8]);
    for form in [LAST, LAST, READ, READ] {
        some.run(form, &[Lanes::blocks(0, 20)], 300, 1);
    }
    some.run(EXCHANGE, &[Lanes::blocks(0, 20)], 300, 2);
    // As many as are left are taken now.
    let cpu = Processor::cpu();
    let error = Queues::new(&[(&nodes[0], &cpu), (&nodes[1], &cpu)], &config).unwrap_err();
    assert!(matches!(error, QueuesError::PortsInUse { member: 0, .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("all 251 ports of node 0 are open") && said.contains("QueuesConfig::ports"),
        "{said}"
    );
    drop(taken);
    drop(some);
    // Few ports may be asked for.
    let config = QueuesConfig { ports: 2, ..config };
    let two = ring_with(Carrier::Slots, nodes, cpu, config, 20);
    assert_eq!(two.queues.ports(0).unwrap(), 2);
    two.run(LAST, &[Lanes::blocks(0, 20)], 300, 1);
}

#[test]
fn what_there_is_not_is_refused_and_said() {
    let said = [
        "there is no queue 3",
        "there is no member 2",
        "there is no flag 256",
        "do not lie in member",
        "8 bytes at offset 18446744073709551612 do not lie in member 0's 40960",
        "exchange the two",
        "there is no queue 3",
        "there is no queue 3",
        "there is no member 2",
        "no flag was named",
        "no queue was named",
        "there is no flag 4294967296",
        "there is no member 2",
        "made for queue 1 and used with queue 0",
        "made for queue 1 and used with queue 0",
        "made for queue 1 and used with queue 0",
        "made for queue 1 and used with queue 0",
        "made for queue 1 and used with queue 0",
        "made for a queue of other queues",
        "no way leads to the memory of member 0",
        "no way leads to the memory of member 0",
        "no way leads to the memory of member 0",
    ];
    for carrier in [Carrier::Slots, Carrier::Card, Carrier::Stores] {
        let ring = ring(carrier, 2, queues(3), 1);
        // The last ones are of memory that no port knows.
        let ports = ring.queues.ports(0).unwrap() > 0;
        for (which, said) in (0..if ports { 22 } else { 19 }).zip(said) {
            let statuses = ring.try_run_from(REFUSE, which, &[Lanes::blocks(0, 1)], 8, 1);
            assert_eq!(statuses, [u64::from(GGAS_ERR_ARGUMENT); 2], "{which}");
            let report = ring.queues.report(0).unwrap().expect("reported").to_string();
            assert!(report.contains(said) && report.starts_with("member 0 block 0"), "{which}: {report}");
            ring.queues.clear_reports();
        }
        assert!(ring.is_untouched());
    }
}

/// Kernels hand the memory of one set of queues to another.
#[test]
fn queues_without_ports_refuse_memory_that_needs_one() {
    let ring = ring(Carrier::Stores, 2, queues(3), 1);
    let with_ports = common::ring(Carrier::Slots, 2, queues(3), 1);
    for which in 22..27 {
        let statuses = ring.try_run_with(&with_ports, REFUSE, which, 8);
        assert_eq!(statuses, [u64::from(GGAS_ERR_ARGUMENT); 2], "{which}");
        let report = ring.queues.report(0).unwrap().expect("reported").to_string();
        assert!(report.contains("no way leads to the memory of member 1"), "{which}: {report}");
        ring.queues.clear_reports();
    }
    assert!(ring.is_untouched() && with_ports.is_untouched());
}

/// A ring in virtual time, whose waits end by themselves.
fn in_virtual_time() -> Ring {
    let simulation = Simulation::new(1);
    let network = SimNetwork::builder().nodes(2).simulation(&simulation).build().unwrap();
    let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
    ring_with(Carrier::Slots, common::nodes_of(&network), cpu, queues(2), 6)
}

#[test]
fn flags_keep_their_values_until_they_are_reset() {
    let ring = in_virtual_time();
    ring.run(EXCHANGE, &[Lanes::blocks(0, 6)], 100, 2);
    let wait_for = |value| ring.try_run_from(AWAIT, value, &[Lanes::blocks(0, 1)], 8, 1);
    assert_eq!(wait_for(2), [0, 0], "of the launch before");
    ring.queues.reset_flags().unwrap();
    assert_eq!(wait_for(1), [u64::from(GGAS_ERR_TIMEOUT); 2]);
    let said = ring.queues.check().unwrap_err().to_string();
    assert!(said.starts_with("member 0 block 0 thread 0: waited 60"), "{said}");
    assert!(
        said.contains("for flag 0 (set by member 1) to be >= 1 (line ") && said.ends_with("), saw 0"),
        "{said}"
    );
    ring.queues.clear_reports();
    ring.run(EXCHANGE, &[Lanes::blocks(0, 6)], 100, 2);
}

#[test]
fn what_was_refused_is_said_before_time_outs_that_follow() {
    let ring = in_virtual_time();
    let refused = Lanes { first: 256, ..Lanes::blocks(0, 1) };
    let statuses = ring.try_run_from(AWAIT, 1, &[refused], 8, 1);
    assert_eq!(statuses, [GGAS_ERR_TIMEOUT, GGAS_ERR_ARGUMENT].map(u64::from));
    let error = ring.queues.check().unwrap_err();
    assert!(matches!(error, QueuesError::Failed { member: 1, .. }), "{error}");
    assert!(error.to_string().contains("there is no flag 256"), "{error}");
}

#[test]
fn a_time_out_of_queues_that_were_never_armed_says_so() {
    for (armed, way) in [(true, Carrier::Slots), (false, Carrier::Slots), (false, Carrier::Stores)] {
        let simulation = Simulation::new(1);
        let network = SimNetwork::builder().nodes(2).simulation(&simulation).build().unwrap();
        let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
        let mut ring = ring_with(way, common::nodes_of(&network), cpu, queues(2), 6);
        ring.arms = armed;
        let statuses = ring.try_run_from(AWAIT, 1, &[Lanes::blocks(0, 1)], 8, 1);
        assert_eq!(statuses, [u64::from(GGAS_ERR_TIMEOUT); 2]);
        let said = ring.queues.check().unwrap_err().to_string();
        assert_eq!(said.contains("Queues::arm"), !armed && way == Carrier::Slots, "{said}");
    }
}

#[test]
fn impossible_queues_are_refused() {
    let network = SimNetwork::builder().nodes(2).build().unwrap();
    let nodes = common::nodes_of(&network);
    let cpu = Processor::cpu();
    let members = [(&nodes[0], &cpu), (&nodes[1], &cpu)];
    for count in [0, 33] {
        let error = Queues::new(&members, &queues(count)).unwrap_err();
        assert!(error.to_string().contains("1 to 32"), "{error}");
    }
    let flags = QueuesConfig { flags: u32::MAX, ..queues(1) };
    assert!(matches!(Queues::new(&members, &flags), Err(QueuesError::Flags { flags: u32::MAX, .. })));
    assert!(matches!(Queues::new(&[], &queues(1)), Err(QueuesError::NoMembers)));
    let stores = Queues::new(&members, &QueuesConfig { way: Way::Stores, ..queues(2) }).unwrap();
    assert_eq!(stores.ports(0).unwrap(), 0);
    let own = || vec![Arc::new(cpu.alloc(64).unwrap()), Arc::new(cpu.alloc(64).unwrap())];
    let error = stores.share(own()).unwrap_err();
    assert!(matches!(error, QueuesError::Unreachable { from: 0, to: 1, way: Way::Stores, .. }), "{error}");
    let both = Queues::new(&members, &queues(2)).unwrap();
    let shared = both.share(own()).unwrap();
    assert_eq!((shared.way(0, 0).unwrap(), shared.way(0, 1).unwrap()), (Way::Stores, Way::Device));
    let error = both.share(Arc::new(cpu.alloc(64).unwrap())).unwrap_err();
    assert!(matches!(error, QueuesError::Parts { got: 1, members: 2 }), "{error}");
    let other = Arc::new(Window::new(&[(&nodes[1], &cpu)], 64).unwrap());
    assert!(matches!(both.share(other), Err(QueuesError::Parts { got: 0, .. })));
    assert!(matches!(both.address(2), Err(QueuesError::NoSuchMember { member: 2, last: 1 })));
}

/// Nodes, faults and kernels in the virtual time of one simulation.
fn simulated(seed: u64, carrier: Carrier) -> std::time::Duration {
    let simulation = Simulation::new(seed);
    let faults = Faults::none().seed(seed).drop(0.05).duplicate(0.02);
    let network = SimNetwork::builder().nodes(2).faults(faults).simulation(&simulation).build().unwrap();
    let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
    let ring: Ring = ring_with(carrier, common::nodes_of(&network), cpu, queues(2), 6);
    ring.run(EXCHANGE, &[Lanes::blocks(0, 6)], 700, 4);
    ring.run(LAST, &[Lanes { resident: Some(2), ..Lanes::blocks(0, 6) }], 700, 1);
    simulation.elapsed()
}

#[test]
fn queues_take_part_in_simulations() {
    for carrier in [Carrier::Slots, Carrier::Card] {
        let times = [1, 2, 1].map(|seed| simulated(seed, carrier));
        assert_eq!(times[0], times[2], "the same seed, the same time");
        assert_ne!(times[0], times[1], "another seed drops other frames");
    }
}

#[test]
fn memory_of_kernels_is_shared_without_a_window() {
    let network = SimNetwork::builder().nodes(2).build().unwrap();
    let nodes: Vec<Node> = common::nodes_of(&network);
    let ring = Ring::of_own_memory(nodes, queues(3), 5);
    ring.run(LAST, &[Lanes::blocks(0, 5)], 900, 1);
    ring.run(READ, &[Lanes::blocks(0, 5)], 900, 1);
}
