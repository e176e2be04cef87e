//! Networks of two that meet, and whose wire is closed, as by a firewall that lets the meeting's port through alone.

use super::SECOND;
use super::world::World;
use crate::packet::Kind;

/// Nothing that is sent comes: because the wire does not connect, or for no reason that it gives.
fn blocked(swallows: bool) -> World {
    let mut world = World::new(2, 1);
    world.messages.borrow_mut().later = u8::from(!swallows);
    world.messages.borrow_mut().swallows = swallows;
    (0..2).for_each(|node| world.start(node));
    world.post(0, 1, Kind::Notification);
    world
}

#[test]
fn whom_no_packet_reaches_is_lost_and_that_is_said() {
    for swallows in [false, true] {
        let mut world = blocked(swallows);
        world.run(2 * SECOND);
        assert!(world.unheard.is_empty());
        world.run(4 * SECOND);
        assert_eq!(world.unheard, [(0, 1)]);
        world.run(9 * SECOND);
        assert!(world.lost.is_empty());
        world.run(12 * SECOND);
        assert!(world.lost.contains_key(&(0, 1)), "{swallows}");
        assert_eq!(world.unheard, [(0, 1)]);
    }
}

/// A firewall that opens in time harms nobody, nor does a peer to which nothing was to go.
#[test]
fn a_wire_that_opens_is_no_loss() {
    let mut world = blocked(false);
    world.run(9 * SECOND);
    world.messages.borrow_mut().later = 0;
    world.run(60 * SECOND);
    assert!(world.lost.is_empty());
    assert_eq!(world.taken, 1);
    world.check_quiet();
}
