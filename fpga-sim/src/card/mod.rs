//! The card: its units, and the real-time driver that feeds them.
//!
//! The driver's part: memory is polled and real bytes move. Everything that a card does happens under its core
//! lock, on whichever thread runs it: a caller's ([`Nic::progress`]) or its [`Driver`]'s. Posting takes no
//! lock: descriptors go through a bounded queue for each VPID.

mod access;
mod ahead;
mod arming;
mod bell;
mod blocks;
mod board;
mod chip;
mod config;
mod core;
mod deputy;
mod driver;
mod front;
mod lock;
mod notifier;
mod offsets;
mod pages;
mod part;
mod per_vpid;
mod post;
mod quantum;
mod queue;
mod receiver;
mod run;
mod sender;
mod sending;
mod short;
mod slots;
mod smfu;
mod snq;
mod translation;
mod trigger_stores;
mod triggers;
mod velo;
mod window;
mod writing;

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use extoll_abi::{PageOption, velo_page_at};
use ggas_clock::{Clock, Event};
use ggas_members::Members;

use self::bell::Bell;
use self::board::{Attend, Board, News, Parts};
pub use self::config::{NicConfig, NicError};
use self::core::{Core, Mood};
pub use self::driver::Driver;
use self::front::FrontEnd;
use self::lock::CoreLock;
pub use self::pages::MAPPED_REGISTERS;
use self::pages::Pages;
pub(crate) use self::run::Need;
use self::slots::Ring;
pub use self::slots::{SlotRing, VELO_SLOT_WORDS, VeloSlotRing};
use crate::node::NodeState;

/// Commands or messages that one VPID may run before the next one's turn.
///
/// The loops that take a burst are written twice, for the RMA unit in `chip.rs` and for VELO in `velo.rs`: they share
/// nothing but their order. What they look at (notifications owed there, the last message here), what a slot becomes
/// and who executes it belongs to the unit; a trait of these steps would be longer than both pairs of loops.
const BURST: usize = 16;

/// One card. All calls are safe from any thread.
pub struct Nic {
    board: Arc<Board>,
    front: Arc<FrontEnd>,
    core: CoreLock<Core>,
    bell: Arc<Bell>,
    driver: Option<Arc<dyn Driver>>,
    inline: bool,
    /// Its pages are mapped by those who never call it: what they read there must change by itself.
    in_bar: bool,
    /// What the card needs while nobody calls it: a [`Mood`], kept here for the driver.
    mood: AtomicU8,
    /// Slot rings that someone fills without telling.
    armed: AtomicU32,
    /// The card lies in its driver's queue.
    submitted: AtomicBool,
    /// The driver looks at the card only once its fabric tells, or after a long nap.
    left_alone: AtomicBool,
    /// The fabric knows the card.
    attached: AtomicBool,
    event: Event,
}

impl Nic {
    /// A card attached to its network, with every register at its reset value.
    ///
    /// # Errors
    /// [`NicError::Fabric`] for a node id that is taken or outside the network, [`NicError::Pages`].
    pub fn new(config: NicConfig) -> Result<Arc<Nic>, NicError> {
        Nic::with_pages(config, Pages::new()?, false)
    }

    /// As [`Nic::new`], with the [register pages](MAPPED_REGISTERS) in a file laid out as BAR 0 is, which others
    /// map. The caller has zeroed it; it has the register file's size at least and keeps it while the card lives.
    ///
    /// # Errors
    /// As [`Nic::new`].
    pub fn over_bar(config: NicConfig, bar: BorrowedFd<'_>) -> Result<Arc<Nic>, NicError> {
        Nic::with_pages(config, Pages::in_bar(bar)?, true)
    }

    fn with_pages(config: NicConfig, pages: Pages, in_bar: bool) -> Result<Arc<Nic>, NicError> {
        let state = match &config.shared {
            None => NodeState::private(config.node)?,
            Some(nodes) => {
                let member = nodes.member().node();
                if member != config.node {
                    return Err(NicError::Elsewhere { node: config.node, member });
                }
                NodeState::shared(nodes)?
            }
        };
        let NicConfig { memory, fabric, driver, clock, inline, .. } = config;
        let parts = Parts { state: state.on(&clock), memory, fabric, clock, pages, news: News::default() };
        let nic = Arc::new_cyclic(|this| Nic::around(this, parts, driver, inline, in_bar));
        nic.board.fabric.attach(nic.node(), nic.bell.clone())?;
        nic.attached.store(true, Ordering::Release);
        Ok(nic)
    }

