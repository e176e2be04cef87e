//! What a peer may say, and what becomes of what it may not.

mod known;
mod short;

use std::sync::Arc;

use ggas_wire::Key;

use super::*;
use crate::memory::TAIL;
use crate::network::hosts::landing::{Ground, SLOT, SLOTS};
use crate::network::hosts::message::{MOST, Offer};
use crate::network::hosts::seen::Seen;
use crate::network::shared::codec::tests::put;
use crate::packet::{INLINE_MAX, Payload};

const TICKET: u64 = 0xabcd_0001_0003;
const ME: u16 = 4;

/// Links of node 4 to nodes 0 to 4; node 3 has a ticket.
struct Taking {
    links: Vec<Link<()>>,
    arrived: [VecDeque<(u64, Packet)>; 2],
    first: Option<Packet>,
    owed: VecDeque<u16>,
    retry: bool,
    incoming: Incoming,
    landings: Landings<()>,
    releases: VecDeque<(u16, u64, u64)>,
    known: Option<Known>,
    leaving: bool,
    told: Vec<(u16, Told)>,
}

impl Taking {
    fn new() -> Taking {
        let mut links: Vec<Link<()>> = (0..=ME).map(|_| Link::new(0, ANYONE)).collect();
        links[3].ticket = TICKET;
        let incoming = Incoming::new(&Seen::new(links.len()), false);
        let (arrived, landings, owed, releases) = Default::default();
        let (first, known, told) = (None, None, Vec::new());
        Taking {
            links,
            arrived,
            first,
            owed,
            retry: false,
            incoming,
            landings,
            releases,
            known,
            leaving: false,
            told,
        }
    }

    fn intake(&mut self) -> Intake<'_, (), ()> {
        let places = Places::alone(self.links.len());
        let Taking {
            links, arrived, owed, retry, incoming, landings, releases, known, leaving, told, ..
        } = self;
        Intake {
            links,
            arrived,
            first: None,
            at_once: false,
            owed,
            known: known.as_ref(),
            may_open: !*leaving,
            told,
            retry,
            incoming,
            landings,
            releases,
            me: ME,
            places,
            most: MOST as u32,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        self.intake().message(bytes)
    }

    /// A peer writes this in front of a payload, and tells of the slot.
    fn write(&mut self, ground: &Ground, slot: u32, led: &[u8]) -> Result<(), Unfit> {
        let to = (ground.address() + u64::from(slot) * SLOT as u64) as *mut u8;
        // SAFETY: inside of it.
        unsafe { std::ptr::copy_nonoverlapping(led.as_ptr(), to, led.len()) };
        let first = self.landings.of(3).unwrap().first();
        self.intake().written(first + slot)
    }
}

#[test]
fn a_card_has_the_next_request_at_once() {
    let mut taking = Taking::new();
    let response = Packet { kind: crate::packet::Kind::GetResponse, ..some_put() };
    let packets = [response, some_put(), Packet { tag: 78, ..some_put() }];
    for packet in packets.map(|packet| message(TICKET, [0, 0], &packet)) {
        let mut first = taking.first.take();
        assert!(Intake { first: Some(&mut first), ..taking.intake() }.message(&packet).is_ok());
        taking.first = first;
    }
    assert_eq!(taking.first.as_ref().map(|packet| packet.tag), Some(77));
    let waiting = |class: Class| taking.arrived[class as usize].iter().map(|(_, packet)| packet.tag);
    assert!(waiting(Class::Request).eq([78]) && waiting(Class::Response).eq([77]));
    let link = &taking.links[3];
    assert_eq!((link.received, link.taken), ([2, 1], [1, 0]));
    // None overtakes those that wait, and who has taken many is told.
    let mut first = None;
    for _ in 0..TELL {
        let request = message(TICKET, [0, 0], &some_put());
        assert!(Intake { first: Some(&mut first), ..taking.intake() }.message(&request).is_ok());
        assert!(first.take().is_none_or(|_| taking.arrived[0].is_empty()));
        taking.arrived[0].clear();
    }
    assert_eq!((taking.links[3].taken[0], &taking.owed), (TELL, &VecDeque::from([3])));
}

