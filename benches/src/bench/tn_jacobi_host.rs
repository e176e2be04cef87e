//! The relaxation by the hosts alone, with threads of each that share its rows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::tn_jacobi::Work;
use crate::args::BENCH_JACOBI_SIDES;
use crate::grid::{SIDES, bytes, opposite, relax};
use crate::hosts::{Meeting, Shared, threads_for, together, until};
use crate::{BenchError, Check};

const SIDES_OF_NODE: usize = BENCH_JACOBI_SIDES as usize;

/// What a node's threads and its neighbours' use.
struct Host {
    /// What iteration k reads is field k % 2.
    fields: [Shared; 2],
    /// Edges that come, of even and odd numbers, and how many came from each side.
    came: [[Shared; 2]; SIDES_OF_NODE],
    counters: [AtomicU64; SIDES_OF_NODE],
    meeting: Meeting,
}

/// One run from the input on, compared afterwards; how long it took.
pub(super) fn run(work: &Work, check: &mut Check) -> Result<Duration, BenchError> {
    let side = work.grid.side;
    let threads = threads_for(4 * side * side, work.nodes).min(side as u32);
    let edge = || Shared::new(vec![f32::NAN; side]);
    let host = |node| Host {
        fields: [work.input(node).clone(), work.input(node).clone().poisoned()]
            .map(|field| Shared::new(field.points)),
        came: std::array::from_fn(|_| [edge(), edge()]),
        counters: Default::default(),
        meeting: Meeting::new(threads, work.timeout),
    };
    let mut hosts: Vec<Host> = (0..work.nodes).map(host).collect();
    let took = together(work.nodes * threads, work.timeout, |number, gate| {
        let (node, thread) = (number / threads, (number % threads) as usize);
        gate.pass()?;
        for k in 0..work.iterations {
            iterate(work, &hosts, node, k, (thread, threads as usize))?;
        }
        Ok(())
    })?;
    for (node, host) in (0..).zip(&mut hosts) {
        let seen = bytes(host.fields[0].all());
        let came =
            work.grid.neighbours(node).map(|(side, _)| (side, bytes(host.came[side as usize][0].all())));
        let came: Vec<_> = came.collect();
        work.check(node, &seen, &came, check);
    }
    Ok(took)
}

/// One thread's part of an iteration: its rows, then the first one exchanges the edges for all.
fn iterate(
    work: &Work,
    hosts: &[Host],
    node: u32,
    k: u64,
    (thread, threads): (usize, usize),
) -> Result<(), BenchError> {
    let (host, side) = (&hosts[node as usize], work.grid.side);
    let (now, next) = (&host.fields[k as usize % 2], &host.fields[(k + 1) as usize % 2]);
    let shape = work.grid.shape();
    let rows = side * thread / threads + 1..side * (thread + 1) / threads + 1;
    {
        // SAFETY: nobody writes what is read before all threads have met; these rows are this thread's.
        let (now, next) = unsafe {
            (now.get(0..shape.len()), next.get_mut(shape.at(rows.start, 0)..shape.at(rows.end, 0)))
        };
        relax(now, next, shape, rows);
    }
    host.meeting.meet()?;
    if thread == 0 {
        exchange(work, hosts, node, k)?;
    }
    host.meeting.meet()
}

fn exchange(work: &Work, hosts: &[Host], node: u32, k: u64) -> Result<(), BenchError> {
    let (host, parity) = (&hosts[node as usize], (k + 1) as usize % 2);
    let (side, shape) = (work.grid.side, work.grid.shape());
    // SAFETY: the node's other threads wait meanwhile.
    let next = unsafe { host.fields[parity].get_mut(0..shape.len()) };
    for (at, to) in work.grid.neighbours(node) {
        let (there, from) = (&hosts[to as usize], opposite(at) as usize);
        // SAFETY: the neighbour reads it behind its counter; what it read of it before, it has sent back since.
        let edge = unsafe { there.came[from][parity].get_mut(0..side) };
        shape.edge(at, false).zip(edge).for_each(|(point, value)| *value = next[point]);
        there.counters[from].store(k + 1, Ordering::Release);
    }
    for at in SIDES.into_iter().filter(|at| work.grid.neighbour(node, *at).is_some()) {
        let counter = &host.counters[at as usize];
        until("an edge", work.timeout, || counter.load(Ordering::Acquire) > k)?;
        // SAFETY: the counter says that it came; the next of this number comes after this one was used.
        let edge = unsafe { host.came[at as usize][parity].get(0..side) };
        shape.edge(at, true).zip(edge).for_each(|(point, value)| next[point] = *value);
    }
    Ok(())
}
