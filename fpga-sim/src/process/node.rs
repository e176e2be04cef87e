//! What the processes of a node share: which registers are the node's, and access to them.
//!
//! A card that has its node to itself has the same state, in memory of its own. So there is one register file in
//! two parts: this one, and what belongs to the process that serves a VPID ([`crate::nic`]). `README.md` has the
//! table of both.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{SystemTime, UNIX_EPOCH};

use extoll_abi::regs::*;

use super::block::NodeBlock;
use super::job::JobSegment;
use super::part::Part;
use crate::counters::{CounterBlock, Counters, NodeCounters, WcbError};
use crate::packet::{Kind, Packet};
use crate::smfu::{Registers, Smfu};
use crate::velo::{RxDesc, TxDesc};
use crate::vpid::VpidEntry;

/// info.driver: version of the model's register file.
const VERSION: u64 = 2;
/// Reset value of the RMA configuration: MTU 512 as the driver writes it (spec 1.3).
const RESET_CONFIG: u64 = 512;

/// Registers without a function in the model: they keep what is written (spec 8.1).
const PLAIN: [std::ops::Range<u64>; 7] = [
    0x4000..0x6400,         // PCIe core
    0x8010..0x8090,         // info: addresses, time, scratchpads, timer
    0x8800..0x9400,         // I2C, GPIO, HTAX bridge
    0x9400..0x9600,         // network ports
    0x1_0000..0x1_1000,     // SNQ and its program
    0x44_0000..0x45_4100,   // barrier, global interrupts
    0x150_0018..0x150_0020, // WCB
];

/// Words of all of them.
pub(super) const PLAIN_WORDS: usize = {
    let (mut words, mut i) = (0, 0);
    while i < PLAIN.len() {
        words += (PLAIN[i].end - PLAIN[i].start) / 8;
        i += 1;
    }
    words as usize
};

/// Place of such a register among them.
fn plain(offset: u64) -> Option<usize> {
    let mut before = 0;
    for range in &PLAIN {
        if range.contains(&offset) {
            return Some((before + (offset - range.start) / 8) as usize);
        }
        before += (range.end - range.start) / 8;
    }
    None
}

/// State of a node that has just been switched on, in zeroed memory.
pub(super) fn reset(block: &NodeBlock) {
    block.config.store(RESET_CONFIG, Relaxed);
}

/// A node, as one process sees it: one of the node's, or one that acts for it.
pub(crate) struct NodeState {
    node: u16,
    /// Node in the segment: 0 where it is this process's alone.
    index: u16,
    job: Arc<JobSegment>,
    /// This process, where it is one of several.
    rank: Option<u32>,
    block: Part<NodeBlock>,
    /// What this process counts in.
    counters: Part<CounterBlock>,
}

impl NodeState {
    /// State that no other process sees.
    pub fn private(node: u16) -> io::Result<NodeState> {
        let job = JobSegment::private()?;
        let (block, process) = job.node_part(0).zip(job.process_part(0)).ok_or(io::ErrorKind::InvalidData)?;
        let counters = process.part(|process| &process.counters.0);
        Ok(NodeState { node, index: 0, job, rank: None, block, counters })
    }

    /// State of the node of a process; `None` where the process is not on that node.
    pub fn shared(node: u16, job: &Arc<JobSegment>, rank: u32) -> Option<NodeState> {
        let process = job.process_part(rank).filter(|_| job.shape().node_of(rank) == node)?;
        let counters = process.part(|process| &process.counters.0);
        let block = job.node_part(node)?;
        Some(NodeState { node, index: node, job: job.clone(), rank: Some(rank), block, counters })
    }

    /// State of any node of this job, for a process that acts for it; `None` where there is no such node. What is
    /// counted meanwhile is the node's once [`NodeState::settle`] was called.
    pub fn act_for(&self, node: u16) -> Option<NodeState> {
        let (job, rank) = (self.job.clone(), Some(self.rank?));
        let block = job.node_part(node)?;
        Some(NodeState { node, index: node, job, rank, block, counters: Part::default() })
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

    /// Takes the node's SMFU for this process. Who has it, where that is another one.
    pub fn claim_smfu(&self) -> Result<(), u32> {
        match self.rank {
            Some(rank) if !self.job.claim_smfu(rank) => Err(self.job.smfu_owner(self.index).unwrap_or(rank)),
            _ => Ok(()),
        }
    }

    /// Gives the node's SMFU back.
    pub fn release_smfu(&self) {
        if let Some(rank) = self.rank {
            self.job.release_smfu(rank);
        }
    }

    /// Whether this process is the one that answers for a VPID's own registers.
    pub fn serves(&self, vpid: u8) -> bool {
        self.rank.is_none_or(|rank| self.job.owner(self.node, vpid) == Some(rank))
    }

    /// Whether other processes are on this node, or on others of its job.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.rank.is_some()
    }

    /// Whether a packet that came to this process is for a VPID, or an SMFU, that it serves.
    pub fn takes(&self, packet: &Packet) -> bool {
        let owner = match packet.kind {
            Kind::SmfuStore | Kind::SmfuLoad | Kind::SmfuReply => self.job.smfu_owner(self.index),
            _ => self.job.owner(self.index, packet.destination.vpid),
        };
        packet.destination.node == self.node && owner == self.rank
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
        NodeCounters {
            cleared: &self.block.cleared,
            blocks: deputies.chain(self.job.counters_of(self.index)),
        }
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
            EXTOLL_RF_INFO_TSC => return Some(tsc()),
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

/// Time stamp counter: microseconds, 48 bits.
fn tsc() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64 & 0xffff_ffff_ffff
}

#[cfg(test)]
mod tests {
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
