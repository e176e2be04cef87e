//! The fields of a notification (`rma2_noti_get_*`), and its text. A null pointer reads as zeroes.

use std::ffi::{c_char, c_int};

use ggas::Notification;

use crate::abi;
use crate::ffi::In;
use crate::stdio;

type N = In<abi::Notification>;

#[inline]
fn get(notification: &N) -> Notification {
    let abi::Notification { word0, word1 } =
        notification.get().unwrap_or(abi::Notification { word0: 0, word1: 0 });
    Notification { word0, word1 }
}

macro_rules! fields {
    ($($name:ident -> $type:ty = |$notification:ident| $value:expr;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(notification: N) -> $type {
            let $notification = get(&notification);
            $value
        })*
    };
}

fields! {
    rma2_noti_get_cmd -> u32 = |n| n.command().get().into();
    rma2_noti_get_notification_type -> u32 = |n| n.kind().map_or(0, |kind| kind as u32);
    rma2_noti_get_mode -> u32 = |n| n.mode().bits().into();
    rma2_noti_get_error -> u8 = |n| n.error().bits();
    rma2_noti_get_remote_nodeid -> u16 = |n| n.remote().node;
    rma2_noti_get_remote_vpid -> u16 = |n| n.remote().vpid.into();
    rma2_noti_get_local_address -> u64 = |n| n.word0;
    rma2_noti_get_size -> u32 = |n| n.size();
    rma2_noti_get_lock_value -> u32 = |n| n.lock_value() as u32;
    rma2_noti_get_lock_number -> u32 = |n| n.lock_number();
    rma2_noti_get_lock_result -> u8 = |n| n.lock_result();
    rma2_noti_get_notiput_payload -> u64 = |n| n.word0;
    rma2_noti_get_notiput_class -> u8 = |n| n.class();
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_get_total_size(start: u64, notification: N) -> u32 {
    get(&notification).total_size(start) as u32
}

/// One line of text.
fn text(notification: &N) -> String {
    match notification.get() {
        None => "no notification\n".to_owned(),
        Some(_) => format!("{}\n", get(notification)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_dump(notification: N) {
    stdio::print(stdio::out(), &text(&notification));
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_fdump(notification: N, file: *mut libc::FILE) {
    stdio::print(file, &text(&notification));
}

#[unsafe(no_mangle)]
extern "C" fn rma2_noti_sdump(notification: N, string: *mut c_char, size: c_int) {
    let Ok(room) = usize::try_from(size) else { return };
    if string.is_null() || room == 0 {
        return;
    }
    let text = text(&notification);
    // SAFETY: the caller gives `size` bytes that hold a string.
    unsafe {
        let used = libc::strnlen(string, room);
        if used < room {
            let len = text.len().min(room - used - 1);
            string.add(used).copy_from_nonoverlapping(text.as_ptr().cast(), len);
            *string.add(used + len) = 0;
        }
    }
}

/// Most words that [`rma2_read_notiqueue`] prints.
const WORDS: usize = 512;

/// Prints the first `len` words of a queue with their addresses, for debugging (spec 10.4b).
#[unsafe(no_mangle)]
extern "C" fn rma2_read_notiqueue(map: *const u64, len: u32) {
    if map.is_null() {
        return;
    }
    for i in 0..WORDS.min(len as usize) {
        // The card may be writing there.
        let at = map.wrapping_add(i);
        // SAFETY: the caller gives `len` words; they need not be aligned.
        let word = u64::from_ne_bytes(unsafe { at.cast::<[u8; 8]>().read_volatile() });
        stdio::print(stdio::out(), &format!("{at:p}: {word:#018x}\n"));
    }
}
