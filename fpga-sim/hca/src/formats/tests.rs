//! Requests and completions are read as written, and lie as the drivers' headers say.

use super::*;
use crate::work::SendWork;

fn works() -> Vec<SendWork> {
    let (address, rkey) = (0x1122_3344_5566_7788, 0xaabb_ccdd);
    let one = || Sges::one(0x0102_0304_0506_0708, 8, 0x0a0b_0c0d);
    [
        Operation::Send { immediate: None },
        Operation::Send { immediate: Some(7) },
        Operation::Write { address, rkey, immediate: None },
        Operation::Write { address, rkey, immediate: Some(9) },
        Operation::Read { address, rkey },
        Operation::CompareSwap { address, rkey, compare: 3, swap: 4 },
        Operation::FetchAdd { address, rkey, add: 5 },
    ]
    .into_iter()
    .map(|operation| SendWork { fence: rkey & 1 == 0, ..SendWork::new(0, operation, one()) })
    .collect()
}

#[test]
fn requests_are_read_as_written() {
    for work in works() {
        let mut bytes = [0; 128];
        for round in [false, true] {
            let len = mlx4::write(&work, round, &mut bytes).unwrap();
            assert_eq!(mlx4::len(&bytes), len);
            assert!(mlx4::is_new(be32(&bytes, 0), round) && !mlx4::is_new(be32(&bytes, 0), !round));
            let found = mlx4::read(&bytes[..len]);
            assert_eq!((found.operation, found.local), (Some(work.operation), work.local.clone()));
            assert!(found.signaled && !found.solicited);
        }
        let len = mlx5::write(&work, 0x123, 77, &mut bytes).unwrap();
        assert_eq!(mlx5::len(&bytes), len);
        let found = mlx5::read(&bytes[..len], 0x123, 77);
        assert_eq!((found.operation, found.local), (Some(work.operation), work.local.clone()));
        assert_eq!(mlx5::read(&bytes[..len], 0x123, 78).operation, None, "another number");
        assert_eq!(mlx5::read(&bytes[..len], 0x124, 77).operation, None, "another queue pair");
    }
}

#[test]
fn a_write_of_mlx4_lies_as_the_thesis_shows() {
    let mut bytes = [0; 64];
    let len = mlx4::write(&works()[2], true, &mut bytes).unwrap();
    let expected: [u8; 48] = [
        0x80, 0, 0, 0x08, 0, 0, 0, 3, 0, 0, 0, 0x0c, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
        0x88, 0xaa, 0xbb, 0xcc, 0xdd, 0, 0, 0, 0, 0, 0, 0, 8, 0x0a, 0x0b, 0x0c, 0x0d, 1, 2, 3, 4, 5, 6, 7, 8,
    ];
    assert_eq!(bytes[..len], expected);
}

#[test]
fn what_is_reserved_makes_no_sense() {
    let mut bytes = [0; 64];
    let len = mlx4::write(&works()[2], false, &mut bytes).unwrap();
    for (at, bit) in [(1, 1), (2, 0x80), (4, 1), (6, 1), (7, 0x80), (3, 0x04), (28, 1), (32, 0x80)] {
        let mut changed = bytes;
        changed[at] |= bit;
        assert_eq!(mlx4::read(&changed[..len]).operation, None, "bit {bit:#x} of byte {at}");
    }
    let len = mlx5::write(&works()[2], 5, 6, &mut bytes).unwrap();
    for (at, bit) in [(0, 1), (7, 0x40), (8, 1), (9, 1), (10, 1), (11, 1), (28, 1)] {
        let mut changed = bytes;
        changed[at] |= bit;
        assert_eq!(mlx5::read(&changed[..len], 5, 6).operation, None, "bit {bit:#x} of byte {at}");
    }
    for cut in 0..len {
        let _ = (mlx4::read(&bytes[..cut]), mlx5::read(&bytes[..cut], 5, 6));
    }
}

#[test]
fn completions_are_read_as_written() {
    let kinds = [
        (Kind::Send, None),
        (Kind::Write, None),
        (Kind::Read, None),
        (Kind::CompareSwap, None),
        (Kind::FetchAdd, None),
        (Kind::Receive, None),
        (Kind::Receive, Some(6)),
        (Kind::ReceiveWrite, Some(8)),
    ];
    for (kind, immediate) in kinds {
        for owner in [false, true] {
            let done = Completion {
                id: 0xfffe,
                qp: 0x12_3456,
                status: Status::Success,
                kind,
                len: 4096,
                immediate,
                solicited: false,
            };
            let (bytes, len) = completion(Format::Mlx4, &done, owner);
            assert_eq!(mlx4::read_completion(&bytes[..len]), Some((done, owner)));
            let (bytes, len) = completion(Format::Mlx5, &done, owner);
            assert_eq!(mlx5::read_completion(&bytes[..len]), Some((done, owner)));
            for (_, status) in SYNDROMES {
                let failed = Completion { status, len: 0, immediate: None, ..done };
                let (bytes, len) = completion(Format::Mlx4, &failed, owner);
                let (read, of) = mlx4::read_completion(&bytes[..len]).unwrap();
                assert_eq!(
                    (read.id, read.status, read.kind.is_receive(), of),
                    (failed.id, status, kind.is_receive(), owner)
                );
                let (bytes, len) = completion(Format::Mlx5, &failed, owner);
                let (read, _) = mlx5::read_completion(&bytes[..len]).unwrap();
                assert_eq!(
                    (read.id, read.status, read.kind.is_receive()),
                    (failed.id, status, kind.is_receive())
                );
            }
        }
    }
}
