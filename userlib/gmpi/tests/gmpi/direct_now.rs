//! Short blocking messages of blocks, which all threads of a block make at once.

use ggas_gmpi::Direct;
use ggas_gmpi::layout::*;

use crate::direct::{SMALL, direct};
use crate::world::*;

/// Threads of a block: whole warps, and not.
const BLOCKS: [u32; 3] = [40, 96, 160];

/// Bytes that go there, where they lie, how many are room for them at the other end, and where.
struct Round {
    bytes: u64,
    from: usize,
    room: u64,
    to: usize,
}

/// More rounds than slots, of all lengths that travel in lines and some more; each way with its own.
fn rounds(salt: u64) -> Vec<Round> {
    let lengths = [0, 1, 3, 4, 8, 12, 13, 100, 255, 256, 257, 1000, 4096, 8191, 8192, 8193, 9000];
    let round = |(i, bytes): (usize, u64)| {
        let room = match (i as u64 + salt) % 5 {
            0 => bytes / 2,
            1 => bytes + 24,
            _ => bytes,
        };
        Round { bytes, from: [0, 4, 1, 8, 6][i % 5], room, to: [0, 8, 4, 3][i % 4] }
    };
    lengths.iter().chain(&lengths).map(|bytes| (bytes + salt * 8) % 9001).enumerate().map(round).collect()
}

/// Bytes of a message, of which each says where it belongs.
fn data(rank: usize, round: usize, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + round as u64 * 31 + rank as u64 * 101 + i / 256) as u8).collect()
}

#[test]
fn exchanges_of_all_lengths_at_any_address_are_whole() {
    let byte = u64::from(GMPI_BYTE);
    for mailboxes in [SMALL, Direct { slots: 4, ..Direct::default() }, Direct::default()] {
        let world = World::new(2, &config());
        let comm = direct(&world, 1, mailboxes);
        for threads in BLOCKS {
            let ways = [rounds(0), rounds(3)];
            // One round behind the other: places of a round are its own.
            const EACH: usize = 9216;
            for (number, pair) in ways[0].iter().zip(&ways[1]).enumerate() {
                let sides = [pair.0, pair.1];
                let exchange = |rank: usize| {
                    let (out, inward) = (sides[rank], sides[1 - rank]);
                    let memory = &world.ranks[rank].memory;
                    memory.write(out.from, &data(rank, number, out.bytes)).expect("in range");
                    memory.write(EACH, &[0xee; EACH]).expect("in range");
                    let (at, other) = (&world.ranks[rank], 1 - rank as u64);
                    let arguments = [
                        at.at(out.from),
                        at.at(EACH + inward.to),
                        both(out.bytes, inward.room),
                        both(byte, byte),
                        both(other, other),
                        both(number as u64, number as u64),
                        comm,
                    ];
                    Script::default().call(GMPI_CALL_SENDRECV, &arguments).status(0)
                };
                let results = world.run_blocks(vec![vec![exchange(0)], vec![exchange(1)]], threads);
                for (rank, result) in results.iter().enumerate() {
                    let inward = sides[1 - rank];
                    let error = if inward.bytes > inward.room { GMPI_ERR_TRUNCATE } else { GMPI_SUCCESS };
                    let fits = inward.bytes.min(inward.room);
                    let what = format!("round {number}, {threads} threads, {} bytes", inward.bytes);
                    assert_eq!(result.errors(0), [error], "{what}");
                    assert_eq!(result.status(0), (1 - rank as i32, number as i32, error, fits), "{what}");
                    let mut came = vec![0; EACH];
                    world.ranks[rank].memory.read(EACH, &mut came).expect("in range");
                    let (to, end) = (inward.to, inward.to + fits as usize);
                    let sent = data(1 - rank, number, inward.bytes);
                    assert_eq!(came[to..end], sent[..fits as usize], "{what}");
                    let mut others = came[..to].iter().chain(&came[end..]);
                    assert!(others.all(|byte| *byte == 0xee), "{what}: others");
                }
            }
        }
        world.ranks.iter().for_each(|rank| rank.gmpi.check().expect("nothing is open"));
    }
}

