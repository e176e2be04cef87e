//! Dynamic calls one behind the other on scripted machines: what rank 0 learns of them in virtual time.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::*;
use crate::LEARNING_CALLS;
use crate::choosing::Copies;
use crate::learning::Learning;
use crate::station::{Lane, Station};

const RANKS: usize = 8;
const SIZES: [usize; 6] = [8, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 32 << 20];

/// What a mechanism takes: from a copy's start on, and for each KiB, in ns. Copies by one mechanism are served one after the other.
type Speed = (u64, u64);

/// A machine: copies through the host, by the engine, by stores, in bulk; and which calls come late.
#[derive(Clone)]
struct Machine {
    speeds: [Speed; 4],
    /// Of so many copies one takes four times as long; 0: none.
    late: u64,
    random: RefCell<fastrand::Rng>,
}

impl Machine {
    fn new(speeds: [Speed; 4]) -> Machine {
        Machine { speeds, late: 0, random: RefCell::new(fastrand::Rng::with_seed(5)) }
    }
}

impl Costs for Machine {
    fn of(&self, _: usize, work: &Work) -> Cost {
        let (unit, bytes) = match work {
            Work::Copy { to, from, bytes, .. } if Lane::of(*to, *from) == Lane::Staged => (0, *bytes),
            Work::Copy { by, bytes, .. } => (1 + *by as usize, *bytes),
            Work::Reduce { bytes, .. } => (4, *bytes),
        };
        let (fixed, each) = *self.speeds.get(unit).unwrap_or(&(4000, 2));
        let time = fixed + bytes as u64 * each / 1024;
        let is_late = self.late > 0 && self.random.borrow_mut().u64(0..self.late) == 0;
        Cost { issue: 500, time: if is_late { 4 * time } else { time }, unit: Some(unit as u32) }
    }

    fn word(&self) -> u64 {
        200
    }

    fn notice(&self) -> u64 {
        1000
    }
}

/// Each call's time at rank 0, and how its copies were made.
fn calls(
    machine: &Machine,
    kind: Collective,
    algorithm: Algorithm,
    (bytes, number): (usize, usize),
) -> Vec<(Duration, Copies)> {
    let layout = Layout::new(RANKS, 64 << 20).expect("it fits");
    let call = Plan { layout, ..plan(algorithm, kind, RANKS, bytes, 0) };
    let model = Model::new(RANKS, machine.clone());
    let (learning, made) = (RefCell::new(Learning::default()), RefCell::new(Vec::new()));
    let met = Cell::new(0);
    let ran = model.run(|rank| {
        let (call, learning, made, met) = (&call, &learning, &made, &met);
        async move {
            let mut cursor = Cursor::default();
            let learns = rank.rank() == 0 && algorithm == Algorithm::Dynamic;
            for _ in 0..number {
                cursor.learned = if learns { learning.borrow_mut().next(kind, bytes, RANKS) } else { None };
                let began = rank.now();
                call.run(rank, &mut cursor).await;
                let took = Duration::from_nanos(rank.now() - began);
                if learns {
                    learning.borrow_mut().took(kind, bytes, took);
                }
                if rank.rank() == 0 {
                    made.borrow_mut().push((took, cursor.mix.gather));
                }
            }
            met.set(met.get() + 1);
        }
    });
    ran.expect("all ranks make the same calls");
    assert_eq!(met.get(), RANKS);
    made.into_inner()
}

fn mean(calls: &[(Duration, Copies)]) -> f64 {
    calls.iter().map(|call| call.0.as_nanos() as f64).sum::<f64>() / calls.len() as f64
}

/// What a program may choose of static ones: as the benchmarks have them.
fn ways() -> [Algorithm; 5] {
    let of = |staged, by| Algorithm::Static { staged, by };
    use Copier::*;
    [of(0, Engine), of(7, Engine), of(3, Engine), of(0, Stores), of(0, Bulk)]
}

/// Machines of which some mechanism is the quickest, or two together, or none is far ahead.
fn machines() -> [[Speed; 4]; 6] {
    [
        [(9000, 40), (2500, 3), (9000, 9), (9000, 9)],
        [(2000, 3), (9000, 20), (9000, 30), (9000, 40)],
        [(3000, 10), (3000, 10), (30_000, 60), (30_000, 60)],
        [(6000, 40), (5000, 8), (2000, 3), (7000, 6)],
        [(6000, 40), (2500, 8), (7000, 6), (5000, 2)],
        // Nothing is far ahead.
        [(3000, 11), (3100, 10), (3050, 10), (2900, 11)],
    ]
}

const KINDS: [Collective; 3] = [Collective::Allreduce, Collective::Reduce, Collective::Allgather];

#[test]
fn behind_the_trials_each_call_takes_the_quickest_way_whatever_the_machine() {
    let mut won = Vec::new();
    for (number, speeds) in machines().into_iter().enumerate() {
        let machine = Machine::new(speeds);
        for (kind, bytes) in KINDS.into_iter().flat_map(|kind| SIZES.map(|bytes| (kind, bytes))) {
            if kind == Collective::Allgather && bytes > 1 << 20 {
                continue;
            }
            let fixed = ways().map(|way| mean(&calls(&machine, kind, way, (bytes, 3))[1..]));
            let best = fixed.iter().copied().fold(f64::MAX, f64::min);
            let made = calls(&machine, kind, Algorithm::Dynamic, (bytes, LEARNING_CALLS + 40));
            let took = mean(&made[LEARNING_CALLS..]);
            let what = format!("machine {number}, {kind} of {bytes} bytes: {took} ns, fixed {fixed:?}");
            assert!(took <= 1.1 * best, "{what}");
            won.push(made.last().expect("a call").1);
        }
    }
    // It is not always the same way.
    let all = |of: fn(&Copies) -> usize| won.iter().filter(|copies| of(copies) == RANKS - 1).count();
    let each = [all(|one| one.engine), all(|one| one.stores)];
    assert!(each.iter().all(|number| *number >= 6), "{each:?}");
}

#[test]
fn calls_that_are_late_by_chance_do_not_mislead_it_for_long() {
    for (number, speeds) in machines().into_iter().enumerate() {
        let quiet = Machine::new(speeds);
        let machine = Machine { late: 60, ..quiet };
        for bytes in [8, 64 << 10, 4 << 20] {
            let kind = Collective::Allreduce;
            let fixed = ways().map(|way| mean(&calls(&machine, kind, way, (bytes, 200))));
            let best = fixed.iter().copied().fold(f64::MAX, f64::min);
            let took = mean(&calls(&machine, kind, Algorithm::Dynamic, (bytes, LEARNING_CALLS + 500))[100..]);
            assert!(took <= 1.1 * best, "machine {number}, {bytes} bytes: {took} ns, fixed {fixed:?}");
        }
    }
}
