//! Section 6.9.2: a sum over values that lie on eight GPUs, by MPI of the hosts and by stores of the GPUs.

use extoll_sim::timed::{Block, Flag, Kernel, Node, Place, Ps, Put, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::energy::Power;
use super::{SYSTEM, report};
use crate::parameters::parameters;
use crate::programs::{between_gpus, on_all, places};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const NODES: usize = 8;
const FLOAT: u64 = 4;
/// Values of each GPU.
const SIZES: [u64; 6] = [1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24];
const ROUNDS: u64 = 3;

/// What the tasks of a node share.
#[derive(Clone)]
struct Member {
    values: u64,
    blocks: usize,
    me: usize,
    /// Parts of the sum that came: for each step of MPI, and for all of GGAS's, at each node.
    steps: Vec<Vec<Flag>>,
    parts: Vec<Flag>,
    /// Blocks that have added theirs.
    added: Flag,
}

impl Member {
    /// A block's share of the node's own values.
    fn add(&self, block: &Block<'_>) {
        let values = self.values.div_ceil(self.blocks as u64);
        block.compute(values, values * FLOAT);
    }

    /// A kernel adds, the host fetches its sum, gets that of all by recursive doubling, and gives it back.
    fn by_mpi(&self, t: &Timed, node: Node<'_>, round: u64) {
        let (kernel, member, host) = (Kernel::new("sum", self.blocks), self.clone(), &t.system().host);
        node.stream(0).launch(kernel, move |block| member.add(&block));
        node.stream(0).synchronize();
        node.copy(FLOAT);
        for (step, arrived) in self.steps.iter().enumerate() {
            let to = self.me ^ 1 << step;
            node.work(Ps::ns(host.send_ns));
            node.put(Put::new(to, FLOAT).notified().arrived(&arrived[to]));
            node.wait(&arrived[self.me], round);
            node.work(Ps::ns(host.receive_ns));
        }
        node.copy(FLOAT);
    }

    /// The last block of the kernel that adds sends its sum to all others, and waits for theirs (all-gather).
    fn by_ggas(&self, node: Node<'_>, round: u64) {
        let (kernel, member) = (Kernel::new("sum", self.blocks), self.clone());
        node.stream(0).launch(kernel, move |block| {
            member.add(&block);
            member.added.add(1);
            if member.added.value() != round * member.blocks as u64 {
                return;
            }
            block.fence();
            for to in (1..NODES).map(|step| (member.me + step) % NODES) {
                block.store(between_gpus(to, FLOAT).arrived(&member.parts[to]));
            }
            block.wait(&member.parts[member.me], round * (NODES as u64 - 1), Place::Gpu);
        });
    }
}

/// The time of a reduction; `ggas`: by stores of the GPUs.
fn measure(system: &System, values: u64, ggas: bool, seed: u64) -> Result<Ps, PaperError> {
    let timed = Timed::new(system, NODES, seed)?;
    let flags = || (0..NODES).map(|_| timed.flag()).collect::<Vec<_>>();
    let (steps, parts): (Vec<_>, _) = ((0..NODES.ilog2()).map(|_| flags()).collect(), flags());
    let blocks = places(system);
    on_all(&timed, NODES, |node| {
        let (steps, parts, added) = (steps.clone(), parts.clone(), timed.flag());
        let member = Member { values, blocks, me: node.index(), steps, parts, added };
        for round in 1..=ROUNDS {
            if ggas { member.by_ggas(node, round) } else { member.by_mpi(&timed, node, round) }
        }
        node.stream(0).synchronize();
    });
    Ok(Ps(timed.now().0 / ROUNDS))
}

/// Reductions of so many values of each GPU: us of MPI and of GGAS.
struct Point {
    values: u64,
    us: [f64; 2],
}

impl Point {
    fn of(system: &System, values: u64, seed: u64) -> Result<Point, PaperError> {
        let [mpi, ggas] = [false, true].map(|ggas| measure(system, values, ggas, seed));
        Ok(Point { values, us: [mpi?.as_us(), ggas?.as_us()] })
    }

    /// Of all nodes.
    fn per_joule(&self, at: usize) -> f64 {
        1e6 / (self.us[at] * NODES as f64 * Power::of(at == 0).watts())
    }

    /// How many times as quick, and as efficient, GGAS is.
    fn gains(&self) -> [f64; 2] {
        [self.us[0] / self.us[1], self.per_joule(1) / self.per_joule(0)]
    }
}

/// Figure 6.25, and the times of Figure 6.22 beside it.
pub(super) fn energy(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["values of a GPU", "MPI us", "GGAS us", "MPI reductions/J", "GGAS reductions/J"];
    let mut report = report("thesis-6", figure, settings, &system, columns);
    report.parameters = parameters(settings, SYSTEM);
    report.parameters.extend(Power::parameters());
    report.notes.push(Power::NOTE.to_owned());
    let mut points = Vec::new();
    for values in SIZES {
        let point = Point::of(&system, values, settings.seed)?;
        let ([mpi_us, ggas_us], [mpi, ggas]) = (point.us, [0, 1].map(|at| point.per_joule(at)));
        report.row([json!(values), json!(mpi_us), json!(ggas_us), json!(mpi), json!(ggas)]);
        points.push(point);
    }
    report.claims = claims(&points);
    report.picture.x = Axis::new("values of a GPU", Scale::Sizes);
    report.picture.y = Axis::new("reductions for a joule", Scale::Logarithmic);
    let line = |(at, name): (usize, &str)| {
        let points = points.iter().map(|point| (point.values as f64, point.per_joule(at)));
        Line::new(name, points.collect())
    };
    report.picture.lines = ["MPI", "GGAS"].into_iter().enumerate().map(line).collect();
    Ok(report)
}

fn claims(points: &[Point]) -> Vec<Verdict> {
    let [quicker, cheaper] =
        [0, 1].map(|of| points.iter().map(|point| point.gains()[of]).collect::<Vec<_>>());
    let least = |gains: &[f64]| gains.iter().copied().fold(f64::MAX, f64::min);
    let last = points.len() - 1;
    let by_size = [("the most values", quicker[last]), ("the fewest", quicker[0])];
    let of_most = [("in speed", quicker[last]), ("in energy", cheaper[last])];
    vec![
        Claim::at_least("GGAS is quicker at all sizes: the least gain", "6.9.2, Fig. 6.22", 1.0, "times")
            .judge(least(&quicker)),
        Claim::order("GGAS's gain in speed", "6.9.2", &by_size),
        Claim::at_least(
            "GGAS is more efficient at all sizes: the least gain",
            "6.10.2, Fig. 6.25",
            1.05,
            "times",
        )
        .judge(least(&cheaper)),
        Claim::order("GGAS's gain with the most values", "6.10.2", &of_most),
    ]
}
