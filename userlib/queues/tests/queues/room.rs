//! Posts and waits where a member is gone, or there is no room.

use crate::common::{self, Carrier, Lanes, ring_with};
use extoll_abi::layout::GGAS_ERR_LOST;
use ggas_device::sim::{SimNetwork, Simulation};
use ggas_kernels::{CpuConfig, Processor};
use ggas_queues::QueuesConfig;
use ggas_selftest::args::{
    SELFTEST_QUEUE_AT_ONCE as AT_ONCE, SELFTEST_QUEUE_NO_ROOM as NO_ROOM,
    SELFTEST_QUEUE_REFUSING as REFUSING, SELFTEST_QUEUE_TO_LOST as TO_LOST,
};

fn one_queue(under_way: u32) -> QueuesConfig {
    QueuesConfig { queues: 1, under_way: Some(under_way), ..QueuesConfig::default() }
}

/// Not after a time-out: a member that is gone makes no room.
#[test]
fn a_post_without_room_hears_of_a_member_that_is_gone() {
    for carrier in [Carrier::Slots, Carrier::Card, Carrier::Engine] {
        let ring = ring_with(carrier, carrier.nodes(2), Processor::cpu(), one_queue(1), 1);
        let statuses = ring.try_run_from(NO_ROOM, 0, &[Lanes::blocks(0, 1)], 8, 1);
        assert_eq!(statuses, [u64::from(GGAS_ERR_LOST); 2], "{carrier:?}");
        let said = ring.queues.check().unwrap_err().to_string();
        assert!(said.contains("is gone: that of member 1"), "{said}");
    }
}

/// Each such post had taken a place in the ring before it heard: the ring goes on.
#[test]
fn posts_to_a_member_that_is_gone_leave_nothing_under_way() {
    for carrier in [Carrier::Slots, Carrier::Card, Carrier::Engine] {
        let ring = ring_with(carrier, carrier.nodes(3), Processor::cpu(), one_queue(4), 1);
        let statuses = ring.try_run_from(TO_LOST, 0, &[Lanes::blocks(0, 1)], 8, 1);
        assert_eq!(statuses, [0; 3], "{carrier:?}: {:?}", ring.queues.report(0));
    }
}

/// A post to it is counted for a moment before it is refused: others neither wait for it, nor fail for it.
#[test]
fn posts_that_are_being_refused_keep_nobody() {
    for carrier in [Carrier::Slots, Carrier::Card] {
        // Of three blocks one posts before it waits. That the member is gone may not be seen yet.
        for (blocks, lost) in [(2, 1), (3, 0), (3, 1)] {
            let simulation = Simulation::new(1);
            let network = SimNetwork::builder().nodes(2).simulation(&simulation).build().unwrap();
            let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
            let ring = ring_with(carrier, common::nodes_of(&network), cpu, one_queue(1), 1);
            let statuses = ring.try_run_from(REFUSING, lost, &[Lanes::blocks(0, blocks)], 8, 1);
            assert_eq!(statuses, [0; 2], "{carrier:?}, {blocks} blocks: {:?}", ring.queues.report(0));
        }
    }
}

/// Each sees the same counts. Did all of them return at once, nobody would consume, and the notification queue might overflow.
#[test]
fn posts_at_the_same_time_do_not_all_find_the_same_room() {
    for carrier in [Carrier::Slots, Carrier::Card, Carrier::Engine] {
        let ring = ring_with(carrier, carrier.nodes(2), Processor::cpu(), one_queue(1), 1);
        let one = Lanes { block: 1, ..Lanes::blocks(0, 1) };
        let statuses = ring.try_run_from(AT_ONCE, 0, &[one], 8, 1);
        assert_eq!(statuses, [0; 2], "{carrier:?}: {:?}", ring.queues.report(0));
    }
}
