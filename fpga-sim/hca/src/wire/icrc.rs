//! The invariant CRC of RoCEv2 (IBTA 7.8.1, A17.5): what a switch or router may change counts as ones.

use super::ip::{IPV4_LEN, IPV6_LEN, UDP_LEN};

/// Bytes of the base header.
const BTH_LEN: usize = 12;

/// The ICRC of a datagram that begins with its IP header of `ip_len` bytes (20 or 40) and ends before the ICRC. It lies
/// on the wire with its lowest byte first.
///
/// `None` where the datagram ends before the base header does.
pub fn icrc(datagram: &[u8], ip_len: usize) -> Option<u32> {
    let mut head = [0xff; 8 + IPV6_LEN + UDP_LEN + BTH_LEN];
    let covered = ip_len + UDP_LEN + BTH_LEN;
    // Eight bytes of ones stand in for the local route header that Ethernet has not.
    let masked = head.get_mut(8..8 + covered)?;
    masked.copy_from_slice(datagram.get(..covered)?);
    let mut ones = |range: std::ops::Range<usize>| masked[range].fill(0xff);
    match ip_len {
        IPV4_LEN => {
            ones(1..2); // type of service
            ones(8..9); // time to live
            ones(10..12); // header checksum
        }
        IPV6_LEN => {
            ones(1..4); // traffic class and flow label, but for the first four bits
            ones(7..8); // hop limit
        }
        _ => return None,
    }
    ones(ip_len + 6..ip_len + 8); // UDP checksum
    ones(ip_len + UDP_LEN + 4..ip_len + UDP_LEN + 5); // congestion bits and reserved ones
    if ip_len == IPV6_LEN {
        masked[0] |= 0x0f;
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..8 + covered]);
    crc.update(&datagram[covered..]);
    Some(crc.finalize())
}
