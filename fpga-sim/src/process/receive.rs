//! The receiving side of [`ProcessFabric`]: whose turn it is, and what comes with packets.

use std::sync::atomic::Ordering;

use super::codec::Rules;
use super::fabric::{Link, ProcessFabric};
use super::job::PeerState;
use super::watch::WATCHED;
use crate::packet::{Class, Packet};

/// Packets taken from one sender before the next one's turn.
const BURST: u32 = 16;

impl ProcessFabric {
    /// Whether anything from other processes waits to be looked at.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        let news = |rank| self.link(rank).is_some_and(|link| link.incoming.has_news(self.inbox()));
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
        let packet = self.own[class as usize].pop()?;
        if self.own_refused.load(Ordering::SeqCst) && self.own_refused.swap(false, Ordering::SeqCst) {
            self.wake_card();
        }
        Some(packet)
    }

    /// Takes a packet from a peer, and what it returned.
    #[inline]
    fn take_from(&self, rank: u32, class: Class) -> Option<Packet> {
        let link = self.link(rank)?;
        let inbox = self.inbox();
        if link.incoming.take_look(inbox) {
            self.look_at(rank, link);
        }
        let shape = self.job.shape();
        let most = self.geometry.most() as u32;
        let rules = Rules { class, from: shape.node_of(rank), to: shape.node_of(self.rank), most };
        match link.incoming.take(inbox, &rules, (&link.arena, link.out.remote())) {
            Ok(packet) => packet,
            Err(_) => {
                self.counters.malformed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("process {rank} sent an entry that breaks the rules: it is treated as lost");
                link.incoming.ignore();
                self.lose(rank);
                None
            }
        }
    }

    /// A peer asked for it: it returned payloads, or has room again, or has gone.
    #[cold]
    fn look_at(&self, rank: u32, link: &Link) {
        link.out.collect(self.inbox().lane(rank));
        if matches!(self.job.state(rank), PeerState::Left | PeerState::Lost) {
            self.depart(link);
        }
    }

    /// Begins to watch a peer with news.
    fn adopt(&self) -> Option<u32> {
        let news = |rank| self.link(rank).is_some_and(|link| link.incoming.has_news(self.inbox()));
        self.watch.adopt(self.inbox().doorbell(), news)
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