    fn around(
        this: &Weak<Nic>,
        parts: Parts,
        driver: Option<Arc<dyn Driver>>,
        inline: bool,
        in_bar: bool,
    ) -> Nic {
        let bell = Arc::new(Bell::new(this.clone(), driver.clone(), parts.news.clone()));
        let attend: Arc<dyn Attend> = bell.clone();
        let board = Arc::new(Board::new(parts, Arc::downgrade(&attend)));
        let front = Arc::new(FrontEnd::new(board.clone()));
        Nic {
            core: CoreLock::new(Core::new(&board, &front, driver.is_some())),
            board,
            front,
            bell,
            driver,
            inline,
            in_bar,
            mood: AtomicU8::new(Mood::Idle as u8),
            armed: AtomicU32::new(0),
            submitted: AtomicBool::new(false),
            left_alone: AtomicBool::new(false),
            attached: AtomicBool::new(false),
            event: Event::default(),
        }
    }

    /// The clock that the card reads.
    pub fn clock(&self) -> &Clock {
        &self.board.clock
    }

    /// Node id.
    pub fn node(&self) -> u16 {
        self.board.node
    }

    /// Reads a register by its offset in BAR 0 (spec 8). Unknown ones read 0.
    pub fn reg_read(&self, offset: u64) -> u64 {
        self.front.expire(true);
        self.with_core(|core| core.chip.reg_read(offset))
    }

    /// Writes a register. Writes to unknown or read-only ones are ignored.
    pub fn reg_write(&self, offset: u64, value: u64) {
        self.with_core(|core| core.chip.reg_write(offset, value));
        self.kick();
    }

    /// Stores one word into the RMA requester BAR: the card path (spec 2.1, 2.4). `offset` is
    /// `option << 20 | vpid << 12 | 0, 8 or 16`; the words of a descriptor may come in any order. One thread at a
    /// time per VPID, as on the card; who breaks that garbles descriptors of this VPID only.
    #[inline]
    pub fn requester_store(&self, offset: u64, value: u64) {
        let (option, vpid, at) = PageOption::from_offset(offset);
        let begun = || self.line_begun();
        if let Some((front, command)) = self.front.rma.store(&self.board, option, vpid, at, value, begun) {
            self.post(front, vpid, command);
        }
    }

    /// Stores the words of a descriptor in ascending order from `offset` on, the place of its first: as three times
    /// [`Nic::requester_store`], at once.
    #[inline]
    pub fn requester_line(&self, offset: u64, words: [u64; 3]) {
        let (option, vpid, at) = PageOption::from_offset(offset);
        if at == 0
            && let Some((front, command)) = self.front.rma.store_line(&self.board, option, vpid, words)
        {
            return self.post(front, vpid, command);
        }
        for (i, word) in words.into_iter().enumerate() {
            self.requester_store(offset + 8 * i as u64, word);
        }
    }

    /// WCB state of a VPID (spec 2.4); alone on its page, for mapping.
    pub fn wcb_state(&self, vpid: u8) -> &AtomicU64 {
        self.board.pages.wcb_state(vpid)
    }

    /// Read-pointer register of a VPID (spec 3.2); alone on its page, for mapping.
    pub fn rp_register(&self, vpid: u8) -> &AtomicU64 {
        self.board.pages.rp(vpid)
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
        let ring = Ring::of_descriptors(ring).map_err(|reason| NicError::SlotRing { vpid, reason })?;
        self.with_core(|core| core.chip.slots.attach(vpid, ring))
    }

    /// Takes the slot ring back. When it returns, the card does not touch the ring any more.
    pub fn detach_slots(&self, vpid: u8) {
        self.with_core(|core| core.chip.slots.detach(vpid));
    }

    /// From now on someone (a GPU) stores into the VPID's slots without telling: keep polling. Calls count.
    pub fn arm(&self, _vpid: u8) {
        self.armed.fetch_add(1, Ordering::AcqRel);
        self.ask_driver(true);
    }

