//! Peers that break the rules.

use std::collections::VecDeque;

use super::SECOND;
use super::net::{Came, Goes};
use super::world::World;
use crate::packet::Kind;

/// Packets of two peers come together, and end too early.
#[test]
fn all_who_break_the_rules_at_once_are_lost_at_once() {
    const PEERS: [usize; 2] = [1, 2];
    let mut world = World::new(3, 1);
    world.messages.borrow_mut().later = 0;
    (0..3).for_each(|node| world.start(node));
    PEERS.into_iter().for_each(|peer| world.post(peer, 0, Kind::Notification));
    world.run(world.now() + SECOND);
    PEERS.into_iter().for_each(|peer| world.post_bytes(peer, 0));
    for peer in PEERS {
        let messages = &mut *world.messages.borrow_mut();
        let next = messages.on_wire.get_mut(&(peer, 0)).and_then(VecDeque::pop_front);
        let Some(Goes::Message(bytes)) = next else { panic!("no message: {next:?}") };
        let cut = bytes[..bytes.len() - 1].to_vec();
        messages.come.entry(0).or_default().push_back(Came::Message(cut));
    }
    let core = &mut world.processes[0].core();
    core.pump();
    assert_eq!(core.counts.malformed, 2);
    assert_eq!(PEERS.map(|peer| core.is_open(peer as u16)), [false, false]);
}
