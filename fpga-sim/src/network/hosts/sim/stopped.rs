//! A process that is stopped: the wire has no room for what is to go there, and has for others.

use std::time::Duration;

use super::SECOND;
use super::world::World;
use crate::network::hosts::landing::LANDS;
use crate::packet::Kind;

/// Four processes that have heard each other; the second one is stopped.
fn stopped(job: bool) -> World {
    let mut world = World::new(4, 1);
    world.messages.borrow_mut().later = 0;
    (world.job, world.papers) = (job, Some(Duration::ZERO));
    (0..4).for_each(|node| world.start(node));
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).filter(|(from, to)| from != to)
    {
        world.post(from.into(), to, Kind::Notification);
    }
    world.run(SECOND);
    world.messages.borrow_mut().full.insert(1);
    world
}

fn goes_on(world: &mut World) {
    world.messages.borrow_mut().full.clear();
    (0..4).for_each(|who| world.step(who));
    world.run(world.now() + SECOND);
    world.check_quiet();
}

#[test]
fn who_leaves_says_so_to_all_others() {
    let mut world = stopped(true);
    world.leave(3);
    world.run(world.now() + SECOND / 5);
    assert!(world.left.contains(&(0, 3)) && world.left.contains(&(2, 3)));
    // And says farewell to all who leave.
    world.leave(2);
    world.run(world.now() + SECOND / 5);
    assert!(world.left.contains(&(0, 2)) && world.lost.is_empty());
    goes_on(&mut world);
    assert!(world.lost.is_empty() && world.left.contains(&(2, 2)) && world.left.contains(&(3, 3)));
}

#[test]
fn others_hear_what_was_taken() {
    let mut world = stopped(false);
    (0..100).for_each(|_| world.post(1, 0, Kind::Notification));
    world.run(world.now() + SECOND);
    (0..1_000).for_each(|_| world.post(2, 0, Kind::Notification));
    world.run(world.now() + SECOND);
    assert_eq!([1, 2].map(|from| world.count_came(from, 0)), [101, 1_001]);
    goes_on(&mut world);
}

#[test]
fn others_hear_what_was_read() {
    let mut world = stopped(false);
    let [of_stopped, of_other] = [1, 2].map(|from| {
        let tag = world.post_payload((from, 0), Kind::Put, LANDS + 1, 1);
        world.run(world.now() + SECOND);
        tag
    });
    assert_eq!([of_stopped, of_other].map(|tag| world.is_given_back(tag)), [false, true]);
    goes_on(&mut world);
    assert!(world.is_given_back(of_stopped));
}
