//! Copies between memory that the card may change at any time and slices.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// Copies `into.len()` bytes from shared memory, words where the source is aligned.
///
/// # Safety
/// The source range must be mapped; others may change it meanwhile, atomically.
pub unsafe fn copy_out(source: *const u8, into: &mut [u8]) {
    let head = source.align_offset(8).min(into.len());
    let (first, rest) = into.split_at_mut(head);
    let (words, last) = rest.as_chunks_mut::<8>();
    // SAFETY: all offsets are below `into.len()`, and the words are aligned by the choice of `head`.
    unsafe {
        for (i, byte) in first.iter_mut().enumerate() {
            *byte = AtomicU8::from_ptr(source.add(i).cast_mut()).load(Ordering::Relaxed);
        }
        let aligned = source.add(head).cast::<u64>().cast_mut();
        let tail = aligned.add(words.len()).cast::<u8>();
        for (i, word) in words.iter_mut().enumerate() {
            *word = AtomicU64::from_ptr(aligned.add(i)).load(Ordering::Relaxed).to_ne_bytes();
        }
        for (i, byte) in last.iter_mut().enumerate() {
            *byte = AtomicU8::from_ptr(tail.add(i)).load(Ordering::Relaxed);
        }
    }
    // What was written before the bytes we saw is visible to what follows.
    fence(Ordering::Acquire);
}

/// Copies `from` to shared memory, words where the destination is aligned.
///
/// # Safety
/// The destination range must be mapped and writable; others may read it meanwhile, atomically.
pub unsafe fn copy_in(from: &[u8], destination: *mut u8) {
    fence(Ordering::Release);
    let head = destination.align_offset(8).min(from.len());
    let (first, rest) = from.split_at(head);
    let (words, last) = rest.as_chunks::<8>();
    // SAFETY: all offsets are below `from.len()`, and the words are aligned by the choice of `head`.
    unsafe {
        for (i, byte) in first.iter().enumerate() {
            AtomicU8::from_ptr(destination.add(i)).store(*byte, Ordering::Relaxed);
        }
        let aligned = destination.add(head).cast::<u64>();
        let tail = aligned.add(words.len()).cast::<u8>();
        for (i, word) in words.iter().enumerate() {
            AtomicU64::from_ptr(aligned.add(i)).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        for (i, byte) in last.iter().enumerate() {
            AtomicU8::from_ptr(tail.add(i)).store(*byte, Ordering::Relaxed);
        }
    }
}
