//! Sending: which way a packet goes, and to which process.

use std::sync::atomic::Ordering;

use extoll_abi::Modifier;
use ggas_members::{MemberId, Members, PeerState};

use super::cables::Way;
use super::fabric::ProcessFabric;
use super::link::Link;
use super::losses::REPEAT;
use super::outgoing::Refused;
use crate::node::{Owner, process_of};
use crate::packet::{ANYONE, NOBODY, Packet, Payload};

impl ProcessFabric {
    /// See [`Fabric::send`](crate::Fabric::send).
    #[inline]
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    pub(super) fn send_packet(&self, packet: Packet) -> Result<(), Packet> {
        if packet.modifier.contains(Modifier::MC) {
            self.discard(); // groups have no members
            return Ok(());
        }
        let link = match self.ways.to(packet.destination.node) {
            Way::Open(link) => link,
            Way::Shut(generation) => return self.wait_for_change(generation, packet),
            Way::Nowhere => {
                self.discard();
                return Ok(());
            }
        };
        let fragments = packet.fragments();
        self.deliver(packet)?;
        if let Some(link) = link {
            self.nodes.count_sent(link, fragments);
        }
        Ok(())
    }

    /// The process that takes a packet.
    #[inline]
    fn owner(&self, packet: &Packet) -> Owner {
        let to = packet.destination;
        match packet.kind.is_smfu() {
            true => self.nodes.smfu_word(to),
            false => self.nodes.owner_word(to.node, to.vpid),
        }
    }

    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    fn send_here(&self, packet: Packet) -> Result<(), Packet> {
        let queue = &self.own[packet.class() as usize];
        if let Err(packet) = queue.push(packet) {
            self.own_refused.store(true, Ordering::SeqCst);
            queue.push(packet)?;
        }
        self.wake_card();
        Ok(())
    }

    /// Nobody serves the address, or not the one that the packet is for: this process's card acts for the target's.
    #[cold]
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    fn act_here(&self, mut packet: Packet) -> Result<(), Packet> {
        packet.process = NOBODY;
        self.send_here(packet)
    }

    /// A link lost the packet: it goes when its repetition is due.
    #[cold]
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    fn repeat_later(&self, packet: Packet) -> Result<(), Packet> {
        let this = self.this.clone();
        self.member().soon(REPEAT, move || {
            if let Some(fabric) = this.upgrade() {
                fabric.look_again();
            }
        });
        Err(packet)
    }

    /// The peer is not met: meets it, unless it is gone.
    #[cold]
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    fn send_unmet(&self, id: MemberId, link: &Link, packet: Packet) -> Result<(), Packet> {
        if self.member().state(id) != PeerState::Joined || link.is_gone(id.generation) {
            return self.act_here(packet);
        }
        self.meet(id);
        Err(packet)
    }

    /// Hands a packet to the process that serves its target.
    #[inline]
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    fn deliver(&self, packet: Packet) -> Result<(), Packet> {
        let owner = self.owner(&packet);
        let Some((id, link)) = owner.member().and_then(|id| Some((id, self.link(id.slot)?))) else {
            return self.act_here(packet);
        };
        if packet.process != ANYONE && packet.process != process_of(id) {
            return self.act_here(packet);
        }
        if owner == self.owner {
            return self.send_here(packet);
        }
        if self.losses.strike() {
            return self.repeat_later(packet);
        }
        let staged = matches!(packet.payload, Payload::Lent(_));
        match link.out.send(id.generation, &self.arena, packet) {
            Ok(0) => Ok(()),
            Ok(bytes) => {
                self.counters.referenced.fetch_add(bytes as u64, Ordering::Relaxed);
                if staged {
                    self.counters.staged.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(Refused::Full(packet)) => Err(packet),
            Err(Refused::Unmet(packet)) => self.send_unmet(id, link, packet),
            // Made while nobody served the address, by reference to memory that others do not see: that is how it
            // is treated.
            Err(Refused::Gone(packet) | Refused::Never(packet)) => self.act_here(packet),
        }
    }
}
