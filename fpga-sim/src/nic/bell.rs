//! How a card hears that there is work, and how a thread runs the cards that it gave work to.
//!
//! A [`Bell`] is what the fabric and holds ring. It never runs the card: inside a thread that drives cards it puts
//! the card on that thread's list, elsewhere it asks the engine. So no card's lock is ever taken under another's,
//! and a chain of packets needs no recursion.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::Nic;
use crate::engine::Engine;
use crate::fabric::Wake;

/// Cards that one call runs before it leaves the rest to the engine.
const RUNS_PER_CALL: usize = 512;

pub(super) struct Bell {
    nic: Weak<Nic>,
    engine: Option<Arc<Engine>>,
    /// Something arrived since the card last looked.
    news: AtomicBool,
    /// Someone has promised to run the card.
    promised: AtomicBool,
}

struct RunList {
    /// Cards that this thread still has to run; `None`: it is not driving cards.
    cards: Option<VecDeque<Arc<Nic>>>,
    /// An empty queue whose memory is used again.
    spare: VecDeque<Arc<Nic>>,
}

thread_local! {
    static RUN_LIST: RefCell<RunList> =
        const { RefCell::new(RunList { cards: None, spare: VecDeque::new() }) };
}

impl Bell {
    pub(super) fn new(nic: Weak<Nic>, engine: Option<Arc<Engine>>) -> Bell {
        Bell { nic, engine, news: AtomicBool::new(false), promised: AtomicBool::new(false) }
    }

    /// Whether anything arrived.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed)
    }

    /// The same; asking takes it.
    #[inline]
    pub(super) fn take_news(&self) -> bool {
        self.has_news() && self.news.swap(false, Ordering::AcqRel)
    }

    /// The card, while someone still owns it.
    pub(super) fn nic(&self) -> Option<Arc<Nic>> {
        self.nic.upgrade()
    }

    /// To be called before a card is run that was promised to be.
    pub(super) fn redeem(&self) {
        self.promised.swap(false, Ordering::AcqRel);
    }

    /// Has the card run by the thread that drives cards here, else by the engine, else by whoever comes next.
    #[inline]
    pub(super) fn summon(&self) {
        if self.promised.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some(nic) = self.nic.upgrade() else { return };
        let left = RUN_LIST.with_borrow_mut(|list| match &mut list.cards {
            Some(cards) => {
                cards.push_back(nic);
                None
            }
            None => Some(nic),
        });
        if let Some(nic) = left {
            self.redeem();
            match &self.engine {
                Some(engine) => engine.submit(&nic),
                None => drop(nic),
            }
        }
    }
}

impl Wake for Bell {
    #[inline]
    fn wake(&self) {
        self.news.store(true, Ordering::Release);
        self.summon();
    }
}

/// Runs `first` and then every card that was summoned meanwhile by this thread. Returns whether anything moved.
#[inline]
pub(super) fn drive(first: &Nic) -> bool {
    if !enter() {
        // Called from inside a card's run (by a copier, say): the outer call runs it.
        first.bell.summon();
        return false;
    }
    let moved = first.run();
    leave() | moved
}

/// Does `work`, then runs every card that this summoned.
pub(super) fn after<T>(work: impl FnOnce() -> T) -> T {
    let outermost = enter();
    let result = work();
    if outermost {
        leave();
    }
    result
}

/// Begins this thread's list; false where it has one.
#[inline]
fn enter() -> bool {
    RUN_LIST.with_borrow_mut(|list| {
        let outermost = list.cards.is_none();
        if outermost {
            list.cards = Some(std::mem::take(&mut list.spare));
        }
        outermost
    })
}

/// Runs the cards on the list, and ends it.
#[inline]
fn leave() -> bool {
    let (mut moved, mut runs) = (false, 0);
    while let Some(nic) = RUN_LIST.with_borrow_mut(|list| list.cards.as_mut()?.pop_front()) {
        nic.bell.redeem();
        runs += 1;
        match &nic.bell.engine {
            Some(engine) if runs > RUNS_PER_CALL => engine.submit(&nic),
            _ => moved |= nic.run(),
        }
    }
    RUN_LIST.with_borrow_mut(|list| list.spare = list.cards.take().unwrap_or_default());
    moved
}
