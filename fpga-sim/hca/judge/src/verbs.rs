//! Our end against `tests/vm/rxe/verbs.c` in the guest: commands of both, round by round, and every byte checked.

use crate::host::ADDRESS;
use crate::plan::{self, Kind, LANDING, NEVER, OPS, READABLE, SHARED, SLOT, WORDS, apply, bytes_of, op_of};
use crate::world::{End, Peer, World};
use anyhow::{Context, Result, bail, ensure};
use ggas_hca::{Access, Completion, Kind as Done, Operation, ReceiveWork, SendWork, Sges};
use smoltcp::iface::SocketHandle;
use std::net::Ipv4Addr;

/// Behind what the guest reaches: what messages are sent from, and where they, data that was read and answers come.
const OUT: u32 = SHARED;
const IN: u32 = OUT + OPS * SLOT;
const RESULTS: u32 = IN + OPS * SLOT;
const ALL: u32 = RESULTS + OPS * SLOT;
/// From the guest's seed to ours.
const OTHER: u64 = 0x5eed;

/// What an end tells of itself.
struct Hello {
    peer: Peer,
    rkey: u32,
    memory: u64,
    seed: u64,
    rounds: u32,
}

impl Hello {
    fn text(&self) -> String {
        let Peer { address, qpn, psn } = &self.peer;
        let (rkey, memory, seed, rounds) = (self.rkey, self.memory, self.seed, self.rounds);
        format!(
            "verbs {} {qpn:06x} {psn:06x} {rkey:08x} {memory:016x} {seed:016x} {rounds}\n",
            gid_of(*address)
        )
    }

    fn parse(text: &str) -> Option<Hello> {
        let words: Vec<&str> = text.split(' ').collect();
        let ["verbs", gid, qpn, psn, rkey, memory, seed, rounds] = words[..] else { return None };
        let small = |word| u32::from_str_radix(word, 16).ok();
        let large = |word| u64::from_str_radix(word, 16).ok();
        let peer = Peer { address: address_of(gid)?, qpn: small(qpn)?, psn: small(psn)? };
        let (rkey, memory, seed) = (small(rkey)?, large(memory)?, large(seed)?);
        Some(Hello { peer, rkey, memory, seed, rounds: rounds.parse().ok()? })
    }
}

/// An IPv4 address as a GID in hexadecimal.
pub fn gid_of(address: Ipv4Addr) -> String {
    address.to_ipv6_mapped().octets().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// And back.
pub fn address_of(gid: &str) -> Option<Ipv4Addr> {
    let number = u128::from_str_radix(gid, 16).ok().filter(|_| gid.len() == 32)?;
    std::net::Ipv6Addr::from(number).to_ipv4_mapped()
}

/// One conversation, until both ends are through with their commands.
pub fn serve(world: &mut World, line: SocketHandle) -> Result<()> {
    let text = world.line(line)?;
    let theirs = Hello::parse(&text).with_context(|| format!("`{text}`: no words of rxe-verbs"))?;
    let mut end = world.open(ALL as usize, OPS as usize)?;
    let rkey = world.key(&mut end, SHARED as usize, Access::ALL)?;
    let lkey = world.key(&mut end, ALL as usize, Access::LOCAL_WRITE)?;
    let seed = theirs.seed ^ OTHER;
    let psn = plan::first_psn(seed);
    let peer = Peer { address: ADDRESS, qpn: end.qp, psn };
    let mine = Hello { peer, rkey, memory: end.at, seed, rounds: theirs.rounds };
    world.connect(&end, &theirs.peer, psn)?;
    world.host.say(line, mine.text().as_bytes())?;
    let mut game = Game { world, end, line, lkey, mine, theirs, here: [0; WORDS], there: [0; WORDS] };
    game.play()?;
    let Game { world, end, theirs, .. } = game;
    let (seen, lost) = world.host.traffic();
    eprintln!(
        "verbs: {} commands each way, every byte checked; so far {seen} packets, {lost} lost",
        theirs.rounds * OPS
    );
    world.close(end)
}

struct Game<'a> {
    world: &'a mut World,
    end: End,
    line: SocketHandle,
    lkey: u32,
    mine: Hello,
    theirs: Hello,
    /// Our counters, which the guest changes, and the guest's, which we change.
    here: [u64; WORDS],
    there: [u64; WORDS],
}

