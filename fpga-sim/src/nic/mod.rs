//! The card: its units, and the real-time driver that feeds them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::engine::Engine;
use crate::fabric::{Fabric, FabricError};
use crate::memory::Memory;

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
}

impl NicConfig {
    /// A card with inline progress and the process's engine behind it.
    pub fn new(node: u16, memory: Arc<dyn Memory>, fabric: Arc<dyn Fabric>) -> NicConfig {
        NicConfig { node, memory, fabric, engine: Some(Engine::global()), inline: true }
    }
}

/// Why the card refused a call of its model-only part.
#[derive(Debug, thiserror::Error)]
pub enum NicError {
    /// The fabric did not take the node.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A slot ring must have a power of two of slots, be aligned to 8 bytes, and the VPID must have none yet.
    #[error("slot ring of VPID {vpid}: {reason}")]
    SlotRing {
        /// The VPID.
        vpid: u8,
        /// What is wrong, and what to do.
        reason: &'static str,
    },
    /// An SMFU load got no answer in time.
    #[error("no answer to a load of SMFU offset {offset:#x} within {waited:?}")]
    Timeout {
        /// Offset in the SMFU BAR.
        offset: u64,
        /// How long it waited.
        waited: Duration,
    },
    /// An SMFU access outside every interval.
    #[error(
        "SMFU offset {offset:#x} (+{len}) belongs to no interval; set one up, or use an address of the window"
    )]
    NoInterval {
        /// Offset in the SMFU BAR.
        offset: u64,
        /// Bytes.
        len: usize,
    },
}

/// A slot ring (model only, layout `struct ggas_slot`): 32-byte slots of three descriptor words and a sequence word,
/// stored last with release. Entry i uses slot `i & (count - 1)` and carries sequence i + 1, counted from the
/// attachment.
#[derive(Clone, Copy, Debug)]
pub struct SlotRing {
    /// First slot: `count` × 32 bytes, aligned to 8.
    pub base: *mut [u64; 4],
    /// Slots, a power of two.
    pub count: u32,
    /// The card stores here how many slots it has consumed so far, with release.
    pub consumed: *const AtomicU64,
    /// Page option of every descriptor of the ring (spec 2.1): 16 = NLAs, traffic class 0.
    pub option: u32,
}

/// One card. All calls are safe from any thread.
pub struct Nic {}

impl Nic {
    /// A card that is attached to its network, with every register at its reset value.
    pub fn new(_config: NicConfig) -> Result<Arc<Nic>, NicError> {
        unimplemented!()
    }
    /// Node id.
    pub fn node(&self) -> u16 {
        unimplemented!()
    }
    /// Reads a register by its offset in BAR 0 (spec 8). Unknown ones read 0.
    pub fn reg_read(&self, _offset: u64) -> u64 {
        unimplemented!()
    }
    /// Writes a register. Writes to unknown or read-only ones are ignored.
    pub fn reg_write(&self, _offset: u64, _value: u64) {
        unimplemented!()
    }
    /// Stores one word into the RMA requester BAR: the card path (spec 2.1, 2.4). `offset` is
    /// `option << 20 | vpid << 12 | 0, 8 or 16`; the words of a descriptor may come in any order. One thread at a
    /// time per VPID, as on the card.
    pub fn requester_store(&self, _offset: u64, _value: u64) {
        unimplemented!()
    }
    /// WCB state of a VPID (spec 2.4); alone on its page, for mapping.
    pub fn wcb_state(&self, _vpid: u8) -> &AtomicU64 {
        unimplemented!()
    }
    /// Read-pointer register of a VPID (spec 3.2); alone on its page, for mapping.
    pub fn rp_register(&self, _vpid: u8) -> &AtomicU64 {
        unimplemented!()
    }
    /// Stores into the SMFU BAR (trapped).
    pub fn smfu_store(&self, _offset: u64, _bytes: &[u8]) -> Result<(), NicError> {
        unimplemented!()
    }
    /// Loads from the SMFU BAR (trapped).
    pub fn smfu_load(&self, _offset: u64, _out: &mut [u8], _timeout: Duration) -> Result<(), NicError> {
        unimplemented!()
    }
    /// Gives a VPID a slot ring.
    ///
    /// # Safety
    /// `ring.base` and `ring.consumed` stay valid, and are accessed by others only atomically, until
    /// [`Nic::detach_slots`] returned.
    pub unsafe fn attach_slots(&self, _vpid: u8, _ring: SlotRing) -> Result<(), NicError> {
        unimplemented!()
    }
    /// Takes the slot ring back. When it returns, the card does not touch the ring any more.
    pub fn detach_slots(&self, _vpid: u8) {
        unimplemented!()
    }
    /// From now on someone (a GPU) stores into the VPID's slots without telling: keep polling. Calls count.
    pub fn arm(&self, _vpid: u8) {
        unimplemented!()
    }
    /// Ends one [`Nic::arm`].
    pub fn disarm(&self, _vpid: u8) {
        unimplemented!()
    }
    /// Runs whatever can run now, on the caller's thread, here and at the cards that this one sends to. Returns
    /// whether anything moved. Never waits for another thread that does the same.
    pub fn progress(&self) -> bool {
        unimplemented!()
    }
    /// Tells the card of new slot entries: runs it here (inline) or wakes its engine.
    pub fn kick(&self) {
        unimplemented!()
    }
    /// Sleeps until `ready` holds or the time is over; returns `ready`'s last answer. The card wakes sleepers
    /// after every notification it wrote for any of its VPIDs. Costs the card nothing while nobody sleeps.
    pub fn wait_notification(&self, _timeout: Duration, _ready: &mut dyn FnMut() -> bool) -> bool {
        unimplemented!()
    }
}
