//! Packets are read as they were written; what is damaged is thrown away; the ICRC is a real adapter's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// A congestion notification that a ConnectX-4 Lx sent, as published with scapy's RoCE layer: from the IP header on.
const CONNECTX: [u8; 60] = [
    0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11, 0x01, 0x0a,
    0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00, 0xff, 0xff, 0x40, 0x00,
    0x01, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a,
];

#[test]
fn icrc_is_that_of_a_real_adapter() {
    let (covered, crc) = CONNECTX.split_last_chunk::<4>().unwrap();
    assert_eq!(icrc(covered, 20), Some(u32::from_le_bytes(*crc)));
    // Of no reliable connection, but the ICRC comes first.
    assert_eq!(decode(&CONNECTX), Err(WireError::Opcode(0x81)));
}

fn v4(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

fn v6(last: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0x5054, 0xff, 0xfe12, last))
}

fn flows() -> [Flow; 2] {
    [Flow::new(v4(1), v4(2), 0xc001), Flow::new(v6(1), v6(2), 0xffff)]
}

prop_compose! {
    /// A packet with the headers of its operation code.
    fn packets()(
        at in 0..Opcode::ALL.len(), flags in any::<[bool; 3]>(), pkey: u16, destination in 0u32..1 << 24, psn in 0u32..1 << 24,
        words in any::<[u64; 3]>(), syndrome in prop_oneof![0u8..0x40, 0x60u8..0x64], msn in 0u32..1 << 24,
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) -> Packet {
        let opcode = Opcode::ALL[at];
        let [solicited, migrated, ack_request] = flags;
        let [address, swap_add, compare] = words;
        let (rkey, len) = (compare as u32, (compare >> 32) as u32);
        let syndrome = Syndrome::of(syndrome).unwrap();
        Packet {
            bth: Bth { opcode, solicited, migrated, pkey, destination, ack_request, psn },
            reth: opcode.has_reth().then_some(Reth { address, rkey, len }),
            atomic: opcode.is_atomic().then_some(AtomicRequest { address, rkey, swap_add, compare }),
            aeth: opcode.has_aeth().then_some(Aeth { syndrome, msn }),
            original: (opcode == Opcode::AtomicAcknowledge).then_some(swap_add),
            immediate: (opcode.has_immediate() || opcode.has_invalidate()).then_some(rkey),
            payload: if opcode.has_payload() { payload } else { Vec::new() },
        }
    }
}

proptest! {
    #[test]
    fn packets_are_read_as_written(packet in packets(), behind in 0usize..20) {
        for flow in flows() {
            let mut bytes = Vec::new();
            let len = encode(&flow, &packet, &mut bytes).unwrap();
            prop_assert_eq!(len, bytes.len());
            // Ethernet pads short frames.
            bytes.extend(std::iter::repeat_n(0, behind));
            prop_assert_eq!(decode(&bytes), Ok((flow, packet.clone())));
        }
    }

    #[test]
    fn a_damaged_bit_is_found_unless_routers_may_change_it(packet in packets(), at: prop::sample::Index, bit in 0u8..8) {
        for (flow, free) in flows().into_iter().zip([&[(1, 0xff), (8, 0xff), (10, 0xff), (11, 0xff)][..], &[(0, 0x0f), (1, 0xff), (2, 0xff), (3, 0xff), (7, 0xff)]]) {
            let mut bytes = Vec::new();
            encode(&flow, &packet, &mut bytes).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let header = if flow.source.is_ipv4() { 20 } else { 40 };
            // The UDP checksum and the base header's fifth byte, congestion bits, are not covered either.
            let udp = (at == header + 6 || at == header + 7 || at == header + 12).then_some(0xff);
            let free = free.iter().find(|(byte, _)| *byte == at).map(|(_, mask)| *mask).or(udp).unwrap_or(0);
            let read = decode(&bytes);
            if free & (1 << bit) == 0 {
                prop_assert!(read.is_err(), "bit {} of byte {}", bit, at);
            } else if let Ok((_, read)) = read {
                prop_assert_eq!(read, packet.clone());
            }
        }
    }

    #[test]
    fn no_bytes_whatever_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), head in 0..3) {
        // Plausible beginnings, so that more than the first check is reached.
        let plausible: &[u8] = match head {
            0 => &CONNECTX[..28],
            1 => &[0x60],
            _ => &[],
        };
        for (byte, wanted) in bytes.iter_mut().zip(plausible) {
            *byte = *wanted;
        }
        let _ = decode(&bytes);
    }
}

/// A datagram whose transport part was changed by `change`, with the right ICRC for that.
fn forged(change: impl FnOnce(&mut Vec<u8>)) -> Result<(Flow, Packet), WireError> {
    let mut bytes = Vec::new();
    let packet = Packet { payload: vec![7; 5], ..Packet::new(Opcode::SendOnly, 5, 9) };
    encode(&flows()[0], &packet, &mut bytes).unwrap();
    bytes.truncate(bytes.len() - 4);
    change(&mut bytes);
    let total = bytes.len() as u16 + 4;
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    bytes[10..12].fill(0);
    let mut sum: u32 = bytes[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let crc = icrc(&bytes, 20).unwrap();
    bytes.extend(crc.to_le_bytes());
    decode(&bytes)
}

#[test]
fn what_no_sender_may_say_is_thrown_away() {
    assert!(forged(|_| ()).is_ok());
    assert_eq!(forged(|bytes| bytes[28] = 0x15), Err(WireError::Opcode(0x15)));
    assert_eq!(forged(|bytes| bytes[28] = 0x24), Err(WireError::Opcode(0x24)), "unreliable connections");
    assert_eq!(forged(|bytes| bytes[29] |= 1), Err(WireError::Version(1)));
    // Syndrome 7 << 5, where the send had payload.
    assert_eq!(forged(|bytes| (bytes[28], bytes[40]) = (0x11, 0xe7)), Err(WireError::Syndrome(0xe7)));
    assert!(matches!(forged(|bytes| bytes.push(0)), Err(WireError::Length(_))));
    assert!(
        matches!(forged(|bytes| bytes[28] = 0x0c), Err(WireError::Length(_))),
        "a read request cut short"
    );
    // Reserved bits are ignored by receivers.
    let (_, packet) = forged(|bytes| bytes[36] |= 0x7f).unwrap();
    assert!(!packet.bth.ack_request && packet.bth.psn == 9);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let mut out = Vec::new();
    let mixed = Flow::new(v4(1), v6(1), 1);
    assert_eq!(encode(&mixed, &Packet::new(Opcode::SendOnly, 1, 1), &mut out), Err(EncodeError::Family));
    let read = Packet::new(Opcode::ReadRequest, 1, 1);
    assert_eq!(
        encode(&flows()[0], &read, &mut out),
        Err(EncodeError::Headers { opcode: Opcode::ReadRequest })
    );
    let long = Packet { payload: vec![0; 4097], ..Packet::new(Opcode::SendOnly, 1, 1) };
    let refused = EncodeError::Payload { opcode: Opcode::SendOnly, len: 4097 };
    assert_eq!(encode(&flows()[0], &long, &mut out), Err(refused));
    assert!(out.is_empty());
}
