//! Registers of the crossbar and the link ports (spec 8.2): what management software sees of the network.
//!
//! Modelled are the global and local route tables of every inport, the outport counters and credits, and status
//! and ids of the links. A table entry is its outport in bits \[3:0\] \[inferred\]; writing one changes how packets
//! go, in networks of one process; between processes tables follow from what is broken alone, and writes to them have no
//! effect. Multicast tables are not modelled: packets to multicast groups are thrown away and counted.

use std::sync::Arc;

use extoll_abi::regs::*;

use crate::network::in_process::world::CREDITS;
use crate::network::links::faults::{Event, FaultError};
use crate::network::links::link::LinkCounters;
use crate::network::links::routing::{Broken, PORT_DISCARD, PORTS, Routing, Table, direction_of, port_of};
use crate::network::links::torus::{Direction, Torus};

/// A network whose registers these are: what they show, and what writing them does.
pub(crate) trait Managed {
    fn torus(&self) -> &Torus;
    /// The route tables in use.
    fn routing(&self) -> Arc<Routing>;
    /// Links that are down and nodes that are dead.
    fn broken(&self) -> Broken;
    /// Counters of a node's link.
    fn link_counters(&self, node: u16, direction: Direction) -> LinkCounters;
    /// Packets that a node threw away.
    fn discarded(&self, node: u16) -> u64;
    /// Lets something happen to a link.
    fn happen(&self, event: Event) -> Result<(), FaultError>;
    /// Changes the route tables, where software may write them.
    fn change_routing(&self, change: &dyn Fn(&Routing) -> Routing);
}

/// A register of this part.
enum Register {
    Route { inport: u8, table: Table, index: usize },
    OutportCount(u8),
    OutportGeneral,
    LinkStatus(Option<Direction>),
    LinkIds(Option<Direction>),
}

/// Splits an offset into element and rest.
fn element(offset: u64, base: u64, stride: u64, count: u64) -> Option<(u64, u64)> {
    let offset = offset.checked_sub(base)?;
    (offset < stride * count).then_some((offset / stride, offset % stride))
}

fn decode(offset: u64) -> Option<Register> {
    if !offset.is_multiple_of(8) {
        return None;
    }
    let inport = element(offset, EXTOLL_RF_XBAR_INPORT, EXTOLL_RF_XBAR_INPORT_STRIDE, EXTOLL_RF_XBAR_INPORTS);
    if let Some((inport, rest)) = inport {
        let tables = [(EXTOLL_RF_XBAR_GLOBAL, Table::Global), (EXTOLL_RF_XBAR_LOCAL, Table::Local)];
        return tables.into_iter().find_map(|(base, table)| {
            let (index, _) = element(rest, base, 8, table.len() as u64)?;
            Some(Register::Route { inport: inport as u8, table, index: index as usize })
        });
    }
    let ports = PORTS as u64;
    let outport = element(offset, EXTOLL_RF_XBAR_OUTPORT_COUNT, EXTOLL_RF_XBAR_OUTPORT_STRIDE, ports);
    if let Some((port, rest)) = outport {
        return match rest {
            0 => Some(Register::OutportCount(port as u8)),
            0x10 => Some(Register::OutportGeneral),
            _ => None,
        };
    }
    let link =
        |base| element(offset, base, EXTOLL_RF_LINK_STRIDE, EXTOLL_RF_LINKS).filter(|&(_, rest)| rest == 0);
    if let Some((port, _)) = link(EXTOLL_RF_LINK_STATUS) {
        return Some(Register::LinkStatus(Direction::from_index(port as usize)));
    }
    link(EXTOLL_RF_LINK_IDS).map(|(port, _)| Register::LinkIds(Direction::from_index(port as usize)))
}

/// Reads a register of a node; `None` for offsets of other parts.
pub(crate) fn read(network: &impl Managed, node: u16, offset: u64) -> Option<u64> {
    Some(match decode(offset)? {
        Register::Route { inport, table, index } => {
            u64::from(network.routing().entry(node, inport, table, index))
        }
        Register::OutportCount(PORT_DISCARD) => network.discarded(node),
        Register::OutportCount(port) => {
            direction_of(port).map_or(0, |direction| network.link_counters(node, direction).sent)
        }
        Register::OutportGeneral => u64::from(CREDITS),
        // The seventh link port is not wired in a torus.
        Register::LinkStatus(direction) => direction.map_or(0, |direction| status(network, node, direction)),
        Register::LinkIds(direction) => direction.map_or(0, |direction| ids(network, node, direction)),
    })
}

fn status(network: &impl Managed, node: u16, direction: Direction) -> u64 {
    let (torus, broken) = (network.torus(), network.broken());
    if torus.neighbour(node, direction).is_none() {
        return 0;
    }
    let enabled = !broken.is_down(torus, node, direction);
    let ready = broken.neighbour(torus, node, direction).is_some();
    let counters = network.link_counters(node, direction);
    // Which of the five error bits means what is not known: checksum, sequence, timeout [inferred].
    let seen = |count: u64, bit: u64| u64::from(count > 0) << bit;
    let errors =
        seen(counters.crc_errors, 0) | seen(counters.sequence_errors, 1) | seen(counters.timeouts, 2);
    LINK_ENABLE.put(u64::from(enabled))
        | LINK_READY.put(u64::from(ready))
        | LINK_RETRANSMIT.put(counters.retransmitted.min(LINK_RETRANSMIT.max()))
        | LINK_ERRORS.put(errors)
}

/// Node and GUID at the other end; a model card's GUID is its node id.
fn ids(network: &impl Managed, node: u16, direction: Direction) -> u64 {
    network
        .torus()
        .neighbour(node, direction)
        .map_or(0, |other| LINK_REMOTE_NODE.put(u64::from(other)) | LINK_REMOTE_GUID.put(u64::from(other)))
}

/// Writes a register of a node; `false` for offsets of other parts.
pub(crate) fn write(network: &impl Managed, node: u16, offset: u64, value: u64) -> bool {
    match decode(offset) {
        None => return false,
        Some(Register::Route { inport, table, index }) => {
            let outport = (value & 0xf) as u8;
            network.change_routing(&|routing| routing.with_entry(node, inport, table, index, outport));
        }
        Some(Register::LinkStatus(Some(direction))) => {
            let down = !LINK_ENABLE.is_set(value);
            if down != network.broken().is_down(network.torus(), node, direction) {
                let event = if down { Event::LinkDown } else { Event::LinkUp };
                // Where there is no cable, enabling its port has no effect.
                let _ = network.happen(event(node, direction));
            }
        }
        // Counters, credits and ids are read-only.
        Some(_) => {}
    }
    true
}

/// Offset of the counter of an outport.
pub fn outport_count(port: u8) -> u64 {
    EXTOLL_RF_XBAR_OUTPORT_COUNT + EXTOLL_RF_XBAR_OUTPORT_STRIDE * u64::from(port)
}

/// Offset of the counter of the outport of a link.
pub fn link_count(direction: Direction) -> u64 {
    outport_count(port_of(direction))
}

/// Offset of a route table entry.
pub fn route_entry(inport: u8, table: Table, index: usize) -> u64 {
    let base = match table {
        Table::Global => EXTOLL_RF_XBAR_GLOBAL,
        Table::Local => EXTOLL_RF_XBAR_LOCAL,
    };
    EXTOLL_RF_XBAR_INPORT + EXTOLL_RF_XBAR_INPORT_STRIDE * u64::from(inport) + base + 8 * index as u64
}
