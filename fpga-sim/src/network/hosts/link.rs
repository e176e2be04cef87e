//! A node's side of what it has with another: credits, and what comes.

use std::collections::VecDeque;

use super::grants::Incoming;
use super::message::{self, Head, MOST, Offer};
use super::places::Places;
use crate::network::shared::codec::{Malformed, Rules};
use crate::packet::{ANYONE, Class, Packet};

/// Packets of a class that may be on the way to a peer, or wait there: enough for what is posted while the peer does not run, or its
/// host's other programs do, for a moment.
pub(super) const CREDITS: u32 = 256;
/// Long payloads that a peer may have to read.
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
    /// Long payloads that the peer may read.
    pub granted: u32,
    /// A packet found no credit, or nobody met yet.
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
            granted: 0,
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

/// A message of a peer: credits, packets, and which long payloads it has read.
pub(super) fn take_in<P>(
    links: &mut [Link<P>],
    arrived: &mut [VecDeque<(u64, Packet)>; 2],
    retry: &mut bool,
    incoming: &mut Incoming,
    (me, places): (u16, Places),
    bytes: &[u8],
) -> Result<(), Unfit> {
    let (head, rest) = Head::of(bytes).map_err(|_| Unfit::Foreign)?;
    // A ticket names the node that has it.
    let node = head.ticket as u16;
    let link = links.get_mut(usize::from(node)).filter(|link| head.ticket != 0 && link.ticket == head.ticket);
    let link = link.ok_or(Unfit::Foreign)?;
    // A goodbye, which comes on another way, has told more than messages that were sent before.
    if link.last.is_none() {
        let credits = link.hear_taken(head.taken).ok_or(Unfit::Malformed(node))?;
        *retry |= credits && std::mem::take(&mut link.waits);
    }
    let mut rest = rest;
    loop {
        if let Some(ids) = message::decode_releases(rest) {
            incoming.released.extend(ids.map(|id| (node, id)));
            return Ok(());
        }
        let (packet, offer, behind) = next_packet(rest, (node, me), places)?;
        take_packet(link, arrived, incoming, (node, head.ticket), packet, offer)?;
        rest = behind;
    }
}

/// The next packet of a message from one process to another.
#[inline]
fn next_packet(rest: &[u8], (node, me): (u16, u16), places: Places) -> Result<message::Decoded<'_>, Unfit> {
    let (from, to) = (places.node(node), places.node(me));
    let rules = |class| Rules { class, from, to, most: MOST as u32, process: ANYONE };
    let decoded = message::decode(rest, &rules(Class::Request));
    let decoded = decoded.or_else(|_| message::decode(rest, &rules(Class::Response)));
    let decoded = decoded.map_err(|Malformed| Unfit::Malformed(node))?;
    if [decoded.0.source, decoded.0.destination].map(|at| places.process(at)) != [node, me] {
        return Err(Unfit::Malformed(node)); // of, or for, another process of the node
    }
    Ok(decoded)
}

/// Keeps a packet for the card.
#[inline]
fn take_packet<P>(
    link: &mut Link<P>,
    arrived: &mut [VecDeque<(u64, Packet)>; 2],
    incoming: &mut Incoming,
    (node, ticket): (u16, u64),
    mut packet: Packet,
    offer: Option<Offer>,
) -> Result<(), Unfit> {
    // Answers are for this process, and for none that comes after it.
    packet.process = link.era;
    let class = packet.class() as usize;
    if link.received[class].wrapping_sub(link.taken[class]) >= CREDITS {
        return Err(Unfit::Malformed(node));
    }
    if let Some(offer) = offer {
        packet.payload = incoming.take(node, ticket, packet.len, offer);
    }
    link.received[class] = link.received[class].wrapping_add(1);
    arrived[class].push_back((ticket, packet));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
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
    }

    impl Taking {
        fn new() -> Taking {
            let mut links: Vec<Link<()>> = (0..=ME).map(|_| Link::new(0, ANYONE)).collect();
            links[3].ticket = TICKET;
            let incoming = Incoming::new(&Seen::new(links.len()));
            Taking { links, arrived: Default::default(), retry: false, incoming }
        }

        fn take(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
            let places = Places::alone(self.links.len());
            let Taking { links, arrived, retry, incoming } = self;
            take_in(links, arrived, retry, incoming, (ME, places), bytes)
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
