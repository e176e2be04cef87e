//! Types that kernels make, in messages of all kinds, by the daemons and from kernel to kernel.

use std::num::Wrapping;

use ggas_gmpi::Direct;
use ggas_gmpi::layout::*;
use ggas_selftest::args::*;

use crate::direct::{SMALL, direct, without_daemons};
use crate::world::*;

const FLOAT: u64 = GMPI_FLOAT as u64;
const BYTE: u64 = GMPI_BYTE as u64;
const CHAR: u64 = GMPI_CHAR as u64;
/// Where types lie in a rank's memory, two beside each other for `Sendrecv`; each has this many bytes.
pub const TYPES: usize = BYTES - 4096;
const TYPE: usize = 64;

/// A number of `int`, as kernels have it.
pub fn int(value: i64) -> u64 {
    value as u64
}

/// Blocks that lie apart: `count` of `length` elements of a predefined type, `stride` from one to the next, in `rows` so many elements apart.
#[derive(Clone, Copy, Debug)]
struct Form {
    of: u64,
    count: i64,
    length: i64,
    stride: i64,
    rows: i64,
    pitch: i64,
}

impl Form {
    const fn vector(of: u64, count: i64, length: i64, stride: i64) -> Form {
        Form { of, count, length, stride, rows: 1, pitch: 0 }
    }

    fn size(&self) -> i64 {
        (self.of & u64::from(GMPI_TYPE_SIZE_MASK)) as i64
    }

    fn bytes(&self) -> usize {
        (self.count * self.length * self.rows * self.size()) as usize
    }

    /// Where each byte of a message lies, from its begin on.
    fn places(&self) -> Vec<i64> {
        let (size, mut all) = (self.size(), Vec::new());
        for row in 0..self.rows {
            for block in 0..self.count {
                let first = (row * self.pitch + block * self.stride) * size;
                all.extend(first..first + self.length * size);
            }
        }
        all
    }

    /// Makes it, the first time as a vector, then, if there are rows, as a vector of one element each of that.
    fn make(&self, script: Script, rank: &Rank, number: usize) -> Script {
        let at = rank.at(TYPES + number * TYPE);
        let script = script.call(
            SELFTEST_GMPI_TYPE_VECTOR,
            &[at, int(self.count), int(self.length), int(self.stride), self.of],
        );
        let extent = (self.count - 1) * self.stride + self.length;
        let script = match self.rows {
            1 => script,
            rows => {
                assert_eq!(self.pitch % extent, 0, "rows are whole extents apart");
                script.call(SELFTEST_GMPI_TYPE_VECTOR, &[at, int(rows), 1, int(self.pitch / extent), at])
            }
        };
        script.call(SELFTEST_GMPI_TYPE_COMMIT, &[at])
    }
}

/// Where the type of a rank lies.
pub fn made(rank: &Rank, number: usize) -> u64 {
    rank.at(TYPES + number * TYPE)
}

