//! Packets as entries of a ring: eight words, checked on the way in. [`crate::packet`] says which forms there are.

pub(in crate::network) mod short;

use extoll_abi::{Address, Atomic, CommandCode, ErrorUnits, Mode, Modifier, Spec};

use crate::packet::{Class, INLINE_MAX, Kind, Packet, Payload};

/// Words of an entry.
pub(in crate::network) type Words = [u64; 8];
/// Bytes that travel in the entry itself.
pub(in crate::network) const IN_ENTRY: usize = 8;
/// Longest command: the size field has 23 bits.
const TOTAL_MAX: u32 = 8 << 20;
/// Smallest fragment that a card makes.
const FRAGMENT_MIN: u16 = 16;

/// Where an entry's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::network) enum Form {
    /// There is none.
    None,
    /// In the entry: that many bytes of the word.
    Word(u32, u64),
    /// In the ring of bytes: that many.
    Ring(u32),
    /// In the sender's arena: at this offset, kept there for this hold.
    Arena { hold: u32, offset: u64 },
}

/// An entry that breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::network) struct Malformed;

/// Who may send what through a ring.
#[derive(Clone, Copy, Debug)]
pub(in crate::network) struct Rules {
    pub class: Class,
    /// Node of the sender, and of the receiver.
    pub from: u16,
    pub to: u16,
    /// Most bytes in the ring of bytes.
    pub most: u32,
    /// Who sent it, as [`Packet::process`] says it.
    pub process: u32,
}

const KINDS: [Kind; 12] = [
    Kind::Put,
    Kind::Get,
    Kind::Notification,
    Kind::Lock,
    Kind::GetResponse,
    Kind::LockResponse,
    Kind::SmfuStore,
    Kind::SmfuLoad,
    Kind::SmfuAtomic,
    Kind::SmfuReduce,
    Kind::SmfuReply,
    Kind::Velo,
];

fn pack(parts: [(u64, u32); 6]) -> u64 {
    parts.iter().fold(0, |word, (value, shift)| word | value << shift)
}

/// The entry of a packet; `lap` goes into the word that is written last.
#[inline]
pub(in crate::network) fn encode(packet: &Packet, lap: u32, form: Form) -> Words {
    let (code, extra, word) = match form {
        Form::None => (0, 0, 0),
        Form::Word(len, word) => (1, len, word),
        Form::Ring(len) => (2, len, 0),
        Form::Arena { hold, offset } => (3, hold, offset),
    };
    let Packet { source, destination, .. } = packet;
    [
        pack([
            (u64::from(lap), 0),
            (packet.kind as u64, 32),
            (code, 36),
            (u64::from(packet.command.get()), 40),
            (u64::from(packet.spec.bits() | packet.tc << 4), 48),
            (u64::from(packet.modifier.bits()), 56),
        ]),
        pack([
            (u64::from(source.node), 0),
            (u64::from(destination.node), 16),
            (u64::from(source.vpid), 32),
            (u64::from(destination.vpid), 40),
            (u64::from(packet.mode.bits()), 48),
            (u64::from(packet.error.bits()), 56),
        ]),
        u64::from(packet.protection) | u64::from(packet.fragment) << 16 | u64::from(packet.tag) << 32,
        packet.address,
        packet.aux,
        u64::from(packet.len) | u64::from(packet.total) << 32,
        u64::from(packet.offset) | u64::from(extra) << 32,
        word,
    ]
}

/// The class that the first word of an entry says.
#[inline]
pub(in crate::network) fn class_of(first: u64) -> Result<Class, Malformed> {
    KINDS.get(first as usize >> 32 & 15).map(|kind| kind.class()).ok_or(Malformed)
}

/// The packet of an entry, still without a payload that lies elsewhere.
#[inline]
pub(in crate::network) fn decode(words: &Words, rules: &Rules) -> Result<(Packet, Form), Malformed> {
    let mut packet = Packet::empty();
    let form = decode_into(words, rules, &mut packet)?;
    Ok((packet, form))
}

