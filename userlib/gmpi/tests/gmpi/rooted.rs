//! Gathers and scatters: the same calls on every carrier, and what comes of them.

#![allow(dead_code, reason = "not every test binary uses all")]

use ggas_gmpi::layout::*;
use ggas_selftest::args::*;

use crate::world::{BYTES, LONG, Script};

/// Where each call's blocks go.
const GATHERED: usize = BYTES / 2;
const SCATTERED: usize = GATHERED + (128 << 10);
const IN_PLACE: usize = SCATTERED + (64 << 10);
const LATER: usize = IN_PLACE + (128 << 10);
const NOTHING: [u64; 3] = [7, u64::MAX, 99];

/// What one member does, whose memory begins at `at`.
pub struct Member {
    pub at: u64,
    pub rank: usize,
    pub size: usize,
    pub root: usize,
    /// Longs of a block.
    pub count: u64,
    pub comm: u64,
}

fn first_of(rank: usize) -> u64 {
    10_000 * rank as u64
}

impl Member {
    fn is_root(&self) -> bool {
        self.rank == self.root
    }

    /// What is the root's alone is nothing of the kind elsewhere.
    fn gather(&self, own: [u64; 3], to: usize) -> [u64; 8] {
        let to = self.at + to as u64;
        let [at, count, of] = if self.is_root() { [to, self.count, LONG] } else { NOTHING };
        [own[0], own[1], own[2], at, count, of, self.root as u64, self.comm]
    }

    fn scatter(&self, to: [u64; 3]) -> [u64; 8] {
        let [at, count, of] = if self.is_root() { [self.at, self.count, LONG] } else { NOTHING };
        [at, count, of, to[0], to[1], to[2], self.root as u64, self.comm]
    }

    fn block(&self, offset: usize) -> [u64; 3] {
        [self.at + offset as u64, self.count, LONG]
    }

    /// Each call, and with the root's block in place; `later`: those, too, that are waited for later.
    pub fn script(&self, later: bool) -> Script {
        let (rank, size, count) = (self.rank, self.size as u64, self.count);
        let own = IN_PLACE + 8 * count as usize * rank;
        let in_place = [GMPI_IN_PLACE_ADDRESS.into(), 0, 0];
        let place = |offset: usize| if self.is_root() { in_place } else { self.block(offset) };
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[self.at, size * count, first_of(rank)])
            .call(SELFTEST_GMPI_FILL, &[self.at + own as u64, count, first_of(rank)])
            .call(GMPI_CALL_GATHER, &self.gather(self.block(0), GATHERED))
            .call(GMPI_CALL_SCATTER, &self.scatter(self.block(SCATTERED)))
            .call(GMPI_CALL_GATHER, &self.gather(place(own), IN_PLACE))
            .call(GMPI_CALL_SCATTER, &self.scatter(place(SCATTERED + (32 << 10))));
        if !later {
            return script;
        }
        script
            .call(GMPI_CALL_IGATHER, &self.gather(self.block(0), LATER))
            .request(0)
            .call(GMPI_CALL_ISCATTER, &self.scatter(self.block(LATER + (64 << 10))))
            .request(1)
            .call(GMPI_CALL_WAITALL, &[2])
            .request(0)
    }

    /// What its memory holds then: `read` gives longs from an offset on.
    pub fn check(&self, later: bool, read: impl Fn(usize, usize) -> Vec<u64>) {
        let (size, count) = (self.size, self.count as usize);
        let what = format!("rank {} of {size}, root {}, {count} longs", self.rank, self.root);
        let all: Vec<u64> = (0..size).flat_map(|of| (0..self.count).map(move |i| first_of(of) + i)).collect();
        let from = first_of(self.root) + self.rank as u64 * self.count;
        let mine: Vec<u64> = (from..from + self.count).collect();
        if self.is_root() {
            let gathers = [Some(GATHERED), Some(IN_PLACE), later.then_some(LATER)];
            for at in gathers.into_iter().flatten() {
                assert_eq!(read(at, size * count), all, "{what}: gathered");
            }
            let own = first_of(self.rank)..first_of(self.rank) + (size * count) as u64;
            assert!(read(0, size * count).into_iter().eq(own), "{what}: what was scattered is still there");
        }
        let elsewhere = (!self.is_root()).then_some(SCATTERED + (32 << 10));
        let scatters = [Some(SCATTERED), elsewhere, later.then_some(LATER + (64 << 10))];
        for at in scatters.into_iter().flatten() {
            assert_eq!(read(at, count), mine, "{what}: scattered");
        }
    }
}
