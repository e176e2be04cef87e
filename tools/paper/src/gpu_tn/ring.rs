//! The ring allreduce of section 5.4.1: parts go round and are added to, then the sums go round.
//!
//! With n nodes the vector has n parts. In step s a node sends part (node - s) to its right neighbour and gets part
//! (node - s - 1) from its left one; in the first n - 1 steps it adds what came, in the others it keeps it.

use extoll_sim::timed::{Block, Flag, Kernel, Node, Place, Ps, Put, System, Timed, Trigger};

use super::way::{Way, compute_on, receive, send};
use crate::memory::Memory;
use crate::programs::{between_gpus, on_all, places};
use crate::{Checked, PaperError};

/// Bytes of an element.
const FLOAT: u64 = 4;
/// Bytes that an addition touches: two operands and the sum.
const TOUCHED: u64 = 3 * FLOAT;
/// Operations that a card holds at once (section 3.3: "no more than 16").
const ENTRIES: usize = 16;
/// Slices of a part, a message each: those of this step and of the next are registered together.
const SLICES: usize = ENTRIES / 2;

/// An allreduce.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    /// Nodes, at least 2.
    pub nodes: usize,
    /// Elements of the vector, floats.
    pub elements: usize,
    /// Cores that add, where the host does.
    pub cores: u64,
    /// Real values, compared with a serial sum; else lengths only.
    pub values: bool,
}

/// A node's vector, and where parts land that are to be added: each at its place, as the left neighbour may be
/// steps ahead.
struct Data {
    vector: Vec<f32>,
    landing: Vec<f32>,
}

/// What the tasks of a node share.
#[derive(Clone)]
struct Member {
    ring: Ring,
    me: usize,
    data: Option<Memory<Data>>,
    /// Steps whose data are here, for each slice.
    arrived: Vec<Flag>,
}

impl Ring {
    fn steps(&self) -> usize {
        2 * (self.nodes - 1)
    }

    /// Whether what comes in this step is added.
    fn adds(&self, step: usize) -> bool {
        step + 1 < self.nodes
    }

    /// Elements of a slice of a part, from where: parts and slices are even but for the last.
    fn range(&self, part: usize, slice: usize, slices: usize) -> std::ops::Range<usize> {
        let of_part = |part: usize| self.elements * part / self.nodes;
        let (from, to) = (of_part(part), of_part(part + 1));
        let at = |slice: usize| from + (to - from) * slice / slices;
        at(slice)..at(slice + 1)
    }

    fn input(&self, seed: u64, node: usize) -> Vec<f32> {
        // Whole numbers whose sums have few enough digits: any order of adding gives the same.
        let mut random = fastrand::Rng::with_seed(seed ^ (node as u64) << 32);
        (0..self.elements).map(|_| f32::from(random.i16(-1000..1000))).collect()
    }
}

impl Member {
    fn right(&self) -> usize {
        (self.me + 1) % self.ring.nodes
    }

    /// The part that leaves in this step.
    fn sent(&self, step: usize) -> usize {
        (self.me + 2 * self.ring.nodes - step) % self.ring.nodes
    }

    /// The part that comes.
    fn came(&self, step: usize) -> usize {
        (self.me + 2 * self.ring.nodes - step - 1) % self.ring.nodes
    }

    /// The put of a slice in this step, to `right`, whose member it is.
    fn put(&self, right: &Member, step: usize, slice: usize, slices: usize) -> Put {
        let range = self.ring.range(self.sent(step), slice, slices);
        let put = between_gpus(self.right(), range.len() as u64 * FLOAT).arrived(&right.arrived[slice]);
        let (Some(from), Some(into)) = (self.data.clone(), right.data.clone()) else { return put };
        let adds = self.ring.adds(step);
        put.then(move || {
            let from = from.lock();
            let mut into = into.lock();
            let place = if adds { &mut into.landing } else { &mut into.vector };
            place[range.clone()].copy_from_slice(&from.vector[range]);
        })
    }

    /// Adds the values of a slice that came; the time for it is the caller's.
    fn add(&self, step: usize, slice: usize, slices: usize) {
        let Some(data) = &self.data else { return };
        let Data { vector, landing } = &mut *data.lock();
        for at in self.ring.range(self.came(step), slice, slices) {
            vector[at] += landing[at];
        }
    }

    fn len(&self, step: usize, slice: usize, slices: usize) -> u64 {
        self.ring.range(self.came(step), slice, slices).len() as u64
    }
}

/// The time of one allreduce, from when the first node begins until the last has the sum.
pub(super) fn measure(system: &System, way: Way, ring: Ring, seed: u64) -> Result<(Ps, Checked), PaperError> {
    let timed = Timed::new(system, ring.nodes, seed)?;
    let slices = if way == Way::Tn { SLICES } else { 1 };
    let members: Vec<Member> = (0..ring.nodes)
        .map(|me| {
            let data = ring.values.then(|| {
                let vector = ring.input(seed, me);
                Memory::new(Data { landing: vec![0.0; vector.len()], vector })
            });
            Member { ring, me, data, arrived: (0..slices).map(|_| timed.flag()).collect() }
        })
        .collect();
    on_all(&timed, ring.nodes, |node| {
        let me = &members[node.index()];
        host(&timed, node, way, me, &members[me.right()]);
    });
    let mut checked = Checked::default();
    if ring.values {
        let inputs: Vec<Vec<f32>> = (0..ring.nodes).map(|node| ring.input(seed, node)).collect();
        let sum: Vec<f32> = (0..ring.elements).map(|at| inputs.iter().map(|input| input[at]).sum()).collect();
        for data in members.iter().filter_map(|member| member.data.as_ref()) {
            checked.compare(&data.lock().vector, &sum);
        }
    }
    Ok((timed.now(), checked))
}

