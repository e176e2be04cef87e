//! Long messages that MPI libraries pass in pieces (`GGAS_GMPI_PIECE`).

use std::time::Instant;

use ggas::kernels::Processor;
use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, Gmpi, GmpiError, Staging};

use crate::calls::everything;
use crate::programs::programs;
use crate::start::{Here, by_mpi, by_mpi_with, part};
use crate::world::{ANY, BYTES, SOON, Script, WORLD, config};

pub const PIECE: usize = 4096;
pub const SETTING: &str = "GGAS_GMPI_PIECE";
const OF_BYTES: u64 = GMPI_BYTE as u64;
/// Bytes that heads have, and messages beside them.
pub const HEAD: usize = 61;

/// Runs a test's part with pieces, of memory that is staged and of memory that is not.
pub fn both_ways(name: &str) {
    for part in ["plain", "staged"] {
        by_mpi_with(name, part, &[(SETTING, &PIECE.to_string())]);
    }
}

/// Opens as the part says.
pub fn open(part: &str) -> Here {
    let staging = if part == "staged" { Staging::Always } else { Staging::Needed };
    let gmpi = Gmpi::mpi(&Processor::cpu(), &config(), staging).expect("all came");
    Here::with(gmpi, Processor::cpu())
}

/// What a message of so many bytes has, from so far on.
pub fn pattern(first: usize, bytes: usize) -> Vec<u8> {
    (first..first + bytes).map(|i| (i * 7 + i / 256) as u8).collect()
}

#[test]
fn everything_goes_in_pieces() {
    let Some(part) = part() else { return both_ways("pieces::everything_goes_in_pieces") };
    let here = open(&part);
    everything(&here);
    here.gmpi.close().expect("all came");
}

#[test]
fn random_programs_go_in_pieces() {
    let Some(part) = part() else {
        let name = "pieces::random_programs_go_in_pieces";
        // Most messages of programs are short.
        ["plain", "staged"].into_iter().for_each(|part| by_mpi_with(name, part, &[(SETTING, "256")]));
        return;
    };
    let here = open(&part);
    programs(&here, 30);
    here.gmpi.close().expect("all came");
}

#[test]
fn messages_as_long_as_heads_and_pieces_arrive() {
    let Some(part) = part() else { return both_ways("pieces::messages_as_long_as_heads_and_pieces_arrive") };
    let here = open(&part);
    let (rank, half) = (u64::from(here.gmpi.rank()), BYTES / 2);
    let sizes =
        [0, 1, HEAD - 1, HEAD, HEAD + 1, 224, 225, PIECE - 1, PIECE, PIECE + 1, 9 * PIECE, 40 * PIECE + 5];
    for (other, bytes, more) in
        sizes.into_iter().flat_map(|n| [(rank, n, 0), (1 - rank, n, 0), (1 - rank, n, 300)])
    {
        here.memory.write(0, &pattern(bytes, bytes)).expect("in range");
        here.memory.write(half, &vec![9; bytes + 301]).expect("in range");
        let script = Script::default()
            .call(GMPI_CALL_IRECV, &[here.at(half), (bytes + more) as u64, OF_BYTES, other, 3, WORLD])
            .request(0)
            .call(GMPI_CALL_ISEND, &[here.at(0), bytes as u64, OF_BYTES, other, 3, WORLD])
            .request(1)
            .call(GMPI_CALL_WAITALL, &[2])
            .request(0)
            .status(0);
        let results = here.succeed(script);
        assert_eq!(results.status(0), (other as i32, 3, 0, bytes as u64));
        let mut came = vec![0; bytes + 301];
        here.memory.read(half, &mut came).expect("in range");
        assert!(came[..bytes] == pattern(bytes, bytes), "{bytes} bytes");
        assert!(came[bytes..].iter().all(|byte| *byte == 9), "behind {bytes} bytes");
    }
    here.gmpi.close().expect("all came");
}

