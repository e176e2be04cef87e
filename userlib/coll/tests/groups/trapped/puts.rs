//! Puts of several blocks, packed puts and bulk puts.

use std::time::Duration;

use extoll_sim::faults::{Event, Faults};
use ggas_kernels::{KernelMem, LaunchError};
use ggas_selftest::args::*;
use ggas_window::Rings;

use super::failures::assert_reaches;
use super::sides::{Links, SOON, Sides};

const ROUNDS: u32 = 5;
/// Bound of waits where some are in vain.
const LIMIT: Duration = Duration::from_secs(3);

/// Who puts together, and how many of them.
#[derive(Clone, Copy, Debug)]
struct Team {
    form: u32,
    blocks: u32,
    threads: u32,
    /// Callers that put for themselves.
    lanes: u32,
}

impl Team {
    const fn new(form: u32, blocks: u32, threads: u32, lanes: u32) -> Team {
        Team { form, blocks, threads, lanes }
    }
}

const TEAMS: [Team; 4] = [
    Team::new(SELFTEST_PUT_THREAD, 2, 3, 6),
    Team::new(SELFTEST_PUT_WARP, 2, 64, 4),
    Team::new(SELFTEST_PUT_BLOCK, 1, 96, 1),
    Team::new(SELFTEST_PUT_BLOCK, 3, 32, 3),
];
const BULK: [Team; 4] = [
    Team::new(SELFTEST_PUT_BULK_BLOCK, 1, 96, 1),
    Team::new(SELFTEST_PUT_BULK_BLOCK, 3, 32, 3),
    Team::new(SELFTEST_PUT_BULK_GRID, 1, 96, 1),
    // Each has a share, and a signal.
    Team::new(SELFTEST_PUT_BULK_GRID, 3, 64, 1),
];

/// Nodes 0 and 1 of some, which put to each other.
struct Pair {
    sides: Sides,
    team: Team,
    args: selftest_put,
    rings: Option<Rings>,
    results: KernelMem,
}

impl Pair {
    /// Each lane puts `bytes`, so far off alignment; `packed`: lines of its ring, and puts before it takes the first.
    fn new(
        (nodes, links, timeout): (usize, &Links, Duration),
        team: Team,
        (bytes, skew): (u64, u32),
        packed: Option<(u32, u32)>,
    ) -> Pair {
        let each = (bytes + 32).next_multiple_of(16);
        let data_end = SELFTEST_PUT_DATA as usize + team.lanes as usize * 3 * each as usize;
        let rings = packed.map(|(lines, _)| Rings {
            offset: data_end.next_multiple_of(64),
            lanes: team.lanes,
            lines,
        });
        let end = rings.map_or(data_end, |rings| rings.end(nodes).expect("a few bytes"));
        let sides = Sides::new(nodes, end, links, timeout);
        let results = sides.cpu.alloc(32).expect("memory");
        let args = selftest_put {
            bytes,
            each,
            skew,
            form: team.form,
            rounds: ROUNDS,
            rings: rings.map_or(0, |rings| rings.offset as u64),
            lanes: rings.map_or(0, |rings| rings.lanes),
            lines_log2: rings.map_or(0, |rings| rings.lines_log2()),
            puts: packed.map_or(0, |(_, puts)| puts),
            ..Default::default()
        };
        Pair { sides, team, args, rings, results }
    }

    /// Both nodes' kernels.
    fn run(&self) -> Result<(), LaunchError> {
        let args = [0, 1].map(|rank| self.sides.put(rank, &self.results, self.args));
        self.sides.run_grids("ggas_selftest_put", (self.team.blocks, self.team.threads), &args)
    }

    /// Both nodes' kernels end well, with the right bytes.
    fn run_well(&self, what: &str) {
        self.run().unwrap_or_else(|error| panic!("{what}: {error}"));
        let reports = [0, 1].map(|rank| self.sides.windows[rank].member(rank).unwrap().report());
        assert_eq!(self.results.read_u64s(0, 4).unwrap(), [0; 4], "{what}: {reports:?}");
    }
}

