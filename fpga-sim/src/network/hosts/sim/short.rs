//! Short puts in a network of two: those that nothing is in the way of go, and others are left alone.

use extoll_abi::{Address, Command, CommandCode, Spec};

use super::SECOND;
use super::world::World;
use crate::network::hosts::link::CREDITS;
use crate::packet::Kind;
use crate::short_put::ShortPut;

/// Two processes that know each other; the first one's packets go.
fn met() -> World {
    let mut world = World::new(2, 1);
    world.messages.borrow_mut().later = 0;
    (0..2).for_each(|node| world.start(node));
    world.post(0, 1, Kind::Notification);
    world.run(world.now() + SECOND);
    world.processes[0].core().hold_back(false);
    world
}

fn put(to: u16, process: u32) -> ShortPut {
    ShortPut {
        source: Address::new(0, 0),
        destination: Address::new(to, 0),
        command: CommandCode::from(Command::BtPut),
        spec: Spec::COMPLETER,
        tc: 0,
        protection: 0,
        fragment: 496,
        address: 8,
        len: 8,
        tag: 1,
        process,
    }
}

#[test]
fn no_more_short_puts_go_than_there_are_credits() {
    let world = met();
    let (mut core, era) = (world.processes[0].core(), world.processes[0].seen.era(1));
    let went = (0..2 * CREDITS).filter(|_| core.send_short(&put(1, era), &[7; 8])).count() as u32;
    // Of the packet before the peer may not have told.
    assert!((CREDITS - 1..=CREDITS).contains(&went), "{went}");
}

#[test]
fn short_puts_go_to_whom_they_are_meant_for() {
    let world = met();
    let (mut core, era) = (world.processes[0].core(), world.processes[0].seen.era(1));
    let goes = [(1, era), (1, crate::packet::ANYONE), (1, era + 1), (0, era), (2, era)];
    assert_eq!(
        goes.map(|(to, process)| core.send_short(&put(to, process), &[7; 8])),
        [true, true, false, false, false]
    );
}

#[test]
fn no_short_put_overtakes_what_is_held_back() {
    let world = met();
    let (mut core, era) = (world.processes[0].core(), world.processes[0].seen.era(1));
    core.hold_back(true);
    for _ in 0..20 {
        core.send(&mut put(1, era).packet(&[7; 8]));
    }
    assert!(core.holds() && !core.send_short(&put(1, era), &[7; 8]));
    assert!(core.let_all_go() && !core.send_short(&put(1, era), &[7; 8]), "the peer is busy");
    core.hold_back(false);
    assert!(core.send_short(&put(1, era), &[7; 8]));
}

#[test]
fn what_the_wire_does_not_take_has_not_gone() {
    let world = met();
    let (mut core, era) = (world.processes[0].core(), world.processes[0].seen.era(1));
    let mut goes = |later| {
        world.messages.borrow_mut().later = later;
        (0..2 * CREDITS).filter(|_| core.send_short(&put(1, era), &[7; 8])).count() as u32
    };
    assert_eq!(goes(1), 0);
    assert!(goes(0) >= CREDITS - 1);
}
