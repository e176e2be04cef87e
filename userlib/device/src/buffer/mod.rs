//! Page-aligned host memory that the card may read and write at any time.

mod arena;
mod backing;
mod copy;
mod shared;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ggas_members::memory::Arena;

use self::arena::Block;
pub(crate) use self::arena::use_arena;
use self::backing::{Backing, Mapping};
pub use self::copy::{copy_in, copy_out};
pub use self::shared::SharedMemory;
use crate::DeviceError;

/// Bytes of a page, the card's and the host's.
pub const PAGE: usize = 4096;

/// Zeroed, page-aligned host memory.
///
/// The card changes registered memory behind the compiler's back, so there is no `&mut [u8]` to it: bytes are
/// copied in and out with [`read`](Self::read) and [`write`](Self::write), and single words are loaded and stored
/// with [`load_u64`](Self::load_u64) and [`store_u64`](Self::store_u64). Pages are touched lazily.
///
/// Once this process has joined a job, new buffers lie in its arena, which the job's other processes can read: puts
/// from there are copied once. Buffers made before, and those that find no room there, are private; puts from them
/// are copied twice. Buffers may outlive the job. A forked child must not touch buffers of an arena: it does not
/// have that memory; dropping them there does nothing.
///
/// ```
/// use ggas_device::HostBuffer;
/// let buffer = HostBuffer::zeroed(100)?;
/// buffer.write(96, &[1, 2, 3, 4]);
/// let mut word = [0; 4];
/// buffer.read(96, &mut word);
/// assert_eq!(word, [1, 2, 3, 4]);
/// # Ok::<(), ggas_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct HostBuffer {
    backing: Backing,
    len: usize,
}

