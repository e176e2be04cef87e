//! Arrays in the register file (spec 8).

/// Which element of an array of registers an offset names, and where in it.
pub(super) fn element(offset: u64, base: u64, stride: u64, count: u64) -> Option<(usize, u64)> {
    let from = offset.checked_sub(base)?;
    (from < stride * count).then_some(((from / stride) as usize, from % stride))
}

/// VPID of a register array of eight bytes each.
pub(super) fn array(offset: u64, base: u64) -> Option<u8> {
    element(offset, base, 8, 256).filter(|(_, rest)| *rest == 0).map(|(i, _)| i as u8)
}

/// VPID of a page of its own.
pub(super) fn page(offset: u64, base: u64) -> Option<u8> {
    element(offset, base, 4096, 256).filter(|(_, rest)| *rest == 0).map(|(i, _)| i as u8)
}

/// A register of a queue: its array, from `first` to `last`, and which VPID.
pub(super) fn queue(offset: u64, first: u64, last: u64) -> Option<(u64, u8)> {
    (first..last + 0x800).contains(&offset).then_some((offset & !0x7ff, (offset >> 3) as u8))
}
