//! Packets for processes that are gone by the time they are sent, and for hosts that are silent.

use super::SECOND;
use super::world::{EVER, World};
use crate::packet::{Kind, Packet, Payload};

/// Three processes, of which the first one has met the others.
fn met() -> World {
    let mut world = World::new(3, 1);
    world.messages.borrow_mut().later = 0;
    (0..3).for_each(|node| world.start(node));
    [1, 2].into_iter().for_each(|to| world.post(0, to, Kind::Notification));
    world.run(SECOND);
    assert_eq!(world.taken, 2);
    world
}

/// Both hosts are gone, which process 0 knows by now; and it has packets that it made for them before, in turn.
#[test]
fn packets_for_who_is_gone_wait_for_no_call() {
    let mut world = met();
    let packets: Vec<_> = (0..20).map(|at| world.packet_of(0, 1 + at % 2, Kind::Notification)).collect();
    [1, 2].into_iter().for_each(|gone| world.end(gone, false));
    world.run(8 * SECOND);
    assert!([1, 2].into_iter().all(|gone| world.lost.contains_key(&(0, gone))));
    let before = world.processes[0].core().counts.thrown_away;
    packets.into_iter().for_each(|packet| world.send(0, packet));
    // Nobody answers there: to call each in turn would take five seconds for each packet.
    let process = &world.processes[0];
    assert_eq!((process.waiting.len(), process.core().counts.thrown_away - before), (0, 20));
    world.run(9 * SECOND);
    world.check_quiet();
}

/// A packet for one who is gone is all that says that somebody is wanted at its node.
#[test]
fn who_comes_again_is_met_by_packets_for_who_is_gone() {
    let mut world = met();
    let packet = world.packet_of(0, 1, Kind::Notification);
    world.leave(1);
    world.run(2 * SECOND);
    assert!(world.left.contains(&(0, 1)));
    world.start(1);
    world.send(0, packet);
    assert_eq!(world.processes[0].waiting.len(), 0);
    world.step(0);
    world.run(3 * SECOND);
    world.post(0, 1, Kind::Notification);
    world.run(4 * SECOND);
    assert_eq!((world.taken, world.count_came(0, 3)), (3, 1));
    world.check_quiet();
}

/// Of two silent hosts each was called at another time. Packets wait for these calls, and for no others.
#[test]
fn packets_for_silent_hosts_in_turn_wait_once() {
    let mut world = World::new(3, 1);
    world.messages.borrow_mut().later = 0;
    world.start(0);
    [1, 2].into_iter().for_each(|node| world.cuts.cut(0, node, EVER));
    world.post(0, 1, Kind::Notification);
    world.run(3 * SECOND);
    world.post(0, 2, Kind::Notification);
    world.run(9 * SECOND);
    assert_eq!(world.processes[0].core().counts.thrown_away, 2);
    for at in 0..20 {
        world.post(0, 1 + at % 2, Kind::Notification);
        assert_eq!(world.processes[0].waiting.len(), 0, "the {at}th");
        world.run(world.now() + SECOND / 2);
    }
    // They are called all the same; and later packets wait again.
    world.cuts.heal_all(world.now());
    [1, 2].into_iter().for_each(|node| world.start(node));
    world.run(world.now() + 20 * SECOND);
    [1, 2].into_iter().for_each(|node| world.post(0, node, Kind::Notification));
    world.run(world.now() + SECOND);
    assert_eq!(world.taken, 2);
    world.check_quiet();
}

const SILENT: u16 = 20;

/// A process, and so many hosts that do not answer.
fn alone() -> World {
    let mut world = World::new(usize::from(SILENT) + 1, 1);
    world.messages.borrow_mut().later = 0;
    world.start(0);
    (1..=SILENT).for_each(|node| world.cuts.cut(0, node, EVER));
    world
}

/// In turn, so that each one is wanted again after twenty seconds: no packet waits but for the first call.
#[test]
fn packets_for_any_number_of_silent_hosts_wait_once() {
    let mut world = alone();
    (1..=SILENT).for_each(|to| world.post(0, to, Kind::Notification));
    world.run(5 * SECOND + SECOND / 10);
    assert_eq!(world.processes[0].core().counts.thrown_away, SILENT.into());
    for at in 0..300 {
        world.post(0, 1 + at % SILENT, Kind::Notification);
        assert_eq!(world.processes[0].waiting.len(), 0, "the {at}th");
        world.run(world.now() + SECOND);
    }
    world.check_quiet();
}

