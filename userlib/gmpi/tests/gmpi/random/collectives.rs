//! Collectives of random programs.

use ggas_gmpi::layout::*;

use super::{Plan, Program};
use crate::world::LONG;

const COUNTS: [usize; 11] = [0, 1, 2, 24, 25, 26, 28, 29, 100, 504, 1200];

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Program<'_> {
    /// A collective; of one that does not wait: its requests, by member.
    pub(super) fn collective(&mut self, kind: usize, group: &[usize], waits: bool) {
        let (n, count) = (group.len(), COUNTS[self.rng.usize(0..COUNTS.len())]);
        let (which, root, in_place) = (self.rng.usize(0..8), self.rng.usize(0..n), self.rng.u8(0..4) == 0);
        let (op, add): (u32, fn(u64, u64) -> u64) = match self.rng.usize(0..3) {
            0 => (GMPI_SUM, u64::wrapping_add),
            1 => (GMPI_BXOR, |a, b| a ^ b),
            _ => (GMPI_MAX, |a, b| (a as i64).max(b as i64) as u64),
        };
        // Blocks that all members have for each other are shorter.
        let count = if which >= 4 { count.min(100) } else { count };
        let own = if which == 5 || which == 7 { count * n } else { count };
        let data: Vec<Vec<u64>> =
            (0..n).map(|_| std::iter::repeat_with(|| self.rng.u64(..)).take(own).collect()).collect();
        let sum: Vec<u64> =
            (0..count).map(|i| data.iter().map(|data| data[i]).reduce(add).unwrap_or(0)).collect();
        for (i, rank) in group.iter().enumerate() {
            let rng = &mut *self.rng;
            let plan = &mut self.plans[*rank];
            let (comm, c, op) = (plan.comms[kind], count as u64, u64::from(op));
            let (len, mine) = (8 * count, bytes_of(&data[i]));
            let (call, arguments) = match which {
                0 => (GMPI_CALL_BARRIER, vec![comm]),
                1 => {
                    let at = both(plan, &mine, &bytes_of(&data[root]), rng);
                    (GMPI_CALL_BCAST, vec![at, c, LONG, root as u64, comm])
                }
                2 if i == root && in_place => {
                    let at = both(plan, &mine, &bytes_of(&sum), rng);
                    (GMPI_CALL_REDUCE, vec![GMPI_IN_PLACE_ADDRESS.into(), at, c, LONG, op, root as u64, comm])
                }
                2 => {
                    let result = if i == root { bytes_of(&sum) } else { Vec::new() };
                    let (from, to) = (plan.source(&mine, rng), plan.target(len, &result, rng));
                    (GMPI_CALL_REDUCE, vec![from, to, c, LONG, op, root as u64, comm])
                }
                3 if in_place => {
                    let at = both(plan, &mine, &bytes_of(&sum), rng);
                    (GMPI_CALL_ALLREDUCE, vec![GMPI_IN_PLACE_ADDRESS.into(), at, c, LONG, op, comm])
                }
                3 => {
                    let (from, to) = (plan.source(&mine, rng), plan.target(len, &bytes_of(&sum), rng));
                    (GMPI_CALL_ALLREDUCE, vec![from, to, c, LONG, op, comm])
                }
                4 => {
                    let from = plan.source(&mine, rng);
                    let to = plan.target(len * n, &bytes_of(&data.concat()), rng);
                    (GMPI_CALL_ALLGATHER, vec![from, c, LONG, to, c, LONG, comm])
                }
                6 | 7 => {
                    rooted(plan, which == 6, Rooted { i, root, in_place, count, data: &data, comm }, rng)
                }
                _ => {
                    let block = |from: &Vec<u64>| from[i * count..(i + 1) * count].to_vec();
                    let all: Vec<u64> = data.iter().flat_map(block).collect();
                    let (from, to) = (plan.source(&mine, rng), plan.target(len * n, &bytes_of(&all), rng));
                    (GMPI_CALL_ALLTOALL, vec![from, c, LONG, to, c, LONG, comm])
                }
            };
            let later = match call {
                GMPI_CALL_GATHER | GMPI_CALL_SCATTER => call + GMPI_CALL_IGATHER - GMPI_CALL_GATHER,
                _ => call + GMPI_CALL_IBARRIER - GMPI_CALL_BARRIER,
            };
            plan.call(if waits { call } else { later }, &arguments, 0);
            if !waits {
                plan.request();
            }
        }
    }
}

/// A buffer that is sent from and received into.
fn both(plan: &mut Plan, before: &[u8], after: &[u8], rng: &mut fastrand::Rng) -> u64 {
    let at = plan.source(before, rng);
    let offset = (at - plan.base) as usize;
    plan.after[offset..offset + after.len()].copy_from_slice(after);
    at
}

/// A gather or a scatter, as member `i` makes it.
struct Rooted<'a> {
    i: usize,
    root: usize,
    in_place: bool,
    count: usize,
    data: &'a [Vec<u64>],
    comm: u64,
}

fn rooted(plan: &mut Plan, gathers: bool, of: Rooted, rng: &mut fastrand::Rng) -> (u32, Vec<u64>) {
    let Rooted { i, root, in_place, count, data, comm } = of;
    let (is_root, c, len) = (i == root, count as u64, 8 * count);
    let (mine, in_place) = (bytes_of(&data[i]), in_place && is_root);
    // What is the root's alone.
    let nothing = [9, u64::MAX, 9];
    let (one, all) = if gathers {
        let whole = bytes_of(&data.concat());
        let mut before = vec![0x55; whole.len()];
        before[i * len..(i + 1) * len].copy_from_slice(&mine);
        let one = if in_place { GMPI_IN_PLACE_ADDRESS.into() } else { plan.source(&mine, rng) };
        let all = match (is_root, in_place) {
            (true, true) => [both(plan, &before, &whole, rng), c, LONG],
            (true, false) => [plan.target(whole.len(), &whole, rng), c, LONG],
            _ => nothing,
        };
        ([one, c, LONG], all)
    } else {
        let block = bytes_of(&data[root][i * count..(i + 1) * count]);
        let all = if is_root { [plan.source(&mine, rng), c, LONG] } else { nothing };
        let one = if in_place { GMPI_IN_PLACE_ADDRESS.into() } else { plan.target(len, &block, rng) };
        ([one, c, LONG], all)
    };
    let (from, to) = if gathers { (one, all) } else { (all, one) };
    let call = if gathers { GMPI_CALL_GATHER } else { GMPI_CALL_SCATTER };
    (call, [&from[..], &to, &[root as u64, comm]].concat())
}
