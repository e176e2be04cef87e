//! Which GPU holds an address: all GPU memory that this crate allocated.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Start of a range → its length and the ordinal of its GPU.
static RANGES: RwLock<BTreeMap<u64, (usize, usize)>> = RwLock::new(BTreeMap::new());

pub(crate) fn insert(start: u64, len: usize, gpu: usize) {
    RANGES.write().unwrap_or_else(PoisonError::into_inner).insert(start, (len, gpu));
}

pub(crate) fn remove(start: u64) {
    RANGES.write().unwrap_or_else(PoisonError::into_inner).remove(&start);
}

/// The ordinal of the GPU whose memory holds all of `len` bytes at `address`.
pub(crate) fn gpu_of(address: u64, len: usize) -> Option<usize> {
    let ranges = RANGES.read().unwrap_or_else(PoisonError::into_inner);
    let (start, (size, gpu)) = ranges.range(..=address).next_back()?;
    let end = address.checked_add(len as u64)?;
    (end <= start + *size as u64).then_some(*gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_range_that_holds_all_of_it() {
        const BASE: u64 = 0x7100_0000_0000;
        insert(BASE, 4096, 1);
        insert(BASE + 4096, 4096, 2);
        assert_eq!(gpu_of(BASE, 4096), Some(1));
        assert_eq!(gpu_of(BASE + 4095, 1), Some(1));
        assert_eq!(gpu_of(BASE + 4096, 4096), Some(2));
        assert_eq!(gpu_of(BASE + 4095, 2), None);
        assert_eq!(gpu_of(BASE + 8192, 1), None);
        assert_eq!(gpu_of(BASE - 1, 1), None);
        assert_eq!(gpu_of(u64::MAX, 2), None);
        remove(BASE);
        assert_eq!(gpu_of(BASE, 1), None);
        remove(BASE + 4096);
    }
}
