//! Properties of the encoders and decoders over all their inputs.

use extoll_abi::*;
use proptest::prelude::*;

fn any_request() -> impl Strategy<Value = Request> {
    let size = 1..=MAX_TRANSFER;
    let quad = any::<u64>().prop_map(|address| address & !7);
    let quads = (1..=MAX_TRANSFER / 8).prop_map(|n| n * 8);
    let (count, number) = (1..=8u8, 0..1u32 << 24);
    prop_oneof![
        (any::<u64>(), any::<u64>(), size.clone()).prop_map(|(read, write, size)| Request::Put {
            qw: false,
            read,
            write,
            size
        }),
        (any::<u64>(), any::<u64>(), size).prop_map(|(read, write, size)| Request::Get {
            qw: false,
            read,
            write,
            size
        }),
        (quad.clone(), quad.clone(), quads.clone()).prop_map(|(read, write, size)| Request::Put {
            qw: true,
            read,
            write,
            size
        }),
        (quad.clone(), quad, quads).prop_map(|(read, write, size)| Request::Get {
            qw: true,
            read,
            write,
            size
        }),
        (any::<u8>(), any::<u64>()).prop_map(|(class, payload)| Request::NotificationPut { class, payload }),
        (count, any::<u64>(), any::<u64>()).prop_map(|(count, write, value)| Request::ImmediatePut {
            count,
            write,
            value
        }),
        (any::<bool>(), number, any::<i32>(), any::<i32>()).prop_map(
            |(to_responder, number, compare, add)| { Request::Lock { to_responder, number, compare, add } }
        ),
    ]
}

fn any_address() -> impl Strategy<Value = Address> {
    (any::<u16>(), any::<u8>()).prop_map(|(node, vpid)| Address { node, vpid })
}

fn any_spec() -> impl Strategy<Value = Spec> {
    (0..8u8).prop_map(Spec::from_bits_truncate)
}

fn any_modifier() -> impl Strategy<Value = Modifier> {
    (0..16u8).prop_map(Modifier::from_bits_truncate)
}

/// A header and a body that goes with it.
fn any_notification() -> impl Strategy<Value = (NotificationHeader, Body)> {
    let kind = prop_oneof![Just(Kind::Requester), Just(Kind::Responder), Just(Kind::Completer)];
    let header =
        (kind, 0..16u8, any_address(), 0..64u8, 0..8u8).prop_map(|(kind, command, remote, mode, error)| {
            NotificationHeader {
                kind,
                command: CommandCode::new(command).unwrap(),
                remote,
                mode: Mode::from_bits_truncate(mode),
                error: ErrorUnits::from_bits_truncate(error),
            }
        });
    (header, 0..1u32 << 23, any::<u64>()).prop_map(|(header, field, word)| {
        let body = match header.command.command() {
            None => Body::Unknown { field, word0: word },
            Some(Command::NotificationPut) => Body::Class { class: field as u8, payload: word },
            Some(Command::ImmediatePut) if header.kind == Kind::Requester => {
                Body::Immediate { count: (field & 7) as u8 + 1, value: word }
            }
            Some(Command::LockReq | Command::LockRsp) => {
                Body::Lock { number: field, result: word as u8, value: (word >> 32) as i32 }
            }
            Some(_) => Body::Transfer { size: field + 1, address: word },
        };
        (header, body)
    })
}

/// Bits that differ.
fn changed(a: Descriptor, b: Descriptor) -> [u64; 3] {
    [0, 1, 2].map(|i| a.word[i] ^ b.word[i])
}

