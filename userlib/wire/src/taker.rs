//! Events that a library tells in the middle of a poll, since it keeps their bytes no longer.

use std::ffi::{c_int, c_void};
use std::slice;

use crate::event::{Event, Led};
use crate::table::{self, RawEvent};

/// Has events in the middle of a poll.
pub(crate) struct Taker<'a, F> {
    pub each: &'a mut F,
    /// Events that it had.
    pub had: usize,
}

/// `ggas_taker`.
///
/// # Safety
/// `whose` is a [`Taker`] of `F` that nobody else uses meanwhile; the event's bytes are there until this returns.
pub(crate) unsafe extern "C" fn take<F: FnMut(Event<'_>)>(
    whose: *mut c_void,
    event: *const RawEvent,
) -> c_int {
    // SAFETY: by this function's contract.
    let (taker, event) = unsafe { (&mut *whose.cast::<Taker<'_, F>>(), &*event) };
    let part = |bytes: *const u8, len: u64| match len {
        0 => &[][..],
        // SAFETY: by this function's contract.
        len => unsafe { slice::from_raw_parts(bytes, len as usize) },
    };
    let (bytes, mut taken) = (part(event.bytes, event.len), false);
    match event.kind {
        table::MESSAGE => (taker.each)(Event::Message(bytes)),
        table::WRITTEN => (taker.each)(Event::Written(event.immediate)),
        table::LED => {
            let more = part(event.more, event.more_len);
            (taker.each)(Event::Led(Led::new(event.immediate, bytes, more, &mut taken)));
        }
        _ => {}
    }
    taker.had += 1;
    c_int::from(taken)
}