#[test]
fn several_blocks_of_a_node_put_and_get() {
    const BYTES: u64 = 208;
    for links in Links::all() {
        for team in TEAMS {
            let pair = Pair::new((2, &links, SOON), team, (BYTES, 0), None);
            pair.run_well(&format!("{team:?}, {links:?}"));
            // Two signals of each lane, set or added; its put and its get are in units of 16 bytes.
            let lanes = u64::from(team.lanes * ROUNDS);
            // As the kernels end, a load behind their stores.
            let [stores, loads] = [lanes * (BYTES / 16 + 2), lanes * BYTES / 16 + 1];
            for rank in 0..2 {
                let counts = pair.sides.counts(rank);
                assert_eq!(counts, [stores, loads, loads, stores, loads, loads], "{team:?}, {links:?}");
            }
        }
    }
}

#[test]
fn packed_puts_pass_the_unit() {
    for links in Links::all() {
        for team in TEAMS {
            for (bytes, skew, lines, puts) in
                [(8, 0, 8, 1), (1, 3, 8, 4), (24, 0, 16, 3), (203, 2, 64, 1), (1000, 0, 128, 1)]
            {
                let what = format!("{team:?}, {bytes} bytes, {lines} lines, {links:?}");
                let pair = Pair::new((2, &links, SOON), team, (bytes, skew), Some((lines, puts)));
                // The second kernel goes on where the first one closed.
                for kernels in 1..=2 {
                    pair.run_well(&what);
                    let least = kernels * u64::from(ROUNDS * team.lanes) * bytes.div_ceil(12);
                    for rank in 0..2 {
                        // All lines were taken. What is behind them, how far the other side came, nobody waits for.
                        let [sent, loads, _, received, ..] = pair.sides.counts(rank);
                        assert!(sent >= least && received >= least, "{what}: {sent}, {received} of {least}");
                        assert_eq!(
                            loads, kernels,
                            "{what}: packed puts poll their own part; each launch ends behind its stores"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn bulk_puts_pass_the_unit() {
    for links in Links::all() {
        for team in BULK {
            for (bytes, skew) in [(16, 0), (203, 5), (1008, 0), (1000, 8)] {
                let what = format!("{team:?}, {bytes} bytes off by {skew}, {links:?}");
                let pair = Pair::new((2, &links, SOON), team, (bytes, skew), None);
                pair.run_well(&what);
                let [sent, loads, _, received, ..] = pair.sides.counts(0);
                // As the kernels end, a load behind their stores.
                assert_eq!((sent, loads), (pair.sides.counts(1)[3], 1), "{what}");
                assert_eq!(received, sent, "{what}: both put alike, and waited for the last signal");
                if bytes % 16 == 0 && skew == 0 {
                    let each = u64::from(team.lanes) * (bytes / 16) + 2 * u64::from(team.blocks);
                    assert_eq!(sent, u64::from(ROUNDS) * each, "{what}");
                }
            }
        }
    }
}

/// One of the nodes dies under puts of several blocks: all blocks end, and others are reached as ever.
#[test]
fn puts_to_a_node_that_dies_end() {
    for seed in 0..3 {
        let lost = if seed % 2 == 0 { 0.0 } else { 0.02 };
        for (team, packed) in
            [(TEAMS[1], Some((16, 2))), (TEAMS[3], Some((64, 1))), (BULK[1], None), (BULK[3], None)]
        {
            let faults = Faults::none().seed(seed).drop(lost).after(300 + 40 * seed, Event::Kill(1));
            let links = Links::Simulated(seed, faults);
            let what = format!("{team:?}, {links:?}");
            let mut pair = Pair::new((3, &links, LIMIT), team, (120, 0), packed);
            pair.args.rounds = 1_000_000;
            let ended = pair.run();
            let window = |rank: usize| &pair.sides.windows[rank];
            let reports: Vec<_> = (0..2).filter_map(|i| window(i).member(i).unwrap().report()).collect();
            match ended {
                Ok(()) => assert!(!reports.is_empty(), "{what}: a wait timed out, and is reported"),
                Err(LaunchError::Access { .. }) => {}
                Err(other) => panic!("{what}: {other}"),
            }
            assert_eq!(pair.results.load_u64(8).unwrap(), 0, "{what}: what came is right");
            let elapsed = pair.sides.simulation.as_ref().unwrap().elapsed();
            assert!(elapsed < 3 * LIMIT, "{what}: {elapsed:?}");
            for rank in 0..2 {
                window(rank).member(rank).unwrap().clear_report();
                pair.rings.inspect(|rings| rings.clear(window(rank)).unwrap());
            }
            assert_reaches(&pair.sides, 2);
        }
    }
}
