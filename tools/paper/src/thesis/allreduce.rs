//! Section 6.8: sums of floats on eight GPUs by stores. All-gather: everyone sends everything to everyone and adds
//! all. All-to-all: everyone sends each its part, adds its own part, and sends the sums to everyone. Gather and
//! broadcast: one GPU adds everything.

use std::ops::Range;

use extoll_sim::timed::{Block, Flag, Kernel, Place, Ps, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{SYSTEM, report};
use crate::memory::Memory;
use crate::programs::{between_gpus, on_all};
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, today};

pub(super) const NODES: usize = 8;
pub(super) const FLOAT: u64 = 4;
/// Floats of the figure's axis, from which the parts are even.
pub(super) const SIZES: [u64; 9] = [8, 64, 256, 1024, 2048, 4096, 16 << 10, 64 << 10, 256 << 10];
/// Blocks that share the work.
const BLOCKS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    AllGather,
    AllToAll,
    Gather,
}

impl Method {
    const ALL: [Method; 3] = [Method::AllGather, Method::AllToAll, Method::Gather];

    pub(super) fn name(self) -> &'static str {
        match self {
            Method::AllGather => "all-gather",
            Method::AllToAll => "all-to-all",
            Method::Gather => "gather, broadcast",
        }
    }
}

/// A node's vectors: its own, those of the others as they land, and the sums.
struct Data {
    input: Vec<f32>,
    landed: Vec<Vec<f32>>,
    sums: Vec<f32>,
}

impl Data {
    /// Whole numbers: any order of adding gives the same.
    fn new(seed: u64, node: usize, floats: u64) -> Data {
        let mut random = fastrand::Rng::with_seed(seed ^ (node as u64) << 32);
        let input: Vec<f32> = (0..floats).map(|_| f32::from(random.i16(-1000..1000))).collect();
        let empty = vec![0.0; input.len()];
        Data { landed: vec![empty.clone(); NODES], sums: empty, input }
    }
}

/// An allreduce, as all its blocks know it.
#[derive(Clone)]
struct Allreduce {
    method: Method,
    floats: u64,
    /// What arrives at each node, a count for each phase and block.
    flags: Vec<[Vec<Flag>; 2]>,
    /// Of each node, where real values move; then the vector has an even share for each block of each node.
    data: Option<Vec<Memory<Data>>>,
}

impl Allreduce {
    fn new(timed: &Timed, method: Method, floats: u64, values: Option<u64>) -> Allreduce {
        let of_blocks = || (0..BLOCKS).map(|_| timed.flag()).collect();
        let flags = (0..NODES).map(|_| [of_blocks(), of_blocks()]).collect();
        let of_node = |seed: u64| (0..NODES).map(|node| Memory::new(Data::new(seed, node, floats))).collect();
        Allreduce { method, floats, flags, data: values.map(of_node) }
    }

    /// A block's share of some floats from `from` on, at least one: the flag travels with the last.
    fn share(&self, block: &Block<'_>, from: u64, floats: u64) -> Range<usize> {
        let (index, blocks) = (block.index() as u64, BLOCKS as u64);
        let (start, end) = (from + floats * index / blocks, from + floats * (index + 1) / blocks);
        start as usize..end.max(start + 1) as usize
    }

    /// What a node adds in the all-to-all.
    fn part(&self, block: &Block<'_>, node: usize) -> Range<usize> {
        let floats = (self.floats / NODES as u64).max(1);
        self.share(block, floats * node as u64, floats)
    }

    fn whole(&self, block: &Block<'_>) -> Range<usize> {
        self.share(block, 0, self.floats)
    }

    /// Stores a range of this node's input (phase 0) or sums (phase 1) to another node.
    fn store(&self, block: &Block<'_>, to: usize, range: Range<usize>, phase: usize) {
        let put = between_gpus(to, range.len() as u64 * FLOAT);
        let put = put.arrived(&self.flags[to][phase][block.index()]);
        let me = block.node();
        let Some(data) = &self.data else { return block.store(put) };
        let (from, into) = (data[me].clone(), data[to].clone());
        block.store(put.then(move || {
            let (from, mut into) = (from.lock(), into.lock());
            match phase {
                0 => into.landed[me][range.clone()].copy_from_slice(&from.input[range]),
                _ => into.sums[range.clone()].copy_from_slice(&from.sums[range]),
            }
        }));
    }

