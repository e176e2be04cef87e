//! A node's side of what it has with another: credits, and what comes.

mod short;

use std::collections::VecDeque;

use ggas_wire::Led;

use super::grants::Incoming;
use super::known::Known;
use super::landing::{self, Landings, Runway};
use super::lives::Ways;
use super::message::{self, Decoded, Head, Offer};
use super::places::Places;
use super::proof::Word;
use crate::network::fabric::First;
use crate::network::shared::codec::{Malformed, Rules};
use crate::packet::{ANYONE, Class, Packet, Payload};

/// Packets of a class that may be on the way to a peer, or wait there: enough for what is posted while the peer does not run, or its
/// host's other programs do, for a moment.
pub(super) const CREDITS: u32 = 256;
/// So many taken packets are told of by themselves, where no packet goes the other way.
pub(super) const TELL: u32 = CREDITS / 4;
/// Long payloads of a class that a peer may have to read.
pub(super) const LONG: u32 = 64;
/// Where so many payloads have to be told of, more go to their slots, of which a peer has few: who does not listen could else have
/// this process keep any number of them.
const RELEASES_MAX: usize = 1024;

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
    /// The same the other way, with those that lie in a landing, until the card has done with them.
    pub lent: [u32; 2],
    /// Where the peer lets long payloads be written.
    pub runway: Option<Runway>,
    /// A packet found no credit, no slot, or nobody met yet.
    pub waits: bool,
    pub ways: Ways,
    /// What had gone at the last look.
    pub sent_then: [u32; 2],
    /// Its process is gone, and there will be no other one.
    pub over: bool,
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
            lent: [0; 2],
            runway: None,
            waits: false,
            ways: Ways::default(),
            sent_then: [0; 2],
            over: false,
        }
    }

    /// Packets that went, and that the peer has not said to have taken.
    pub fn untaken(&self) -> u64 {
        (0..2).map(|class| u64::from(self.sent[class].wrapping_sub(self.taken_there[class]))).sum()
    }

    /// Packets went there, or word of what came; else nothing of what went matters.
    pub fn may_miss(&self) -> bool {
        [self.sent, self.received] != [[0; 2]; 2]
    }

    /// The peer says how many packets it has taken: whether these are more. `None`: more than were sent.
    #[inline]
    pub fn is_news(&self, taken: [u32; 2]) -> Option<bool> {
        let news = |class: usize| taken[class].wrapping_sub(self.taken_there[class]);
        let fits = |class: usize| news(class) <= self.sent[class].wrapping_sub(self.taken_there[class]);
        (fits(0) & fits(1)).then_some(news(0) | news(1) != 0)
    }

    /// The same, and remembers it.
    pub fn hear_taken(&mut self, taken: [u32; 2]) -> Option<bool> {
        self.is_news(taken).inspect(|_| self.taken_there = taken)
    }

    /// The card takes a packet; whether the peer is to be told of that by itself.
    #[inline]
    pub fn take(&mut self, class: usize) -> bool {
        self.taken[class] = self.taken[class].wrapping_add(1);
        self.taken[class].wrapping_sub(self.told[class]) == TELL
    }
}

/// Why a message was not taken.
pub(super) enum Unfit {
    Foreign,
    Malformed(u16),
}

/// What comes with packets, and is for meetings.
#[derive(Debug)]
pub(super) enum Told {
    /// It is the first that came of a process.
    Opened,
    Word(Word),
}

/// What comes of peers goes here.
pub(super) struct Intake<'a, P, G> {
    pub links: &'a mut [Link<P>],
    pub arrived: &'a mut [VecDeque<(u64, Packet)>; 2],
    /// Where the card has requests at once, while none is there.
    pub first: Option<&'a mut dyn First>,
    /// It had some.
    pub at_once: bool,
    pub owed: &'a mut VecDeque<u16>,
    /// Who is known before it says anything, whether such may begin now, and what was said but packets.
    pub known: Option<&'a Known>,
    pub may_open: bool,
    pub told: &'a mut Vec<(u16, Told)>,
    pub retry: &'a mut bool,
    pub incoming: &'a mut Incoming,
    pub landings: &'a mut Landings<G>,
    /// As of [`Long`](super::grants::Long).
    pub releases: &'a mut VecDeque<(u16, u64, u64)>,
    pub me: u16,
    pub places: Places,
    /// Payload of a message, at most.
    pub most: u32,
}

