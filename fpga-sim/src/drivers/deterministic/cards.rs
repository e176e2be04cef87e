//! The cards of a simulation: those that can run, and those that want to be looked at later.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::card::{Need, Nic};
use crate::drivers::naps;

struct Card {
    nic: Weak<Nic>,
    /// When it is to run; `None`: it can run now.
    due: Option<u64>,
    /// How long it napped last, in nanoseconds.
    nap: u64,
}

/// A card whose turn it is.
pub(super) struct Taken {
    pub nic: Arc<Nic>,
    nap: u64,
}

#[derive(Default)]
pub(super) struct Cards(Vec<Card>);

impl Cards {
    /// A card has work.
    pub fn submit(&mut self, nic: &Arc<Nic>) {
        if !nic.submitted().swap(true, Ordering::AcqRel) {
            return self.0.push(Card { nic: Arc::downgrade(nic), due: None, nap: 0 });
        }
        if let Some(card) = self.0.iter_mut().find(|card| std::ptr::eq(card.nic.as_ptr(), &raw const **nic)) {
            (card.due, card.nap) = (None, 0);
        }
    }

    /// Naps that are over end.
    pub fn wake_due(&mut self, now: u64) {
        let over = |card: &&mut Card| card.due.is_some_and(|due| due <= now);
        self.0.iter_mut().filter(over).for_each(|card| card.due = None);
    }

    /// How many can run now.
    pub fn ready(&self) -> usize {
        self.0.iter().filter(|card| card.due.is_none()).count()
    }

    /// When the next nap is over.
    pub fn next(&self) -> Option<u64> {
        self.0.iter().filter_map(|card| card.due).min()
    }

    /// Draws one that can run.
    pub fn take(&mut self, random: &mut fastrand::Rng) -> Option<Taken> {
        loop {
            let ready = self.ready();
            let drawn = (ready > 0).then(|| random.usize(..ready))?;
            let ready = self.0.iter().enumerate().filter(|(_, card)| card.due.is_none());
            let at = ready.map(|(at, _)| at).nth(drawn)?;
            let card = self.0.swap_remove(at);
            if let Some(nic) = card.nic.upgrade() {
                // Before the run: whoever submits the card from now on is not taken for served.
                nic.submitted().store(false, Ordering::Release);
                return Some(Taken { nic, nap: card.nap });
            }
        }
    }

    /// After its turn.
    pub fn put_back(&mut self, card: Taken, now: u64, moved: bool, need: Need) {
        let Taken { nic, nap } = card;
        let Some(nap) = naps::next(nap, moved, need) else { return };
        if nic.submitted().swap(true, Ordering::AcqRel) {
            return;
        }
        let due = (!moved).then_some(now.saturating_add(nap));
        self.0.push(Card { nic: Arc::downgrade(&nic), due, nap });
    }
}