/// The same into a place for it, which stays as it is where the entry breaks the rules.
#[inline]
pub(in crate::network) fn decode_into(
    words: &Words,
    rules: &Rules,
    packet: &mut Packet,
) -> Result<Form, Malformed> {
    let byte = |word: usize, shift: u32| (words[word] >> shift) as u8;
    let half = |word: usize, shift: u32| (words[word] >> shift) as u16;
    let low = |word: usize| words[word] as u32;
    let high = |word: usize| (words[word] >> 32) as u32;
    let kind = *KINDS.get(usize::from(byte(0, 32) & 15)).ok_or(Malformed)?;
    let (len, total, offset, extra) = (low(5), high(5), low(6), high(6));
    let form = match byte(0, 32) >> 4 {
        0 => Form::None,
        1 => Form::Word(extra, words[7]),
        2 => Form::Ring(extra),
        3 => Form::Arena { hold: extra, offset: words[7] },
        _ => return Err(Malformed),
    };
    let (source, destination) =
        (Address::new(half(1, 0), byte(1, 32)), Address::new(half(1, 16), byte(1, 40)));
    let command = CommandCode::new(byte(0, 40)).ok_or(Malformed)?;
    let spec = Spec::from_bits(byte(0, 48) & 15).ok_or(Malformed)?;
    let modifier = Modifier::from_bits(byte(0, 56)).ok_or(Malformed)?;
    let mode = Mode::from_bits(byte(1, 48)).ok_or(Malformed)?;
    let error = ErrorUnits::from_bits(byte(1, 56)).ok_or(Malformed)?;
    let (tc, protection, fragment) = (byte(0, 48) >> 4, half(2, 0), half(2, 16));
    let covered = match kind {
        Kind::Notification => len <= 255,
        _ => u64::from(offset) + u64::from(len) <= u64::from(total),
    };
    let carried = match form {
        Form::None => true,
        Form::Word(bytes, _) => bytes as usize <= IN_ENTRY,
        Form::Ring(bytes) => (1..=rules.most).contains(&bytes),
        Form::Arena { .. } => len > 0,
    };
    let fits = kind.class() == rules.class
        && source.node == rules.from
        && destination.node == rules.to
        && tc <= 3
        && total <= TOTAL_MAX
        && covered
        && carried
        && (!is_atomic(kind) || is_operation(protection, len, form))
        && (fragment >= FRAGMENT_MIN || is_whole(kind));
    if !fits {
        return Err(Malformed);
    }
    *packet = Packet {
        source,
        destination,
        kind,
        command,
        spec,
        modifier,
        mode,
        error,
        tc,
        protection,
        fragment,
        tag: high(2),
        address: words[3],
        aux: words[4],
        len,
        total,
        offset,
        process: rules.process,
        payload: match form {
            Form::Word(bytes, word) => in_entry(bytes, word),
            _ => Payload::None,
        },
    };
    Ok(form)
}

/// Whether packets of this kind are never cut.
fn is_whole(kind: Kind) -> bool {
    kind.is_smfu() || kind == Kind::Velo
}

fn is_atomic(kind: Kind) -> bool {
    matches!(kind, Kind::SmfuAtomic | Kind::SmfuReduce)
}

/// Whether it is an operation that there is, with the operands that belong to it.
#[cold]
fn is_operation(code: u16, len: u32, form: Form) -> bool {
    let carried = match form {
        Form::Word(bytes, _) | Form::Ring(bytes) => Some(bytes),
        Form::None | Form::Arena { .. } => None,
    };
    let fits = |operands: usize| carried == Some(operands as u32) && len == operands as u32;
    Atomic::operand_bytes(code).is_some_and(fits)
}

#[inline]
fn in_entry(len: u32, word: u64) -> Payload {
    let mut bytes = [0; INLINE_MAX];
    bytes[..IN_ENTRY].copy_from_slice(&word.to_le_bytes());
    Payload::Inline { len: len as u8, bytes }
}

#[cfg(test)]
pub(in crate::network) mod tests {
    use super::*;
    use crate::packet::ANYONE;
    use extoll_abi::{Operation, Width};
    use proptest::prelude::*;

    const RULES: Rules = Rules { class: Class::Request, from: 3, to: 4, most: 4096, process: ANYONE };

    /// A put of the node and to the node that [`RULES`] name, of unlike fields and without its payload.
    pub(in crate::network) fn put(len: u32, total: u32, offset: u32) -> Packet {
        Packet {
            source: Address::new(3, 7),
            destination: Address::new(4, 9),
            kind: Kind::Put,
            command: CommandCode::new(2).unwrap(),
            spec: Spec::ALL,
            modifier: Modifier::NTR,
            mode: Mode::TE,
            error: ErrorUnits::NONE,
            tc: 3,
            protection: 0xabcd,
            fragment: 496,
            address: 0x1234_5678_9abc_def0,
            aux: u64::MAX,
            len,
            total,
            offset,
            tag: 77,
            process: ANYONE,
            payload: Payload::None,
        }
    }

