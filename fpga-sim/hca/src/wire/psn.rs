//! Packet sequence numbers, and message sequence numbers: 24 bits that wrap (IBTA 9.7.2).

/// Bits of a number.
pub const MASK: u32 = 0xff_ffff;

/// `psn + count`, wrapped.
pub fn add(psn: u32, count: u32) -> u32 {
    psn.wrapping_add(count) & MASK
}

/// How far `to` lies behind `from`: negative where it lies before; half the numbers lie on each side.
pub fn distance(from: u32, to: u32) -> i32 {
    ((to.wrapping_sub(from) << 8) as i32) >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps() {
        assert_eq!(add(MASK, 1), 0);
        assert_eq!(distance(MASK, 0), 1);
        assert_eq!(distance(0, MASK), -1);
        assert_eq!(distance(5, 5), 0);
        assert_eq!(distance(0, 0x7f_ffff), 0x7f_ffff);
        assert_eq!(distance(0, 0x80_0000), -0x80_0000);
    }
}