#[test]
fn sends_that_a_last_warp_has_too_few_lanes_for_are_whole() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, Direct::default());
    let byte = u64::from(GMPI_BYTE);
    // 40 threads have a warp of 32 lanes, each with a line, and one of 8.
    for bytes in [8, 56, 57, 200, 248, 249, 300] {
        let script = |rank: usize| {
            let (at, other) = (&world.ranks[rank], 1 - rank as u64);
            at.memory.write(0, &data(rank, 0, bytes)).expect("in range");
            let message = |place: usize| [at.at(place), bytes, byte, other, 7, comm];
            let (send, receive) = ((GMPI_CALL_SEND, message(0)), (GMPI_CALL_RECV, message(4096)));
            let order = if rank == 0 { [send, receive] } else { [receive, send] };
            order.iter().fold(Script::default(), |script, (call, arguments)| script.call(*call, arguments))
        };
        world.succeed_in(vec![script(0), script(1)], 40);
        for (rank, at) in world.ranks.iter().enumerate() {
            let mut came = vec![0; bytes as usize];
            at.memory.read(4096, &mut came).expect("in range");
            assert_eq!(came, data(1 - rank, 0, bytes), "rank {rank}, {bytes} bytes");
        }
    }
}

#[test]
fn exchanges_in_a_row_are_taken_in_their_order() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, Direct { slots: 4, ..Direct::default() });
    let (int, calls) = (u64::from(GMPI_INT), 40u64);
    for threads in BLOCKS {
        // 300 numbers around, each time one place further, to oneself in between; the last call says what came.
        let script = |rank: usize| {
            let (at, me) = (&world.ranks[rank], rank as u64);
            let first: Vec<u8> = (0..300u32).flat_map(|i| (i + 1000 * rank as u32).to_le_bytes()).collect();
            at.memory.write(0, &first).expect("in range");
            (0..calls).fold(Script::default(), |script, call| {
                let peer = if call % 3 == 2 { me } else { 1 - me };
                let (from, to) = (at.at(1200 * (call % 2) as usize), at.at(1200 * ((call + 1) % 2) as usize));
                script.call(
                    GMPI_CALL_SENDRECV,
                    &[from, to, both(300, 300), both(int, int), both(peer, peer), both(call, call), comm],
                )
            })
        };
        world.succeed_in(vec![script(0), script(1)], threads);
        let others = (0..calls).filter(|call| call % 3 != 2).count();
        for (rank, at) in world.ranks.iter().enumerate() {
            let mut came = vec![0; 1200];
            at.memory.read(1200 * (calls % 2) as usize, &mut came).expect("in range");
            let origin = if others % 2 == 0 { rank } else { 1 - rank };
            let wanted: Vec<u8> =
                (0..300u32).flat_map(|i| (i + 1000 * origin as u32).to_le_bytes()).collect();
            assert_eq!(came, wanted, "rank {rank}, {threads} threads");
        }
    }
}

#[test]
fn a_message_of_another_tag_ends_an_exchange_and_stays_away() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, Direct::default());
    let (byte, count) = (u64::from(GMPI_BYTE), 2000);
    let exchange = |rank: usize, wanted: u64| {
        let (at, other) = (&world.ranks[rank], 1 - rank as u64);
        at.memory.write(0, &[rank as u8 + 1; 4096]).expect("in range");
        let (counts, types, peers) = (both(count, count), both(byte, byte), both(other, other));
        let exchange = |from: usize, tags| [at.at(from), at.at(2048), counts, types, peers, tags, comm];
        let again = [at.at(0), at.at(4096), counts, types, peers, both(3, 3), comm];
        Script::default()
            .call(GMPI_CALL_SENDRECV, &exchange(0, both(1, wanted)))
            .call(GMPI_CALL_SENDRECV, &again)
    };
    let results = world.run_blocks(vec![vec![exchange(0, 2)], vec![exchange(1, 1)]], 96);
    assert_eq!(results[0].errors(0), [GMPI_ERR_TAG, GMPI_SUCCESS]);
    assert_eq!(results[1].errors(0), [GMPI_SUCCESS, GMPI_SUCCESS]);
    let mut came = vec![0; 4096];
    world.ranks[0].memory.read(2048, &mut came).expect("in range");
    assert!(came[..2000].iter().all(|byte| *byte == 1), "of the wrong one nothing");
    assert!(came[2048..4048].iter().all(|byte| *byte == 2), "the next one whole");
}
