//! What becomes of RoCEv2 packets on their way: a seeded share is lost. Everything else always arrives.

use crate::roce;
use fastrand::Rng;
use ggas_hca::wire::{Packet, decode};

/// Loses packets.
pub struct Trouble {
    rng: Rng,
    /// One of so many; 0: none.
    one_in: u32,
    /// None of so many at the beginning.
    spare: u64,
    /// Each packet is told.
    trace: bool,
    /// Packets that were seen, and those of them that were lost.
    pub seen: u64,
    pub lost: u64,
}

impl Trouble {
    pub fn new(seed: u64, one_in: u32, spare: u64, trace: bool) -> Trouble {
        Trouble { rng: Rng::with_seed(seed), one_in, spare, trace, seen: 0, lost: 0 }
    }

    /// Whether this frame of this guest is lost.
    pub fn takes(&mut self, guest: usize, frame: &[u8]) -> bool {
        let Some(packet) = roce::packet(frame) else { return false };
        self.seen += 1;
        let lost = self.one_in > 0 && self.seen > self.spare && self.rng.u32(..self.one_in) == 0;
        self.lost += u64::from(lost);
        if self.trace {
            let told = decode(packet).map_or_else(|error| error.to_string(), |(_, packet)| told(&packet));
            eprintln!("{guest} {told}{}", if lost { " LOST" } else { "" });
        }
        lost
    }
}

/// A packet in a line.
fn told(packet: &Packet) -> String {
    let mut text = format!("{:?} {:06x}", packet.bth.opcode, packet.bth.psn);
    if packet.bth.ack_request {
        text += " asks";
    }
    if let Some(aeth) = packet.aeth {
        text += &format!(" {:?} msn {}", aeth.syndrome, aeth.msn);
    }
    if let Some(reth) = packet.reth {
        text += &format!(" {} bytes at {:x}", reth.len, reth.address);
    }
    text
}
