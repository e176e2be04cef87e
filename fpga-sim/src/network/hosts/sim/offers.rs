//! Short packets that wait for each other, and long payloads that a busy peer is to read, in networks of two.

use std::time::Duration;

use super::SECOND;
use super::world::World;
use crate::network::hosts::landing::LANDS;
use crate::packet::Kind;

/// Two processes that have met.
fn met(seed: u64) -> World {
    let mut world = World::new(2, seed);
    world.messages.borrow_mut().later = 0;
    (0..2).for_each(|node| world.start(node));
    world.post(0, 1, Kind::Notification);
    world.run(world.now() + SECOND);
    world
}

/// The same; the second one has not taken many packets of the first one, and more for it wait for each other.
fn busy(seed: u64) -> World {
    let mut world = met(seed);
    world.processes[1].answers_only = true;
    (0..20).for_each(|_| world.post(0, 1, Kind::Notification));
    world.run(world.now() + SECOND);
    world.processes[0].core().hold_back(true);
    world
}

/// How many messages the wire has taken by `post` when a process moves it on for the first time behind that.
fn taken_before_moved(world: &mut World, who: usize, post: impl FnOnce(&mut World)) -> usize {
    let (taken, moved) = {
        let messages = world.messages.borrow();
        (messages.taken, messages.taken_when_moved.len())
    };
    post(world);
    let messages = world.messages.borrow();
    let first = messages.taken_when_moved[moved..].iter().find(|(by, _)| *by == who);
    first.expect("a process is moved on behind each packet").1 - taken
}

#[test]
fn what_is_to_be_read_is_told_of_before_the_wire_is_moved_on() {
    for seed in 0..20 {
        let mut world = busy(seed);
        let short = taken_before_moved(&mut world, 0, |world| world.post(0, 1, Kind::GetResponse));
        assert_eq!(short, 0, "it waits for others");
        world.processes[0].core().let_all_go();
        let long = taken_before_moved(&mut world, 0, |world| {
            world.post_payload((0, 1), Kind::Put, LANDS + 1, 1);
        });
        assert_eq!(long, 1, "seed {seed}");
        world.processes[1].answers_only = false;
        world.step(1);
        world.run(world.now() + SECOND);
        world.check_quiet();
    }
}

#[test]
fn who_has_something_to_read_is_told_of_more_in_one_message() {
    for seed in 0..20 {
        let mut world = met(seed);
        world.processes[0].core().hold_back(true);
        let before = world.messages.borrow().taken;
        let taken = [(); 4].map(|()| {
            world.send_payload((0, 1), Kind::Put, LANDS + 1, 1);
            world.messages.borrow().taken - before
        });
        assert_eq!(taken, [1; 4], "seed {seed}: the first one goes at once");
        assert_eq!(taken_before_moved(&mut world, 0, |world| world.step(0)), 1, "seed {seed}");
        world.run(world.now() + SECOND);
        world.check_quiet();
    }
}

#[test]
fn news_that_something_was_read_go_with_packets_that_wait_for_nobody() {
    let mut waited = 0;
    for seed in 0..40 {
        let mut world = met(seed);
        world.processes[1].core().hold_back(true);
        let tag = world.post_payload((0, 1), Kind::Put, LANDS + 1, 1);
        for _ in 0..1_000 {
            if world.processes[1].core().holds() {
                break;
            }
            world.run(world.now() + Duration::from_micros(50));
        }
        let waits = world.processes[1].core().holds();
        waited += u32::from(waits);
        let taken = taken_before_moved(&mut world, 1, |world| world.post_bytes(1, 0));
        assert_eq!(taken, 1, "seed {seed}");
        world.run(world.now() + SECOND);
        assert!(world.is_given_back(tag), "seed {seed}, {waits}");
        world.check_quiet();
    }
    assert!(waited > 4, "they waited in {waited} networks");
}