fn host(t: &Timed, node: Node<'_>, way: Way, me: &Member, right: &Member) {
    match way {
        Way::Cpu => {
            for step in 0..me.ring.steps() {
                // The host's own memory at both ends.
                send(t, node, me.put(right, step, 0, 1).from(Place::Host).into(Place::Host));
                receive(t, node, &me.arrived[0], step as u64 + 1);
                if me.ring.adds(step) {
                    let elements = me.len(step, 0, 1);
                    compute_on(me.ring.cores, node, elements, elements * TOUCHED);
                    me.add(step, 0, 1);
                }
            }
        }
        Way::Hdn => {
            for step in 0..me.ring.steps() {
                send(t, node, me.put(right, step, 0, 1));
                receive(t, node, &me.arrived[0], step as u64 + 1);
                if me.ring.adds(step) {
                    launch_add(t, node, me, step);
                    node.stream(0).synchronize();
                }
            }
        }
        Way::Gds => {
            for step in 0..me.ring.steps() {
                let trigger = node.prepare(me.put(right, step, 0, 1), 1);
                node.stream(0).trigger(&trigger);
                node.stream(0).wait_for(&me.arrived[0], step as u64 + 1);
                if me.ring.adds(step) {
                    launch_add(t, node, me, step);
                }
            }
            node.stream(0).synchronize();
        }
        Way::Tn => triggered(t, node, me, right),
    }
}

/// A kernel that adds what came in this step.
fn launch_add(t: &Timed, node: Node<'_>, me: &Member, step: usize) {
    let blocks = places(t.system());
    let me = me.clone();
    let kernel = Kernel::new("add", blocks);
    node.stream(0).launch(kernel, move |block| {
        let elements = me.len(step, block.index(), blocks);
        block.compute(elements, elements * TOUCHED);
        me.add(step, block.index(), blocks);
    });
}

/// What the host registered so far, for the kernel's work-groups.
#[derive(Clone)]
struct Registered {
    triggers: Memory<Vec<Trigger>>,
    count: Flag,
}

/// One kernel does all steps; the host registers operations beside it, as many as the card holds.
fn triggered(t: &Timed, node: Node<'_>, me: &Member, right: &Member) {
    let registered = Registered { triggers: Memory::new(Vec::new()), count: t.flag() };
    // A work-group on each place, as many for each slice: the operation's threshold.
    let groups = (places(t.system()) / SLICES).max(1);
    let kernel = Kernel::new("ring", groups * SLICES);
    let (member, ours) = (me.clone(), registered.clone());
    let ended = node.stream(0).launch(kernel, move |block| work_group(&block, &member, &ours, groups));
    let sent = t.flag();
    for operation in 0..me.ring.steps() * SLICES {
        node.wait(&sent, (operation + 1).saturating_sub(ENTRIES) as u64);
        let put = me.put(right, operation / SLICES, operation % SLICES, SLICES).sent(&sent);
        let trigger = node.prepare(put, groups as u64);
        registered.triggers.lock().push(trigger);
        registered.count.add(1);
    }
    node.wait(&ended, 1);
}

/// A work-group's steps: `groups` of them share a slice.
fn work_group(block: &Block<'_>, me: &Member, registered: &Registered, groups: usize) {
    let (slice, member) = (block.index() / groups, block.index() % groups);
    for step in 0..me.ring.steps() {
        if step > 0 {
            block.wait(&me.arrived[slice], step as u64, Place::Gpu);
            if me.ring.adds(step - 1) {
                let all = SLICES * groups;
                let elements = me.len(step - 1, slice * groups + member, all);
                block.compute(elements, elements * TOUCHED);
                me.add(step - 1, slice * groups + member, all);
            }
        }
        block.fence();
        let operation = step * SLICES + slice;
        let trigger = registered.triggers.lock().get(operation).cloned();
        let trigger = trigger.unwrap_or_else(|| {
            // The card would keep the tag until the host registers it (section 3.2); nobody waits for this store.
            block.wait(&registered.count, operation as u64 + 1, Place::Gpu);
            registered.triggers.lock()[operation].clone()
        });
        block.trigger(&trigger);
    }
    block.wait(&me.arrived[slice], me.ring.steps() as u64, Place::Gpu);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_right_whatever_the_way_the_nodes_and_the_length() {
        let system = System::named("gpu-tn").unwrap();
        for way in Way::ALL {
            for (nodes, elements) in [(2, 64), (3, 1000), (5, 17), (7, 4099)] {
                let ring = Ring { nodes, elements, cores: 1, values: true };
                let (time, checked) = measure(&system, way, ring, 7).unwrap();
                assert_eq!(checked.values, (nodes * elements) as u64);
                assert_eq!(checked.wrong, 0, "{way:?}, {nodes} nodes, {elements} elements");
                assert_eq!(measure(&system, way, ring, 7).unwrap().0, time, "the same again");
                let lengths = Ring { values: false, ..ring };
                assert_eq!(measure(&system, way, lengths, 7).unwrap().0, time, "values cost no time");
            }
        }
    }
}
