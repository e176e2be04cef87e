//! Jobs whose processes know each other.

use std::time::Duration;

use super::SECOND;
use super::world::World;
use crate::packet::Kind;

const NODES: u16 = 4;

/// A job, and all have sent to all.
fn job() -> World {
    let mut world = World::new(NODES.into(), 1);
    world.messages.borrow_mut().later = 0;
    (world.job, world.papers) = (true, Some(Duration::from_millis(100)));
    (0..NODES).for_each(|node| world.start(node));
    all_to_all(&mut world);
    world
}

fn all_to_all(world: &mut World) {
    for (from, to) in (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to))) {
        if from != to && world.at[usize::from(from)].is_some() {
            world.post(from.into(), to, Kind::Notification);
        }
    }
    world.run(world.now() + SECOND);
}

#[test]
fn nobody_is_called_while_all_hear_each_other() {
    let mut world = job();
    assert_eq!(world.taken, 12);
    world.run(60 * SECOND);
    all_to_all(&mut world);
    assert_eq!((world.taken, world.lost.len(), world.connections()), (24, 0, 0));
    world.check_quiet();
    (0..NODES).for_each(|node| world.leave(node.into()));
    world.run(world.now() + SECOND);
    assert_eq!((world.at, world.lost.len()), (vec![None; NODES.into()], 0));
}

/// There may be no room for what says that a process lives.
#[test]
fn what_finds_no_room_is_said_at_the_next_look() {
    let mut world = job();
    let taken = |world: &World| world.messages.borrow().taken;
    world.run(20 * SECOND);
    let before = taken(&world);
    while taken(&world) == before {
        world.run(world.now() + SECOND / 20);
    }
    let begun = world.now();
    world.run(begun + SECOND / 2);
    assert_eq!(taken(&world) - before, 12);
    world.messages.borrow_mut().full.extend(0..NODES.into());
    world.run(begun + 13 * SECOND / 10);
    assert_eq!(taken(&world) - before, 12);
    world.messages.borrow_mut().full.clear();
    world.run(begun + 18 * SECOND / 10);
    assert_eq!((taken(&world) - before, world.connections()), (24, 0));
}

/// Of deaths rank 0 tells; when it is gone, connections do.
#[test]
fn deaths_are_known_at_once_with_rank_0_and_without() {
    let mut world = job();
    for dies in [3, 0, 2] {
        world.expect_known(dies, world.now() + super::DEATH);
        world.end(dies, true);
        world.run(world.now() + super::DEATH);
        assert!(world.lost.contains_key(&(1, dies)), "1 does not know that {dies} is gone");
        world.run(world.now() + SECOND);
    }
    assert!(world.connections() > 0);
}

/// Who is lost for one takes that one for lost in turn.
#[test]
fn a_loss_that_one_finds_is_the_others_loss() {
    let mut world = job();
    world.processes[1].core().expel(2);
    world.step(1);
    world.run(world.now() + 3 * SECOND);
    assert!(world.lost.contains_key(&(1, 2)) && world.lost.contains_key(&(2, 1)));
    assert_eq!(world.lost.len(), 2);
}

/// Nothing that is sent comes, from the beginning: they meet, and that is what they say.
#[test]
fn a_wire_that_is_closed_is_found_by_who_meets() {
    let mut world = World::new(2, 1);
    world.messages.borrow_mut().swallows = true;
    (world.job, world.papers) = (true, Some(Duration::ZERO));
    (0..2).for_each(|node| world.start(node));
    world.post(0, 1, Kind::Notification);
    world.run(6 * SECOND);
    assert_eq!((world.unheard.clone(), world.lost.len()), (vec![(0, 1)], 0));
    world.run(13 * SECOND);
    assert!(world.lost.contains_key(&(0, 1)));
}

/// Where not all tell how they are reached, they meet as those of a network.
#[test]
fn who_is_not_known_is_met() {
    let mut world = World::new(2, 1);
    world.job = true;
    (0..2).for_each(|node| world.start(node));
    world.post(0, 1, Kind::Notification);
    world.run(SECOND);
    assert_eq!((world.taken, world.connections()), (1, 1));
}

/// As a wire that connects behind the first message, and then says that it cannot.
#[test]
fn who_may_miss_something_is_lost_once_they_have_met() {
    let mut world = World::new(2, 1);
    world.messages.borrow_mut().later = 0;
    (world.job, world.papers) = (true, Some(Duration::ZERO));
    (0..2).for_each(|node| world.start(node));
    world.run(SECOND);
    world.messages.borrow_mut().swallows = true;
    world.post(0, 1, Kind::Notification);
    world.messages.borrow_mut().unreached = true;
    world.post(0, 1, Kind::Notification);
    assert!(world.lost.is_empty());
    world.messages.borrow_mut().unreached = false;
    world.run(2 * SECOND);
    assert!(world.lost.contains_key(&(0, 1)) && world.lost.contains_key(&(1, 0)));
    assert_eq!((world.taken, world.connections()), (0, 1));
}

/// The wire says that it reaches nobody, as behind a firewall that refuses: whom that is for ever is lost, once they have met.
#[test]
fn a_wire_that_reaches_nobody_at_first_is_no_loss() {
    for opens in [true, false] {
        let mut world = World::new(2, 1);
        world.messages.borrow_mut().later = 0;
        (world.job, world.papers) = (true, Some(Duration::ZERO));
        (0..2).for_each(|node| world.start(node));
        world.run(SECOND);
        world.cuts.cut(0, 1, 4 * SECOND);
        world.messages.borrow_mut().unreached = true;
        world.post(0, 1, Kind::Notification);
        world.run(4 * SECOND);
        assert!(world.lost.is_empty());
        world.messages.borrow_mut().unreached = !opens;
        world.run(12 * SECOND);
        assert_eq!((world.taken, world.lost.is_empty()), (u64::from(opens), opens));
    }
}
