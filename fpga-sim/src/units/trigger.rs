//! Triggered operations (GPU-TN; model only): tags are counted, and the operation that waits for a count is started
//! when it is reached, exactly once.
//!
//! One table for each VPID. An entry has a tag, a count, and, once it is registered, a threshold and an operation. A
//! trigger may come before its tag is registered: it makes an entry without an operation, which registering joins.
//! The unit knows no operation: it hands back what was registered. Where a card lacks the unit, a thread of the host
//! counts with this same table.

use std::collections::HashMap;

use extoll_abi::regs::*;
use extoll_abi::{Descriptor, Header, Request};

/// How tags are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// A comparator for each entry, all at once: at most 16, as in the paper's prototype.
    Associative,
    /// A hash table.
    #[default]
    Hash,
    /// A list, compared one after the other.
    List,
}

impl Lookup {
    /// Most entries of such a table.
    pub const fn most(self) -> u32 {
        (match self {
            Lookup::Associative => EXTOLL_TRIGGER_ASSOCIATIVE_MAX,
            Lookup::Hash => EXTOLL_TRIGGER_HASH_MAX,
            Lookup::List => EXTOLL_TRIGGER_LIST_MAX,
        }) as u32
    }

    /// As the control register names it.
    pub const fn bits(self) -> u64 {
        match self {
            Lookup::Associative => EXTOLL_TRIGGER_ASSOCIATIVE,
            Lookup::Hash => EXTOLL_TRIGGER_HASH,
            Lookup::List => EXTOLL_TRIGGER_LIST,
        }
    }

    /// From the control register.
    pub const fn from_bits(bits: u64) -> Option<Lookup> {
        match bits {
            EXTOLL_TRIGGER_ASSOCIATIVE => Some(Lookup::Associative),
            EXTOLL_TRIGGER_HASH => Some(Lookup::Hash),
            EXTOLL_TRIGGER_LIST => Some(Lookup::List),
            _ => None,
        }
    }
}

/// What a trigger may bring besides its tag: words WHERE and WHAT (`kmod/uapi/extoll/trigger.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Offsets.
    pub at: u64,
    /// Size and target.
    pub what: u64,
}

impl Fields {
    /// A put or get with what the trigger brought; `None` where the descriptor is neither.
    pub fn applied(self, descriptor: &Descriptor) -> Option<(Header, Request)> {
        let Fields { at, what } = self;
        let (mut header, mut request) = descriptor.decode().ok()?;
        let (local, remote, size) = match &mut request {
            Request::Put { read, write, size, .. } => (read, write, size),
            Request::Get { read, write, size, .. } => (write, read, size),
            _ => return None,
        };
        *local = local.wrapping_add(TRIGGER_LOCAL.get(at));
        *remote = remote.wrapping_add(TRIGGER_REMOTE.get(at));
        let given = TRIGGER_SIZE.get(what);
        if given != 0 {
            *size = given as u32;
        }
        if TRIGGER_HAS_TARGET.is_set(what) {
            header.dst.node = TRIGGER_NODE.get(what) as u16;
            header.dst.vpid = TRIGGER_VPID.get(what) as u8;
        }
        Some((header, request))
    }
}

/// An operation to register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration<Op> {
    /// What triggers name.
    pub tag: u64,
    /// Triggers that start it; not 0.
    pub threshold: u32,
    /// Whether triggers may bring fields.
    pub takes_fields: bool,
    /// What is started.
    pub operation: Op,
}

/// An operation that is to be carried out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started<Op> {
    /// Its tag.
    pub tag: u64,
    /// The operation.
    pub operation: Op,
    /// The fields that its triggers brought last.
    pub fields: Option<Fields>,
    /// How often it has been started, this time included, modulo 2^32.
    pub times: u32,
}

