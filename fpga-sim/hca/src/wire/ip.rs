//! The way of a datagram: IPv4 or IPv6, UDP (IBTA A17.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{EncodeError, WireError};

/// The UDP port of RoCEv2.
pub const UDP_PORT: u16 = 4791;

/// Bytes of an IPv4 header without options.
pub(super) const IPV4_LEN: usize = 20;
/// Bytes of an IPv6 header.
pub(super) const IPV6_LEN: usize = 40;
/// Bytes of a UDP header.
pub(super) const UDP_LEN: usize = 8;

const PROTOCOL_UDP: u8 = 17;
const DO_NOT_FRAGMENT: u16 = 0x4000;
/// More fragments, or an offset.
const FRAGMENT: u16 = 0x3fff;

/// From where to where a datagram goes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Sender's address.
    pub source: IpAddr,
    /// Receiver's address, of the same family.
    pub destination: IpAddr,
    /// UDP port of the sender: any, the same for all packets of a connection, so that they stay on one way.
    pub source_port: u16,
    /// Type of service or traffic class: differentiated services and congestion bits.
    pub traffic_class: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
}

impl Flow {
    /// A way between two addresses, with common values for the rest.
    pub fn new(source: IpAddr, destination: IpAddr, source_port: u16) -> Flow {
        Flow { source, destination, source_port, traffic_class: 0, hop_limit: 64 }
    }

    /// Writes headers of a datagram that has `body` bytes behind its UDP header.
    pub(super) fn write(&self, body: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let udp = (UDP_LEN + body) as u16;
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let start = out.len();
                out.extend_from_slice(&[0x45, self.traffic_class]);
                out.extend_from_slice(&(IPV4_LEN as u16 + udp).to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(&DO_NOT_FRAGMENT.to_be_bytes());
                out.extend_from_slice(&[self.hop_limit, PROTOCOL_UDP, 0, 0]);
                out.extend_from_slice(&source.octets());
                out.extend_from_slice(&destination.octets());
                let checksum = !ones_sum(&out[start..]);
                out[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let first = 6 << 28 | u32::from(self.traffic_class) << 20;
                out.extend_from_slice(&first.to_be_bytes());
                out.extend_from_slice(&udp.to_be_bytes());
                out.extend_from_slice(&[PROTOCOL_UDP, self.hop_limit]);
                out.extend_from_slice(&source.octets());
                out.extend_from_slice(&destination.octets());
            }
            _ => return Err(EncodeError::Family),
        }
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&UDP_PORT.to_be_bytes());
        out.extend_from_slice(&udp.to_be_bytes());
        // The ICRC covers more: no checksum (IBTA A17.4.5.2).
        out.extend_from_slice(&[0, 0]);
        Ok(())
    }

    /// Reads headers. Returns the way, the bytes of the IP header, and the datagram without what lies behind it.
    pub(super) fn read(datagram: &[u8]) -> Result<(Flow, usize, &[u8]), WireError> {
        let version = datagram.first().ok_or(WireError::Length("nothing"))? >> 4;
        let (source, destination, traffic_class, hop_limit, header, total) = match version {
            4 => {
                let head: &[u8; IPV4_LEN] = datagram.first_chunk().ok_or(WireError::Length("IPv4"))?;
                if head[0] != 0x45 {
                    return Err(WireError::Ip("IPv4 with options"));
                }
                if ones_sum(head) != 0xffff {
                    return Err(WireError::Ip("IPv4 header checksum"));
                }
                if be16(head, 6) & FRAGMENT != 0 {
                    return Err(WireError::Ip("a fragment"));
                }
                if head[9] != PROTOCOL_UDP {
                    return Err(WireError::Port);
                }
                let address =
                    |at: usize| IpAddr::V4(Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]));
                (address(12), address(16), head[1], head[8], IPV4_LEN, usize::from(be16(head, 2)))
            }
            6 => {
                let head: &[u8; IPV6_LEN] = datagram.first_chunk().ok_or(WireError::Length("IPv6"))?;
                if head[6] != PROTOCOL_UDP {
                    return Err(WireError::Port);
                }
                let address = |at: usize| {
                    let octets = head[at..].first_chunk::<16>().copied().unwrap_or_default();
                    IpAddr::V6(Ipv6Addr::from(octets))
                };
                let class = head[0] << 4 | head[1] >> 4;
                (address(8), address(24), class, head[7], IPV6_LEN, IPV6_LEN + usize::from(be16(head, 4)))
            }
            _ => return Err(WireError::Ip("neither IPv4 nor IPv6")),
        };
        // Behind a short datagram there may be padding of the Ethernet frame.
        let datagram = datagram.get(..total).ok_or(WireError::Length("IP total length"))?;
        let udp =
            datagram.get(header..).filter(|udp| udp.len() >= UDP_LEN).ok_or(WireError::Length("UDP"))?;
        if be16(udp, 2) != UDP_PORT {
            return Err(WireError::Port);
        }
        if usize::from(be16(udp, 4)) != udp.len() {
            return Err(WireError::Length("UDP length"));
        }
        let source_port = be16(udp, 0);
        Ok((Flow { source, destination, source_port, traffic_class, hop_limit }, header, datagram))
    }
}

/// Two bytes at `at`, which are there.
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Sum of 16-bit words in ones' complement (RFC 1071); `bytes` are even in number.
fn ones_sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
