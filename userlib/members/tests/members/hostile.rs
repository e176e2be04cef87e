//! What comes to a member's socket from whoever can reach it, and members that do not keep to the rules: the others go
//! on.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::chown;
use std::path::Path;

use crate::common::{Dir, MEMBER, Shell, until};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, sendmsg, socket,
};

/// A connection to a member's socket, by somebody who is no member.
fn stranger(dir: &Path, slot: u32) -> OwnedFd {
    let fd =
        socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    let path = dir.join("default").join(format!("socket.{slot}"));
    connect(fd.as_raw_fd(), &UnixAddr::new(&path).expect("a path")).expect("it listens");
    fd
}

fn send(to: &OwnedFd, bytes: &[u8], fds: &[RawFd]) {
    let control = [ControlMessage::ScmRights(fds)];
    let control = if fds.is_empty() { &control[..0] } else { &control[..] };
    // It may have been closed already, which is the member's right.
    let _ = sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None);
}

/// Waits until the member has closed the connection.
fn is_closed(door: &OwnedFd) {
    let mut bytes = [0; 64];
    let n = recv(door.as_raw_fd(), &mut bytes, MsgFlags::empty()).unwrap_or(0);
    assert_eq!(n, 0, "it answers: {bytes:?}");
}

/// What members begin with: magic, version, postcard of who says it to whom.
fn hello(version: u16, from: (u8, u8), to: (u8, u8)) -> Vec<u8> {
    [b"GGAS".as_slice(), &version.to_le_bytes(), &[0, from.0, from.1, to.0, to.1]].concat()
}

/// Two members that have met.
fn two(dir: &Dir) -> [Shell; 2] {
    let [mut one, mut two] = [(); 2].map(|()| dir.shell(""));
    one.does("enter");
    two.does("enter");
    talk(&mut one, &mut two);
    [one, two]
}

#[track_caller]
fn talk(one: &mut Shell, two: &mut Shell) {
    assert_eq!(two.ask("word=0,hello"), "sent");
    assert_eq!(one.ask("event"), "1.1 says hello with 0");
    assert_eq!(one.ask("word=1,hello"), "sent");
    assert_eq!(two.ask("event"), "0.1 says hello with 0");
}

#[test]
fn strangers_are_turned_away() {
    let dir = Dir::new("strangers");
    let [mut one, mut two] = two(&dir);
    let mut random = fastrand::Rng::with_seed(11);
    let mut kept = Vec::new();
    let null = std::fs::File::open("/dev/null").expect("it opens");
    let many = vec![null.as_raw_fd(); 200];
    for round in 0..300 {
        let door = stranger(dir.path(), 0);
        match round % 10 {
            0 => send(&door, &[], &[]),
            1 => {
                let len = random.usize(1..9000);
                send(&door, &std::iter::repeat_with(|| random.u8(..)).take(len).collect::<Vec<_>>(), &[]);
            }
            2 => send(&door, &vec![b'G'; 70_000], &many),
            3 => send(&door, b"GGAS", &[]),
            4 => send(&door, &hello(8, (1, 1), (0, 1))[..8], &[]),
            5 => send(&door, &hello(8, (1, 1), (0, 1)), &many),
            6 => send(&door, &hello(4, (1, 1), (0, 1)), &[]),
            7 => send(&door, &[hello(8, (1, 1), (0, 1)), vec![0; 9]].concat(), &[]),
            // As somebody who is not there, and to somebody else.
            8 => send(&door, &hello(8, (77, 1), (0, 9)), &many[..4]),
            // Says nothing, and goes.
            _ => {}
        }
        // Those that say nothing at all may stay for a while.
        if round % 10 != 9 {
            is_closed(&door);
        }
        if round % 2 == 0 {
            kept.push(door);
        }
    }
    talk(&mut one, &mut two);
}

/// So many that say nothing and stay: they make room for who has something to say.
#[test]
fn silent_strangers_make_room() {
    let dir = Dir::new("silent");
    let [mut one, mut two] = two(&dir);
    let kept: Vec<OwnedFd> = (0..200).map(|_| stranger(dir.path(), 0)).collect();
    let mut three = dir.shell("");
    three.does("enter");
    assert_eq!(three.ask("word=0,hello"), "sent");
    assert_eq!(one.ask("event"), "2.1 says hello with 0");
    talk(&mut one, &mut two);
    drop(kept);
}

