//! Entries of [short puts](ShortPut): as of any packet, but all that is the same in all of them is made, and looked at, at once.

use extoll_abi::{Address, CommandCode, Spec};

use super::{FRAGMENT_MIN, Form, IN_ENTRY, Words};
use crate::packet::{ANYONE, Kind};
use crate::short_put::{MODE, ShortPut};

/// Of word 0 what is no command, notification or traffic class (its kind, modifiers, and the lap, which messages do not have), and how its
/// payload travels.
const KIND: u64 = (Kind::Put as u64) << 32;
const KIND_BITS: u64 = 0xff00_000f << 32 | 0xffff_ffff;
const CODE_SHIFT: u32 = 36;
/// Of word 1 what is not the nodes' and VPIDs'.
const HOW: u64 = (MODE.bits() as u64) << 48;
const HOW_BITS: u64 = 0xffff << 48;

/// The entry of a put, whose bytes travel so.
#[inline]
pub(in crate::network) fn encode(put: &ShortPut, form: Form) -> Words {
    let (code, extra, word) = match form {
        Form::Word(len, word) => (1, len, word),
        Form::Ring(len) => (2, len, 0),
        Form::None | Form::Arena { .. } => (0, 0, 0),
    };
    let ShortPut { source, destination, .. } = put;
    let kind = KIND | code << CODE_SHIFT;
    let asked = u64::from(put.command.get()) << 40 | u64::from(put.spec.bits() | put.tc << 4) << 48;
    let nodes = u64::from(source.node) | u64::from(destination.node) << 16;
    let vpids = u64::from(source.vpid) << 32 | u64::from(destination.vpid) << 40;
    [
        kind | asked,
        HOW | nodes | vpids,
        u64::from(put.protection) | u64::from(put.fragment) << 16 | u64::from(put.tag) << 32,
        put.address,
        0,
        u64::from(put.len) | u64::from(put.len) << 32,
        u64::from(extra) << 32,
        word,
    ]
}

/// The put of an entry with so many bytes behind it, which are all that it has, or 0 where they are in it; of and for these nodes. `None`: it is no
/// short put, or breaks the rules.
#[inline]
pub(in crate::network) fn decode(words: &Words, behind: usize, (from, to): (u16, u16)) -> Option<ShortPut> {
    let [first, ends, sender, address, _, lens, extra, _] = *words;
    let len = lens as u32;
    let code = if behind == 0 { 1 } else { 2 };
    let carried = if behind == 0 { (1..=IN_ENTRY as u32).contains(&len) } else { len as usize == behind };
    let (command, asked, fragment) = ((first >> 40) as u8, (first >> 48) as u8, (sender >> 16) as u16);
    let nodes = u64::from(from) | u64::from(to) << 16;
    let fits = (first & KIND_BITS == KIND)
        & (first >> CODE_SHIFT & 15 == code)
        & (command & !1 == BYTES)
        & (asked < 4 << 4)
        & (ends & (HOW_BITS | 0xffff_ffff) == HOW | nodes)
        & (lens >> 32 == u64::from(len))
        & (extra == u64::from(len) << 32)
        & (fragment >= FRAGMENT_MIN)
        & (len <= u32::from(fragment))
        & carried;
    if !fits {
        return None;
    }
    Some(ShortPut {
        source: Address::new(from, (ends >> 32) as u8),
        destination: Address::new(to, (ends >> 40) as u8),
        command: CommandCode::new(command)?,
        spec: Spec::from_bits(asked & 15)?,
        tc: asked >> 4,
        protection: sender as u16,
        fragment,
        address,
        len,
        tag: (sender >> 32) as u32,
        process: ANYONE,
    })
}

/// The byte put's code; the other put's is the next one.
const BYTES: u8 = extoll_abi::Command::BtPut as u8;
const _: () = assert!(BYTES & 1 == 0 && extoll_abi::Command::QwPut as u8 == BYTES | 1);

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::super::{Malformed, Rules};
    use super::*;
    use crate::packet::{Class, Packet};
    use extoll_abi::{Mode, Modifier};
    use proptest::prelude::*;

    const RULES: Rules = Rules { class: Class::Request, from: 3, to: 4, most: 4096, process: ANYONE };

    /// What any decoder says of an entry with so many bytes behind it, which are the last ones of their message.
    fn any(words: &Words, behind: usize) -> Result<(Packet, Form), Malformed> {
        let (packet, form) = super::super::decode(words, &RULES)?;
        let taken = if let Form::Ring(len) = form { len as usize } else { 0 };
        if taken == behind { Ok((packet, form)) } else { Err(Malformed) }
    }

    fn of(words: &Words, behind: usize) -> Option<ShortPut> {
        let (packet, _) = any(words, behind).ok()?;
        let bytes =
            packet.payload.bytes().filter(|own| !own.is_empty()).map_or(vec![0; behind], <[u8]>::to_vec);
        // Whom it is of is looked at later.
        ShortPut::of(&packet, &bytes)
    }

    fn form(len: u32) -> Form {
        if len as usize <= IN_ENTRY { Form::Word(len, 0x0102_0304_0506_0708) } else { Form::Ring(len) }
    }

    fn behind(form: Form) -> usize {
        if let Form::Ring(len) = form { len as usize } else { 0 }
    }

    fn short(len: u32) -> Packet {
        Packet { modifier: Modifier::NONE, mode: Mode::TE, aux: 0, ..put(len, len, 0) }
    }

    proptest! {
        #[test]
        fn entries_are_those_of_packets(len in 1u32..=496, qw: bool, spec in 0u8..8, tc in 0u8..4, number: u64) {
            let command = CommandCode::new(BYTES | u8::from(qw)).unwrap();
            let (protection, tag) = (number as u16, (number >> 16) as u32);
            let spec = Spec::from_bits_truncate(spec);
            let packet = Packet { command, spec, tc, protection, tag, address: number, ..short(len) };
            let short = ShortPut::of(&packet, &vec![0; len as usize]).unwrap();
            let form = form(len);
            let words = encode(&short, form);
            prop_assert_eq!(words, super::super::encode(&packet, 0, form));
            prop_assert_eq!(decode(&words, behind(form), (3, 4)), Some(short));
        }

        /// None is taken for another one, or taken that breaks the rules.
        #[test]
        fn what_is_changed_is_as_any_packet_or_left_to_others(
            len in 1u32..=496,
            changes in proptest::collection::vec((0usize..7, 0u32..64), 0..4),
            more in 0usize..3,
        ) {
            let form = form(len);
            let mut words = super::super::encode(&short(len), 0, form);
            changes.iter().for_each(|(word, bit)| words[*word] ^= 1 << bit);
            let behind = behind(form) + more * 8;
            let (found, any) = (decode(&words, behind, (3, 4)), of(&words, behind));
            // What tells of a landing, and no packet, begins with other numbers than 0.
            prop_assert_eq!(found, any.filter(|_| words[0] as u32 == 0));
        }
    }
}
