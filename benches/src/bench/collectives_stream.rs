//! `collectives-stream`: collectives of vectors in a window that the host starts, one kernel per node and operation.

use ggas_coll::{Collective, Element, Op, SumShape, Vectors};

use super::stream;
use crate::error::Doing;
use crate::host::require_memory;
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, RandomStream, Report, Row, Samples, Team};

/// Floats at most: 1 GiB.
const MAX_ELEMENTS: u64 = 256 << 20;

pub(crate) struct CollectivesStream;

impl Bench for CollectivesStream {
    fn name(&self) -> &'static str {
        "collectives-stream"
    }

    fn about(&self) -> &'static str {
        "all collectives of vectors in a window, started by the host in streams; elements: floats of the longer vector"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["barrier", "broadcast", "all-gather", "all-to-all", "reduce", "reduce-scatter", "allreduce-max"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes: &[u64] = match options.device {
            Device::Gpu => &[262_144, 64 << 20],
            Device::Cpu => &[1000, 16_384],
        };
        let sizes = options.sizes_or(sizes, 1..=MAX_ELEMENTS, 1)?;
        for &elements in &sizes {
            require_memory(elements, elements.saturating_mul(4 * 4 * u64::from(options.nodes)))?;
        }
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            for &elements in &sizes {
                progress.now(format!("{method}, {elements} elements"));
                let work = Work::new(options, method, elements);
                let (samples, shape, check) = work.measure(task)?;
                let mut row = Row::new(&samples).method(method);
                (row.blocks, row.threads) = (Some(shape.blocks), Some(shape.threads));
                if work.what != Collective::Barrier {
                    row.elements = Some(work.longer() as u64);
                    let bus = 4.0 * work.longer() as f64 * work.share() / row.latency_us.median / 1e3;
                    row = row.bandwidth_of(4 * work.longer() as u64).with("bus_gbps", bus);
                }
                report.push(row, check);
                progress.step();
                if work.what == Collective::Barrier {
                    break;
                }
            }
        }
        Ok(report)
    }
}

/// A collective of `count` floats, as it counts them, among `nodes`.
struct Work<'a> {
    options: &'a Options,
    what: Collective,
    nodes: usize,
    count: usize,
    root: usize,
}

impl<'a> Work<'a> {
    fn new(options: &'a Options, method: &str, elements: u64) -> Self {
        let nodes = options.nodes as usize;
        let root = nodes - 1;
        let (what, parts) = match method {
            "barrier" => (Collective::Barrier, 1),
            "broadcast" => (Collective::Broadcast { root }, 1),
            "all-gather" => (Collective::AllGather, nodes),
            "all-to-all" => (Collective::AllToAll, nodes),
            "reduce" => (Collective::Reduce { root, op: Op::Sum }, 1),
            "reduce-scatter" => (Collective::ReduceScatter { op: Op::Sum }, nodes),
            _ => (Collective::Allreduce { op: Op::Max }, 1),
        };
        // Parts of whole lines.
        let count =
            if parts == 1 { elements as usize } else { (elements as usize / parts).next_multiple_of(4) };
        Self { options, what, nodes, count, root }
    }

    /// Elements of input and output of each node.
    fn lengths(&self) -> (usize, usize) {
        let all = self.nodes * self.count;
        match self.what {
            Collective::Barrier => (0, 0),
            Collective::AllGather => (self.count, all),
            Collective::AllToAll => (all, all),
            Collective::ReduceScatter { .. } => (all, self.count),
            _ => (self.count, self.count),
        }
    }

    fn longer(&self) -> usize {
        let (input, output) = self.lengths();
        input.max(output)
    }

    /// Of the longer vector, what one node's link carries at least, as NCCL counts it.
    fn share(&self) -> f64 {
        let others = (self.nodes - 1) as f64 / self.nodes as f64;
        match self.what {
            Collective::Broadcast { .. } | Collective::Reduce { .. } => 1.0,
            Collective::Allreduce { .. } => 2.0 * others,
            _ => others,
        }
    }

