//! A node's side of what it has with another: credits, and what comes.

use std::collections::VecDeque;

use super::grants::Incoming;
use super::landing::{Landings, Runway};
use super::message::{self, Head, MOST};
use super::places::Places;
use crate::network::shared::codec::{Malformed, Rules};
use crate::packet::{ANYONE, Class, Packet};

/// Packets of a class that may be on the way to a peer, or wait there: enough for what is posted while the peer does not run, or its
/// host's other programs do, for a moment.
pub(super) const CREDITS: u32 = 256;
/// Long payloads of a class that a peer may have to read.
pub(super) const LONG: u32 = 64;

/// What packets to and from a node have to do with. `P`: the wire's name of the other process.
pub(super) struct Link<P> {
    pub peer: Option<P>,
    /// What packets to there have to have; `None`: none may go.
    pub theirs: Option<u64>,
    /// The same for what says that long payloads have been read: also to who leaves.
    pub answer: Option<u64>,
    /// What packets from there have to have; 0: none may come.
    pub ticket: u64,
    /// The process's number among those of the node, as [`Packet::process`]; [`ANYONE`]: it is not known yet.
    pub era: u32,
    /// Packets that went, and those of them that the peer has taken.
    pub sent: [u32; 2],
    pub taken_there: [u32; 2],
    /// Packets that came, those of them that the card has taken, and how many of these the peer knows of.
    pub received: [u32; 2],
    pub taken: [u32; 2],
    pub told: [u32; 2],
    /// The peer leaves: how many packets it has sent.
    pub last: Option<[u32; 2]>,
    /// A message that waits for more packets, behind room for its head: they count as sent. Empty: there is none.
    pub held: Vec<u8>,
    /// Long payloads of each class that the peer may read.
    pub granted: [u32; 2],
    /// Where the peer lets long payloads be written.
    pub runway: Option<Runway>,
    /// A packet found no credit, no slot, or nobody met yet.
    pub waits: bool,
}

impl<P> Link<P> {
    pub fn new(ticket: u64, era: u32) -> Link<P> {
        Link {
            peer: None,
            theirs: None,
            answer: None,
            ticket,
            era,
            sent: [0; 2],
            taken_there: [0; 2],
            received: [0; 2],
            taken: [0; 2],
            told: [0; 2],
            last: None,
            held: Vec::new(),
            granted: [0; 2],
            runway: None,
            waits: false,
        }
    }

    /// Packets that went, and that the peer has not said to have taken.
    pub fn untaken(&self) -> u64 {
        (0..2).map(|class| u64::from(self.sent[class].wrapping_sub(self.taken_there[class]))).sum()
    }

    /// The peer says how many packets it has taken; whether these are more. `None`: more than were sent.
    pub fn hear_taken(&mut self, taken: [u32; 2]) -> Option<bool> {
        let news = |class: usize| taken[class].wrapping_sub(self.taken_there[class]);
        let fits = |class: usize| news(class) <= self.sent[class].wrapping_sub(self.taken_there[class]);
        let more = news(0) > 0 || news(1) > 0;
        (fits(0) && fits(1)).then(|| {
            self.taken_there = taken;
            more
        })
    }
}

/// Why a message was not taken.
pub(super) enum Unfit {
    Foreign,
    Malformed(u16),
}

/// What comes of peers goes here.
pub(super) struct Intake<'a, P, G> {
    pub links: &'a mut [Link<P>],
    pub arrived: &'a mut [VecDeque<(u64, Packet)>; 2],
    pub retry: &'a mut bool,
    pub incoming: &'a mut Incoming,
    pub landings: &'a mut Landings<G>,
    pub me: u16,
    pub places: Places,
}

