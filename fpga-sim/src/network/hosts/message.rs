//! Packets as messages of a wire: a head of 16 bytes, the words that entries between processes have, and the payload.
//!
//! All numbers are little-endian. A message without words only gives credits back.

use crate::network::shared::codec::{self, Form, IN_ENTRY, Malformed, Rules, Words};
use crate::packet::{Packet, Payload};

/// Ticket, and how many packets of each class the sender has taken from the receiver's so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub ticket: u64,
    pub taken: [u32; 2],
}

/// Bytes of a head.
pub(super) const HEAD: usize = 16;
/// Bytes of the words.
const WORDS: usize = size_of::<Words>();
/// Most payload of a message. Payloads are cut into whole fragments, so it is more than a page: 4 KiB go in one message.
pub(super) const MOST: usize = ggas_wire::MESSAGE_MAX - HEAD - WORDS;

impl Head {
    /// The bytes of a message that only gives credits back.
    pub fn bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&self.ticket.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.taken[0].to_le_bytes());
        bytes[12..].copy_from_slice(&self.taken[1].to_le_bytes());
        bytes
    }

    /// The head of a message, and the rest of it.
    pub fn of(message: &[u8]) -> Result<(Head, &[u8]), Malformed> {
        let (head, rest) = message.split_first_chunk::<HEAD>().ok_or(Malformed)?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let ticket = u64::from(word(0)) | u64::from(word(4)) << 32;
        Ok((Head { ticket, taken: [word(8), word(12)] }, rest))
    }
}

/// Writes a packet behind its head; `false`: a payload by reference, which cannot travel.
pub(super) fn encode(packet: &Packet, head: Head, into: &mut Vec<u8>) -> bool {
    let Some(payload) = packet.payload.bytes() else { return false };
    let form = match payload.len() {
        0 => Form::None,
        len @ 1..=IN_ENTRY => {
            let mut word = [0; IN_ENTRY];
            word[..len].copy_from_slice(payload);
            Form::Word(len as u32, u64::from_le_bytes(word))
        }
        len => Form::Ring(len as u32),
    };
    into.clear();
    into.extend_from_slice(&head.bytes());
    for word in codec::encode(packet, 0, form) {
        into.extend_from_slice(&word.to_le_bytes());
    }
    if let Form::Ring(_) = form {
        into.extend_from_slice(payload);
    }
    true
}

/// The packet behind a head.
pub(super) fn decode(rest: &[u8], rules: &Rules) -> Result<Packet, Malformed> {
    let (words, payload) = rest.split_first_chunk::<WORDS>().ok_or(Malformed)?;
    let word = |chunk: &[u8]| chunk.try_into().map_or(0, u64::from_le_bytes);
    let mut numbers = Words::default();
    for (number, chunk) in numbers.iter_mut().zip(words.chunks_exact(8)) {
        *number = word(chunk);
    }
    let (mut packet, form) = codec::decode(&numbers, rules)?;
    match form {
        Form::Ring(len) if len as usize == payload.len() => packet.payload = Payload::copy_of(payload),
        Form::None | Form::Word(..) if payload.is_empty() => {}
        _ => return Err(Malformed),
    }
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::shared::codec::tests::put;
    use crate::packet::{ANYONE, Class};

    const RULES: Rules = Rules { class: Class::Request, from: 3, to: 4, most: MOST as u32, process: ANYONE };
    const FIRST: Head = Head { ticket: 0x0123_4567_89ab_cdef, taken: [7, u32::MAX] };

    fn message(payload: &[u8]) -> Vec<u8> {
        let len = payload.len() as u32;
        let packet = Packet { payload: Payload::copy_of(payload), ..put(len, len, 0) };
        let mut bytes = Vec::new();
        assert!(encode(&packet, FIRST, &mut bytes));
        bytes
    }

    #[test]
    fn messages_keep_packets() {
        for len in [0, 1, 8, 9, 64, 65, MOST] {
            let payload: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            let bytes = message(&payload);
            let (head, rest) = Head::of(&bytes).unwrap();
            assert_eq!(head, FIRST);
            let packet = decode(rest, &RULES).unwrap();
            assert_eq!(packet.payload.bytes(), Some(&payload[..]), "{len} bytes");
            assert_eq!((packet.address, packet.tag), (put(1, 1, 0).address, 77));
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        let bytes = message(&[1; 100]);
        assert!(Head::of(&bytes[..HEAD - 1]).is_err());
        for len in [HEAD, HEAD + 1, HEAD + WORDS, HEAD + WORDS + 99] {
            assert!(decode(&bytes[HEAD..len], &RULES).is_err(), "{len}");
        }
        assert!(decode(&[&bytes[HEAD..], &[0]].concat(), &RULES).is_err());
        assert!(decode(&[&message(&[1; 8])[HEAD..], &[0]].concat(), &RULES).is_err());
    }
}