/// Why the table did not do what was asked.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No room for another tag.
    #[error(
        "the table holds {0} tags, as many as it can: make it larger, or cancel operations that were started"
    )]
    Full(u32),
    /// The tag waits for its threshold.
    #[error(
        "the tag is registered, and its operation was not started yet: cancel it first, or take another tag"
    )]
    Taken,
    /// No such tag, or nothing is registered for it.
    #[error("nothing is registered for this tag")]
    Unknown,
    /// Re-armed before it was started.
    #[error("the operation was not started yet: its count has not reached its threshold")]
    Waits,
    /// Threshold 0.
    #[error("a threshold of 0 would start the operation before any trigger: use 1 or more")]
    Threshold,
    /// A trigger brought fields that the operation does not take.
    #[error("the operation takes no fields: register it with fields")]
    NoFields,
    /// The tag counted 2^32 - 1 triggers.
    #[error("the tag has counted as far as it can: re-arm or cancel it")]
    Count,
}

ggas_errors::debug_as_display!(Refusal);

/// What the table has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tags in the table.
    pub used: u64,
    /// Of them without an operation.
    pub unregistered: u64,
    /// Of them with an operation that was not started.
    pub waiting: u64,
    /// Operations started so far.
    pub started: u64,
    /// Triggers that nothing counted, since the table was full.
    pub refused: u64,
    /// Triggers of operations that were started already: they count for the next time.
    pub late: u64,
    /// Re-arming, fields and counts that could not be.
    pub failed: u64,
    /// Tags that lookups compared, one after the other.
    pub compared: u64,
}

struct Entry<Op> {
    tag: u64,
    count: u32,
    /// 0: nothing is registered.
    threshold: u32,
    times: u32,
    /// Its operation waits for the threshold.
    armed: bool,
    takes_fields: bool,
    used: bool,
    fields: Option<Box<Fields>>,
    operation: Option<Op>,
}

/// The table of one VPID.
pub struct Triggers<Op> {
    lookup: Lookup,
    most: u32,
    entries: Vec<Entry<Op>>,
    /// Entries that are not used.
    free: Vec<u32>,
    index: HashMap<u64, u32>,
    counts: Counts,
}

impl<Op: Copy> Triggers<Op> {
    /// An empty table for `most` tags at once; memory grows with what is registered. `None` for 0, and for more than
    /// the lookup [can](Lookup::most).
    pub fn new(lookup: Lookup, most: u32) -> Option<Triggers<Op>> {
        (1..=lookup.most()).contains(&most).then(|| Triggers {
            lookup,
            most,
            entries: Vec::new(),
            free: Vec::new(),
            index: HashMap::new(),
            counts: Counts::default(),
        })
    }

    /// Registers an operation, joining what its tag has counted; starts it if that suffices. A tag whose operation was
    /// started gets a new one, and keeps what it counted beyond the old threshold.
    pub fn register(&mut self, new: &Registration<Op>) -> Result<Option<Started<Op>>, Refusal> {
        if new.threshold == 0 {
            return Err(Refusal::Threshold);
        }
        let at = match self.find(new.tag) {
            Some(at) if self.entries[at].armed => return Err(Refusal::Taken),
            Some(at) => at,
            None => self.add(new.tag)?,
        };
        let entry = &mut self.entries[at];
        if entry.operation.is_none() {
            self.counts.unregistered -= 1;
        }
        entry.count -= entry.threshold.min(entry.count);
        (entry.threshold, entry.armed) = (new.threshold, true);
        (entry.operation, entry.takes_fields) = (Some(new.operation), new.takes_fields);
        if !new.takes_fields && entry.fields.take().is_some() {
            self.counts.failed += 1;
        }
        self.counts.waiting += 1;
        Ok(self.start(at))
    }

    /// Counts a trigger, and starts the operation whose threshold it reaches.
    pub fn trigger(&mut self, tag: u64, fields: Option<Fields>) -> Result<Option<Started<Op>>, Refusal> {
        let found = self.find(tag);
        let at = match found {
            Some(at) => at,
            None => self.add(tag).inspect_err(|_| self.counts.refused += 1)?,
        };
        let entry = &mut self.entries[at];
        let refusal = if entry.count == u32::MAX {
            Some(Refusal::Count)
        } else {
            (fields.is_some() && entry.operation.is_some() && !entry.takes_fields)
                .then_some(Refusal::NoFields)
        };
        if let Some(refusal) = refusal {
            self.counts.failed += 1;
            return Err(refusal);
        }
        entry.count += 1;
        if let Some(fields) = fields {
            entry.fields = Some(Box::new(fields));
        }
        if entry.operation.is_some() && !entry.armed {
            self.counts.late += 1;
        }
        Ok(self.start(at))
    }