fn message(ticket: u64, taken: [u32; 2], packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(message::encode(packet, Head { ticket, taken }, &mut bytes));
    bytes
}

fn some_put() -> Packet {
    Packet { payload: Payload::copy_of(&[1; 100]), ..put(100, 100, 0) }
}

#[test]
fn only_who_has_a_ticket_is_heard() {
    let mut taking = Taking::new();
    assert!(taking.take(&message(TICKET, [0, 0], &some_put())).is_ok());
    assert_eq!(taking.arrived[0].len(), 1);
    for ticket in [0, TICKET ^ 1 << 40, TICKET & !0xffff | 2, TICKET | 0xffff] {
        let foreign = taking.take(&message(ticket, [0, 0], &some_put()));
        assert!(matches!(foreign, Err(Unfit::Foreign)), "{ticket:x}");
    }
    assert!(matches!(taking.take(&[]), Err(Unfit::Foreign)));
    assert_eq!(taking.arrived[0].len(), 1);
}

#[test]
fn what_breaks_the_rules_names_its_sender() {
    let mut taking = Taking::new();
    let cut = message(TICKET, [0, 0], &some_put());
    assert!(matches!(taking.take(&cut[..cut.len() - 1]), Err(Unfit::Malformed(3))));
    // Of another node than its ticket says.
    let other = Packet { source: extoll_abi::Address::new(2, 7), ..some_put() };
    assert!(matches!(taking.take(&message(TICKET, [0, 0], &other)), Err(Unfit::Malformed(3))));
    // Credits for what was never sent.
    assert!(matches!(taking.take(&message(TICKET, [1, 0], &some_put())), Err(Unfit::Malformed(3))));
}

#[test]
fn nobody_sends_more_than_there_are_credits() {
    let mut taking = Taking::new();
    for _ in 0..CREDITS {
        assert!(taking.take(&message(TICKET, [0, 0], &some_put())).is_ok());
    }
    assert!(matches!(taking.take(&message(TICKET, [0, 0], &some_put())), Err(Unfit::Malformed(3))));
    taking.links[3].taken[0] = 1;
    assert!(taking.take(&message(TICKET, [0, 0], &some_put())).is_ok());
}

/// A landing of node 3.
fn landing(taking: &mut Taking) -> Arc<Ground> {
    let ground = Ground::new().unwrap();
    let key = Key::try_from(&[0; 24][..]).unwrap();
    taking.landings.add(3, ((), key), ground.clone(), 0x5555_0000);
    ground
}

fn led(ticket: u64, packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    message::encode_led(packet, Head { ticket, taken: [0, 0] }, 7, &[1, 2], &mut bytes);
    bytes
}

#[test]
fn a_slot_is_a_packet_of_who_has_the_landing() {
    let mut taking = Taking::new();
    let ground = landing(&mut taking);
    let packet = put(20_000, 20_000, 0);
    assert!(taking.write(&ground, 2, &led(TICKET, &packet)).is_ok());
    assert_eq!(taking.incoming.released, [(3, 1), (3, 2)]);
    assert_eq!(taking.arrived[0][0].1.payload.len(), 20_000);
    // Told of again, while the card has it; then by who has nothing to write.
    let first = taking.landings.of(3).unwrap().first();
    assert!(matches!(taking.intake().written(first + 2), Err(Unfit::Foreign)));
    taking.landings.of(3).unwrap().busy = 0;
    assert!(matches!(taking.intake().written(first + 2), Err(Unfit::Foreign)));
    assert!(matches!(taking.intake().written(first + 16), Err(Unfit::Foreign)));
    // By who has another ticket, or another node's.
    taking.links[2].ticket = TICKET & !0xffff | 2;
    for ticket in [TICKET ^ 1 << 40, TICKET & !0xffff | 2] {
        assert!(matches!(taking.write(&ground, 4, &led(ticket, &packet)), Err(Unfit::Foreign)));
    }
    // What nobody was to be told of yet is still there when its peer tells of it.
    let early = led(TICKET ^ 1 << 40, &packet);
    assert!(matches!(taking.write(&ground, 6, &early), Err(Unfit::Foreign)));
    taking.links[3].ticket = TICKET ^ 1 << 40;
    assert!(taking.intake().written(first + 6).is_ok());
    taking.links[3].ticket = TICKET;
    let other = Packet { source: extoll_abi::Address::new(2, 7), ..packet };
    assert!(matches!(taking.write(&ground, 5, &led(TICKET, &other)), Err(Unfit::Malformed(3))));
    assert_eq!(taking.arrived[0].len(), 2);
}