impl<P, G> Intake<'_, P, G> {
    /// A message of a peer: credits, packets, and which long payloads it has read; or where it lets this process write.
    #[inline]
    pub fn message(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        match self.short(bytes) {
            true => Ok(()),
            false => self.any_message(bytes),
        }
    }

    #[inline(never)]
    fn any_message(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        let (head, mut rest) = Head::of(bytes).map_err(|_| Unfit::Foreign)?;
        let node = self.head(head)?;
        if message::is_landing(rest) {
            return self.hear_landing(node, rest);
        }
        let mut packet = Packet::empty();
        // Most often that is one packet, and nothing behind it.
        while !rest.is_empty() {
            if message::is_short(rest) {
                return self.hear_short(node, rest);
            }
            let Decoded { offer, payload, behind } = self.next(rest, node, &mut packet)?;
            if let Some(offer) = offer {
                packet.payload = self.hear_offer(node, head.ticket, &packet, *offer)?;
            }
            // What did not fit a message would have been written, had there been a landing.
            if packet.total > self.most {
                self.landings.want(node);
            }
            self.take(node, head.ticket, &mut packet, payload)?;
            rest = behind;
        }
        Ok(())
    }

    #[cold]
    fn hear_landing(&mut self, node: u16, rest: &[u8]) -> Result<(), Unfit> {
        let link = &mut self.links[usize::from(node)];
        let runway = message::decode_landing(rest).ok().filter(|_| link.runway.is_none());
        link.runway = Some(runway.ok_or(Unfit::Malformed(node))?);
        self.incoming.seen.set_lands(node, true);
        Ok(())
    }

    #[inline(never)]
    fn hear_short(&mut self, node: u16, rest: &[u8]) -> Result<(), Unfit> {
        if message::has_releases(rest) {
            self.incoming.released.extend(message::decode_releases(rest).map(|id| (node, id)));
            return Ok(());
        }
        let word = Word::with_packets(rest).filter(|_| self.known.is_some()).ok_or(Unfit::Malformed(node))?;
        self.told.push((node, Told::Word(word)));
        Ok(())
    }

    #[inline(never)]
    fn hear_offer(
        &mut self,
        node: u16,
        ticket: u64,
        packet: &Packet,
        offer: Offer,
    ) -> Result<Payload, Unfit> {
        self.lend(node, packet.class())?;
        Ok(self.incoming.take(node, ticket, packet, offer))
    }

    /// The wire says that something was written to a slot of a landing.
    #[inline(never)]
    pub fn written(&mut self, immediate: u32) -> Result<(), Unfit> {
        let (landing, slot) = self.landings.find(immediate).ok_or(Unfit::Foreign)?;
        let (node, ground) = (landing.node, landing.ground.clone());
        if landing.busy & 1 << slot != 0 {
            return Err(Unfit::Foreign); // the card may still copy what is there; who told of it need not be the peer
        }
        let led = ground.led(slot);
        let (ticket, mut packet, id) = self.led_by(node, slot, &led)?;
        self.lend(node, packet.class())?;
        ground.clear(slot);
        self.incoming.released.extend(message::names_of_led(&led).map(|id| (node, id)));
        if let Some((landing, _)) = self.landings.find(immediate) {
            landing.busy |= 1 << slot;
        }
        packet.payload = self.incoming.land(node, ticket, id, (&ground, slot), &packet);
        self.take(node, ticket, &mut packet, &[])
    }

    /// What a peer writes to a slot of a landing, while the wire has it: whether the card has it at once, so that it need not go there.
    #[inline(never)]
    pub fn led(&mut self, led: &Led<'_>) -> Result<bool, Unfit> {
        let Some((landing, slot)) = self.landings.find(led.immediate()) else { return Ok(false) };
        let (node, free) = (landing.node, landing.busy & 1 << slot == 0);
        let (front, bytes) = led.parts();
        let class = landing::class_of(slot);
        // Of what is wrong, `written` hears.
        let may = self.has_first() && self.may_settle() && self.releases.len() < RELEASES_MAX;
        if !free || class != Class::Request || !may {
            return Ok(false);
        }
        let (ticket, mut packet, id) = self.led_by(node, slot, front)?;
        self.admit(node, &mut packet)?;
        let first = self.first.as_mut().filter(|_| bytes.len() == packet.len as usize);
        if !first.is_some_and(|first| first.settle(&mut packet, bytes)) {
            return Ok(false);
        }
        self.at_once = true;
        self.incoming.released.extend(message::names_of_led(front).map(|id| (node, id)));
        self.releases.push_back((node, ticket, id));
        self.incoming.desk.owe();
        self.came(node, class as usize, true);
        Ok(true)
    }

    /// What is in front of a payload in a slot, or will be: the ticket, the packet, and the peer's name for the payload.
    fn led_by(&mut self, node: u16, slot: u32, led: &[u8]) -> Result<(u64, Packet, u64), Unfit> {
        let (head, rest) = Head::of(led).map_err(|_| Unfit::Foreign)?;
        if head.ticket as u16 != node || self.head(head)? != node {
            return Err(Unfit::Foreign);
        }
        let (packet, id) = message::decode_led(rest, &self.rules(node, rest)?)
            .map_err(|Malformed| Unfit::Malformed(node))?;
        self.check(node, &packet)?;
        match packet.class() == landing::class_of(slot) {
            true => Ok((head.ticket, packet, id)),
            false => Err(Unfit::Malformed(node)),
        }
    }

    /// A peer lets one more payload be read, or wrote it: no more than it may at a time, so what this process keeps of them has a bound.
    fn lend(&mut self, node: u16, class: Class) -> Result<(), Unfit> {
        let lent = &mut self.links[usize::from(node)].lent[class as usize];
        if *lent >= LONG {
            return Err(Unfit::Malformed(node));
        }
        *lent += 1;
        Ok(())
    }

    /// Whether this is the first that comes of a process of the job: only it, who knows this one, has the ticket.
    #[cold]
    fn opens(&mut self, node: u16, ticket: u64) -> bool {
        let Some((known, link)) = self.known.zip(self.links.get_mut(usize::from(node))) else { return false };
        let may = self.may_open && node != self.me && !link.over && link.ticket == 0;
        let process = known.process(node).filter(|_| may);
        let Some(process) = process.filter(|_| known.ticket(node) == ticket) else { return false };
        (link.ticket, link.era) = (ticket, self.incoming.seen.number(node, process));
        self.told.push((node, Told::Opened));
        true
    }

    /// Whose ticket a message has; its credits count.
    fn head(&mut self, head: Head) -> Result<u16, Unfit> {
        // A ticket names the node that has it.
        let node = head.ticket as u16;
        let known = |link: &Link<P>| head.ticket != 0 && link.ticket == head.ticket;
        if !self.links.get(usize::from(node)).is_some_and(known) && !self.opens(node, head.ticket) {
            return Err(Unfit::Foreign);
        }
        let link = &mut self.links[usize::from(node)];
        (link.ways.came, link.ways.fresh) = (true, true);
        // A goodbye, which comes on another way, has told more than messages that were sent before.
        if link.last.is_none() {
            let credits = link.hear_taken(head.taken).ok_or(Unfit::Malformed(node))?;
            *self.retry |= credits && std::mem::take(&mut link.waits);
        }
        Ok(node)
    }

    /// The next packet of a message of a process.
    #[inline]
    fn next<'a>(&self, rest: &'a [u8], node: u16, packet: &mut Packet) -> Result<Decoded<'a>, Unfit> {
        let decoded = message::decode(rest, &self.rules(node, rest)?, packet);
        let decoded = decoded.map_err(|Malformed| Unfit::Malformed(node))?;
        self.check(node, packet)?;
        Ok(decoded)
    }

    /// What the next packet of a process has to be.
    #[inline]
    fn rules(&self, node: u16, rest: &[u8]) -> Result<Rules, Unfit> {
        let class = message::class_of(rest).map_err(|Malformed| Unfit::Malformed(node))?;
        let (from, to) = (self.places.node(node), self.places.node(self.me));
        Ok(Rules { class, from, to, most: self.most, process: ANYONE })
    }

    /// A packet has to be of the process that its message is of, and for this one.
    #[inline]
    fn check(&self, node: u16, Packet { source, destination, .. }: &Packet) -> Result<(), Unfit> {
        match [*source, *destination].map(|at| self.places.process(at)) == [node, self.me] {
            true => Ok(()),
            false => Err(Unfit::Malformed(node)), // of, or for, another process of the node
        }
    }

    /// Whether the card can have a request at once.
    #[inline]
    fn has_first(&self) -> bool {
        let free = self.first.as_ref().is_some_and(|first| first.is_free());
        free && self.arrived[Class::Request as usize].is_empty()
    }

    /// Whether it may deal with that at once, too: it takes responses first.
    #[inline]
    fn may_settle(&self) -> bool {
        self.arrived[Class::Response as usize].is_empty()
    }

    /// Whether a packet may come, which is for this process, and for none that comes after it.
    #[inline]
    fn admit(&self, node: u16, packet: &mut Packet) -> Result<(), Unfit> {
        let (link, class) = (&self.links[usize::from(node)], packet.class() as usize);
        packet.process = link.era;
        match link.received[class].wrapping_sub(link.taken[class]) < CREDITS {
            true => Ok(()),
            false => Err(Unfit::Malformed(node)),
        }
    }

    /// A packet came; whether the card has it.
    #[inline]
    fn came(&mut self, node: u16, class: usize, taken: bool) {
        let link = &mut self.links[usize::from(node)];
        link.received[class] = link.received[class].wrapping_add(1);
        if taken && link.take(class) {
            self.owed.push_back(node);
        }
    }

    /// Has the card take a packet, or keeps what it has for it. Its payload is in it, or still the wire's.
    #[inline]
    fn take(&mut self, node: u16, ticket: u64, packet: &mut Packet, payload: &[u8]) -> Result<(), Unfit> {
        self.admit(node, packet)?;
        let class = packet.class() as usize;
        let at_once = class == Class::Request as usize && self.has_first();
        self.came(node, class, at_once);
        self.at_once |= at_once;
        let may_settle = self.may_settle();
        let mut first = self.first.as_mut().filter(|_| at_once);
        if may_settle && first.as_mut().is_some_and(|first| first.settle(packet, payload)) {
            return Ok(());
        }
        if !payload.is_empty() {
            packet.payload = Payload::copy_of(payload);
        }
        match first {
            Some(first) => first.take(packet),
            None => self.arrived[class].push_back((ticket, packet.take())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
