//! Messages from kernel to kernel, without the daemon.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use ggas::{Node, Window};
use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, Config, Direct, GmpiError};
use ggas_selftest::args::*;

use crate::world::*;

/// Small, so that long messages are many parts.
pub const SMALL: Direct = Direct { slots: 2, slot_bytes: 1024, offset: 64 };

/// A direct communicator of all ranks.
pub fn direct(world: &World, ports: u32, mailboxes: Direct) -> u64 {
    direct_with(world, ports, mailboxes, 0).0
}

/// The same, and its window with so many bytes of each part behind the mailboxes.
pub fn direct_with(world: &World, ports: u32, direct: Direct, more: usize) -> (u64, Arc<Window>) {
    let nodes: Vec<Node> = (0..world.ranks.len()).map(|rank| world.node(rank)).collect();
    let members: Vec<_> =
        nodes.iter().zip(&world.ranks).map(|(node, rank)| (node, &rank.processor)).collect();
    let bytes = direct.end(ports, members.len()).expect("a window's worth");
    let window = Arc::new(Window::new(&members, bytes + more).expect("a window"));
    let comms = world.all(|gmpi, _| gmpi.direct(Comm::WORLD, &window, &direct).expect("all came"));
    assert!(comms.iter().all(|comm| *comm == comms[0]), "one handle serves all");
    (comms[0].0, window)
}

/// Keeps the daemons of all ranks from doing anything while `work` runs.
pub fn without_daemons<T>(world: &World, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let mut held = Vec::new();
        for rank in &world.ranks {
            let (release, hold) = channel::<()>();
            let (says, hears) = channel();
            scope.spawn(move || {
                let wait = move |_: &mut dyn ggas_gmpi::carrier::Carrier| {
                    let _ = says.send(());
                    let _ = hold.recv();
                    Ok(())
                };
                rank.gmpi.by_carrier("a test that holds the daemon", SOON, wait)
            });
            hears.recv().expect("the daemon is held");
            held.push(release);
        }
        work()
    })
}

/// `count` longs there and back, without the daemons.
fn there_and_back(world: &World, comm: u64, count: usize, scope: u32, threads: u32) {
    let ranks = &world.ranks;
    let half = BYTES / 2;
    let message = |rank: usize, at: usize, tag: u64| {
        [ranks[rank].at(at), count as u64, LONG, 1 - rank as u64, tag, comm]
    };
    let first = Script::default()
        .call(SELFTEST_GMPI_FILL, &[ranks[0].at(0), count as u64, 1000])
        .call(GMPI_CALL_ISEND, &message(0, 0, 7))
        .request(0)
        .call(GMPI_CALL_IRECV, &message(0, half, 8))
        .request(1)
        .call(GMPI_CALL_WAITALL, &[2])
        .request(0)
        .status(0)
        .scope(scope);
    let any = [ranks[1].at(half), count as u64, LONG, 0, ANY, comm];
    let second = Script::default()
        .call(GMPI_CALL_RECV, &any)
        .status(0)
        .call(GMPI_CALL_SEND, &message(1, half, 8))
        .call(SELFTEST_GMPI_COUNT, &[0, LONG])
        .scope(scope);
    let results = without_daemons(world, || world.succeed_in(vec![first, second], threads));
    let came = ranks[0].memory.read_u64s(half, count).expect("in range");
    assert!(came.iter().zip(1000..).all(|(came, sent)| *came == sent), "{count} longs");
    let bytes = 8 * count as u64;
    assert_eq!(results[0].status(1), (1, 8, 0, bytes));
    assert_eq!(results[1].status(0), (0, 7, 0, bytes));
    assert_eq!(results[1].value(2), count as u32);
    world.ranks.iter().for_each(|rank| rank.gmpi.check().expect("nothing is open"));
}

#[test]
fn messages_of_all_lengths_go_from_kernel_to_kernel_while_the_daemons_do_nothing() {
    // In groups of one part, of two, and of parts that are longer than most messages.
    for mailboxes in [SMALL, Direct { slots: 8, ..SMALL }, Direct::default()] {
        let world = World::new(2, &config());
        let comm = direct(&world, 1, mailboxes);
        // A leader alone, with a few others that copy, with many.
        for threads in [20, 40, 160] {
            for count in [0, 1, 5, 32, 33, 128, 129, 5000, 40_000] {
                there_and_back(&world, comm, count, SELFTEST_PUT_BLOCK, threads);
            }
        }
        for scope in [SELFTEST_PUT_THREAD, SELFTEST_PUT_WARP] {
            for count in [1, 100, 5000] {
                there_and_back(&world, comm, count, scope, 40);
            }
        }
    }
}

