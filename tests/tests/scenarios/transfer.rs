//! Puts, gets and immediate puts: which bytes change, and no others (spec 2.2, 2.3).

use ggas::{Command, HostBuffer, Kind, Request, Spec};
use ggas_tests::{Area, Bed, Pair, bytes, each, each_of};

/// `mem_write` and `mem_read` use buffers at these quadwords of their memory.
const AT: (usize, usize) = (0xb30 * 8, 0xc00 * 8);

/// The notified side's start of the last fragment of a transfer, and its bytes (spec 2.3).
fn last_fragment(start: u64, len: usize) -> (u64, u32) {
    let offset = (len - 1) / 496 * 496;
    (start + offset as u64, (len - offset) as u32)
}

fn put_all(bed: &Bed, pair: &Pair, qw: bool, (from, to): (usize, usize), len: usize) {
    let source = Area::new(&pair.origin, from + len + 64, 1);
    let destination = Area::new(pair.target(), to + len + 64, 2);
    let (read, write) = (source.nla(from), destination.nla(to));
    pair.post(&Request::Put { qw, read, write, size: len as u32 }, Spec::ALL);
    let seen = pair.settle();
    destination.expect(to, &source.expected(from, len));
    destination.verify("destination of a put");
    source.verify("source of a put");

    // Exactly two notifications, also where the responder's was asked for (spec 3.1).
    let ([requester], [completer]) = (&seen.origin[..], &seen.target[..]) else {
        panic!("a put with all notifications gave {seen:x?}");
    };
    let command = if qw { Command::QwPut } else { Command::BtPut };
    for n in [requester, completer] {
        assert_eq!(n.command().command(), Some(command), "{n:x?}");
        assert!(n.error().is_empty() && n.mode() == ggas::Mode::TE, "{n:x?}");
        assert_eq!(n.size(), last_fragment(0, len).1, "bytes of the last fragment: {n:x?}");
    }
    assert_eq!((requester.kind(), requester.remote()), (Some(Kind::Requester), pair.target().address()));
    assert_eq!((completer.kind(), completer.remote()), (Some(Kind::Completer), pair.origin.address()));
    assert_eq!((completer.word0, completer.size()), last_fragment(write, len), "{}", bed.setting);
    assert_eq!(completer.total_size(write), len as u64);
}

fn get_all(bed: &Bed, pair: &Pair, qw: bool, (from, to): (usize, usize), len: usize) {
    let source = Area::new(pair.target(), from + len + 64, 3);
    let destination = Area::new(&pair.origin, to + len + 64, 4);
    let (read, write) = (source.nla(from), destination.nla(to));
    pair.post(&Request::Get { qw, read, write, size: len as u32 }, Spec::ALL);
    let seen = pair.settle();
    destination.expect(to, &source.expected(from, len));
    destination.verify("destination of a get");
    source.verify("source of a get");

    // Requester and completer here, responder there (spec 3.1).
    let ([requester, completer], [responder]) = (&seen.origin[..], &seen.target[..]) else {
        panic!("a get with all notifications gave {seen:x?}");
    };
    assert_eq!((requester.kind(), requester.remote()), (Some(Kind::Requester), pair.target().address()));
    assert_eq!((responder.kind(), responder.remote()), (Some(Kind::Responder), pair.origin.address()));
    assert_eq!((completer.kind(), completer.remote()), (Some(Kind::Completer), pair.target().address()));
    let (request, response) =
        if qw { (Command::QwGet, Command::GetQwRsp) } else { (Command::BtGet, Command::GetBtRsp) };
    assert_eq!(requester.command().command(), Some(request));
    assert_eq!(responder.command().command(), Some(request));
    assert_eq!(completer.command().command(), Some(response));
    for n in [requester, responder, completer] {
        assert!(n.error().is_empty() && n.mode() == ggas::Mode::TE, "{n:x?}");
    }
    assert_eq!((responder.word0, responder.size()), last_fragment(read, len), "{}", bed.setting);
    assert_eq!((completer.word0, completer.size()), last_fragment(write, len));
    assert_eq!(completer.total_size(write), len as u64);
    assert_eq!(responder.total_size(read), len as u64);
}

