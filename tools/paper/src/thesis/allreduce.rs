//! Section 6.8: sums of floats on eight GPUs by stores. All-gather: everyone sends everything to everyone and adds
//! all. All-to-all: everyone sends each its part, adds its own part, and sends the sums to everyone. Gather and
//! broadcast: one GPU adds everything.

use extoll_sim::timed::{Block, Flag, Kernel, Place, Ps, Put, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{SYSTEM, on_all, report};
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, today};

const NODES: usize = 8;
const FLOAT: u64 = 4;
/// Floats of the figure's axis, from which the parts are even.
const SIZES: [u64; 9] = [8, 64, 256, 1024, 2048, 4096, 16 << 10, 64 << 10, 256 << 10];
/// Blocks that share the work.
const BLOCKS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    AllGather,
    AllToAll,
    Gather,
}

impl Method {
    const ALL: [Method; 3] = [Method::AllGather, Method::AllToAll, Method::Gather];

    fn name(self) -> &'static str {
        match self {
            Method::AllGather => "all-gather",
            Method::AllToAll => "all-to-all",
            Method::Gather => "gather, broadcast",
        }
    }
}

/// What arrives at each node, a count for each block and phase.
#[derive(Clone)]
struct Flags(Vec<[Vec<Flag>; 2]>);

impl Flags {
    fn new(timed: &Timed) -> Flags {
        let of_blocks = || (0..BLOCKS).map(|_| timed.flag()).collect();
        Flags((0..NODES).map(|_| [of_blocks(), of_blocks()]).collect())
    }

    /// Stores a block's share of `floats` to another node.
    fn store(&self, block: &Block<'_>, to: usize, floats: u64, phase: usize) {
        let put = Put::new(to, share(floats, block.index()) * FLOAT).from(Place::Gpu).into(Place::Gpu);
        block.store(put.arrived(&self.0[to][phase][block.index()]));
    }

    /// Stores to all others.
    fn store_to_all(&self, block: &Block<'_>, floats: u64, phase: usize) {
        let me = block.node();
        // Each begins with its neighbour, so that not all go to the same one at once.
        (1..NODES).for_each(|step| self.store(block, (me + step) % NODES, floats, phase));
    }

    fn wait(&self, block: &Block<'_>, count: u64, phase: usize) {
        block.wait(&self.0[block.node()][phase][block.index()], count, Place::Gpu);
    }
}

/// A block's share of some floats, at least one: the flag travels with the last.
fn share(floats: u64, block: usize) -> u64 {
    let (block, blocks) = (block as u64, BLOCKS as u64);
    (floats * (block + 1) / blocks - floats * block / blocks).max(1)
}

/// The sum of `NODES` vectors of which the block has a share.
fn add(block: &Block<'_>, floats: u64) {
    let share = share(floats, block.index());
    block.compute(share * (NODES as u64 - 1), share * (NODES as u64 + 1) * FLOAT);
}

fn block(block: &Block<'_>, method: Method, floats: u64, flags: &Flags) {
    let others = NODES as u64 - 1;
    match method {
        Method::AllGather => {
            flags.store_to_all(block, floats, 0);
            flags.wait(block, others, 0);
            add(block, floats);
        }
        Method::AllToAll => {
            let part = (floats / NODES as u64).max(1);
            flags.store_to_all(block, part, 0);
            flags.wait(block, others, 0);
            add(block, part);
            flags.store_to_all(block, part, 1);
            flags.wait(block, others, 1);
        }
        Method::Gather if block.node() == 0 => {
            flags.wait(block, others, 0);
            add(block, floats);
            flags.store_to_all(block, floats, 1);
        }
        Method::Gather => {
            flags.store(block, 0, floats, 0);
            flags.wait(block, 1, 1);
        }
    }
}

/// An allreduce from the kernels' begin on; their launch is in it for all methods alike.
fn measure(system: &System, method: Method, floats: u64, seed: u64) -> Result<Ps, PaperError> {
    let timed = Timed::new(system, NODES, seed)?;
    let flags = Flags::new(&timed);
    on_all(&timed, NODES, |node| {
        let flags = flags.clone();
        let kernel = Kernel::new("allreduce", BLOCKS);
        node.stream(0).launch(kernel, move |of_grid| block(&of_grid, method, floats, &flags));
        node.stream(0).synchronize();
    });
    Ok(timed.now())
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["floats", "all-gather us", "all-to-all us", "gather, broadcast us"];
    let mut report = report("thesis-6", figure, settings, &system, columns);
    let mut points: Vec<[f64; 3]> = Vec::new();
    for floats in SIZES {
        let mut us = [0.0; 3];
        for method in Method::ALL {
            us[method as usize] = measure(&system, method, floats, settings.seed)?.as_us();
        }
        let [gather, to_all, cast] = us.map(|us| json!(us));
        report.row([json!(floats), gather, to_all, cast]);
        points.push(us);
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    let named = |us: [f64; 3], order: [Method; 3]| order.map(|method| (method.name(), us[method as usize]));
    let crossing = points.iter().zip(SIZES).find(|(us, _)| us[1] < us[0]).map(|(_, floats)| floats as f64);
    report.claims = vec![
        Claim::order(
            "8 floats in us",
            "6.8.4, Fig. 6.17",
            &named(first, [Method::AllGather, Method::AllToAll, Method::Gather])[..2],
        ),
        Claim::order(
            "8 floats in us",
            "6.8.4",
            &[named(first, Method::ALL)[0], named(first, Method::ALL)[2]],
        ),
        Claim::order(
            "262,144 floats in us",
            "6.8.4, Fig. 6.17",
            &named(last, [Method::AllToAll, Method::AllGather, Method::Gather])[..2],
        ),
        Claim::between("all-to-all is quicker from this size on", "6.8.4", 9.0, 262_144.0, "floats")
            .judge(crossing)
            .today(today::allreduce()),
    ];
    report.checked = Checked::default();
    report.picture.x = Axis::new("floats", Scale::Sizes);
    report.picture.y = Axis::new("us", Scale::Logarithmic);
    report.picture.lines = Method::ALL
        .map(|method| {
            let of = |(us, floats): (&[f64; 3], u64)| (floats as f64, us[method as usize]);
            Line::new(method.name(), points.iter().zip(SIZES).map(of).collect())
        })
        .to_vec();
    Ok(report)
}
