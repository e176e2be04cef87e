//! The receiving side of [`ProcessFabric`]: whose turn it is, and what comes with packets.

use std::sync::atomic::Ordering;

use ggas_members::{MemberId, Members, PeerState};

use super::codec::Rules;
use super::fabric::ProcessFabric;
use super::incoming::Untaken;
use super::link::Link;
use super::sleep::Receives;
use super::watch::WATCHED;
use crate::node::process_of;
use crate::packet::{Class, Packet};

/// Packets taken from one sender before the next one's turn.
const BURST: u32 = 16;

impl ProcessFabric {
    /// Whether anything from other processes waits to be looked at.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        let news = |slot| self.link(slot).is_some_and(|link| self.link_has_news(link));
        (0..WATCHED).any(|place| self.watch.at(place).is_some_and(news))
            || self.watch.others(self.inbox().doorbell())
    }

    /// Runs the card on this thread; where it is gone, throws away what came for it.
    pub(super) fn run_card(&self) -> bool {
        if let Some(card) = self.card.get() {
            return card.run();
        }
        if !self.detached.load(Ordering::Acquire) {
            return false; // it may still come
        }
        let mut moved = false;
        for class in [Class::Response, Class::Request] {
            while self.poll_class(class).is_some() {
                self.discard();
                moved = true;
            }
        }
        moved
    }

    fn take_own(&self, class: Class) -> Option<Packet> {
        let packet = self.take_recalled(class).or_else(|| self.own[class as usize].pop())?;
        if self.own_refused.load(Ordering::SeqCst) && self.own_refused.swap(false, Ordering::SeqCst) {
            self.wake_card();
        }
        Some(packet)
    }

    /// What holds of entries from one node, and which process of it, to another.
    pub(super) fn rules(&self, class: Class, (from, process): (u16, u32), to: u16) -> Rules {
        Rules { class, from, to, most: self.geometry.most() as u32, process }
    }

    /// Takes a packet from a peer, and what it returned.
    #[inline]
    fn take_from(&self, slot: u32, class: Class) -> Option<Packet> {
        let link = self.link(slot)?;
        let inbox = self.inbox();
        if link.incoming.take_look(inbox) {
            self.look_at(slot, link);
        }
        if link.wanted.load(Ordering::Relaxed) != 0 {
            self.renew_lane(slot, link);
        }
        let sender = MemberId { slot, generation: link.lane.load(Ordering::Relaxed) };
        let rules = self.rules(class, (link.node(), process_of(sender)), self.member().node());
        let peer = || link.arena().zip(link.out.remote());
        match link.incoming.take(inbox, &rules, peer) {
            // What was returned before it was sent is seen before it, too.
            Ok(Some(packet)) => {
                if link.incoming.take_look(inbox) {
                    self.look_at(slot, link);
                }
                Some(packet)
            }
            Ok(None) => None,
            Err(Untaken::Early) => {
                if link.is_parted() {
                    link.incoming.ignore(); // what has not come of one that is gone never will
                }
                None
            }
            Err(Untaken::Malformed) => {
                self.counters.malformed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("process {slot} sent an entry that breaks the rules: it is treated as lost");
                link.incoming.ignore();
                self.member().lose(MemberId { slot, generation: link.lane.load(Ordering::Acquire) });
                None
            }
        }
    }

    /// A peer asked for it: it returned payloads, or has room again, or has gone.
    #[cold]
    fn look_at(&self, slot: u32, link: &Link) {
        link.out.collect(self.inbox().lane(slot));
        if let Some(peer) = self.member().at(slot)
            && matches!(peer.state, PeerState::Left | PeerState::Lost)
            && !link.is_parted()
        {
            self.depart(peer.id);
        }
    }

    /// Has whoever takes packets let go of the memory of a process that is gone, once all was taken from its lane.
    pub(super) fn forget_soon(&self, id: MemberId, link: &Link) {
        let first =
            link.wanted.compare_exchange(0, id.generation, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if first {
            self.look_at_lane(id.slot);
        }
    }

    /// Has whoever takes packets look at a lane.
    pub(super) fn look_at_lane(&self, slot: u32) {
        let bell = self.inbox().doorbell();
        self.inbox().lane(slot).control().looks.0.fetch_add(1, Ordering::Release);
        bell.news[slot as usize / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
        self.rouse();
    }

    /// Begins to watch a peer with news.
    fn adopt(&self) -> Option<u32> {
        let news = |slot| self.link(slot).is_some_and(|link| self.link_has_news(link));
        self.watch.adopt(self.inbox().doorbell(), news)
    }

    #[inline]
    fn link_has_news(&self, link: &Link) -> bool {
        link.incoming.has_news(self.inbox()) || link.wanted.load(Ordering::Relaxed) != 0
    }

    pub(super) fn poll_class(&self, class: Class) -> Option<Packet> {
        let mut turn = self.turn.load(Ordering::Relaxed);
        for _ in 0..=WATCHED {
            let packet = match self.watch_place(turn) {
                Some(Some(rank)) => self.take_from(rank, class),
                Some(None) => None,
                None => self.take_own(class),
            };
            if packet.is_some() {
                self.count_turn(turn);
                return packet;
            }
            turn = (turn + 1) % (WATCHED + 1);
        }
        // Every process may have news once; more rounds than that bring nothing new for this class.
        for _ in 0..self.links.len() {
            let packet = self.take_from(self.adopt()?, class);
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// The sender at a turn; `None` is this process.
    #[inline]
    fn watch_place(&self, turn: usize) -> Option<Option<u32>> {
        (turn < WATCHED).then(|| self.watch.at(turn))
    }

    /// After so many packets of one sender it is the next one's turn, those that are not watched included.
    #[inline]
    fn count_turn(&self, turn: usize) {
        let same = turn == self.turn.load(Ordering::Relaxed);
        let taken = if same { self.taken.load(Ordering::Relaxed) + 1 } else { 1 };
        let over = taken >= BURST;
        if over {
            self.adopt();
        }
        self.turn.store(if over { (turn + 1) % (WATCHED + 1) } else { turn }, Ordering::Relaxed);
        self.taken.store(if over { 0 } else { taken }, Ordering::Relaxed);
    }
}

impl Receives for ProcessFabric {
    fn has_news(&self) -> bool {
        self.has_news()
    }

    fn run_card(&self) -> bool {
        self.run_card()
    }
}
