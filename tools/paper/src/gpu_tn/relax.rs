//! The programs of section 5.3: compute, send the edges to the neighbours, wait for theirs.

use std::ops::Range;

use extoll_sim::timed::{Block, Flag, Kernel, Node, Place, Ps, Put, System, Timed, Trigger};

use super::field::{Field, Side};
use super::way::{Way, compute_on, send};
use crate::memory::Memory;
use crate::programs::{between_gpus, on_all, places};
use crate::{Checked, PaperError};

/// Bytes of a point, and how many a point's computation reads from and writes to memory: each field once.
const FLOAT: u64 = 4;
pub(super) const TOUCHED: u64 = 2 * FLOAT;

/// A relaxation of `across` x `across` nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relaxation {
    /// Nodes along a side.
    pub across: usize,
    /// Points along a side of a node's grid.
    pub side: usize,
    /// How often.
    pub iterations: usize,
    /// Real values, compared with a serial run; else lengths only.
    pub values: bool,
}

/// What the tasks of a node share.
#[derive(Clone)]
struct Member {
    relaxation: Relaxation,
    me: usize,
    /// What iteration k reads is at k % 2.
    fields: Option<[Memory<Field>; 2]>,
    /// Edges that came from each side, in the order of [`Side::ALL`].
    came: Memory<[u64; 4]>,
    /// Iterations of which all edges came. A neighbour may be one ahead, so that their sum says nothing. Who waits
    /// looks at all sides' words at once.
    complete: Flag,
}

impl Member {
    fn neighbour(&self, side: Side) -> Option<usize> {
        let across = self.relaxation.across;
        let (row, column) = (self.me / across, self.me % across);
        match side {
            Side::North => row.checked_sub(1).map(|row| row * across + column),
            Side::South => (row + 1 < across).then(|| self.me + across),
            Side::West => column.checked_sub(1).map(|column| row * across + column),
            Side::East => (column + 1 < across).then(|| self.me + 1),
        }
    }

    fn neighbours(&self) -> impl Iterator<Item = (Side, usize)> + '_ {
        Side::ALL.into_iter().filter_map(|side| Some((side, self.neighbour(side)?)))
    }

    /// An edge came from this side.
    fn count(&self, from: Side) {
        let least =
            |came: &[u64; 4]| self.neighbours().map(|(side, _)| came[side as usize]).min().unwrap_or(0);
        let mut came = self.came.lock();
        let before = least(&came);
        came[from as usize] += 1;
        let complete = least(&came) - before;
        drop(came);
        self.complete.add(complete);
    }

    /// The put of this iteration's edge at `side`, to the member there.
    fn put(&self, side: Side, to: &Member, iteration: usize) -> Put {
        let bytes = self.relaxation.side as u64 * FLOAT;
        let (from, to, next) = (self.fields.clone(), to.clone(), (iteration + 1) % 2);
        between_gpus(to.me, bytes).then(move || {
            if let (Some(from), Some(into)) = (&from, &to.fields) {
                into[next].lock().take_edge(side.opposite(), &from[next].lock());
            }
            to.count(side.opposite());
        })
    }

    /// Computes the values of rows; the time for it is the caller's.
    fn relax(&self, rows: Range<usize>, iteration: usize) {
        let Some(fields) = &self.fields else { return };
        fields[iteration % 2].lock().relax(rows, &mut fields[(iteration + 1) % 2].lock());
    }

    /// Rows of one of `blocks` blocks.
    fn rows(&self, block: usize, blocks: usize) -> Range<usize> {
        let side = self.relaxation.side;
        side * block / blocks..side * (block + 1) / blocks
    }

    /// A block's share of an iteration.
    fn compute(&self, block: &Block<'_>, blocks: usize, iteration: usize) {
        let rows = self.rows(block.index(), blocks);
        let points = (rows.len() * self.relaxation.side) as u64;
        block.compute(points, points * TOUCHED);
        self.relax(rows, iteration);
    }

    fn blocks(&self, t: &Timed) -> usize {
        places(t.system()).min(self.relaxation.side)
    }
}

/// The time of all iterations, from when the first node begins until the last has its neighbours' edges.
pub(super) fn measure(
    system: &System,
    way: Way,
    relaxation: Relaxation,
    seed: u64,
) -> Result<(Ps, Checked), PaperError> {
    let Relaxation { across, side, iterations, values } = relaxation;
    let timed = Timed::new(system, across * across, seed)?;
    let whole = values.then(|| Field::random(across * side, seed));
    let part =
        |me: usize| whole.as_ref().map(|whole| whole.part(side, me / across * side, me % across * side));
    let members: Vec<Member> = (0..across * across)
        .map(|me| {
            let fields = part(me).map(|part| [Memory::new(part.clone()), Memory::new(part)]);
            Member { relaxation, me, fields, came: Memory::new([0; 4]), complete: timed.flag() }
        })
        .collect();
    let (t, all) = (&timed, &members);
    on_all(t, all.len(), |node| host(t, node, way, &all[node.index()], all));
    let mut checked = Checked::default();
    if let Some(whole) = whole {
        let mut fields = [whole.clone(), whole];
        for iteration in 0..iterations {
            let [even, odd] = &mut fields;
            let (now, next) = if iteration % 2 == 0 { (even, odd) } else { (odd, even) };
            now.relax(0..across * side, next);
        }
        let serial = &fields[iterations % 2];
        for member in &members {
            let Some(fields) = &member.fields else { continue };
            let expected = serial.part(side, member.me / across * side, member.me % across * side);
            checked.compare(&fields[iterations % 2].lock().inner(), &expected.inner());
        }
    }
    Ok((timed.now(), checked))
}