/// A card that deals with requests while the wire has them.
#[derive(Default)]
struct Placing {
    placed: Vec<(u32, usize)>,
    kept: usize,
    refuses: bool,
}

impl First for Placing {
    fn is_free(&self) -> bool {
        true
    }

    fn take(&mut self, _packet: &mut Packet) {
        self.kept += 1;
    }

    fn settle(&mut self, packet: &mut Packet, bytes: &[u8]) -> bool {
        assert_eq!((packet.payload.len(), packet.process), (0, 7));
        if !self.refuses {
            self.placed.push((packet.tag, bytes.len()));
        }
        !self.refuses
    }
}

#[test]
fn a_card_writes_payloads_that_the_wire_has() {
    let (mut taking, mut card) = (Taking::new(), Placing::default());
    taking.links[3].era = 7;
    for len in [INLINE_MAX, INLINE_MAX + 1, MOST] {
        let payload = Payload::copy_of(&vec![1; len]);
        let message = message(TICKET, [0, 0], &Packet { payload, ..put(len as u32, len as u32, 0) });
        assert!(Intake { first: Some(&mut card), ..taking.intake() }.message(&message).is_ok());
    }
    assert_eq!(card.placed, [INLINE_MAX, INLINE_MAX + 1, MOST].map(|len| (77, len)));
    assert_eq!((taking.links[3].received, taking.links[3].taken), ([3, 0], [3, 0]));
    assert_eq!(card.kept, 0);
    // None overtakes what waits: the card takes responses first, so behind these it keeps the next request.
    let last = message(TICKET, [0, 0], &some_put());
    for (class, waiting, kept) in [(Class::Response, 0, 1), (Class::Request, 2, 1)] {
        taking.arrived[class as usize].push_back((TICKET, some_put()));
        assert!(Intake { first: Some(&mut card), ..taking.intake() }.message(&last).is_ok());
        assert_eq!((taking.arrived[0].len(), card.placed.len(), card.kept), (waiting, 3, kept));
    }
}

