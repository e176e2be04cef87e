//! Puts of several packets that were posted where nobody was met: they are for whoever comes. All their packets go to one process, or are
//! thrown away from the first one on that does not: the last one has the notification, which says that all are there.

use crate::packet::{ANYONE, Kind, Packet};

/// The put that a VPID is sending to a node.
struct Part {
    of: (u16, u8),
    tag: u32,
    /// The number of the process that its first packet went to; [`NOBODY`](crate::packet::NOBODY): it was thrown away.
    era: u32,
}

/// What became of the first packets of puts whose last ones did not go yet. A VPID sends one after the other.
#[derive(Default)]
pub(super) struct Parts(Vec<Part>);

/// Whether a packet is one of several, for whoever comes.
#[inline]
pub(super) fn is_part(packet: &Packet) -> bool {
    packet.process == ANYONE
        && packet.kind == Kind::Put
        && packet.len < packet.total
        && packet.error.is_empty()
}

impl Parts {
    fn of(to: u16, packet: &Packet) -> (u16, u8) {
        (to, packet.source.vpid)
    }

    /// Whether a [part](is_part) may go to the process with this number.
    pub fn may_go(&self, to: u16, packet: &Packet, era: u32) -> bool {
        let of = Parts::of(to, packet);
        let begun = self.0.iter().find(|part| part.of == of && part.tag == packet.tag);
        packet.offset == 0 || begun.is_none_or(|begun| begun.era == era)
    }

    /// A part went to the process with this number, or was thrown away.
    pub fn went(&mut self, to: u16, packet: &Packet, era: u32) {
        let of = Parts::of(to, packet);
        if packet.offset == 0 {
            self.0.retain(|part| part.of != of);
            self.0.push(Part { of, tag: packet.tag, era });
        } else if packet.is_last() {
            self.0.retain(|part| part.of != of);
        }
    }
}