proptest! {
    #[test]
    fn descriptor_round_trip(dst in any_address(), spec in any_spec(), modifier in any_modifier(), request in any_request()) {
        let descriptor = Descriptor::encode(dst, spec, modifier, &request).unwrap();
        let (header, decoded) = descriptor.decode().unwrap();
        prop_assert_eq!((header.dst, header.spec, header.modifier), (dst, spec, modifier));
        prop_assert_eq!(decoded, request);
        prop_assert_eq!(descriptor.reserved_bits(), [0; 3]);
    }

    /// Bits as in the table of spec 2.2, not as in our constants.
    #[test]
    fn header_fields_keep_to_their_bits(
        a in (any_address(), any_spec(), any_modifier()), b in (any_address(), any_spec(), any_modifier()),
        request in any_request(),
    ) {
        let encode = |dst, spec, modifier| Descriptor::encode(dst, spec, modifier, &request).unwrap();
        let base = encode(a.0, a.1, a.2);
        let node = changed(base, encode(Address { node: b.0.node, ..a.0 }, a.1, a.2));
        let vpid = changed(base, encode(Address { vpid: b.0.vpid, ..a.0 }, a.1, a.2));
        let spec = changed(base, encode(a.0, b.1, a.2));
        let modifier = changed(base, encode(a.0, a.1, b.2));
        prop_assert_eq!([node[0] & !0xffff_0000, node[1], node[2]], [0; 3]);
        prop_assert_eq!([vpid[0] & !0xff00, vpid[1], vpid[2]], [0; 3]);
        prop_assert_eq!([spec[0] & !(7 << 32), spec[1], spec[2]], [0; 3]);
        prop_assert_eq!([modifier[0] & !(15 << 35), modifier[1], modifier[2]], [0; 3]);
    }

    #[test]
    fn parameters_keep_to_their_bits(
        dst in any_address(), spec in any_spec(), modifier in any_modifier(), a in any_request(), b in any_request(),
    ) {
        let encode = |request: &Request| Descriptor::encode(dst, spec, modifier, request).unwrap();
        let differs = changed(encode(&a), encode(&b))[0];
        prop_assert_eq!(differs & !(0xf << 2 | 0x7f_ffff << 40), 0);
    }

    /// Any three words decode, print, and, less what is undefined, encode to themselves.
    #[test]
    fn every_word_decodes(word in any::<[u64; 3]>(), three in any::<bool>()) {
        let mut descriptor = Descriptor { word };
        if three {
            descriptor.word[0] |= 3; // most random words would fail on the count alone
        }
        prop_assert!(!descriptor.to_string().is_empty());
        match descriptor.decode() {
            Ok((header, request)) => {
                let again = Descriptor::encode(header.dst, header.spec, header.modifier, &request).unwrap();
                prop_assert_eq!(changed(descriptor, again), descriptor.reserved_bits());
            }
            Err(error) => {
                let code = (descriptor.word[0] >> 2 & 15) as u8;
                prop_assert_eq!(descriptor.header().command.get(), code);
                match error {
                    DecodeError::QuadwordCount(n) => prop_assert_eq!(n as u64, descriptor.word[0] & 3),
                    DecodeError::IllegalCommand(illegal) => {
                        prop_assert_eq!(illegal, code);
                        prop_assert!(matches!(code, 4 | 7 | 8 | 9 | 14 | 15));
                    }
                    DecodeError::HardwareOnly(_) => prop_assert!(matches!(code, 10 | 11 | 13)),
                    DecodeError::Unaligned => prop_assert!(matches!(code, 1 | 3)),
                }
            }
        }
    }

    #[test]
    fn notification_round_trip((header, body) in any_notification()) {
        let notification = Notification::encode(&header, &body).unwrap();
        prop_assert!(notification.is_new());
        prop_assert_eq!(notification.decode().unwrap(), (header, body));
    }

    #[test]
    fn every_notification_decodes(word0 in any::<u64>(), word1 in any::<u64>()) {
        let notification = Notification { word0, word1 };
        prop_assert!(!notification.to_string().is_empty());
        match notification.decode() {
            Ok((header, body)) => {
                let again = Notification::encode(&header, &body).unwrap();
                prop_assert_eq!(again.decode().unwrap(), (header, body));
            }
            Err(NotificationError::Kind(kind)) => prop_assert!(!matches!(kind, 1 | 2 | 4)),
            Err(error) => prop_assert_eq!(error, NotificationError::Free),
        }
    }

    /// Any header decodes or says why not; what decodes encodes to the same, less what is undefined.
    #[test]
    fn every_velo_header_decodes(word in any::<u64>(), length in 0..130u64, small in any::<bool>()) {
        let word = if small { word & !(0x7ff << 48 | 0x3 << 24) | length << 48 } else { word };
        prop_assert!((1..=VELO_LINE_WORDS).contains(&VeloHeader::line_words(word)));
        match VeloHeader::decode(word) {
            Ok(header) => {
                let again = header.encode().unwrap();
                prop_assert_eq!(VeloHeader::decode(again), Ok(header));
                prop_assert_eq!((again ^ word) & 0x7ff_ff07_03ff_ffff, 0);
                prop_assert_eq!(header.multicast, word & (1 << 31 | 1 << 28) != 0);
            }
            Err(VeloError::Length(length)) => prop_assert!(length > 120 && length as u64 == word >> 48 & 0x7ff),
            Err(VeloError::Vpid(_)) => prop_assert!(word >> 16 & 0x3ff > 255),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn every_atu_command_decodes(value in any::<u64>()) {
        match AtuCommand::decode(value) {
            Ok(command) => {
                let again = command.encode().unwrap();
                prop_assert_eq!(AtuCommand::decode(again).unwrap(), command);
                prop_assert_eq!(again & !value, 0);
            }
            Err(error) => prop_assert_eq!(error, AtuError::Command((value >> 60) as u8)),
        }
    }

    #[test]
    fn gate_round_trip(vpid in any::<u8>(), access in 1..4u8, page in 0..1u64 << 34, code in prop_oneof![Just(0u8), Just(4), Just(9), Just(18)]) {
        let (access, size) = (Access::from_bits(access).unwrap(), PageSize::from_code(code).unwrap());
        let address = page * size.bytes();
        match Gate::new(vpid, access, address, size) {
            Ok(gate) => {
                prop_assert!(gate.is_valid());
                prop_assert_eq!((gate.vpid(), gate.access(), gate.address()), (vpid as u16, access, address));
                prop_assert_eq!(gate.page_size(), Ok(size));
            }
            Err(error) => {
                prop_assert!(address >> 52 != 0);
                prop_assert_eq!(error, AtuError::Address { address, align: size.bytes() });
            }
        }
    }

    /// Pages follow each other across tables, so that a region may span them.
    #[test]
    fn nla_counts_bytes(raw in 0..1u64 << 40, bytes in 0..1u64 << 31) {
        let nla = Nla::from_raw(raw).unwrap();
        prop_assert_eq!(Nla::new(nla.table(), nla.entry(), nla.offset()), Ok(nla));
        prop_assert_eq!(nla.checked_add(bytes).map(Nla::raw), Some(raw + bytes).filter(|sum| sum >> 40 == 0));
    }

    #[test]
    fn wcb_fields_keep_to_themselves(state in any::<u64>(), committed in any::<u8>(), rejected in any::<u8>(), retry in any::<bool>()) {
        let before = WcbState(state);
        let after = before.with_committed(committed).with_rejected(rejected).with_retry(retry);
        prop_assert_eq!((after.committed(), after.rejected(), after.retry()), (committed, rejected, retry));
        prop_assert_eq!((after.0 ^ state) & !(0xff | 1 << 32 | 0xff << 56), 0);
        prop_assert_eq!(after.idle(), before.idle());
    }

    #[test]
    fn error_counters_keep_to_themselves(value in any::<u64>(), i in 0..regs::ERROR_COUNTERS.len(), last in any::<bool>()) {
        let counter = regs::ERROR_COUNTERS[i];
        // Random counts are hardly ever at their end.
        let value = if last { value | 0x7fff << counter.shift } else { value };
        let after = counter.incremented(value);
        prop_assert_eq!((after ^ value) & !(0xffff << counter.shift), 0);
        prop_assert_eq!(counter.count(after), (counter.count(value) + 1) & 0x7fff);
        prop_assert_eq!(counter.overflowed(after), counter.overflowed(value) || counter.count(value) == 0x7fff);
    }
}
