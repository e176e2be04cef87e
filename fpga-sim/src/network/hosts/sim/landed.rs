//! Payloads that are written, in networks of two.

use std::time::Duration;

use super::SECOND;
use super::net::{Came, Goes};
use super::world::{EVER, SILENCE, World};
use crate::network::hosts::events::Bounds;
use crate::network::hosts::grants::{UNWRITTEN, WRITE};
use crate::network::hosts::landing::LANDS;
use crate::network::hosts::message::{self, LEAST};
use crate::packet::Kind;

/// Two processes; the second one has given the first one a landing.
fn landed(seed: u64) -> World {
    landed_in(World::new(2, seed))
}

fn landed_in(mut world: World) -> World {
    world.messages.borrow_mut().later = 0;
    (0..2).for_each(|node| world.start(node));
    world.post_payload((0, 1), Kind::Put, LEAST, 1);
    world.run(world.now() + SECOND);
    assert!(world.processes[0].seen.lands(1));
    world
}

#[test]
fn requests_that_no_card_takes_block_no_responses() {
    for len in [LEAST - 1, LANDS + 1] {
        let mut world = landed(len.into());
        world.processes[1].answers_only = true;
        let before = world.taken;
        for kind in [Kind::Put, Kind::GetResponse] {
            for _ in 0..100 {
                world.post_payload((0, 1), kind, len, 1);
            }
        }
        world.run(world.now() + SECOND);
        assert_eq!(world.taken, before + 100, "of {len} bytes");
        world.processes[1].answers_only = false;
        world.step(1);
        world.run(world.now() + SECOND);
        world.check_quiet();
    }
}

/// The name of a write that is on the way from the first process to the second.
fn on_the_way(world: &World) -> u64 {
    let messages = world.messages.borrow();
    let mut writes = messages.on_wire[&(0, 1)].iter().filter_map(|goes| match goes {
        Goes::Write(write) => Some(write.token & !WRITE),
        Goes::Message(_) => None,
    });
    writes.next_back().expect("a write")
}

#[test]
fn memory_is_not_given_back_for_a_peer_that_has_what_was_not_sent() {
    for seed in 0..20 {
        let mut world = landed(seed);
        let tag = world.post_payload((0, 1), Kind::Put, LEAST, 1);
        let mut bytes = world.processes[0].core().head_of(1).bytes().to_vec();
        message::add_releases(&[on_the_way(&world)], &mut bytes);
        world.messages.borrow_mut().come.entry(0).or_default().push_back(Came::Message(bytes));
        world.step(0);
        assert!(!world.is_given_back(tag), "seed {seed}");
        world.run(world.now() + SECOND);
        assert!(world.is_given_back(tag), "seed {seed}");
        world.check_quiet();
    }
}

#[test]
fn memory_for_a_peer_that_is_gone_is_given_back_when_the_write_is_over() {
    for (seed, ends) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut world = landed(seed);
        let tag = world.post_payload((0, 1), Kind::Put, LEAST, 1);
        let cut = if ends { 8 * SECOND } else { 60 * SECOND };
        let since = world.now();
        world.cuts.cut(0, 1, since + cut);
        world.run(since + 7 * SECOND);
        assert!(world.lost.contains_key(&(0, 1)) && !world.is_given_back(tag), "seed {seed}");
        world.run(since + 10 * SECOND);
        assert_eq!(world.is_given_back(tag), ends, "seed {seed}");
        world.run(since + 17 * SECOND);
        assert!(world.is_given_back(tag), "seed {seed}");
    }
}

/// Of a rank that leaves the wire hears a beat later than the process, or later still, where that one stands still.
#[test]
fn memory_for_a_rank_that_left_is_given_back_when_the_wire_had_its_time() {
    let cases = (0..20).flat_map(|seed| [LEAST, LANDS + 1].map(|len| (seed, len)));
    for ((seed, len), stands) in cases.flat_map(|case| [(case, 0), (case, 12)]) {
        let mut world = World::new(2, seed);
        (world.job, world.papers) = (true, Some(Duration::ZERO));
        let mut world = landed_in(world);
        world.messages.borrow_mut().reads_on = true;
        world.leave(1);
        world.processes[1].still_until = EVER;
        let tag = world.post_payload((0, 1), Kind::Put, len, 1);
        let since = world.now();
        world.run(since + SECOND / 10);
        assert!(world.left.contains(&(0, 1)), "seed {seed}");
        world.processes[0].still_until = since + stands * SECOND;
        let hears = since + Bounds::of(SILENCE).beat.max(stands * SECOND);
        world.run(hears + UNWRITTEN - SECOND / 5);
        assert!(!world.is_given_back(tag), "seed {seed}, {len} bytes, {stands} s");
        world.run(hears + UNWRITTEN + SECOND / 5);
        assert!(world.is_given_back(tag), "seed {seed}, {len} bytes, {stands} s");
    }
}

#[test]
fn whom_a_write_does_not_reach_is_lost() {
    for seed in 0..20 {
        let mut world = landed(seed);
        world.messages.borrow_mut().breaks = 1;
        let tag = world.post_payload((0, 1), Kind::Put, LEAST, 1);
        world.run(world.now() + SECOND);
        assert!(world.lost.contains_key(&(0, 1)) && world.is_given_back(tag), "seed {seed}");
        world.check_quiet();
    }
}

#[test]
fn a_landing_is_kept_when_its_peer_has_left() {
    let mut world = landed(1);
    world.leave(0);
    world.run(world.now() + SECOND);
    assert!(world.left.contains(&(1, 0)));
    assert_eq!(world.processes[1].core().landings().len(), 1);
    world.check_quiet();
}
