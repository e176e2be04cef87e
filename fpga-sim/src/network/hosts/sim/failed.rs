//! Wires that say that something does not come to a process, or will not.

use std::time::Duration;

use super::SECOND;
use super::world::World;
use crate::packet::Kind;

/// Three processes of which the first two have heard each other.
fn world(job: bool) -> World {
    let mut world = World::new(3, 1);
    world.messages.borrow_mut().later = 0;
    (world.job, world.papers) = (job, Some(Duration::ZERO));
    (0..3).for_each(|node| world.start(node));
    world.run(SECOND);
    for (from, to) in [(0, 1), (1, 0)] {
        world.post(from, to, Kind::Notification);
    }
    world.run(2 * SECOND);
    assert_eq!(world.taken, 2);
    world
}

fn tell(world: &mut World, way: (usize, usize)) {
    world.messages.borrow_mut().fails.insert(way);
    world.step(way.0);
}

/// Else both would live, and one wait for ever.
#[test]
fn who_does_not_get_a_beat_is_lost() {
    let mut world = world(true);
    world.messages.borrow_mut().failed.insert((0, 1));
    world.run(world.now() + 2 * SECOND);
    assert!(world.lost.contains_key(&(0, 1)));
    world.run(world.now() + 4 * SECOND);
    assert!(world.lost.contains_key(&(1, 0)) && world.lost.len() == 2);
}

#[test]
fn whom_something_was_not_brought_is_lost_at_once() {
    for job in [true, false] {
        let mut world = world(job);
        tell(&mut world, (0, 1));
        assert!(world.lost.is_empty()); // what it sent before may still come
        world.run(world.now() + super::DEATH);
        assert!(world.lost.contains_key(&(0, 1)), "{job}");
        world.run(world.now() + 4 * SECOND);
        assert!(world.lost.contains_key(&(1, 0)) && world.lost.len() == 2, "{job}");
    }
}

/// As a wire that finds the end of a process before its goodbye is read.
#[test]
fn who_says_goodbye_is_not_lost_by_that() {
    for job in [true, false] {
        let mut world = world(job);
        world.leave(1);
        tell(&mut world, (0, 1));
        world.run(world.now() + SECOND);
        assert!(world.lost.is_empty() && world.left.contains(&(0, 1)), "{job}");
    }
}

/// Nothing went that it could miss.
#[test]
fn who_was_only_greeted_is_met() {
    let mut world = world(true);
    world.processes[0].core().expect(2);
    tell(&mut world, (0, 2));
    world.run(world.now() + SECOND);
    assert_eq!((world.connections(), world.lost.len()), (1, 0));
    world.post(0, 2, Kind::Notification);
    world.run(world.now() + SECOND);
    assert_eq!((world.taken, world.lost.len()), (3, 0));
}
