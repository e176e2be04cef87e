//! What the parts of a card share: memory, the network, registers of the node, pages that drivers map, time, and the
//! way to whoever runs the card.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use ggas_clock::Clock;

use super::pages::Pages;
use crate::memory::Memory;
use crate::network::fabric::Fabric;
use crate::node::NodeState;
use crate::units::counters::Counters;
use crate::units::smfu::Smfu;
use crate::units::snq::Trigger;
use crate::wake::Wake;

/// Whoever runs a card.
pub(super) trait Attend: Wake {
    /// Has the driver look after the card soon. From any thread.
    fn attend(&self);
}

/// Whether something arrived since a card last looked. The network has a hand on it that outlives the card.
#[derive(Clone, Default)]
pub(super) struct News(Arc<AtomicBool>);

impl News {
    #[inline]
    pub(super) fn tell(&self) {
        self.0.store(true, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The same; asking takes it.
    #[inline]
    pub(super) fn take(&self) -> bool {
        self.is_there() && self.0.swap(false, Ordering::AcqRel)
    }
}

pub(super) struct Board {
    pub(super) node: u16,
    /// What all processes of the node share.
    pub(super) state: NodeState,
    /// What this card's units count in: under the core lock only.
    pub(super) counters: Counters,
    pub(super) memory: Arc<dyn Memory>,
    pub(super) fabric: Arc<dyn Fabric>,
    pub(super) clock: Clock,
    pub(super) pages: Pages,
    pub(super) smfu: Smfu,
    bell: Weak<dyn Attend>,
    pub(super) news: News,
    /// Triggers of the system notification queue that it has not latched.
    triggers: AtomicU32,
    /// What an interrupt does.
    interrupt: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What a board is made of.
pub(super) struct Parts {
    pub(super) state: NodeState,
    pub(super) memory: Arc<dyn Memory>,
    pub(super) fabric: Arc<dyn Fabric>,
    pub(super) clock: Clock,
    pub(super) pages: Pages,
    pub(super) news: News,
}

impl Board {
    pub(super) fn new(parts: Parts, bell: Weak<dyn Attend>) -> Board {
        let Parts { state, memory, fabric, clock, pages, news } = parts;
        Board {
            node: state.node(),
            counters: state.counters(),
            smfu: state.smfu(),
            state,
            memory,
            fabric,
            clock,
            pages,
            bell,
            news,
            triggers: AtomicU32::new(0),
            interrupt: OnceLock::new(),
        }
    }

    /// Whom to wake when something that the card waits for is over.
    #[inline]
    pub(super) fn waker(&self) -> Weak<dyn Wake> {
        self.bell.clone()
    }

    /// Raises a trigger of the system notification queue (spec 8.4). From any thread.
    pub(super) fn raise(&self, trigger: Trigger) {
        self.triggers.fetch_or(trigger.bit(), Ordering::Release);
    }

    /// As [`Board::raise`], by who does not run the card.
    #[cold]
    pub(super) fn raise_from_outside(&self, trigger: Trigger) {
        // The kernel that drives a card whose node has other processes runs no queue.
        if !self.state.is_shared() {
            self.raise(trigger);
            if let Some(bell) = self.bell.upgrade() {
                bell.attend();
            }
        }
    }

    /// Whether a trigger was raised that the queue has not latched.
    #[inline]
    pub(super) fn has_triggers(&self) -> bool {
        self.triggers.load(Ordering::Relaxed) != 0
    }

    /// The triggers that were raised; asking takes them.
    #[inline]
    pub(super) fn take_triggers(&self) -> u32 {
        if self.has_triggers() { self.triggers.swap(0, Ordering::AcqRel) } else { 0 }
    }

    /// Sets what an interrupt does. The first call counts.
    pub(super) fn on_interrupt(&self, raise: impl Fn() + Send + Sync + 'static) {
        // A second one has no effect, as documented.
        let _ = self.interrupt.set(Box::new(raise));
    }

    /// Raises the card's interrupt.
    pub(super) fn interrupt(&self) {
        if let Some(raise) = self.interrupt.get() {
            raise();
        }
    }
}
