//! A VPID as its software has it: its queue, and its memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::memory::{HostMemory, RangeKind};

pub const PAGE: usize = 4096;
/// Pages of a VPID's memory.
pub const AREA: u32 = 512;
/// Bytes at its beginning that others may get: [`pattern`] from its start on.
pub const GIVEN: u32 = 192 << 10;
/// Bytes between what commands use, which nobody writes.
const GAP: u32 = 64;
/// What is in memory that was given back.
pub const REUSED: u8 = 255;

/// Bytes that payloads have, none of them [`REUSED`] or 0: those of a command begin where its number says.
pub fn pattern(number: usize, len: usize) -> Vec<u8> {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let mut random = fastrand::Rng::with_seed(7);
        (0..(1 << 20)).map(|_| random.u8(1..REUSED)).collect()
    });
    let start = number * 97 % (bytes.len() - len);
    bytes[start..start + len].to_vec()
}

/// Zeroed pages.
pub struct Pages {
    base: *mut u8,
    layout: Layout,
}

impl Pages {
    pub fn new(memory: &HostMemory, len: usize, align: usize) -> Pages {
        let layout = Layout::from_size_align(len, align).expect("a size");
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        assert!(!base.is_null());
        // SAFETY: freed when the card is gone, which is the last to have the memory.
        unsafe { memory.add_range(RangeKind::Host, base as u64, len) }.expect("a new range");
        Pages { base, layout }
    }

    pub fn address(&self) -> u64 {
        self.base as u64
    }

    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(8 * index < self.layout.size());
        // SAFETY: inside of it, and aligned.
        unsafe { AtomicU64::from_ptr(self.base.cast::<u64>().add(index)) }
    }

    pub fn bytes(&mut self, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset + len <= self.layout.size());
        // SAFETY: inside of it; all is on one thread, and no card runs meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(offset), len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated so.
        unsafe { dealloc(self.base, self.layout) };
    }
}

/// An open VPID.
pub struct Port {
    pub vpid: u8,
    /// Its number among all that were ever opened.
    pub opened: usize,
    /// The address of its memory.
    pub first: u64,
    pub queue: Pages,
    pub _table: Pages,
    pub area: Pages,
    pub entries: u32,
    pub read: u32,
    /// Pages lie so in its memory: each at its number, with these bits the other way.
    pub flip: u32,
    pub used: u32,
    /// Nobody looks at its notifications before.
    pub late: Duration,
}

impl Port {
    /// Room for so many bytes: its address.
    pub fn room(&mut self, len: u32, random: &mut fastrand::Rng) -> Option<u64> {
        let at = self.used + GAP + random.u32(..GAP);
        (at + len + GAP <= AREA * PAGE as u32).then(|| {
            self.used = at + len;
            self.first + u64::from(at)
        })
    }

    /// Does something with the bytes at an address, piece by piece.
    fn each_piece(&mut self, address: u64, len: usize, mut each: impl FnMut(&mut [u8], usize)) {
        let (mut at, mut done) = ((address - self.first) as usize, 0);
        while done < len {
            let piece = (PAGE - at % PAGE).min(len - done);
            let page = (at / PAGE) as u32 ^ self.flip;
            each(self.area.bytes(page as usize * PAGE + at % PAGE, piece), done);
            (at, done) = (at + piece, done + piece);
        }
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        self.each_piece(address, bytes.len(), |piece, at| {
            piece.copy_from_slice(&bytes[at..at + piece.len()])
        });
    }

    pub fn reuse(&mut self, address: u64, len: u32) {
        self.each_piece(address, len as usize, |piece, _| piece.fill(REUSED));
    }

    /// Whether these bytes are there, and nothing around them.
    pub fn has(&mut self, address: u64, bytes: &[u8]) -> bool {
        let mut right = true;
        self.each_piece(address, bytes.len(), |piece, at| right &= *piece == bytes[at..at + piece.len()]);
        let around = u64::from(GAP / 2);
        for beside in [address - around, address + bytes.len() as u64] {
            self.each_piece(beside, around as usize, |piece, _| right &= piece.iter().all(|byte| *byte == 0));
        }
        right
    }
}