    /// Ends one [`Nic::arm`], behind a look at what was stored last: nobody tells of that later.
    pub fn disarm(&self, _vpid: u8) {
        self.kick();
        let less = |armed: u32| armed.checked_sub(1);
        // An unmatched call changes nothing.
        let _ = self.armed.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Runs whatever can run now, on the caller's thread, here and at the cards that this one sends to. Returns
    /// whether anything moved. Never waits for another thread that does the same.
    #[inline]
    pub fn progress(&self) -> bool {
        self.front.expire(false);
        bell::drive(self)
    }

    /// Tells the card of new work (slot entries, register pages): runs it here (inline) or has its driver do it.
    #[inline]
    pub fn kick(&self) {
        if self.inline {
            bell::drive(self);
        } else {
            self.bell.summon();
        }
    }

    /// Takes the card off its network, as dropping it does. What is under way to or from it is lost; its node id
    /// may be given to another card, whoever still runs this one.
    pub fn detach(&self) {
        self.core.lock().turn_off();
        if self.attached.swap(false, Ordering::AcqRel) {
            self.board.fabric.detach(self.node());
        }
    }

    /// Sleeps until `ready` holds or the time is over; returns `ready`'s last answer. The card wakes sleepers
    /// after every notification that it wrote for any of its VPIDs, and after it freed slots. Costs the card
    /// nothing while nobody sleeps. `ready` may call the card.
    pub fn wait_notification(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> bool {
        self.event.wait(&self.board.clock, timeout, ready, || self.board.fabric.rest(self.node()))
    }

    /// Has those who sleep in [`Nic::wait_notification`] look again.
    pub fn wake_sleepers(&self) {
        self.event.signal();
    }

    /// Whether everything that a VPID's page committed was carried out, as far as the requester goes: a driver
    /// waits for this before it closes the VPID, which forgets the rest.
    pub fn requester_idle(&self, vpid: u8) -> bool {
        self.front.rma.is_empty(vpid) && self.with_core(|core| core.chip.requester_idle(vpid))
    }

    /// Stores words, ascending from `offset`, into the VELO requester BAR (spec 7): `offset` is
    /// `class << 20 | vpid << 12` and the place in the page, header at 0, payload behind it. The words of a message
    /// may come in any order and in any number of calls; with the last one it is on its way. A word that the header
    /// does not announce begins the next message's line. One thread at a time per VPID, as on the card.
    #[inline]
    pub fn velo_store(&self, offset: u64, words: &[u64]) {
        let (tc, vpid, at) = velo_page_at(offset);
        for (i, word) in words.iter().enumerate() {
            let at = at.saturating_add(8 * i as u16);
            let begun = || self.line_begun();
            if let Some((front, message)) = self.front.velo.store(&self.board, tc, vpid, at, *word, begun) {
                self.post(front, vpid, message);
            }
        }
    }

    /// WCB state of a VPID's VELO requester (spec 7); alone on its page, for mapping.
    pub fn velo_wcb_state(&self, vpid: u8) -> &AtomicU64 {
        self.board.pages.velo_wcb_state(vpid)
    }

    /// Read-pointer register of a VPID's mailbox (spec 7); alone on its page, for mapping.
    pub fn velo_rp_register(&self, vpid: u8) -> &AtomicU64 {
        self.board.pages.velo_rp(vpid)
    }

    /// Whether everything that a VPID's page committed is with the network; see [`Nic::requester_idle`].
    pub fn velo_idle(&self, vpid: u8) -> bool {
        self.front.velo.is_empty(vpid) && self.with_core(|core| core.chip.velo.can_send(vpid))
    }

    /// Gives a VPID's VELO requester a slot ring (model only).
    ///
    /// # Errors
    /// [`NicError::SlotRing`].
    ///
    /// # Safety
    /// `ring.base` and `ring.consumed` stay valid, and are accessed by others only atomically, until
    /// [`Nic::detach_velo_slots`] returned.
    pub unsafe fn attach_velo_slots(&self, vpid: u8, ring: VeloSlotRing) -> Result<(), NicError> {
        let ring = Ring::of_messages(ring).map_err(|reason| NicError::SlotRing { vpid, reason })?;
        self.with_core(|core| core.chip.velo.slots.attach(vpid, ring))
    }

    /// Takes the slot ring back. When it returns, the card does not touch the ring any more.
    pub fn detach_velo_slots(&self, vpid: u8) {
        self.with_core(|core| core.chip.velo.slots.detach(vpid));
    }

    /// Stores to the trigger page of a VPID (model only, `kmod/uapi/extoll/trigger.h`): `offset` in the page is that of
    /// FIRE, REARM, or the fields. From any thread; those that store fields take turns.
    #[inline]
    pub fn trigger_store(&self, vpid: u8, offset: u64, value: u64) {
        let stores = &self.front.triggers;
        let Some(stored) = stores.assemble(vpid, offset, value) else { return };
        if let Err(stored) = stores.push(vpid, stored) {
            // As posted stores to a card that is busy, it waits until the unit has taken what came before.
            self.with_core(|core| core.chip.triggers.take_behind(vpid, stored));
        }
        self.kick();
    }

    /// Gives the trigger unit of a VPID a slot ring (model only): entries are a tag and the words WHERE and WHAT.
    ///
    /// # Errors
    /// [`NicError::SlotRing`].
    ///
    /// # Safety
    /// As of [`Nic::attach_slots`], until [`Nic::detach_trigger_slots`] returned.
    pub unsafe fn attach_trigger_slots(&self, vpid: u8, ring: SlotRing) -> Result<(), NicError> {
        let ring = Ring::of_triggers(ring).map_err(|reason| NicError::SlotRing { vpid, reason })?;
        self.with_core(|core| core.chip.triggers.slots.attach(vpid, ring))
    }

    /// Takes the slot ring back. When it returns, the card does not touch the ring any more.
    pub fn detach_trigger_slots(&self, vpid: u8) {
        self.with_core(|core| core.chip.triggers.slots.detach(vpid));
    }

    /// Sets what an interrupt of the card does: it is called once for each, under the card's lock, and must neither
    /// wait nor call the card. The first call counts.
    pub fn on_interrupt(&self, raise: impl Fn() + Send + Sync + 'static) {
        self.board.on_interrupt(raise);
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        self.detach();
    }
}

impl std::fmt::Debug for Nic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nic").field("node", &self.node()).finish_non_exhaustive()
    }
}
