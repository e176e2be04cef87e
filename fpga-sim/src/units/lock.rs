//! Lock unit: fetch-compare-and-add on 32-bit locks in main memory (spec 5).

use crate::memory::Memory;

/// Where the locks lie and how many there are (registers 0x1600088 and 0x1600090).
#[derive(Clone, Copy, Debug, Default)]
pub struct Locks {
    /// Bus address of lock 0 of VPID 0, a multiple of 4096.
    pub base: u64,
    /// The configuration register as written: \[24:0\] locks per VPID, \[40:31\] VPIDs.
    pub config: u64,
}

/// No such lock, or its memory is not declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLock;

impl Locks {
    /// Carries out `if lock <= compare { lock += add }` on lock `number` of `vpid`; returns whether it added, and
    /// the resulting value. The comparison is signed \[inferred\].
    pub fn execute(
        &self,
        memory: &dyn Memory,
        vpid: u8,
        number: u32,
        compare: i32,
        add: i32,
    ) -> Result<(bool, i32), NoLock> {
        let per_vpid = self.config & 0x1ff_ffff;
        let vpids = self.config >> 31 & 0x3ff;
        if u64::from(number) >= per_vpid || u64::from(vpid) >= vpids {
            return Err(NoLock);
        }
        // Lock i of VPID v has index v + VPIDs·i (spec 5) \[order inferred\].
        let index = u64::from(vpid) + vpids * u64::from(number);
        let address = self.base.checked_add(4 * index).ok_or(NoLock)?;
        memory.fetch_compare_add(address, compare, add).map_err(|_| NoLock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{HostMemory, RangeKind};

    #[test]
    fn locks_lie_vpid_first_and_end_at_their_number() {
        let words = vec![0u32; 16 * 256];
        let memory = HostMemory::new();
        // SAFETY: `words` outlives every access of this test.
        unsafe { memory.add_range(RangeKind::Host, words.as_ptr() as u64, words.len() * 4).unwrap() };
        let locks = Locks { base: words.as_ptr() as u64, config: 256 << 31 | 16 };
        assert_eq!(locks.execute(&*memory, 9, 2, 0, 5), Ok((true, 5)));
        // SAFETY: reads a word that the lock unit has written.
        assert_eq!(unsafe { words.as_ptr().add(9 + 256 * 2).read_volatile() }, 5);
        assert_eq!(locks.execute(&*memory, 9, 2, 4, 5), Ok((false, 5)));
        assert_eq!(locks.execute(&*memory, 255, 15, 0, -3), Ok((true, -3)));
        assert_eq!(locks.execute(&*memory, 0, 16, 0, 1), Err(NoLock));
        let fewer = Locks { config: 4 << 31 | 16, ..locks };
        assert_eq!(fewer.execute(&*memory, 4, 0, 0, 1), Err(NoLock));
        let nowhere = Locks { base: !0xfff, ..locks };
        assert_eq!(nowhere.execute(&*memory, 255, 15, 0, 1), Err(NoLock));
    }
}
