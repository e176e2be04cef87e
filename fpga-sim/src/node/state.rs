//! What the processes of a node share: which registers are the node's, and access to them.
//!
//! A card that has its node to itself has the same state, in memory of its own. So there is one register file in
//! two parts: this one, and what belongs to the process that serves a VPID ([`crate::card`]). `README.md` has the
//! table of both.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use ggas_clock::Clock;

use extoll_abi::{Address, regs::*};

use ggas_members::Members;
use ggas_members::memory::{Mapping, Part};

use super::block::{self, NodeBlock, ProcessBlock};
use super::nodes::{Nodes, Seat};
use super::owner::Owner;
use super::plain::plain;
use crate::packet::{NOBODY, Packet};
use crate::short_put::ShortPut;
use crate::units::counters::{CounterBlock, Counters, NodeCounters, WcbError};
use crate::units::smfu::{Registers, Smfu};
use crate::units::velo::{RxDesc, TxDesc};
use crate::units::vpid::VpidEntry;

/// info.driver: version of the model's register file.
const VERSION: u64 = 2;

/// A node, as one process sees it: one of the node's, or one that acts for it.
pub(crate) struct NodeState {
    node: u16,
    /// The network's nodes and this process, where it is one of several.
    shared: Option<(Arc<Nodes>, Owner)>,
    block: Part<NodeBlock>,
    /// What this process counts in.
    counters: Part<CounterBlock>,
    /// The node has no other processes: its registers are this one's alone.
    whole: bool,
    clock: Clock,
    /// Its place on the node.
    _seat: Option<Seat>,
}

impl NodeState {
    /// State that no other process sees.
    pub fn private(node: u16) -> io::Result<NodeState> {
        let memory = Arc::new(Mapping::private(block::BYTES)?);
        // SAFETY: blocks are made of atomics.
        let block = Part::of(&memory, |map| unsafe { map.at::<NodeBlock>(0) });
        // SAFETY: as above.
        let process = Part::of(&memory, |map| unsafe { map.at::<ProcessBlock>(block::process_at(0)) });
        block.reset();
        let counters = process.part(|own| &own.counters.0);
        Ok(NodeState { node, shared: None, block, counters, whole: true, clock: Clock::real(), _seat: None })
    }

    /// The same, with the time of `clock` in its time stamp counter.
    pub fn on(self, clock: &Clock) -> NodeState {
        NodeState { clock: clock.clone(), ..self }
    }

    /// State of this member's node: with others, or of a node that it has taken as a whole ([`Nodes::take_node`]).
    pub fn shared(nodes: &Arc<Nodes>) -> io::Result<NodeState> {
        let member = nodes.member();
        let (node, me) = (member.node(), Owner::of(member.me()));
        if nodes.has_node() {
            // What it sends is seen by others, who read the network's registers.
            let (shared, _seat) = (Some((nodes.clone(), me)), Some(nodes.seat()?));
            return Ok(NodeState { shared, _seat, ..NodeState::private(node)? });
        }
        let seat = nodes.seat()?;
        let block = nodes.node_part(node).ok_or(io::ErrorKind::NotFound)?;
        let counters = seat.counters();
        let shared = Some((nodes.clone(), me));
        Ok(NodeState { node, shared, block, counters, whole: false, clock: Clock::real(), _seat: Some(seat) })
    }

    /// State of any node of this network, for a process that acts for it; `None` where there is no such node. What is
    /// counted meanwhile is the node's once [`NodeState::settle`] was called.
    pub fn act_for(&self, node: u16) -> Option<NodeState> {
        let (nodes, me) = self.shared.as_ref()?;
        let block = nodes.node_part(node)?;
        let shared = Some((nodes.clone(), *me));
        Some(NodeState {
            node,
            shared,
            block,
            counters: Part::default(),
            whole: false,
            clock: Clock::real(),
            _seat: None,
        })
    }

    /// Adds to the node's counters what was counted here (see [`NodeState::act_for`]).
    pub fn settle(&self) {
        self.block.deputies.take_from(&self.counters);
    }

    /// Node id.
    pub fn node(&self) -> u16 {
        self.node
    }

