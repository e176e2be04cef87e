//! What a process keeps that receives nothing; what is left of those that die, leave, or free a communicator.

mod freed;
mod leaving;
mod traced;

use ggas::Processor;
use ggas::device::sim::SimNetwork;
use ggas_clock::Backoff;

use super::super::{Carrier, Operation, Type};
use super::net::CREDITS;
use super::*;
use crate::layout::{GMPI_BYTE, GMPI_SUM, GMPI_UNSIGNED_CHAR};
use crate::{Config, Gmpi};

const SOON: Duration = Duration::from_secs(60);
const BYTES: usize = 1 << 20;
const OF: Type = Type(GMPI_BYTE);

struct Pair {
    own: Vec<Own>,
    memory: Vec<Arc<ggas::kernels::KernelMem>>,
    network: SimNetwork,
}

impl Pair {
    fn new() -> Pair {
        Pair::over(SimNetwork::builder().nodes(2).build().expect("a network"))
    }

    fn over(network: SimNetwork) -> Pair {
        let nodes: Vec<Node> = (0..2).map(|i| Node::new(network.device(i).expect("a node"))).collect();
        let mut own = Own::local(&nodes).expect("carriers");
        let memory: Vec<_> =
            (0..2).map(|_| Arc::new(Processor::cpu().alloc(4 * BYTES).expect("memory"))).collect();
        for (own, memory) in own.iter_mut().zip(&memory) {
            own.attach(0, memory.clone()).expect("attached");
        }
        Pair { own, memory, network }
    }

    fn span(&self, rank: usize, offset: usize, len: usize) -> Span {
        Span { index: 0, memory: self.memory[rank].clone(), offset, len, shape: None }
    }

    fn send(&mut self, from: usize, to: usize, offset: usize, len: usize) -> Token {
        let at = self.span(from, offset, len);
        let send = Operation::Send { at, of: OF, to: to as u32, tag: 0, comm: 0 };
        self.own[from].start(&send).expect("it starts")
    }

    fn receive(&mut self, at: usize, from: usize, offset: usize, len: usize) -> Token {
        let span = self.span(at, offset, len);
        let receive = Operation::Recv { at: span, of: OF, from: Some(from as u32), tag: Some(0), comm: 0 };
        self.own[at].start(&receive).expect("it starts")
    }

    /// Both work until this is so.
    fn until(&mut self, what: &str, mut so: impl FnMut(&mut Pair) -> bool) {
        let mut wait = Backoff::new(Clock::REAL, SOON);
        loop {
            let moved = self.own.iter_mut().map(Own::progress).filter(|moved| *moved).count() > 0;
            if so(self) {
                return;
            }
            if !moved {
                wait.pause().unwrap_or_else(|waited| panic!("{what}: not within {waited:?}"));
            }
        }
    }

    fn finish(&mut self, what: &str, rank: usize, token: Token) {
        let mut ended = None;
        self.until(what, |pair| {
            ended = pair.own[rank].test(token);
            ended.is_some()
        });
        ended.expect("it has ended").unwrap_or_else(|class| panic!("{what}: {class}"));
    }

    /// Messages of which a process keeps the bytes, and others that it knows of.
    fn kept(&self, rank: usize) -> (u64, usize) {
        let bytes = self.own[rank].matching.kept().filter(|kept| matches!(kept.body, Body::Bytes(_))).count();
        (bytes as u64, self.own[rank].matching.kept().count() - bytes)
    }

    fn fill(&self, rank: usize) -> Vec<u8> {
        let bytes: Vec<u8> = (0..BYTES).map(|i| (i * 7 + rank + i / 251) as u8).collect();
        self.memory[rank].write(0, &bytes).expect("in range");
        bytes
    }

    fn read(&self, rank: usize, offset: usize, len: usize) -> Vec<u8> {
        self.span(rank, offset, len).read().expect("in range")
    }
}

/// Processes that share a network.
fn several(count: usize) -> Vec<Own> {
    let network = SimNetwork::builder().nodes(count).build().expect("a network");
    let nodes: Vec<Node> = (0..count).map(|i| Node::new(network.device(i).expect("a node"))).collect();
    Own::local(&nodes).expect("carriers")
}

/// These work until this is so.
fn work(own: &mut [Own], who: &[usize], what: &str, mut so: impl FnMut(&mut [Own]) -> bool) {
    let mut wait = Backoff::new(Clock::REAL, SOON);
    while !so(own) {
        let moved = who.iter().filter(|rank| own[**rank].progress()).count() > 0;
        if !moved {
            wait.pause().unwrap_or_else(|waited| panic!("{what}: not within {waited:?}"));
        }
    }
}