    /// Takes the threshold off what the tag of a started operation has counted, and waits for it again; starts the
    /// operation at once if what is left suffices.
    pub fn rearm(&mut self, tag: u64) -> Result<Option<Started<Op>>, Refusal> {
        let at = self.find(tag).filter(|at| self.entries[*at].operation.is_some());
        let refusal = match at {
            None => Refusal::Unknown,
            Some(at) if self.entries[at].armed => Refusal::Waits,
            Some(at) => {
                let entry = &mut self.entries[at];
                entry.count -= entry.threshold;
                entry.armed = true;
                self.counts.waiting += 1;
                return Ok(self.start(at));
            }
        };
        self.counts.failed += 1;
        Err(refusal)
    }

    /// Forgets a tag; returns what it had counted.
    pub fn cancel(&mut self, tag: u64) -> Result<u32, Refusal> {
        let at = self.find(tag).ok_or(Refusal::Unknown)?;
        let entry = &mut self.entries[at];
        self.counts.waiting -= u64::from(entry.armed);
        self.counts.unregistered -= u64::from(entry.operation.is_none());
        self.counts.used -= 1;
        (entry.used, entry.armed, entry.operation, entry.fields) = (false, false, None, None);
        let count = entry.count;
        self.free.push(at as u32);
        self.index.remove(&tag);
        Ok(count)
    }

    /// What a tag has counted since it was last re-armed.
    pub fn count(&mut self, tag: u64) -> Option<u32> {
        self.find(tag).map(|at| self.entries[at].count)
    }

    /// What the table has seen.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Tags that it has room for.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// How it looks tags up.
    pub fn lookup(&self) -> Lookup {
        self.lookup
    }

    /// Bytes of memory in use, without those of fields.
    pub fn bytes(&self) -> usize {
        let index = self.index.capacity() * (size_of::<(u64, u32)>() + 1);
        self.entries.capacity() * size_of::<Entry<Op>>() + self.free.capacity() * size_of::<u32>() + index
    }

    fn find(&mut self, tag: u64) -> Option<usize> {
        if self.lookup == Lookup::Hash {
            self.counts.compared += 1;
            return self.index.get(&tag).map(|at| *at as usize);
        }
        let at = self.entries.iter().position(|entry| entry.used && entry.tag == tag);
        self.counts.compared += match self.lookup {
            Lookup::List => at.map_or(self.entries.len(), |at| at + 1) as u64,
            _ => 1,
        };
        at
    }

    /// An entry for a tag that has none, without an operation.
    fn add(&mut self, tag: u64) -> Result<usize, Refusal> {
        if self.counts.used >= u64::from(self.most) {
            return Err(Refusal::Full(self.most));
        }
        let entry = Entry {
            tag,
            count: 0,
            threshold: 0,
            times: 0,
            armed: false,
            takes_fields: false,
            used: true,
            fields: None,
            operation: None,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at as usize
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        if self.lookup == Lookup::Hash {
            self.index.insert(tag, at as u32);
        }
        self.counts.used += 1;
        self.counts.unregistered += 1;
        Ok(at)
    }

    /// Starts the operation of an entry if it waits and its count suffices.
    fn start(&mut self, at: usize) -> Option<Started<Op>> {
        let entry = &mut self.entries[at];
        let operation = entry.operation.filter(|_| entry.armed && entry.count >= entry.threshold)?;
        entry.armed = false;
        entry.times = entry.times.wrapping_add(1);
        self.counts.waiting -= 1;
        self.counts.started += 1;
        let fields = entry.fields.take().map(|fields| *fields);
        Some(Started { tag: entry.tag, operation, fields, times: entry.times })
    }
}

#[cfg(test)]
#[path = "trigger_tests.rs"]
mod tests;