    /// Stores to all others what each is to have.
    fn store_to_all(&self, block: &Block<'_>, range: impl Fn(usize) -> Range<usize>, phase: usize) {
        // Each begins with its neighbour, so that not all go to the same one at once.
        for to in (1..NODES).map(|step| (block.node() + step) % NODES) {
            self.store(block, to, range(to), phase);
        }
    }

    fn wait(&self, block: &Block<'_>, count: u64, phase: usize) {
        block.wait(&self.flags[block.node()][phase][block.index()], count, Place::Gpu);
    }

    /// The sum of a range of all nodes' vectors.
    fn add(&self, block: &Block<'_>, range: Range<usize>) {
        let floats = range.len() as u64;
        block.compute(floats * (NODES as u64 - 1), floats * (NODES as u64 + 1) * FLOAT);
        let Some(data) = &self.data else { return };
        let Data { input, landed, sums } = &mut *data[block.node()].lock();
        for at in range {
            // What lands of the node itself is 0.
            sums[at] = input[at] + landed.iter().map(|of| of[at]).sum::<f32>();
        }
    }

    /// A block's work.
    fn run(&self, block: &Block<'_>) {
        let (others, me) = (NODES as u64 - 1, block.node());
        match self.method {
            Method::AllGather => {
                self.store_to_all(block, |_| self.whole(block), 0);
                self.wait(block, others, 0);
                self.add(block, self.whole(block));
            }
            Method::AllToAll => {
                self.store_to_all(block, |to| self.part(block, to), 0);
                self.wait(block, others, 0);
                self.add(block, self.part(block, me));
                self.store_to_all(block, |_| self.part(block, me), 1);
                self.wait(block, others, 1);
            }
            Method::Gather if me == 0 => {
                self.wait(block, others, 0);
                self.add(block, self.whole(block));
                self.store_to_all(block, |_| self.whole(block), 1);
            }
            Method::Gather => {
                self.store(block, 0, self.whole(block), 0);
                self.wait(block, 1, 1);
            }
        }
    }

    /// Compares all nodes' sums with those of a serial run.
    fn check(&self) -> Checked {
        let mut checked = Checked::default();
        let Some(data) = &self.data else { return checked };
        let mut sums = vec![0.0; self.floats as usize];
        for node in data {
            sums.iter_mut().zip(&node.lock().input).for_each(|(sum, value)| *sum += value);
        }
        data.iter().for_each(|node| checked.compare(&node.lock().sums, &sums));
        checked
    }
}

/// An allreduce with its kernels' launch, which is the same for all methods; with real values if there is a seed for
/// them.
pub(super) fn measure(
    system: &System,
    method: Method,
    floats: u64,
    values: Option<u64>,
) -> Result<(Ps, Checked), PaperError> {
    let timed = Timed::new(system, NODES, values.unwrap_or_default())?;
    let allreduce = Allreduce::new(&timed, method, floats, values);
    on_all(&timed, NODES, |node| {
        let allreduce = allreduce.clone();
        node.stream(0).launch(Kernel::new("allreduce", BLOCKS), move |block| allreduce.run(&block));
        node.stream(0).synchronize();
    });
    Ok((timed.now(), allreduce.check()))
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["floats", "all-gather us", "all-to-all us", "gather, broadcast us"];
    let mut report = report("thesis-6", figure, settings, &system, columns);
    let mut points: Vec<[f64; 3]> = Vec::new();
    for floats in SIZES {
        let mut us = [0.0; 3];
        for method in Method::ALL {
            // Values where all blocks of all nodes have a share, and it costs little.
            let values = (floats >= (NODES * BLOCKS) as u64 && floats <= 4096).then_some(settings.seed);
            let (time, checked) = measure(&system, method, floats, values)?;
            us[method as usize] = time.as_us();
            report.checked.add(checked);
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