/// Who posts for the next one when the last packet is gone has them called one after the other: that there are silent hosts is known by then.
#[test]
fn packets_for_silent_hosts_one_after_the_other_wait_for_one_call() {
    let mut world = alone();
    for round in 0..3 {
        let begin = world.now();
        for to in 1..=SILENT {
            world.post(0, to, Kind::Notification);
            while !world.processes[0].waiting.is_empty() {
                world.run(world.now() + SECOND / 100);
            }
        }
        let most =
            if round == 0 { 5 * SECOND + u32::from(SILENT) * (SECOND + SECOND / 100) } else { SECOND / 100 };
        assert!(world.now() - begin <= most, "round {round}: {:?}", world.now() - begin);
        world.run(world.now() + 30 * SECOND);
    }
    // One that answers is met as ever.
    world.cuts.heal_all(world.now());
    world.start(1);
    world.run(world.now() + 20 * SECOND);
    world.post(0, 1, Kind::Notification);
    world.run(world.now() + SECOND);
    assert_eq!(world.taken, 1);
    world.check_quiet();
}

/// Beside a silent host packets wait for no call that is not answered soon, and that one goes on.
#[test]
fn who_is_met_late_beside_a_silent_host_is_heard() {
    let mut world = World::new(3, 1);
    world.messages.borrow_mut().later = 0;
    [0, 2].into_iter().for_each(|node| world.start(node));
    world.cuts.cut(0, 1, EVER);
    world.post(0, 1, Kind::Notification);
    world.run(6 * SECOND);
    world.cuts.cut(0, 2, 8 * SECOND);
    world.post(0, 2, Kind::Notification);
    world.run(8 * SECOND);
    assert_eq!(world.processes[0].core().counts.thrown_away, 2);
    world.run(10 * SECOND);
    assert!(world.processes[0].core().is_open(2));
    world.post(0, 2, Kind::Notification);
    world.post(1, 0, Kind::Notification);
    world.run(11 * SECOND);
    assert_eq!([world.count_came(0, 1), world.count_came(1, 0)], [1, 1]);
    world.check_quiet();
}

/// The packets of a put that was posted where nobody was met.
fn put_of(world: &mut World) -> [Packet; 3] {
    const LEN: u32 = 100;
    let whole = world.packet_of(0, 1, Kind::Put);
    [0, 1, 2].map(|at| {
        let payload = Payload::copy_of(&[7; LEN as usize]);
        Packet { len: LEN, total: 3 * LEN, offset: at * LEN, payload, ..whole }
    })
}

/// Its last packet would say that all of it is there.
#[test]
fn a_put_whose_first_packet_is_thrown_away_does_not_come() {
    let mut world = World::new(2, 1);
    world.messages.borrow_mut().later = 0;
    world.start(0);
    world.cuts.cut(0, 1, EVER);
    world.post(0, 1, Kind::Notification);
    world.run(6 * SECOND);
    let [first, second, last] = put_of(&mut world);
    world.send(0, first);
    world.cuts.heal_all(world.now());
    world.start(1);
    world.run(world.now() + 20 * SECOND);
    assert!(world.processes[0].core().is_open(1));
    [second, last].into_iter().for_each(|packet| world.send(0, packet));
    world.run(world.now() + SECOND);
    assert_eq!((world.taken, world.processes[0].core().counts.thrown_away), (0, 4));
    // The next put does, which has the process that is there now.
    put_of(&mut world).into_iter().for_each(|packet| world.send(0, packet));
    world.run(world.now() + SECOND);
    assert_eq!(world.taken, 3);
    world.check_quiet();
}

/// The same where the one that has the first packet is gone, and another one came.
#[test]
fn a_put_goes_to_one_process() {
    let mut world = World::new(2, 1);
    world.messages.borrow_mut().later = 0;
    (0..2).for_each(|node| world.start(node));
    let [first, second, last] = put_of(&mut world);
    world.send(0, first);
    world.step(0);
    world.run(SECOND);
    assert_eq!((world.taken, world.processes[0].waiting.len()), (1, 0));
    world.end(1, true);
    world.run(2 * SECOND);
    world.start(1);
    world.send(0, second);
    world.step(0);
    world.run(3 * SECOND);
    assert!(world.processes[0].core().is_open(1));
    world.send(0, last);
    world.run(4 * SECOND);
    assert_eq!((world.taken, world.count_came(0, 2)), (1, 0));
    world.check_quiet();
}
