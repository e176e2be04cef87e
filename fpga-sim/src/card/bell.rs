//! How a card hears that there is work, and how a thread runs the cards that it gave work to.
//!
//! A [`Bell`] is what the fabric and holds ring. It never runs the card: inside a thread that drives cards it puts
//! the card on that thread's list, elsewhere it asks the driver. So no card's lock is ever taken under another's,
//! and a chain of packets needs no recursion.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::board::{Attend, News};
use super::{Driver, Nic, quantum};
use crate::wake::Wake;

pub(super) struct Bell {
    nic: Weak<Nic>,
    driver: Option<Arc<dyn Driver>>,
    news: News,
    /// The list that the card was last put on, while it is there. A hint: only the list's thread writes this value,
    /// so no card is taken for listed that is not.
    listed_by: AtomicU64,
}

/// Cards that a thread still has to run. Lies on the stack of the call that drives them.
pub(super) struct RunList {
    /// Different for every list of the process; 0: no card was put on it.
    id: Cell<u64>,
    /// Nearly always there is one at most: it needs no queue, which each call would have to drop.
    next: Cell<Option<Arc<Nic>>>,
    #[allow(clippy::box_collection, reason = "to see that there is none takes one look at a pointer")]
    further: ManuallyDrop<RefCell<Option<Box<Further>>>>,
}

impl Drop for RunList {
    #[inline]
    fn drop(&mut self) {
        if let Some(further) = self.further.get_mut().take() {
            drop(further);
        }
    }
}

impl RunList {
    fn new() -> RunList {
        RunList { id: Cell::new(0), next: Cell::default(), further: ManuallyDrop::default() }
    }

    #[inline]
    fn id(&self) -> u64 {
        if self.id.get() == 0 {
            self.id.set(NEXT_ID.replace(NEXT_ID.get() + 1));
        }
        self.id.get()
    }

    #[inline]
    fn push(&self, nic: Arc<Nic>) {
        let mut further = self.further.borrow_mut();
        match self.next.take() {
            None if further.as_ref().is_none_or(|further| further.is_empty()) => self.next.set(Some(nic)),
            next => {
                self.next.set(next);
                further.get_or_insert_default().push_back(nic);
            }
        }
    }

    #[inline]
    fn pop(&self) -> Option<Arc<Nic>> {
        self.next.take().or_else(|| self.further.borrow_mut().as_mut()?.pop_front())
    }
}

type Further = VecDeque<Arc<Nic>>;

thread_local! {
    /// The list of the call that drives cards on this thread, if one does.
    static DRIVING: Cell<*const RunList> = const { Cell::new(std::ptr::null()) };
    /// Number of this thread's next list: each thread counts in a range of its own.
    static NEXT_ID: Cell<u64> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) << 40);
}

/// Threads that drove cards so far, and 1.
static THREADS: AtomicU64 = AtomicU64::new(1);

impl Bell {
    pub(super) fn new(nic: Weak<Nic>, driver: Option<Arc<dyn Driver>>, news: News) -> Bell {
        Bell { nic, driver, news, listed_by: AtomicU64::new(0) }
    }

    /// The card, while someone still owns it.
    pub(super) fn nic(&self) -> Option<Arc<Nic>> {
        self.nic.upgrade()
    }

    /// Has the card run by the thread that drives cards here, else by the driver, else by whoever comes next.
    #[inline]
    pub(super) fn summon(&self) {
        self.ask(|driver, nic| driver.submit(nic));
    }

    /// As [`Bell::summon`], behind a command or a message.
    #[inline]
    pub(super) fn summon_for_command(&self) {
        self.ask(|driver, nic| driver.posted(nic));
    }

    #[inline]
    fn ask(&self, ask: impl FnOnce(&dyn Driver, &Arc<Nic>)) {
        let list = DRIVING.get();
        // SAFETY: null, or the list of a call further up on this thread's stack (see `driving`).
        if let Some(cards) = unsafe { list.as_ref() } {
            if self.listed_by.load(Ordering::Relaxed) != cards.id()
                && let Some(nic) = self.nic.upgrade()
            {
                self.listed_by.store(cards.id(), Ordering::Relaxed);
                cards.push(nic);
            }
            return;
        }
        if let (Some(driver), Some(nic)) = (&self.driver, self.nic.upgrade()) {
            ask(&**driver, &nic);
        }
    }
}

impl Wake for Bell {
    #[inline]
    fn wake(&self) {
        self.news.tell();
        self.summon();
    }

    fn rouse(&self) {
        if let Some(nic) = self.nic.upgrade() {
            nic.event.signal();
        }
    }

    fn run(&self) -> bool {
        self.news.tell();
        self.nic.upgrade().is_some_and(|nic| nic.progress())
    }
}

impl Attend for Bell {
    fn attend(&self) {
        if let Some(nic) = self.nic.upgrade() {
            nic.ask_driver(true);
        }
    }
}

/// Runs `first` and then every card that was summoned meanwhile by this thread. Returns whether anything moved.
#[inline]
pub(super) fn drive(first: &Nic) -> bool {
    let mut moved = false;
    let outermost = driving(|list| {
        moved = first.run();
        moved |= list.run();
    });
    if !outermost {
        // Called from inside a card's run (by a copier, say): the outer call runs it.
        first.bell.summon();
    }
    moved
}

/// Does `work`, then runs every card that this summoned.
#[inline]
pub(super) fn after<T>(work: impl FnOnce() -> T) -> T {
    let (mut work, mut result) = (Some(work), None);
    driving(|list| {
        result = work.take().map(|work| work());
        list.run();
    });
    match (result, work) {
        (Some(result), _) => result,
        // A call further up drives: it runs the cards.
        (None, Some(work)) => work(),
        (None, None) => unreachable!("the work is done, with a result, or not begun"),
    }
}

/// Calls `drive` with a list for the cards that are summoned meanwhile; false, without calling it, where a call
/// further up on this thread does that already.
#[inline]
pub(super) fn driving(drive: impl FnOnce(&RunList)) -> bool {
    /// Takes the list away, also on the way of a panic.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            DRIVING.set(std::ptr::null());
            quantum::end();
        }
    }
    if !DRIVING.get().is_null() {
        return false;
    }
    let list = RunList::new();
    DRIVING.set(&raw const list);
    quantum::begin();
    let end = End;
    drive(&list);
    drop(end);
    true
}

impl RunList {
    /// Runs the cards on the list until there are none, or leaves the rest to the driver after a while.
    #[inline]
    pub(super) fn run(&self) -> bool {
        self.pop().is_some_and(|first| self.run_from(first))
    }

    #[inline(never)]
    fn run_from(&self, first: Arc<Nic>) -> bool {
        let (mut moved, mut over, mut next) = (false, false, Some(first));
        while let Some(nic) = next.take().or_else(|| self.pop()) {
            nic.bell.listed_by.store(0, Ordering::Relaxed);
            match &nic.bell.driver {
                Some(driver) if over => driver.submit(&nic),
                _ => moved |= nic.run(),
            }
            over = over || quantum::is_over(&nic.board.clock);
        }
        moved
    }
}
