//! What meetings have to do with packets: the other half of [`Core`].

use std::io;
use std::net::IpAddr;
use std::time::Instant;

use super::super::events::{Connection, End, News, Out};
use super::super::link::Link;
use super::super::lives::Ways;
use super::super::message::Head;
use super::super::proof::Papers;
use super::super::wire::Wire;
use super::Core;
use crate::packet::ANYONE;
use ggas_wire::Taken;

impl<W: Wire> Core<W> {
    /// Lets those go whose last packet is here.
    #[inline]
    pub(super) fn see_off(&mut self) {
        if !self.leave.is_empty() {
            let Core { leave, links, meetings, long, .. } = self;
            leave.retain(|node| {
                let link = &links[usize::from(*node)];
                let all = link.last == Some(link.received) && !long.reads_of(link.ticket);
                if all {
                    meetings.has_all(*node);
                }
                !all && link.last.is_some()
            });
            self.hear_news();
        }
    }

    /// What meetings have to do with packets.
    pub(super) fn hear_news(&mut self) {
        while !self.meetings.news.is_empty() {
            for news in std::mem::take(&mut self.meetings.news) {
                self.hear(news);
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Opened { node, ticket, process } => {
                self.forget_peer(node);
                let era = process.map_or(ANYONE, |process| self.seen.number(node, process));
                let link = &mut self.links[usize::from(node)];
                *link = Link { waits: link.waits, ..Link::new(ticket, era) };
            }
            News::Met { node, process, papers } => self.hear_met(node, process, &papers),
            News::Tell { node, word } => self.tell(node, word),
            News::Farewell { node } => self.say_farewell(node),
            News::Leaves { node, sent, taken } => {
                let link = &mut self.links[usize::from(node)];
                (link.theirs, link.last) = (None, Some(sent));
                link.hear_taken(taken); // what breaks the rules changes nothing: it goes anyway
                self.leave.push(node);
                self.settled(node);
            }
            News::Broke { node } => {
                self.links[usize::from(node)].theirs = None;
                self.settled(node);
            }
            News::Gone { node, end } => self.hear_gone(node, end),
            News::Settled { node } => {
                let link = &mut self.links[usize::from(node)];
                // Who took the meeting for over earlier may have sent with the ticket: nobody could read its long payloads.
                if link.peer.is_none() && !self.meetings.is_wired(node) {
                    link.ticket = 0;
                }
                self.settled(node);
            }
            News::Unanswered { node } => self.settled(node),
        }
    }

    fn hear_met(&mut self, node: u16, process: u64, papers: &Papers) {
        let link = &mut self.links[usize::from(node)];
        let peer = match link.peer.take() {
            // Doubted: a wire may reach nobody again whom it did not reach once.
            Some(old) => self.wire.renew(old, &papers.address),
            None => self.wire.insert(&papers.address),
        };
        match peer {
            Ok(peer) => {
                let goes = !self.meetings.leaving && link.last.is_none();
                (link.peer, link.theirs) = (Some(peer), goes.then_some(papers.ticket));
                link.answer = Some(papers.ticket);
                if link.era == ANYONE {
                    link.era = self.seen.number(node, process);
                }
                self.seen.met(node, process, link.era);
                // Of packets that came before, it could not be told.
                self.owed.push_back(node);
                self.greet(node);
            }
            Err(error) => {
                tracing::warn!("node {node} cannot be reached: {error}");
                self.meetings.expel(node);
            }
        }
        self.settled(node);
    }

    /// Has the wire connect to a process that was just met, by an empty message: a card's commands go in order, so its packets have it
    /// connect to one peer after the other. Of the two that met one does so: connections that both begin are in each other's way. Whether the
    /// message is taken does not matter.
    fn greet(&mut self, node: u16) {
        let link = &mut self.links[usize::from(node)];
        // Of whom something has come, the wire is connected to.
        let first = self.me < node && !link.ways.came;
        if let (Some(ticket), Some(peer), true) = (link.theirs, link.peer, first) {
            let greeting = Head { ticket, taken: link.taken };
            if let Ok(Taken::Yes) = self.wire.send(peer, &greeting.bytes()) {
                link.told = link.taken;
            }
        }
    }

    fn hear_gone(&mut self, node: u16, end: End) {
        self.forget_peer(node);
        let link = &mut self.links[usize::from(node)];
        self.counts.thrown_away += link.untaken();
        *link = Link { waits: link.waits, over: self.meetings.known.is_some(), ..Link::new(0, ANYONE) };
        self.seen.gone(node, end);
        self.ended.push((node, end));
        self.settled(node);
    }

    fn settled(&mut self, node: u16) {
        self.retry |= std::mem::take(&mut self.links[usize::from(node)].waits);
    }

    pub(super) fn forget_peer(&mut self, node: u16) {
        self.close_landing(node);
        self.seen.set_lands(node, false);
        self.links[usize::from(node)].held.clear();
        self.holding.retain(|holding| *holding != node);
        if let Some(peer) = self.links[usize::from(node)].peer.take()
            && let Err(error) = self.wire.remove(peer)
        {
            tracing::debug!("{error}");
        }
        self.take_back_all(node);
    }

    /// Somebody called: the connection's name.
    pub fn accepted(&mut self, from: IpAddr) -> Connection {
        self.meetings.accepted(from, self.clock.now())
    }

    /// A caller has shown its pass.
    pub fn passed(&mut self, on: Connection) {
        self.meetings.passed(on);
    }

    /// The node that a connection calls, which is not met yet.
    pub fn calls(&mut self, on: Connection) -> Option<u16> {
        self.meetings.calling(on).map(|(node, _)| node)
    }

    /// A call of ours is through.
    pub fn connected(&mut self, on: Connection) {
        self.meetings.connected(on, self.clock.now());
        self.hear_news();
    }

    /// A call of ours was refused: nobody listens there.
    pub fn refused(&mut self, on: Connection) {
        self.meetings.refused(on, self.clock.now());
        self.hear_news();
    }

    /// A connection ended, or a call came to nothing.
    pub fn broke(&mut self, on: Connection) {
        self.meetings.broke(on, self.clock.now());
        self.hear_news();
    }

    /// The other side of a connection said something.
    ///
    /// # Errors
    /// What is wrong with it; the connection is over then.
    pub fn heard(&mut self, on: Connection, body: &[u8]) -> io::Result<()> {
        let heard = self.meetings.heard(on, body, self.clock.now());
        self.hear_news();
        self.see_off();
        heard
    }

    /// What is due; when to look again.
    pub fn look(&mut self) -> Option<Instant> {
        let now = self.clock.now();
        let links = &mut self.links;
        self.meetings.look(now, |node| {
            let link = &mut links[usize::from(node)];
            let went = std::mem::replace(&mut link.sent_then, link.sent) != link.sent;
            let seen = Ways { went, ..link.ways };
            link.ways.fresh = false;
            seen
        });
        self.hear_news();
        let next = self.meetings.next.into_iter().chain(self.see_parted_off(now)); // what was heard may be due sooner
        next.chain(self.give_up_unwritten(now)).chain(self.ask_unread(Some(now))).min()
    }

    /// What the lobby has to do.
    pub fn take_out(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.meetings.out)
    }

    pub fn has_out(&self) -> bool {
        !self.meetings.out.is_empty()
    }

    /// Says goodbye to all.
    pub fn leave(&mut self) {
        self.hold_back(false);
        let links = &self.links;
        let counts = |node: u16| {
            let link = &links[usize::from(node)];
            (link.sent, link.taken)
        };
        self.meetings.leave(counts);
        // More than that is not sent.
        self.links.iter_mut().for_each(|link| link.theirs = None);
        self.hear_news();
    }

    /// All have what this process sent, or are gone.
    pub fn has_left(&self) -> bool {
        self.meetings.has_left() && self.long.given.is_empty()
    }
}
