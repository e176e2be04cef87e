//! Our end of `ibv_rc_pingpong`: its words over TCP, then messages back and forth.
//!
//! Either end tells `LID:QPN:PSN:GID` in hexadecimal with a zero byte behind it, the client first; then the client says
//! `done`. The client sends the first message, and each end one for each that comes.

use crate::host::ADDRESS;
use crate::verbs::{address_of, gid_of};
use crate::world::{End, Peer, World};
use anyhow::{Context, Result, ensure};
use ggas_hca::{Access, Kind, Operation, ReceiveWork, SendWork, Sges};
use smoltcp::iface::SocketHandle;

/// Bytes of a message, and messages each way: what `ibv_rc_pingpong` does unasked.
const SIZE: u32 = 4096;
const MESSAGES: u32 = 1000;
/// What it fills its messages with, all but the first byte.
const FILL: u8 = 0x7b;
/// With its zero byte.
const WORDS: usize = 52;
const DONE: &[u8] = b"done\0";
/// Receives that are kept posted.
const DEPTH: u32 = 100;

fn told(peer: &Peer) -> Vec<u8> {
    format!("0000:{:06x}:{:06x}:{}\0", peer.qpn, peer.psn, gid_of(peer.address)).into_bytes()
}

fn heard(bytes: &[u8]) -> Option<Peer> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\0');
    let words: Vec<&str> = text.split(':').collect();
    let [_, qpn, psn, gid] = words[..] else { return None };
    let number = |word| u32::from_str_radix(word, 16).ok();
    Some(Peer { address: address_of(gid)?, qpn: number(qpn)?, psn: number(psn)? })
}

/// Plays it; `client`: we begin.
pub fn play(world: &mut World, line: SocketHandle, client: bool) -> Result<()> {
    let mut end = world.open(2 * SIZE as usize, DEPTH as usize)?;
    let lkey = world.key(&mut end, 2 * SIZE as usize, Access::LOCAL_WRITE)?;
    let mine = Peer { address: ADDRESS, qpn: end.qp, psn: 0x654321 };
    for i in 0..DEPTH {
        receive(world, &end, i, lkey)?;
    }
    if client {
        world.host.say(line, &told(&mine))?;
    }
    let bytes = world.bytes(line, WORDS)?;
    let theirs = heard(&bytes).with_context(|| format!("{bytes:02x?}: no words of ibv_rc_pingpong"))?;
    world.connect(&end, &theirs, mine.psn)?;
    if client {
        world.host.say(line, DONE)?;
    } else {
        world.host.say(line, &told(&mine))?;
        ensure!(world.bytes(line, DONE.len())? == DONE, "the guest does not say that it is done");
    }
    rally(world, &end, lkey, client)?;
    eprintln!(
        "pingpong: {MESSAGES} messages of {SIZE} bytes each way, {}",
        if client { "we began" } else { "it began" }
    );
    world.retire(end)
}

/// Until all have come. The other end leaves when it has all, too, and its acknowledge of our last message may be lost with
/// nobody there to repeat it: that it came is what its exit status says.
fn rally(world: &mut World, end: &End, lkey: u32, begin: bool) -> Result<()> {
    let mut message = vec![FILL; SIZE as usize];
    // It numbers its pages where it is asked to check them; there is one.
    message[0] = 0;
    world.write(end, 0, &message)?;
    let (mut come, mut gone, mut sent) = (0, 0, 0);
    if begin {
        send(world, end, lkey)?;
        gone += 1;
    }
    while come < MESSAGES || sent < MESSAGES - 1 {
        let done = world.completion(end.cq)?;
        if done.kind != Kind::Receive {
            sent += 1;
            continue;
        }
        come += 1;
        ensure!(done.len == SIZE, "a message of {} bytes has come", done.len);
        let bytes = world.read(end, SIZE, SIZE)?;
        ensure!(bytes == message, "message {come} is {bytes:02x?}");
        world.write(end, SIZE, &vec![0; SIZE as usize])?;
        receive(world, end, come, lkey)?;
        if gone < MESSAGES {
            world.write(end, 0, &bytes)?;
            send(world, end, lkey)?;
            gone += 1;
        }
    }
    Ok(())
}

fn receive(world: &mut World, end: &End, id: u32, lkey: u32) -> Result<()> {
    let local = Sges::one(end.at + u64::from(SIZE), SIZE, lkey);
    Ok(world.hca.post_receive(end.qp, ReceiveWork { id: id.into(), local })?)
}

fn send(world: &mut World, end: &End, lkey: u32) -> Result<()> {
    let local = Sges::one(end.at, SIZE, lkey);
    world.post(end, SendWork::new(0, Operation::Send { immediate: None }, local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_long_as_its_own() {
        let peer = Peer { address: ADDRESS, qpn: 0x17, psn: 0xfedcba };
        let bytes = told(&peer);
        assert_eq!(bytes.len(), WORDS);
        assert_eq!(heard(&bytes), Some(peer));
        assert_eq!(heard(b"0000:x"), None);
    }
}
