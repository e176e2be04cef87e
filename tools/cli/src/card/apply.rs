//! Registers that bring a node into the network: a list, what differs from it, writing it, and reading it back.

use super::file::{NODES, Network};
use crate::failure::{Failure, chain};
use extoll_abi::regs::*;
use ggas_device::Device;

/// What a register shall hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Wish {
    pub name: String,
    pub offset: u64,
    /// Its bits; the others stay.
    pub mask: u64,
    pub value: u64,
}

/// All that a node's card shall hold, but for the network state. Without the values of route table entries there are no
/// routes in it.
pub fn wishes(network: &Network, node: u16) -> Vec<Wish> {
    let mask = INFO_NODE.put(INFO_NODE.max());
    let value = INFO_NODE.put(u64::from(node));
    let mut all = vec![Wish { name: "node id".into(), offset: EXTOLL_RF_INFO_NODE, mask, value }];
    let Some(entries) = &network.entries else { return all };
    for inport in 0..EXTOLL_RF_XBAR_INPORTS {
        for target in 0..NODES as u16 {
            let value = match network.routes.port(&network.graph, node, target) {
                _ if target == node => entries.host,
                Some(port) => entries.links[port],
                None => entries.discard,
            };
            let table = EXTOLL_RF_XBAR_INPORT + EXTOLL_RF_XBAR_INPORT_STRIDE * inport + EXTOLL_RF_XBAR_LOCAL;
            let name = format!("route of inport {inport} to node {target}");
            all.push(Wish { name, offset: table + 8 * u64::from(target), mask: u64::MAX, value });
        }
    }
    all
}

/// Those that the card does not hold, with what it holds instead.
pub fn differing<'a>(device: &dyn Device, wishes: &'a [Wish]) -> Result<Vec<(&'a Wish, u64)>, Failure> {
    let mut differ = Vec::new();
    for wish in wishes {
        let value = read(device, wish.offset)?;
        if value & wish.mask != wish.value {
            differ.push((wish, value));
        }
    }
    Ok(differ)
}

/// Writes what differs while the network state is `unconfigured`, reads it back, and says `configured` then. How many
/// registers it wrote.
pub fn apply(device: &dyn Device, wishes: &[Wish]) -> Result<usize, Failure> {
    let differ = differing(device, wishes)?;
    let configured = state(device)? == EXTOLL_NETWORK_CONFIGURED;
    if differ.is_empty() && configured {
        return Ok(0);
    }
    if configured {
        set_state(device, EXTOLL_NETWORK_UNCONFIGURED)?;
    }
    for (wish, value) in &differ {
        write(device, wish.offset, value & !wish.mask | wish.value)?;
    }
    if let Some((wish, value)) = differing(device, wishes)?.first() {
        return Err(Failure::Failed(format!(
            "{} reads {:#x} after {:#x} was written to register {:#x}: this card does not take it; the network state stays 0 \
             (unconfigured)",
            wish.name,
            value & wish.mask,
            wish.value,
            wish.offset
        )));
    }
    set_state(device, EXTOLL_NETWORK_CONFIGURED)?;
    Ok(differ.len() + 1)
}

/// The network state (spec 8.2).
pub fn state(device: &dyn Device) -> Result<u64, Failure> {
    read(device, EXTOLL_RF_INFO_NETWORK_STATE)
}

/// Writes the network state, and reads it back.
pub fn set_state(device: &dyn Device, state: u64) -> Result<(), Failure> {
    write(device, EXTOLL_RF_INFO_NETWORK_STATE, state)?;
    match read(device, EXTOLL_RF_INFO_NETWORK_STATE)? {
        now if now == state => Ok(()),
        now => Err(Failure::Failed(format!(
            "the network state reads {now} after {state} was written: does other management software run on this node?"
        ))),
    }
}

pub fn read(device: &dyn Device, offset: u64) -> Result<u64, Failure> {
    device.read_register(offset).map_err(|error| Failure::Failed(chain(&error)))
}

fn write(device: &dyn Device, offset: u64, value: u64) -> Result<(), Failure> {
    device.write_register(offset, value).map_err(|error| Failure::Failed(chain(&error)))
}