/// Bytes that are different next to each other, by a linear congruence.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = Wrapping(seed);
    let mut next = || {
        state = state * Wrapping(1_664_525) + Wrapping(1_013_904_223);
        (state.0 >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Middle of a rank's memory, so that strides go both ways.
const MIDDLE: usize = 300_000;
/// Bytes of a rank's memory that messages may touch.
const TOUCHED: usize = 600_000;

/// How one end of a message lies: at an odd address, too.
#[derive(Clone, Copy, Debug)]
struct End {
    form: Form,
    at: usize,
}

fn fill(world: &World, seed: u32) -> [Vec<u8>; 2] {
    [0, 1].map(|rank| {
        let bytes = noise(seed + rank as u32, TOUCHED);
        world.ranks[rank].memory.write(0, &bytes).expect("in range");
        bytes
    })
}

/// What has to be in the receiver's memory.
fn expected(out: End, inward: End, mut there: Vec<u8>, here: &[u8]) -> Vec<u8> {
    let place = |end: End, offset: i64| (end.at as i64 + offset) as usize;
    for (from, to) in out.form.places().into_iter().zip(inward.form.places()) {
        there[place(inward, to)] = here[place(out, from)];
    }
    there
}

fn memory(rank: &Rank) -> Vec<u8> {
    let mut bytes = vec![0; TOUCHED];
    rank.memory.read(0, &mut bytes).expect("in range");
    bytes
}

/// Which calls carry a message.
#[derive(Clone, Copy, Debug)]
enum Calls {
    Blocking,
    Later,
    Exchange,
    Persistent,
}

/// Rank 0's to rank 1, by these calls.
fn pass(world: &World, comm: u64, out: End, inward: End, calls: Calls, threads: u32, seed: u32) {
    let what = format!("{calls:?}, {out:?} to {inward:?}, {threads} threads, comm {comm:#x}, seed {seed}");
    let before = fill(world, seed);
    let (here, there) = (&world.ranks[0], &world.ranks[1]);
    let sends = [here.at(out.at), 1, made(here, 0), 1, 5, comm];
    let receives = [there.at(inward.at), 1, made(there, 0), 0, 5, comm];
    let (first, second) =
        (out.form.make(Script::default(), here, 0), inward.form.make(Script::default(), there, 0));
    let nobody = u64::from(GMPI_PROC_NULL as u32);
    let exchange = |rank: &Rank, from: u64, to: u64, peers: u64| {
        [from, to, both(1, 1), 0, peers, both(5, 5), comm, made(rank, 0)]
    };
    let (first, second) = match calls {
        Calls::Blocking => (first.call(GMPI_CALL_SEND, &sends), second.call(GMPI_CALL_RECV, &receives)),
        Calls::Later => (
            first.call(GMPI_CALL_ISEND, &sends).request(0).call(GMPI_CALL_WAIT, &[]).request(0),
            second.call(GMPI_CALL_IRECV, &receives).request(0).call(GMPI_CALL_WAITALL, &[1]).request(0),
        ),
        Calls::Exchange => (
            // The other type of each is any that there is.
            out.form
                .make(first, here, 1)
                .call(GMPI_CALL_SENDRECV, &exchange(here, sends[0], here.at(MIDDLE), both(1, nobody))),
            inward
                .form
                .make(second, there, 1)
                .call(GMPI_CALL_SENDRECV, &exchange(there, there.at(MIDDLE), receives[0], both(nobody, 0))),
        ),
        Calls::Persistent => (
            first.call(GMPI_CALL_SEND_INIT, &sends).call(GMPI_CALL_START, &[]).call(GMPI_CALL_WAIT, &[]),
            second.call(GMPI_CALL_RECV_INIT, &receives).call(GMPI_CALL_START, &[]).call(GMPI_CALL_WAIT, &[]),
        ),
    };
    let last = second.0.len() - 1;
    let results = world.run_blocks(vec![vec![first], vec![second.status(0)]], threads);
    for (rank, result) in results.iter().enumerate() {
        assert!(
            result.errors(0).iter().all(|error| *error == 0),
            "{what}: rank {rank}: {:?}",
            result.errors(0)
        );
    }
    assert_eq!(results[1].errors(0).get(last), Some(&0), "{what}");
    assert_eq!(results[1].status(0).3, out.form.bytes() as u64, "{what}");
    let came = memory(there);
    let wanted = expected(out, inward, before[1].clone(), &before[0]);
    let wrong = came.iter().zip(&wanted).position(|(came, wanted)| came != wanted);
    assert_eq!(wrong, None, "{what}");
}

/// Pairs of ends with as many bytes: together and apart, one stride and two, up and down, aligned and not, short and long.
fn ends() -> Vec<(End, End)> {
    let v = Form::vector;
    let end = |form, at| End { form, at };
    vec![
        (end(v(FLOAT, 8, 4, 20), 64), end(v(FLOAT, 32, 1, 1), 128)),
        (end(v(FLOAT, 1, 24, 1), 4), end(v(FLOAT, 6, 4, 7), 8)),
        (end(v(FLOAT, 30, 1, 3), 12), end(v(FLOAT, 10, 3, -5), MIDDLE)),
        (end(v(LONG, 50, 2, 9), 8), end(v(FLOAT, 40, 5, 11), 4)),
        (end(v(CHAR, 33, 3, 5), 1), end(v(BYTE, 11, 9, 10), 3)),
        (end(v(FLOAT, 64, 16, 96), 0), end(v(FLOAT, 16, 64, 80), 16)),
        (end(v(FLOAT, 100, 40, 96), 0), end(v(LONG, 20, 100, 301), 8)),
        (end(v(CHAR, 301, 31, 101), 5), end(v(CHAR, 31, 301, -401), MIDDLE + 7)),
        (end(Form { rows: 5, pitch: 62, ..v(FLOAT, 4, 7, 8) }, 0), end(v(FLOAT, 20, 7, 8), 0)),
        (
            end(Form { rows: 30, pitch: 6 * 316, ..v(FLOAT, 32, 6, 10) }, 0),
            end(Form { rows: 32, pitch: 7 * 196, ..v(FLOAT, 5, 36, 40) }, 4),
        ),
    ]
}

#[test]
fn types_go_by_the_daemons_in_all_calls() {
    let world = World::new(2, &config());
    for (number, (out, inward)) in ends().into_iter().enumerate() {
        assert_eq!(out.form.bytes(), inward.form.bytes(), "pair {number}");
        for calls in [Calls::Blocking, Calls::Later, Calls::Exchange, Calls::Persistent] {
            pass(&world, WORLD, out, inward, calls, 64, 1000 + number as u32);
        }
    }
}

#[test]
fn types_go_from_kernel_to_kernel_while_the_daemons_do_nothing() {
    for mailboxes in [SMALL, Direct { slots: 8, ..SMALL }, Direct::default()] {
        let world = World::new(2, &config());
        let comm = direct(&world, 1, mailboxes);
        for (number, (out, inward)) in ends().into_iter().enumerate() {
            // A leader alone, with others that copy.
            for threads in [20, 96] {
                for calls in [Calls::Blocking, Calls::Later, Calls::Exchange] {
                    let pass = || pass(&world, comm, out, inward, calls, threads, 2000 + number as u32);
                    without_daemons(&world, pass);
                }
            }
        }
    }
}

#[test]
fn several_of_a_type_lie_an_extent_apart_and_parts_of_arrays_where_they_are() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, Direct::default());
    let ints = |rank: &Rank, at: usize, values: [i32; 3]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        rank.memory.write(TYPES + 1024 + at, &bytes).expect("in range");
        rank.at(TYPES + 1024 + at)
    };
    for (way, seed) in [(WORLD, 41), (comm, 42)] {
        let before = fill(&world, seed);
        let (here, there) = (&world.ranks[0], &world.ranks[1]);
        // A box of 3x4x5 ints in an array of 7x9x11, from 2, 1, 4 on; its order of dimensions at the other end is the other one.
        let array = |rank: &Rank, sizes: [i32; 3], parts: [i32; 3], starts: [i32; 3], order: u32| {
            let [sizes, parts, starts] =
                [(0, sizes), (16, parts), (32, starts)].map(|(at, values)| ints(rank, at, values));
            Script::default()
                .call(
                    SELFTEST_GMPI_TYPE_SUBARRAY,
                    &[made(rank, 0), both(3, order.into()), sizes, parts, starts, INT],
                )
                .call(SELFTEST_GMPI_TYPE_COMMIT, &[made(rank, 0)])
                .call(SELFTEST_GMPI_TYPE_EXTENT, &[made(rank, 0), rank.at(TYPES + 2048)])
        };
        let first = array(here, [7, 9, 11], [3, 4, 5], [2, 1, 4], GMPI_ORDER_C)
            .call(GMPI_CALL_SEND, &[here.at(40), 1, made(here, 0), 1, 0, way])
            // Three pairs of ints, each extent 4 of them.
            .call(SELFTEST_GMPI_TYPE_VECTOR, &[made(here, 1), 2, 1, 3, INT])
            .call(SELFTEST_GMPI_TYPE_COMMIT, &[made(here, 1)])
            .call(GMPI_CALL_SEND, &[here.at(8), 3, made(here, 1), 1, 1, way]);
        let second = array(there, [11, 9, 7], [5, 4, 3], [4, 1, 2], GMPI_ORDER_FORTRAN)
            .call(GMPI_CALL_RECV, &[there.at(400), 1, made(there, 0), 0, 0, way])
            .call(GMPI_CALL_RECV, &[there.at(100_000), 6, INT, 0, 1, way])
            .status(0)
            .call(SELFTEST_GMPI_TYPE_CONTIGUOUS, &[made(there, 1), 2, INT])
            .call(SELFTEST_GMPI_COUNT, &[0, made(there, 1)]);
        let results = world.succeed(vec![first, second]);
        assert_eq!([results[0].value(2), results[1].value(2)], [240, 240], "bytes of a box");
        let extent = here.memory.read_u64s(TYPES + 2048, 2).expect("in range");
        assert_eq!(extent, [0, 7 * 9 * 11 * 4]);
        assert_eq!(results[1].value(6), 3, "pairs");
        let mut wanted = before[1].clone();
        for byte in 0..240 {
            let (number, inside) = (byte / 4, byte % 4);
            let (z, y, x) = (number / 20, number / 5 % 4, number % 5);
            let place = 4 * (((2 + z) * 9 + 1 + y) * 11 + 4 + x) + inside;
            wanted[400 + place] = before[0][40 + place];
        }
        for (i, place) in [0, 3, 4, 7, 8, 11].into_iter().enumerate() {
            wanted[100_000 + 4 * i..][..4].copy_from_slice(&before[0][8 + 4 * place..][..4]);
        }
        assert_eq!(
            memory(there).iter().zip(&wanted).position(|(came, wanted)| came != wanted),
            None,
            "comm {way:#x}"
        );
    }
}

