//! Copies between memory that other threads, or a device, read and write at the same time.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// Copies `len` bytes. The bytes of the last aligned word of the destination become visible last, in one store
/// where the word is whole (spec 2.3: a put's last bytes become visible last).
///
/// # Safety
/// Both ranges are mapped and stay so during the call. Other threads may access them; they see each byte old or
/// new, and after they saw the last word (acquire) all bytes new.
pub unsafe fn copy_last_word_last(destination: *mut u8, source: *const u8, len: usize) {
    if len == 0 {
        return;
    }
    let end = destination as usize + len;
    let last_word = (end - 1) & !7;
    if len == 8 && last_word == destination as usize {
        // SAFETY: eight mapped bytes at each address; the destination is aligned.
        unsafe { store_word(destination, source.cast::<u64>().read_unaligned()) };
        return;
    }
    // Bytes before the last word go in bulk.
    let bulk = last_word.saturating_sub(destination as usize).min(len);
    let tail = len - bulk;
    // Read before the bulk copy: the ranges may overlap, and then the bulk may run over the tail's source.
    let mut word = [0u8; 8];
    // SAFETY: `bulk + tail == len`, `tail <= 8`: all within the ranges the caller vouches for.
    unsafe {
        std::ptr::copy_nonoverlapping(source.add(bulk), word.as_mut_ptr(), tail);
        std::ptr::copy(source, destination, bulk);
    }
    // SAFETY: `tail` mapped bytes lie at `destination + bulk`; eight of them only at an aligned address.
    unsafe { store_tail(destination.add(bulk), &word[..tail]) };
}

/// Copies `len` bytes to memory of our own; a single word, the usual case, without a call.
///
/// # Safety
/// `len` mapped bytes at `source`, as for [`copy_last_word_last`]; `len` writable ones at `destination`, nobody
/// else's.
#[inline]
pub unsafe fn read_bytes(destination: *mut u8, source: *const u8, len: usize) {
    if len == 8 {
        // SAFETY: eight bytes at each address.
        unsafe { destination.cast::<[u8; 8]>().write(source.cast::<[u8; 8]>().read()) };
        return;
    }
    // SAFETY: as promised by the caller.
    unsafe { std::ptr::copy_nonoverlapping(source, destination, len) };
}

/// From how many bytes on streaming is faster.
#[cfg(target_arch = "x86_64")]
const STREAM_FROM: usize = 512;

/// Copies `len` bytes to memory that another core read last, past the caches where the processor can: storing there
/// in the ordinary way asks that core for line after line, at a tenth of the rate. A few lines go the ordinary way:
/// they arrive sooner. A store with release order may follow at once.
///
/// # Safety
/// As [`read_bytes`], but others may access the destination.
pub unsafe fn copy_streaming(destination: *mut u8, source: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len > STREAM_FROM {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        let head = destination.align_offset(16).min(len);
        let blocks = (len - head) / 16;
        let tail = head + 16 * blocks;
        // SAFETY: head, blocks of 16 at aligned addresses, and tail make up the caller's range.
        unsafe {
            std::ptr::copy_nonoverlapping(source, destination, head);
            for i in 0..blocks {
                let block = _mm_loadu_si128(source.add(head + 16 * i).cast::<__m128i>());
                _mm_stream_si128(destination.add(head + 16 * i).cast::<__m128i>(), block);
            }
            std::ptr::copy_nonoverlapping(source.add(tail), destination.add(tail), len - tail);
            // Streamed stores are not ordered by a release store.
            _mm_sfence();
        }
        return;
    }
    // SAFETY: as promised by the caller.
    unsafe {
        std::ptr::copy_nonoverlapping(source, destination, len);
    }
}

/// # Safety
/// `bytes.len()` (1..=8) mapped bytes lie at `destination`, within one aligned word.
unsafe fn store_tail(destination: *mut u8, bytes: &[u8]) {
    if let Ok(word) = <[u8; 8]>::try_from(bytes) {
        // SAFETY: eight bytes within one aligned word: the address is aligned.
        unsafe { store_word(destination, u64::from_ne_bytes(word)) };
        return;
    }
    fence(Ordering::Release);
    for (i, byte) in bytes.iter().enumerate() {
        // SAFETY: mapped, by the caller's promise; bytes have no alignment.
        let at = unsafe { AtomicU8::from_ptr(destination.add(i)) };
        at.store(*byte, Ordering::Release);
    }
}

/// # Safety
/// Eight mapped bytes at an aligned address.
unsafe fn store_word(destination: *mut u8, value: u64) {
    // SAFETY: as promised by the caller.
    let at = unsafe { AtomicU64::from_ptr(destination.cast()) };
    at.store(value, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn copies_exactly(from in 0usize..40, to in 0usize..40, len in 0usize..200) {
            let source: Vec<u8> = (0..256).map(|i| i as u8 ^ 0x5a).collect();
            let mut target = vec![0xeeu8; 256];
            // SAFETY: both ranges lie in their vectors.
            unsafe { copy_last_word_last(target.as_mut_ptr().add(to), source.as_ptr().add(from), len) };
            prop_assert_eq!(&target[to..to + len], &source[from..from + len]);
            prop_assert!(target[..to].iter().chain(&target[to + len..]).all(|b| *b == 0xee));
        }

        #[test]
        fn streams_exactly(from in 0usize..40, to in 0usize..40, len in 400usize..900) {
            let source: Vec<u8> = (0..1024).map(|i| i as u8 ^ 0x5a).collect();
            let mut target = vec![0xeeu8; 256];
            target.resize(1024, 0xee);
            // SAFETY: both ranges lie in their vectors.
            unsafe { copy_streaming(target.as_mut_ptr().add(to), source.as_ptr().add(from), len) };
            prop_assert_eq!(&target[to..to + len], &source[from..from + len]);
            prop_assert!(target[..to].iter().chain(&target[to + len..]).all(|b| *b == 0xee));
        }

        #[test]
        fn overlapping_ranges_copy_as_if_through_a_buffer(from in 0usize..60, to in 0usize..60, len in 0usize..190) {
            let mut memory: Vec<u8> = (0..256).map(|i| i as u8).collect();
            let expected = memory[from..from + len].to_vec();
            let base = memory.as_mut_ptr();
            // SAFETY: both ranges lie in the vector.
            unsafe { copy_last_word_last(base.add(to), base.add(from), len) };
            prop_assert_eq!(&memory[to..to + len], &expected[..]);
        }
    }
}