    /// What the units of this process's card count in.
    pub fn counters(&self) -> Counters {
        Counters::new(self.counters.clone())
    }

    /// The SMFU, with the node's registers.
    pub fn smfu(&self) -> Smfu {
        let registers = self.block.part(|node| &node.smfu);
        Smfu::shared(self.node, registers, self.block.part(|node| &node.smfu_refused))
    }

    /// Takes the node's SMFU, or this process's seat there, for this process. Who has it, where that is another one.
    pub fn claim_smfu(&self) -> Result<(), u32> {
        let seat = self.smfu_seat();
        match &self.shared {
            Some((nodes, _)) if !self.whole && !nodes.claim_smfu(seat) => {
                Err(nodes.smfu_owner(Address::new(self.node, seat)).map_or(0, |owner| owner.slot))
            }
            _ => Ok(()),
        }
    }

    /// What packets of the SMFU that this process makes have for a VPID: answers come back to it.
    pub fn smfu_seat(&self) -> u8 {
        self.shared.as_ref().map_or(0, |(nodes, _)| nodes.smfu_seat())
    }

    /// Gives the node's SMFU back.
    pub fn release_smfu(&self) {
        if let Some((nodes, _)) = self.shared.as_ref().filter(|_| !self.whole) {
            nodes.release_smfu();
        }
    }

    /// Whether this process is the one that answers for a VPID's own registers.
    pub fn serves(&self, vpid: u8) -> bool {
        self.whole || self.shared.as_ref().is_none_or(|(_, me)| self.owner(vpid) == *me)
    }

    #[inline]
    fn owner(&self, vpid: u8) -> Owner {
        Owner(self.block.owners[usize::from(vpid)].load(Acquire))
    }

    /// Whether other processes may be on this node.
    #[inline]
    pub fn is_shared(&self) -> bool {
        !self.whole
    }

    /// Whether a packet that came to this process is for nobody here: this process acts for its target.
    #[inline]
    pub fn is_foreign(&self, packet: &Packet) -> bool {
        self.shared.is_some() && !self.takes(packet)
    }

    /// The same of a short put.
    #[inline]
    pub fn is_foreign_put(&self, put: &ShortPut) -> bool {
        self.shared.is_some()
            && !self.takes_from((put.process, put.destination), |_| self.owner(put.destination.vpid))
    }

    /// Whether a packet is for a VPID, or an SMFU, that this process serves.
    fn takes(&self, packet: &Packet) -> bool {
        let to = packet.destination;
        self.takes_from((packet.process, to), |nodes| match packet.kind {
            kind if kind.is_smfu() => nodes.smfu_word(to),
            _ => self.owner(to.vpid),
        })
    }

    fn takes_from(&self, (process, to): (u32, Address), owner: impl FnOnce(&Nodes) -> Owner) -> bool {
        if process == NOBODY {
            return false;
        }
        if self.whole || to.node != self.node {
            return to.node == self.node;
        }
        self.shared.as_ref().is_some_and(|(nodes, me)| *me == owner(nodes))
    }

    /// Counts an SMFU packet that nobody took.
    pub fn refuse_smfu(&self) {
        self.block.smfu_refused.fetch_add(1, Relaxed);
    }

    /// Entry of the VPID table.
    #[inline]
    pub fn entry(&self, vpid: u8) -> VpidEntry {
        VpidEntry(self.block.vpids[usize::from(vpid)].load(Relaxed))
    }

    /// Writes an entry of the VPID table; returns the one before.
    pub fn set_entry(&self, vpid: u8, entry: VpidEntry) -> VpidEntry {
        VpidEntry(self.block.vpids[usize::from(vpid)].swap(entry.0, AcqRel))
    }

    /// RMA configuration register.
    #[inline]
    pub fn config(&self) -> u64 {
        self.block.config.load(Relaxed)
    }

    /// Lock configuration register.
    #[inline]
    pub fn lock_config(&self) -> u64 {
        self.block.lock_config.load(Relaxed)
    }

    /// General register of the buffer queues.
    #[inline]
    pub fn bq_general(&self) -> u64 {
        self.block.bq_general.load(Relaxed)
    }

