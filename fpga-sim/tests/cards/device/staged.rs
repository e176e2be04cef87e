//! Memory of devices that a network of hosts does not reach: its bytes go through the card's.

use super::*;

/// One card's device memory, as large as a put.
const PAGES: usize = 256;
const LEN: usize = 4096 * PAGES;

fn fill(pages: &mut DevicePages) {
    pages.bytes(0, LEN).iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 7 + at / 251) as u8);
}

/// Has both cards run until something holds.
fn run(cards: &[Node; 2], what: &str, done: impl FnMut() -> bool) {
    members::drive(cards, what, done);
}

/// Lets a card do whatever there is to do.
fn rest(cards: &[Node; 2]) {
    for card in cards.iter().cycle().take(4_000) {
        card.nic.progress();
    }
}

#[test]
fn bytes_of_a_device_are_fetched_in_blocks_while_others_go() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ((_near, a), (_far, b)) = (join(&hosts, 0), join(&hosts, 1));
    let device = Arc::new(Device::default());
    let mut source = DevicePages::new(&a.memory, &device, PAGES);
    fill(&mut source);
    let target = Pages::new(&b.memory, LEN, 4096);
    let cards = [a, b];
    let (p, mut q) = (cards[0].open(1, 1), cards[1].open(2, 1));
    let (from, to) = (source.register(&cards[0], 1, FIRST), cards[1].register(2, &target, Access::ALL));
    device.hold(true);
    p.put(q.address(), Spec::COMPLETER, from, to, LEN as u32);
    let (mut there, mut blocks) = (0, Vec::new());
    while there < LEN {
        run(&cards, "a block", || device.pending() > 0);
        rest(&cards);
        assert_eq!(device.pending(), 1, "no more than one is fetched ahead");
        // While the device brings it those before go, all but what does not fill a packet.
        let gone = there.saturating_sub(8 << 10);
        let sent = source.bytes(0, gone).to_vec();
        run(&cards, "what was fetched", || target.bytes(0, gone) == sent);
        let len = device.oldest();
        (there, blocks) = (there + len, [blocks, vec![len]].concat());
        device.end(TicketState::Done);
    }
    let k = |k: usize| k << 10;
    assert_eq!(blocks, [k(16), k(32), k(64), k(128), k(256), k(256), k(256), k(16)]);
    let mut came = None;
    run(&cards, "the put", || {
        came = came.or_else(|| q.try_next());
        came.is_some()
    });
    assert_eq!(came.unwrap().error(), ErrorUnits::NONE);
    assert!(target.bytes(0, LEN) == source.bytes(0, LEN));
}

/// Puts all of a device's memory to another card's host memory, by port 1 of the first card; the device ends copies when it is told to.
fn put_while_device_is_held(notes: Spec, test: impl FnOnce(&[Node; 2], &Device, Port<'_>)) {
    let Some(hosts) = Hosts::new(2) else { return };
    let ((_near, a), (_far, b)) = (join(&hosts, 0), join(&hosts, 1));
    let device = Arc::new(Device::default());
    let source = DevicePages::new(&a.memory, &device, PAGES);
    let target = Pages::new(&b.memory, LEN, 4096);
    let cards = [a, b];
    let (p, q) = (cards[0].open(1, 1), cards[1].open(2, 1));
    let (from, to) = (source.register(&cards[0], 1, FIRST), cards[1].register(2, &target, Access::ALL));
    device.hold(true);
    p.put(q.address(), notes, from, to, LEN as u32);
    test(&cards, &device, p);
}

#[test]
fn a_block_that_does_not_come_fails_the_put() {
    put_while_device_is_held(Spec::REQUESTER, |cards, device, mut p| {
        for state in [TicketState::Done, TicketState::Done, TicketState::Failed] {
            run(cards, "a block", || device.pending() > 0);
            device.end(state);
        }
        let mut told = None;
        run(cards, "its end", || {
            told = told.or_else(|| p.try_next());
            told.is_some()
        });
        assert_eq!(told.unwrap().error(), ErrorUnits::REQUESTER);
        assert_eq!(device.pending(), 0, "nothing is fetched behind it");
    });
}

#[test]
fn what_is_fetched_for_a_vpid_that_closes_is_let_go() {
    put_while_device_is_held(Spec::NONE, |cards, device, p| {
        run(cards, "a block", || device.pending() > 0);
        device.end(TicketState::Done);
        p.close();
        assert_eq!(device.unasked(), 0);
    });
}

#[test]
fn a_device_copies_packets_of_a_put_at_once_and_the_last_one_behind_them() {
    const SENT: usize = 100_000;
    let Some(hosts) = Hosts::new(2) else { return };
    let ((_near, a), (_far, b)) = (join(&hosts, 0), join(&hosts, 1));
    let devices = [(); 2].map(|()| Arc::new(Device::default()));
    let mut source = DevicePages::new(&a.memory, &devices[0], PAGES);
    let mut target = DevicePages::new(&b.memory, &devices[1], PAGES);
    fill(&mut source);
    let cards = [a, b];
    let (p, mut q) = (cards[0].open(1, 1), cards[1].open(2, 1));
    let (from, to) = (source.register(&cards[0], 1, FIRST), target.register(&cards[1], 2, FIRST));
    devices[1].hold(true);
    p.put(q.address(), Spec::COMPLETER, from, to, SENT as u32);
    let packets = SENT.div_ceil(8 << 10);
    run(&cards, "all but the last one", || devices[1].pending() >= packets - 1);
    rest(&cards);
    assert_eq!(devices[1].pending(), packets - 1);
    for _ in 1..packets {
        assert!(q.try_next().is_none());
        devices[1].end(TicketState::Done);
        rest(&cards);
    }
    assert_eq!(devices[1].pending(), 1, "the last one");
    devices[1].end(TicketState::Done);
    let mut came = None;
    run(&cards, "the put", || {
        came = came.or_else(|| q.try_next());
        came.is_some()
    });
    assert_eq!(came.unwrap().error(), ErrorUnits::NONE);
    assert!(target.bytes(0, SENT) == source.bytes(0, SENT));
}
