//! RoCEv2 inside Ethernet frames: IPv4, UDP to port 4791.

use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, UdpPacket};

/// UDP port of RoCEv2 (IBTA annex A17).
pub const PORT: u16 = 4791;

/// The IPv4 packet in a frame, without what Ethernet fills short frames up with, if it is one of RoCEv2.
pub fn packet(frame: &[u8]) -> Option<&[u8]> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    // A fragment is none: senders keep packets below the network's limit.
    if ip.next_header() != IpProtocol::Udp || ip.more_frags() || ip.frag_offset() != 0 {
        return None;
    }
    let udp = UdpPacket::new_checked(ip.payload()).ok()?;
    let length = usize::from(ip.total_len());
    (udp.dst_port() == PORT).then(|| &ethernet.payload()[..length])
}
