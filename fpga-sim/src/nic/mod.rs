//! The card: its units, and the real-time driver that feeds them.
//!
//! The driver's part: memory is polled and real bytes move. Everything that a card does happens under its core
//! lock, on whichever thread runs it: a caller's ([`Nic::progress`]) or one of the [`Engine`]'s. Posting takes no
//! lock: descriptors go through a bounded queue for each VPID.

mod access;
mod bell;
mod core;
mod deputy;
mod event;
mod front;
mod lock;
mod pages;
mod ports;
mod post;
mod quantum;
mod receive;
mod registers;
mod send;
mod slots;
mod smfu;
mod snq;
mod velo;
mod velo_slots;

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use extoll_abi::PageOption;

use self::bell::Bell;
use self::core::{Core, Mood};
use self::event::Event;
use self::front::Fronts;
use self::lock::{CoreLock, Guard};
pub use self::pages::MAPPED_REGISTERS;
use self::pages::Pages;
pub use self::slots::SlotRing;
use self::velo::VeloFronts;
pub use self::velo_slots::{VELO_SLOT_WORDS, VeloSlotRing};
use crate::engine::Engine;
use crate::fabric::{Fabric, FabricError};
use crate::memory::Memory;
use crate::process::{NodeState, SharedNode};
use crate::smfu::Smfu;
use crate::wcb::Command;

/// What a card is made with.
pub struct NicConfig {
    /// Node id.
    pub node: u16,
    /// All memory that the card may reach; usually shared by all cards of the process.
    pub memory: Arc<dyn Memory>,
    /// The network.
    pub fabric: Arc<dyn Fabric>,
    /// The pool that runs the card in the background; `None`: only [`Nic::progress`] does (single-threaded tests).
    pub engine: Option<Arc<Engine>>,
    /// Run the card on the caller's thread as well, within [`Nic::requester_store`] and [`Nic::kick`].
    pub inline: bool,
    /// What the card shares with others of its node, in other processes; `None`: it is its node's only one.
    pub shared: Option<SharedNode>,
}

impl NicConfig {
    /// A card with inline progress and the process's engine behind it.
    pub fn new(node: u16, memory: Arc<dyn Memory>, fabric: Arc<dyn Fabric>) -> NicConfig {
        NicConfig { node, memory, fabric, engine: Some(Engine::global()), inline: true, shared: None }
    }
}

/// Why the card refused a call of its model-only part.
#[derive(Debug, thiserror::Error)]
pub enum NicError {
    /// The fabric did not take the node.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The card's node is not the one of its process ([`NicConfig::shared`]).
    #[error("rank {rank} of {processes} processes is not on node {node}; ask the job's shape for its node")]
    Rank {
        /// The rank.
        rank: u32,
        /// The node.
        node: u16,
        /// Processes of the job.
        processes: u32,
    },
    /// No address space for the register pages.
    #[error(
        "the card's register pages cannot be mapped: {0}; allow more memory mappings or start fewer cards"
    )]
    Pages(#[from] std::io::Error),
    /// A slot ring must have a power of two of slots, be aligned to 8 bytes, and the VPID must have none yet.
    #[error("slot ring of VPID {vpid}: {reason}")]
    SlotRing {
        /// The VPID.
        vpid: u8,
        /// What is wrong, and what to do.
        reason: &'static str,
    },
}

thread_local! {
    /// The card that this thread serves for an engine.
    static SERVED: Cell<*const Nic> = const { Cell::new(std::ptr::null()) };
}