#[test]
fn what_a_card_takes_from_the_wire_needs_no_slot() {
    let (mut taking, mut card) = (Taking::new(), Placing::default());
    landing(&mut taking);
    taking.links[3].era = 7;
    let (packet, body) = (put(20_000, 20_000, 0), vec![1; 20_000]);
    let front = led(TICKET, &packet);
    let first = taking.landings.of(3).unwrap().first();
    let tell = |taking: &mut Taking, card: &mut Placing, slot: u32, front: &[u8], body: &[u8]| {
        let mut taken = false;
        let led = Led::new(first + slot, front, body, &mut taken);
        Intake { first: Some(card), ..taking.intake() }.led(&led)
    };
    assert!(matches!(tell(&mut taking, &mut card, 2, &front, &body), Ok(true)));
    assert_eq!(card.placed, [(77, 20_000)]);
    assert_eq!(
        (&taking.incoming.released[..], taking.releases.pop_front()),
        (&[(3, 1), (3, 2)][..], Some((3, TICKET, 7)))
    );
    assert!(taking.incoming.desk.is_busy() && taking.incoming.grants.is_empty());
    assert_eq!(
        (taking.links[3].lent, taking.links[3].taken, taking.landings.of(3).unwrap().busy),
        ([0; 2], [1, 0], 0)
    );
    // By who has another ticket; with what is for another slot.
    let foreign = led(TICKET ^ 1 << 40, &packet);
    assert!(matches!(tell(&mut taking, &mut card, 2, &foreign, &body), Err(Unfit::Foreign)));
    let answer = Packet { kind: crate::packet::Kind::GetResponse, ..put(20_000, 20_000, 0) };
    let answer = led(TICKET, &answer);
    assert!(matches!(tell(&mut taking, &mut card, 2, &answer, &body), Err(Unfit::Malformed(3))));
    // What goes to its slot: of other lengths, to slots in use and of responses, of nobody, behind others, and what the card does not take.
    taking.landings.of(3).unwrap().busy = 1 << 4;
    for (slot, body) in [(2, &body[1..]), (4, &body), (SLOTS - 1, &body), (SLOTS, &body)] {
        assert!(matches!(tell(&mut taking, &mut card, slot, &front, body), Ok(false)), "{slot}");
    }
    card.refuses = true;
    assert!(matches!(tell(&mut taking, &mut card, 2, &front, &body), Ok(false)));
    card.refuses = false;
    taking.arrived[0].push_back((TICKET, some_put()));
    assert!(matches!(tell(&mut taking, &mut card, 2, &front, &body), Ok(false)));
    assert_eq!((card.placed.len(), taking.links[3].received, taking.releases.len()), (1, [1, 0], 0));
    // Where too many wait to be told of.
    taking.arrived[0].clear();
    taking.releases.resize(RELEASES_MAX, (3, TICKET, 7));
    assert!(matches!(tell(&mut taking, &mut card, 2, &front, &body), Ok(false)));
    taking.releases.pop_front();
    assert!(matches!(tell(&mut taking, &mut card, 2, &front, &body), Ok(true)));
    // No more than there are credits.
    taking.releases.clear();
    taking.links[3].received[0] = CREDITS + taking.links[3].taken[0];
    assert!(matches!(tell(&mut taking, &mut card, 2, &front, &body), Err(Unfit::Malformed(3))));
}

/// Requests into slots for requests, and no more at a time than a peer may have to be read.
#[test]
fn what_a_landing_holds_is_bounded() {
    let mut taking = Taking::new();
    let ground = landing(&mut taking);
    let (request, last) = (led(TICKET, &put(20_000, 20_000, 0)), SLOTS - 1);
    assert!(matches!(taking.write(&ground, last, &request), Err(Unfit::Malformed(3))));
    for _ in 0..LONG {
        assert!(taking.write(&ground, 0, &request).is_ok());
        taking.landings.of(3).unwrap().busy = 0; // as if its peer could have the card believe so
    }
    assert!(matches!(taking.write(&ground, 0, &request), Err(Unfit::Malformed(3))));
}

#[test]
fn nobody_has_more_to_read_than_he_may() {
    let mut taking = Taking::new();
    let len = 1 << 20;
    let key = Key::try_from(&[&(u64::from(len) - TAIL as u64).to_le_bytes()[..], &[9; 16]].concat()[..]);
    let offer = Offer { id: 1, keys: vec![key.unwrap()], tail: [0; TAIL] };
    let mut bytes = Vec::new();
    message::encode_offer(&put(len, len, 0), Head { ticket: TICKET, taken: [0, 0] }, &offer, &mut bytes);
    for _ in 0..LONG {
        assert!(taking.take(&bytes).is_ok());
    }
    // The card takes the packets, and goes on reading: that gives no more.
    taking.links[3].taken[0] = LONG;
    taking.arrived[0].clear();
    assert!(matches!(taking.take(&bytes), Err(Unfit::Malformed(3))));
    assert_eq!(taking.incoming.grants.len(), LONG as usize);
}

