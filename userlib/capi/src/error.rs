//! Result codes, and the reason of a thread's last failure.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Display;

use ggas::{DeviceError, PortError, PostError, RegionError, WaitError};

use crate::ffi::In;
use crate::stdio;

/// `RMA2_ERROR`, as functions return it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(pub(crate) const $name: Code = Code($value);)*

        /// What a code means.
        fn meaning(code: Code) -> &'static str {
            match code {
                $($name => $text,)*
                _ => "not a result of librma2",
            }
        }
    };
}

codes! {
    SUCCESS = 0, "success";
    ERROR = -1, "the memory cannot be registered";
    INV_HANDLE = -2, "not a connection of this port, or disconnected";
    INV_PORT = -3, "not a port, or closed";
    INV_VALUE = -4, "a null pointer, an unknown object, or a number out of range";
    NO_ROUTE = -5, "the peer's process is gone";
    PORTS_USED = -6, "every VPID of the node is open";
    NO_MEM = -7, "no memory";
    NO_NOTI = -9, "no notification";
    POLL_EXCEEDED = -10, "a bounded wait is over";
    WRONG_ARG = -11, "size, count, alignment, notifications or modifier make no valid command";
    NOT_YET = -12, "the card has not taken everything that was posted";
    NO_DESC_MEM = -13, "no memory for descriptors";
    NO_MATCH = -15, "no notification in the queue agrees";
    WRONG_CMD = -16, "not a command, or one that this call does not set";
    NO_DEVICE = -17, "no such device";
    NO_CONNECT = -18, "the network cannot be joined";
    INVALID_VERSION = -22, "versions do not fit";
    IOCTL = -23, "the device refused the request";
    MMAP = -24, "the device's memory cannot be mapped";
    FD = -25, "the device cannot be opened";
    MAP = -26, "the region's memory was unmapped or freed";
    DOUBLE_MAP = 27, "mapped twice";
    NO_TABLE = 28, "no translation table has room";
    NOT_FREE = 29, "not free";
    PART = 30, "only a part";
    ATU = 31, "the card did not confirm that it let go of memory";
    MLOCKLIMIT = 32, "the limit on locked memory is reached";
}

pub(crate) type Result<T> = std::result::Result<T, Code>;

/// What a C function returns.
#[inline]
pub(crate) fn code(result: Result<()>) -> Code {
    match result {
        Ok(()) => SUCCESS,
        Err(code) => of_last(code),
    }
}

/// A reason that was not given since the last failure is of another one.
#[cold]
fn of_last(code: Code) -> Code {
    if !GIVEN.get() {
        return code;
    }
    let _ = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        match &mut *last {
            Some(reason) if reason.fresh && reason.code == code => reason.fresh = false,
            _ => *last = None,
        }
    });
    code
}

thread_local! {
    /// This thread has given a reason. One that has not is kept away from `LAST`: its first use allocates, and a probe that
    /// finds nothing allocates nothing.
    static GIVEN: Cell<bool> = const { Cell::new(false) };
    /// Why this thread's last call that failed did, if it had more to say than its code.
    static LAST: RefCell<Option<Reason>> = const { RefCell::new(None) };
}

struct Reason {
    code: Code,
    text: String,
    /// Given by the call that has not returned yet.
    fresh: bool,
}

/// Remembers why this thread's call failed; for calls that may allocate.
#[cold]
pub(crate) fn because(code: Code, reason: impl Display) -> Code {
    let text = reason.to_string();
    GIVEN.set(true);
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(Reason { code, text, fresh: true }));
    code
}

/// A failure with nothing to say but its code; a reason that a call without a result left behind is not its own.
#[cold]
pub(crate) fn bare(code: Code) -> Code {
    if GIVEN.get() {
        let _ = LAST.try_with(|last| *last.borrow_mut() = None);
    }
    code
}