#[test]
fn sends_that_wait_need_no_call_on_the_receives_that_were_posted() {
    const NAME: &str = "pieces::sends_that_wait_need_no_call_on_the_receives_that_were_posted";
    let Some(part) = part() else { return both_ways(NAME) };
    let here = open(&part);
    let (rank, half, len) = (u64::from(here.gmpi.rank()), BYTES / 2, 50 * PIECE as u64);
    here.memory.write(0, &pattern(3, len as usize)).expect("in range");
    for other in [rank, 1 - rank] {
        here.memory.write(half, &vec![0; len as usize]).expect("in range");
        // Others before it, which no message comes for yet.
        let small = |script: Script, i: u32| {
            let arguments = [here.at(BYTES - 64), 8, OF_BYTES, other, 20 + u64::from(i), WORLD];
            script.call(GMPI_CALL_IRECV, &arguments).request(i)
        };
        let script = (0..9)
            .fold(Script::default(), small)
            .call(GMPI_CALL_IRECV, &[here.at(half), len, OF_BYTES, other, 3, WORLD])
            .request(9)
            .call(GMPI_CALL_SEND, &[here.at(0), len, OF_BYTES, other, 3, WORLD]);
        let script = (0..9)
            .fold(script, |script, i| {
                script.call(GMPI_CALL_SEND, &[here.at(0), 8, OF_BYTES, other, 20 + i, WORLD])
            })
            .call(GMPI_CALL_WAITALL, &[10])
            .request(0);
        here.succeed(script);
        let mut came = vec![0; len as usize];
        here.memory.read(half, &mut came).expect("in range");
        assert!(came == pattern(3, len as usize));
    }
    here.gmpi.close().expect("all came");
}

#[test]
fn a_probe_tells_how_long_a_message_in_pieces_is_and_nothing_overtakes() {
    let Some(part) = part() else {
        return both_ways("pieces::a_probe_tells_how_long_a_message_in_pieces_is_and_nothing_overtakes");
    };
    let here = open(&part);
    let bytes = [800, 240_000, 40_000, HEAD, 400];
    if here.gmpi.rank() == 0 {
        here.memory.write(0, &pattern(0, 400_000)).expect("in range");
        let mut script = Script::default();
        for (i, tag) in [1, 2, 1, 3, 2].into_iter().enumerate() {
            let arguments = [here.at(1000 * i), bytes[i] as u64, OF_BYTES, 1, tag, WORLD];
            script = script.call(GMPI_CALL_ISEND, &arguments).request(i as u32);
        }
        here.succeed(script.call(GMPI_CALL_WAITALL, &[5]).request(0));
    } else {
        let script = Script::default()
            .call(GMPI_CALL_PROBE, &[0, 2, WORLD])
            .status(0)
            // What is before it is taken for it, and probes look at what was.
            .call(GMPI_CALL_PROBE, &[0, 3, WORLD])
            .status(1)
            .call(GMPI_CALL_IPROBE, &[ANY, ANY, WORLD])
            .status(2);
        let places = [0, 1000, 250_000, 300_000, 301_000].map(|at| BYTES / 2 + at);
        let wanted = [(0, ANY), (ANY, 2), (0, 1), (0, ANY), (ANY, ANY)];
        let receive = |script: Script, i: usize| {
            let (source, tag) = wanted[i];
            let arguments = [here.at(places[i]), bytes[i] as u64, OF_BYTES, source, tag, WORLD];
            script.call(GMPI_CALL_RECV, &arguments).status(3 + i as u32)
        };
        let results = here.succeed((0..5).fold(script, receive));
        let statuses: Vec<_> = (0..8).map(|i| results.status(i)).map(|of| (of.0, of.1, of.3)).collect();
        assert_eq!(statuses[..3], [(0, 2, 240_000), (0, 3, HEAD as u64), (0, 1, 800)], "probes");
        let came = [(0, 1, 800), (0, 2, 240_000), (0, 1, 40_000), (0, 3, HEAD as u64), (0, 2, 400)];
        assert_eq!(statuses[3..], came);
        for (i, place) in places.into_iter().enumerate() {
            let mut came = vec![0; bytes[i]];
            here.memory.read(place, &mut came).expect("in range");
            assert!(came == pattern(1000 * i, bytes[i]), "message {i}");
        }
    }
    here.gmpi.close().expect("all came");
}