#[test]
fn mem_write_with_noti_gives_exactly_two_and_the_data() {
    each(|bed| {
        let pair = bed.pair();
        for qw in [false, true] {
            put_all(bed, &pair, qw, AT, 3000 * 8);
        }
    });
}

#[test]
fn mem_read_with_noti_gives_exactly_three_and_the_data() {
    each(|bed| {
        let pair = bed.pair();
        for qw in [false, true] {
            get_all(bed, &pair, qw, AT, 3000 * 8);
        }
    });
}

/// Lengths around words, fragments and pages, each at odd offsets.
const LENGTHS: [usize; 21] =
    [1, 2, 3, 7, 8, 9, 63, 64, 65, 495, 496, 497, 992, 993, 4095, 4096, 4097, 8193, 12_345, 65_536, 100_003];

#[test]
fn puts_of_any_size_and_alignment_move_exactly_their_bytes() {
    each(|bed| {
        let pair = bed.pair();
        let source = Area::new(&pair.origin, 128 << 10, 5);
        let destination = Area::new(pair.target(), 128 << 10, 6);
        for (i, len) in LENGTHS.into_iter().enumerate() {
            // Odd, different on both sides, and across the end of a page.
            let (from, to) = (4093 + i, 8190 - 3 * i);
            pair.to.put(&source.region, from, len, destination.nla(to), Spec::COMPLETER).unwrap();
            let seen = pair.settle();
            destination.expect(to, &source.expected(from, len));
            destination.verify(&format!("put of {len} bytes from {from:#x} to {to:#x}"));
            assert_eq!(seen.origin, [], "only the completer's notification was asked for");
            assert_eq!(seen.target.len(), 1);
            assert_eq!(seen.target[0].total_size(destination.nla(to)), len as u64);
        }
        source.verify("source of puts");
    });
}

#[test]
fn gets_of_any_size_and_alignment_move_exactly_their_bytes() {
    each(|bed| {
        let pair = bed.pair();
        let source = Area::new(pair.target(), 128 << 10, 7);
        let destination = Area::new(&pair.origin, 128 << 10, 8);
        for (i, len) in LENGTHS.into_iter().enumerate() {
            let (from, to) = (8187 - i, 4090 + 5 * i);
            pair.to.get(&destination.region, to, len, source.nla(from), Spec::COMPLETER).unwrap();
            let seen = pair.settle();
            destination.expect(to, &source.expected(from, len));
            destination.verify(&format!("get of {len} bytes from {from:#x} to {to:#x}"));
            assert_eq!(seen.target, [], "only the completer's notification was asked for");
            assert_eq!(seen.origin.len(), 1);
            assert_eq!(seen.origin[0].total_size(destination.nla(to)), len as u64);
        }
        source.verify("source of gets");
    });
}

#[test]
fn the_largest_command_moves_8_mib() {
    const LARGEST: usize = 8 << 20;
    let quick = |s: &ggas_tests::Setting| !s.troubled() && s.slots == 256;
    each_of(quick, |bed| {
        let pair = bed.pair();
        put_all(bed, &pair, false, (4001, 77), LARGEST);
        get_all(bed, &pair, true, (8, 4096 - 8), LARGEST);
        // One byte more is two commands; the library says so.
        let region = pair.origin.register(HostBuffer::zeroed(LARGEST + 1).unwrap()).unwrap();
        let error = pair.to.put(&region, 0, LARGEST + 1, 0, Spec::NONE).unwrap_err();
        assert!(error.to_string().contains("split"), "{error}");
    });
}

