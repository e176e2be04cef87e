//! Packets that another implementation wrote: the Linux kernel's `rdma_rxe`, recorded on a wire between two of them.

use ggas_hca::wire::{Opcode, Packet, decode, encode};
use std::collections::BTreeSet;

/// Bytes of headers of IPv4 and UDP.
const IP: usize = 20;
const UDP: usize = 8;

fn vectors() -> Vec<Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/roce.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let byte = |line: &str, at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
    lines.map(|line| (0..line.len()).step_by(2).map(|at| byte(line, at)).collect()).collect()
}

#[test]
fn packets_of_rxe_are_read_and_written_as_rxe_writes_them() {
    let vectors = vectors();
    let mut seen = BTreeSet::new();
    for datagram in &vectors {
        let (flow, packet) = decode(datagram).unwrap();
        seen.insert(packet.bth.opcode as u8);
        let mut written = Vec::new();
        let len = encode(&flow, &packet, &mut written).unwrap();
        assert_eq!(len, datagram.len());
        // All but what rxe's host chooses for each packet, the identification, and what covers it.
        assert_eq!(written[..4], datagram[..4]);
        assert_eq!(written[6..10], datagram[6..10]);
        let end = len - 4;
        assert_eq!(written[12..end], datagram[12..end], "{packet:?}");
        assert_eq!(decode(&written).unwrap(), (flow, packet));
    }
    // Everything but what programs on rxe asked for nowhere: sends that invalidate a key.
    let wanted: BTreeSet<u8> =
        Opcode::ALL.iter().filter(|opcode| !opcode.has_invalidate()).map(|opcode| *opcode as u8).collect();
    assert_eq!(seen, wanted);
}

/// The CRC covers what the network leaves as it is: any other bit that changes shows.
#[test]
fn a_changed_bit_shows_but_where_routers_change_them() {
    for datagram in vectors().iter().filter(|datagram| datagram.len() < 128) {
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // UDP's checksum is not looked at, and BTH's congestion bits may change on the way (IBTA A17.3).
            let masked = [IP + 6, IP + 7, IP + UDP + 4].contains(&(bit / 8));
            assert_eq!(decode(&changed).is_ok(), masked, "bit {bit}");
        }
    }
}

#[test]
fn what_rxe_asked_for_is_in_the_headers() {
    let find = |opcode: Opcode| -> Packet {
        let packets = vectors().into_iter().map(|datagram| decode(&datagram).unwrap().1);
        packets.into_iter().find(|packet| packet.bth.opcode == opcode).unwrap()
    };
    // The plan of tests/vm/rxe/plan.h: eight bytes at a counter, keys and lengths below a slot.
    let swap = find(Opcode::CompareSwap);
    assert_eq!(swap.atomic.unwrap().address % 8, 0);
    let read = find(Opcode::ReadRequest);
    assert!(read.reth.unwrap().len <= 4096);
    assert_eq!(find(Opcode::SendFirst).payload.len(), 1024);
    assert_eq!(find(Opcode::WriteFirst).payload.len(), 1024);
}