#[test]
fn of_a_longer_message_nothing_is_stored_behind_its_receive_and_the_next_one_arrives() {
    const NAME: &str =
        "pieces::of_a_longer_message_nothing_is_stored_behind_its_receive_and_the_next_one_arrives";
    let Some(part) = part() else { return both_ways(NAME) };
    let here = open(&part);
    let half = BYTES / 2;
    let rooms = [0, 5, HEAD - 1, HEAD, 224, 1000, PIECE, PIECE + 1, 3 * PIECE, 20 * PIECE - 1];
    for (room, bytes) in rooms.into_iter().flat_map(|room| [HEAD, 20 * PIECE].map(|bytes| (room, bytes))) {
        if room >= bytes {
            continue;
        }
        here.memory.write(0, &pattern(0, bytes)).expect("in range");
        here.memory.write(half, &vec![9; bytes]).expect("in range");
        let next = here.at(half + 30 * PIECE);
        let script = match here.gmpi.rank() {
            0 => Script::default()
                .call(GMPI_CALL_SEND, &[here.at(0), bytes as u64, OF_BYTES, 1, 4, WORLD])
                .call(GMPI_CALL_SEND, &[here.at(0), bytes as u64, OF_BYTES, 1, 4, WORLD]),
            _ => Script::default()
                .call(GMPI_CALL_RECV, &[here.at(half), room as u64, OF_BYTES, ANY, ANY, WORLD])
                .call(GMPI_CALL_RECV, &[next, bytes as u64, OF_BYTES, ANY, ANY, WORLD])
                .status(0),
        };
        let results = here.run(script);
        if here.gmpi.rank() == 0 {
            assert_eq!(results.errors(0), [0, 0], "{room} {bytes}");
            continue;
        }
        assert_eq!(results.errors(0), [GMPI_ERR_TRUNCATE, 0], "{room} {bytes}");
        assert_eq!(results.status(0), (0, 4, 0, bytes as u64));
        let mut came = vec![0; bytes];
        here.memory.read(half, &mut came).expect("in range");
        let has_first = came[..room] == pattern(0, room) || came[..room].iter().all(|byte| *byte == 9);
        assert!(has_first && came[room..].iter().all(|byte| *byte == 9), "{room} {bytes}");
        here.memory.read(half + 30 * PIECE, &mut came).expect("in range");
        assert!(came == pattern(0, bytes), "behind {room} {bytes}");
    }
    here.gmpi.close().expect("all came");
}

#[test]
fn a_send_that_was_given_up_goes_on_with_what_its_memory_had() {
    // Of memory that is not staged the library itself reads late. Shorter pieces a library may keep by itself.
    const LONG: usize = 1 << 16;
    const NAME: &str = "pieces::a_send_that_was_given_up_goes_on_with_what_its_memory_had";
    if part().is_none() {
        return by_mpi_with(NAME, "staged", &[(SETTING, &LONG.to_string())]);
    }
    let here = open("staged");
    let (len, small) = (12 * LONG, here.at(BYTES - 8));
    here.memory.write(0, &pattern(0, len)).expect("in range");
    let long = [here.at(0), len as u64, OF_BYTES, 1 - u64::from(here.gmpi.rank()), 5, WORLD];
    if here.gmpi.rank() == 0 {
        here.succeed(Script::default().call(GMPI_CALL_ISEND, &long).request(0));
        let left = here.gmpi.check();
        assert!(matches!(left, Err(GmpiError::OpenRequests { count: 1, .. })), "{left:?}");
        here.memory.write(0, &vec![7; len]).expect("in range");
        here.succeed(Script::default().call(GMPI_CALL_SEND, &[small, 1, OF_BYTES, 1, 6, WORLD]));
        here.succeed(Script::default().call(GMPI_CALL_RECV, &[small, 1, OF_BYTES, 1, 6, WORLD]));
    } else {
        here.memory.write(0, &vec![8; len]).expect("in range");
        let script = Script::default()
            .call(GMPI_CALL_RECV, &[small, 1, OF_BYTES, 0, 6, WORLD])
            .call(GMPI_CALL_RECV, &long)
            .status(0)
            .call(GMPI_CALL_SEND, &[small, 1, OF_BYTES, 0, 6, WORLD]);
        assert_eq!(here.succeed(script).status(0), (0, 5, 0, len as u64));
        let mut came = vec![0; len];
        here.memory.read(0, &mut came).expect("in range");
        assert!(came == pattern(0, len));
    }
    here.gmpi.close().expect("all came");
}

