//! How a card hears that there is work, and how a thread runs the cards that it gave work to.
//!
//! A [`Bell`] is what the fabric and holds ring. It never runs the card: inside a thread that drives cards it puts
//! the card on that thread's list, elsewhere it asks the engine. So no card's lock is ever taken under another's,
//! and a chain of packets needs no recursion.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    /// The thread (by the address of its list) that last put the card on its list, while it is there. A hint:
    /// only that thread writes its own value, so it never takes a card for listed that is not.
    listed_by: AtomicUsize,
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
        Bell { nic, engine, news: AtomicBool::new(false), listed_by: AtomicUsize::new(0) }
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

    /// Has the card run by the thread that drives cards here, else by the engine, else by whoever comes next.
    #[inline]
    pub(super) fn summon(&self) {
        let listed = RUN_LIST.with(|list| {
            let this = std::ptr::from_ref(list).addr();
            let mut list = list.borrow_mut();
            let Some(cards) = &mut list.cards else { return false };
            if self.listed_by.load(Ordering::Relaxed) != this
                && let Some(nic) = self.nic.upgrade()
            {
                self.listed_by.store(this, Ordering::Relaxed);
                cards.push_back(nic);
            }
            true
        });
        if listed {
            return;
        }
        if let (Some(engine), Some(nic)) = (&self.engine, self.nic.upgrade()) {
            engine.submit(&nic);
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
    if !enter(first) {
        // Called from inside a card's run (by a copier, say): the outer call runs it.
        return false;
    }
    let moved = first.run();
    leave() | moved
}

/// Does `work`, then runs every card that this summoned.
pub(super) fn after<T>(work: impl FnOnce() -> T) -> T {
    let outermost = begin();
    let result = work();
    if outermost {
        leave();
    }
    result
}

/// Begins this thread's list, to be ended by [`leave`]. False where the thread has one: then `first` is put on it.
#[inline]
pub(super) fn enter(first: &Nic) -> bool {
    let outermost = begin();
    if !outermost {
        first.bell.summon();
    }
    outermost
}

#[inline]
fn begin() -> bool {
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
pub(super) fn leave() -> bool {
    let (mut moved, mut runs) = (false, 0);
    while let Some(nic) = next() {
        runs += 1;
        match &nic.bell.engine {
            Some(engine) if runs > RUNS_PER_CALL => engine.submit(&nic),
            _ => moved |= nic.run(),
        }
    }
    moved
}

/// The next card of the list; ends the list where there is none.
#[inline]
fn next() -> Option<Arc<Nic>> {
    RUN_LIST.with_borrow_mut(|list| {
        let nic = list.cards.as_mut().and_then(VecDeque::pop_front);
        match &nic {
            Some(nic) => nic.bell.listed_by.store(0, Ordering::Relaxed),
            None => list.spare = list.cards.take().unwrap_or_default(),
        }
        nic
    })
}
