//! All regions of the process: by the address of their `RMA2_Region`, and by the memory that they cover.
//!
//! C's region structures are never trusted: a post looks its region up here. When memory is unmapped or freed while
//! it is registered, it is taken from the card first ([`invalidate`]), as a kernel's MMU notifier would do it; the
//! region stays known, and gone, until it is unregistered.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ggas::{PAGE, Region};

/// A registration: the port's id, and a running number. NLAs do not serve: they are used again while the structure of
/// a region whose memory is gone still waits to be unregistered.
pub(crate) type Key = (u64, u64);

/// A region as its structure shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) key: Key,
    /// NLA and address of the first page.
    pub(crate) nla: u64,
    pub(crate) start: usize,
    pub(crate) pages: u32,
    /// Of the registered address in its page.
    pub(crate) offset: u32,
    /// Whose memory the structure is.
    pub(crate) owner: Owner,
    /// The memory behind it is not there any more.
    pub(crate) gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The library's, to be freed with it.
    Library,
    Program,
    /// The library's, and a part of another region, which owns the registration.
    Part,
}

impl View {
    pub(crate) fn bytes(&self) -> usize {
        self.pages as usize * PAGE
    }
}

/// What the card has of one registration. `None`: taken back, the memory is gone.
struct Held {
    region: Option<Region>,
    view: View,
    /// The memory as it was named.
    range: (usize, usize),
}

#[derive(Default)]
struct Table {
    by_pointer: HashMap<usize, View>,
    held: HashMap<Key, Held>,
    /// Registrations that are in force, by port and NLA.
    by_nla: HashMap<(u64, u64), Key>,
    /// Named memory that is in force: start and key, to its end.
    ranges: BTreeMap<(usize, Key), usize>,
    /// Longest of them, which bounds the search for overlaps.
    longest: usize,
}

/// The last registration's number.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A child of fork gets a new table: the parent's regions are not its own.
static TABLE: AtomicPtr<RwLock<Table>> = AtomicPtr::new(std::ptr::null_mut());
/// Counts changes that make a remembered view wrong.
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// All named memory lies between these; empty when none is there.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread holds the table: what it frees meanwhile is the table's own.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The region that this thread looked up last.
    static LAST: Cell<(usize, u64, Option<View>)> = const { Cell::new((0, 0, None)) };
}

struct Inside;

impl Inside {
    fn new() -> Inside {
        INSIDE.set(true);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

fn table() -> &'static RwLock<Table> {
    let there = TABLE.load(Ordering::Acquire);
    // SAFETY: tables are never freed.
    if let Some(table) = unsafe { there.as_ref() } {
        return table;
    }
    let new = Box::into_raw(Box::default());
    match TABLE.compare_exchange(there, new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: made above, and never freed.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: made above, and nobody else knows it; the other is never freed.
            unsafe {
                drop(Box::from_raw(new));
                &*other
            }
        }
    }
}

fn read() -> (Inside, RwLockReadGuard<'static, Table>) {
    (Inside::new(), table().read().unwrap_or_else(PoisonError::into_inner))
}

fn write() -> (Inside, RwLockWriteGuard<'static, Table>) {
    (Inside::new(), table().write().unwrap_or_else(PoisonError::into_inner))
}

/// In a child of fork.
pub(crate) fn forget() {
    TABLE.store(std::ptr::null_mut(), Ordering::Release);
    CHANGES.fetch_add(1, Ordering::Release);
    LOWEST.store(usize::MAX, Ordering::Relaxed);
    HIGHEST.store(0, Ordering::Relaxed);
}

impl Table {
    fn add_range(&mut self, (start, end): (usize, usize), key: Key) {
        self.ranges.insert((start, key), end);
        self.longest = self.longest.max(end - start);
        LOWEST.fetch_min(start, Ordering::Relaxed);
        HIGHEST.fetch_max(end, Ordering::Relaxed);
    }

    fn remove_range(&mut self, start: usize, key: Key) {
        self.ranges.remove(&(start, key));
        if self.ranges.is_empty() {
            self.longest = 0;
            LOWEST.store(usize::MAX, Ordering::Relaxed);
            HIGHEST.store(0, Ordering::Relaxed);
        }
    }

    fn overlapping(&self, start: usize, end: usize) -> impl Iterator<Item = Key> + '_ {
        let first = (start.saturating_sub(self.longest), (0, 0));
        let all = self.ranges.range(first..(end, (0, 0)));
        all.filter(move |(_, to)| **to > start).map(|((_, key), _)| *key)
    }

    /// A registration is not in force any more, and its NLA may be another's next.
    fn end(&mut self, key: Key, view: &View, start: usize) {
        self.remove_range(start, key);
        if self.by_nla.get(&(key.0, view.nla)) == Some(&key) {
            self.by_nla.remove(&(key.0, view.nla));
        }
    }

    /// Ends a registration; the region is to be unregistered outside of the lock.
    fn take(&mut self, key: Key) -> Option<Held> {
        let held = self.held.remove(&key)?;
        self.end(key, &held.view, held.range.0);
        self.by_pointer.retain(|_, view| view.key != key || view.owner == Owner::Part);
        for view in self.by_pointer.values_mut().filter(|view| view.key == key) {
            view.gone = true;
        }
        CHANGES.fetch_add(1, Ordering::Release);
        Some(held)
    }
}

