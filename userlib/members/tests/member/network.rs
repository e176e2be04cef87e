//! Commands of plain members of a network.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ggas_members::{
    GoneGuard, Member, MemberId, Members, NetworkShape, memory_of_network, networks, put_up, take_down,
};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};

use crate::{Failure, SOON, State, milliseconds, say};

/// What came to a member, as text; it ends with the guard.
pub struct Events {
    heard: Receiver<String>,
    _gone: GoneGuard,
}

/// Kinds of messages.
const WORD: u16 = 7;
/// Handled later than it may come.
const LATE: u16 = 8;

impl Events {
    fn of(member: &Arc<Member>) -> Events {
        let (tell, heard) = channel();
        let gone = tell.clone();
        let said = move |from: MemberId, body: Vec<u8>, fds: Vec<OwnedFd>| {
            let word = String::from_utf8_lossy(&body).into_owned();
            let _ = tell.send(format!("{} says {word} with {}", name(from), fds.len()));
        };
        member.handle(WORD, Arc::new(said));
        let went = move |id, how| {
            let _ = gone.send(format!("{} is {how:?}", name(id)));
        };
        Events { heard, _gone: member.on_gone(Arc::new(went)) }
    }

    fn next(&self) -> String {
        self.heard.recv_timeout(SOON).unwrap_or_else(|_| "nothing".into())
    }
}

fn name(id: MemberId) -> String {
    format!("{}.{}", id.slot, id.generation)
}

/// `2x2x2` or `2x2x2/16`, with room for 16.
fn shape(text: &str) -> Result<NetworkShape, Failure> {
    let (torus, members) = text.split_once('/').unwrap_or((text, ""));
    let sizes: Vec<u16> = torus.split('x').map(str::parse).collect::<Result<_, _>>()?;
    let [x, y, z] = sizes[..] else { return Err("no shape".into()) };
    let shape = NetworkShape::torus(x, y, z)?;
    Ok(if members.is_empty() { shape } else { shape.with_members(members.parse()?)? })
}

