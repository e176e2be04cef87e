//! Requests and completions as rdma-core's headers lay them out (`tests/golden/adapters.c`), for both families of adapters.

use ggas_hca::formats::{self, Format, mlx4, mlx5};
use ggas_hca::{Completion, Kind, Operation, SendWork, Sges, Status};

const QP: u32 = 0x12_3456;
const INDEX: u16 = 0xfe4d;

/// Family, kind, name, bytes.
fn vectors() -> Vec<(Format, &'static str, &'static str, Vec<u8>)> {
    let text = include_str!("../../../../tests/golden/adapters.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (names, bytes) = line.split_once(" = ").unwrap();
            let [family, kind, name] = names.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let format = if family == "mlx4" { Format::Mlx4 } else { Format::Mlx5 };
            let byte = |at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap();
            (format, kind, name, (0..bytes.len()).step_by(2).map(byte).collect())
        })
        .collect()
}

fn request(name: &str) -> SendWork {
    let (address, rkey) = (0x1122_3344_5566_7788, 0xaabb_ccdd);
    let operation = match name {
        "send" => Operation::Send { immediate: None },
        "send-immediate" => Operation::Send { immediate: Some(0x0102_0304) },
        "write" | "write-unsignaled" => Operation::Write { address, rkey, immediate: None },
        "write-immediate" => Operation::Write { address, rkey, immediate: Some(0x0506_0708) },
        "read-fenced" => Operation::Read { address, rkey },
        "compare-swap" => Operation::CompareSwap { address, rkey, compare: 0x3333, swap: 0x4444 },
        "fetch-add" => Operation::FetchAdd { address, rkey, add: 0x5555 },
        _ => panic!("{name}"),
    };
    let local = Sges::one(0x0102_0304_0506_0708, 8, 0x0a0b_0c0d);
    SendWork {
        signaled: name != "write-unsignaled",
        solicited: name == "send-immediate",
        fence: name == "read-fenced",
        ..SendWork::new(0, operation, local)
    }
}

fn completion(name: &str) -> Completion {
    let (kind, immediate, status) = match name {
        "send" => (Kind::Send, None, Status::Success),
        "write" => (Kind::Write, None, Status::Success),
        "read" => (Kind::Read, None, Status::Success),
        "compare-swap" => (Kind::CompareSwap, None, Status::Success),
        "fetch-add" => (Kind::FetchAdd, None, Status::Success),
        "receive" => (Kind::Receive, None, Status::Success),
        "receive-immediate" => (Kind::Receive, Some(0x0102_0304), Status::Success),
        "receive-write" => (Kind::ReceiveWrite, Some(0x0506_0708), Status::Success),
        "send-not-ready" => (Kind::Send, None, Status::NotReadyExceeded),
        "receive-flushed" => (Kind::Receive, None, Status::Flushed),
        _ => panic!("{name}"),
    };
    let len = if status == Status::Success { 4096 } else { 0 };
    Completion { id: INDEX.into(), qp: QP, status, kind, len, immediate, solicited: false }
}

#[test]
fn requests_lie_as_rdma_core_has_them() {
    let mut seen = 0;
    for (format, _, name, expected) in vectors().into_iter().filter(|(_, kind, ..)| *kind == "request") {
        let work = request(name);
        let mut bytes = [0; 128];
        let (len, found) = match format {
            Format::Mlx4 => (mlx4::write(&work, true, &mut bytes).unwrap(), mlx4::read(&expected)),
            Format::Mlx5 => {
                (mlx5::write(&work, QP, INDEX, &mut bytes).unwrap(), mlx5::read(&expected, QP, INDEX))
            }
        };
        assert_eq!(bytes[..len], expected, "{format:?} {name}");
        assert_eq!((found.operation, found.local), (Some(work.operation), work.local), "{format:?} {name}");
        let flags = (found.signaled, found.solicited, found.fence);
        assert_eq!(flags, (work.signaled, work.solicited, work.fence), "{format:?} {name}");
        seen += 1;
    }
    assert_eq!(seen, 16);
}

#[test]
fn completions_lie_as_rdma_core_has_them() {
    let mut seen = 0;
    for (format, _, name, expected) in vectors().into_iter().filter(|(_, kind, ..)| *kind == "completion") {
        let done = completion(name);
        let (bytes, len) = formats::completion(format, &done, true);
        assert_eq!(bytes[..len], expected, "{format:?} {name}");
        let read = match format {
            Format::Mlx4 => mlx4::read_completion(&expected),
            Format::Mlx5 => mlx5::read_completion(&expected),
        };
        assert_eq!(read, Some((done, true)), "{format:?} {name}");
        seen += 1;
    }
    assert_eq!(seen, 20);
}