    /// Notes that a queue dropped a notification (spec 3.2).
    pub fn count_queue_error(&self, vpid: u8) {
        count_dropped(&self.block.bq_general, vpid, 1);
    }

    /// Timeout register of the buffer queues.
    #[inline]
    pub fn bq_timeout(&self) -> u64 {
        self.block.bq_timeout.load(Relaxed)
    }

    /// Timeout register of the WCBs.
    #[inline]
    pub fn wcb_timeout(&self) -> u64 {
        self.block.wcb_timeout.load(Relaxed)
    }

    /// Counts an error of a WCB of this process.
    #[cold]
    pub fn count_wcb_error(&self, error: WcbError, vpid: u8) {
        self.counters.wcb_error(error);
        self.block.wcb_vpid.store(u32::from(vpid), Relaxed);
    }

    /// What a VPID sends as over VELO (spec 7).
    #[inline]
    pub fn velo_tx(&self, vpid: u8) -> TxDesc {
        TxDesc(self.block.velo.tx[usize::from(vpid)].load(Relaxed))
    }

    /// What a VPID receives over VELO (spec 7).
    #[inline]
    pub fn velo_rx(&self, vpid: u8) -> RxDesc {
        RxDesc(self.block.velo.rx[usize::from(vpid)].load(Relaxed))
    }

    /// Writes that; returns what was there.
    pub fn set_velo_rx(&self, vpid: u8, rx: RxDesc) -> RxDesc {
        RxDesc(self.block.velo.rx[usize::from(vpid)].swap(rx.0, AcqRel))
    }

    /// General register of the mailboxes' buffer queues.
    #[inline]
    pub fn velo_general(&self) -> u64 {
        self.block.velo.bq_general.load(Relaxed)
    }

    /// Timeout register of VELO.
    pub fn velo_timeout(&self) -> u64 {
        self.block.velo.timeout.load(Relaxed)
    }

    /// Timeout register of VELO's WCBs.
    #[inline]
    pub fn velo_wcb_timeout(&self) -> u64 {
        self.block.velo.wcb_timeout.load(Relaxed)
    }

    /// Notes that a mailbox dropped messages (spec 3.2).
    #[cold]
    pub fn count_mailbox_errors(&self, vpid: u8, dropped: u32) {
        count_dropped(&self.block.velo.bq_general, vpid, dropped);
    }

    /// Counts an error of one of VELO's WCBs of this process.
    #[cold]
    pub fn count_velo_wcb_error(&self, error: WcbError, vpid: u8) {
        self.counters.velo_wcb_error(error);
        self.block.velo.wcb_vpid.store(u64::from(vpid), Relaxed);
    }

