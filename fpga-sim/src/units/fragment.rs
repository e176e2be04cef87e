//! Cutting a command into network fragments (spec 2.3).
//!
//! Fragments are counted from the command's first byte, aligned or not; every one but the last carries the full
//! payload of MTU - 16 bytes.

/// Packet header bytes that the MTU includes (spec 2.3: payload 496 at MTU 512 \[inferred\]).
pub const HEADER_BYTES: u16 = 16;
/// Smallest payload that a hostile MTU register can bring about; keeps the number of fragments bounded.
const MIN_PAYLOAD: u16 = 16;
/// Largest payload: the MTU register has 10 bits.
pub const MAX_PAYLOAD: usize = 1023 - HEADER_BYTES as usize;

/// Payload bytes of a full fragment at this MTU.
pub fn payload_of_mtu(mtu: u16) -> u16 {
    (mtu & 0x3ff).saturating_sub(HEADER_BYTES).max(MIN_PAYLOAD)
}

/// Number of fragments of `total` bytes.
pub fn count(total: u32, payload: u16) -> u32 {
    // Nearly always it is one: without a division.
    if total <= u32::from(payload) { 1 } else { total.div_ceil(u32::from(payload.max(1))) }
}

/// Offset and length of the last fragment.
pub fn last(total: u32, payload: u16) -> (u32, u32) {
    let offset = (count(total, payload) - 1) * u32::from(payload.max(1));
    (offset, total - offset.min(total))
}

/// Offset and length of every fragment in order.
pub fn all(total: u32, payload: u16) -> impl Iterator<Item = (u32, u32)> {
    let payload = u32::from(payload.max(1));
    (0..count(total, payload as u16)).map(move |i| (i * payload, payload.min(total - i * payload)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fragments_tile_the_command(total in 1u32..=8 << 20, mtu in 0u16..2048) {
            let payload = payload_of_mtu(mtu);
            let mut next = 0;
            let mut fragments = 0;
            for (offset, len) in all(total, payload) {
                prop_assert_eq!(offset, next);
                prop_assert!(len >= 1 && len <= u32::from(payload));
                next += len;
                fragments += 1;
            }
            prop_assert_eq!(next, total);
            prop_assert_eq!(fragments, count(total, payload));
            let (offset, len) = last(total, payload);
            prop_assert_eq!(offset, (total - 1) / u32::from(payload) * u32::from(payload));
            prop_assert_eq!(offset + len, total);
        }
    }

    #[test]
    fn the_default_mtu_carries_62_quadwords() {
        assert_eq!(payload_of_mtu(512), 496);
        assert_eq!(payload_of_mtu(256), 240);
        assert_eq!(last(0x7c0, 496), (0x5d0, 0x1f0));
    }
}
