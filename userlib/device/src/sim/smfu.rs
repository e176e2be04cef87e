//! Setting up the SMFU for windows of a node, and trapped access to them (spec 6, thesis 6.4).

mod intervals;
mod opened;
mod seats;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::smfu::ENABLE;
use extoll_abi::{Address, Atomic, regs};
use extoll_sim::shared::SmfuTurn;
use extoll_sim::smfu::{SMFU_MASK_PLACE, SmfuError};

use self::intervals::Unit;
pub(super) use self::opened::Opened;
use self::seats::Seats;
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

/// Programs the unit of `node` for `map`.
///
/// # Safety
/// `map.local` stays valid until the window is dropped.
pub(super) unsafe fn map(node: &Arc<Node>, map: &SmfuMap) -> Result<Box<dyn SmfuWindow>, DeviceError> {
    let refuse = |problem: String| refusal(node, problem);
    check(map).map_err(refuse)?;
    let seats = Seats::new(node, map).map_err(refuse)?;
    let mut opened = lock(&node.smfu);
    let turn = turn(node).map_err(refuse)?;
    let window = opened.next(map, seats.own);
    claim(node, &opened, &seats).map_err(refuse)?;
    let unit = Unit { nic: &node.nic, turn: turn.as_ref() };
    match open(node, map, &seats, window.number, &unit, &opened) {
        Ok(Place { target, offset, place, base }) => {
            opened.add(window);
            let (node, map, seats) = (node.clone(), map.clone(), seats.of_parts);
            Ok(Box::new(Window { node, map, number: window.number, seats, offset, place, base, target }))
        }
        Err(error) => {
            if opened.first().is_none() {
                release(node);
            }
            Err(error)
        }
    }
}

/// What no unit can have.
fn check(map: &SmfuMap) -> Result<(), String> {
    let parts = map.nodes.len() as u64;
    if parts == 0 || map.stride == 0 || !map.stride.is_multiple_of(PAGE as u64) || map.part_bytes > map.stride
    {
        return Err(format!("{parts} parts of {} bytes at a stride of {}", map.part_bytes, map.stride));
    }
    if map.stride.checked_mul(parts).is_none_or(|bytes| bytes > WINDOW_BYTES) {
        return Err(format!("{parts} parts of {} bytes exceed its {WINDOW_BYTES} bytes", map.stride));
    }
    let most = regs::EXTOLL_SMFU_INTERVALS - FIRST_INTERVAL as u64;
    if has_mask(map) && !map.fits_mask() {
        return Err(format!(
            "{parts} parts; it has intervals for {most}, and more need a node each, with consecutive ids, and parts of a power \
             of two of bytes"
        ));
    }
    Ok(())
}

/// Whether address bits name the nodes: there are more than intervals.
fn has_mask(map: &SmfuMap) -> bool {
    map.nodes.len() + FIRST_INTERVAL > regs::EXTOLL_SMFU_INTERVALS as usize
}

