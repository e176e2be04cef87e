//! `allreduce-stream`: sums of vectors in a window that the host starts, one kernel per node and operation.

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

const ALLREDUCE: Collective = Collective::Allreduce { op: Op::Sum };

pub(crate) struct AllreduceStream;

impl Bench for AllreduceStream {
    fn name(&self) -> &'static str {
        "allreduce-stream"
    }

    fn about(&self) -> &'static str {
        "float sum at every node of vectors in a window, started by the host in streams"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["out-of-place", "in-place"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes: &[u64] = match options.device {
            Device::Gpu => &[262_144, 4 << 20, 64 << 20],
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
                for shape in shapes(options) {
                    progress.now(format!("{method}, {elements} elements"));
                    let (row, check) = row(task, method, elements, shape)?;
                    report.push(row, check);
                }
                progress.step();
            }
        }
        Ok(report)
    }
}

/// What the user says of shapes, the rest as usual; nothing: as the library chooses.
fn shapes(options: &Options) -> Vec<Option<SumShape>> {
    if options.blocks.is_empty() && options.threads.is_empty() {
        return vec![None];
    }
    let usual = if options.device == Device::Gpu { (132, 512) } else { (2, 32) };
    let blocks = options.blocks_or(&[usual.0]);
    let threads = options.threads_or(&[usual.1]);
    let of = |blocks| threads.iter().map(move |&threads| Some(SumShape { blocks, threads, chunks: 0 }));
    blocks.into_iter().flat_map(of).collect()
}

/// One row: sums of `elements` floats, in this shape or as the library chooses.
pub(crate) fn row(
    task: Task,
    method: &str,
    elements: u64,
    shape: Option<SumShape>,
) -> Result<(Row, Check), BenchError> {
    let (samples, shape, check) = sums(task, method, elements, shape)?;
    let mut row = Row::new(&samples).method(method);
    row.elements = Some(elements);
    (row.blocks, row.threads) = (Some(shape.blocks), Some(shape.threads));
    let nodes = f64::from(task.options.nodes);
    let bus = 4.0 * elements as f64 * 2.0 * (nodes - 1.0) / nodes / row.latency_us.median / 1e3;
    let row = row.bandwidth_of(4 * elements).with("bus_gbps", bus);
    Ok((row.with("chunks", shape.chunks), check))
}

/// What a node adds: small whole numbers, so that sums of floats are exact.
fn input(options: &Options, node: u32, elements: u64) -> Vec<u8> {
    let random = RandomStream::new(options.seed, u64::from(node));
    (0..elements).flat_map(|i| ((random.word(i) % 1024) as f32).to_le_bytes()).collect()
}

fn sums(
    task: Task,
    method: &str,
    elements: u64,
    shape: Option<SumShape>,
) -> Result<(Samples, SumShape, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let bytes = 4 * elements as usize;
    let half = bytes.next_multiple_of(256);
    let space = Space::new(&setup, 2 * half, 4096)?;
    let shape = shape.unwrap_or_else(|| space.group.choices().sum(bytes));
    let sum = Vectors {
        input: 0,
        output: if method == "in-place" { 0 } else { half },
        count: elements as usize,
        element: Element::Float,
        shape: Some(shape),
    };
    let fill = || {
        for node in setup.local() {
            space.window.write(node as usize, half, &vec![0xff; bytes]).doing("writing the window")?;
            let values = input(options, node, elements);
            space.window.write(node as usize, 0, &values).doing("writing the window")?;
        }
        setup.share::<()>(Vec::new())
    };
    let launch = |node| {
        let launch = space.group.collective(node as usize, setup.processor(node), ALLREDUCE, &sum);
        launch.doing("preparing an allreduce")
    };
    let launches = setup.local().map(launch).collect::<Result<Vec<_>, _>>()?;
    fill()?;
    stream::run(&setup, &launches, 1)?;
    space.check()?;
    let check = check(&setup, &space, &sum, elements)?;
    let (samples, check) = stream::measure(&setup, &space, &launches, bytes, check)?;
    Ok((samples, shape, check))
}

/// Compares the sums of one operation.
fn check(setup: &Setup, space: &Space, sum: &Vectors, elements: u64) -> Result<Check, BenchError> {
    setup.share::<()>(Vec::new())?;
    let mut expected = vec![0.0_f32; elements as usize];
    for node in 0..setup.options.nodes {
        let random = RandomStream::new(setup.options.seed, u64::from(node));
        (0..).zip(&mut expected).for_each(|(i, sum)| *sum += (random.word(i) % 1024) as f32);
    }
    let expected: Vec<u8> = expected.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut check = Check::default();
    let mut seen = vec![0; expected.len()];
    for node in setup.local() {
        space.window.read(node as usize, sum.output, &mut seen).doing("reading the window")?;
        check.bytes(&format!("sums at node {node}"), &expected, &seen);
    }
    // Nobody sums again before all have looked.
    setup.share::<()>(Vec::new())?;
    Ok(check)
}
