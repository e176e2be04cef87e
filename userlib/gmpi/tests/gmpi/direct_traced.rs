//! What kernels send each other without the daemon is in the trace that a mapping reads.

use std::path::Path;
use std::sync::Arc;

use ggas::Window;
use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, Direct};
use ggas_mapping::Pattern;

use crate::direct::{SMALL, direct_with, without_daemons};
use crate::world::*;

/// Who sent how much to whom by `run`, which is told whether kernels do anything: the set-up has messages of its own.
fn beyond_setup(size: usize, run: impl Fn(&Path, bool)) -> Vec<(usize, usize, u64)> {
    let [all, setup] = [true, false].map(|is_busy| {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = folder.path().join("run");
        run(&prefix, is_busy);
        Pattern::traced(&prefix).expect("a file for each rank")
    });
    assert_eq!(all.ranks(), size);
    let sent = all.messages().map(|(from, to, bytes)| (from, to, bytes - setup.bytes(from, to)));
    sent.filter(|(_, _, bytes)| *bytes > 0).collect()
}

/// The same of `size` ranks with these scripts, by blocks of `threads`.
fn traced(
    (size, threads): (usize, u32),
    mailboxes: Direct,
    script: impl Fn(&World, &Window, u64, usize) -> Script,
) -> Vec<(usize, usize, u64)> {
    beyond_setup(size, |prefix, is_busy| {
        let world = World::with(size, &config(), |own| own.traced(prefix));
        let (comm, window) = direct_with(&world, 1, mailboxes, BYTES);
        let script = |rank| if is_busy { script(&world, &window, comm, rank) } else { Script::default() };
        let scripts = (0..size).map(script).collect();
        without_daemons(&world, || world.succeed_in(scripts, threads));
    })
}

/// From rank 0 to rank 1 by Send and Recv, of so many longs each in a process's memory.
fn messages(at: u64, comm: u64, rank: usize, counts: &[usize]) -> Script {
    counts.iter().fold(Script::default(), |script, count| match rank {
        0 => script.call(GMPI_CALL_SEND, &[at, *count as u64, LONG, 1, 5, comm]),
        _ => script.call(GMPI_CALL_RECV, &[at, *count as u64, LONG, 0, 5, comm]),
    })
}

#[test]
fn messages_of_each_way_count_once() {
    // In lines by the leader alone, and by all; in parts, with a last one that is short; nothing at all.
    for (threads, mailboxes) in [(32, Direct::default()), (128, Direct::default()), (128, SMALL)] {
        let counts = [1, 30, 700, 9001, 0, 3];
        let sent = traced((2, threads), mailboxes, |world, _, comm, rank| {
            messages(world.ranks[rank].at(0), comm, rank, &counts)
        });
        let bytes = 8 * counts.iter().sum::<usize>() as u64;
        assert_eq!(sent, [(0, 1, bytes)], "{threads} threads, {mailboxes:?}");
    }
}

/// Without a copy at the receiver: the send begins once it knows the place.
#[test]
fn what_goes_to_its_place_counts() {
    let end = SMALL.end(1, 2).expect("a window's worth");
    let sent = traced((2, 64), SMALL, |world, window, comm, rank| {
        let at = |offset| world.ranks[rank].at(offset);
        let word = |other: u64| [at(0), 1, LONG, other, 1, comm];
        if rank == 0 {
            let receives = Script::default().call(GMPI_CALL_RECV, &word(1));
            return receives.call(GMPI_CALL_SEND, &[at(64), 8000, LONG, 1, 7, comm]);
        }
        let place = window.member(1).and_then(|member| member.pointer_of(1)).expect("it is mapped");
        Script::default()
            .call(GMPI_CALL_IRECV, &[place + end as u64, 8000, LONG, 0, 7, comm])
            .request(0)
            .call(GMPI_CALL_SEND, &word(0))
            .call(GMPI_CALL_WAIT, &[])
            .request(0)
    });
    assert_eq!(sent, [(0, 1, 64_000), (1, 0, 8)]);
}

#[test]
fn of_collectives_what_goes_to_each_member_counts() {
    let (gather, scatter, sum) = (GMPI_CALL_GATHER, GMPI_CALL_SCATTER, GMPI_CALL_ALLREDUCE);
    let sent = traced((3, 64), SMALL, |world, _, comm, rank| {
        let at = |offset| world.ranks[rank].at(offset);
        let blocks = |count: u64, root: u64| [at(0), count, LONG, at(4096), count, LONG, root, comm];
        let sums = |count: u64| [at(0), at(1024), count, LONG, GMPI_SUM.into(), comm];
        Script::default()
            .call(sum, &sums(1))
            .call(sum, &sums(20))
            .call(GMPI_CALL_BARRIER, &[comm])
            .call(gather, &blocks(5, 1))
            .call(scatter, &blocks(7, 2))
    });
    let all = 8 * 21;
    let (to_root, from_root) = (all + 40, all + 56);
    let expected =
        [(0, 1, to_root), (0, 2, all), (1, 0, all), (1, 2, all), (2, 0, from_root), (2, 1, from_root + 40)];
    assert_eq!(sent, expected);
}

/// Of members that are in another order than in the world; at its end, and once.
#[test]
fn a_communicator_that_is_freed_is_counted_by_ranks_of_the_world() {
    let sent = beyond_setup(3, |prefix, is_busy| {
        let world = World::with(3, &config(), |own| own.traced(prefix));
        let pairs = world.all(|gmpi, rank| {
            let pair = gmpi.split(Comm::WORLD, (rank > 0).then_some(0), -(rank as i32)).expect("all came");
            pair.map(|pair| (gmpi.place(pair).expect("it is there").rank, pair))
        });
        assert_eq!([1, 2].map(|rank: usize| pairs[rank].expect("in it").0), [1, 0], "turned around");
        let nodes = [2, 1].map(|rank| world.node(rank));
        let members = [(&nodes[0], &world.ranks[2].processor), (&nodes[1], &world.ranks[1].processor)];
        let bytes = SMALL.end(1, 2).expect("a window's worth");
        let window = Arc::new(Window::new(&members, bytes).expect("a window"));
        let comms = world.all(|gmpi, rank| {
            pairs[rank].map(|(_, pair)| gmpi.direct(pair, &window, &SMALL).expect("all came"))
        });
        let comm = comms[1].expect("in it").0;
        if is_busy {
            // Rank 2 of the world is 0 there.
            let [first, second] =
                [2, 1].map(|rank: usize| messages(world.ranks[rank].at(0), comm, 2 - rank, &[10]));
            world.succeed(vec![Script::default(), second, first]);
        }
        for rank in [1, 2] {
            world.ranks[rank].gmpi.free(Comm(comm)).expect("it was there");
        }
    });
    assert_eq!(sent, [(2, 1, 80)]);
}
