//! Setting up the SMFU for one window of a node, and trapped access to it (spec 6, thesis 6.4).

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::regs;
use extoll_abi::smfu::{ENABLE, Interval};
use extoll_sim::smfu::SmfuError;

use super::lock;
use super::node::Node;
use super::region::declare;
use crate::{DeviceError, HostBuffer, LostPeer, PAGE, SmfuMap, SmfuWindow, Span};

/// The part of the SMFU's range that is left beside remote register access.
pub(super) const WINDOW_BYTES: u64 = regs::EXTOLL_SMFU_WINDOW_BYTES - regs::EXTOLL_SMFU_RRA_BYTES;
/// Bus address at which the modelled card's SMFU range begins: no process has memory there.
const BUS_ADDRESS: u64 = 0xe000_0000_0000;
/// Bus address of the first part.
const FIRST_PART: u64 = BUS_ADDRESS + regs::EXTOLL_SMFU_RRA_BYTES;
/// Interval 0 is reserved for remote register access (spec 6.3).
const FIRST_INTERVAL: usize = 1;

/// Whether a window has the node's SMFU.
#[derive(Debug, Default)]
pub(super) struct SmfuUnit {
    taken: bool,
}

/// Programs the unit of `node` for `map`.
///
/// # Safety
/// `map.local` stays valid until the window is dropped.
pub(super) unsafe fn map(node: &Arc<Node>, map: &SmfuMap) -> Result<Box<dyn SmfuWindow>, DeviceError> {
    let id = node.nic.node();
    let refuse = |problem: String| Err(DeviceError::Smfu { node: id, problem });
    let parts = map.nodes.len() as u64;
    if parts == 0 || map.stride == 0 || !map.stride.is_multiple_of(PAGE as u64) || map.part_bytes > map.stride
    {
        return refuse(format!("{parts} parts of {} bytes at a stride of {}", map.part_bytes, map.stride));
    }
    if map.stride.checked_mul(parts).is_none_or(|bytes| bytes > WINDOW_BYTES) {
        return refuse(format!("{parts} parts of {} bytes exceed its {WINDOW_BYTES} bytes", map.stride));
    }
    let most = regs::EXTOLL_SMFU_INTERVALS - FIRST_INTERVAL as u64;
    if parts > most && !map.fits_mask() {
        return refuse(format!(
            "{parts} parts; it has intervals for {most}, and more need consecutive node ids and parts of a power of \
             two of bytes"
        ));
    }
    let mut unit = lock(&node.smfu);
    if unit.taken {
        return refuse("another window uses it; drop that one first".to_owned());
    }
    if !node.peers.claim_smfu() {
        return refuse("another process of this node has it; let that one open the window".to_owned());
    }
    let target = Target::new(map).and_then(|target| declare(&node.memory, &target.span).map(|()| target));
    let target = target.inspect_err(|_| node.peers.release_smfu())?;
    program(node, map, target.span.address);
    unit.taken = true;
    Ok(Box::new(Window { node: node.clone(), map: map.clone(), target }))
}

/// This node's part.
struct Target {
    span: Span,
    /// Where nobody else gave the memory.
    own: Option<HostBuffer>,
}

impl Target {
    fn new(map: &SmfuMap) -> Result<Target, DeviceError> {
        match &map.local {
            Some(span) => Ok(Target { span: span.clone(), own: None }),
            None => {
                let own = HostBuffer::zeroed(map.part_bytes as usize)?;
                Ok(Target { span: Span::host(&own), own: Some(own) })
            }
        }
    }
}

