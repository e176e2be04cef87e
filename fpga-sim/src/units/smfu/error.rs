//! Accesses that the SMFU cannot carry out.

use std::time::Duration;

use extoll_abi::regs::EXTOLL_SMFU_WINDOW_BYTES;
use thiserror::Error;

use super::Refusal;
use super::atomic::NO_WINDOW;

/// An access that the SMFU could not carry out.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
pub enum SmfuError {
    /// The access leaves the window.
    #[error(
        "SMFU offset {offset:#x} (+{len}) lies outside the window of {EXTOLL_SMFU_WINDOW_BYTES:#x} bytes"
    )]
    OutsideWindow {
        /// Offset in the window.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// EN is not set.
    #[error("the SMFU of node {node} is disabled; set bit 0 of its status register (0xa000)")]
    Disabled {
        /// This node.
        node: u16,
    },
    /// Another process of the node has the unit.
    #[error(
        "the SMFU of node {node} serves process {rank}; access its window there, or have it released there first"
    )]
    Elsewhere {
        /// This node.
        node: u16,
        /// Who has it.
        rank: u32,
    },
    /// Registers take aligned words only.
    #[error("SMFU offset {offset:#x} (+{len}) leads to registers; access aligned words of 8 bytes")]
    Unaligned {
        /// Offset in the window.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// A reply did not come.
    #[error(
        "no answer to a load of SMFU offset {offset:#x} within {waited:?}; is the target alive, its SMFU enabled?"
    )]
    Timeout {
        /// Offset in the window.
        offset: u64,
        /// How long it waited.
        waited: Duration,
    },
    /// The network did not take a packet. A store may be done up to there; a load has done nothing.
    #[error(
        "the network took nothing for SMFU offset {offset:#x} within {waited:?}; is a link down, or does the target's \
         card stand still?"
    )]
    NotTaken {
        /// Offset in the window.
        offset: u64,
        /// How long it waited.
        waited: Duration,
    },
    /// The reply to an atomic operation did not come.
    #[error(
        "no answer to an atomic operation on SMFU offset {offset:#x} within {waited:?}, which may have been done; is the target \
         alive, its SMFU enabled?"
    )]
    Unanswered {
        /// Offset in the window.
        offset: u64,
        /// How long it waited.
        waited: Duration,
    },
    /// Atomic operations are on aligned words of memory.
    #[error(
        "no atomic operation on {len} bytes at SMFU offset {offset:#x}: it has to be a multiple of that, and memory"
    )]
    NoWord {
        /// Offset in the window.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// The target did not carry an atomic operation out.
    #[error("the target of SMFU offset {offset:#x} refused an atomic operation: {refusal}")]
    Atomic {
        /// Offset in the window.
        offset: u64,
        /// Why.
        refusal: Refusal,
    },
    /// The target has no part of the window.
    #[error("the target of SMFU offset {offset:#x} refused an access: {NO_WINDOW}")]
    Window {
        /// Offset in the window.
        offset: u64,
    },
    /// The target found no memory there that it can load from.
    #[error(
        "the target of SMFU offset {offset:#x} has no loadable memory there; check its target base registers"
    )]
    Target {
        /// Offset in the window.
        offset: u64,
    },
}

ggas_errors::debug_as_display!(SmfuError);
