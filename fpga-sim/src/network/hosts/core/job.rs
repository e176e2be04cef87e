//! What the processes of a job that know each other say with their packets, and hear of rank 0. A part of [`Core`].

use std::time::Instant;

use ggas_members::HubNews;
use ggas_wire::Taken;

use super::super::known::Known;
use super::super::link::Told;
use super::super::message::Head;
use super::super::proof::Word;
use super::super::wire::Wire;
use super::Core;

/// What is still to be said to processes.
pub(super) struct Words<P> {
    /// By node, in order.
    words: Vec<(u16, Word)>,
    /// Processes that leave, and are gone for this one: their names, and what is to be said to them, if that is not said. Until then they
    /// are not removed, which might keep it from going.
    parted: Vec<Parted<P>>,
}

struct Parted<P> {
    node: u16,
    peer: P,
    message: Option<Vec<u8>>,
    until: Instant,
}

impl<P> Words<P> {
    pub fn new() -> Words<P> {
        Words { words: Vec::new(), parted: Vec::new() }
    }
}

impl<W: Wire> Core<W> {
    /// What the others have to know of this process.
    pub fn papers(&self) -> Vec<u8> {
        Known::own(&self.meetings.provider, &self.meetings.address)
    }

    /// Whether packets have come of a process that was not met.
    pub fn has_come(&self, node: u16) -> bool {
        self.meetings.has_come(node)
    }

    /// Rank 0 tells something.
    pub fn hear_hub(&mut self, news: HubNews) {
        match news {
            HubNews::Papers(papers) => self.meetings.hear_papers(&papers),
            HubNews::Gone { rank, left } => {
                if let Some(node) = u16::try_from(rank).ok().filter(|node| *node != self.me) {
                    self.meetings.hear_end(node, left, self.clock.now());
                }
                if rank == 0 {
                    self.meetings.hear_no_more();
                }
            }
        }
        self.hear_news();
    }

    /// What came with packets, and is for meetings.
    #[inline(never)]
    pub(super) fn hear_told(&mut self, told: Vec<(u16, Told)>, lost: &mut Vec<u16>) {
        for (node, told) in told {
            match told {
                Told::Opened => self.meetings.way_is_open(node, self.clock.now()),
                Told::Word(word) => {
                    if let Err(error) = self.meetings.told_by_wire(node, word) {
                        tracing::warn!("node {node}: {error}");
                        lost.push(node);
                    }
                }
            }
        }
        self.hear_news();
    }

    /// To be said to a process with its packets.
    pub(super) fn tell(&mut self, node: u16, word: Word) {
        if !matches!(word, Word::Beat { .. }) {
            self.words.words.push((node, word));
            return self.tell_words();
        }
        let link = &mut self.links[usize::from(node)];
        let (Some(ticket), Some(peer)) = (link.theirs, link.peer) else { return };
        let head = Head { ticket, taken: link.taken };
        match self.wire.send(peer, &head.bytes()) {
            Ok(Taken::Yes) => {
                link.told = link.taken;
                self.meetings.has_said(node);
            }
            Ok(Taken::Later) => {}
            Err(error) => self.misses(node, &error),
        }
    }

    /// Says what there is room for. There may be none for one process alone, which is stopped.
    pub(super) fn tell_words(&mut self) {
        let Core { words: Words { words, parted }, links, wire, waits, seen, .. } = self;
        let mut full = false;
        let mut send = |peer: W::Peer, message: &[u8]| {
            let later = matches!(wire.send(peer, message), Ok(Taken::Later));
            full |= later;
            !later
        };
        words.retain(|(node, word)| {
            let link = &links[usize::from(*node)];
            let (Some(ticket), Some(peer)) = (link.answer, link.peer) else { return false };
            let head = Head { ticket, taken: link.taken };
            !send(peer, &[&head.bytes()[..], &word.bytes()].concat())
        });
        for parted in parted {
            parted.message.take_if(|message| send(parted.peer, message));
        }
        if full {
            *waits = true;
            seen.asks.need();
        }
    }

    /// The last that a process hears of this one.
    pub(super) fn say_farewell(&mut self, node: u16) {
        let link = &mut self.links[usize::from(node)];
        if let (Some(ticket), Some(peer)) = (link.answer, link.peer.take()) {
            let head = Head { ticket, taken: link.taken };
            let message = Some([&head.bytes()[..], &Word::Farewell.bytes()].concat());
            let until = self.clock.now() + self.meetings.bounds.beat;
            self.words.parted.push(Parted { node, peer, message, until });
            self.tell_words();
        }
    }

    /// Lets those go who have heard the last; when to do so again.
    pub(super) fn see_parted_off(&mut self, now: Instant) -> Option<Instant> {
        for parted in self.words.parted.extract_if(.., |parted| parted.until <= now) {
            if let Err(error) = self.wire.remove(parted.peer) {
                tracing::debug!("{error}");
            }
            self.long.await_ends(parted.node, now);
        }
        self.words.parted.iter().map(|parted| parted.until).min()
    }
}