/// Writes the registers: intervals evenly distributed (thesis 6.4), or address bits that name the nodes where there
/// are more nodes than intervals; this node's memory is the target.
fn program(node: &Node, map: &SmfuMap, target: u64) {
    let nic = &node.nic;
    clear(node);
    nic.reg_write(regs::EXTOLL_RF_SMFU_O_START_ADDR, BUS_ADDRESS);
    nic.reg_write(regs::EXTOLL_RF_SMFU_T_START_ADDR, target);
    nic.reg_write(regs::EXTOLL_RF_SMFU_TRAFFIC_CLASS, regs::EXTOLL_SMFU_TC_DEFAULT);
    if map.nodes.len() + FIRST_INTERVAL > regs::EXTOLL_SMFU_INTERVALS as usize {
        // The parts begin behind the range of remote registers, so the first part's bits are not 0.
        let first = (regs::EXTOLL_SMFU_RRA_BYTES / map.stride) as u16;
        let mask = (regs::EXTOLL_SMFU_WINDOW_BYTES - 1) & !(map.stride - 1);
        nic.reg_write(regs::EXTOLL_RF_SMFU_ADDR_MASK, mask);
        nic.reg_write(regs::EXTOLL_RF_SMFU_N_NODE_OFFSET, map.nodes[0].wrapping_sub(first).into());
    } else {
        for (i, target) in map.nodes.iter().enumerate() {
            let interval = Interval::new(*target, FIRST_PART + i as u64 * map.stride, map.stride);
            let at = (FIRST_INTERVAL + i) as u32;
            nic.reg_write(regs::smfu_start(at), interval.start);
            nic.reg_write(regs::smfu_end(at), interval.end);
            nic.reg_write(regs::smfu_control(at), interval.control);
        }
    }
    nic.reg_write(regs::EXTOLL_RF_SMFU_STATUS_CONTROL, ENABLE.put(1));
}

/// No interval is valid, and arriving packets have no target.
fn clear(node: &Node) {
    node.nic.reg_write(regs::EXTOLL_RF_SMFU_STATUS_CONTROL, 0);
    for i in FIRST_INTERVAL as u32..regs::EXTOLL_SMFU_INTERVALS as u32 {
        node.nic.reg_write(regs::smfu_control(i), 0);
        node.nic.reg_write(regs::smfu_target_base(i), 0);
    }
    for register in [
        regs::EXTOLL_RF_SMFU_T_START_ADDR,
        regs::EXTOLL_RF_SMFU_ADDR_MASK,
        regs::EXTOLL_RF_SMFU_N_NODE_OFFSET,
    ] {
        node.nic.reg_write(register, 0);
    }
}

/// A window of the modelled SMFU.
struct Window {
    node: Arc<Node>,
    map: SmfuMap,
    target: Target,
}

impl Window {
    /// The BAR offset of an access that lies within one part of a node that is there.
    fn bar_offset(&self, offset: u64, len: usize) -> Result<u64, DeviceError> {
        if !self.map.has(offset, len) {
            let parts = self.map.nodes.len();
            let problem = format!("outside of the window's {parts} parts of {} bytes", self.map.part_bytes);
            return Err(self.refused(offset, len, problem));
        }
        self.lost(offset)
            .map_or(Ok(regs::EXTOLL_SMFU_RRA_BYTES + offset), |peer| Err(DeviceError::PeerLost(peer)))
    }

    /// Whether the process that serves the part at `offset` is gone.
    fn lost(&self, offset: u64) -> Option<LostPeer> {
        self.node.peers.lost_smfu(self.map.nodes[(offset / self.map.stride) as usize])
    }

    fn refused(&self, offset: u64, len: usize, problem: String) -> DeviceError {
        DeviceError::SmfuAccess { node: self.node.nic.node(), offset, len, problem }
    }

    /// An access that began and did not end.
    fn failed(&self, offset: u64, len: usize, error: SmfuError) -> DeviceError {
        match self.lost(offset) {
            Some(peer) => DeviceError::PeerLost(peer),
            None => self.refused(offset, len, error.to_string()),
        }
    }
}

impl SmfuWindow for Window {
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), DeviceError> {
        let at = self.bar_offset(offset, from.len())?;
        let failed = |error| self.failed(offset, from.len(), error);
        self.node.nic.smfu_store(at, from).map_err(failed)
    }

    fn load(&self, offset: u64, into: &mut [u8], timeout: Duration) -> Result<(), DeviceError> {
        let at = self.bar_offset(offset, into.len())?;
        let len = into.len();
        let failed = |error| self.failed(offset, len, error);
        let is_gone = || self.lost(offset).is_some();
        self.node.nic.smfu_load_unless(at, into, timeout, &is_gone).map_err(failed)
    }

    fn own(&self) -> Option<NonNull<u8>> {
        self.target.own.as_ref().and_then(|own| NonNull::new(own.as_ptr()))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut unit = lock(&self.node.smfu);
        clear(&self.node);
        let Span { address, len, .. } = self.target.span;
        match self.node.memory.remove_range(address, len) {
            Ok(()) => {
                unit.taken = false;
                self.node.peers.release_smfu();
            }
            Err(error) => tracing::error!("closing a window: {error}; its SMFU stays in use"),
        }
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmfuWindow").field("node", &self.node.nic.node()).field("map", &self.map).finish()
    }
}
