//! Copies between memory that several processes access: by atomics, words where both sides allow it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use ggas::device::{copy_in, copy_out};

/// Bytes at a time where words do not lie alike.
const PIECE: usize = 512;

/// Copies `bytes` bytes; a store with release order behind it tells who acquires it that they are there.
///
/// # Safety
/// Both ranges are mapped, the second one writable; others access them meanwhile by atomics, or as the system does.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    if !(from.addr() ^ to.addr()).is_multiple_of(8) {
        let mut piece = [0; PIECE];
        for at in (0..bytes).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(bytes - at)];
            // SAFETY: inside the ranges of the caller.
            unsafe {
                copy_out(from.add(at), piece);
                copy_in(piece, to.add(at));
            }
        }
        return;
    }
    let head = from.align_offset(8).min(bytes);
    let words = (bytes - head) / 8;
    let tail = head + 8 * words;
    let byte = |at: usize| {
        // SAFETY: inside the ranges of the caller.
        let (from, to) =
            unsafe { (AtomicU8::from_ptr(from.add(at).cast_mut()), AtomicU8::from_ptr(to.add(at))) };
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    };
    (0..head).for_each(byte);
    // SAFETY: inside the ranges, aligned by the choice of `head`.
    let (from_words, to_words) =
        unsafe { (from.add(head).cast::<u64>().cast_mut(), to.add(head).cast::<u64>()) };
    for at in 0..words {
        // SAFETY: as above.
        let (from, to) =
            unsafe { (AtomicU64::from_ptr(from_words.add(at)), AtomicU64::from_ptr(to_words.add(at))) };
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    (tail..bytes).for_each(byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_and_length_is_copied_and_nothing_beside() {
        let source: Vec<u64> = (1..257_u64).map(|at| at.wrapping_mul(0x0101_0203_0509_0d11)).collect();
        let source: Vec<u8> = source.into_iter().flat_map(u64::to_ne_bytes).collect();
        for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
            for bytes in [0, 1, 7, 8, 9, 63, 511, 512, 513, 1200] {
                let mut target = vec![0xee_u8; 1300];
                // SAFETY: inside both.
                unsafe { copy(source.as_ptr().add(from), target.as_mut_ptr().add(to), bytes) };
                assert!(target[..to].iter().chain(&target[to + bytes..]).all(|byte| *byte == 0xee));
                assert_eq!(target[to..to + bytes], source[from..from + bytes], "{from} {to} {bytes}");
            }
        }
    }
}
