//! The card path of the model for kernels whose stores are no calls: an option page in memory that the host watches.
//!
//! A card sees each store to its pages. Memory shows only what stands in it, so the page's words hold a random pattern: a word
//! that differs was stored to. The host takes it by exchanging it for a new pattern, and hands it to the model's
//! write-combining buffer (spec 2.4), which assembles lines, and gives up half ones, as it does with stores that are
//! calls. Kernels see by the count of accepted descriptors that the words were taken, and write no line before that
//! (`ggas_port.lines` is 1): lines on the way to a card at the same time are what this does not show.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use extoll_abi::PageOption;
use ggas_clock::{Backoff, Clock, Ladder};
use ggas_device::{DeviceError, HostBuffer, PAGE, PortDevice};

use crate::post::lock;
use crate::posted::Asked;

/// Words of a descriptor.
const LINE: usize = 3;
/// The option page lies between two where nothing belongs.
const PAGES: usize = 3;
const WORDS: usize = PAGES * PAGE / 8;
const FIRST: usize = PAGE / 8;
/// From how many cores on a thread may keep one for itself.
const MANY_CORES: usize = 8;
/// Other words that are looked at with each line.
const PART: usize = 64;

/// What was stored to a watched option page ([`KernelPort::stores`](crate::KernelPort::stores)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStores {
    /// Descriptors of which each word was stored.
    pub descriptors: u64,
    /// Words of a descriptor that were stored again before all of its words had been.
    pub repeated: u64,
    /// Words of a descriptor that is not whole.
    pub begun: u32,
    /// Words where none of a descriptor belongs, in this page and those beside it, that were stored to.
    pub misplaced: u64,
}

/// One option page of a port.
pub(super) struct WatchedPage {
    device: Arc<dyn PortDevice>,
    option: PageOption,
    asked: Arc<Asked>,
    memory: HostBuffer,
    watch: Mutex<Watch>,
}

struct Watch {
    random: fastrand::Rng,
    /// What the words hold as long as nobody stores to them.
    pattern: Box<[u64]>,
    /// Bit `i`: word `i` of the line that is being stored was there.
    seen: u32,
    /// The next of the other words to look at.
    next: usize,
    stores: PageStores,
}

impl WatchedPage {
    pub(super) fn new(
        device: Arc<dyn PortDevice>,
        option: PageOption,
        asked: Arc<Asked>,
    ) -> Result<WatchedPage, DeviceError> {
        let memory = HostBuffer::unshared(PAGES * PAGE)?;
        let mut random = fastrand::Rng::new();
        let pattern: Box<[u64]> = (0..WORDS).map(|_| random.u64(..)).collect();
        for (i, word) in pattern.iter().enumerate() {
            memory.store_u64(8 * i, *word);
        }
        let watch = Watch { random, pattern, seen: 0, next: 0, stores: PageStores::default() };
        Ok(WatchedPage { device, option, asked, memory, watch: Mutex::new(watch) })
    }

    /// All pages, which a processor maps; the option page is the one in the middle.
    pub(super) fn memory(&self) -> (*mut u8, usize) {
        (self.memory.as_ptr(), self.memory.len())
    }

    /// Hands what was stored to the card; says whether there was something. One thread looks at a time, others have
    /// nothing to do.
    pub(super) fn look(&self) -> bool {
        let Ok(mut watch) = self.watch.try_lock() else { return false };
        let mut any = false;
        for i in 0..LINE {
            if let Some(value) = self.take(&mut watch, FIRST + i) {
                watch.note(i);
                if i == 0 {
                    self.asked.note(value);
                }
                // A line that is whole now is counted by this call; nobody stores the next one before.
                self.device.requester_store(self.option, 8 * i as u64, value);
                any = true;
            }
        }
        if any && watch.seen == 0 {
            let from = watch.next;
            self.look_beside(&mut watch, from, PART);
            watch.next = (from + PART) % WORDS;
        }
        any
    }

    /// What was stored since the page was made.
    pub(super) fn stores(&self) -> PageStores {
        let mut watch = lock(&self.watch);
        self.look_beside(&mut watch, 0, WORDS);
        PageStores { begun: watch.seen.count_ones(), ..watch.stores }
    }

    /// What was stored to a word. An exchange, so that a store which comes at the same moment is not lost.
    #[inline]
    fn take(&self, watch: &mut Watch, index: usize) -> Option<u64> {
        let word = self.memory.word(8 * index);
        if word.load(Ordering::Acquire) == watch.pattern[index] {
            return None;
        }
        watch.pattern[index] = watch.random.u64(..);
        Some(word.swap(watch.pattern[index], Ordering::AcqRel))
    }

    /// Counts stores to words that no descriptor has.
    fn look_beside(&self, watch: &mut Watch, from: usize, count: usize) {
        for index in (from..from + count).filter(|index| !(FIRST..FIRST + LINE).contains(index)) {
            if let Some(value) = self.take(watch, index) {
                watch.stores.misplaced += 1;
                let offset = 8 * index as i64 - PAGE as i64;
                tracing::error!(port = %self.device.address(), "{value:#x} was stored at {offset} from the option page");
            }
        }
    }
}

impl Watch {
    /// Word `i` of a line is there.
    fn note(&mut self, i: usize) {
        if self.seen >> i & 1 != 0 {
            self.stores.repeated += 1;
        }
        self.seen |= 1 << i;
        if self.seen == (1 << LINE) - 1 {
            self.seen = 0;
            self.stores.descriptors += 1;
        }
    }
}

