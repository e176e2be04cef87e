//! Setting up the SMFU for one window of a node, and trapped access to it (spec 6, thesis 6.4).

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::smfu::{ENABLE, Interval};
use extoll_abi::{Address, Atomic, regs};
use extoll_sim::shared::SmfuTurn;
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
    let refuse = |problem: String| Err(refusal(node, problem));
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
            "{parts} parts; it has intervals for {most}, and more need a node each, with consecutive ids, and parts of a power \
             of two of bytes"
        ));
    }
    let place = Place::new(node, map).map_err(|problem| refusal(node, problem))?;
    let mut unit = lock(&node.smfu);
    if unit.taken {
        return refuse("another window uses it; drop that one first".to_owned());
    }
    let turn = turn(node).map_err(|problem| refusal(node, problem))?;
    if !node.peers.nodes().is_none_or(|nodes| nodes.claim_smfu(place.seat)) {
        return refuse("another process of this node has it; let that one open the window".to_owned());
    }
    let opened = open(node, map, &place, turn.as_ref());
    if opened.is_err() {
        release(node);
    }
    let target = opened?;
    unit.taken = true;
    Ok(Box::new(Window { node: node.clone(), map: map.clone(), place, target }))
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

fn refusal(node: &Node, problem: String) -> DeviceError {
    DeviceError::Smfu { node: node.nic.node(), problem }
}

/// Where this process is among those that have parts.
struct Place {
    /// Of the parts of each node, in their order, which one this is.
    seats: Box<[u8]>,
    /// The same of this process's part.
    seat: u8,
    /// The interval that leads to this process's part, where its node has several.
    shared: Option<u32>,
}

impl Place {
    /// Of a node that is there several times, the parts are of its processes in the order of their ranks.
    fn new(node: &Node, map: &SmfuMap) -> Result<Place, String> {
        let nodes = node.peers.nodes();
        let mut parts = HashMap::new();
        let mut seat_of = |id: &u16| {
            let (parts, most) =
                (parts.entry(*id).or_insert(0), nodes.map_or(1, |nodes| nodes.smfu_seats(*id)));
            *parts += 1;
            match *parts > most {
                true => Err(format!(
                    "node {id} has {parts} parts or more, and room for {most}: a rank of a job has one each"
                )),
                false => Ok((*parts - 1) as u8),
            }
        };
        let seats = map.nodes.iter().map(&mut seat_of).collect::<Result<Box<[u8]>, _>>()?;
        let id = node.nic.node();
        if parts.get(&id).is_none_or(|parts| *parts < 2) {
            return Ok(Place { seats, seat: 0, shared: None });
        }
        let own = nodes.and_then(|nodes| nodes.smfu_own_seat());
        let is_own = |part: &usize| map.nodes[*part] == id && Some(seats[*part]) == own;
        match (0..seats.len()).find(is_own) {
            Some(part) => {
                Ok(Place { seat: seats[part], seats, shared: Some((FIRST_INTERVAL + part) as u32) })
            }
            None => Err(format!(
                "node {id} has several parts, and none is for this process: there is one for each rank"
            )),
        }
    }
}

/// Keeps other processes of the node from setting the unit up, where there may be some.
fn turn(node: &Node) -> Result<Option<SmfuTurn<'_>>, String> {
    let refused =
        || "another process of this node has been setting it up for 5 s: is that one stopped?".to_owned();
    node.peers.nodes().map(|nodes| nodes.smfu_turn().ok_or_else(refused)).transpose()
}

fn release(node: &Node) {
    if let Some(nodes) = node.peers.nodes() {
        nodes.release_smfu();
    }
}

/// Makes the unit the window's, or this process one of those that have the window.
fn open(
    node: &Node,
    map: &SmfuMap,
    place: &Place,
    turn: Option<&SmfuTurn<'_>>,
) -> Result<Target, DeviceError> {
    let refuse = |problem: String| Err(refusal(node, problem));
    let (wanted, others) = (registers(map), turn.is_some_and(SmfuTurn::has_others));
    if others && wanted.iter().any(|(register, value)| node.nic.reg_read(*register) != *value) {
        return refuse(
            "other processes of this node have another window; let them drop that one first".to_owned(),
        );
    }
    let target = Target::new(map)?;
    let address = target.span.address;
    if place.shared.is_some() && !address.is_multiple_of(PAGE as u64) {
        return refuse(format!(
            "one of several parts of a node must begin with a page, and {address:#x} does not"
        ));
    }
    declare(&node.memory, &target.span)?;
    if !others {
        clear(node);
        wanted.iter().for_each(|(register, value)| node.nic.reg_write(*register, *value));
    }
    node.nic.reg_write(target_register(place), address);
    node.nic.reg_write(regs::EXTOLL_RF_SMFU_STATUS_CONTROL, ENABLE.put(1));
    Ok(target)
}

