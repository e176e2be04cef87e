//! Whoever connects to a job that is being started, and what it may send: the job begins all the same.

mod common;

use std::io::IoSlice;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Dir, SOON, plain, succeeds};
use extoll_sim::process::{Inbox, Shape};
use ggas_boot::launch::{Launch, Output, Running};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, sendmsg, socket,
    socketpair,
};

fn rank(dir: &Path, rank: u32) -> Running {
    plain(dir, &format!("RANK={rank} SIZE=2 JOB=pair"), "join exchange=64 fds barrier=60000")
        .spawn()
        .expect("it starts")
}

fn stranger(dir: &Path) -> OwnedFd {
    let deadline = Instant::now() + SOON;
    loop {
        let fd =
            socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        match connect(fd.as_raw_fd(), &UnixAddr::new(&dir.join("pair.sock")).expect("a path")) {
            Ok(()) => return fd,
            Err(errno) => assert!(Instant::now() < deadline, "{errno}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(to: &OwnedFd, bytes: &[u8], fds: &[RawFd]) {
    let control = [ControlMessage::ScmRights(fds)];
    let control = if fds.is_empty() { &control[..0] } else { &control[..] };
    // It may have been closed already, which is the host's right.
    let _ = sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None);
}

/// What the host answers, as text, before it closes the connection.
fn answer(from: &OwnedFd) -> String {
    let mut bytes = [0; 8192];
    let n = recv(from.as_raw_fd(), &mut bytes, MsgFlags::empty()).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..n]).into_owned()
}

/// A hello as this version writes it: magic, version, postcard of rank, size, per node.
fn hello(version: u16, rank: u8, size: u8) -> Vec<u8> {
    [b"GGAS".as_slice(), &version.to_le_bytes(), &[rank, size, 1]].concat()
}

#[test]
fn hostile_messages_do_not_stop_a_job() {
    let dir = Dir::new("hostile");
    let first = rank(&dir.0, 0);
    let mut random = fastrand::Rng::with_seed(11);
    let mut kept = Vec::new();
    for round in 0..60 {
        let door = stranger(&dir.0);
        let null = std::fs::File::open("/dev/null").expect("it opens");
        let many = vec![null.as_raw_fd(); 253];
        match round % 10 {
            0 => send(&door, &[], &[]),
            1 => {
                let len = random.usize(1..9000);
                send(&door, &std::iter::repeat_with(|| random.u8(..)).take(len).collect::<Vec<_>>(), &[]);
            }
            2 => send(&door, &vec![b'G'; 70_000], &many),
            3 => send(&door, b"GGAS", &[]),
            4 => send(&door, &hello(1, 1, 2)[..7], &[]),
            5 => send(&door, &hello(1, 1, 2), &many),
            6 => send(&door, &hello(1, 1, 2), &many[..4]),
            7 => send(&door, &[hello(1, 1, 2), vec![0; 9]].concat(), &many[..4]),
            8 => send(&door, &hello(1, 0xff, 2), &many[..4]),
            // Says nothing, and stays.
            _ => {}
        }
        if round % 2 == 0 {
            kept.push(door);
        }
    }
    let second = rank(&dir.0, 1);
    succeeds(&first.wait());
    succeeds(&second.wait());
    dir.is_empty();
}

