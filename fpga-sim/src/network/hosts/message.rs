//! Packets as messages of a wire: a head of 16 bytes, then one packet or several, each of the words that entries between processes
//! have, and its payload; then names of long payloads that have been read.
//!
//! All numbers are little-endian. Where a packet ends its words say. Of a long payload a message has keys by which the receiver reads
//! it, and its last bytes. A message without packets gives credits back, and may have names.

use ggas_wire::Key;

use super::landing::{LANDS, Runway};
use crate::memory::TAIL;
use crate::network::shared::codec::{self, Form, IN_ENTRY, Malformed, Rules, Words, short};
use crate::packet::{Class, INLINE_MAX, Kind, Packet};
use crate::short_put::ShortPut;

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
/// Most payload of a message of each wire. Payloads are cut into whole fragments, so it is more than a page: 4 KiB go in one message.
pub(super) const MOST: usize = payload_of(ggas_wire::MESSAGE_MAX);

/// From so many bytes on payloads are read by the receiver. Below, copies cost less than the way back and forth.
pub(super) const LEAST: u32 = 32 << 10;
/// Stretches of memory that such a payload has at most.
pub(super) const RUNS: usize = 8;
/// Payloads that a message says at most to have been read.
pub(super) const RELEASES: usize = 7;
const _: () = assert!(RELEASES * 8 < WORDS, "what is behind the last packet is shorter than a packet");

/// Bytes in front of a payload in a slot of a landing: a message's head, a packet's words, and room for names.
pub(super) const LED: usize = 192;
const _: () = assert!(HEAD + WORDS + RELEASES * 8 <= LED && LED <= ggas_wire::HEAD_MAX);
/// The first word of what tells of a landing. Words of a packet begin with 0.
const LANDING: u32 = u32::from_le_bytes(*b"land");

/// Most payload of a wire's messages of so many bytes.
pub(super) const fn payload_of(message: usize) -> usize {
    message - HEAD - WORDS
}

/// A payload that the receiver may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The sender's name for it.
    pub id: u64,
    /// Of its stretches, without the last bytes.
    pub keys: Vec<Key>,
    pub tail: [u8; TAIL],
}

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
        len @ 1..=IN_ENTRY => Form::Word(len as u32, word_of(payload)),
        len => Form::Ring(len as u32),
    };
    into.clear();
    into.extend_from_slice(&front(packet, head, form));
    if let Form::Ring(_) = form {
        into.extend_from_slice(payload);
    }
    true
}

/// Bytes that travel in the words; eight of them without a call.
#[inline]
fn word_of(payload: &[u8]) -> u64 {
    let word = <[u8; IN_ENTRY]>::try_from(payload).unwrap_or_else(|_| {
        let mut word = [0; IN_ENTRY];
        word.iter_mut().zip(payload).for_each(|(to, byte)| *to = *byte);
        word
    });
    u64::from_le_bytes(word)
}

/// A message's head and a packet's words.
#[inline]
fn front(packet: &Packet, head: Head, form: Form) -> [u8; HEAD + WORDS] {
    let mut front = [0; HEAD + WORDS];
    front[..HEAD].copy_from_slice(&head.bytes());
    let words = codec::encode(packet, 0, form);
    for (to, word) in front[HEAD..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    front
}

/// Most bytes of a [short](encode_short) message.
pub(super) const SHORT_MAX: usize = HEAD + WORDS + INLINE_MAX;

/// Writes a message of one short put of at most [`INLINE_MAX`] bytes; how long it is.
#[inline]
pub(super) fn encode_short(put: &ShortPut, bytes: &[u8], head: Head, into: &mut [u8; SHORT_MAX]) -> usize {
    let form = match bytes.len() {
        0..=IN_ENTRY => Form::Word(bytes.len() as u32, word_of(bytes)),
        len => Form::Ring(len as u32),
    };
    let (in_front, behind) = into.split_at_mut(HEAD + WORDS);
    in_front[..HEAD].copy_from_slice(&head.bytes());
    for (to, word) in in_front[HEAD..].as_chunks_mut::<8>().0.iter_mut().zip(short::encode(put, form)) {
        *to = word.to_le_bytes();
    }
    if let (Form::Ring(_), Some(behind)) = (form, behind.get_mut(..bytes.len())) {
        behind.copy_from_slice(bytes);
        return HEAD + WORDS + bytes.len();
    }
    HEAD + WORDS
}

/// The head, the put and its bytes of a message that has one short put between these nodes and nothing else.
#[inline]
pub(super) fn decode_short(message: &[u8], from: u16, to: u16) -> Option<(ShortPut, InMessage<'_>)> {
    let (words, behind) = words(message.get(HEAD..)?).ok()?;
    let put = short::decode(&words, behind.len(), (from, to))?;
    Some((
        put,
        if behind.is_empty() { InMessage::Word(words[7].to_le_bytes()) } else { InMessage::Behind(behind) },
    ))
}

/// Where a short put's bytes are.
pub(super) enum InMessage<'a> {
    Word([u8; IN_ENTRY]),
    Behind(&'a [u8]),
}

impl InMessage<'_> {
    /// They are so many.
    #[inline]
    pub fn bytes(&self, len: u32) -> &[u8] {
        match self {
            InMessage::Word(word) => word.get(..len as usize).unwrap_or_default(),
            InMessage::Behind(bytes) => bytes,
        }
    }
}