    fn all_counters(&self) -> NodeCounters<'_, impl Iterator<Item = &CounterBlock> + Clone> {
        let deputies = std::iter::once(&self.block.deputies);
        let others = self.shared.as_ref().filter(|_| !self.whole);
        let shared = others.into_iter().flat_map(|(nodes, _)| nodes.counters_of(self.node));
        let own = self.whole.then_some(&*self.counters);
        NodeCounters { cleared: &self.block.cleared, blocks: deputies.chain(shared).chain(own) }
    }

    /// A register that is a word of its own.
    fn word(&self, offset: u64) -> Option<&AtomicU64> {
        let node = &*self.block;
        Some(match offset {
            EXTOLL_RF_BQ_RMA_GENERAL => &node.bq_general,
            EXTOLL_RF_RMA_WCB_TIMEOUT => &node.wcb_timeout,
            EXTOLL_RF_RMA_CONFIG => &node.config,
            EXTOLL_RF_RMA_LOCK_CONFIG => &node.lock_config,
            EXTOLL_RF_RMA_BQ_TIMEOUT => &node.bq_timeout,
            EXTOLL_RF_BQ_VELO_GENERAL => &node.velo.bq_general,
            EXTOLL_RF_VELO_WCB_TIMEOUT => &node.velo.wcb_timeout,
            EXTOLL_RF_VELO_WCB_ERRORS_2 => &node.velo.wcb_vpid,
            EXTOLL_RF_VELO_TIMEOUT => &node.velo.timeout,
            EXTOLL_RF_VELO_COMPLETER => &node.velo.completer,
            EXTOLL_RF_VELO_TX..EXTOLL_RF_VELO_RX => &node.velo.tx[(offset - EXTOLL_RF_VELO_TX) as usize / 8],
            EXTOLL_RF_VELO_RX..EXTOLL_RF_VELO_TIMEOUT => {
                &node.velo.rx[(offset - EXTOLL_RF_VELO_RX) as usize / 8]
            }
            _ => &node.plain[plain(offset)?],
        })
    }

    fn vpid(offset: u64) -> Option<u8> {
        let from = offset.checked_sub(EXTOLL_RF_RMA_VPID_TABLE)?;
        u8::try_from(from / EXTOLL_RF_RMA_VPID_TABLE_STRIDE).ok()
    }

    /// Reads a register of the node (`offset` a multiple of 8); `None` for those that belong to the process that
    /// serves a VPID, and those of the network.
    pub fn read(&self, offset: u64) -> Option<u64> {
        match offset {
            EXTOLL_RF_INFO_DRIVER => return Some(VERSION),
            EXTOLL_RF_INFO_NODE => {
                return Some(INFO_NODE.put(u64::from(self.node)) | INFO_VPIDS.put(EXTOLL_VPIDS));
            }
            EXTOLL_RF_INFO_TSC => return Some(self.tsc()),
            EXTOLL_RF_RMA_WCB_ERRORS_2 => return Some(u64::from(self.block.wcb_vpid.load(Relaxed))),
            _ => {}
        }
        if let Some(vpid) = NodeState::vpid(offset) {
            return Some(self.entry(vpid).0);
        }
        if let Some(value) = self.all_counters().read(offset) {
            return Some(value);
        }
        match self.word(offset) {
            Some(word) => Some(word.load(Acquire)),
            None => self.smfu_registers().read(offset, true),
        }
    }

    /// Writes a register of the node (`offset` a multiple of 8); false for others, see [`NodeState::read`].
    pub fn write(&self, offset: u64, value: u64) -> bool {
        if let Some(vpid) = NodeState::vpid(offset) {
            self.set_entry(vpid, VpidEntry(value));
            return true;
        }
        if self.all_counters().write(offset, value) {
            return true;
        }
        match self.word(offset) {
            Some(word) => {
                word.store(value, Release);
                true
            }
            None => self.smfu_registers().write(offset, value),
        }
    }

    /// Time stamp counter: microseconds, 48 bits.
    fn tsc(&self) -> u64 {
        self.clock.time_of_day().as_micros() as u64 & 0xffff_ffff_ffff
    }

    fn smfu_registers(&self) -> Registers {
        Registers(self.block.part(|node| &node.smfu))
    }
}

/// Notes in a buffer queues' general register that queue `vpid` dropped entries (spec 3.2).
fn count_dropped(register: &AtomicU64, vpid: u8, dropped: u32) {
    let next = |general: u64| {
        let errors = BQ_ERRORS.get(general).wrapping_add(u64::from(dropped)) & BQ_ERRORS.max();
        let general = BQ_FAILED_QUEUE.with(BQ_ERRORS.with(general, errors), u64::from(vpid));
        Some(BQ_ASSERT_TIMEOUT.with(general, 1))
    };
    let _ = register.fetch_update(AcqRel, Relaxed, next);
}

#[cfg(test)]
mod tests {
    use super::super::plain::{PLAIN, PLAIN_WORDS};
    use super::*;

    #[test]
    fn every_plain_register_has_a_word_of_its_own() {
        let node = NodeState::private(7).unwrap();
        let offsets: Vec<u64> = PLAIN.iter().flat_map(|range| range.clone().step_by(8)).collect();
        assert_eq!(offsets.len(), PLAIN_WORDS);
        for offset in &offsets {
            assert!(node.write(*offset, !offset), "{offset:#x}");
        }
        for offset in offsets.into_iter().filter(|offset| *offset != EXTOLL_RF_INFO_TSC) {
            assert_eq!(node.read(offset), Some(!offset), "{offset:#x}");
        }
        assert_eq!((node.read(0x6400), node.write(0x45_4100, 1)), (None, false));
    }
}