// SAFETY: the buffer is plain memory that it owns until drop; every access through `&self` is atomic.
unsafe impl Send for HostBuffer {}
// SAFETY: as above.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// `len` zero bytes; the memory is rounded up to whole pages. An empty buffer is allowed, but cannot be
    /// registered.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] when the operating system refuses.
    pub fn zeroed(len: usize) -> Result<HostBuffer, DeviceError> {
        match arena::current() {
            Some(arena) if len > 0 => {
                HostBuffer::in_arena(&arena, len).or_else(|_| HostBuffer::unshared(len))
            }
            _ => HostBuffer::unshared(len),
        }
    }

    /// `len` zero bytes in this arena; the node whose arena it is sends them by reference.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] when it has no room, or `len` is 0.
    pub fn in_arena(arena: &Arc<Arena>, len: usize) -> Result<HostBuffer, DeviceError> {
        let refused = |source| DeviceError::Memory { what: "a host buffer in the arena", bytes: len, source };
        let block = arena.alloc(len, PAGE).map_err(refused)?;
        Ok(HostBuffer { backing: Backing::Arena(Block::new(block)), len })
    }

    /// `len` zero bytes that no other process can read, whether or not this one has joined a job.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] when the operating system refuses.
    pub fn unshared(len: usize) -> Result<HostBuffer, DeviceError> {
        HostBuffer::private(len, PAGE, "a host buffer")
    }

    /// Memory of this process alone, aligned to `align` (a power of two, at least a page).
    pub(crate) fn private(len: usize, align: usize, what: &'static str) -> Result<HostBuffer, DeviceError> {
        let mapping = Mapping::new(len, align);
        let mapping = mapping.map_err(|source| DeviceError::Memory { what, bytes: len, source })?;
        Ok(HostBuffer { backing: Backing::Mapped(mapping), len })
    }

    /// Length in bytes as asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First byte. Only raw access goes through it; the card may write at any time.
    pub fn as_ptr(&self) -> *mut u8 {
        self.backing.start().as_ptr()
    }

    /// The first byte's address as a number, as kernels and physical-mode descriptors take it.
    pub fn address(&self) -> u64 {
        self.as_ptr() as u64
    }

    /// Copies bytes out, whole aligned words at a time. Bytes that the card writes meanwhile are old or new.
    ///
    /// # Panics
    /// When the range leaves the buffer, as slices do; [`checked`](Self::checked) asks first.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        assert!(self.checked(offset, into.len()), "read past the end of a buffer of {} bytes", self.len);
        // SAFETY: the range lies inside the mapping; all access to it is atomic or the card's.
        unsafe { copy_out(self.as_ptr().add(offset), into) }
    }

    /// Copies bytes in, whole aligned words at a time.
    ///
    /// # Panics
    /// When the range leaves the buffer, as slices do; [`checked`](Self::checked) asks first.
    pub fn write(&self, offset: usize, from: &[u8]) {
        assert!(self.checked(offset, from.len()), "write past the end of a buffer of {} bytes", self.len);
        // SAFETY: as in `read`.
        unsafe { copy_in(from, self.as_ptr().add(offset)) }
    }

    /// Makes `len` bytes zero. Pages that hold nothing but zeros are only read, so that those nobody ever wrote still
    /// take no memory in a private buffer; in shared memory a page is taken by the first look at it.
    ///
    /// # Panics
    /// When the range leaves the buffer, as slices do; [`checked`](Self::checked) asks first.
    pub fn zero(&self, offset: usize, len: usize) {
        assert!(self.checked(offset, len), "zeros past the end of a buffer of {} bytes", self.len);
        let (mut at, end) = (offset, offset + len);
        let mut page = [0; PAGE];
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let piece = &mut page[..next - at];
            self.read(at, piece);
            if piece.iter().any(|byte| *byte != 0) {
                piece.fill(0);
                self.write(at, piece);
            }
            at = next;
        }
    }

    /// Whether `len` bytes at `offset` lie inside the buffer.
    pub fn checked(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// Loads the 8-byte aligned word at byte `offset` with acquire order: what the card wrote before it is seen.
    ///
    /// # Panics
    /// When the word is unaligned or leaves the buffer.
    pub fn load_u64(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Stores the 8-byte aligned word at byte `offset` with release order.
    ///
    /// # Panics
    /// When the word is unaligned or leaves the buffer.
    pub fn store_u64(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release)
    }

    /// The aligned word at byte `offset`.
    ///
    /// # Panics
    /// When the word is unaligned or leaves the buffer.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && self.checked(offset, 8),
            "no aligned word at byte {offset} of {}",
            self.len
        );
        // SAFETY: inside the mapping, aligned (pages are), alive as long as `self`, accessed atomically only.
        unsafe { AtomicU64::from_ptr(self.as_ptr().add(offset).cast()) }
    }

    /// Keeps page tables of huge, mostly untouched buffers from being backed by huge pages.
    pub(crate) fn small_pages_only(&self) {
        self.backing.small_pages_only();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_alignment_and_length_are_exact() {
        let buffer = HostBuffer::zeroed(64).unwrap();
        for offset in 0..17 {
            for len in 0..40 {
                buffer.write(0, &[0xee; 64]);
                let data: Vec<u8> = (0..len as u8).map(|i| i ^ 0x5a).collect();
                buffer.write(offset, &data);
                let mut all = [0; 64];
                buffer.read(0, &mut all);
                assert!(all[..offset].iter().all(|b| *b == 0xee));
                assert_eq!(&all[offset..offset + len], data);
                assert!(all[offset + len..].iter().all(|b| *b == 0xee));
                let mut back = vec![0; len];
                buffer.read(offset, &mut back);
                assert_eq!(back, data);
            }
        }
    }

    #[test]
    fn zeros_reach_exactly_where_they_should() {
        let buffer = HostBuffer::zeroed(4 * PAGE).unwrap();
        for (offset, len) in
            [(0, 4 * PAGE), (1, 1), (PAGE - 3, 6), (100, 2 * PAGE), (4 * PAGE - 1, 1), (7, 0)]
        {
            buffer.write(0, &[0xee; 4 * PAGE]);
            buffer.zero(offset, len);
            let mut all = [1; 4 * PAGE];
            buffer.read(0, &mut all);
            for (i, byte) in all.iter().enumerate() {
                let expected = if (offset..offset + len).contains(&i) { 0 } else { 0xee };
                assert_eq!(*byte, expected, "byte {i} of zeros at {offset}, {len} of them");
            }
        }
    }

    #[test]
    fn alignment_is_kept_and_absurd_sizes_are_errors() {
        let buffer = HostBuffer::private(1, 2 << 20, "a table").unwrap();
        assert_eq!(buffer.address() % (2 << 20), 0);
        assert!(HostBuffer::zeroed(usize::MAX).is_err());
        assert!(HostBuffer::zeroed(usize::MAX / 2).is_err());
    }
}
