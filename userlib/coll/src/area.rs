//! Where a group's flags and buffers lie: `kernels/include/ggas/impl/coll_area.h`.

use crate::GroupError;

/// A flag that is polled lies in a line of its own.
const LINE: usize = 256;

/// Sizes of one node's area; all nodes have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// Bytes of flags, at the start.
    pub flags: usize,
    /// All bytes.
    pub bytes: usize,
}

impl Area {
    pub fn new(nodes: usize, slot_bytes: usize) -> Result<Self, GroupError> {
        if slot_bytes == 0 || !slot_bytes.is_multiple_of(LINE) {
            return Err(GroupError::SlotBytes(slot_bytes));
        }
        let too_large = GroupError::TooLarge { nodes, slot_bytes };
        let sum = || {
            // The check-out flag; check-in, arrival and result flags of each node.
            let flags = LINE + 3 * nodes.checked_mul(8)?.checked_next_multiple_of(LINE)?;
            // Staging in two halves, and results: a slot of each node.
            let slots = slot_bytes.checked_mul(nodes)?.checked_mul(3)?;
            Some(Self { flags, bytes: flags.checked_add(slots)? })
        };
        sum().ok_or(too_large)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_kernels() {
        let area = Area::new(2, 256).expect("small");
        assert_eq!(area, Area { flags: 4 * 256, bytes: 4 * 256 + 6 * 256 });
        let area = Area::new(33, 4096).expect("small");
        assert_eq!(area, Area { flags: 256 + 3 * 512, bytes: 256 + 3 * 512 + 3 * 33 * 4096 });
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(matches!(Area::new(2, 0), Err(GroupError::SlotBytes(0))));
        assert!(matches!(Area::new(2, 100), Err(GroupError::SlotBytes(100))));
        assert!(matches!(Area::new(2, usize::MAX & !255), Err(GroupError::TooLarge { .. })));
        assert!(matches!(Area::new(usize::MAX, 256), Err(GroupError::TooLarge { .. })));
    }
}
