//! A window of some nodes, with a part of each, through the SMFU (spec 6).

use extoll_abi::regs::*;
use extoll_abi::smfu::{ENABLE, Interval};

use super::{Node, Pages};

/// Where nodes see the window in their own addresses.
const START: u64 = 0x80_0000_0000;

/// Offset in the window of byte `offset` of a node's part, of `len` bytes each.
pub fn part(node: u16, len: usize, offset: u64) -> u64 {
    EXTOLL_SMFU_RRA_BYTES + u64::from(node) * len as u64 + offset
}

/// Shows a node the window of `nodes` nodes, and shares `own`, its part: interval 1 + n leads to node n, interval 0 to registers of node 1.
pub fn show(node: &Node, own: &Pages, len: usize, nodes: u16) {
    let write = |offset, value| node.nic.reg_write(offset, value);
    write(EXTOLL_RF_SMFU_O_START_ADDR, START);
    write(EXTOLL_RF_SMFU_T_START_ADDR, own.address());
    write(EXTOLL_RF_SMFU_STATUS_CONTROL, ENABLE.put(1));
    let interval = |index, interval: Interval| {
        write(smfu_control(index), interval.control);
        write(smfu_start(index), interval.start);
        write(smfu_end(index), interval.end);
    };
    interval(0, Interval::new(1, START, EXTOLL_SMFU_RRA_BYTES));
    for target in 0..nodes {
        let to = Interval::new(target, START + part(target, len, 0), len as u64);
        interval(1 + u32::from(target), to);
    }
}