fn host(t: &Timed, node: Node<'_>, way: Way, me: &Member, all: &[Member]) {
    let side = me.relaxation.side;
    for iteration in 0..me.relaxation.iterations {
        match way {
            Way::Cpu => {
                let points = (side * side) as u64;
                compute_on(t.system().host.cores, node, points, points * TOUCHED);
                me.relax(0..side, iteration);
            }
            Way::Hdn => {
                launch(t, node, me, iteration);
                node.stream(0).synchronize();
            }
            Way::Gds => {
                // Posted before the kernel that it follows, while earlier ones run.
                let triggers: Vec<Trigger> = me
                    .neighbours()
                    .map(|(side, to)| node.prepare(me.put(side, &all[to], iteration), 1))
                    .collect();
                launch(t, node, me, iteration);
                for trigger in &triggers {
                    node.stream(0).trigger(trigger);
                }
                node.stream(0).wait_for(&me.complete, iteration as u64 + 1);
                continue;
            }
            Way::Tn => return triggered(t, node, me, all),
        }
        exchange(t, node, way, me, all, iteration);
    }
    node.stream(0).synchronize();
}

/// Two-sided: sends all edges, then receives all.
fn exchange(t: &Timed, node: Node<'_>, way: Way, me: &Member, all: &[Member], iteration: usize) {
    for (side, to) in me.neighbours() {
        let put = me.put(side, &all[to], iteration);
        send(t, node, if way == Way::Cpu { put.from(Place::Host).into(Place::Host) } else { put });
    }
    node.wait(&me.complete, iteration as u64 + 1);
    node.work(Ps::ns(t.system().host.receive_ns) * me.neighbours().count() as u64);
}

/// A kernel for one iteration.
fn launch(t: &Timed, node: Node<'_>, me: &Member, iteration: usize) {
    let (me, blocks) = (me.clone(), me.blocks(t));
    let kernel = Kernel::new("jacobi", blocks);
    node.stream(0).launch(kernel, move |block| me.compute(&block, blocks, iteration));
}

/// A row's or a column's operation, and which blocks pull its trigger.
fn pulls(side: Side, block: usize, blocks: usize) -> bool {
    match side {
        Side::North => block == 0,
        Side::South => block + 1 == blocks,
        Side::West | Side::East => true,
    }
}

/// One kernel for all iterations; the operations of the first two are registered before it, then one by one.
fn triggered(t: &Timed, node: Node<'_>, me: &Member, all: &[Member]) {
    let blocks = me.blocks(t);
    let triggers: Memory<Vec<Vec<(Side, Trigger)>>> = Memory::new(Vec::new());
    let (registered, done, sent) = (t.flag(), t.flag(), t.flag());
    let (member, ours, count, finished) = (me.clone(), triggers.clone(), registered.clone(), done.clone());
    let kernel = Kernel::new("jacobi", blocks);
    let ended = node.stream(0).launch(kernel, move |block| {
        for iteration in 0..member.relaxation.iterations {
            member.compute(&block, blocks, iteration);
            block.fence();
            block.wait(&count, iteration as u64 + 1, Place::Gpu);
            let pulled = ours.lock()[iteration].clone();
            for (side, trigger) in &pulled {
                if pulls(*side, block.index(), blocks) {
                    block.trigger(trigger);
                }
            }
            // All blocks, as rows of others are read next, and all edges.
            finished.add(1);
            block.wait(&finished, ((iteration + 1) * blocks) as u64, Place::Gpu);
            block.wait(&member.complete, iteration as u64 + 1, Place::Gpu);
        }
    });
    let edges = me.neighbours().count() as u64;
    for iteration in 0..me.relaxation.iterations {
        node.wait(&sent, (iteration as u64).saturating_sub(1) * edges);
        let prepare = |(side, to): (Side, usize)| {
            let threshold = (0..blocks).filter(|block| pulls(side, *block, blocks)).count() as u64;
            (side, node.prepare(me.put(side, &all[to], iteration).sent(&sent), threshold))
        };
        let registered_now: Vec<(Side, Trigger)> = me.neighbours().map(prepare).collect();
        triggers.lock().push(registered_now);
        registered.add(1);
    }
    node.wait(&ended, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_a_serial_run_whatever_the_way() {
        let system = System::named("gpu-tn").unwrap();
        for way in Way::ALL {
            for (across, side, iterations) in [(2, 1, 3), (2, 5, 4), (3, 16, 7), (4, 9, 6)] {
                let relaxation = Relaxation { across, side, iterations, values: true };
                let (_, checked) = measure(&system, way, relaxation, 3).unwrap();
                assert_eq!(checked.values, (across * side * across * side) as u64);
                assert_eq!(checked.wrong, 0, "{way:?}, {relaxation:?}");
            }
        }
    }
}