/// Writes a packet whose payload the receiver is to read behind its head.
pub(super) fn encode_offer(packet: &Packet, head: Head, offer: &Offer, into: &mut Vec<u8>) {
    into.clear();
    let form = Form::Arena { hold: offer.keys.len() as u32, offset: offer.id };
    into.extend_from_slice(&front(packet, head, form));
    for key in &offer.keys {
        into.extend_from_slice(&(key.bytes().len() as u16).to_le_bytes());
        into.extend_from_slice(key.bytes());
    }
    into.extend_from_slice(&offer.tail);
}

/// Bytes of a message of one packet whose payload is in it.
pub(super) fn len_of(packet: &Packet) -> usize {
    HEAD + WORDS + packet.len as usize
}

/// Writes a packet of `packet.len` bytes behind its head to a place of [its length](len_of), its payload by `read`; `false`: that could not.
pub(super) fn encode_read(
    packet: &Packet,
    head: Head,
    read: &mut dyn FnMut(&mut [u8]) -> bool,
    into: &mut [u8],
) -> bool {
    let Some((in_front, payload)) = into.split_first_chunk_mut::<{ HEAD + WORDS }>() else { return false };
    *in_front = front(packet, head, Form::Ring(packet.len));
    read(payload)
}

/// A packet's words, and what is behind them.
#[inline]
fn words(rest: &[u8]) -> Result<(Words, &[u8]), Malformed> {
    let (words, behind) = rest.split_first_chunk::<WORDS>().ok_or(Malformed)?;
    let mut numbers = Words::default();
    for (number, chunk) in numbers.iter_mut().zip(words.as_chunks::<8>().0) {
        *number = u64::from_le_bytes(*chunk);
    }
    Ok((numbers, behind))
}

/// The class of the next packet behind a head.
#[inline]
pub(super) fn class_of(rest: &[u8]) -> Result<Class, Malformed> {
    codec::class_of(u64::from_le_bytes(*rest.first_chunk().ok_or(Malformed)?))
}

/// What came with a packet's words.
pub(super) struct Decoded<'a> {
    /// What its payload is read by.
    pub offer: Option<Box<Offer>>,
    /// Its payload, where the packet does not have that yet.
    pub payload: &'a [u8],
    pub behind: &'a [u8],
}

/// The next packet behind a head, into a place for it.
#[inline]
pub(super) fn decode<'a>(
    rest: &'a [u8],
    rules: &Rules,
    packet: &mut Packet,
) -> Result<Decoded<'a>, Malformed> {
    let (numbers, payload) = words(rest)?;
    match codec::decode_into(&numbers, rules, packet)? {
        Form::Ring(len) => {
            let (payload, behind) = payload.split_at_checked(len as usize).ok_or(Malformed)?;
            Ok(Decoded { offer: None, payload, behind })
        }
        Form::None | Form::Word(..) => Ok(Decoded { offer: None, payload: &[], behind: payload }),
        Form::Arena { hold, offset } => {
            let (offer, behind) = decode_offer(packet, hold as usize, offset, payload)?;
            Ok(Decoded { offer: Some(Box::new(offer)), payload: &[], behind })
        }
    }
}