/// Who says that it is a member and is not is refused: its end is not that member's.
#[test]
fn nobody_speaks_for_another() {
    let dir = Dir::new("another");
    let [mut one, mut two] = two(&dir);
    for from in [(1, 1), (0, 1)] {
        let door = stranger(dir.path(), 0);
        send(&door, &hello(8, from, (0, 1)), &[]);
        is_closed(&door);
    }
    talk(&mut one, &mut two);
    assert_eq!((one.ask("state=1"), two.ask("state=0")), ("1.1 Joined".into(), "0.1 Joined".into()));
}

/// A member that sends what is no message is lost, and takes nobody with it.
#[test]
fn a_member_that_talks_nonsense_goes_alone() {
    let dir = Dir::new("nonsense");
    let [mut one, mut two] = two(&dir);
    let mut three = dir.shell("");
    three.does("enter");
    assert_eq!(three.ask("word=0,hello"), "sent");
    assert_eq!(three.ask("word=1,hello"), "sent");
    assert_eq!(one.ask("event"), "2.1 says hello with 0");
    assert_eq!(two.ask("event"), "2.1 says hello with 0");
    three.does("garbage=0");
    assert_eq!(one.ask("event"), "2.1 is Lost");
    // It finds that those hung up on it, which is no news about them.
    assert_eq!(three.ask("event"), "0.1 is Lost");
    assert_eq!(two.ask("state=0"), "0.1 Joined");
    talk(&mut one, &mut two);
    three.does("leave");
    assert_eq!(two.ask("event"), "2.1 is Lost");
    assert_eq!(two.ask("list"), format!("0.1:{} 1.1:{}", one.pid(), two.pid()));
    // It may come again.
    three.does("enter");
    assert_eq!(three.ask("me"), "2.2 on node 0 of default");
}

/// Every descriptor that comes with a bad message is closed again, and none is open once members have gone.
#[test]
fn no_descriptor_is_left() {
    let dir = Dir::new("leak");
    let mut one = dir.shell("");
    let at_first = one.ask("open");
    one.does("enter");
    let joined = one.ask("open");
    let null = std::fs::File::open("/dev/null").expect("it opens");
    for _ in 0..50 {
        let door = stranger(dir.path(), 0);
        send(&door, &vec![1; 20_000], &vec![null.as_raw_fd(); 200]);
        is_closed(&door);
        let mut two = dir.shell("");
        two.does("enter");
        assert_eq!(two.ask("word=0,hello"), "sent");
        assert_eq!(one.ask("event"), "1.1 says hello with 0".replace("1.1", &id(&mut two)));
        two.kill();
        assert!(one.ask("event").ends_with("is Lost"));
    }
    until("all to be closed", || one.ask("open") == joined);
    one.does("leave");
    assert_eq!(one.ask("open"), at_first);
}

fn id(shell: &mut Shell) -> String {
    shell.ask("me").split(' ').next().expect("an id").to_owned()
}

/// Of other users not even root speaks with a network's members, nor enters a directory of theirs.
#[test]
fn a_foreign_user_is_turned_away() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can be two users");
        return;
    }
    let dir = Dir::new("foreign");
    let inner = Dir(dir.path().join("theirs"));
    std::fs::create_dir(inner.path()).expect("a directory");
    for path in [dir.path(), inner.path()] {
        chown(path, Some(12345), Some(12345)).expect("root may");
    }
    std::fs::set_permissions(inner.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("its mode");
    // The program may lie where that user cannot go.
    let program = dir.path().join("member");
    std::fs::copy(MEMBER, &program).expect("a copy");
    let shell = || {
        let args = ["--reuid=12345", "--regid=12345", "--clear-groups", &program.display().to_string()];
        let theirs = inner.script("", "setpriv", &args);
        Shell::start(theirs)
    };
    let [mut one, mut two] = [shell(), shell()];
    one.does("enter");
    two.does("enter");
    let door = stranger(inner.path(), 0);
    send(&door, &hello(8, (1, 1), (0, 1)), &[]);
    is_closed(&door);
    let mut root = inner.shell("");
    root.is_refused("enter", &["it belongs to user 12345, this process runs as 0", "GGAS_RUNTIME_DIR"]);
    root.is_refused("nets", &["it belongs to user 12345"]);
    talk(&mut one, &mut two);
    one.does("leave");
    two.does("leave");
    inner.is_empty();
}