/// A thread that watches a page while kernels of a GPU may store to it; it ends when this is dropped.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    armed: u32,
    over: bool,
}

impl Watcher {
    pub(super) fn start(page: Arc<WatchedPage>) -> Result<Watcher, DeviceError> {
        let shared = Arc::<Shared>::default();
        let thread = std::thread::Builder::new().name("rma-page".to_owned()).spawn({
            let shared = shared.clone();
            move || watch(&page, &shared)
        });
        let thread = thread.map_err(|source| DeviceError::Memory {
            what: "a thread that watches a requester page",
            bytes: 0,
            source,
        })?;
        Ok(Watcher { shared, thread: Some(thread) })
    }

    pub(super) fn arm(&self) {
        lock(&self.shared.state).armed += 1;
        self.shared.changed.notify_one();
    }

    pub(super) fn disarm(&self) {
        lock(&self.shared.state).armed -= 1;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        lock(&self.shared.state).over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

/// For waits for a GPU's stores. Where there are cores enough the first round lasts longer than a kernel takes to answer, for
/// a yield is a store missed.
fn ladder() -> Ladder {
    let many = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= MANY_CORES);
    Ladder { spins: if many { 4096 } else { 64 }, ..Ladder::DEVICE }
}

/// The thread: it sleeps while no kernel may store. What was stored before is taken before it sleeps.
fn watch(page: &WatchedPage, shared: &Shared) {
    let ladder = ladder();
    let new = || Backoff::endless(ladder, Clock::REAL);
    let mut backoff = new();
    loop {
        if page.look() | page.device.progress() {
            backoff = new();
            continue;
        }
        let mut state = lock(&shared.state);
        if state.over {
            return;
        }
        if state.armed == 0 {
            while state.armed == 0 && !state.over {
                state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            backoff = new();
        }
        drop(state);
        // Endless: it has no end to report.
        let _ = backoff.pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Posted;
    use crate::fake::Fake;

    fn page() -> (Arc<Fake>, WatchedPage) {
        let fake = Arc::new(Fake::new());
        let page = WatchedPage::new(fake.clone(), PageOption::TE, Arc::default()).unwrap();
        (fake, page)
    }

    /// As a kernel stores: at byte `offset` from the option page.
    fn store(page: &WatchedPage, offset: i64, value: u64) {
        let at = (PAGE as i64 + offset) as usize;
        page.memory.word(at).store(value, Ordering::Release);
    }

    #[test]
    fn words_are_handed_over_once_in_whatever_order_they_come() {
        let (fake, page) = page();
        assert!(!page.look());
        for (round, order) in [[0, 1, 2], [2, 1, 0], [1, 2, 0]].iter().enumerate() {
            for i in order {
                // Zero, and the same as in the last line: values that memory alone would not show.
                store(&page, 8 * i, 0);
                assert!(page.look());
                assert!(!page.look());
            }
            let option = PageOption::TE.bits();
            let handed: Vec<_> = order.iter().map(|i| (option, 8 * *i as u64, 0)).collect();
            assert_eq!(std::mem::take(&mut *fake.stores.lock().unwrap()), handed);
            assert_eq!(page.stores(), PageStores { descriptors: round as u64 + 1, ..PageStores::default() });
        }
        assert_ne!(page.asked.posted(), Posted::Nothing);
    }

    #[test]
    fn half_lines_and_repeated_words_are_counted() {
        let (fake, page) = page();
        store(&page, 8, 5);
        page.look();
        store(&page, 8, 6);
        page.look();
        store(&page, 16, 7);
        page.look();
        assert_eq!(fake.stores.lock().unwrap().len(), 3, "the write-combining buffer judges them, too");
        let expected = PageStores { descriptors: 0, repeated: 1, begun: 2, misplaced: 0 };
        assert_eq!(page.stores(), expected);
        store(&page, 0, 8);
        page.look();
        assert_eq!(page.stores(), PageStores { descriptors: 1, begun: 0, ..expected });
    }

    #[test]
    fn stores_to_other_words_are_counted_and_handed_to_nobody() {
        let (fake, page) = page();
        let end = PAGE as i64;
        for offset in [-8, 24, end - 8, end, -end, 2 * end - 8] {
            store(&page, offset, 1);
        }
        assert!(!page.look());
        assert_eq!(page.stores().misplaced, 6);
        assert!(fake.stores.lock().unwrap().is_empty());
        // Each line looks at a part of them.
        store(&page, 32, 1);
        for _ in 0..WORDS / PART {
            (0..3).for_each(|i| store(&page, 8 * i, 9));
            page.look();
        }
        assert_eq!(lock(&page.watch).stores.misplaced, 7);
    }

    #[test]
    fn a_watcher_takes_what_is_stored_while_it_is_armed() {
        let (fake, page) = page();
        let page = Arc::new(page);
        let watcher = Watcher::start(page.clone()).unwrap();
        for round in 1..=100 {
            watcher.arm();
            (0..3).for_each(|i| store(&page, 8 * i, round));
            while page.stores().descriptors < round {
                Clock::REAL.yield_now();
            }
            watcher.disarm();
        }
        drop(watcher);
        assert_eq!(fake.stores.lock().unwrap().len(), 300);
    }
}