    /// What a node has at `i`: small whole numbers, so that sums of floats are exact.
    fn value(&self, node: usize, i: usize) -> f32 {
        (RandomStream::new(self.options.seed, node as u64).word(i as u64) % 1024) as f32
    }

    fn vector(&self, len: usize, at: impl Fn(usize) -> f32) -> Vec<u8> {
        (0..len).flat_map(|i| at(i).to_le_bytes()).collect()
    }

    /// What `node` must find at its output; `None`: whatever.
    fn expected(&self, node: usize) -> Option<Vec<u8>> {
        let (_, len) = self.lengths();
        let reduced = |i, op: fn(f32, f32) -> f32| {
            (0..self.nodes).map(|from| self.value(from, i)).reduce(op).expect("a node")
        };
        let count = self.count;
        match self.what {
            Collective::Barrier => None,
            Collective::Broadcast { root } => Some(self.vector(len, |i| self.value(root, i))),
            Collective::AllGather => Some(self.vector(len, |i| self.value(i / count, i % count))),
            Collective::AllToAll => {
                Some(self.vector(len, |i| self.value(i / count, node * count + i % count)))
            }
            Collective::ReduceScatter { .. } => {
                Some(self.vector(len, |i| reduced(node * count + i, |a, b| a + b)))
            }
            Collective::Reduce { .. } if node != self.root => None,
            Collective::Reduce { .. } => Some(self.vector(len, |i| reduced(i, |a, b| a + b))),
            Collective::Allreduce { .. } => Some(self.vector(len, |i| reduced(i, f32::max))),
        }
    }

    fn measure(&self, task: Task) -> Result<(Samples, SumShape, Check), BenchError> {
        let options = self.options;
        let setup = Setup::new(task, Worker::Kernels)?;
        let half = (4 * self.longer()).next_multiple_of(256);
        let space = Space::new(&setup, 2 * half, 4096)?;
        let usual = space.group.choices().sum(4 * self.count);
        let shape = SumShape {
            blocks: options.blocks.first().copied().unwrap_or(usual.blocks),
            threads: options.threads.first().copied().unwrap_or(usual.threads),
            chunks: 0,
        };
        let (count, element, shape_of) = (self.count, Element::Float, Some(shape));
        let vectors = Vectors { input: 0, output: half, count, element, shape: shape_of };
        let (in_len, out_len) = self.lengths();
        for node in setup.local().map(|node| node as usize) {
            let write =
                |offset, bytes: &[u8]| space.window.write(node, offset, bytes).doing("writing the window");
            write(half, &vec![0xff; 4 * out_len])?;
            let at = if matches!(self.what, Collective::Broadcast { .. }) { half } else { 0 };
            if at == 0 || node == self.root {
                write(at, &self.vector(in_len, |i| self.value(node, i)))?;
            }
        }
        setup.share::<()>(Vec::new())?;
        let launch = |node| {
            let launch = space.group.collective(node as usize, setup.processor(node), self.what, &vectors);
            launch.doing("preparing a collective")
        };
        let launches = setup.local().map(launch).collect::<Result<Vec<_>, _>>()?;
        stream::run(&setup, &launches, 1)?;
        space.check()?;
        let check = self.check(&setup, &space, half)?;
        let (samples, check) = stream::measure(&setup, &space, &launches, half, check)?;
        Ok((samples, shape, check))
    }

    fn check(&self, setup: &Setup, space: &Space, output: usize) -> Result<Check, BenchError> {
        setup.share::<()>(Vec::new())?;
        let mut check = Check::default();
        for node in setup.local().map(|node| node as usize) {
            let Some(expected) = self.expected(node) else { continue };
            let mut seen = vec![0; expected.len()];
            space.window.read(node, output, &mut seen).doing("reading the window")?;
            check.bytes(&format!("{:?} at node {node}", self.what), &expected, &seen);
        }
        // Nobody goes on before all have looked.
        setup.share::<()>(Vec::new())?;
        Ok(check)
    }
}
