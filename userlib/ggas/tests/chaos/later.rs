//! What a process that stood still had on its way to one that died meanwhile reaches no later owner of the VPID.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ggas::{
    DeviceKind, HostBuffer, Kind, LockedMemory, Match, Network, Port, PortConfig, Region, Spec, VeloConfig,
    VeloPort,
};

use crate::SOON;
use crate::board::{Board, State};
use crate::stage::{Actor, Stage, plays, until, until_step};

const BYTES: usize = 64 << 10;
const FILL: u8 = 0xa5;
const PUTS: usize = 20;
/// Class of a notification that says that all before it has come.
const LAST: u8 = 9;

fn step(board: &Board, me: u32, step: u64) {
    board.entry(me).epoch.store(step, SeqCst);
}

fn join() -> Network {
    let builder = Network::builder().device(DeviceKind::Sim).locked_memory(LockedMemory::Unlimited);
    builder.join().unwrap()
}

/// A region in the one place where all of these processes have theirs; says where it is, and that its owner is there.
fn appear(board: &Board, me: u32, port: &Port) -> Region {
    let region = port.register(HostBuffer::zeroed(BYTES).unwrap()).unwrap();
    region.write(0, &[FILL; BYTES]).unwrap();
    let entry = board.entry(me);
    entry.set_address(port.address());
    entry.inbox.store(region.nla(0).unwrap(), SeqCst);
    entry.set_state(State::Here);
    region
}

fn open(network: &Network) -> Port {
    network.node().open_port(PortConfig::default()).unwrap()
}

/// Member 0 is there, and does nothing by itself.
fn idle(board: &'static Board, me: u32) {
    let network = join();
    let port = open(&network);
    let _region = appear(board, me, &port);
    until("an end", || board.entry(me).asked_to_leave.load(SeqCst) != 0);
}

/// Takes the VPID of a member of this node that is dead, and gets nothing that was meant for it.
fn successor(board: &'static Board, me: u32, of: u32) {
    let network = join();
    let mut port = None;
    until("the VPID of the dead", || {
        let next = open(&network);
        let is_it = next.address() == board.address(of);
        port = Some(next).filter(|_| is_it);
        is_it
    });
    let port = port.expect("it was found");
    let region = appear(board, me, &port);
    assert_eq!(board.entry(me).inbox.load(SeqCst), board.entry(of).inbox.load(SeqCst), "the same place");
    let first = port.wait(SOON).unwrap();
    let mut bytes = vec![0; BYTES];
    region.read(0, &mut bytes).unwrap();
    let written = bytes.iter().filter(|byte| **byte != FILL).count();
    assert_eq!(written, 0, "bytes were written for one who is dead; {first}");
    assert_eq!(first.class(), LAST, "{first}");
}

/// Posts to one that stands still, then stands still itself.
fn sender(board: &'static Board, me: u32) {
    let network = join();
    let port = open(&network);
    let region = appear(board, me, &port);
    region.write(0, &[7; BYTES]).unwrap();
    let (to, nla) = (board.address(0), board.entry(0).inbox.load(SeqCst));
    for put in 0..PUTS {
        let (at, len) = (put * 100, if put % 4 == 3 { 2000 } else { 40 });
        port.connect(to).put(&region, at, len, nla + at as u64, Spec::COMPLETER | Spec::REQUESTER).unwrap();
    }
    step(board, me, 1);
    until("the other to be dead", || board.state(0) == State::Gone);
    let of_puts = Match::any().kind(Kind::Requester).puts();
    for _ in 0..PUTS {
        port.wait_match(&of_puts, SOON).unwrap();
    }
    // To whoever has the VPID now.
    port.connect(to).notification_put(LAST, 0, Spec::COMPLETER).unwrap();
    until("an end", || board.entry(me).asked_to_leave.load(SeqCst) != 0);
}

/// The sender stops while its target does; that is killed, another gets its VPID, and then the sender goes on.
fn a_stopped_sender(test: &str) {
    let stage = Stage::new(test, 1);
    let board = stage.board;
    let mut target = stage.start("idle", 0, 1);
    until("it is there", || board.state(0) == State::Here);
    target.stop();
    let sender = stage.start("sender", 1, 0);
    until_step(board, 1, 1);
    sender.stop();
    target.kill(board);
    let later = stage.start("successor", 2, 1);
    until("another has its VPID", || board.state(2) == State::Here);
    sender.signal(libc::SIGCONT);
    succeeds(later);
    board.entry(1).asked_to_leave.store(1, SeqCst);
    succeeds(sender);
    stage.end();
}