/// What a long payload is read by: exactly as many bytes as its packet says.
fn decode_offer<'a>(
    packet: &Packet,
    count: usize,
    id: u64,
    mut rest: &'a [u8],
) -> Result<(Offer, &'a [u8]), Malformed> {
    if !is_whole(packet) || packet.len as usize <= MOST || !(1..=RUNS).contains(&count) {
        return Err(Malformed);
    }
    let (mut keys, mut bytes) = (Vec::with_capacity(count), TAIL as u64);
    for _ in 0..count {
        let (len, behind) = rest.split_first_chunk::<2>().ok_or(Malformed)?;
        let (key, behind) = behind.split_at_checked(u16::from_le_bytes(*len).into()).ok_or(Malformed)?;
        let key = Key::try_from(key).map_err(|_| Malformed)?;
        let more = Some(key.region_len()).filter(|len| (1..=u64::from(packet.len)).contains(len));
        bytes += more.ok_or(Malformed)?;
        keys.push(key);
        rest = behind;
    }
    let (tail, behind) = rest.split_first_chunk().ok_or(Malformed)?;
    if bytes != u64::from(packet.len) {
        return Err(Malformed);
    }
    Ok((Offer { id, keys, tail: *tail }, behind))
}

/// Whether it has all of a payload that may travel apart from its words.
fn is_whole(packet: &Packet) -> bool {
    let carries = matches!(packet.kind, Kind::Put | Kind::GetResponse) && packet.error.is_empty();
    carries && packet.offset == 0 && packet.len == packet.total
}

/// Writes what is in front of a payload in a slot: behind a head the packet with the sender's name for the payload, and the names of
/// long payloads that have been read.
pub(super) fn encode_led(packet: &Packet, head: Head, id: u64, ids: &[u64], into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&front(packet, head, Form::Arena { hold: 0, offset: id }));
    add_releases(ids, into);
    into.resize(LED, 0);
}

/// The packet of a slot, still without its payload, and the sender's name for that.
pub(super) fn decode_led(rest: &[u8], rules: &Rules) -> Result<(Packet, u64), Malformed> {
    let (packet, form) = codec::decode(&words(rest)?.0, rules)?;
    match form {
        Form::Arena { hold: 0, offset } if is_whole(&packet) && packet.len <= LANDS => Ok((packet, offset)),
        _ => Err(Malformed),
    }
}

/// The names behind the packet of a slot, from what is in front of its payload.
pub(super) fn names_of_led(led: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let names = led.get(HEAD + WORDS..).unwrap_or_default().as_chunks::<8>().0.iter().take(RELEASES);
    names.map(|id| u64::from_le_bytes(*id)).filter(|id| *id != 0)
}

/// Writes, behind a head, what tells a peer of its landing: the immediate value of the first slot, and the key.
pub(super) fn encode_landing(head: Head, first: u32, key: &Key, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&head.bytes());
    into.extend_from_slice(&LANDING.to_le_bytes());
    into.extend_from_slice(&first.to_le_bytes());
    into.extend_from_slice(&(key.bytes().len() as u16).to_le_bytes());
    into.extend_from_slice(key.bytes());
    into.resize(into.len().max(HEAD + WORDS), 0); // no names
}

/// Whether what is behind a head tells of a landing.
#[inline]
pub(super) fn is_landing(rest: &[u8]) -> bool {
    rest.len() >= WORDS && rest.starts_with(&LANDING.to_le_bytes())
}

/// A peer's landing, of what [tells](is_landing) of one.
pub(super) fn decode_landing(rest: &[u8]) -> Result<Runway, Malformed> {
    let runway = |rest: &[u8]| {
        let (_, rest) = rest.split_first_chunk::<4>()?;
        let (first, rest) = rest.split_first_chunk::<4>()?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let key = Key::try_from(rest.get(..u16::from_le_bytes(*len).into())?).ok()?;
        Runway::new(key, u32::from_le_bytes(*first))
    };
    runway(rest).ok_or(Malformed)
}

/// Names long payloads that have been read, at most [`RELEASES`], behind all packets of a message.
pub(super) fn add_releases(ids: &[u64], into: &mut Vec<u8>) {
    ids.iter().for_each(|id| into.extend_from_slice(&id.to_le_bytes()));
}

/// Whether what is behind the head, or the last packet, is not another packet.
#[inline]
pub(super) fn is_short(rest: &[u8]) -> bool {
    rest.len() < WORDS
}

/// Whether behind the last packet, or behind a head, there are names, or nothing.
pub(super) fn has_releases(rest: &[u8]) -> bool {
    rest.len() <= 8 * RELEASES && rest.len().is_multiple_of(8)
}

