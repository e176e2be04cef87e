//! What is under way when a VPID closes, or its card goes.

use std::collections::VecDeque;

use extoll_sim::fabric::{Carriage, Fabric, FabricError, First, Pending};
use extoll_sim::packet::{ANYONE, Class, Kind as PacketKind, Packet, Payload};
use extoll_sim::runs::Runs;

use super::*;

/// Whole fragments, so that a put is one packet.
const BYTES: u32 = 8 * 496;

/// A network in which the test says what comes. With a put for the card that deals at once, as with those that wires bring.
#[derive(Default)]
struct Told(Mutex<Coming>);

#[derive(Default)]
struct Coming {
    /// The last packet that was sent.
    sent: Option<Packet>,
    settles: Option<(Packet, Vec<u8>)>,
    come: [VecDeque<Packet>; 2],
}

impl Told {
    fn coming(&self) -> std::sync::MutexGuard<'_, Coming> {
        self.0.lock().unwrap()
    }
}

impl Fabric for Told {
    fn send(&self, _from: u16, packet: Packet) -> Result<(), Packet> {
        self.coming().sent = Some(packet);
        Ok(())
    }

    fn poll(&self, _node: u16, class: Class) -> Option<Packet> {
        self.coming().come[class as usize].pop_front()
    }

    fn carriage(&self, _to: Address, _runs: &Runs) -> Carriage {
        Carriage::Bytes { most: BYTES }
    }

    fn polled(&self) -> bool {
        true
    }

    fn pending(&self, _node: u16, first: &mut dyn First) -> Pending {
        let mut coming = self.coming();
        if let Some((mut put, bytes)) = coming.settles.take() {
            assert!(first.settle(&mut put, &bytes), "it waits for nothing");
            return Pending::Packets;
        }
        let waits = coming.come.iter().any(|packets| !packets.is_empty());
        if waits { Pending::Packets } else { Pending::Nothing }
    }

    fn attach(&self, _node: u16, _wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        Ok(())
    }

    fn detach(&self, _node: u16) {}
}

fn run(card: &Node) {
    while card.nic.progress() {}
}

/// A put to VPID 1, and its payload.
fn put_of(card: &Node, fabric: &Told, to: u64) -> (Packet, Vec<u8>) {
    let port = card.open(2, 1);
    let source = Pages::new(&card.memory, BYTES as usize, 4096);
    source.fill_pattern(3);
    let from = card.register(2, &source, Access::ALL);
    port.put(Address::new(0, 1), Spec::COMPLETER, from, to, BYTES);
    run(card);
    let put = fabric.coming().sent.take().unwrap();
    let payload = put.payload.bytes().unwrap().to_vec();
    (Packet { payload: Payload::None, process: ANYONE, ..put }, payload)
}

/// Of the same VPID, without a payload.
fn note(kind: PacketKind, put: &Packet) -> Packet {
    let (destination, spec, process) = (put.destination, Spec::COMPLETER, ANYONE);
    Packet { kind, destination, spec, process, len: 0, total: 0, ..Packet { payload: Payload::None, ..*put } }
}

/// The notification of a put waits for room in the queue, behind others.
#[test]
fn who_opens_a_vpid_hears_nothing_of_what_was_settled_for_the_one_before() {
    /// A queue of so many, one of them free, and behind it as many of both kinds as may wait, and more.
    const FIRST: usize = 255 + 40;
    const BEHIND: usize = 30;
    let fabric = Arc::new(Told::default());
    // Only the test runs it: else the put would go while the VPID is closed.
    let card = Setup { inline: false, ..Setup::over(fabric.clone()) }.node(0);
    let target = Pages::new(&card.memory, BYTES as usize, 4096);
    let before = card.open(1, 1);
    let to = card.register(1, &target, Access::ALL);
    let (put, bytes) = put_of(&card, &fabric, to);
    let notes = (0..FIRST).map(|_| note(PacketKind::Notification, &put));
    fabric.coming().come[Class::Request as usize].extend(notes);
    run(&card);
    let responses = (0..BEHIND).map(|_| note(PacketKind::LockResponse, &put));
    fabric.coming().come[Class::Response as usize].extend(responses);
    fabric.coming().settles = Some((put, bytes.clone()));
    run(&card);
    assert!(target.bytes(0, BYTES as usize) == bytes, "it was written");
    drop(before);
    let mut after = card.open(1, 1);
    assert!(after.drain().is_empty());
}

/// One that came waits for a device; another one was dealt with before.
#[test]
fn who_opens_a_vpid_hears_nothing_of_what_waits_for_a_device() {
    let fabric = Arc::new(Told::default());
    let card = Setup::over(fabric.clone()).node(0);
    let device = Arc::new(Device::default());
    let copied = DevicePages::new(&card.memory, &device, 1);
    let target = Pages::new(&card.memory, BYTES as usize, 4096);
    for closes in [false, true] {
        let mut port = card.open(1, 1);
        let (by_device, to) = (copied.register(&card, 1, FIRST), card.register(1, &target, Access::ALL));
        let (put, bytes) = put_of(&card, &fabric, to);
        let payload = Payload::copy_of(&bytes);
        let template = Packet { payload: Payload::None, ..put };
        let response = Packet { kind: PacketKind::GetResponse, address: by_device, payload, ..template };
        device.hold(true);
        let (put, bytes) = put_of(&card, &fabric, to);
        fabric.coming().come[Class::Response as usize].push_back(response);
        fabric.coming().settles = Some((put, bytes));
        run(&card);
        assert_eq!(device.pending(), 1);
        if closes {
            drop(port);
            port = card.open(1, 1);
        }
        device.end(TicketState::Done);
        device.hold(false);
        assert_eq!(port.drain().len(), if closes { 0 } else { 2 });
    }
}

/// The memory lives on, and would keep what devices were asked for.
#[test]
fn a_card_that_goes_lets_go_what_devices_do_for_it() {
    let setup = Setup::over(fabric::Loopback::new(64, false));
    for way in 0..2 {
        let device = Arc::new(Device::default());
        let pages = DevicePages::new(&setup.memory, &device, 4);
        let host = Pages::new(&setup.memory, BYTES as usize, 4096);
        let card = setup.node(0);
        let port = card.open(1, 1);
        let (of_device, of_host) = (pages.register(&card, 1, FIRST), card.register(1, &host, Access::ALL));
        device.hold(true);
        let (from, to) = if way == 0 { (of_device, of_host) } else { (of_host, of_device) };
        port.put(port.address(), Spec::NONE, from, to, BYTES);
        run(&card);
        assert!(device.pending() > 0);
        while device.pending() > 0 {
            device.end(TicketState::Done);
        }
        // A program that ends closes nothing.
        std::mem::forget(port);
        drop(card);
        assert_eq!(device.unasked(), 0, "way {way}");
    }
}