/// One card. All calls are safe from any thread.
pub struct Nic {
    node: u16,
    /// What all processes of the node share.
    state: NodeState,
    inline: bool,
    memory: Arc<dyn Memory>,
    fabric: Arc<dyn Fabric>,
    /// The fabric has link work to do, at any time.
    has_links: bool,
    /// The fabric has to be asked for packets.
    polled: bool,
    engine: Option<Arc<Engine>>,
    bell: Arc<Bell>,
    pages: Pages,
    fronts: Fronts<Command, 3>,
    velo_fronts: VeloFronts,
    core: CoreLock,
    /// What the card needs while nobody calls it: a [`Mood`], kept here for the engine.
    mood: AtomicU8,
    /// Slot rings that someone fills without telling.
    armed: AtomicU32,
    /// The card lies in its engine's queue.
    in_engine: AtomicBool,
    /// The fabric knows the card.
    attached: AtomicBool,
    event: Event,
    smfu: Smfu,
    /// What an interrupt does.
    interrupt: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Nic {
    /// A card attached to its network, with every register at its reset value.
    ///
    /// # Errors
    /// [`NicError::Fabric`] for a node id that is taken or outside the network, [`NicError::Pages`].
    pub fn new(config: NicConfig) -> Result<Arc<Nic>, NicError> {
        Nic::with_pages(config, Pages::new()?)
    }

    /// As [`Nic::new`], with the [register pages](MAPPED_REGISTERS) in a file laid out as BAR 0 is, which others
    /// map. The caller has zeroed it; it has the register file's size at least and keeps it while the card lives.
    ///
    /// # Errors
    /// As [`Nic::new`].
    pub fn over_bar(config: NicConfig, bar: BorrowedFd<'_>) -> Result<Arc<Nic>, NicError> {
        Nic::with_pages(config, Pages::in_bar(bar)?)
    }

    fn with_pages(config: NicConfig, pages: Pages) -> Result<Arc<Nic>, NicError> {
        let state = match &config.shared {
            None => NodeState::private(config.node)?,
            Some(SharedNode { job, rank }) => {
                let (node, processes) = (config.node, job.shape().processes());
                let state = NodeState::shared(node, job, *rank);
                state.ok_or(NicError::Rank { rank: *rank, node, processes })?
            }
        };
        let nic = Arc::new_cyclic(|this| Nic {
            node: config.node,
            inline: config.inline,
            bell: Arc::new(Bell::new(this.clone(), config.engine.clone())),
            core: CoreLock::new(Core::new(config.node, state.counters())),
            memory: config.memory,
            has_links: config.fabric.has_links(),
            polled: config.fabric.polled(),
            fabric: config.fabric,
            engine: config.engine,
            pages,
            fronts: Fronts::default(),
            velo_fronts: VeloFronts::default(),
            mood: AtomicU8::new(Mood::Idle as u8),
            armed: AtomicU32::new(0),
            in_engine: AtomicBool::new(false),
            attached: AtomicBool::new(false),
            event: Event::default(),
            smfu: state.smfu(),
            interrupt: OnceLock::new(),
            state,
        });
        nic.fabric.attach(nic.node, nic.bell.clone())?;
        nic.attached.store(true, Ordering::Release);
        Ok(nic)
    }

    /// Node id.
    pub fn node(&self) -> u16 {
        self.node
    }

    /// Reads a register by its offset in BAR 0 (spec 8). Unknown ones read 0.
    pub fn reg_read(&self, offset: u64) -> u64 {
        self.expire_partial_lines(true);
        self.with_core(|core| core.reg_read(self, offset))
    }

    /// Writes a register. Writes to unknown or read-only ones are ignored.
    pub fn reg_write(&self, offset: u64, value: u64) {
        self.with_core(|core| core.reg_write(self, offset, value));
        self.kick();
    }

    /// Stores one word into the RMA requester BAR: the card path (spec 2.1, 2.4). `offset` is
    /// `option << 20 | vpid << 12 | 0, 8 or 16`; the words of a descriptor may come in any order. One thread at a
    /// time per VPID, as on the card; who breaks that garbles descriptors of this VPID only.
    #[inline]
    pub fn requester_store(&self, offset: u64, value: u64) {
        let (option, vpid, at) = PageOption::from_offset(offset);
        if let Some((front, command)) = self.fronts.store(self, option, vpid, at, value) {
            self.post(front, vpid, command);
        }
    }

    /// WCB state of a VPID (spec 2.4); alone on its page, for mapping.
    pub fn wcb_state(&self, vpid: u8) -> &AtomicU64 {
        self.pages.wcb_state(vpid)
    }

    /// Read-pointer register of a VPID (spec 3.2); alone on its page, for mapping.
    pub fn rp_register(&self, vpid: u8) -> &AtomicU64 {
        self.pages.rp(vpid)
    }

    /// Gives a VPID a slot ring (model only).
    ///
    /// # Errors
    /// [`NicError::SlotRing`].
    ///
    /// # Safety
    /// `ring.base` and `ring.consumed` stay valid, and are accessed by others only atomically, until
    /// [`Nic::detach_slots`] returned.
    pub unsafe fn attach_slots(&self, vpid: u8, ring: SlotRing) -> Result<(), NicError> {
        self.with_core(|core| core.attach_slots(vpid, ring))
    }

    /// Takes the slot ring back. When it returns, the card does not touch the ring any more.
    pub fn detach_slots(&self, vpid: u8) {
        self.with_core(|core| core.detach_slots(vpid));
    }

    /// From now on someone (a GPU) stores into the VPID's slots without telling: keep polling. Calls count.
    pub fn arm(&self, _vpid: u8) {
        self.armed.fetch_add(1, Ordering::AcqRel);
        self.ask_engine(true);
    }

    /// Ends one [`Nic::arm`].
    pub fn disarm(&self, _vpid: u8) {
        let less = |armed: u32| armed.checked_sub(1);
        // An unmatched call changes nothing.
        let _ = self.armed.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Runs whatever can run now, on the caller's thread, here and at the cards that this one sends to. Returns
    /// whether anything moved. Never waits for another thread that does the same.
    #[inline]
    pub fn progress(&self) -> bool {
        self.expire_partial_lines(false);
        bell::drive(self)
    }

    /// Tells the card of new work (slot entries, register pages): runs it here (inline) or has its engine do it.
    #[inline]
    pub fn kick(&self) {
        if self.inline {
            bell::drive(self);
        } else {
            self.bell.summon();
        }
    }

    /// Takes the card off its network, as dropping it does. What is under way to or from it is lost; its node id
    /// may be given to another card.
    pub fn detach(&self) {
        if self.attached.swap(false, Ordering::AcqRel) {
            self.fabric.detach(self.node);
        }
    }

    /// Sleeps until `ready` holds or the time is over; returns `ready`'s last answer. The card wakes sleepers
    /// after every notification that it wrote for any of its VPIDs, and after it freed slots. Costs the card
    /// nothing while nobody sleeps. `ready` may call the card.
    pub fn wait_notification(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> bool {
        self.event.wait(timeout, ready, || self.fabric.rest(self.node))
    }

    /// Has those who sleep in [`Nic::wait_notification`] look again.
    pub fn wake_sleepers(&self) {
        self.event.signal();
    }

    /// Whether everything that a VPID's page committed was carried out, as far as the requester goes: a driver
    /// waits for this before it closes the VPID, which forgets the rest.
    pub fn requester_idle(&self, vpid: u8) -> bool {
        self.fronts.is_empty(vpid) && self.with_core(|core| core.requester_idle(vpid))
    }

    /// Something that needs the core whatever it takes; then what others brought meanwhile.
    fn with_core<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        bell::after(|| {
            let mut core = self.core.lock();
            let result = work(&mut core);
            if let Some(core) = core.release() {
                self.run_held(core);
            }
            result
        })
    }

    /// Runs this card until nothing can move, or leaves it to the thread that does so now.
    #[inline]
    fn run(&self) -> bool {
        self.core.try_lock().is_some_and(|core| self.run_held(core))
    }

    /// Runs this card, and again for those who asked while it ran, but not for ever.
    #[inline]
    fn run_held(&self, mut core: Guard<'_>) -> bool {
        let mut moved = false;
        loop {
            moved |= core.run(self);
            let notified = std::mem::take(&mut core.notified);
            let mood = core.mood();
            self.mood.store(mood as u8, Ordering::Relaxed);
            let again = core.release();
            if notified {
                self.event.signal();
            }
            if mood != Mood::Idle {
                self.ask_engine(mood == Mood::Busy);
            }
            match again {
                // The engine sees to what they ask for, and the core to whoever comes first.
                Some(still) if self.engine.is_some() && bell::is_over() => {
                    self.mood.store(Mood::Busy as u8, Ordering::Relaxed);
                    drop(still);
                    self.ask_engine(true);
                    return moved;
                }
                Some(still) => core = still,
                None => return moved,
            }
        }
    }

    /// Has the engine look after the card; if `soon`, without finishing its nap first. The thread that serves the
    /// card for the engine knows what it needs anyway.
    #[cold]
    fn ask_engine(&self, soon: bool) {
        let served = std::ptr::eq(SERVED.get(), self);
        if served || !soon && self.in_engine.load(Ordering::Relaxed) {
            return;
        }
        if let (Some(engine), Some(this)) = (&self.engine, self.bell.nic()) {
            engine.submit(&this);
        }
    }

    /// For the engine: runs the card and everything that this leads to; says what it needs next.
    pub(crate) fn run_for_engine(&self) -> (bool, Need) {
        SERVED.set(self);
        let moved = self.progress();
        SERVED.set(std::ptr::null());
        let mood = Mood::from(self.mood.load(Ordering::Relaxed));
        let need = match mood {
            Mood::Busy => Need::Poll,
            _ if self.armed.load(Ordering::Acquire) > 0 => Need::Poll,
            Mood::Waiting => Need::Nap,
            Mood::Idle if self.fronts.any_partial() || self.velo_fronts.any_partial() => Need::Nap,
            Mood::Idle => Need::Nothing,
        };
        (moved, need)
    }

    /// The engine's mark on cards in its queue.
    pub(crate) fn in_engine(&self) -> &AtomicBool {
        &self.in_engine
    }

    #[inline]
    fn expire_partial_lines(&self, always: bool) {
        if self.fronts.any_partial() {
            self.fronts.expire(self, always);
        }
        if self.velo_fronts.any_partial() {
            self.velo_fronts.expire(self, always);
        }
    }
}

/// What a card needs from its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To be polled without a pause.
    Poll,
    /// To be looked at now and then.
    Nap,
    /// Nothing until someone submits it again.
    Nothing,
}

impl Drop for Nic {
    fn drop(&mut self) {
        self.detach();
    }
}

impl std::fmt::Debug for Nic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nic").field("node", &self.node).finish_non_exhaustive()
    }
}