/// A peer that has a ticket and says whatever it likes: nothing breaks, and nothing grows without a bound.
#[test]
fn whatever_a_peer_says_is_heard_or_refused() {
    let (mut taking, mut random) = (Taking::new(), fastrand::Rng::with_seed(seed()));
    let ground = landing(&mut taking);
    taking.links[3].era = 7;
    let key = |len: u64| Key::try_from(&[&len.to_le_bytes()[..], &[9; 16]].concat()[..]).unwrap();
    let head = Head { ticket: TICKET, taken: [0, 0] };
    let (mut offered, mut landing, len) = (Vec::new(), Vec::new(), 1 << 20);
    let offer = Offer { id: 1, keys: vec![key(1 << 19), key((1 << 19) - TAIL as u64)], tail: [0; TAIL] };
    message::encode_offer(&put(len, len, 0), head, &offer, &mut offered);
    message::encode_landing(head, 16, &key(Ground::LEN as u64), &mut landing);
    let led = led(TICKET, &put(20_000, 20_000, 0));
    let right = [message(TICKET, [0, 0], &some_put()), offered, landing, led, head.bytes().to_vec()];
    for _ in 0..20_000 {
        let mut said: Vec<u8> = (0..random.usize(1..4))
            .flat_map(|part| {
                random.choice(&right).unwrap()[if part == 0 { 0 } else { message::HEAD }..].to_vec()
            })
            .collect();
        for _ in 0..random.usize(0..4) {
            let at = random.usize(8..said.len()); // with its ticket
            said[at] = random.u8(..);
        }
        said.truncate(random.usize(8..=said.len()));
        let _ = taking.take(&said);
        let _ = taking.write(&ground, random.u32(..SLOTS), &said[..said.len().min(message::LED)]);
        let _ = taking.intake().written(random.u32(..));
        let slot = taking.landings.of(3).unwrap().first() + random.u32(..SLOTS);
        let (body, mut taken) = (vec![1; random.usize(19_999..20_002)], false);
        let led = Led::new(slot, &said[..said.len().min(message::LED)], &body, &mut taken);
        let mut card = Placing { refuses: random.bool(), ..Placing::default() };
        let _ = Intake { first: Some(&mut card), ..taking.intake() }.led(&led);
        taking.releases.clear();
        if random.u8(..) == 0 {
            taking.links[3].taken = taking.links[3].received; // the card took all
            taking.arrived.iter_mut().for_each(VecDeque::clear);
            taking.landings.of(3).unwrap().busy = 0;
        }
        taking.incoming.released.clear(); // each time that the wire was polled
        assert!(taking.incoming.grants.len() <= 2 * LONG as usize && taking.landings.wanted.len() <= 1);
        assert!(taking.arrived.iter().all(|queue| queue.len() <= CREDITS as usize));
    }
}

fn seed() -> u64 {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    seed
}

#[test]
fn a_landing_is_given_once_and_to_who_needs_it() {
    let mut taking = Taking::new();
    let mut bytes = Vec::new();
    let key = Key::try_from(&[&(Ground::LEN as u64).to_le_bytes()[..], &[9; 16]].concat()[..]).unwrap();
    message::encode_landing(Head { ticket: TICKET, taken: [0, 0] }, 16, &key, &mut bytes);
    assert!(!taking.incoming.seen.lands(3));
    assert!(taking.take(&bytes).is_ok() && taking.incoming.seen.lands(3));
    assert!(matches!(taking.take(&bytes), Err(Unfit::Malformed(3))));
    assert!(taking.take(&message(TICKET, [0, 0], &some_put())).is_ok());
    assert!(taking.landings.wanted.is_empty());
    let part = Packet { total: 20_000, ..some_put() };
    assert!(taking.take(&message(TICKET, [0, 0], &part)).is_ok());
    assert_eq!(taking.landings.wanted, [3]);
}

#[test]
fn credits_have_the_card_try_again() {
    let mut taking = Taking::new();
    (taking.links[3].sent, taking.links[3].waits) = ([CREDITS, 0], true);
    let credits = |taken| Head { ticket: TICKET, taken }.bytes();
    assert!(taking.take(&credits([0, 0])).is_ok() && !taking.retry);
    assert!(taking.take(&credits([32, 0])).is_ok() && taking.retry);
    assert_eq!(taking.links[3].taken_there, [32, 0]);
}
