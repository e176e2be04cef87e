//! Section 6.7: the master's barrier. Each GPU stores its check-in flag to the master, which stores check-out flags
//! back.

use extoll_sim::timed::{Block, Flag, Kernel, Place, Ps, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{SYSTEM, report};
use crate::programs::{Span, between_gpus, on_all};
use crate::{Claim, Figure, PaperError, Report, Settings, today};

const ROUNDS: u64 = 20;
const NODES: std::ops::RangeInclusive<usize> = 2..=8;
/// Bytes of a flag.
const FLAG: u64 = 8;

/// A barrier of some nodes by one block each; node 0 is the master.
#[derive(Clone)]
pub(super) struct Barrier {
    /// Counts check-ins, at the master.
    arrived: Flag,
    /// Counts check-outs, at each node.
    left: Vec<Flag>,
}

impl Barrier {
    pub(super) fn new(timed: &Timed, nodes: usize) -> Barrier {
        Barrier { arrived: timed.flag(), left: (0..nodes).map(|_| timed.flag()).collect() }
    }

    /// Meets the others for the `round`th time, from 1.
    pub(super) fn meet(&self, block: &Block<'_>, round: u64) {
        let others = self.left.len() as u64 - 1;
        let flag = |to: usize, flag: &Flag| {
            block.store(between_gpus(to, FLAG).arrived(flag));
        };
        block.fence();
        match block.node() {
            0 => {
                block.wait(&self.arrived, round * others, Place::Gpu);
                (1..self.left.len()).for_each(|node| flag(node, &self.left[node]));
            }
            node => {
                flag(0, &self.arrived);
                block.wait(&self.left[node], round, Place::Gpu);
            }
        }
    }
}

/// A barrier's time, called in one kernel again and again.
fn measure(system: &System, nodes: usize, seed: u64) -> Result<Ps, PaperError> {
    let timed = Timed::new(system, nodes, seed)?;
    let barrier = Barrier::new(&timed, nodes);
    let span = Span::default();
    on_all(&timed, nodes, |node| {
        let (me, barrier, span) = (node.index(), barrier.clone(), span.clone());
        node.stream(0).launch(Kernel::new("barrier", 1), move |block| {
            barrier.meet(&block, 1);
            span.over(me, || block.now(), || (2..ROUNDS + 2).for_each(|round| barrier.meet(&block, round)));
        });
        node.stream(0).synchronize();
    });
    Ok(Ps(span.length().0 / ROUNDS))
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let mut report = report("thesis-6", figure, settings, &system, &["nodes", "barrier us"]);
    let mut points = Vec::new();
    for nodes in NODES {
        let us = measure(&system, nodes, settings.seed)?.as_us();
        report.row([json!(nodes), json!(us)]);
        points.push((nodes as f64, us));
    }
    let (two, eight) = (points[0].1, points[points.len() - 1].1);
    let parts =
        || format!("check-in and check-out are two stores one behind the other, {two:.1} us together");
    report.claims = vec![
        Claim::near("barrier of 2 GPUs in a kernel", "6.7.2, Fig. 6.10", 9.0, 2.25, "us")
            .judge(two)
            .because(parts)
            .today(today::barrier(2)),
        Claim::near("barrier of 8 GPUs in a kernel", "6.7.2, Fig. 6.10", 11.0, 2.75, "us")
            .judge(eight)
            .because(parts)
            .today(today::barrier(8)),
        Claim::between("8 GPUs take as many times as long as 2", "6.7.2", 1.0, 1.35, "")
            .judge(eight / two)
            .because(|| {
                "the master stores one check-out flag behind the other; in the thesis each is a thread's, \
                 and their stores overlap"
                    .to_owned()
            }),
        Claim::order("barrier in us", "6.7.2", &[("2 GPUs", two), ("8 GPUs", eight)]),
    ];
    report.notes.push(
        "barriers as kernels of their own (Listing 6.5) need kernels that wait for what they launched, \
         which they cannot since CUDA 12"
            .to_owned(),
    );
    report.picture.x = Axis::new("nodes", Scale::Linear);
    report.picture.y = Axis::new("us", Scale::Linear);
    report.picture.lines = vec![Line::new("barrier in a kernel", points)];
    Ok(report)
}