impl<P, G> Intake<'_, P, G> {
    /// A message of a peer: credits, packets, and which long payloads it has read; or where it lets this process write.
    pub fn message(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        let (head, mut rest) = Head::of(bytes).map_err(|_| Unfit::Foreign)?;
        let node = self.head(head)?;
        if let Some(runway) = message::decode_landing(rest) {
            let link = &mut self.links[usize::from(node)];
            let runway = runway.ok().filter(|_| link.runway.is_none());
            link.runway = Some(runway.ok_or(Unfit::Malformed(node))?);
            self.incoming.seen.set_lands(node, true);
            return Ok(());
        }
        loop {
            if let Some(ids) = message::decode_releases(rest) {
                self.incoming.released.extend(ids.map(|id| (node, id)));
                return Ok(());
            }
            let (mut packet, offer, behind) = self.next(rest, node)?;
            if let Some(offer) = offer {
                packet.payload = self.incoming.take(node, head.ticket, packet.len, offer);
            }
            // What did not fit a message would have been written, had there been a landing.
            if packet.total as usize > MOST {
                self.landings.want(node);
            }
            self.take(node, head.ticket, packet)?;
            rest = behind;
        }
    }

    /// The wire says that something was written to a slot of a landing.
    pub fn written(&mut self, immediate: u32) -> Result<(), Unfit> {
        let (landing, slot) = self.landings.find(immediate).ok_or(Unfit::Foreign)?;
        let (node, ground) = (landing.node, landing.ground.clone());
        if landing.busy & 1 << slot != 0 {
            return Err(Unfit::Foreign); // the card may still copy what is there; who told of it need not be the peer
        }
        let led = ground.led(slot);
        let (head, rest) = Head::of(&led).map_err(|_| Unfit::Foreign)?;
        if head.ticket as u16 != node || self.head(head)? != node {
            return Err(Unfit::Foreign);
        }
        let decode = |rules: &Rules| message::decode_led(rest, rules);
        let (mut packet, id) = self.decode(node, decode, |(packet, _)| packet)?;
        ground.clear(slot);
        self.incoming.released.extend(message::names_of_led(rest).map(|id| (node, id)));
        if let Some((landing, _)) = self.landings.find(immediate) {
            landing.busy |= 1 << slot;
        }
        packet.payload = self.incoming.land(node, head.ticket, id, (&ground, slot), packet.len);
        self.take(node, head.ticket, packet)
    }

    /// Whose ticket a message has; its credits count.
    fn head(&mut self, head: Head) -> Result<u16, Unfit> {
        // A ticket names the node that has it.
        let node = head.ticket as u16;
        let known = |link: &&mut Link<P>| head.ticket != 0 && link.ticket == head.ticket;
        let link = self.links.get_mut(usize::from(node)).filter(known).ok_or(Unfit::Foreign)?;
        // A goodbye, which comes on another way, has told more than messages that were sent before.
        if link.last.is_none() {
            let credits = link.hear_taken(head.taken).ok_or(Unfit::Malformed(node))?;
            *self.retry |= credits && std::mem::take(&mut link.waits);
        }
        Ok(node)
    }

    /// The next packet of a message of a process.
    #[inline]
    fn next<'a>(&self, rest: &'a [u8], node: u16) -> Result<message::Decoded<'a>, Unfit> {
        self.decode(node, |rules| message::decode(rest, rules), |(packet, ..)| packet)
    }

    /// What is a packet of a process for this one by the rules of a class.
    #[inline]
    fn decode<T>(
        &self,
        node: u16,
        decode: impl Fn(&Rules) -> Result<T, Malformed>,
        packet: impl Fn(&T) -> &Packet,
    ) -> Result<T, Unfit> {
        let (from, to) = (self.places.node(node), self.places.node(self.me));
        let rules = |class| Rules { class, from, to, most: MOST as u32, process: ANYONE };
        let decoded = decode(&rules(Class::Request)).or_else(|_| decode(&rules(Class::Response)));
        let decoded = decoded.map_err(|Malformed| Unfit::Malformed(node))?;
        let Packet { source, destination, .. } = *packet(&decoded);
        if [source, destination].map(|at| self.places.process(at)) != [node, self.me] {
            return Err(Unfit::Malformed(node)); // of, or for, another process of the node
        }
        Ok(decoded)
    }

    /// Keeps a packet for the card.
    #[inline]
    fn take(&mut self, node: u16, ticket: u64, mut packet: Packet) -> Result<(), Unfit> {
        let link = &mut self.links[usize::from(node)];
        // Answers are for this process, and for none that comes after it.
        packet.process = link.era;
        let class = packet.class() as usize;
        if link.received[class].wrapping_sub(link.taken[class]) >= CREDITS {
            return Err(Unfit::Malformed(node));
        }
        link.received[class] = link.received[class].wrapping_add(1);
        self.arrived[class].push_back((ticket, packet));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ggas_wire::Key;

    use super::*;
    use crate::network::hosts::landing::{Ground, SLOT};
    use crate::network::hosts::seen::Seen;
    use crate::network::shared::codec::tests::put;
    use crate::packet::Payload;

    const TICKET: u64 = 0xabcd_0001_0003;
    const ME: u16 = 4;

    /// Links of node 4 to nodes 0 to 4; node 3 has a ticket.
    struct Taking {
        links: Vec<Link<()>>,
        arrived: [VecDeque<(u64, Packet)>; 2],
        retry: bool,
        incoming: Incoming,
        landings: Landings<()>,
    }

    impl Taking {
        fn new() -> Taking {
            let mut links: Vec<Link<()>> = (0..=ME).map(|_| Link::new(0, ANYONE)).collect();
            links[3].ticket = TICKET;
            let incoming = Incoming::new(&Seen::new(links.len()));
            let (arrived, landings) = (Default::default(), Landings::default());
            Taking { links, arrived, retry: false, incoming, landings }
        }

        fn intake(&mut self) -> Intake<'_, (), ()> {
            let places = Places::alone(self.links.len());
            let Taking { links, arrived, retry, incoming, landings } = self;
            Intake { links, arrived, retry, incoming, landings, me: ME, places }
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
}