#[test]
fn a_process_that_does_not_receive_keeps_bounded_bytes_and_nothing_is_lost() {
    let mut pair = Pair::new();
    let sent = pair.fill(0);
    // Also none, odd numbers of bytes, and more than a frame.
    let lens: Vec<usize> = (0..300).map(|i| [8, 0, 3, 4032, 513, 5001][i % 6]).collect();
    let sends: Vec<Token> = lens.iter().enumerate().map(|(i, len)| pair.send(0, 1, i * 3, *len)).collect();
    pair.until("all is told", |pair| {
        let (bytes, others) = pair.kept(1);
        assert!(bytes <= CREDITS, "{bytes} messages are kept");
        bytes as usize + others == lens.len()
    });
    assert_eq!(pair.kept(1).0, CREDITS, "credits are used");
    for (i, len) in lens.iter().enumerate() {
        let token = pair.receive(1, 0, 2 * BYTES, *len);
        pair.finish("a receive", 1, token);
        assert_eq!(pair.read(1, 2 * BYTES, *len), sent[i * 3..i * 3 + len], "message {i}");
    }
    sends.into_iter().for_each(|token| pair.finish("a send", 0, token));
    assert_eq!(pair.kept(1), (0, 0));
    // Credits have come back.
    let token = pair.send(0, 1, 0, 8);
    pair.until("one more", |pair| pair.kept(1).0 == 1);
    pair.finish("a send in a frame needs no receive", 0, token);
}

#[test]
fn offers_are_bounded_too() {
    let mut pair = Pair::new();
    let limited = pair.own.remove(0).at_most(5);
    pair.own.insert(0, limited);
    let at = pair.span(0, 0, 8);
    let send = Operation::Send { at, of: OF, to: 1, tag: 0, comm: 0 };
    let mut count = 0;
    while pair.own[0].has_room(&send) {
        pair.own[0].start(&send).expect("it starts");
        count += 1;
        pair.until("it leaves", |pair| pair.own[0].flow.is_empty());
    }
    assert_eq!(count, CREDITS + 5);
    for _ in 0..count {
        let token = pair.receive(1, 0, 0, 8);
        pair.finish("a receive", 1, token);
    }
    pair.until("room", |pair| pair.own[0].has_room(&send));
}

#[test]
fn messages_to_the_process_itself_are_bounded_too() {
    let mut pair = Pair::new();
    let sent = pair.fill(0);
    let sends: Vec<Token> = (0..200).map(|i| pair.send(0, 0, i, 9)).collect();
    assert_eq!(pair.kept(0), (CREDITS, 200 - CREDITS as usize));
    for i in 0..200 {
        let token = pair.receive(0, 0, 2 * BYTES, 9);
        pair.finish("a receive", 0, token);
        assert_eq!(pair.read(0, 2 * BYTES, 9), sent[i..i + 9]);
    }
    sends.into_iter().for_each(|token| pair.finish("a send", 0, token));
}

#[test]
fn collectives_go_on_without_credits_and_do_not_run_ahead() {
    let mut pair = Pair::new();
    let sent = pair.fill(0);
    // All credits of both lie with messages that nobody receives before the end.
    for _ in 0..CREDITS {
        pair.send(0, 1, 0, 8);
        pair.send(1, 0, 0, 8);
    }
    let len = 20_001;
    let root = Operation::Bcast { at: pair.span(0, 0, len), of: OF, root: 0, comm: 0 };
    let token = pair.own[0].start(&root).expect("it starts");
    pair.until("the first piece is on offer", |pair| pair.kept(1) == (CREDITS, 1));
    assert!(pair.own[0].test(token).is_none(), "the root does not run ahead");
    let other = Operation::Bcast { at: pair.span(1, 0, len), of: OF, root: 0, comm: 0 };
    let joined = pair.own[1].start(&other).expect("it starts");
    pair.finish("the broadcast at the root", 0, token);
    pair.finish("the broadcast", 1, joined);
    assert_eq!(pair.read(1, 0, len), sent[..len]);

    let to = 2 * BYTES;
    let sum = |pair: &Pair, rank: usize| {
        let (from, to) = (pair.span(rank, 0, len), pair.span(rank, to, len));
        Operation::Allreduce { from, to, of: Type(GMPI_UNSIGNED_CHAR), op: GMPI_SUM, comm: 0 }
    };
    let tokens = [0, 1].map(|rank| {
        let operation = sum(&pair, rank);
        pair.own[rank].start(&operation).expect("it starts")
    });
    tokens.into_iter().enumerate().for_each(|(rank, token)| pair.finish("the sum", rank, token));
    let doubled: Vec<u8> = sent[..len].iter().map(|byte| byte.wrapping_mul(2)).collect();
    (0..2).for_each(|rank| assert!(pair.read(rank, to, len) == doubled, "rank {rank}"));
    assert_eq!((pair.kept(0), pair.kept(1)), ((CREDITS, 0), (CREDITS, 0)), "the messages are still there");
}

