//! VELO: small messages into mailboxes (spec 7).
//!
//! [`Message`] is what a requester page collected, [`send`] makes a packet of it; [`Letter`] is what a packet
//! brings, a [`Mailbox`] writes it into memory. As on the card there are no credits from end to end: a message that
//! finds no room waits, and holds back the network behind it, until software frees slots or the timeout drops it.

mod mailbox;

use extoll_abi::{
    Address, CommandCode, ErrorUnits, Mode, Modifier, Spec, VELO_LINE_WORDS, VELO_MAX_BYTES, VeloError,
    VeloHeader, VeloStatus, regs,
};

pub use self::mailbox::{Fate, Letter, Mailbox};
use crate::packet::{ANYONE, Kind, Packet, Payload};
use crate::units::wcb::Line;

/// A complete line of a requester page: the header, then the payload in whole quadwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Traffic class of the page.
    pub tc: u8,
    /// The words; those behind the payload are anything.
    pub word: [u64; VELO_LINE_WORDS],
    /// The process that it is for, see [`Packet::process`].
    pub process: u32,
}

impl Line<VELO_LINE_WORDS> for Message {
    type Page = u8;

    #[inline]
    fn page_bits(tc: u8) -> u8 {
        tc
    }

    /// The header tells how many; before it came, no number is enough.
    #[inline]
    fn needed(present: u32, first: u64) -> u32 {
        if present & 1 == 0 { u32::MAX } else { (1 << VeloHeader::line_words(first)) - 1 }
    }

    #[inline]
    fn collect(tc: u8, word: [u64; VELO_LINE_WORDS]) -> Message {
        Message { tc, word, process: ANYONE }
    }
}

/// What a VPID sends as: register node_vpid_prot_desc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxDesc(pub u64);

impl TxDesc {
    /// Name of the sender.
    #[inline]
    pub fn source(self) -> Address {
        let (node, vpid) = (regs::VELO_TX_NODE.get(self.0), regs::VELO_TX_VPID.get(self.0));
        Address::new(node as u16, vpid as u8)
    }

    /// Protection id.
    #[inline]
    pub fn protection(self) -> u16 {
        regs::VELO_TX_PROTECTION.get(self.0) as u16
    }
}

/// What a VPID receives: register comp_prot_desc. Rerouting has no effect in the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxDesc(pub u64);

impl RxDesc {
    /// Its mailbox is ready.
    #[inline]
    pub fn has_mailbox(self) -> bool {
        regs::VELO_RX_MAILBOX.is_set(self.0)
    }

    /// Protection id that messages must carry.
    #[inline]
    pub fn protection(self) -> u16 {
        regs::VELO_RX_PROTECTION.get(self.0) as u16
    }
}

/// The packet of a message from a page of `vpid`, which sends under the name in its descriptor. One for a group has the multicast modifier and the
/// group in place of the node.
///
/// # Errors
/// [`VeloError`] for a header that the unit does not carry out.
#[inline]
pub fn send(node: u16, vpid: u8, tx: TxDesc, message: &Message) -> Result<Packet, VeloError> {
    let header = VeloHeader::decode(message.word[0])?;
    let mut bytes = [0; VELO_MAX_BYTES];
    let (quads, words) = (bytes.as_chunks_mut::<8>().0, &message.word[1..]);
    quads.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
    Ok(Packet {
        source: Address::new(node, vpid),
        destination: header.destination,
        kind: Kind::Velo,
        command: CommandCode::default(),
        spec: Spec::NONE,
        modifier: if header.multicast { Modifier::MC } else { Modifier::NONE },
        mode: if header.interrupt { Mode::IRQ } else { Mode::NONE },
        error: ErrorUnits::NONE,
        tc: message.tc,
        protection: tx.protection(),
        fragment: 0,
        address: name(tx.source()),
        aux: u64::from(header.mtt) << 8 | u64::from(header.tag),
        len: u32::from(header.length),
        total: u32::from(header.length),
        offset: 0,
        tag: 0,
        process: message.process,
        payload: Payload::copy_of(&bytes[..usize::from(header.length)]),
    })
}

/// A sender's name, as a packet carries it.
fn name(source: Address) -> u64 {
    u64::from(source.node) | u64::from(source.vpid) << 16
}

impl Letter {
    /// What a packet brings. The error bit is set where its bytes are not as many as its header says.
    #[inline]
    pub fn of(packet: &Packet) -> Letter {
        let found = packet.payload.bytes().unwrap_or(&[]);
        let len = (packet.len as usize).min(VELO_MAX_BYTES);
        let damaged = found.len() != packet.len as usize || len != found.len() || !packet.error.is_empty();
        let mut bytes = [0; VELO_MAX_BYTES];
        let there = found.len().min(len);
        bytes[..there].copy_from_slice(&found[..there]);
        let mut word = [0; VELO_LINE_WORDS - 1];
        word.iter_mut().zip(bytes.as_chunks::<8>().0).for_each(|(to, quad)| *to = u64::from_le_bytes(*quad));
        let (mtt, tag) = ((packet.aux >> 8) as u8 & 3, packet.aux as u8);
        let source = Address::new(packet.address as u16, (packet.address >> 16) as u8);
        Letter { status: VeloStatus::new(source, mtt, tag, len as u8).with_error(damaged), word }
    }
}
