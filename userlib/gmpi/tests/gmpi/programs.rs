//! Random programs ([`random`](crate::random)) among nodes of this process. `GGAS_TEST_SEED=n` runs program n alone, with
//! `GGAS_TEST_SEEDS=m` m from it on.

use ggas_gmpi::{Config, Direct, PLACEMENTS};

use crate::direct::{SMALL, direct_with};
use crate::random::{self, AREA, Plan};
use crate::world::*;

/// Programs of one world.
const EACH: u64 = 10;

/// What depends on a seed besides the program.
fn shape(seed: u64) -> (Config, usize) {
    let group = (seed / EACH) as usize;
    let placement = PLACEMENTS[group % PLACEMENTS.len()];
    (Config { placement, ports: 2, ..config() }, 1 + group % 4)
}

/// The seeds that one world serves, together.
fn groups(count: u64) -> Vec<Vec<u64>> {
    let seeds: Vec<u64> = random::seeds(count).collect();
    seeds.chunk_by(|a, b| a / EACH == b / EACH).map(<[u64]>::to_vec).collect()
}

#[test]
fn random_programs_on_two_blocks_of_each_rank_end_as_mpi_says() {
    for seeds in groups(60) {
        let (config, size) = shape(seeds[0]);
        let world = World::new(size, &config);
        let comms: Vec<Vec<Vec<u64>>> =
            (0..2).map(|block| world.all(|gmpi, _| random::communicators(gmpi, block))).collect();
        for seed in seeds {
            let plans = |block: usize| {
                let bases: Vec<u64> = world.ranks.iter().map(|rank| rank.at(block * AREA)).collect();
                random::programs(2 * seed + block as u64, &bases, &comms[block])
            };
            let memory = |rank: usize, block: usize, write: Option<&[u8]>| {
                let memory = &world.ranks[rank].memory;
                exchange(
                    write,
                    |bytes| memory.write(block * AREA, bytes),
                    |bytes| memory.read(block * AREA, bytes),
                )
            };
            check(&world, &[plans(0), plans(1)], memory, &format!("seed {seed}, {config:?}, {size} ranks"));
        }
    }
}

#[test]
fn random_programs_with_messages_from_kernel_to_kernel_end_as_mpi_says() {
    for seeds in groups(60) {
        let (config, size) = shape(seeds[0]);
        let size = size.min(3);
        let world = World::new(size, &Config { ports: 1, ..config.clone() });
        let direct = if (seeds[0] / EACH).is_multiple_of(2) { SMALL } else { Direct::default() };
        let end = direct.end(1, size).expect("a window's worth");
        let (comm, window) = direct_with(&world, 1, direct, AREA);
        let mut comms = world.all(|gmpi, _| random::communicators(gmpi, 0));
        comms.iter_mut().for_each(|comms| comms.push(comm));
        for seed in seeds {
            // In the window, where long messages go to their place; or anywhere, with calls of the daemons between them.
            let inside = seed % 2 == 0;
            let base = |rank: usize| {
                let member = window.member(rank).expect("it is one");
                member.pointer_of(rank).expect("it is mapped") + end as u64
            };
            let bases: Vec<u64> =
                (0..size).map(|rank| if inside { base(rank) } else { world.ranks[rank].at(0) }).collect();
            let memory = |rank: usize, _: usize, write: Option<&[u8]>| {
                let memory = &world.ranks[rank].memory;
                if inside {
                    exchange(
                        write,
                        |bytes| window.write(rank, end, bytes),
                        |bytes| window.read(rank, end, bytes),
                    )
                } else {
                    exchange(write, |bytes| memory.write(0, bytes), |bytes| memory.read(0, bytes))
                }
            };
            let plans = if inside { random::programs_of_kernels } else { random::programs };
            let plans = plans(seed, &bases, &comms);
            check(&world, &[plans], memory, &format!("seed {seed}, {config:?}, {size} ranks, {direct:?}"));
        }
    }
}

/// Writes an area, or reads it.
fn exchange<E: std::fmt::Debug>(
    bytes: Option<&[u8]>,
    write: impl FnOnce(&[u8]) -> Result<(), E>,
    read: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Vec<u8> {
    let mut all = vec![0; AREA];
    bytes.map_or_else(|| read(&mut all), write).expect("in range");
    all
}

/// Runs what the blocks of all ranks do.
fn check(
    world: &World,
    plans: &[Vec<Plan>],
    memory: impl Fn(usize, usize, Option<&[u8]>) -> Vec<u8>,
    what: &str,
) {
    for (block, plans) in plans.iter().enumerate() {
        for (rank, plan) in plans.iter().enumerate() {
            memory(rank, block, Some(&plan.before));
        }
    }
    let scripts = |rank: usize| plans.iter().map(|plans| plans[rank].script.clone()).collect();
    let results = world.run_blocks((0..world.ranks.len()).map(scripts).collect(), 64);
    for (block, plans) in plans.iter().enumerate() {
        for (rank, plan) in plans.iter().enumerate() {
            let errors = results[rank].errors(block);
            let status = |number| results[rank].status_of(block, number);
            if let Some(wrong) = random::difference(plan, true, &errors, status, &memory(rank, block, None)) {
                panic!("{what}, rank {rank}, block {block}: {wrong}");
            }
        }
    }
    world.ranks.iter().for_each(|rank| rank.gmpi.check().expect("nothing is open"));
}