/// Makes this process one that has parts behind the unit. In all of its windows it has the same seat.
fn claim(node: &Node, opened: &Opened, seats: &Seats) -> Result<(), String> {
    if let Some(first) = opened.first().filter(|first| first.seat != seats.own) {
        return Err(format!(
            "this process is number {} of its node in {} windows, and would be number {} in this one: drop those first, or let \
             that rank of the node open it",
            first.seat,
            opened.count(),
            seats.own
        ));
    }
    match node.peers.nodes().is_none_or(|nodes| nodes.claim_smfu(seats.own)) {
        true => Ok(()),
        false => Err("another process of this node has it; let that one open the window".to_owned()),
    }
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

/// Where the unit has a window, and this process's part of it.
struct Place {
    target: Target,
    /// Offset of the window in the unit's range.
    offset: u64,
    /// Of this process's part.
    place: usize,
    /// The register that has its address.
    base: u64,
}

/// Makes the unit the window's, too, or this process one of those that have the window.
fn open(
    node: &Node,
    map: &SmfuMap,
    seats: &Seats,
    number: u64,
    unit: &Unit<'_>,
    opened: &Opened,
) -> Result<Place, DeviceError> {
    let refuse = |problem: String| refusal(node, problem);
    unit.sweep(opened);
    let layout = unit.layout(map, &seats.of_parts, number, opened).map_err(refuse)?;
    let place = layout.place(seats.part);
    if opened.has(number) {
        return Err(refuse("this process has its part of this window already".to_owned()));
    }
    let target = Target::new(map)?;
    let base = base_register(node, seats, place, target.span.address).map_err(refuse)?;
    if unit.turn.is_some_and(|turn| turn.is_held(place)) {
        return Err(refuse("a process of this node has this part of the window already".to_owned()));
    }
    declare(&node.memory, &target.span)?;
    node.nic.reg_write(base, target.span.address);
    // From here on it is known whose it is, should this process die.
    if let Some(turn) = unit.turn {
        turn.hold(place);
    }
    unit.show(map, &seats.of_parts, number, &layout);
    node.nic.set_smfu_part(place, number);
    node.nic.reg_write(regs::EXTOLL_RF_SMFU_STATUS_CONTROL, ENABLE.put(1));
    Ok(Place { target, offset: layout.offset(), place, base })
}

/// Where the unit has the address of a part: a register of its interval, which counts by pages, or the one that all windows share.
fn base_register(node: &Node, seats: &Seats, place: usize, address: u64) -> Result<u64, String> {
    if place == SMFU_MASK_PLACE {
        return Ok(regs::EXTOLL_RF_SMFU_T_START_ADDR);
    }
    if address.is_multiple_of(PAGE as u64) {
        return Ok(regs::smfu_target_base(place as u32));
    }
    if seats.shared {
        return Err(format!(
            "one of several parts of a node must begin with a page, and {address:#x} does not"
        ));
    }
    match node.nic.reg_read(regs::EXTOLL_RF_SMFU_T_START_ADDR) {
        0 => Ok(regs::EXTOLL_RF_SMFU_T_START_ADDR),
        _ => Err(format!(
            "of several windows of a node one may have a part that does not begin with a page, as {address:#x}; another has it"
        )),
    }
}

/// A window of the modelled SMFU.
struct Window {
    node: Arc<Node>,
    map: SmfuMap,
    /// What packets name it by.
    number: u64,
    /// Which of the processes of its node has each part.
    seats: Box<[u8]>,
    /// Of the first part in the unit's range.
    offset: u64,
    /// Of this process's part in the unit.
    place: usize,
    /// The register that has the address of this process's part.
    base: u64,
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
        self.lost(offset).map_or(Ok(self.offset + offset), |peer| Err(DeviceError::PeerLost(peer)))
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

    fn attend(&self) -> bool {
        self.node.nic.progress()
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
        self.node.peers.lost_smfu(Address::new(*self.map.nodes.get(part)?, self.seats[part]))
    }

    fn own(&self) -> Option<NonNull<u8>> {
        self.target.own.as_ref().and_then(|own| NonNull::new(own.as_ptr()))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut opened = lock(&self.node.smfu);
        // Without its turn it leaves the intervals to whoever sets the unit up next.
        let turn = turn(&self.node);
        // What comes from now on is refused.
        self.node.nic.set_smfu_part(self.place, 0);
        self.node.nic.reg_write(self.base, 0);
        let Span { address, len, .. } = self.target.span;
        if let Err(error) = self.node.memory.remove_range(address, len) {
            tracing::error!("closing a window: {error}; its part of the SMFU stays in use");
            return;
        }
        opened.remove(self.number);
        if let Some(nodes) = self.node.peers.nodes() {
            nodes.let_go_of_smfu(self.place);
        }
        if let Ok(turn) = &turn {
            Unit { nic: &self.node.nic, turn: turn.as_ref() }.sweep(&opened);
        }
        if opened.first().is_none() {
            release(&self.node);
        }
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmfuWindow").field("node", &self.node.nic.node()).field("map", &self.map).finish()
    }
}
