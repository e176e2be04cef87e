//! Types that cannot be, and what they cannot be used for.

use ggas_gmpi::layout::*;
use ggas_selftest::args::*;

use crate::direct::{SMALL, direct};
use crate::types::{TYPES, int, made};
use crate::world::*;

#[test]
fn types_that_cannot_be_are_refused_and_so_is_what_they_are_used_for() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    let rank = &world.ranks[0];
    let (a, b) = (made(rank, 0), made(rank, 1));
    let vector = |at: u64, count: i64, length: i64, stride: i64, of: u64| {
        [at, int(count), int(length), int(stride), of]
    };
    let most = i64::from(i32::MAX);
    let refused: [(u32, Vec<u64>, u32); 14] = [
        (SELFTEST_GMPI_TYPE_VECTOR, vector(a, -1, 1, 1, INT).to_vec(), GMPI_ERR_COUNT),
        (SELFTEST_GMPI_TYPE_VECTOR, vector(a, 1, -1, 1, INT).to_vec(), GMPI_ERR_ARG),
        (SELFTEST_GMPI_TYPE_VECTOR, vector(a, 1, 1, 1, 0x7777).to_vec(), GMPI_ERR_TYPE),
        (SELFTEST_GMPI_TYPE_VECTOR, vector(a, 1, 1, 1, 0).to_vec(), GMPI_ERR_TYPE),
        (SELFTEST_GMPI_TYPE_VECTOR, vector(a, most, most, 1, DOUBLE).to_vec(), GMPI_ERR_ARG),
        (SELFTEST_GMPI_TYPE_VECTOR, vector(a, most / 8, 1, most, DOUBLE).to_vec(), GMPI_ERR_ARG),
        (SELFTEST_GMPI_TYPE_VECTOR, vector(0, 1, 1, 1, INT).to_vec(), GMPI_ERR_ARG),
        (SELFTEST_GMPI_TYPE_CONTIGUOUS, vec![a, int(-3), INT], GMPI_ERR_COUNT),
        (SELFTEST_GMPI_TYPE_COMMIT, vec![a], GMPI_ERR_TYPE),
        (SELFTEST_GMPI_TYPE_FREE, vec![a], GMPI_ERR_TYPE),
        (SELFTEST_GMPI_TYPE_EXTENT, vec![a, rank.at(TYPES + 2048)], GMPI_ERR_TYPE),
        (SELFTEST_GMPI_TYPE_SUBARRAY, vec![a, both(0, GMPI_ORDER_C.into()), a, a, a, INT], GMPI_ERR_ARG),
        (SELFTEST_GMPI_TYPE_SUBARRAY, vec![a, both(3, 5), a, a, a, INT], GMPI_ERR_ARG),
        (SELFTEST_GMPI_TYPE_SUBARRAY, vec![a, both(3, GMPI_ORDER_C.into()), 0, a, a, INT], GMPI_ERR_ARG),
    ];
    let script =
        refused.iter().fold(Script::default(), |script, (call, arguments, _)| script.call(*call, arguments));
    let results = world.run(vec![script, Script::default()]);
    let errors: Vec<u32> = refused.iter().map(|(.., error)| *error).collect();
    assert_eq!(results[0].errors(0), errors);

    for way in [WORLD, comm] {
        let send = |of: u64, count: i64| [rank.at(0), int(count), of, 1, 0, way];
        let calls = [
            (SELFTEST_GMPI_TYPE_VECTOR, vector(a, 4, 2, 3, INT).to_vec(), GMPI_SUCCESS),
            (GMPI_CALL_SEND, send(a, 1).to_vec(), GMPI_ERR_TYPE),
            (SELFTEST_GMPI_TYPE_COMMIT, vec![a], GMPI_SUCCESS),
            (GMPI_CALL_SEND, send(a, -1).to_vec(), GMPI_ERR_COUNT),
            (GMPI_CALL_SEND, send(a, most).to_vec(), GMPI_ERR_COUNT),
            // Of a collective; and an address that is none, or in nobody's memory.
            (GMPI_CALL_BCAST, vec![rank.at(0), 1, a, 0, way], GMPI_ERR_TYPE),
            (GMPI_CALL_SEND, vec![0, 1, a, 1, 0, way], GMPI_ERR_BUFFER),
            // Elements that overlap are sent, but nothing is received into them.
            (SELFTEST_GMPI_TYPE_VECTOR, vector(b, 4, 3, 2, INT).to_vec(), GMPI_SUCCESS),
            (SELFTEST_GMPI_TYPE_COMMIT, vec![b], GMPI_SUCCESS),
            (GMPI_CALL_RECV, send(b, 1).to_vec(), GMPI_ERR_TYPE),
            (GMPI_CALL_SEND, send(b, 1).to_vec(), GMPI_SUCCESS),
            // Three strides: rows of this are boxes already.
            (SELFTEST_GMPI_TYPE_VECTOR, vector(b, 2, 1, 5, a).to_vec(), GMPI_SUCCESS),
            (SELFTEST_GMPI_TYPE_VECTOR, vector(b, 2, 1, 5, b).to_vec(), GMPI_ERR_TYPE),
            // A type that is freed is none; those that were made of it stay.
            (SELFTEST_GMPI_TYPE_CONTIGUOUS, vec![b, 2, a], GMPI_SUCCESS),
            (SELFTEST_GMPI_TYPE_FREE, vec![a], GMPI_SUCCESS),
            (GMPI_CALL_SEND, send(a, 1).to_vec(), GMPI_ERR_TYPE),
            (SELFTEST_GMPI_TYPE_FREE, vec![a], GMPI_ERR_TYPE),
            (SELFTEST_GMPI_TYPE_COMMIT, vec![b], GMPI_SUCCESS),
            (GMPI_CALL_SEND, send(b, 1).to_vec(), GMPI_SUCCESS),
        ];
        let script = calls
            .iter()
            .fold(Script::default(), |script, (call, arguments, _)| script.call(*call, arguments));
        let other = &world.ranks[1];
        let receive = [other.at(0), 100, INT, 0, 0, way];
        let receives = Script::default()
            .call(GMPI_CALL_RECV, &receive)
            .status(0)
            .call(GMPI_CALL_RECV, &receive)
            .status(1);
        let results = world.run(vec![script, receives]);
        let errors: Vec<u32> = calls.iter().map(|(.., error)| *error).collect();
        assert_eq!(results[0].errors(0), errors, "comm {way:#x}");
        assert_eq!([results[1].status(0).3, results[1].status(1).3], [48, 64], "comm {way:#x}");
    }
}

#[test]
fn a_type_that_reaches_out_of_attached_memory_is_no_buffer() {
    let world = World::new(2, &config());
    let rank = &world.ranks[0];
    let a = made(rank, 0);
    // To either side, and in the middle of the last block.
    let cases = [(0, 4, 1, -1), (BYTES - 4, 2, 1, 1000), (BYTES - 400, 2, 1, 100)];
    for (at, count, length, stride) in cases {
        let script = Script::default()
            .call(SELFTEST_GMPI_TYPE_VECTOR, &[a, count, length, int(stride), INT])
            .call(SELFTEST_GMPI_TYPE_COMMIT, &[a])
            .call(GMPI_CALL_SEND, &[rank.at(at), 1, a, 1, 0, WORLD]);
        let results = world.run(vec![script, Script::default()]);
        assert_eq!(results[0].errors(0), [0, 0, GMPI_ERR_BUFFER], "{count} blocks {stride} apart at {at}");
    }
}
