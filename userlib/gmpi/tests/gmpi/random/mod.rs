//! Random programs of calls whose outcome MPI's rules leave no choice of: by a seed, the same ones on every carrier. What all memory holds
//! afterwards, all statuses and all errors are known beforehand.

#![allow(dead_code, reason = "not every test binary uses all")]

mod collectives;
mod plan;

use ggas_gmpi::layout::*;
use ggas_selftest::args::*;

pub use self::plan::{AREA, Plan, communicators, difference, seeds};
use crate::world::ANY;

const OF_BYTES: u64 = GMPI_BYTE as u64;
/// Limits of the ways that messages go, with those beside them.
const SIZES: [usize; 26] = [
    0, 1, 7, 8, 9, 31, 32, 120, 159, 160, 161, 191, 192, 193, 199, 200, 201, 223, 224, 225, 1000, 4031, 4032,
    4033, 9000, 33_000,
];
/// Those of messages that go from kernel to kernel, of which a few are long.
const DIRECT: [usize; 12] = [0, 1, 8, 247, 248, 249, 512, 513, 4096, 4097, 1024, 2000];
const PLACED: [usize; 5] = [8_191, 8_192, 8_193, 33_000, 40_000];

/// Communicators of a rank: all; all the other way round; those whose ranks are both even or both odd; where it is given, all from kernel to
/// kernel.
const FROM_KERNEL: usize = 3;

/// Ranks in the world of the members of a communicator that a rank is in.
fn members(kind: usize, rank: usize, size: usize) -> Vec<usize> {
    match kind {
        0 | FROM_KERNEL => (0..size).collect(),
        1 => (0..size).rev().collect(),
        _ => (0..size).filter(|other| other % 2 == rank % 2).collect(),
    }
}

/// A message, and the receive that takes it.
struct Message {
    from: usize,
    to: usize,
    tag: u64,
    bytes: Vec<u8>,
}

struct Receive {
    message: usize,
    source: u64,
    tag: u64,
    room: usize,
}

struct Program<'a> {
    rng: &'a mut fastrand::Rng,
    plans: Vec<Plan>,
    /// Tags that are used once.
    tags: u64,
    /// Nothing but messages from kernel to kernel.
    alone: bool,
}

/// The programs of all ranks: each has an area at its base, and communicators.
pub fn programs(seed: u64, bases: &[u64], comms: &[Vec<u64>]) -> Vec<Plan> {
    make(seed, bases, comms, false)
}

/// The same of messages from kernel to kernel alone, whose areas may be memory that the daemons do not know.
pub fn programs_of_kernels(seed: u64, bases: &[u64], comms: &[Vec<u64>]) -> Vec<Plan> {
    make(seed, bases, comms, true)
}

fn make(seed: u64, bases: &[u64], comms: &[Vec<u64>], alone: bool) -> Vec<Plan> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let plans = bases.iter().zip(comms).map(|(base, comms)| Plan::new(*base, comms.clone())).collect();
    let mut program = Program { rng: &mut rng, plans, tags: 100, alone };
    for _ in 0..program.rng.usize(1..8) {
        if program.plans.iter().any(|plan| plan.used > AREA / 4) {
            break;
        }
        program.phase();
    }
    let scope = [SELFTEST_PUT_THREAD, SELFTEST_PUT_WARP, SELFTEST_PUT_BLOCK][program.rng.usize(0..3)];
    let mut plans = program.plans;
    plans.iter_mut().for_each(|plan| plan.script = std::mem::take(&mut plan.script).scope(scope));
    plans
}