#[test]
fn what_a_stopped_sender_had_posted_reaches_no_later_owner() {
    let play = |role: &str, board, me| match role {
        "idle" => idle(board, me),
        "sender" => sender(board, me),
        _ => successor(board, me, 0),
    };
    if plays(play) {
        return;
    }
    a_stopped_sender("later::what_a_stopped_sender_had_posted_reaches_no_later_owner");
}

/// Serves a get of one that is dead, as soon as it goes on.
fn server(board: &'static Board, me: u32) {
    let network = join();
    let port = open(&network);
    let region = appear(board, me, &port);
    region.write(0, &[7; BYTES]).unwrap();
    for _ in 0..2 {
        port.wait_match(&Match::any().kind(Kind::Responder), SOON).unwrap();
    }
    let to = board.address(1);
    port.connect(to).notification_put(LAST, 0, Spec::COMPLETER).unwrap();
    until("an end", || board.entry(me).asked_to_leave.load(SeqCst) != 0);
}

/// Gets once from one that runs, and once from the same that stands still.
fn getter(board: &'static Board, me: u32) {
    let network = join();
    let port = open(&network);
    let region = appear(board, me, &port);
    let (of, nla) = (board.address(0), board.entry(0).inbox.load(SeqCst));
    let get = || port.connect(of).get(&region, 0, 5000, nla, Spec::COMPLETER | Spec::RESPONDER).unwrap();
    get();
    port.wait(SOON).unwrap();
    step(board, me, 1);
    until("the other to stand still", || board.entry(me).asked_to_leave.load(SeqCst) != 0);
    get();
    port.drain(SOON).unwrap();
    step(board, me, 2);
    std::thread::sleep(Duration::MAX);
}

#[test]
fn an_answer_for_one_that_died_reaches_no_later_owner() {
    let play = |role: &str, board, me| match role {
        "server" => server(board, me),
        "getter" => getter(board, me),
        _ => successor(board, me, 1),
    };
    if plays(play) {
        return;
    }
    let stage = Stage::new("later::an_answer_for_one_that_died_reaches_no_later_owner", 1);
    let board = stage.board;
    let server = stage.start("server", 0, 1);
    until("it is there", || board.state(0) == State::Here);
    let mut getter = stage.start("getter", 1, 0);
    until_step(board, 1, 1);
    server.stop();
    board.entry(1).asked_to_leave.store(1, SeqCst);
    until_step(board, 1, 2);
    getter.kill(board);
    let later = stage.start("successor", 2, 0);
    until("another has its VPID", || board.state(2) == State::Here);
    server.signal(libc::SIGCONT);
    succeeds(later);
    board.entry(0).asked_to_leave.store(1, SeqCst);
    succeeds(server);
    stage.end();
}

/// Sends messages to one that stands still until no more are taken, then stands still itself.
fn velo_sender(board: &'static Board, me: u32) {
    let network = join();
    let port = VeloPort::open(network.node().device(), VeloConfig::default()).unwrap();
    let to = port.connect(board.address(0));
    while to.try_send(&[7; 40], 0).is_ok() {}
    step(board, me, 1);
    until("the other to be dead", || board.state(0) == State::Gone);
    // To whoever has the VPID now.
    until("room", || to.send(&[], LAST).is_ok());
    until("an end", || board.entry(me).asked_to_leave.load(SeqCst) != 0);
}

/// A mailbox: of one that does nothing, or, at its VPID, of one that gets nothing that was meant for it.
fn mailbox(board: &'static Board, me: u32, of: Option<u32>) {
    let network = join();
    let mut mailbox = None;
    until("a VPID", || {
        let port = VeloPort::open(network.node().device(), VeloConfig::default()).unwrap();
        let is_it = of.is_none_or(|of| port.address() == board.address(of));
        mailbox = Some(port).filter(|_| is_it);
        is_it
    });
    let port = mailbox.expect("it was found");
    board.entry(me).set_address(port.address());
    board.entry(me).set_state(State::Here);
    match of {
        Some(_) => assert_eq!(port.wait(SOON).unwrap().tag(), LAST, "a message to one who is dead"),
        None => until("an end", || board.entry(me).asked_to_leave.load(SeqCst) != 0),
    }
}

#[test]
fn messages_of_a_stopped_sender_reach_no_later_owner() {
    let play = |role: &str, board, me| match role {
        "idle" => mailbox(board, me, None),
        "sender" => velo_sender(board, me),
        _ => mailbox(board, me, Some(0)),
    };
    if plays(play) {
        return;
    }
    a_stopped_sender("later::messages_of_a_stopped_sender_reach_no_later_owner");
}

fn succeeds(mut actor: Actor) {
    let status = actor.child.wait().expect("our child");
    assert!(status.success(), "member {}: {status}", actor.member);
}
