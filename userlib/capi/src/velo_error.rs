//! Results of libvelo2, and their reasons.

use std::ffi::c_uint;
use std::fmt::Display;

use ggas::DeviceError;
use ggas::velo::{ReceiveError, SendError, VeloPortError};

use crate::error::{self, Code};

/// `enum velo2_ret`, as functions return it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ret(pub(crate) c_uint);

pub(crate) const SUCCESS: Ret = Ret(0);
pub(crate) const INV_MSG: Ret = Ret(1);
pub(crate) const ERROR: Ret = Ret(2);
pub(crate) const NO_MSG: Ret = Ret(3);
const NO_MATCH: Ret = Ret(4);
const ERR_FDOPEN: Ret = Ret(5);
const ERR_MMAP: Ret = Ret(6);
pub(crate) const INVALID_MBOX: Ret = Ret(7);
pub(crate) const INVALID_NODE: Ret = Ret(8);
pub(crate) const TRY_AGAIN: Ret = Ret(9);
pub(crate) const INV_MTT: Ret = Ret(10);

/// Where these results stand among librma2's codes: away from all of them.
const BASE: i32 = 1000;

pub(crate) type Result<T> = std::result::Result<T, Ret>;

#[inline]
pub(crate) fn ret(result: Result<()>) -> Ret {
    match result {
        Ok(()) => SUCCESS,
        Err(ret) => ret,
    }
}

fn code(ret: Ret) -> Code {
    Code(BASE.saturating_add_unsigned(ret.0))
}

/// Remembers why this thread's call failed.
#[cold]
pub(crate) fn because(ret: Ret, reason: impl Display) -> Ret {
    error::because(code(ret), reason);
    ret
}

pub(crate) fn text(ret: Ret) -> String {
    let meaning = match ret {
        SUCCESS => "success",
        INV_MSG => "a message of more than 120 bytes, or longer than the buffer",
        ERROR => "an error",
        NO_MSG => "no message",
        NO_MATCH => "no message agrees",
        ERR_FDOPEN => "the device cannot be opened",
        ERR_MMAP => "no memory",
        INVALID_MBOX => "not a port or connection, or closed",
        INVALID_NODE => "no such node, or its process is gone",
        TRY_AGAIN => "the receiver's mailbox is full: receive, then try again",
        INV_MTT => "not a message type",
        _ => "not a result of libvelo2",
    };
    error::with_reason(code(ret), meaning)
}

/// Why the process has no node: librma2's code says it.
#[cold]
pub(crate) fn of_node(code: Code) -> Ret {
    let ret = if code == error::NO_MEM { ERR_MMAP } else { ERR_FDOPEN };
    because(ret, error::text(code))
}

#[cold]
pub(crate) fn of_open(error: &VeloPortError) -> Ret {
    let ret = match error {
        VeloPortError::Device(
            DeviceError::PortsInUse { .. } | DeviceError::UserLimit { .. } | DeviceError::NodeOfGuest { .. },
        ) => INVALID_MBOX,
        VeloPortError::Device(DeviceError::Memory { .. }) => ERR_MMAP,
        VeloPortError::Device(DeviceError::NotAvailable { .. } | DeviceError::NetworkState { .. }) => {
            ERR_FDOPEN
        }
        VeloPortError::Undrained { .. } => TRY_AGAIN,
        _ => ERROR,
    };
    because(ret, error)
}

#[cold]
pub(crate) fn of_send(error: &SendError) -> Ret {
    let ret = match error {
        SendError::WouldBlock | SendError::Timeout { .. } => TRY_AGAIN,
        SendError::PeerLost(_) => INVALID_NODE,
        SendError::Closed => return INVALID_MBOX,
        _ => ERROR,
    };
    because(ret, error)
}

#[cold]
pub(crate) fn of_receive(error: &ReceiveError) -> Ret {
    let ret = match error {
        ReceiveError::Timeout { .. } => NO_MSG,
        ReceiveError::Closed => return INVALID_MBOX,
        _ => ERROR,
    };
    because(ret, error)
}