#[test]
fn an_immediate_put_modifies_exactly_its_bytes() {
    each(|bed| {
        let pair = bed.pair();
        let destination = Area::new(pair.target(), 8192, 9);
        for count in 1..=8u8 {
            for at in 4088..=4096usize {
                let value = (0x0807_0605_0403_0201 * u64::from(count)) ^ ((at as u64) << 56);
                pair.to.immediate_put(value, count, destination.nla(at), Spec::ALL).unwrap();
                destination.expect(at, &value.to_le_bytes()[..count.into()]);
                let seen = pair.settle();
                destination.verify(&format!("immediate put of {count} bytes at {at:#x}"));
                let ([requester], [completer]) = (&seen.origin[..], &seen.target[..]) else {
                    panic!("an immediate put with all notifications gave {seen:x?}");
                };
                assert_eq!(requester.word0, value, "the immediate value (spec 3.1)");
                assert_eq!(completer.word0, destination.nla(at));
                assert_eq!(completer.size(), u32::from(count));
            }
        }
    });
}

#[test]
fn many_puts_in_flight_arrive_whole_and_alone() {
    each(|bed| {
        const PUTS: usize = 300; // more than the 256 of the card's ring
        let pair = bed.pair();
        let source = Area::new(&pair.origin, 64 << 10, 10);
        let destination = Area::new(pair.target(), 128 << 10, 11);
        for i in 0..PUTS {
            let (from, to, len) = (37 * i, 401 * i + 1, 1 + 13 * i % 399);
            pair.to.put(&source.region, from, len, destination.nla(to), Spec::COMPLETER).unwrap();
            destination.expect(to, &source.expected(from, len));
        }
        let seen = pair.settle();
        destination.verify("many puts");
        assert_eq!(seen.target.len(), PUTS);
        for (i, n) in seen.target.iter().enumerate() {
            assert_eq!(n.word0, destination.nla(401 * i + 1), "notifications keep the order of the puts");
        }
    });
}

#[test]
fn regions_come_and_go_with_their_bytes_right() {
    each_of(
        |s| !s.troubled(),
        |bed| {
            let pair = bed.pair();
            let source = Area::new(&pair.origin, 32 << 10, 12);
            let mut random = fastrand::Rng::with_seed(13);
            let mut live: Vec<Area> = Vec::new();
            for round in 0..150 {
                if live.len() > 8 || (!live.is_empty() && random.bool()) {
                    let gone = live.swap_remove(random.usize(..live.len()));
                    gone.verify("a region before it is unregistered");
                    gone.region.unregister().unwrap();
                }
                let area = Area::new(pair.target(), random.usize(1..20_000), round);
                let len = random.usize(1..=area.region.len());
                let to = random.usize(0..=area.region.len() - len);
                let from = random.usize(0..=source.region.len() - len);
                pair.to.put(&source.region, from, len, area.nla(to), Spec::COMPLETER).unwrap();
                area.expect(to, &source.expected(from, len));
                assert_eq!(pair.settle().target.len(), 1);
                live.push(area);
            }
            live.iter().for_each(|area| area.verify("regions that stayed"));
        },
    );
}

#[test]
fn one_buffer_in_two_regions_is_one_memory() {
    each_of(
        |s| !s.troubled() && s.slots == 256,
        |bed| {
            let pair = bed.pair();
            let buffer = std::sync::Arc::new(HostBuffer::zeroed(8192).unwrap());
            let first = pair.target().register_shared(buffer.clone()).unwrap();
            let second = pair.target().register_shared(buffer.clone()).unwrap();
            assert_ne!(first.nla(0).unwrap(), second.nla(0).unwrap());
            let source = Area::new(&pair.origin, 64, 14);
            pair.to.put(&source.region, 0, 64, first.nla(100).unwrap(), Spec::NONE).unwrap();
            pair.settle();
            first.unregister().unwrap();
            // The second still works when the first is gone.
            pair.to.put(&source.region, 0, 64, second.nla(200).unwrap(), Spec::NONE).unwrap();
            pair.settle();
            let mut found = [0; 64];
            for at in [100, 200] {
                buffer.read(at, &mut found);
                assert_eq!(found[..], bytes(14, 64));
            }
        },
    );
}