#[test]
fn long_messages_go_to_their_place_while_the_receiver_does_something_else() {
    let world = World::new(2, &config());
    let end = SMALL.end(1, 2).expect("a window's worth");
    let (comm, window) = direct_with(&world, 1, SMALL, BYTES);
    let member = window.member(1).expect("it is one");
    let (count, part) = (30_000u64, member.pointer_of(1).expect("it is mapped"));
    let place = |offset: usize| part + (end + offset) as u64;
    // At an odd address, too; shorter and longer ones than the receive has room for; and one of another tag.
    let rounds = [
        (0, count, 7, GMPI_SUCCESS),
        (3, count, ANY, GMPI_SUCCESS),
        (8, count + 100, 7, GMPI_SUCCESS),
        (16, count - 100, 7, GMPI_ERR_TRUNCATE),
    ];
    for (at, room, tag, error) in rounds {
        window.write(1, end, &[0xee; BYTES]).expect("in range");
        let ready = |rank: usize| [world.ranks[rank].at(0), 1, LONG, 1 - rank as u64, 1, comm];
        // By the daemon, so that nothing goes on here meanwhile.
        let over = |rank: usize| [world.ranks[rank].at(8), 1, LONG, 1 - rank as u64, 2, WORLD];
        let sent = [world.ranks[0].at(16), count, LONG, 1, 7, comm];
        let sends = Script::default()
            .call(SELFTEST_GMPI_FILL, &[world.ranks[0].at(16), count, 1000])
            .call(GMPI_CALL_RECV, &ready(0))
            .call(GMPI_CALL_SEND, &sent)
            .call(GMPI_CALL_SEND, &over(0));
        let receives = Script::default()
            .call(GMPI_CALL_IRECV, &[place(at), room, LONG, 0, tag, comm])
            .request(0)
            .call(GMPI_CALL_SEND, &ready(1))
            .call(GMPI_CALL_RECV, &over(1))
            .call(GMPI_CALL_WAIT, &[])
            .request(0)
            .status(0);
        let results = world.run(vec![sends, receives]);
        assert_eq!(results[0].errors(0), [GMPI_SUCCESS; 4], "the send is over before the receiver looks");
        assert_eq!(results[1].errors(0), [GMPI_SUCCESS, GMPI_SUCCESS, GMPI_SUCCESS, error]);
        let fits = 8 * count.min(room) as usize;
        assert_eq!(results[1].status(0), (0, 7, error, fits as u64));
        let mut came = vec![0; BYTES];
        window.read(1, end, &mut came).expect("in range");
        let longs =
            came[at..at + fits].chunks_exact(8).map(|long| u64::from_le_bytes(long.try_into().expect("8")));
        assert!(longs.zip(1000..).all(|(came, sent)| came == sent), "{count} longs, room for {room}");
        let others = came[..at].iter().chain(&came[at + fits..]);
        assert!(others.copied().all(|byte| byte == 0xee), "room for {room}: others");
    }
}

#[test]
fn a_long_message_of_another_tag_leaves_the_place_alone() {
    let world = World::new(2, &config());
    let end = Direct::default().end(1, 2).expect("a window's worth");
    let (comm, window) = direct_with(&world, 1, Direct::default(), BYTES);
    let place = window.member(1).expect("it is one").pointer_of(1).expect("it is mapped") + end as u64;
    window.write(1, end, &[0xee; BYTES]).expect("in range");
    let ready = |rank: usize| [world.ranks[rank].at(0), 1, LONG, 1 - rank as u64, 1, comm];
    let sends = Script::default()
        .call(GMPI_CALL_RECV, &ready(0))
        .call(GMPI_CALL_SEND, &[world.ranks[0].at(16), 20_000, LONG, 1, 7, comm]);
    let receives = Script::default()
        .call(GMPI_CALL_IRECV, &[place, 20_000, LONG, 0, 8, comm])
        .request(0)
        .call(GMPI_CALL_SEND, &ready(1))
        .call(GMPI_CALL_WAIT, &[])
        .request(0);
    let results = world.run(vec![sends, receives]);
    assert_eq!(results[1].errors(0), [GMPI_SUCCESS, GMPI_SUCCESS, GMPI_ERR_TAG]);
    let mut came = vec![0; BYTES];
    window.read(1, end, &mut came).expect("in range");
    assert!(came.iter().all(|byte| *byte == 0xee), "nothing was written");
}

