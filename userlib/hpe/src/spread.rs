//! Distributed objects: one range of addresses whose parts lie on several devices (digest 2.2).
//!
//! Segments by themselves cannot spread an object, since an address names one device. A distributed object lies in a segment that is no
//! device's, or, on GPUs, where CUDA's virtual memory management maps parts side by side; whose a byte is follows from its offset.

use ggas_gpu::{Gpu, GpuWindow};

use crate::address::view;
use crate::error::HpeError;
use crate::objects::Place;
use crate::segment::{PAGE, Room, map_over, unmap};

/// What holds the parts.
enum Memory {
    /// Of the executor: pages of the segment's view.
    Executors(Room),
    Gpus(GpuWindow),
}

pub(crate) struct Spread {
    memory: Memory,
    /// Bytes from one part to the next: the length of all but the last.
    pub stride: usize,
    /// The context of each part's device.
    pub parts: Vec<usize>,
}

/// Bytes of a distributed object that lie on one device.
pub(crate) struct Piece {
    /// Of the device's context.
    pub index: usize,
    /// What the device calls it.
    pub address: u64,
    /// Where it is among the bytes that were asked for.
    pub at: usize,
    pub len: usize,
}

impl Piece {
    pub fn place(&self) -> Place {
        // Whoever has the piece holds the object.
        Place::Device { index: self.index, address: self.address, _kept: None }
    }
}

/// Bytes of each of so many parts, in whole pages.
pub(crate) fn stride(bytes: usize, parts: usize) -> Option<usize> {
    bytes.max(1).div_ceil(parts.max(1)).checked_next_multiple_of(PAGE)
}

impl Spread {
    /// Zeroed parts of `stride` bytes in pages that were taken of a segment.
    pub fn of_executors(room: Room, stride: usize, parts: Vec<usize>) -> Result<Spread, HpeError> {
        // SAFETY: the view of pages that the caller took.
        unsafe { map_over(view(room.start), room.size, libc::PROT_READ | libc::PROT_WRITE, None)? };
        Ok(Spread { memory: Memory::Executors(room), stride, parts })
    }

    /// Zeroed parts on GPUs, of at least `stride` bytes.
    pub fn of_gpus(gpus: &[Gpu], stride: usize, parts: Vec<usize>) -> Result<Spread, HpeError> {
        let window = GpuWindow::new(gpus, stride)?;
        let stride = window.stride() as usize;
        Ok(Spread { memory: Memory::Gpus(window), stride, parts })
    }

    /// What the host calls it.
    pub fn start(&self) -> u64 {
        match &self.memory {
            Memory::Executors(room) => room.start,
            Memory::Gpus(window) => window.base(),
        }
    }

    /// What all its devices call it.
    pub fn inside(&self) -> u64 {
        match &self.memory {
            Memory::Executors(room) => view(room.start),
            // CUDA's own address, whatever segment it looks like.
            Memory::Gpus(window) => window.base(),
        }
    }

    /// The context of the device that has this byte.
    pub fn owner(&self, offset: usize) -> Option<usize> {
        self.parts.get(offset / self.stride).copied()
    }

    /// The pieces of `len` bytes from `offset` on, in order.
    pub fn pieces(&self, offset: usize, len: usize) -> impl Iterator<Item = Piece> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let from = offset + at;
            let index = self.owner(from).filter(|_| at < len)?;
            let bytes = (self.stride - from % self.stride).min(len - at);
            let piece = Piece { index, address: self.inside() + from as u64, at, len: bytes };
            at += bytes;
            Some(piece)
        })
    }
}

impl Drop for Spread {
    fn drop(&mut self) {
        if let Memory::Executors(room) = &self.memory {
            // SAFETY: the runtime has taken the object out of its table, and no copy uses it.
            unsafe { unmap(view(room.start), room.size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::segment::Segment;

    #[test]
    fn pieces_are_the_bytes_in_order_and_each_on_its_device() {
        let segment = Arc::new(Segment::reserve().unwrap());
        let room = segment.room(3 * PAGE).unwrap();
        let spread = Spread::of_executors(room, PAGE, vec![2, 0, 1]).unwrap();
        let of = |offset, len| {
            let pieces = spread.pieces(offset, len);
            pieces.map(|p| (p.index, p.address - spread.inside(), p.at, p.len)).collect::<Vec<_>>()
        };
        let (page, offset) = (PAGE, PAGE as u64);
        assert_eq!(of(0, 1), [(2, 0, 0, 1)]);
        assert_eq!(of(page - 1, 2), [(2, offset - 1, 0, 1), (0, offset, 1, 1)]);
        assert_eq!(
            of(5, 3 * page - 5),
            [(2, 5, 0, page - 5), (0, offset, page - 5, page), (1, 2 * offset, 2 * page - 5, page)]
        );
        assert_eq!(of(3 * page, 1), [], "behind its end");
    }

    #[test]
    fn parts_are_whole_pages() {
        assert_eq!(stride(0, 3), Some(PAGE));
        assert_eq!(stride(3 * PAGE, 3), Some(PAGE));
        assert_eq!(stride(3 * PAGE + 1, 3), Some(2 * PAGE));
        assert_eq!(stride(usize::MAX, 1), None);
    }
}
