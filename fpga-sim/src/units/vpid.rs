//! The VPID table: which ports are open, and what they may do (spec 8.3).

use extoll_abi::regs;

/// One entry, as the register has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VpidEntry(pub u64);

impl VpidEntry {
    /// The port is open.
    #[inline]
    pub fn is_open(self) -> bool {
        regs::VPID_ENABLE.is_set(self.0)
    }

    /// ERA and EWA are allowed.
    #[inline]
    pub fn excellerate(self) -> bool {
        regs::VPID_EXCELL.is_set(self.0)
    }

    /// Protection id that packets must carry.
    #[inline]
    pub fn protection(self) -> u16 {
        regs::VPID_PROTECTION.get(self.0) as u16
    }

    /// Network traffic class of page option `tc` (0..3).
    #[inline]
    pub fn traffic_class(self, tc: u8) -> u8 {
        (regs::VPID_TCS.get(self.0) >> (2 * (tc & 3))) as u8 & 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_entry() {
        let entry = VpidEntry(regs::vpid_entry(0xbeef));
        assert!(entry.is_open() && !entry.excellerate());
        assert_eq!(entry.protection(), 0xbeef);
        assert_eq!([0, 1, 2, 3].map(|tc| entry.traffic_class(tc)), [1, 1, 3, 3]);
        assert!(!VpidEntry::default().is_open());
    }
}