    fn header(packet: &Packet) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet.wire_bytes(&mut bytes);
        bytes
    }

    #[test]
    fn entries_keep_packets() {
        let forms = [
            Form::None,
            Form::Word(5, 99),
            Form::Ring(4096),
            Form::Arena { hold: 1 << 8 | 63, offset: 1 << 40 },
        ];
        for form in forms {
            let packet = put(4096, 8 << 20, 4960);
            let words = encode(&packet, 0xdead_beef, form);
            assert_eq!(words[0] as u32, 0xdead_beef);
            let (mut again, form_again) = decode(&words, &RULES).unwrap();
            assert_eq!(form_again, form);
            assert_eq!(again.payload.len(), if let Form::Word(len, _) = form { len as usize } else { 0 });
            again.payload = Payload::None;
            assert_eq!(header(&again), header(&packet));
        }
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        let fine = put(64, 64, 0);
        assert!(decode(&encode(&fine, 1, Form::None), &RULES).is_ok());
        let bad = [
            Packet { source: Address::new(4, 7), ..put(64, 64, 0) },
            Packet { destination: Address::new(3, 9), ..put(64, 64, 0) },
            Packet { kind: Kind::GetResponse, ..put(64, 64, 0) },
            Packet { fragment: 15, ..put(64, 64, 0) },
            Packet { tc: 4, ..put(64, 64, 0) },
            put(64, 63, 0),
            put(64, 64, 1),
            put(u32::MAX, u32::MAX, 0),
            put(1, (8 << 20) + 1, 0),
            put(64, 64, u32::MAX),
        ];
        for packet in &bad {
            assert_eq!(decode(&encode(packet, 1, Form::None), &RULES).err(), Some(Malformed), "{packet:?}");
        }
        for form in [Form::Word(9, 0), Form::Ring(0), Form::Ring(4097), Form::Ring(u32::MAX)] {
            assert_eq!(decode(&encode(&fine, 1, form), &RULES).err(), Some(Malformed), "{form:?}");
        }
        let nothing = encode(&put(0, 64, 0), 1, Form::Arena { hold: 0, offset: 0 });
        assert!(decode(&nothing, &RULES).is_err());
    }

    /// An atomic operation's packet, still without its payload.
    fn operation(kind: Kind, atomic: Atomic) -> (Packet, u32) {
        let bytes = Atomic::operand_bytes(atomic.code()).unwrap() as u32;
        (Packet { kind, protection: atomic.code(), ..put(bytes, bytes, 0) }, bytes)
    }

    #[test]
    fn operations_are_those_that_there_are_with_their_operands() {
        let add = Atomic::new(Operation::Add, Width::Four, 1);
        let swap = Atomic::compare_exchange(Width::Eight, 1, 2);
        for kind in [Kind::SmfuAtomic, Kind::SmfuReduce] {
            for (atomic, form) in [(add, Form::Word(4, 1)), (swap, Form::Ring(16))] {
                let (packet, bytes) = operation(kind, atomic);
                let (again, as_sent) = decode(&encode(&packet, 1, form), &RULES).unwrap();
                assert_eq!((again.kind, again.protection, again.len), (kind, atomic.code(), bytes));
                assert_eq!(as_sent, form);
                let wrong = [Form::None, Form::Word(bytes - 1, 1), Form::Word(8, 1), Form::Ring(bytes + 1)];
                let lent = Form::Arena { hold: 0, offset: 0 };
                for form in wrong.into_iter().chain([lent]) {
                    assert!(decode(&encode(&packet, 1, form), &RULES).is_err(), "{form:?}");
                }
                for code in [0, 0x040b, 0x0300, u16::MAX] {
                    let other = Packet { protection: code, ..operation(kind, atomic).0 };
                    assert!(decode(&encode(&other, 1, form), &RULES).is_err(), "{code:#x}");
                }
                let short = Packet { len: bytes - 1, ..packet };
                assert!(decode(&encode(&short, 1, form), &RULES).is_err());
            }
        }
    }

    proptest! {
        #[test]
        fn any_words_are_decoded_or_refused(words: Words) {
            if let Ok((packet, form)) = decode(&words, &RULES) {
                prop_assert_eq!((packet.source.node, packet.destination.node), (RULES.from, RULES.to));
                prop_assert!(!matches!(form, Form::Ring(len) if len > RULES.most));
            }
        }
    }
}