impl Game<'_> {
    fn play(&mut self) -> Result<()> {
        let readable = bytes_of(self.mine.seed, NEVER, 0, 0, OPS * SLOT);
        self.world.write(&self.end, READABLE, &readable)?;
        for round in 0..self.mine.rounds {
            self.round(round, &readable).with_context(|| format!("round {round}"))?;
        }
        self.together(2 * self.mine.rounds)
    }

    /// Both ends have come so far.
    fn together(&mut self, step: u32) -> Result<()> {
        self.world.host.say(self.line, format!("round {step}\n").as_bytes())?;
        let text = self.world.line(self.line)?;
        ensure!(text == format!("round {step}"), "the guest is at `{text}`, not at round {step}");
        Ok(())
    }

    fn round(&mut self, round: u32, readable: &[u8]) -> Result<()> {
        let empty = vec![0; (OPS * SLOT) as usize];
        for region in [LANDING, IN, RESULTS] {
            self.world.write(&self.end, region, &empty)?;
        }
        let expected = plan::arrivals(self.theirs.seed, round);
        for i in 0..expected {
            let local = Sges::one(self.end.at + u64::from(IN + i * SLOT), SLOT, self.lkey);
            self.world.hca.post_receive(self.end.qp, ReceiveWork { id: i.into(), local })?;
        }
        self.together(2 * round)?;
        let answers = (0..OPS).map(|i| self.post(round, i)).collect::<Result<Vec<u64>>>()?;
        let arrivals = (0..OPS).map(|i| op_of(self.theirs.seed, round, i)).filter(|op| op.kind.arrives());
        let (mut arrivals, mut sent) = (arrivals, 0);
        for _ in 0..OPS + expected {
            let done = self.world.completion(self.end.cq)?;
            if done.kind.is_receive() {
                let op = arrivals.next().context("more has come than the guest has sent")?;
                check_arrival(&done, &op)?;
            } else {
                ensure!(done.id == sent, "command {} is done before command {sent}", done.id);
                sent += 1;
            }
        }
        self.together(2 * round + 1)?;
        if let Some(done) = self.world.hca.poll(self.end.cq) {
            bail!("one completion too many: {done:?}");
        }
        self.check(round, &answers, readable)
    }

    /// Posts a command; returns what an atomic one answers.
    fn post(&mut self, round: u32, i: u32) -> Result<u64> {
        let op = op_of(self.mine.seed, round, i);
        let comes = op.kind == Kind::Read || op.kind.is_atomic();
        let place = if comes { RESULTS } else { OUT } + i * SLOT;
        let (rkey, memory) = (self.theirs.rkey, self.theirs.memory);
        let (mut compare, mut was) = (0, 0);
        if op.kind.is_atomic() {
            (compare, was) = apply(&op, &mut self.there);
        }
        let landing = memory + u64::from(LANDING + i * SLOT);
        let word = memory + u64::from(plan::COUNTERS) + 8 * op.word as u64;
        let operation = match op.kind {
            Kind::Send => Operation::Send { immediate: None },
            Kind::SendImm => Operation::Send { immediate: Some(op.imm) },
            Kind::Write => Operation::Write { address: landing, rkey, immediate: None },
            Kind::WriteImm => Operation::Write { address: landing, rkey, immediate: Some(op.imm) },
            Kind::Read => Operation::Read { address: memory + u64::from(READABLE + op.from), rkey },
            Kind::Swap => Operation::CompareSwap { address: word, rkey, compare, swap: op.add },
            Kind::Add => Operation::FetchAdd { address: word, rkey, add: op.add },
        };
        if !comes {
            self.world.write(&self.end, place, &bytes_of(self.mine.seed, round, i, 0, op.length))?;
        }
        let local = Sges::one(self.end.at + u64::from(place), op.length, self.lkey);
        self.world.post(&self.end, SendWork::new(i.into(), operation, local))?;
        Ok(was)
    }

    /// Every byte that this round has brought, and those beside them.
    fn check(&mut self, round: u32, answers: &[u64], readable: &[u8]) -> Result<()> {
        let mut next = 0;
        for i in 0..OPS {
            let op = op_of(self.theirs.seed, round, i);
            if op.kind.is_atomic() {
                apply(&op, &mut self.here);
            }
            let bytes = bytes_of(self.theirs.seed, round, i, 0, op.length);
            let lands: &[u8] = if op.kind.writes() { &bytes } else { &[] };
            self.slot(LANDING + i * SLOT, lands)
                .with_context(|| format!("the guest's command {i}: {op:?}"))?;
            if op.kind.arrives() {
                let comes: &[u8] = if op.kind == Kind::WriteImm { &[] } else { &bytes };
                self.slot(IN + next * SLOT, comes)
                    .with_context(|| format!("the guest's message {i}: {op:?}"))?;
                next += 1;
            }
        }
        for i in next..OPS {
            self.slot(IN + i * SLOT, &[]).with_context(|| format!("no message {i}"))?;
        }
        let words: Vec<u8> = self.here.iter().flat_map(|word| word.to_le_bytes()).collect();
        let here = self.world.read(&self.end, plan::COUNTERS, 8 * WORDS as u32)?;
        ensure!(here == words, "counters are {here:02x?}, not {words:02x?}");
        for i in 0..OPS {
            let op = op_of(self.mine.seed, round, i);
            let answer = match op.kind {
                Kind::Read => bytes_of(self.theirs.seed, NEVER, 0, op.from, op.length),
                Kind::Swap | Kind::Add => answers[i as usize].to_le_bytes().to_vec(),
                _ => Vec::new(),
            };
            self.slot(RESULTS + i * SLOT, &answer)
                .with_context(|| format!("answer to command {i}: {op:?}"))?;
        }
        ensure!(
            self.world.read(&self.end, READABLE, OPS * SLOT)? == readable,
            "what is to be read was changed"
        );
        Ok(())
    }

    /// A slot holds these bytes and behind them nothing.
    fn slot(&self, at: u32, want: &[u8]) -> Result<()> {
        let slot = self.world.read(&self.end, at, SLOT)?;
        let wanted = |i: usize| want.get(i).copied().unwrap_or(0);
        match slot.iter().enumerate().find(|(i, byte)| **byte != wanted(*i)) {
            None => Ok(()),
            Some((i, byte)) => bail!("byte {i} of {} is {byte:#04x}, not {:#04x}", want.len(), wanted(i)),
        }
    }
}

fn check_arrival(done: &Completion, op: &plan::Op) -> Result<()> {
    let kind = if op.kind == Kind::WriteImm { Done::ReceiveWrite } else { Done::Receive };
    let immediate = (op.kind != Kind::Send).then_some(op.imm);
    if (done.kind, done.len, done.immediate) != (kind, op.length, immediate) {
        bail!("{done:?} has come, not {op:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_tell_of_themselves_is_read_again() {
        let peer = Peer { address: ADDRESS, qpn: 0x12, psn: 0xabcdef };
        let hello = Hello { peer: peer.clone(), rkey: 5, memory: 0x7f00_0000_1000, seed: 9, rounds: 3 };
        let text = hello.text();
        let read = Hello::parse(text.trim_end()).unwrap();
        assert_eq!((read.peer, read.rkey, read.memory), (peer, 5, hello.memory));
        assert_eq!((read.seed, read.rounds), (9, 3));
        assert!(Hello::parse("verbs x").is_none());
        assert!(address_of("fe80000000000000505400fffe000001").is_none(), "no IPv4 address");
    }
}