#[test]
fn bytes_at_any_address_come_whole() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    let byte = u64::from(GMPI_BYTE);
    for (count, from, to) in [(1, 3, 5), (13, 1, 2), (255, 7, 0), (257, 3, 9), (3001, 5, 1)] {
        let data: Vec<u8> = (0..count).map(|i| (i * 7 + 3) as u8).collect();
        world.ranks[0].memory.write(from, &data).expect("in range");
        world.ranks[1].memory.write(0, &[0xee; 4096]).expect("in range");
        let send = [world.ranks[0].at(from), count as u64, byte, 1, 0, comm];
        let receive = [world.ranks[1].at(to), count as u64, byte, 0, 0, comm];
        world.succeed(vec![
            Script::default().call(GMPI_CALL_SEND, &send),
            Script::default().call(GMPI_CALL_RECV, &receive),
        ]);
        let mut came = vec![0; 4096];
        world.ranks[1].memory.read(0, &mut came).expect("in range");
        assert_eq!(came[to..to + count], data, "{count} bytes");
        assert!(
            came[..to].iter().chain(&came[to + count..]).all(|byte| *byte == 0xee),
            "{count} bytes: others"
        );
    }
}

#[test]
fn what_direct_communicators_do_not_have_is_refused_and_all_else_is_the_daemons() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    let at = |rank: usize| world.ranks[rank].at(0);
    let to = |rank: usize, count: u64, peer: u64, tag: u64| [at(rank), count, LONG, peer, tag, comm];
    let refused = Script::default()
        .call(GMPI_CALL_RECV, &to(0, 1, ANY, 0))
        .call(GMPI_CALL_PROBE, &[1, 0, comm])
        .call(GMPI_CALL_IPROBE, &[1, 0, comm])
        .call(GMPI_CALL_SEND_INIT, &to(0, 1, 1, 0))
        .call(GMPI_CALL_SEND, &to(0, 1, 2, 0))
        .call(GMPI_CALL_SEND, &to(0, u64::from(u32::MAX), 1, 0))
        .call(GMPI_CALL_SEND, &to(0, 1, 1, ANY))
        .call(GMPI_CALL_RECV, &to(0, 1, -2i64 as u64, 0));
    let errors = world.run(vec![refused, Script::default()])[0].errors(0);
    let [rank, call, count, tag] = [GMPI_ERR_RANK, GMPI_ERR_CALL, GMPI_ERR_COUNT, GMPI_ERR_TAG];
    assert_eq!(errors, [rank, call, call, call, rank, count, tag, 0]);
    // Too long, and of another tag: the message is gone, and those behind it come.
    let first = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at(0), 600, 5])
        .call(GMPI_CALL_SEND, &to(0, 600, 1, 1))
        .call(GMPI_CALL_SEND, &to(0, 600, 1, 2))
        .call(GMPI_CALL_SEND, &to(0, 1, 1, 3))
        .call(GMPI_CALL_BARRIER, &[comm]);
    let second = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at(1), 600, 0])
        .call(GMPI_CALL_RECV, &to(1, 200, 0, 1))
        .call(GMPI_CALL_RECV, &to(1, 600, 0, 9))
        .call(GMPI_CALL_RECV, &to(1, 1, 0, 3))
        .call(GMPI_CALL_BARRIER, &[comm]);
    let results = world.run(vec![first, second]);
    assert_eq!(results[0].errors(0), [0; 5]);
    assert_eq!(results[1].errors(0), [0, GMPI_ERR_TRUNCATE, GMPI_ERR_TAG, 0, 0]);
    let came = world.ranks[1].memory.read_u64s(0, 201).expect("in range");
    assert!(came[..200].iter().copied().eq(5..205) && came[200] == 200, "{came:?}");
}