/// The key of a new registration of a port.
pub(crate) fn new_key(port: u64) -> Key {
    (port, NUMBER.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Adds a registration whose structure is at `pointer`; `range` is the memory as it was named.
pub(crate) fn add(pointer: usize, view: View, range: (usize, usize), region: Region) {
    let (_inside, mut table) = write();
    table.add_range(range, view.key);
    table.by_nla.insert((view.key.0, view.nla), view.key);
    table.held.insert(view.key, Held { region: Some(region), view, range });
    // The program may have used a structure again that it did not unregister: the newest counts.
    table.by_pointer.insert(pointer, view);
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Adds a structure for a part of a registration. `false`: that is gone.
pub(crate) fn add_part(pointer: usize, view: View) -> bool {
    let (_inside, mut table) = write();
    let there = table.held.get(&view.key).is_some_and(|held| held.region.is_some());
    if there {
        table.by_pointer.insert(pointer, view);
    }
    there
}

/// Forgets the structure of a part.
pub(crate) fn remove_part(pointer: usize) {
    let (_inside, mut table) = write();
    table.by_pointer.remove(&pointer);
    CHANGES.fetch_add(1, Ordering::Release);
}

/// The region whose structure is at `pointer`.
#[inline]
pub(crate) fn view(pointer: usize) -> Option<View> {
    let changes = CHANGES.load(Ordering::Acquire);
    let (last, at, view) = LAST.get();
    if last == pointer && at == changes && view.is_some() {
        return view;
    }
    let view = {
        let (_inside, table) = read();
        table.by_pointer.get(&pointer).copied()
    };
    LAST.set((pointer, changes, view));
    view
}

/// The registration as it was made.
pub(crate) fn registered(key: Key) -> Option<View> {
    let (_inside, table) = read();
    table.held.get(&key).map(|held| View { gone: held.region.is_none(), ..held.view })
}

/// The memory of a registration as it was named, without the rest of its pages.
pub(crate) fn named(key: Key) -> Option<(usize, usize)> {
    let (_inside, table) = read();
    table.held.get(&key).map(|held| held.range)
}

/// The registration of a port that is in force at an NLA.
pub(crate) fn registered_at(port: u64, nla: u64) -> Option<View> {
    let (_inside, table) = read();
    table.by_nla.get(&(port, nla)).and_then(|key| table.held.get(key)).map(|held| held.view)
}

/// Takes a registration out. The inner `None`: its memory is gone, and so is it from the card.
pub(crate) fn take(key: Key) -> Option<Option<Region>> {
    let (_inside, mut table) = write();
    table.take(key).map(|held| held.region)
}

/// Takes all registrations of a port out, unregisters them and frees the library's structures.
pub(crate) fn close_port(port: u64) {
    let (regions, structures) = {
        let (_inside, mut table) = write();
        let mut structures = Vec::new();
        for (pointer, view) in table.by_pointer.iter().filter(|(_, view)| view.key.0 == port) {
            if view.owner != Owner::Program {
                structures.push(*pointer);
            }
        }
        table.by_pointer.retain(|_, view| view.key.0 != port);
        let keys: Vec<Key> = table.held.keys().copied().filter(|key| key.0 == port).collect();
        let regions: Vec<_> = keys.iter().filter_map(|key| table.take(*key)?.region).collect();
        (regions, structures)
    };
    drop(regions); // a card that does not let go of one says so, and its port does not close
    for structure in structures {
        crate::region::release(structure as *mut crate::abi::Region);
    }
}

/// Whether registered memory may lie in the range: cheap, for those who free and unmap.
#[inline]
pub(crate) fn may_overlap(start: usize, end: usize) -> bool {
    start < HIGHEST.load(Ordering::Relaxed) && end > LOWEST.load(Ordering::Relaxed) && !INSIDE.get()
}

/// The memory between the two addresses goes away: takes what is registered of it from the card, and returns when
/// the card will not touch it any more. Says how many registrations that were.
pub(crate) fn invalidate(start: usize, end: usize) -> usize {
    if !may_overlap(start, end) {
        return 0;
    }
    let none = {
        let (_inside, table) = read();
        table.overlapping(start, end).next().is_none()
    };
    if none {
        return 0;
    }
    let regions: Vec<Region> = {
        let (_inside, mut table) = write();
        let keys: Vec<Key> = table.overlapping(start, end).collect();
        let mut regions = Vec::new();
        for key in keys {
            let Some(held) = table.held.get_mut(&key) else { continue };
            let (view, first) = (held.view, held.range.0);
            regions.extend(held.region.take());
            table.end(key, &view, first);
            for view in table.by_pointer.values_mut().filter(|view| view.key == key) {
                view.gone = true;
            }
        }
        CHANGES.fetch_add(1, Ordering::Release);
        regions
    };
    let count = regions.len();
    // Dropping unregisters, and waits until the card has finished.
    drop(regions);
    count
}