/// These [names](has_releases).
pub(super) fn decode_releases(rest: &[u8]) -> impl Iterator<Item = u64> + '_ {
    rest.as_chunks::<8>().0.iter().map(|id| u64::from_le_bytes(*id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::shared::codec::tests::put;
    use crate::packet::{ANYONE, Payload};

    const RULES: Rules = Rules { class: Class::Request, from: 3, to: 4, most: MOST as u32, process: ANYONE };
    const FIRST: Head = Head { ticket: 0x0123_4567_89ab_cdef, taken: [7, u32::MAX] };

    /// A packet with nothing behind it.
    fn alone(rest: &[u8]) -> Result<(Packet, Option<Offer>), Malformed> {
        let mut packet = Packet::empty();
        let Decoded { offer, payload, behind } = decode(rest, &RULES, &mut packet)?;
        if !payload.is_empty() {
            packet.payload = Payload::copy_of(payload);
        }
        if behind.is_empty() { Ok((packet, offer.map(|offer| *offer))) } else { Err(Malformed) }
    }

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
            let (packet, offer) = alone(rest).unwrap();
            assert_eq!(offer, None);
            assert_eq!(packet.payload.bytes(), Some(&payload[..]), "{len} bytes");
            assert_eq!((packet.address, packet.tag), (put(1, 1, 0).address, 77));
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        let bytes = message(&[1; 100]);
        assert!(Head::of(&bytes[..HEAD - 1]).is_err());
        for len in [HEAD, HEAD + 1, HEAD + WORDS, HEAD + WORDS + 99] {
            assert!(alone(&bytes[HEAD..len]).is_err(), "{len}");
        }
        assert!(alone(&[&bytes[HEAD..], &[0]].concat()).is_err());
        assert!(alone(&[&message(&[1; 8])[HEAD..], &[0]].concat()).is_err());
    }

    #[test]
    fn packets_stand_behind_each_other() {
        let lens = [0, 100, 8, 1, 65];
        let payload = |len: usize| vec![len as u8; len];
        let mut bytes: Vec<u8> =
            lens.iter().flat_map(|len| message(&payload(*len))[HEAD..].to_vec()).collect();
        add_releases(&[7, 9], &mut bytes);
        let mut rest = &bytes[..];
        for len in lens {
            assert!(!has_releases(rest));
            let mut packet = Packet::empty();
            let decoded = decode(rest, &RULES, &mut packet).unwrap();
            let short = packet.payload.bytes().unwrap();
            assert_eq!(if decoded.payload.is_empty() { short } else { decoded.payload }, payload(len));
            rest = decoded.behind;
        }
        assert!(has_releases(rest) && decode_releases(rest).eq([7, 9]));
    }

    fn offer(lens: &[u64]) -> Offer {
        let key = |len: &u64| Key::try_from(&[&len.to_le_bytes()[..], &[9; 16]].concat()[..]).unwrap();
        Offer { id: 0xfeed_0000_0001, keys: lens.iter().map(key).collect(), tail: [3; TAIL] }
    }

    fn offered(packet: &Packet, offer: &Offer) -> Result<(Packet, Option<Offer>), Malformed> {
        let mut bytes = Vec::new();
        encode_offer(packet, FIRST, offer, &mut bytes);
        assert!(bytes.len() <= ggas_wire::MESSAGE_MAX);
        alone(Head::of(&bytes).unwrap().1)
    }

    #[test]
    fn offers_are_of_as_many_bytes_as_their_packets() {
        let len = 1 << 20;
        let body = u64::from(len) - TAIL as u64;
        for lens in [&[body][..], &[4096, body - 4096], &[1, 2, 3, 4, 5, 6, 7, body - 28]] {
            let (packet, again) = offered(&put(len, len, 0), &offer(lens)).unwrap();
            assert_eq!((again, packet.len), (Some(offer(lens)), len));
        }
        let most = Packet { len: u32::MAX, total: u32::MAX, ..put(len, len, 0) };
        let bad = [
            (put(len, len, 0), offer(&[body - 1])),
            (put(len, len, 0), offer(&[body + 1])),
            (put(len, len, 0), offer(&[body, 0])),
            (put(len, len, 0), offer(&[])),
            (put(len, len, 0), offer(&[u64::MAX, body + 1])),
            (put(len, len, 0), offer(&[1, 2, 3, 4, 5, 6, 7, 8, body - 36])),
            (put(len, len + 8, 0), offer(&[body])),
            (put(MOST as u32, MOST as u32, 0), offer(&[(MOST - TAIL) as u64])),
            (Packet { kind: Kind::Velo, ..put(len, len, 0) }, offer(&[body])),
            (most, offer(&[u64::from(u32::MAX) - TAIL as u64])),
        ];
        for (packet, offer) in bad {
            assert!(offered(&packet, &offer).is_err(), "{packet:?}, {offer:?}");
        }
    }

    #[test]
    fn cut_offers_are_refused() {
        let mut bytes = Vec::new();
        let (len, body) = (1 << 20, (1 << 20) - TAIL as u64);
        encode_offer(&put(len, len, 0), FIRST, &offer(&[body]), &mut bytes);
        for end in HEAD..bytes.len() {
            assert!(alone(&bytes[HEAD..end]).is_err(), "{end}");
        }
        assert!(alone(&[&bytes[HEAD..], &[0]].concat()).is_err());
    }

    #[test]
    fn slots_keep_packets_and_names() {
        let led = |packet: &Packet, ids: &[u64]| {
            let mut bytes = Vec::new();
            encode_led(packet, FIRST, 0xfeed, ids, &mut bytes);
            assert_eq!(bytes.len(), LED);
            bytes
        };
        let most = put(LANDS, LANDS, 0);
        for ids in [&[][..], &[7], &[1, 2, 3, 4, 5, 6, u64::MAX]] {
            let bytes = led(&most, ids);
            let (head, rest) = Head::of(&bytes).unwrap();
            assert_eq!(head, FIRST);
            let (packet, id) = decode_led(rest, &RULES).unwrap();
            assert_eq!((packet.len, packet.tag, id), (LANDS, 77, 0xfeed));
            assert_eq!(names_of_led(&bytes).collect::<Vec<_>>(), ids);
        }
        let bad = [
            put(LANDS + 1, LANDS + 1, 0),
            put(LANDS - 8, LANDS, 0),
            put(LANDS - 8, LANDS, 8),
            put(0, 0, 0),
            Packet { kind: Kind::Velo, ..put(LANDS, LANDS, 0) },
            Packet { error: extoll_abi::ErrorUnits::REQUESTER, ..put(LANDS, LANDS, 0) },
        ];
        for packet in bad {
            assert!(decode_led(&led(&packet, &[])[HEAD..], &RULES).is_err(), "{packet:?}");
        }
        assert!(decode_led(&led(&most, &[])[HEAD..HEAD + WORDS - 1], &RULES).is_err());
        assert!(decode_led(&message(&[1; 100])[HEAD..], &RULES).is_err());
    }

    #[test]
    fn landings_keep_their_keys() {
        let key = |len: u64| Key::try_from(&[&len.to_le_bytes()[..], &[9; 16]].concat()[..]).unwrap();
        let (len, mut bytes) = (super::super::landing::Ground::LEN as u64, Vec::new());
        encode_landing(FIRST, 0x1230, &key(len), &mut bytes);
        let (head, rest) = Head::of(&bytes).unwrap();
        assert!(head == FIRST && !has_releases(rest) && is_landing(rest));
        let runway = decode_landing(rest).unwrap();
        assert_eq!((runway.first, runway.key), (0x1230, key(len)));
        // Neither is taken for the other.
        assert!(!is_landing(&message(&[1; 100])[HEAD..]));
        encode_landing(FIRST, 0x1230, &key(len - 1), &mut bytes);
        assert!(is_landing(&bytes[HEAD..]) && decode_landing(&bytes[HEAD..]).is_err());
        for end in HEAD..bytes.len() {
            let cut = &bytes[HEAD..end];
            assert!(!is_landing(cut) || decode_landing(cut).is_err(), "{end}");
        }
    }

    #[test]
    fn releases_keep_their_names() {
        for count in 0..=RELEASES + 1 {
            let (ids, mut bytes) = ((1..=count as u64).collect::<Vec<_>>(), Vec::new());
            add_releases(&ids, &mut bytes);
            assert_eq!(has_releases(&bytes), count <= RELEASES, "{count}");
            assert!(decode_releases(&bytes).eq(ids));
            assert!(!has_releases(&[&bytes[..], &[0]].concat()));
        }
    }
}
