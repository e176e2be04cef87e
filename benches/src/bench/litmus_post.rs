//! `litmus-post`: what a kernel stored to a window is there when a notification that it posted afterwards is; and a build
//! whose post has no fence.

use crate::args::{self, bench_litmus_post};
use ggas_kernels::KernelMem;

use super::litmus::in_one_process;
use crate::ends::{self, Program, kernel_ends};
use crate::error::Doing;
use crate::payload::{Layout, RoundData};
use crate::setup::{Setup, Worker};
use crate::space::window;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Team};

/// Bytes from one word to the next: each has a line of its own.
const STRIDE: usize = 128;

pub(crate) struct LitmusPost;

impl Bench for LitmusPost {
    fn name(&self) -> &'static str {
        "litmus-post"
    }

    fn about(&self) -> &'static str {
        "stores to another node's window, then a post to it: the order that posts promise, and a build that breaks it"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["right", "weak"]
    }

    fn by_engines(&self) -> &'static [&'static str] {
        self.methods()
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let mut report = task.report();
        let builds = [("right", args::BENCH_LITMUS_RIGHT), ("weak", args::BENCH_LITMUS_WEAK)];
        let builds: Vec<_> = builds.into_iter().filter(|(name, _)| options.wants(name)).collect();
        // Words that are stored before each post: whether one is late depends on how many are under way.
        let counts: &[u64] = if options.device == Device::Gpu { &[1, 4, 16] } else { &[1] };
        progress.begin(self.name(), (builds.len() * counts.len()) as u64);
        for (name, build) in builds {
            for &count in counts {
                progress.now(format!("{name}, {count} words a thread"));
                let (row, forbidden) = play(task, build, count)?;
                let mut check = Check::default();
                if build == args::BENCH_LITMUS_RIGHT && forbidden > 0 {
                    check.wrong(forbidden, || format!("{forbidden} words came behind the notification"));
                }
                report
                    .push(row.method(name).with("words a thread", count).with("forbidden", forbidden), check);
                progress.step();
            }
        }
        let note = "forbidden: words that came behind the notification; the weak build may show some";
        report.notes.push(note.to_owned());
        Ok(report)
    }
}

fn play(task: Task, build: u32, count: u64) -> Result<(Row, u64), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let gpu = options.device == Device::Gpu;
    let threads = options.threads.first().copied().unwrap_or(if gpu { 256 } else { 8 }).min(256);
    let rounds = options.iterations.unwrap_or(if gpu { 100_000 } else { 500 });
    let layout = Layout::new(8);
    let ends = kernel_ends(&setup, layout, &RoundData::new(options.seed, 0, layout.bytes), rounds)?;
    let window = window(&setup, STRIDE * threads as usize * count as usize)?;
    // Node 1's part, as each of the two sees it.
    let words = |node| {
        let part = window.member(node).and_then(|member| member.global_pointer(1));
        part.doing("finding the window's parts")
    };
    let words = [words(0)?, words(1)?];
    let forbidden = |node| -> Result<KernelMem, BenchError> {
        let word = setup.processor(node).alloc(8).doing("allocating kernel memory")?;
        word.write_u64s(0, &[0]).doing("writing kernel memory")?;
        Ok(word)
    };
    let forbidden = [forbidden(0)?, forbidden(1)?];
    ends::run(&setup, &ends, |end| {
        let first = end.node == 0;
        let args = bench_litmus_post {
            timing: end.probe.args(),
            peer: end.peer,
            port: end.port.address(),
            words: words[end.node as usize],
            count,
            forbidden: forbidden[end.node as usize].address(),
            build,
            first: first.into(),
        };
        Ok(Program { kernel: "bench_litmus_post_rounds", blocks: 1, threads, args })
    })?;
    let seen = forbidden[1].read_u64s(0, 1).doing("reading kernel memory")?;
    let first =
        ends.first().ok_or_else(|| BenchError::Unsupported("litmus-post needs two nodes".to_owned()))?;
    let mut row = Row::new(&first.probe.samples()?.halved()).with("rounds", rounds);
    (row.blocks, row.threads) = (Some(1), Some(threads));
    Ok((row, seen.first().copied().unwrap_or(0)))
}