#[cold]
pub(crate) fn of_post(error: &PostError) -> Code {
    match error {
        PostError::WouldBlock | PostError::Timeout { .. } => because(POLL_EXCEEDED, error),
        PostError::Encode(_) | PostError::Region(_) => because(WRONG_ARG, error),
        PostError::PeerLost(_) => because(NO_ROUTE, error),
        PostError::Closed => bare(INV_PORT),
        _ => because(ERROR, error),
    }
}

#[cold]
pub(crate) fn of_wait(error: &WaitError) -> Code {
    match error {
        WaitError::Timeout { .. } => because(POLL_EXCEEDED, error),
        WaitError::PeerLost { .. } => because(NO_ROUTE, error),
        WaitError::Closed => bare(INV_PORT),
        _ => because(ERROR, error),
    }
}

#[cold]
pub(crate) fn of_port(error: &PortError) -> Code {
    let code = match error {
        PortError::Undrained { .. } => NOT_YET,
        PortError::Device(
            DeviceError::PortsInUse { .. } | DeviceError::UserLimit { .. } | DeviceError::NodeOfGuest { .. },
        ) => PORTS_USED,
        PortError::Device(DeviceError::QueueShape { .. }) => IOCTL,
        PortError::Device(DeviceError::Memory { .. }) => MMAP,
        PortError::Device(DeviceError::Timeout { .. }) => ATU,
        PortError::Device(DeviceError::Closed) => INV_PORT,
        PortError::Device(DeviceError::NotAvailable { .. } | DeviceError::NetworkState { .. }) => FD,
        _ => ERROR,
    };
    because(code, error)
}

/// Whether registering failed for want of what other regions have.
pub(crate) fn is_full(error: &RegionError) -> bool {
    matches!(error, RegionError::Device(DeviceError::LockedMemory { .. } | DeviceError::NoTable { .. }))
}

#[cold]
pub(crate) fn of_region(error: &RegionError) -> Code {
    match error {
        RegionError::Device(DeviceError::Closed) => bare(INV_PORT),
        RegionError::Device(DeviceError::Timeout { .. }) => because(ATU, error),
        RegionError::Device(DeviceError::LockedMemory { .. }) => {
            because(ERROR, format!("{error}; C programs: EXTOLL_LOCKED_MEMORY=unlimited"))
        }
        // All that can go wrong with registering has one code (spec 10.2).
        _ => because(ERROR, error),
    }
}

/// The text of `code`, with the thread's reason where it has one.
pub(crate) fn text(code: Code) -> String {
    with_reason(code, meaning(code))
}

/// What `code` means, with the thread's reason where it has one.
pub(crate) fn with_reason(code: Code, meaning: &str) -> String {
    let reason = LAST.try_with(|last| match &*last.borrow() {
        Some(reason) if reason.code == code && reason.text != meaning => {
            Some(format!("{meaning}: {}", reason.text))
        }
        _ => None,
    });
    reason.ok().flatten().unwrap_or_else(|| meaning.to_owned())
}

#[unsafe(no_mangle)]
extern "C" fn rma2_serror(error: Code, buf: *mut c_char, buflen: c_int) {
    print(&text(error), buf, buflen);
}

/// Copies a text to C, cut to `buflen` with its end.
pub(crate) fn print(text: &str, buf: *mut c_char, buflen: c_int) {
    let Ok(room) = usize::try_from(buflen) else { return };
    if buf.is_null() || room == 0 {
        return;
    }
    let bytes = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: the caller gives `buflen` bytes.
    unsafe {
        buf.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        *buf.add(bytes.len()) = 0;
    }
}

#[unsafe(no_mangle)]
extern "C" fn rma2_perror(error: Code, header: In<c_char>) {
    let text = text(error);
    let line = match header.get() {
        None | Some(0) => format!("{text}\n"),
        Some(_) => {
            // SAFETY: not null; the caller gives a string.
            let header = unsafe { CStr::from_ptr(header.address()) };
            format!("{}: {text}\n", header.to_string_lossy())
        }
    };
    stdio::print(stdio::err(), &line);
}