impl Program<'_> {
    fn pattern(&mut self, bytes: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.rng.u8(..)).take(bytes).collect()
    }

    /// Something in which all members of a communicator take part.
    fn phase(&mut self) {
        let (kind, size) = (self.rng.usize(0..self.plans[0].comms.len()), self.plans.len());
        let kind = if self.alone { FROM_KERNEL } else { kind };
        let mut groups: Vec<Vec<usize>> = (0..size).map(|rank| members(kind, rank, size)).collect();
        groups.sort();
        groups.dedup();
        for group in groups {
            match self.rng.usize(0..6) {
                0 | 1 if !self.alone => self.collective(kind, &group, true),
                2 => self.shift(kind, &group),
                _ => self.messages(kind, &group),
            }
        }
    }

    /// What is sent goes through each rank's own Sendrecv.
    fn shift(&mut self, kind: usize, group: &[usize]) {
        let (n, by) = (group.len(), self.rng.usize(0..group.len()));
        let data: Vec<Vec<u8>> = (0..n)
            .map(|_| {
                let bytes = SIZES[self.rng.usize(0..SIZES.len())];
                self.pattern(bytes)
            })
            .collect();
        for (i, rank) in group.iter().enumerate() {
            let (to, from) = ((i + by) % n, (i + n - by) % n);
            let room = data[from].len() + self.rng.usize(0..300);
            let plan = &mut self.plans[*rank];
            let (at, into) = (plan.source(&data[i], self.rng), plan.target(room, &data[from], self.rng));
            let both = |first: usize, second: usize| first as u64 | (second as u64) << 32;
            let of = OF_BYTES | OF_BYTES << 32;
            let comm = plan.comms[kind];
            let arguments = [at, into, both(data[i].len(), room), of, both(to, from), both(9, 9), comm];
            plan.call(GMPI_CALL_SENDRECV, &arguments, 0);
            let status = plan.status(1);
            plan.statuses.push((status, (from as i32, 9, 0, data[from].len() as u64)));
        }
    }

    /// Messages of all members to all, received in any order that MPI allows.
    fn messages(&mut self, kind: usize, group: &[usize]) {
        let (n, direct) = (group.len(), kind == FROM_KERNEL);
        let fenced = self.rng.bool() && !self.alone;
        let mut messages = Vec::new();
        let most = [3, 8, if direct { 8 } else { 30 }][self.rng.usize(0..3)] * n;
        let mut placed = 0;
        for _ in 0..self.rng.usize(1..=most) {
            self.tags += 1;
            let tag = if self.rng.bool() { self.tags } else { self.rng.u64(0..3) };
            let many = self.rng.u8(0..4) > 0;
            let sizes = if many { 20 } else { SIZES.len() };
            let mut bytes = SIZES[self.rng.usize(0..sizes)];
            if direct {
                placed += usize::from(!many);
                let is_long = !many && placed <= 2;
                bytes = if is_long {
                    PLACED[self.rng.usize(0..PLACED.len())]
                } else {
                    DIRECT[self.rng.usize(0..DIRECT.len())]
                };
            }
            let (from, to) = (self.rng.usize(0..n), self.rng.usize(0..n));
            let bytes = self.pattern(bytes);
            messages.push(Message { from, to, tag, bytes });
        }
        let receives: Vec<Vec<Receive>> =
            (0..n).map(|to| self.receives(&messages, to, fenced, direct)).collect();
        let blocks = self.rng.u8(0..4) == 0;
        let firsts: Vec<u32> = group.iter().map(|rank| self.plans[*rank].requests).collect();
        let extra = self.rng.u8(0..4) == 0 && !self.alone;
        if extra {
            self.collective(kind, group, false);
        }
        for (i, rank) in group.iter().enumerate() {
            self.exchange(*rank, kind, i, &messages, &receives[i], firsts[i], blocks);
            if fenced {
                let comm = self.plans[*rank].comms[kind];
                self.plans[*rank].call(GMPI_CALL_BARRIER, &[comm], 0);
            }
        }
    }

    /// Receives of one member, each with the message that it gets: the first one that it takes of those that are left.
    fn receives(&mut self, messages: &[Message], to: usize, fenced: bool, direct: bool) -> Vec<Receive> {
        let mut left: Vec<usize> = (0..messages.len()).filter(|i| messages[*i].to == to).collect();
        let first = left.first().map(|i| messages[*i].from);
        let alone = fenced && left.iter().all(|i| Some(messages[*i].from) == first);
        let mut receives = Vec::new();
        while !left.is_empty() {
            let mut chosen = &messages[left[self.rng.usize(0..left.len())]];
            if direct {
                // In their order.
                let first = left.iter().map(|i| &messages[*i]).find(|message| message.from == chosen.from);
                chosen = first.unwrap_or(chosen);
            }
            let (source, tag) = match self.rng.u8(0..8) {
                0 | 1 if chosen.tag >= 100 && !direct => (ANY, chosen.tag),
                2 | 3 => (chosen.from as u64, ANY),
                4 if alone && !direct => (ANY, ANY),
                _ => (chosen.from as u64, chosen.tag),
            };
            let takes = |message: &Message| {
                (source == ANY || message.from as u64 == source) && (tag == ANY || message.tag == tag)
            };
            let at = left.iter().position(|i| takes(&messages[*i])).unwrap_or(0);
            let message = left.remove(at);
            let len = messages[message].bytes.len();
            // Open MPI 4.1.4 does not tell that a message to itself was too long, and writes longer ones of others behind the buffer.
            let fails = messages[message].from != to && len <= 4000 || direct;
            let room = match self.rng.u8(0..16) {
                0 if fails => self.rng.usize(0..=len),
                1..=5 => len,
                6..=10 => len + self.rng.usize(0..20),
                _ => len + self.rng.usize(0..300),
            };
            receives.push(Receive { message, source, tag, room });
        }
        receives
    }

    /// All messages of one rank; requests from `first` on are waited for, too.
    #[allow(clippy::too_many_arguments, reason = "what a phase knows")]
    fn exchange(
        &mut self,
        rank: usize,
        kind: usize,
        own: usize,
        messages: &[Message],
        receives: &[Receive],
        first: u32,
        blocks: bool,
    ) {
        let sends: Vec<&Message> = messages.iter().filter(|message| message.from == own).collect();
        // By request from `first` on: status and error that are told; what is freed.
        let begun = self.plans[rank].requests - first;
        let mut told: Vec<Option<(i32, i32, u32, u64)>> = vec![None; begun as usize];
        let mut free = Vec::new();
        let later = if blocks || self.rng.bool() { 0 } else { self.rng.usize(0..=receives.len()) };
        let (begins, waits) = receives.split_at(receives.len() - later);
        let (mut sends, mut begins) = (sends.into_iter().peekable(), begins.iter().peekable());
        while sends.peek().is_some() || begins.peek().is_some() {
            let persistent = self.rng.u8(0..8) == 0 && kind != FROM_KERNEL;
            let receive = begins.peek().is_some() && (blocks || sends.peek().is_none() || self.rng.bool());
            let rng = &mut *self.rng;
            let plan = &mut self.plans[rank];
            let comm = plan.comms[kind];
            if receive {
                let Some(receive) = begins.next() else { continue };
                let call = if persistent { GMPI_CALL_RECV_INIT } else { GMPI_CALL_IRECV };
                let (arguments, status) = receive_of(plan, receive, messages, comm, rng);
                plan.call(call, &arguments, 0);
                told.push(Some(status));
            } else {
                let Some(message) = sends.next() else { continue };
                let at = plan.source(&message.bytes, rng);
                let arguments =
                    [at, message.bytes.len() as u64, OF_BYTES, message.to as u64, message.tag, comm];
                if blocks {
                    plan.call(GMPI_CALL_SEND, &arguments, 0);
                    continue;
                }
                plan.call(if persistent { GMPI_CALL_SEND_INIT } else { GMPI_CALL_ISEND }, &arguments, 0);
                told.push(None);
            }
            let request = plan.request();
            if persistent {
                plan.call(GMPI_CALL_START, &[], 0);
                plan.use_request(request);
                free.push(request);
            }
        }
        for receive in waits {
            let plan = &mut self.plans[rank];
            let comm = plan.comms[kind];
            let (arguments, status) = receive_of(plan, receive, messages, comm, self.rng);
            plan.call(GMPI_CALL_RECV, &arguments, status.2);
            let number = plan.status(1);
            if status.2 == 0 {
                plan.statuses.push((number, status));
            }
        }
        self.complete(rank, first, &told);
        for request in free {
            self.plans[rank].call(GMPI_CALL_REQUEST_FREE, &[], 0);
            self.plans[rank].use_request(request);
        }
    }

    fn complete(&mut self, rank: usize, first: u32, told: &[Option<(i32, i32, u32, u64)>]) {
        let rng = &mut *self.rng;
        let plan = &mut self.plans[rank];
        let count = told.len() as u64;
        let error_of = |told: &Option<(i32, i32, u32, u64)>| told.map_or(0, |status| status.2);
        let any = told.iter().any(|told| error_of(told) != 0);
        let all = if any { GMPI_ERR_IN_STATUS } else { 0 };
        let expect = |plan: &mut Plan, number: u32, told: &Option<(i32, i32, u32, u64)>| {
            if let Some(status) = told {
                plan.statuses.push((number, *status));
            }
        };
        match rng.u8(0..6) {
            0 => {
                plan.call(GMPI_CALL_WAITALL, &[count], all);
                plan.use_request(first);
            }
            1 | 2 => {
                plan.call(GMPI_CALL_WAITALL, &[count], all);
                plan.use_request(first);
                let number = plan.status(told.len() as u32);
                told.iter().zip(number..).for_each(|(told, number)| expect(plan, number, told));
            }
            3 if !any => {
                for _ in told {
                    plan.call(GMPI_CALL_WAITANY, &[count], 0);
                    plan.use_request(first);
                }
            }
            way => {
                let mut order: Vec<usize> = (0..told.len()).collect();
                rng.shuffle(&mut order);
                for i in order {
                    let call = if way == 4 { SELFTEST_GMPI_TEST_UNTIL } else { GMPI_CALL_WAIT };
                    plan.call(call, &[], error_of(&told[i]));
                    plan.use_request(first + i as u32);
                    let number = plan.status(1);
                    if error_of(&told[i]) == 0 {
                        expect(plan, number, &told[i]);
                    }
                }
            }
        }
        plan.call(GMPI_CALL_TESTALL, &[count], 0);
        plan.use_request(first);
    }
}

/// A receive's arguments, and its status.
fn receive_of(
    plan: &mut Plan,
    receive: &Receive,
    messages: &[Message],
    comm: u64,
    rng: &mut fastrand::Rng,
) -> ([u64; 6], (i32, i32, u32, u64)) {
    let message = &messages[receive.message];
    let fits = message.bytes.len().min(receive.room);
    let error = if fits < message.bytes.len() { GMPI_ERR_TRUNCATE } else { 0 };
    let at = plan.target(receive.room, &message.bytes[..fits], rng);
    if error != 0 {
        plan.is_cut(at, receive.room);
    }
    let status = (message.from as i32, message.tag as i32, error, fits as u64);
    ([at, receive.room as u64, OF_BYTES, receive.source, receive.tag, comm], status)
}
