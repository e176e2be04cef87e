//! Parts of a guest's memory, and where in them the bytes of an access are.

use std::ops::Range;
use std::sync::Arc;

use memmap2::MmapRaw;

use crate::cut::Watched;

/// A part of the guest's memory, mapped while the value lives.
pub(crate) struct Part {
    pub bus: u64,
    pub size: u64,
    /// Before `map`: dropped first.
    pub watched: Watched,
    pub map: MmapRaw,
}

impl Part {
    /// Its address in this process.
    pub fn host(&self) -> u64 {
        self.map.as_mut_ptr() as u64
    }

    pub fn end(&self) -> u64 {
        self.bus + self.size
    }
}

/// A run of an access's bytes, and their address in this process.
pub(crate) struct Piece {
    pub at: u64,
    pub bytes: Range<usize>,
}

/// Where the bytes of an access are.
pub(crate) enum Place {
    /// All in one part, at this address of this process.
    One(u64),
    /// In parts that follow one another on the bus, as a virtual IOMMU makes them, page by page.
    Many(Vec<Piece>),
}

/// Finds `len` bytes at a bus address in parts that are sorted by it.
pub(crate) fn place(parts: &[Arc<Part>], bus: u64, len: usize) -> Option<Place> {
    let end = bus.checked_add(len as u64)?;
    let first = parts.partition_point(|part| part.bus <= bus).checked_sub(1)?;
    let part = parts.get(first).filter(|part| bus < part.end())?;
    if end <= part.end() {
        return Some(Place::One(part.host() + (bus - part.bus)));
    }
    let (mut pieces, mut next) = (Vec::new(), bus);
    for part in parts.iter().skip(first) {
        if !(part.bus..part.end()).contains(&next) {
            return None;
        }
        let (at, start) = (part.host() + (next - part.bus), (next - bus) as usize);
        next = end.min(part.end());
        pieces.push(Piece { at, bytes: start..(next - bus) as usize });
        if next == end {
            return Some(Place::Many(pieces));
        }
    }
    None
}
