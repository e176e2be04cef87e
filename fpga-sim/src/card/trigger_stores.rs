//! The front end of the trigger unit (model only): what is stored to the trigger pages waits here for the unit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use extoll_abi::regs::*;

use crate::units::bits::{AtomicVpidSet, VpidSet};
use crate::units::trigger::Fields;

/// Stores of one VPID that wait for the unit; the next one waits itself.
const FIFO: usize = 256;

/// What a store to a trigger page, or an entry of a slot ring, asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stored {
    /// Count one.
    Fire { tag: u64, fields: Option<Fields> },
    /// Wait for the threshold again.
    Rearm { tag: u64 },
}

impl Stored {
    /// As a slot ring has it.
    pub(super) fn of_slot([tag, at, what]: [u64; 3]) -> Stored {
        if TRIGGER_IS_REARM.is_set(what) {
            return Stored::Rearm { tag };
        }
        Stored::Fire { tag, fields: TRIGGER_HAS_FIELDS.is_set(what).then_some(Fields { at, what }) }
    }
}

/// One VPID's.
struct Page {
    fifo: ArrayQueue<Stored>,
    at: AtomicU64,
    what: AtomicU64,
}

/// All VPIDs'.
pub(super) struct TriggerStores {
    pages: [OnceLock<Box<Page>>; 256],
    ready: AtomicVpidSet,
}

impl Default for TriggerStores {
    fn default() -> Self {
        TriggerStores { pages: [const { OnceLock::new() }; 256], ready: AtomicVpidSet::default() }
    }
}

impl TriggerStores {
    #[inline]
    fn page(&self, vpid: u8) -> &Page {
        self.pages[usize::from(vpid)].get_or_init(|| {
            let fifo = ArrayQueue::new(FIFO);
            Box::new(Page { fifo, at: AtomicU64::new(0), what: AtomicU64::new(0) })
        })
    }

    /// What a store to a page asks for; `None` for fields, which the next FIRE_FIELDS takes, and for other offsets.
    #[inline]
    pub(super) fn assemble(&self, vpid: u8, offset: u64, value: u64) -> Option<Stored> {
        let page = self.page(vpid);
        match offset {
            EXTOLL_TRIGGER_FIRE => Some(Stored::Fire { tag: value, fields: None }),
            EXTOLL_TRIGGER_REARM => Some(Stored::Rearm { tag: value }),
            EXTOLL_TRIGGER_FIRE_FIELDS => {
                let [at, what] = [&page.at, &page.what].map(|word| word.load(Ordering::Relaxed));
                Some(Stored::Fire { tag: value, fields: Some(Fields { at, what }) })
            }
            EXTOLL_TRIGGER_WHERE => {
                page.at.store(value, Ordering::Relaxed);
                None
            }
            EXTOLL_TRIGGER_WHAT => {
                page.what.store(value, Ordering::Relaxed);
                None
            }
            _ => None,
        }
    }

    /// Queues it for the unit; gives it back where there is no room.
    pub(super) fn push(&self, vpid: u8, stored: Stored) -> Result<(), Stored> {
        self.page(vpid).fifo.push(stored)?;
        self.ready.add(vpid);
        Ok(())
    }

    /// Whether any wait.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.ready.any()
    }

    /// Adds VPIDs with stores that wait, to be asked for by [`TriggerStores::pop`] until it says `None`.
    pub(super) fn take_ready(&self, ready: &mut VpidSet) {
        self.ready.take_into(ready);
    }

    pub(super) fn pop(&self, vpid: u8) -> Option<Stored> {
        self.pages[usize::from(vpid)].get()?.fifo.pop()
    }
}
