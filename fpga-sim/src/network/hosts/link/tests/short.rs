//! Messages that have a short put and nothing else: what becomes of them is what becomes of any packet.

use super::*;
use crate::packet::Kind;
use crate::short_put::ShortPut;
use extoll_abi::{Address, Mode, Modifier};

/// A card that has short puts before they are packets, or has them as packets; and how many it had so.
struct Card {
    short: bool,
    refuses: bool,
    puts: Vec<(ShortPut, Vec<u8>)>,
    early: u32,
}

impl First for Card {
    fn is_free(&self) -> bool {
        true
    }

    fn take(&mut self, packet: &mut Packet) {
        let bytes = packet.payload.bytes().map_or(Vec::new(), <[u8]>::to_vec);
        self.puts.extend(ShortPut::of(packet, &bytes).map(|put| (put, bytes)));
    }

    fn put(&mut self, put: &ShortPut, bytes: &[u8]) -> bool {
        let has = self.short && !self.refuses;
        if has {
            self.early += 1;
            self.puts.push((*put, bytes.to_vec()));
        }
        has
    }

    fn settle(&mut self, packet: &mut Packet, bytes: &[u8]) -> bool {
        let bytes = packet.payload.bytes().filter(|own| !own.is_empty()).unwrap_or(bytes).to_vec();
        let put = ShortPut::of(packet, &bytes).filter(|_| !self.refuses);
        self.puts.extend(put.map(|put| (put, bytes)));
        put.is_some()
    }
}

fn put_of(len: u32) -> Packet {
    let payload = Payload::copy_of(&(0..len).map(|i| i as u8 ^ 0x5a).collect::<Vec<_>>());
    Packet { payload, modifier: Modifier::NONE, mode: Mode::TE, ..put(len, len, 0) }
}

/// All that a message can change, and how many puts the card had before they were packets.
fn become_of(short: bool, case: &Case) -> (String, u32) {
    let (mut taking, mut card) = (Taking::new(), Card { short, refuses: false, puts: Vec::new(), early: 0 });
    let link = &mut taking.links[3];
    (link.era, link.sent, link.taken_there, link.waits) = (7, [9, 5], [2, 1], true);
    let mut given = Given {
        head: Head { ticket: TICKET, taken: [2, 1] },
        packet: put_of(8),
        behind: Vec::new(),
        places: Places::alone(5),
    };
    (case.2)(&mut taking, &mut card, &mut given);
    let mut bytes = message(given.head.ticket, given.head.taken, &given.packet);
    bytes.extend_from_slice(&given.behind);
    let mut intake = Intake { first: Some(&mut card), places: given.places, ..taking.intake() };
    let result = intake.message(&bytes).map_err(|unfit| matches!(unfit, Unfit::Malformed(3)));
    let at_once = intake.at_once;
    let Taking { links, arrived, owed, retry, incoming, .. } = taking;
    let Link { sent, taken_there, received, taken, told, waits, ways, .. } = &links[3];
    let waiting = arrived.map(|waiting| waiting.len());
    let counts = (sent, taken_there, received, taken, told, waits, ways.came, ways.fresh);
    let seen = format!(
        "{result:?} {at_once} {counts:?} {waiting:?} {owed:?} {retry} {:?} {:?}",
        incoming.released, card.puts
    );
    (seen, card.early)
}

struct Given {
    head: Head,
    packet: Packet,
    behind: Vec<u8>,
    places: Places,
}

/// In a job with two processes on each node, so that nodes 1 and 2 have these: between these VPIDs of theirs.
fn of_job(given: &mut Given, [from, to]: [u8; 2]) {
    given.places = Places::of_job(ggas_members::Shape::new(6, 2).unwrap());
    (given.packet.source, given.packet.destination) = (Address::new(1, from), Address::new(2, to));
}

/// What is unlike a put of eight bytes, and how many of it the card has before they are packets.
type Case = (&'static str, u32, fn(&mut Taking, &mut Card, &mut Given));

#[test]
fn short_puts_are_as_other_packets() {
    let cases: [Case; 28] = [
        ("nothing", 1, |_, _, _| {}),
        ("one byte", 1, |_, _, given| given.packet = put_of(1)),
        ("nine bytes", 1, |_, _, given| given.packet = put_of(9)),
        ("a whole fragment", 1, |_, _, given| given.packet = put_of(496)),
        ("two fragments", 0, |_, _, given| given.packet = put_of(497)),
        ("news of credits", 1, |_, _, given| given.head.taken = [9, 3]),
        ("news that nothing waits for", 1, |taking, _, given| {
            taking.links[3].waits = false;
            given.head.taken = [9, 3];
        }),
        ("credits for what was never sent", 0, |_, _, given| given.head.taken = [10, 1]),
        ("fewer credits than before", 0, |_, _, given| given.head.taken = [1, 1]),
        ("the last credit", 1, |taking, _, _| taking.links[3].received[0] = CREDITS - 1),
        ("no credit", 0, |taking, _, _| taking.links[3].received[0] = CREDITS),
        ("a credit to tell of", 1, |taking, _, _| {
            (taking.links[3].received[0], taking.links[3].taken[0]) = (TELL - 1, TELL - 1);
        }),
        ("another ticket", 0, |_, _, given| given.head.ticket ^= 1 << 40),
        ("no ticket", 0, |taking, _, given| (taking.links[3].ticket, given.head.ticket) = (0, 3)),
        ("no ticket at all", 0, |_, _, given| given.head.ticket = 0),
        ("a peer that leaves", 0, |taking, _, _| taking.links[3].last = Some([1, 0])),
        ("a request that waits", 0, |taking, _, _| taking.arrived[0].push_back((TICKET, some_put()))),
        ("a response that waits", 0, |taking, _, _| taking.arrived[1].push_back((TICKET, some_put()))),
        ("a card that is busy", 0, |_, card, _| card.refuses = true),
        ("another source", 0, |_, _, given| given.packet.source = Address::new(2, 7)),
        ("another destination", 0, |_, _, given| given.packet.destination = Address::new(3, 7)),
        ("a node of two processes", 1, |_, _, given| of_job(given, [7, 8])),
        ("a source that is another process", 0, |_, _, given| of_job(given, [6, 8])),
        ("a destination that is another process", 0, |_, _, given| of_job(given, [7, 9])),
        ("a modifier", 0, |_, _, given| given.packet.modifier = Modifier::NTR),
        ("a response", 0, |_, _, given| given.packet.kind = Kind::GetResponse),
        ("names of what was read", 0, |_, _, given| given.behind = vec![7; 16]),
        ("another packet", 0, |_, _, given| {
            given.behind = message(TICKET, [2, 1], &put_of(8))[message::HEAD..].to_vec();
        }),
    ];
    for case in cases {
        let ((expected, none), (found, early)) = (become_of(false, &case), become_of(true, &case));
        assert_eq!(found, expected, "a message with {}", case.0);
        assert_eq!((none, early), (0, case.1), "a message with {}", case.0);
    }
}
