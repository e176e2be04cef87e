//! Packets that were posted for processes that are gone by the time they are sent.

use super::SECOND;
use super::world::World;
use crate::packet::Kind;

/// Process 0 has met two others, whose hosts are gone, which it knows by now; and packets that it made for them before, in turn.
#[test]
fn packets_for_who_is_gone_wait_for_no_call() {
    let mut world = World::new(3, 1);
    world.messages.borrow_mut().later = 0;
    (0..3).for_each(|node| world.start(node));
    [1, 2].into_iter().for_each(|to| world.post(0, to, Kind::Notification));
    world.run(SECOND);
    assert_eq!(world.taken, 2);
    let packets: Vec<_> = (0..20).map(|at| world.packet_of(0, 1 + at % 2, Kind::Notification)).collect();
    [1, 2].into_iter().for_each(|gone| world.end(gone, false));
    world.run(8 * SECOND);
    assert!([1, 2].into_iter().all(|gone| world.lost.contains_key(&(0, gone))));
    packets.into_iter().for_each(|packet| world.send(0, packet));
    // Nobody answers there: to call each in turn would take five seconds for each packet.
    let process = &world.processes[0];
    assert_eq!((process.waiting.len(), process.core().has_out()), (0, false));
    assert_eq!(process.core().counts.thrown_away, 20);
    world.run(9 * SECOND);
    world.check_quiet();
}
