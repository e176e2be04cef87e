//! Endpoints of two processes. Where no library is installed, or the crate was built without one, they are skipped.

use std::cell::Cell;
use std::io::BufReader;
use std::os::fd::BorrowedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;

use crate::common::{self, ECHO, PATIENCE, QUIT, REGION, SUM, Side, WRITE, part, pattern, sum};
use ggas_clock::Clock;
use ggas_wire::{Choice, Event, Key, Library, MESSAGE_MAX, Peer, Remote, Taken, Transfer, WireError};
use nix::poll::{PollFd, PollFlags, poll};

/// Another process that serves, and what this one needs to talk to it.
struct Other {
    process: Child,
    peer: Peer,
    remote: Remote,
}

impl Other {
    fn start(side: &mut Side, choice: &Choice) -> Other {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ggas-test-wire"))
            .arg("serve")
            // Both take the same, whatever the process thinks of its environment.
            .env("GGAS_FABRIC", choice.word())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        side.introduce(process.stdin.take().unwrap());
        let (peer, remote) = side.meet(BufReader::new(process.stdout.take().unwrap()));
        Other { process, peer, remote }
    }

    fn quit(mut self, side: &mut Side) {
        side.send(self.peer, &[QUIT], |_| {});
        // A message that was taken leaves while somebody polls.
        let mut status = None;
        side.wait("the end of the other process", |_| {
            status = status.or_else(|| self.process.try_wait().unwrap());
            status.is_some()
        });
        assert!(status.unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A message of a length that depends on its number, and begins with it.
fn numbered(number: u32) -> Vec<u8> {
    numbered_up_to(number, MESSAGE_MAX)
}

/// The same, of at most so many bytes.
fn numbered_up_to(number: u32, most: usize) -> Vec<u8> {
    let len = 5 + (number as usize * 37) % (most - 4);
    let mut message = vec![ECHO];
    message.extend_from_slice(&number.to_le_bytes());
    message.extend((message.len()..len).map(|place| pattern(place + number as usize)));
    message
}

fn messages_come_whole_and_in_order(choice: &Choice) {
    let mut side = Side::open(choice);
    let other = Other::start(&mut side, choice);
    let (next, most) = (Cell::new(0), side.endpoint.message_max());
    let numbered = |number| numbered_up_to(number, most);
    let take = |event: Event<'_>| match event {
        Event::Message(bytes) => {
            assert_eq!(bytes, numbered(next.get()), "message {}", next.get());
            next.set(next.get() + 1);
        }
        other => panic!("{other:?}"),
    };
    const COUNT: u32 = 3000;
    let mut in_room = 0;
    for number in 0..COUNT {
        let message = numbered(number);
        // Each second one without a copy, where the library has a place for it, and takes it now.
        let room = side.endpoint.room().filter(|_| number % 2 == 1);
        let written = room.is_some_and(|room| {
            room[..message.len()].copy_from_slice(&message);
            true
        });
        if written && side.endpoint.send_room(other.peer, message.len()).unwrap() == Taken::Yes {
            in_room += 1;
            continue;
        }
        side.send(other.peer, &message, take);
    }
    assert!(in_room > 0 || choice.library == Library::Ucx, "no message was written to its place");
    side.wait("the answers", |event| {
        if let Some(event) = event {
            take(event);
        }
        next.get() == COUNT
    });
    let longest = numbered((0..COUNT).max_by_key(|n| numbered(*n).len()).unwrap());
    assert!(longest.len() > most - 40, "{}", longest.len());
    other.quit(&mut side);
}

fn a_notified_write_comes_behind_its_data(choice: &Choice) {
    let mut side = Side::open(choice);
    let other = Other::start(&mut side, choice);
    for (offset, len) in [(0, 8), (13, 1), (4096, 4096), (65_536, 300_000), (REGION - 64, 64)] {
        side.send(other.peer, &part(WRITE, offset, len), |event| panic!("{event:?}"));
        let memory = side.memory;
        let mut written = false;
        side.wait("a write", |event| {
            if let Some(Event::Written(immediate)) = event {
                assert_eq!(immediate as usize, offset);
                for (place, byte) in memory.iter().enumerate().skip(offset).take(len) {
                    assert_eq!(byte.load(Relaxed), pattern(place), "at {place}");
                }
                written = true;
            }
            written
        });
    }
    // What nobody wrote.
    assert_eq!(side.memory[REGION - 65].load(Relaxed), 0);
    other.quit(&mut side);
}

fn memory_is_read_and_written(choice: &Choice) {
    let mut side = Side::open(choice);
    let other = Other::start(&mut side, choice);
    let transfer = |local_offset: usize, remote_offset: usize, len: usize| Transfer {
        local: side.region,
        local_offset: local_offset as u64,
        remote: other.remote,
        remote_offset: remote_offset as u64,
        len: len as u64,
    };
    let (from, to) = (transfer(100, 5000, 70_000), transfer(100, 200_000, 70_000));
    let until = |side: &mut Side, token: u64, start: &dyn Fn(&mut Side) -> Taken| {
        let end = Clock::REAL.deadline(PATIENCE);
        while start(side) == Taken::Later {
            side.endpoint.poll(|event| panic!("{event:?}")).unwrap();
            assert!(Clock::REAL.now() < end, "no room for a transfer");
        }
        let busy = side.endpoint.unregister(side.region).unwrap_err();
        assert!(matches!(busy, WireError::Busy { operations: 1 }), "{busy}");
        let mut over = false;
        side.wait("a transfer", |event| {
            match event {
                Some(Event::Done { token: ended }) => {
                    assert_eq!(ended, token);
                    over = true;
                }
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            over
        });
    };
    until(&mut side, 7, &|side| side.endpoint.read(&from, 7).unwrap());
    for place in 0..70_000 {
        assert_eq!(side.memory[100 + place].load(Relaxed), pattern(5000 + place), "at {place}");
    }
    until(&mut side, 8, &|side| side.endpoint.write(&to, None, 8).unwrap());
    let expected = sum(&side.memory[100..70_100]);
    side.send(other.peer, &part(SUM, 200_000, 70_000), |_| {});
    let mut told = None;
    side.wait("the sum", |event| {
        if let Some(Event::Message(bytes)) = event {
            told = bytes[1..].try_into().ok().map(u64::from_le_bytes);
        }
        told.is_some()
    });
    assert_eq!(told, Some(expected));
    other.quit(&mut side);
}

fn a_descriptor_wakes_who_sleeps(choice: &Choice) {
    if !choice.offer.sleeps {
        return;
    }
    let mut side = Side::open(choice);
    let other = Other::start(&mut side, choice);
    let descriptor = side.endpoint.descriptor().unwrap();
    for number in 0..200 {
        side.send(other.peer, &numbered(number), |event| panic!("{event:?}"));
        let mut came = false;
        while !came {
            if side.endpoint.arm().unwrap() {
                // SAFETY: the endpoint's, which lives on.
                let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
                let ready = poll(&mut [PollFd::new(descriptor, PollFlags::POLLIN)], 60_000u16).unwrap();
                assert_eq!(ready, 1, "slept through message {number}");
            }
            let take = |event: Event<'_>| came |= matches!(event, Event::Message(b) if b == numbered(number));
            side.endpoint.poll(take).unwrap();
        }
    }
    other.quit(&mut side);
}

fn a_killed_peer_harms_no_other(choice: &Choice) {
    let mut side = Side::open(choice);
    let (mut killed, other) = (Other::start(&mut side, choice), Other::start(&mut side, choice));
    let mut answers = 0;
    for peer in [killed.peer, other.peer] {
        side.send(peer, &numbered(1), |_| answers += 1);
    }
    side.wait("both", |event| {
        answers += usize::from(event.is_some());
        answers == 2
    });
    killed.process.kill().unwrap();
    killed.process.wait().unwrap();
    // Taken, refused, an error or an event: nothing of it is promised, but that it comes back.
    let far =
        Transfer { local: side.region, local_offset: 0, remote: killed.remote, remote_offset: 0, len: 64 };
    for number in 0..1000 {
        let _ = side.endpoint.send(killed.peer, &numbered(number));
        let _ = side.endpoint.write(&far, Some(1), 1);
        let _ = side.endpoint.poll(|_| {});
    }
    side.send(other.peer, &numbered(2), |_| {});
    let mut came = false;
    side.wait("the one that lives", |event| {
        came |= matches!(event, Some(Event::Message(bytes)) if bytes == numbered(2));
        came
    });
    other.quit(&mut side);
}

fn wrong_arguments_are_refused(choice: &Choice) {
    let mut side = Side::open(choice);
    let other = Other::start(&mut side, choice);
    let most = side.endpoint.message_max();
    let too_long = side.endpoint.send(other.peer, &vec![0; most + 1]).unwrap_err();
    assert!(matches!(too_long, WireError::TooLong { .. }), "{too_long}");
    let size = REGION as u64;
    for (local_offset, remote_offset, len) in
        [(size, 0, 1), (0, size, 1), (0, 1, size), (1, 0, size), (u64::MAX, 0, 2), (0, u64::MAX, 2)]
    {
        let transfer =
            Transfer { local: side.region, local_offset, remote: other.remote, remote_offset, len };
        let outside = side.endpoint.write(&transfer, None, 0).unwrap_err();
        assert!(matches!(outside, WireError::Outside { .. }), "{outside}");
    }
    for address in [&[][..], &[1; 3], &[0xff; 513]] {
        let foreign = side.endpoint.insert(address).unwrap_err();
        assert!(matches!(foreign, WireError::Foreign { what: "address", .. }), "{foreign}");
    }
    assert!(Key::try_from(&[0; 8][..]).is_err() && Key::try_from(&[0; 300][..]).is_err());
    let foreign = side.endpoint.import(other.peer, &Key::try_from(&[1; 20][..]).unwrap()).unwrap_err();
    assert!(matches!(foreign, WireError::Foreign { what: "key", .. }), "{foreign}");
    let held = side.endpoint.remove(other.peer).unwrap_err();
    assert!(matches!(held, WireError::Busy { operations: 1 }), "{held}");
    let region = side.region;
    side.endpoint.unregister(region).unwrap();
    assert!(matches!(side.endpoint.key(region), Err(WireError::Stale { .. })));
    let transfer =
        Transfer { local: region, local_offset: 0, remote: other.remote, remote_offset: 0, len: 1 };
    assert!(matches!(side.endpoint.read(&transfer, 0), Err(WireError::Stale { .. })));
    let (peer, remote) = (other.peer, other.remote);
    other.quit(&mut side);
    side.endpoint.forget(remote).unwrap();
    side.endpoint.remove(peer).unwrap();
    assert!(matches!(side.endpoint.send(peer, b"x"), Err(WireError::Stale { .. })));
}

/// The mark, as `fdinfo` has it.
const CLOEXEC: i32 = 0o2_000_000;

/// What `exec` would leave open to a child, of sockets and of what waits for them.
fn inherited() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let Ok(what) = entry.path().read_link() else { continue }; // of this loop itself
        let info = format!("/proc/self/fdinfo/{}", entry.file_name().to_string_lossy());
        let flags = std::fs::read_to_string(info).unwrap_or_default();
        let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default();
        let flags = i32::from_str_radix(flags.trim(), 8).unwrap_or(0);
        let what = what.to_string_lossy().into_owned();
        let number: i32 = entry.file_name().to_string_lossy().parse().unwrap();
        if number > 2 && (what.starts_with("socket") || what.contains("eventpoll")) && flags & CLOEXEC == 0 {
            found.push(format!("{number}: {what}"));
        }
    }
    found
}

fn children_inherit_none_of_its_sockets(choice: &Choice) {
    // Both ways: a peer that calls, and one that is called.
    let mut side = Side::open(choice);
    let other = Other::start(&mut side, choice);
    side.send(other.peer, &numbered(1), |_| {});
    let mut came = false;
    side.wait("the echo", |event| {
        came |= matches!(event, Some(Event::Message(_)));
        came
    });
    assert_eq!(inherited(), Vec::<String>::new());
    other.quit(&mut side);
}

/// UCX keeps an eye on connections on which nothing happens, too.
#[test]
fn ucx_tells_of_a_killed_peer() {
    let Some(choice) = common::chosen(Library::Ucx) else { return };
    let mut side = Side::open(&choice);
    let (mut killed, other) = (Other::start(&mut side, &choice), Other::start(&mut side, &choice));
    let mut answers = 0;
    for peer in [killed.peer, other.peer] {
        side.send(peer, &numbered(1), |_| answers += 1);
    }
    side.wait("both", |event| {
        answers += usize::from(event.is_some());
        answers == 2
    });
    killed.process.kill().unwrap();
    let mut gone = None;
    side.wait("the end of one", |event| {
        match event {
            Some(Event::Gone { peer, .. }) => gone = Some(peer),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        gone.is_some()
    });
    assert_eq!(gone, Some(killed.peer));
    // A read of what is gone ends, and so does a message.
    assert!(side.endpoint.send(killed.peer, b"x").is_err());
    let far =
        Transfer { local: side.region, local_offset: 0, remote: killed.remote, remote_offset: 0, len: 64 };
    assert!(side.endpoint.read(&far, 1).is_err());
    side.endpoint.forget(killed.remote).unwrap();
    side.endpoint.remove(killed.peer).unwrap();
    side.send(other.peer, &numbered(2), |_| {});
    let mut came = false;
    side.wait("the one that lives", |event| {
        came |= matches!(event, Some(Event::Message(bytes)) if bytes == numbered(2));
        came
    });
    other.quit(&mut side);
}

/// What is read when its owner dies fails, and is not waited for.
#[test]
fn what_ucx_reads_of_a_killed_peer_fails() {
    let Some(choice) = common::chosen(Library::Ucx) else { return };
    let mut side = Side::open(&choice);
    let mut killed = Other::start(&mut side, &choice);
    side.send(killed.peer, &numbered(1), |_| {});
    let mut came = false;
    side.wait("the echo", |event| {
        came |= matches!(event, Some(Event::Message(_)));
        came
    });
    // It stands still, so nothing is answered before it dies.
    let process = nix::unistd::Pid::from_raw(killed.process.id() as i32);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let len = REGION as u64;
    let all = Transfer { local: side.region, local_offset: 0, remote: killed.remote, remote_offset: 0, len };
    assert_eq!(side.endpoint.read(&all, 5).unwrap(), Taken::Yes);
    assert_eq!(side.endpoint.write(&all, None, 6).unwrap(), Taken::Yes);
    killed.process.kill().unwrap();
    let mut failed = Vec::new();
    side.wait("both ends", |event| {
        match event {
            Some(Event::Failed { token, .. }) => failed.push(token),
            Some(Event::Gone { .. }) | None => {}
            Some(other) => panic!("{other:?}"),
        }
        failed.len() == 2
    });
    failed.sort_unstable();
    assert_eq!(failed, [5, 6]);
    side.endpoint.unregister(side.region).unwrap();
}

of_each_library! {
    messages_come_whole_and_in_order,
    a_notified_write_comes_behind_its_data,
    memory_is_read_and_written,
    a_killed_peer_harms_no_other,
    wrong_arguments_are_refused,
    children_inherit_none_of_its_sockets,
    a_descriptor_wakes_who_sleeps,
}