#[test]
fn strangers_are_told_why() {
    let dir = Dir::new("told");
    let first = rank(&dir.0, 0);
    let cases: [(Vec<u8>, &str); 3] = [
        (b"HTTP/1.1 GET /".to_vec(), "does not begin with GGAS"),
        (hello(1, 1, 2), "descriptors instead of 4"),
        ([hello(1, 1, 2), vec![1]].concat(), "1 bytes too many"),
    ];
    for (bytes, part) in cases {
        let door = stranger(&dir.0);
        send(&door, &bytes, &[]);
        let said = answer(&door);
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    // Of another version: it gets the numbers, in a message that begins with ours.
    let door = stranger(&dir.0);
    send(&door, &hello(9, 1, 2), &[]);
    assert!(answer(&door).starts_with("GGAS\u{1}\0"));
    drop(first);
}

/// Memory that could be cut off under its peers, or is too small, is refused, and its rank is still free.
#[test]
fn memory_that_peers_cannot_trust_is_refused() {
    let dir = Dir::new("memory");
    let first = rank(&dir.0, 0);
    // SAFETY: asks for a descriptor of this process.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) } as RawFd;
    // SAFETY: it was opened above, and nobody else knows of it.
    let process = unsafe { OwnedFd::from_raw_fd(process) };
    let (mailbox, _other) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).expect("a socket");
    let memory = |bytes: i64, seals: i32| {
        let flags = MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_CLOEXEC;
        let fd = memfd_create(c"hostile", flags).expect("a memory");
        nix::unistd::ftruncate(&fd, bytes).expect("its size");
        // SAFETY: seals a descriptor of ours.
        assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
        fd
    };
    let fixed = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    let own = Inbox::create(Shape::new(2, 1).expect("a shape")).expect("an inbox");
    let (big, open, small) = (memory(1 << 20, fixed), memory(1 << 20, 0), memory(4096, fixed));
    let (inbox, arena, unsealed) = (own.fd().as_raw_fd(), big.as_raw_fd(), open.as_raw_fd());
    let cases = [
        (unsealed, arena, "an inbox is not sealed"),
        (inbox, unsealed, "an arena is not sealed"),
        (small.as_raw_fd(), arena, "its size"),
        (mailbox.as_raw_fd(), arena, "an inbox is not sealed"),
    ];
    for (inbox, arena, part) in cases {
        let door = stranger(&dir.0);
        send(&door, &hello(1, 1, 2), &[process.as_raw_fd(), inbox, arena, mailbox.as_raw_fd()]);
        let said = answer(&door);
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    let second = rank(&dir.0, 1);
    succeeds(&first.wait());
    succeeds(&second.wait());
}

/// Another user's process, which only root can bring to the socket at all, is turned away without an answer.
#[test]
fn a_foreign_user_is_turned_away() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can be two users");
        return;
    }
    let dir = Dir::new("foreign");
    std::os::unix::fs::chown(&dir.0, Some(12345), Some(12345)).expect("root may");
    // The program may lie where that user cannot go.
    let program = dir.0.join("member");
    std::fs::copy(common::MEMBER, &program).expect("a copy");
    let rank = |rank: u32| {
        Launch::new("setpriv")
            .args(["--reuid=12345", "--regid=12345", "--clear-groups", "env", "-u", "GGAS_JOB_FD"])
            .args([format!("GGAS_RUNTIME_DIR={}", dir.0.display()), format!("GGAS_RANK={rank}")])
            .args(["GGAS_SIZE=2", "GGAS_JOB=pair"])
            .arg(&program)
            .args(["join", "barrier=60000"])
            .output(Output::Capture)
            .spawn()
            .expect("setpriv is part of util-linux")
    };
    let first = rank(0);
    let door = stranger(&dir.0);
    send(&door, &hello(1, 1, 2), &[]);
    assert_eq!(answer(&door), "");
    let second = rank(1);
    succeeds(&first.wait());
    succeeds(&second.wait());
}

/// Every descriptor that came with a bad message is closed again.
#[test]
fn bad_messages_leave_no_descriptors() {
    let dir = Dir::new("leak");
    let first = rank(&dir.0, 0);
    let pid = first.pid(0).expect("it runs");
    let null = std::fs::File::open("/dev/null").expect("it opens");
    let open = || std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
    dir.wait_for("pair.sock");
    // The rank's own may still be on their way: few, where a leak would be 200 of each message.
    let before = open() + 20;
    for _ in 0..50 {
        let door = stranger(&dir.0);
        send(&door, &vec![1; 20_000], &vec![null.as_raw_fd(); 200]);
        answer(&door);
    }
    let deadline = Instant::now() + SOON;
    while open() > before {
        assert!(Instant::now() < deadline, "{} open, {before} before", open());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(first);
}
