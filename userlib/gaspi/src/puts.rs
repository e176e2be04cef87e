//! Puts of collectives that the card has not carried out: it reads their source after the call, so that has to stay.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::{Address, Command, Kind};
use ggas::Port;

/// How many were posted, and are done; to one rank they are done in the order of their posts.
#[derive(Debug)]
pub(crate) struct Puts {
    ranks: HashMap<Address, usize>,
    /// By rank: posted, done.
    counts: Vec<[AtomicU64; 2]>,
}

/// The puts until a moment, by rank.
pub(crate) type Mark = Vec<(usize, u64)>;

impl Puts {
    /// To these ports, by rank.
    pub(crate) fn new(ports: impl Iterator<Item = Address>) -> Puts {
        let ranks: HashMap<Address, usize> = ports.enumerate().map(|(rank, port)| (port, rank)).collect();
        let counts = (0..ranks.len()).map(|_| Default::default()).collect();
        Puts { ranks, counts }
    }

    /// One was posted, which has a notification.
    pub(crate) fn posted(&self, rank: usize) {
        self.counts[rank][0].fetch_add(1, Ordering::AcqRel);
    }

    /// Takes the notifications that have come.
    pub(crate) fn take(&self, port: &Port) {
        while let Some(notification) = port.poll() {
            // The others are errors of words, which no source is read for.
            let is_put = notification.kind() == Some(Kind::Requester)
                && notification.command().command() != Some(Command::ImmediatePut);
            if let Some(rank) = self.ranks.get(&notification.remote()).filter(|_| is_put) {
                self.counts[*rank][1].fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Those that were posted to some ranks so far.
    pub(crate) fn mark(&self, ranks: impl Iterator<Item = usize>) -> Mark {
        ranks.map(|rank| (rank, self.counts[rank][0].load(Ordering::Acquire))).collect()
    }

    pub(crate) fn are_done(&self, mark: &Mark) -> bool {
        mark.iter().all(|(rank, posted)| self.counts[*rank][1].load(Ordering::Acquire) >= *posted)
    }
}