/// Does a command; `false`: it is another's.
pub fn run(state: &mut State, command: &str, value: &str) -> Result<bool, Failure> {
    match command {
        "enter" => entered(state, Member::join()?),
        // Leaves on the thread of its own handlers.
        "leave-inside" => {
            state.events = None;
            let member = state.member.take().ok_or("in no network")?;
            let (tell, heard) = channel();
            let it = member.clone();
            drop(member);
            it.clone().soon(Duration::from_millis(1), move || {
                drop(it);
                let _ = tell.send(());
            });
            heard.recv_timeout(SOON)?;
        }
        // A network of this name, this shape, on this node: `enter-as=lab,2x2x2,3`.
        "enter-as" => {
            let [name, torus, node] = value.split(',').collect::<Vec<_>>()[..] else {
                return Err("name, shape, node".into());
            };
            entered(state, Member::join_network(name, &shape(torus)?, node.parse()?)?);
        }
        "enter-private" => entered(state, Member::join_private(&NetworkShape::default(), 0)?),
        // Joins and leaves so many times; says how long the median join takes.
        "churn" => churn(value.parse()?)?,
        "me" => {
            let member = state.member()?;
            say(&format!("{} on node {} of {}", name(member.me()), member.node(), member.network()));
        }
        "made" => say(&format!("made {}", state.member()?.has_made())),
        "list" => {
            let all: Vec<String> =
                state.member()?.list().iter().map(|it| format!("{}:{}", name(it.id), it.pid)).collect();
            say(&all.join(" "));
        }
        "state" => {
            let last = state.member()?.at(value.parse()?);
            say(&last.map_or("nobody".into(), |it| format!("{} {:?}", name(it.id), it.state)));
        }
        "event" => say(&state.events.as_ref().ok_or("in no network")?.next()),
        // No more is to come.
        "silence" => {
            let heard = state
                .events
                .as_ref()
                .ok_or("in no network")?
                .heard
                .recv_timeout(Duration::from_millis(value.parse()?));
            say(&heard.unwrap_or_else(|_| "silence".into()));
        }
        // A word to a slot's member: `word=3,hello`.
        "word" | "late-word" => {
            let (slot, word) = value.split_once(',').ok_or("slot, word")?;
            let member = state.member()?;
            let to = member.at(slot.parse()?).ok_or("nobody")?;
            let start = Instant::now();
            let kind = if command == "word" { WORD } else { LATE };
            match member.send(to.id, kind, word.as_bytes(), &[], Instant::now() + SOON) {
                Ok(true) => say("sent"),
                Ok(false) => say("it does not take it"),
                Err(error) => say(&format!("{error} [{} ms]", milliseconds(start))),
            }
        }
        // The same with three descriptors.
        "word-with" => {
            let (slot, word) = value.split_once(',').ok_or("slot, word")?;
            let member = state.member()?;
            let to = member.at(slot.parse()?).ok_or("nobody")?;
            let (input, deadline) = (std::io::stdin(), Instant::now() + SOON);
            let sent = member.send(to.id, WORD, word.as_bytes(), &[input.as_fd(); 3], deadline)?;
            say(if sent { "sent" } else { "it does not take it" });
        }
        // Handles the late words now, and says which came until the last one, which is "end".
        "hear-late" => hear_late(state.member()?),
        "lose" => {
            let member = state.member()?;
            member.lose(member.at(value.parse()?).ok_or("nobody")?.id);
        }
        // Connects as this member to a slot's, and says what is no message.
        "garbage" => {
            let member = state.member()?;
            let to = member.at(value.parse()?).ok_or("nobody")?.id;
            let path = PathBuf::from(std::env::var("GGAS_RUNTIME_DIR")?);
            let path = path.join(member.network()).join(format!("socket.{}", to.slot));
            state.doors.push(garbage(&path, member.me(), to)?);
        }
        "publish" => {
            let (key, bytes) = value.split_once(',').ok_or("key, bytes")?;
            state.member()?.publish(key, &vec![5; bytes.parse()?])?;
        }
        "look-up" => {
            let (slot, key) = value.split_once(',').ok_or("slot, key")?;
            let member = state.member()?;
            let of = member.at(slot.parse()?).ok_or("nobody")?;
            say(&member
                .look_up(of.id, key)?
                .map_or("nothing".into(), |bytes| format!("{} bytes", bytes.len())));
        }
        // Memory of a node, every byte of it written: `node-memory=0,65536`.
        "node-memory" => {
            let (node, bytes) = value.split_once(',').ok_or("node, bytes")?;
            let bytes = bytes.parse()?;
            let memory = state.member()?.node_memory(node.parse()?, (bytes, bytes), |_| {})?;
            // SAFETY: all of it is mapped and reserved; nobody else looks at it.
            unsafe { std::ptr::write_bytes(memory.map().base(), 1, bytes) };
            state.nodes.push(memory);
        }
        "up" => {
            let (name, torus) = value.split_once(',').unwrap_or((value, "2x2x2"));
            say(&format!("{} stands: {}", name, put_up(name, &shape(torus)?)?.standing));
        }
        "whole" => {
            memory_of_network(value, 64)?;
            say("mapped");
        }
        "down" => say(&format!("{} members", take_down(value)?.len())),
        "nets" => {
            let each = |it: &ggas_members::NetworkInfo| {
                let shape = it.shape.as_ref().map_or("?".into(), ToString::to_string);
                let stands = if it.standing { " stands" } else { "" };
                format!("{} ({shape}) {}{stands}", it.name, it.members.len())
            };
            say(&networks()?.iter().map(each).collect::<Vec<_>>().join(", "));
        }
        // Holds the lock of a network's directory, and stops there.
        "stop-locked" => {
            let directory = PathBuf::from(std::env::var("GGAS_RUNTIME_DIR")?).join(value);
            let lock = Flock::lock(std::fs::File::open(directory)?, FlockArg::LockExclusive);
            let _lock = lock.map_err(|(_, errno)| errno)?;
            say("locked");
            say(".");
            nix::sys::signal::raise(nix::sys::signal::SIGSTOP)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn entered(state: &mut State, member: Arc<Member>) {
    state.events = Some(Events::of(&member));
    state.member = Some(member);
}

/// A connection that begins as it should and goes on as it should not.
fn garbage(path: &Path, from: MemberId, to: MemberId) -> Result<OwnedFd, Failure> {
    let door = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    connect(door.as_raw_fd(), &UnixAddr::new(path)?)?;
    let ids = [from.slot, from.generation, to.slot, to.generation].map(|number| number as u8);
    let hello = [b"GGAS".as_slice(), &9u16.to_le_bytes(), &[0], &ids].concat();
    send(door.as_raw_fd(), &hello, MsgFlags::MSG_NOSIGNAL)?;
    send(door.as_raw_fd(), b"GGAS is no message", MsgFlags::MSG_NOSIGNAL)?;
    Ok(door)
}

fn churn(times: usize) -> Result<(), Failure> {
    let mut took = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        let member = Member::join()?;
        took.push(start.elapsed());
        drop(member);
    }
    took.sort_unstable();
    say(&format!("{} us", took.get(took.len() / 2).map_or(0, Duration::as_micros)));
    Ok(())
}

fn hear_late(member: &Arc<Member>) {
    let (tell, heard) = channel();
    member.handle(
        LATE,
        Arc::new(move |_, body, _| drop(tell.send(String::from_utf8_lossy(&body).into_owned()))),
    );
    let mut words = Vec::new();
    while let Ok(word) = heard.recv_timeout(SOON) {
        if word == "end" {
            break;
        }
        words.push(word);
    }
    say(&words.join(" "));
}