#[test]
fn longer_messages_are_cut_and_shorter_ones_leave_the_rest() {
    let world = World::new(2, &config());
    let comm = direct(&world, 1, SMALL);
    for way in [WORLD, comm] {
        // In lines, in a frame, in slots and in frames: elements of 3 bytes, of which not all are whole.
        for (sent, room, seed) in
            [(40, 21, 1), (21, 40, 2), (4000, 1007, 3), (1007, 4000, 4), (9, 0, 5), (0, 9, 6)]
        {
            let before = fill(&world, seed);
            let (here, there) = (&world.ranks[0], &world.ranks[1]);
            let form = |blocks: i64| Form::vector(CHAR, blocks, 3, 10);
            let first = Form::vector(CHAR, 1, 3 * sent, 1)
                .make(Script::default(), here, 0)
                .call(GMPI_CALL_SEND, &[here.at(1), 1, made(here, 0), 1, 0, way]);
            let second = form(room)
                .make(Script::default(), there, 0)
                .call(GMPI_CALL_RECV, &[there.at(5), 1, made(there, 0), 0, 0, way])
                .status(0);
            let results = world.run_blocks(vec![vec![first], vec![second]], 96);
            let cut = if sent > room { GMPI_ERR_TRUNCATE } else { 0 };
            assert_eq!(results[0].errors(0), [0, 0, 0], "{sent} to {room}");
            assert_eq!(results[1].errors(0), [0, 0, cut], "{sent} to {room}");
            let fits = 3 * sent.min(room) as usize;
            if cut == 0 || way == comm {
                assert_eq!(results[1].status(0), (0, 0, cut, fits as u64), "{sent} to {room}");
            }
            let mut wanted = before[1].clone();
            for (i, place) in form(room).places().into_iter().enumerate().take(fits) {
                wanted[5 + place as usize] = before[0][1 + i];
            }
            let came = memory(there);
            let wrong = came.iter().zip(&wanted).position(|(came, wanted)| came != wanted);
            assert_eq!(wrong, None, "{sent} to {room} by {way:#x}");
        }
    }
}
