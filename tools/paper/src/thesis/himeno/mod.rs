//! Himeno (sections 4.5.2, 5.8, 6.9.1): a 19-point Jacobi relaxation, cut along z, whose boundaries neighbours exchange.
//! Costs only: no values move.
//!
//! Each node computes the part of its points that touches one neighbour, then the part that touches the other, and has
//! the boundary of either on its way while it computes the other one. Which part is the upper one changes from node to
//! node, so that the bottoms of two neighbours meet, then their tops: what a node sends before a part is waited for before
//! the next.

mod forms;
mod put_get;
mod scaling;

pub(super) use self::put_get::{energy as energy_of_forms, overhead, performance};
pub(super) use self::scaling::{energy as energy_of_scaling, gaspi, strong, weak};

use extoll_sim::timed::{Block, Flag, Node, Place, Ps, Put, System, Timed};

use super::barrier::Barrier;
use crate::PaperError;
use crate::programs::{between_gpus, on_all, places};

/// Operations of a point: gives the 137.1 and 1,118.7 million an iteration of Table 4.2.
pub(crate) const OPERATIONS: u64 = 34;
/// Bytes of memory that a point needs: fourteen fields of floats, each read or written once (Himeno's arrays: pressure,
/// twelve coefficients and masks, the new pressure), neighbours from caches.
pub(crate) const TOUCHED: u64 = 14 * 4;
pub(crate) const FLOAT: u64 = 4;
/// Iterations that are timed, and that come before.
const ITERATIONS: u64 = 2;

/// Who controls the exchange of boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The host, by one-sided writes that it stages from a size on (section 4.3.8).
    Hybrid,
    /// The host, by two-sided messages that are staged at both ends (sections 4.5.2, 6.9.1).
    Mpi,
    /// Compute kernels: all blocks wait, the last one sends (section 5.8.1).
    InKernel,
    /// Kernels that send and that wait, in the same stream (section 5.8.2).
    Stream,
    /// A kernel that begins the others (section 5.8.3).
    Device,
    /// Stores in the compute kernel and a barrier (Listing 6.7).
    Ggas,
}

impl Form {
    pub(super) fn name(self) -> &'static str {
        match self {
            Form::Hybrid => "hybrid",
            Form::Mpi => "MPI",
            Form::InKernel => "in-kernel",
            Form::Stream => "stream",
            Form::Device => "device",
            Form::Ggas => "GGAS",
        }
    }
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Himeno {
    /// Points of the whole grid along x, y, z.
    pub size: [u64; 3],
    /// GPUs, each on its node.
    pub nodes: usize,
    pub form: Form,
    /// Boundaries are exchanged; else only computed (Fig. 5.28).
    pub communicates: bool,
}

impl Himeno {
    /// Floating-point operations of an iteration, of all nodes.
    pub(super) fn operations(&self) -> f64 {
        (OPERATIONS * self.points()) as f64
    }

    fn points(&self) -> u64 {
        self.size.iter().map(|side| side - 2).product()
    }

    /// Bytes of one boundary.
    fn boundary(&self) -> u64 {
        self.size[0] * self.size[1] * FLOAT
    }
}

/// A part of a node's points, and the boundary that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Bottom = 0,
    Top = 1,
}

impl Side {
    const BOTH: [Side; 2] = [Side::Bottom, Side::Top];
}

/// What the tasks of a node share.
#[derive(Clone)]
struct Member {
    himeno: Himeno,
    me: usize,
    blocks: usize,
    /// Boundaries that came: for each side, at each node.
    arrived: [Vec<Flag>; 2],
    /// Blocks that have computed, of each side's kernels.
    computed: [Flag; 2],
    barrier: Barrier,
    /// What a two-sided message costs the host that sends, and the one that receives.
    software: [Ps; 2],
}

impl Member {
    /// The node behind this side's boundary.
    fn partner(&self, side: Side) -> Option<usize> {
        let even = self.me.is_multiple_of(2);
        let partner = if even == (side == Side::Bottom) { self.me + 1 } else { self.me.checked_sub(1)? };
        (partner < self.himeno.nodes && self.himeno.communicates).then_some(partner)
    }

    /// A put of a boundary, or of a part of it, that counts at the partner.
    fn put(&self, side: Side, to: usize, bytes: u64) -> Put {
        between_gpus(to, bytes).arrived(&self.arrived[side as usize][to])
    }

    fn came(&self, side: Side) -> &Flag {
        &self.arrived[side as usize][self.me]
    }

