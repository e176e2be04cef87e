//! What the encoders refuse, and that each error says what to do.

use extoll_abi::*;

fn encode(request: Request) -> Result<Descriptor, EncodeError> {
    Descriptor::encode(Address::new(1, 2), Spec::NONE, Modifier::NONE, &request)
}

fn put(qw: bool, read: u64, write: u64, size: u32) -> Result<Descriptor, EncodeError> {
    encode(Request::Put { qw, read, write, size })
}

#[test]
fn sizes() {
    assert_eq!(put(false, 0, 0, 0), Err(EncodeError::SizeZero));
    assert!(put(false, 0, 0, MAX_TRANSFER).is_ok());
    assert_eq!(put(false, 0, 0, MAX_TRANSFER + 1), Err(EncodeError::SizeTooLarge(MAX_TRANSFER + 1)));
    assert_eq!(put(false, 0, 0, u32::MAX), Err(EncodeError::SizeTooLarge(u32::MAX)));
    assert_eq!(put(true, 0, 0, 12), Err(EncodeError::SizeUnaligned(12)));
    assert_eq!(put(true, 4, 0, 8), Err(EncodeError::AddressUnaligned(4)));
    assert_eq!(put(true, 8, 9, 8), Err(EncodeError::AddressUnaligned(9)));
    let get = Request::Get { qw: true, read: 1, write: 0, size: 8 };
    assert_eq!(encode(get), Err(EncodeError::AddressUnaligned(1)));
}

#[test]
fn immediates_and_locks() {
    let immediate = |count| encode(Request::ImmediatePut { count, write: 0, value: 0 });
    assert_eq!(immediate(0), Err(EncodeError::ImmediateCount(0)));
    assert_eq!(immediate(9), Err(EncodeError::ImmediateCount(9)));
    assert_eq!(immediate(255), Err(EncodeError::ImmediateCount(255)));
    let lock = |number| encode(Request::Lock { to_responder: false, number, compare: 0, add: 0 });
    assert!(lock((1 << 24) - 1).is_ok());
    assert_eq!(lock(1 << 24), Err(EncodeError::LockNumber(1 << 24)));
}

/// Every code without a command, and those that only the hardware makes (spec 2.2).
#[test]
fn illegal_commands_keep_their_header() {
    for code in 0..16u64 {
        let word0 = 3 | code << 2 | 7 << 8 | 300 << 16 | 5 << 32 | 1 << 35;
        let descriptor = Descriptor { word: [word0, 0, 0] };
        let header = descriptor.header();
        assert_eq!((header.dst, header.spec.bits()), (Address::new(300, 7), 5));
        assert_eq!((header.modifier, header.command.get() as u64), (Modifier::MC, code));
        match (code, descriptor.decode()) {
            (4 | 7 | 8 | 9 | 14 | 15, Err(DecodeError::IllegalCommand(found))) => {
                assert_eq!(found as u64, code);
            }
            (10 | 11 | 13, Err(DecodeError::HardwareOnly(command))) => assert!(command.hardware_only()),
            // Size field 0 is one byte, which no quadword command moves.
            (1 | 3, Err(DecodeError::Unaligned)) => {}
            (0 | 2 | 5 | 6 | 12, Ok(_)) => {}
            (_, found) => panic!("command {code}: {found:?}"),
        }
    }
}

#[test]
fn quadword_count() {
    for low in 0..3 {
        let descriptor = Descriptor { word: [low | 2 << 2, 0, 0] };
        assert_eq!(descriptor.decode(), Err(DecodeError::QuadwordCount(low as u8)));
    }
}

#[test]
fn undefined_bits_are_ignored_and_shown() {
    let lock = Request::Lock { to_responder: true, number: 5, compare: 28, add: -7 };
    let mut descriptor = encode(lock).unwrap();
    descriptor.word[0] |= 1 << 63 | 1 << 39;
    descriptor.word[1] |= 0xff << 24;
    descriptor.word[2] |= 1;
    assert_eq!(descriptor.decode().unwrap().1, lock);
    assert_eq!(descriptor.reserved_bits(), [1 << 63 | 1 << 39, 0xff << 24, 1]);
    assert_eq!(
        descriptor.to_string(),
        "lock request 5 at responder of node 1 vpid 2: if <= 28, add -7, \
         undefined bits 0x8000008000000000 in word 0, undefined bits 0xff000000 in word 1, \
         undefined bits 0x1 in word 2"
    );
}

