//! Where the SMFU sends an access to its window (spec 6.2 \[inferred\]).

use crate::bindings as facts;
use crate::bits::Field;

/// Interval is in use, in an interval's control.
pub const VALID: Field = Field::new(facts::EXTOLL_SMFU_VALID_SHIFT, facts::EXTOLL_SMFU_VALID_BITS);
/// Unit at the target, in an interval's control.
pub const FUNCTION: Field = Field::new(facts::EXTOLL_SMFU_FUNCTION_SHIFT, facts::EXTOLL_SMFU_FUNCTION_BITS);
/// Target node, in an interval's control.
pub const NODE: Field = Field::new(facts::EXTOLL_SMFU_NODE_SHIFT, facts::EXTOLL_SMFU_NODE_BITS);
/// Unit runs, in the status.
pub const ENABLE: Field = Field::new(facts::EXTOLL_SMFU_ENABLE_SHIFT, facts::EXTOLL_SMFU_ENABLE_BITS);
/// Ticks until a load fails, in the timeout control.
pub const TIMEOUT: Field = Field::new(facts::EXTOLL_SMFU_TIMEOUT_SHIFT, facts::EXTOLL_SMFU_TIMEOUT_BITS);
/// A load failed, in the timeout control; cleared by writing it back.
pub const TIMEOUT_ERROR: Field =
    Field::new(facts::EXTOLL_SMFU_TIMEOUT_ERROR_SHIFT, facts::EXTOLL_SMFU_TIMEOUT_ERROR_BITS);

/// Where an access goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// Node.
    pub node: u16,
    /// Bytes from the target's base (`EXTOLL_RF_SMFU_T_START_ADDR`, or the interval's own).
    pub offset: u64,
}

/// The three registers of an interval of the window: control, first and last address, both by pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Interval {
    /// Control.
    pub control: u64,
    /// Bus address of the first byte.
    pub start: u64,
    /// Bus address of the last byte.
    pub end: u64,
}

impl Interval {
    /// The interval of `bytes` (more than 0) from bus address `start` on that leads to `node`.
    pub const fn new(node: u16, start: u64, bytes: u64) -> Interval {
        let function = FUNCTION.put(facts::EXTOLL_SMFU_FUNCTION_NETWORK);
        let end = start.wrapping_add(bytes.saturating_sub(1));
        Interval { control: VALID.put(1) | function | NODE.put(node as u64), start, end }
    }

    /// Where `address` goes, if the interval is valid and holds it.
    #[inline]
    pub const fn target(&self, address: u64) -> Option<Target> {
        let page = address & facts::EXTOLL_SMFU_ADDRESS_MASK;
        let start = self.start & facts::EXTOLL_SMFU_ADDRESS_MASK;
        let end = self.end & facts::EXTOLL_SMFU_ADDRESS_MASK;
        if !VALID.is_set(self.control) || address >> 48 != 0 || page < start || page > end {
            return None;
        }
        Some(Target { node: NODE.get(self.control) as u16, offset: address - start })
    }
}

/// Where `address` goes when no interval holds it: the bits under `mask` name the node, the others the
/// offset; without a mask all goes to node `node_offset`.
#[inline]
pub const fn masked_target(window: u64, mask: u64, node_offset: u16, address: u64) -> Target {
    let global = address.wrapping_sub(window);
    let mask = mask & facts::EXTOLL_SMFU_ADDR_MASK_MASK;
    let field = if mask == 0 { 0 } else { (global & mask) >> mask.trailing_zeros() };
    Target { node: (field as u16).wrapping_add(node_offset), offset: global & !mask }
}