    /// A block's share of one side's points.
    fn compute(&self, block: &Block<'_>, sides: u64) {
        let points = self.himeno.points() * sides / (2 * self.himeno.nodes as u64 * self.blocks as u64);
        block.compute(points * OPERATIONS, points * TOUCHED);
    }

    /// One thread of a kernel posts the boundary, and a flag behind it on the same queue (section 5.7).
    fn send(&self, block: &Block<'_>, side: Side) {
        let Some(to) = self.partner(side) else { return };
        let boundary = self.himeno.boundary();
        block.put(between_gpus(to, boundary));
        block.put(self.put(side, to, FLOAT));
    }

    /// A kernel waits for the boundary of the `count`th exchange.
    fn wait(&self, block: &Block<'_>, side: Side, count: u64) {
        if self.partner(side).is_some() {
            block.wait(self.came(side), count, Place::Gpu);
        }
    }
}

/// The time of an iteration, once all nodes are in step.
pub(super) fn iteration(system: &System, himeno: Himeno, seed: u64) -> Result<Ps, PaperError> {
    let short = run(system, himeno, ITERATIONS, seed)?;
    let long = run(system, himeno, 2 * ITERATIONS, seed)?;
    Ok(Ps((long - short).0 / ITERATIONS))
}

/// The time of so many iterations.
fn run(system: &System, himeno: Himeno, iterations: u64, seed: u64) -> Result<Ps, PaperError> {
    let timed = Timed::new(system, himeno.nodes, seed)?;
    let flags = || (0..himeno.nodes).map(|_| timed.flag()).collect::<Vec<_>>();
    // As many blocks as the GPU has at once, with even shares: so a kernel has all of the memory's rate.
    let blocks = places(system);
    let (arrived, barrier) = ([flags(), flags()], Barrier::new(&timed, himeno.nodes));
    on_all(&timed, himeno.nodes, |node: Node<'_>| {
        let (arrived, barrier) = (arrived.clone(), barrier.clone());
        let computed = [timed.flag(), timed.flag()];
        let software = [system.host.send_ns, system.host.receive_ns].map(Ps::ns);
        let member = Member { himeno, me: node.index(), blocks, arrived, computed, barrier, software };
        forms::host(node, &member, iterations);
    });
    Ok(timed.now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn himeno(form: Form, nodes: usize, communicates: bool) -> Himeno {
        Himeno { size: [128, 128, 64], nodes, form, communicates }
    }

    #[test]
    fn operations_are_those_of_the_table() {
        let flop = |size| Himeno { size, ..himeno(Form::Hybrid, 1, true) }.operations() / 1e6;
        assert_eq!(flop([128, 128, 256]).round(), 137.0);
        assert_eq!(flop([256, 256, 512]).round(), 1119.0);
    }

    #[test]
    fn neighbours_are_each_others_partners_on_the_same_side() {
        let system = System::named("infiniband").unwrap();
        for nodes in [1, 2, 5, 8] {
            let timed = Timed::new(&system, nodes, 1).unwrap();
            let flags = || (0..nodes).map(|_| timed.flag()).collect::<Vec<_>>();
            let member = |me: usize| Member {
                himeno: himeno(Form::Stream, nodes, true),
                me,
                blocks: 1,
                arrived: [flags(), flags()],
                computed: [timed.flag(), timed.flag()],
                barrier: Barrier::new(&timed, nodes),
                software: [Ps::ZERO; 2],
            };
            let mut meetings = 0;
            for (me, side) in (0..nodes).flat_map(|me| [(me, Side::Bottom), (me, Side::Top)]) {
                let Some(partner) = member(me).partner(side) else { continue };
                assert_eq!((member(partner).partner(side), me.abs_diff(partner)), (Some(me), 1));
                meetings += 1;
            }
            assert_eq!(meetings, 2 * (nodes - 1), "a chain of {nodes}");
        }
    }

    #[test]
    fn every_form_ends_and_communication_costs_time() {
        for (system, forms) in [
            ("infiniband", [Form::Hybrid, Form::Mpi, Form::InKernel]),
            ("extoll-fpga", [Form::Stream, Form::Device, Form::Ggas]),
        ] {
            let system = System::named(system).unwrap();
            for form in forms {
                let alone = iteration(&system, himeno(form, 4, false), 1).unwrap();
                let with = iteration(&system, himeno(form, 4, true), 1).unwrap();
                assert!(with > alone, "{form:?}: {with} with, {alone} without");
                assert_eq!(with, iteration(&system, himeno(form, 4, true), 1).unwrap(), "the same again");
                let quarter = iteration(&system, himeno(form, 1, true), 1).unwrap();
                assert!(quarter > alone, "{form:?}: one node computes all");
            }
        }
    }
}