#[test]
fn notifications() {
    assert_eq!(Notification::default().decode(), Err(NotificationError::Free));
    for kind in [0, 3, 5, 6, 7] {
        let notification = Notification { word0: 0, word1: kind << 48 | 1 };
        assert_eq!(notification.decode(), Err(NotificationError::Kind(kind as u8)));
    }
    let header = |command: Command| NotificationHeader {
        kind: Kind::Completer,
        command: command.into(),
        remote: Address::default(),
        mode: Mode::TE,
        error: ErrorUnits::NONE,
    };
    let transfer = |size| Body::Transfer { size, address: 0 };
    let encode = |command, body| Notification::encode(&header(command), &body);
    assert_eq!(encode(Command::BtPut, transfer(0)), Err(NotificationError::SizeZero));
    assert!(encode(Command::BtPut, transfer(MAX_TRANSFER)).is_ok());
    assert!(matches!(encode(Command::BtPut, transfer(MAX_TRANSFER + 1)), Err(NotificationError::Field(_))));
    let wrong = encode(Command::NotificationPut, transfer(8));
    assert_eq!(wrong, Err(NotificationError::Body(Command::NotificationPut.into())));
    let lock = Body::Lock { number: 1 << 24, result: 0, value: 0 };
    assert!(matches!(encode(Command::LockRsp, lock), Err(NotificationError::Field(_))));
}

#[test]
fn translations() {
    let new = |address, size| Gate::new(7, Access::ALL, address, size);
    assert_eq!(new(0x800, PageSize::K4), Err(AtuError::Address { address: 0x800, align: 4096 }));
    assert_eq!(new(0x1000, PageSize::K64), Err(AtuError::Address { address: 0x1000, align: 65536 }));
    assert_eq!(new(1 << 52, PageSize::K4), Err(AtuError::Address { address: 1 << 52, align: 4096 }));
    assert_eq!(Gate::new(7, Access::NONE, 0, PageSize::K4), Err(AtuError::NoAccess));
    assert_eq!(Gate(1 | 5 << 59).page_size(), Err(AtuError::PageSize(5)));
    assert!(!Gate::INVALID.is_valid());
    assert!(
        Nla::new(1024, 0, 0).is_err() && Nla::new(0, 262_144, 0).is_err() && Nla::new(0, 0, 4096).is_err()
    );
    assert_eq!(Nla::from_raw(1 << 40), None);
    assert_eq!(GatRegister(0x1234).table(), None);
    assert!(GatRegister::new(1 << 20).is_err() && GatRegister::new(1 << 52).is_err());
    assert_eq!(AtuCommand::FlushPages { page: 0, count: 0 }.encode(), Err(AtuError::FlushCount(0)));
    assert_eq!(AtuCommand::FlushPages { page: 0, count: 1025 }.encode(), Err(AtuError::FlushCount(1025)));
    assert!(AtuCommand::FlushPages { page: 1 << 28, count: 1 }.encode().is_err());
    assert!(AtuCommand::Notify(1 << 48).encode().is_err() && AtuCommand::FlushVpid(1024).encode().is_err());
}

#[test]
fn queues() {
    let segment = |slots, address| BqSegment::new(SlotSize::B16, slots, address);
    assert_eq!(segment(0, 0), Err(BqError::Slots(0)));
    assert_eq!(segment(65537, 0), Err(BqError::Slots(65537)));
    assert_eq!(segment(1, 8), Err(BqError::Address(8)));
    assert_eq!(segment(1, 1 << 52), Err(BqError::Address(1 << 52)));
    assert_eq!(segment(4096, 0x1000).unwrap().bytes(), 65536);
    assert_eq!(BqTable::new(0, 513), Err(BqError::Segments(513)));
    assert_eq!(BqTable::new(0, 0), Err(BqError::Segments(0)));
    assert_eq!(BqTable::new(16, 1), Err(BqError::Address(16)));
}

#[test]
fn page_options() {
    assert!(PageOption::new(32).is_err());
    let option = (PageOption::TE | PageOption::IRQ).with_traffic_class(2);
    assert_eq!(option.bits(), 26);
    assert_eq!(option.mode(), Mode::TE | Mode::IRQ);
    assert_eq!(option.to_string(), "IRQ+TE, traffic class 2");
    assert_eq!(PageOption::RRA.mode(), Mode::RRA);
}

#[test]
fn messages() {
    let header = VeloHeader { length: 121, ..VeloHeader::default() };
    assert_eq!(header.encode(), Err(VeloError::Length(121)));
    assert_eq!(VeloHeader { mtt: 4, length: 120, ..header }.encode(), Err(VeloError::Mtt(4)));
    assert_eq!(VeloHeader::decode(0x7ff << 48), Err(VeloError::Length(0x7ff)));
    assert!(matches!(VeloHeader::decode(256 << 16), Err(VeloError::Vpid(_))));
    assert_eq!(VeloHeader::line_words(121 << 48), VELO_LINE_WORDS);
}