#[test]
fn messages_of_a_communicator_that_was_freed_go_on() {
    let Some(part) = part() else {
        return both_ways("pieces::messages_of_a_communicator_that_was_freed_go_on");
    };
    let here = open(&part);
    let rank = here.gmpi.rank();
    let comm = here.gmpi.split(Comm::WORLD, Some(0), -(rank as i32)).expect("all came").expect("in it");
    let (own, len) = (1 - rank, 50 * PIECE as u64);
    here.memory.write(0, &pattern(0, len as usize)).expect("in range");
    let (half, other) = (here.at(BYTES / 2), u64::from(1 - own));
    here.succeed(
        Script::default()
            .call(GMPI_CALL_IRECV, &[half, len, OF_BYTES, other, 3, comm.0])
            .request(0)
            .call(GMPI_CALL_ISEND, &[here.at(0), len, OF_BYTES, other, 3, comm.0])
            .request(1)
            // Requests of a kernel are its own: it frees them, and they go on.
            .call(GMPI_CALL_REQUEST_FREE, &[])
            .request(0)
            .call(GMPI_CALL_REQUEST_FREE, &[])
            .request(1),
    );
    here.gmpi.free(comm).expect("it was there");
    let is_there = || {
        let mut came = vec![0; len as usize];
        here.memory.read(BYTES / 2, &mut came).expect("in range");
        came == pattern(0, len as usize)
    };
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < SOON, "it comes");
        std::thread::yield_now();
    }
    here.succeed(Script::default().call(GMPI_CALL_BARRIER, &[WORLD]));
    here.gmpi.check().expect("nothing is open");
    here.gmpi.close().expect("all came");
}

/// This process's rank by its launcher.
fn launched_rank() -> usize {
    let rank = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"].into_iter().find_map(|name| std::env::var(name).ok());
    rank.and_then(|rank| rank.parse().ok()).expect("a launcher says it")
}

#[test]
fn the_smallest_piece_of_all_holds_and_one_without_any_has_none() {
    const NAME: &str = "pieces::the_smallest_piece_of_all_holds_and_one_without_any_has_none";
    let Some(part) = part() else {
        return ["256 100000", "0 1000"].into_iter().for_each(|part| by_mpi(NAME, part));
    };
    let own = part.split(' ').nth(launched_rank()).expect("one each");
    // SAFETY: no other thread of this test's process looks at the environment.
    unsafe { std::env::set_var(SETTING, own) };
    let here = open("staged");
    everything(&here);
    here.gmpi.close().expect("all came");
}

#[test]
fn a_piece_of_no_such_size_is_refused() {
    const NAME: &str = "pieces::a_piece_of_no_such_size_is_refused";
    if part().is_none() {
        return by_mpi_with(NAME, "wrong", &[(SETTING, "60")]);
    }
    let error = Gmpi::mpi(&Processor::cpu(), &config(), Staging::Needed).err();
    let refused = matches!(&error, Some(GmpiError::Mpi(why)) if why.contains(SETTING) && why.contains("256"));
    assert!(refused, "{error:?}");
}