#[test]
fn waits_by_test_and_of_both_kinds_together() {
    let world = World::new(2, &Config { ports: 2, ..config() });
    let comm = direct(&world, 2, SMALL);
    let at = |rank: usize, block: usize, i: usize| world.ranks[rank].at(65_536 * block + 8 * i);
    // Block 1 of a member talks to block 1 of the other.
    let script = |rank: usize, block: usize| {
        let peer = 1 - rank as u64;
        let call =
            |i: usize, comm: u64| [at(rank, block, i), 1, LONG, peer, i as u64 % 4 + 10 * block as u64, comm];
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[at(rank, block, 0), 4, 1000 * rank as u64 + 100 * block as u64])
            .call(GMPI_CALL_IRECV, &call(4, comm))
            .request(0)
            .call(GMPI_CALL_IRECV, &call(5, WORLD))
            .request(1)
            .call(GMPI_CALL_ISEND, &call(0, comm))
            .request(2)
            .call(GMPI_CALL_ISEND, &call(1, WORLD))
            .request(3)
            .call(GMPI_CALL_WAITALL, &[4])
            .request(0)
            .status(0)
            .call(GMPI_CALL_ISEND, &call(2, comm))
            .request(1)
            .call(GMPI_CALL_IRECV, &call(6, comm))
            .request(0)
            .call(SELFTEST_GMPI_TEST_UNTIL, &[])
            .request(0)
            .status(4)
            .call(SELFTEST_GMPI_TEST_UNTIL, &[])
            .request(1)
    };
    let scripts = [0, 1].map(|rank| vec![script(rank, 0), script(rank, 1)]);
    let results = world.run_blocks(scripts.into(), 64);
    for (rank, result) in results.iter().enumerate() {
        for block in 0..2 {
            assert!(result.errors(block).iter().all(|error| *error == 0), "{:?}", result.errors(block));
            let came = world.ranks[rank].memory.read_u64s(65_536 * block + 32, 3).expect("in range");
            let other = 1000 * (1 - rank as u64) + 100 * block as u64;
            assert_eq!(came, [other, other + 1, other + 2]);
        }
        let peer = 1 - rank as i32;
        assert_eq!([0, 1, 4].map(|i| result.status(i)), [0, 1, 2].map(|tag| (peer, tag, 0, 8)));
    }
}

#[test]
fn a_member_that_never_sends_ends_a_wait_and_says_who_waited() {
    let world = World::new(2, &Config { timeout: Duration::from_millis(1), ..config() });
    let comm = direct(&world, 1, SMALL);
    let receive = [world.ranks[0].at(0), 1, LONG, 1, 0, comm];
    let results = world.run(vec![Script::default().call(GMPI_CALL_RECV, &receive), Script::default()]);
    assert_eq!(results[0].errors(0), [GMPI_ERR_TIMEOUT]);
    let error = world.ranks[0].gmpi.check().expect_err("it was reported").to_string();
    assert!(error.contains("node 0") && error.contains("node 1"), "{error}");
}

#[test]
fn a_kernel_that_ends_too_early_is_told_and_the_next_one_goes_on() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    let count = 5000u64;
    let message = |rank: usize| [world.ranks[rank].at(0), count, LONG, 1 - rank as u64, 0, comm];
    let begun = Script::default()
        .call(SELFTEST_GMPI_FILL, &[world.ranks[0].at(0), count, 7])
        .call(GMPI_CALL_ISEND, &message(0));
    world.run(vec![begun, Script::default()]);
    let error = world.ranks[0].gmpi.check();
    let told = matches!(error, Err(GmpiError::OpenMessages { count: 1, what: "send", port: 0, peer: 1 }));
    assert!(told, "{error:?}");
    // Whatever waits there goes on with it, too.
    let empty = |rank: usize| [world.ranks[rank].at(0), 0, LONG, 1 - rank as u64, 0, comm];
    let first = Script::default().call(GMPI_CALL_SEND, &empty(0));
    let second = Script::default().call(GMPI_CALL_RECV, &message(1)).call(GMPI_CALL_RECV, &empty(1));
    world.succeed(vec![first, second]);
    let came = world.ranks[1].memory.read_u64s(0, count as usize).expect("in range");
    assert!(came.into_iter().eq(7..7 + count), "all came");
    world.ranks.iter().for_each(|rank| rank.gmpi.check().expect("nothing is open"));
}

#[test]
fn windows_that_do_not_fit_are_refused() {
    let world = World::new(2, &config());
    let nodes = [world.node(0), world.node(1)];
    let member = |rank: usize| (&nodes[rank], &world.ranks[rank].processor);
    let small = Arc::new(Window::new(&[member(0), member(1)], 4096).expect("a window"));
    let alone = Arc::new(Window::new(&[member(0)], 1 << 20).expect("a window"));
    for window in [small, alone] {
        let refused = world.ranks[0].gmpi.direct(Comm::WORLD, &window, &Direct::default());
        assert!(matches!(refused, Err(GmpiError::Window(_))), "{refused:?}");
    }
    let comm = direct(&world, 1, SMALL);
    let window = Arc::new(Window::new(&[member(0), member(1)], 1 << 20).expect("a window"));
    let second = world.ranks[0].gmpi.direct(Comm::WORLD, &window, &SMALL);
    assert!(matches!(second, Err(GmpiError::Config { .. })), "{second:?}");
    // Behind its end kernels ask the daemon, which does not know it any more.
    world.ranks[0].gmpi.free(Comm(comm)).expect("it was there");
    let send = Script::default().call(GMPI_CALL_SEND, &[world.ranks[0].at(0), 1, LONG, 1, 0, comm]);
    assert_eq!(world.run(vec![send, Script::default()])[0].errors(0), [GMPI_ERR_COMM]);
}