#[test]
fn credits_come_back_where_nothing_else_is_sent_back() {
    let mut pair = Pair::new();
    for _ in 0..CREDITS {
        pair.send(0, 1, 0, 8);
    }
    pair.until("all is told", |pair| pair.kept(1) == (CREDITS, 0));
    assert!(!pair.own[0].net.takes_credit(1));
    for _ in 0..CREDITS {
        let token = pair.receive(1, 0, 0, 8);
        pair.finish("a receive", 1, token);
    }
    pair.until("a credit", |pair| pair.own[0].net.takes_credit(1));
}

/// What it has sent is received, but for bytes that it alone has.
#[test]
fn a_message_that_waits_at_a_dead_process_is_not_received() {
    let mut pair = Pair::new();
    let sent = pair.fill(1);
    pair.send(1, 0, 0, 9);
    pair.send(1, 0, 0, 20_000);
    pair.until("both are known", |pair| pair.kept(0) == (1, 1));
    pair.own[0].gone[1].store(true, Ordering::Release);
    pair.own[0].progress();
    let token = pair.receive(0, 1, 2 * BYTES, 9);
    pair.finish("a message that came before", 0, token);
    assert_eq!(pair.read(0, 2 * BYTES, 9), sent[..9]);
    assert_eq!(pair.own[0].probe(0, Some(1), None), Err(Class::PROC_FAILED));
    let at = pair.span(0, 2 * BYTES, 20_000);
    let receive = Operation::Recv { at, of: OF, from: None, tag: None, comm: 0 };
    assert_eq!(pair.own[0].start(&receive), Err(Class::PROC_FAILED));
}

#[test]
fn what_came_before_a_death_counts() {
    let mut pair = Pair::new();
    let sent = pair.fill(1);
    let token = pair.receive(0, 1, 2 * BYTES, 9);
    pair.send(1, 0, 0, 9);
    pair.own[1].progress();
    let mut wait = Backoff::new(Clock::REAL, SOON);
    while !pair.own[1].is_quiet() {
        wait.pause().expect("it leaves");
    }
    // Told of the death behind the last look for frames.
    pair.own[0].gone[1].store(true, Ordering::Release);
    pair.own[0].lose().expect("it is looked at");
    pair.finish("the message", 0, token);
    assert_eq!(pair.read(0, 2 * BYTES, 9), sent[..9]);
}

/// Whether a receive from anybody has anybody left is for each communicator to say.
#[test]
fn a_receive_from_anybody_fails_when_all_others_of_its_communicator_are_dead() {
    let network = SimNetwork::builder().nodes(3).build().expect("a network");
    let nodes: Vec<Node> = (0..3).map(|i| Node::new(network.device(i).expect("a node"))).collect();
    let mut own = Own::local(&nodes).expect("carriers").remove(0);
    let memory = Arc::new(Processor::cpu().alloc(64).expect("memory"));
    own.attach(0, memory.clone()).expect("attached");
    own.groups.push(Some(Group { context: 10, rank: 0, members: vec![0, 1], collectives: 0, freed: None }));
    let any = |comm: usize| {
        let at = Span { index: 0, memory: memory.clone(), offset: 0, len: 8, shape: None };
        Operation::Recv { at, of: OF, from: None, tag: None, comm }
    };
    let [world, alone, pair] = [0, 1, 2].map(|comm| own.start(&any(comm)).expect("it starts"));
    own.gone[1].store(true, Ordering::Release);
    own.progress();
    assert_eq!(own.test(pair), Some(Err(Class::PROC_FAILED)));
    assert_eq!(own.start(&any(2)), Err(Class::PROC_FAILED));
    assert_eq!((own.test(world), own.test(alone)), (None, None));
    own.gone[2].store(true, Ordering::Release);
    own.progress();
    assert_eq!(own.test(world), Some(Err(Class::PROC_FAILED)));
    assert_eq!(own.test(alone), None, "the process itself may send yet");
    own.start(&any(1)).expect("so may it for another one");
}

#[test]
fn memory_that_cannot_be_registered_is_not_attached() {
    let network = SimNetwork::builder().nodes(1).build().expect("a network");
    let own = Own::local(&[Node::new(network.device(0).expect("a node"))]).expect("a carrier").remove(0);
    own.net.port().device().close().expect("it closes");
    let processor = Processor::cpu();
    let gmpi = Gmpi::with(&processor, &Config::default(), move || Ok(Box::new(own))).expect("it opens");
    let memory = Arc::new(processor.alloc(64).expect("memory"));
    for _ in 0..2 {
        let refused = gmpi.attach(&memory).expect_err("it has no port");
        assert!(!matches!(refused, GmpiError::Overlap { .. }), "{refused}");
    }
}