/// Where the unit has the address of this process's part.
fn target_register(place: &Place) -> u64 {
    place.shared.map_or(regs::EXTOLL_RF_SMFU_T_START_ADDR, regs::smfu_target_base)
}

/// Registers that all processes of a node write alike: intervals evenly distributed (thesis 6.4), or address bits that name the
/// nodes where there are more nodes than intervals.
fn registers(map: &SmfuMap) -> Vec<(u64, u64)> {
    let mut all = vec![
        (regs::EXTOLL_RF_SMFU_O_START_ADDR, BUS_ADDRESS),
        (regs::EXTOLL_RF_SMFU_TRAFFIC_CLASS, regs::EXTOLL_SMFU_TC_DEFAULT),
    ];
    if map.nodes.len() + FIRST_INTERVAL > regs::EXTOLL_SMFU_INTERVALS as usize {
        // The parts begin behind the range of remote registers, so the first part's bits are not 0.
        let first = (regs::EXTOLL_SMFU_RRA_BYTES / map.stride) as u16;
        let mask = (regs::EXTOLL_SMFU_WINDOW_BYTES - 1) & !(map.stride - 1);
        all.push((regs::EXTOLL_RF_SMFU_ADDR_MASK, mask));
        all.push((regs::EXTOLL_RF_SMFU_N_NODE_OFFSET, map.nodes[0].wrapping_sub(first).into()));
        return all;
    }
    for i in 0..regs::EXTOLL_SMFU_INTERVALS as usize - FIRST_INTERVAL {
        let at = (FIRST_INTERVAL + i) as u32;
        let Some(target) = map.nodes.get(i) else {
            all.push((regs::smfu_control(at), 0));
            break;
        };
        let interval = Interval::new(*target, FIRST_PART + i as u64 * map.stride, map.stride);
        all.push((regs::smfu_start(at), interval.start));
        // Bounds count by pages.
        all.push((regs::smfu_end(at), interval.end & regs::EXTOLL_SMFU_ADDRESS_MASK));
        all.push((regs::smfu_control(at), interval.control));
    }
    all
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
    place: Place,
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

    fn atomics(&self) -> bool {
        true
    }

    fn atomic(&self, offset: u64, atomic: Atomic, timeout: Duration) -> Result<u64, DeviceError> {
        let len = atomic.width().bytes();
        let at = self.bar_offset(offset, len)?;
        let is_gone = || self.lost(offset).is_some();
        let done = self.node.nic.smfu_atomic_unless(at, atomic, timeout, &is_gone);
        done.map_err(|error| self.failed(offset, len, error))
    }

    fn reduce(&self, offset: u64, atomic: Atomic) -> Result<(), DeviceError> {
        let len = atomic.width().bytes();
        let at = self.bar_offset(offset, len)?;
        self.node.nic.smfu_reduce(at, atomic).map_err(|error| self.failed(offset, len, error))
    }

    fn lost(&self, offset: u64) -> Option<LostPeer> {
        let part = (offset / self.map.stride) as usize;
        self.node.peers.lost_smfu(Address::new(*self.map.nodes.get(part)?, self.place.seats[part]))
    }

    fn own(&self) -> Option<NonNull<u8>> {
        self.target.own.as_ref().and_then(|own| NonNull::new(own.as_ptr()))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut unit = lock(&self.node.smfu);
        // Without its turn it leaves to others what is theirs, too: a window that finds nobody there clears it.
        let turn = turn(&self.node);
        let others = turn.as_ref().map_or(true, |turn| turn.as_ref().is_some_and(SmfuTurn::has_others));
        match self.place.shared.is_some() && others {
            true => self.node.nic.reg_write(target_register(&self.place), 0),
            false => clear(&self.node),
        }
        let Span { address, len, .. } = self.target.span;
        match self.node.memory.remove_range(address, len) {
            Ok(()) => {
                unit.taken = false;
                release(&self.node);
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
