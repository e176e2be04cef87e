//! `litmus-trigger`: what all blocks of a kernel wrote before they triggered one put is what it sends; and a build whose
//! triggers order nothing.
//!
//! The release and the acquire of triggers matter where the words are not in the cache that all multiprocessors share: where
//! the one that sends has older ones in a cache of its own, and where they are on their way to the other node.

use std::sync::Arc;

use crate::args::{self, bench_litmus_trigger};
use ggas::tn::{Signal, When, WindowConfig, WindowTriggers};

use super::litmus::in_one_process;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Team};

const KERNEL: &str = "bench_litmus_trigger_rounds";
const DATA: usize = args::BENCH_LITMUS_TRIGGER_DATA as usize;
const BESIDE: usize = args::BENCH_LITMUS_TRIGGER_BESIDE as usize;

/// Who sends, and where words are.
#[derive(Clone, Copy)]
struct Form {
    name: &'static str,
    form: u32,
    /// Words that a thread of a GPU writes.
    words: u64,
}

const FORMS: [Form; 3] = [
    Form { name: "last", form: args::BENCH_LITMUS_TRIGGER_LAST, words: 1 },
    Form { name: "reader", form: args::BENCH_LITMUS_TRIGGER_READER, words: 1 },
    Form { name: "stores", form: args::BENCH_LITMUS_TRIGGER_STORES, words: 8 },
];

impl Form {
    /// Whether the weak build must show it on GPUs: the words that the sender has cached are those that it sends.
    fn must_fail_when_weak(&self) -> bool {
        self.form == args::BENCH_LITMUS_TRIGGER_READER
    }
}

pub(crate) struct LitmusTrigger;

impl Bench for LitmusTrigger {
    fn name(&self) -> &'static str {
        "litmus-trigger"
    }

    fn about(&self) -> &'static str {
        "words of all blocks, sent by one triggered put: the order that triggers promise, and a build that breaks it"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["right", "weak"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let mut report = task.report();
        let builds = [("right", args::BENCH_LITMUS_RIGHT), ("weak", args::BENCH_LITMUS_WEAK)];
        let builds: Vec<_> = builds.into_iter().filter(|(name, _)| options.wants(name)).collect();
        progress.begin(self.name(), (builds.len() * FORMS.len()) as u64);
        for (name, build) in builds {
            for form in FORMS {
                progress.now(format!("{}, {name}", form.name));
                let (row, forbidden) = play(task, form, build)?;
                let row = row.method(name).with("form", form.name).with("forbidden", forbidden);
                report.push(row, verdict(form, build, forbidden, options.device));
                progress.step();
            }
        }
        let note = "forbidden: words that were older than the signal behind them; the weak build may show some, and must where \
             the sender read them before";
        report.notes.push(note.to_owned());
        Ok(report)
    }
}

fn verdict(form: Form, build: u32, forbidden: u64, device: Device) -> Check {
    let mut check = Check::default();
    if build == args::BENCH_LITMUS_RIGHT && forbidden > 0 {
        check.wrong(forbidden, || format!("{forbidden} words were older than the signal behind them"));
    }
    let must_fail = build == args::BENCH_LITMUS_WEAK && form.must_fail_when_weak() && device == Device::Gpu;
    if must_fail && forbidden == 0 {
        check.wrong(1, || format!("{}: the weak build did not fail, so the test shows nothing", form.name));
    }
    check
}

fn play(task: Task, form: Form, build: u32) -> Result<(Row, u64), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let gpu = options.device == Device::Gpu;
    // Who reads writes nothing.
    let blocks = options.blocks_or(&[if gpu { 32 } else { 3 }])[0].max(2);
    let writers = if form.must_fail_when_weak() { blocks - 1 } else { blocks };
    let threads = options.threads_or(&[if gpu { 256 } else { 32 }])[0].min(512);
    let rounds = options.iterations.unwrap_or(if gpu { 50_000 } else { 300 });
    let words = u64::from(writers) * u64::from(threads) * if gpu { form.words } else { 1 };
    let bytes = 8 * words as usize;
    let window = window(&setup, DATA + bytes)?;
    let memory = |node, bytes| setup.processor(node).alloc(bytes).doing("allocating kernel memory");
    let (data, forbidden) = (Arc::new(memory(0, bytes)?), memory(1, 8)?);
    let config = WindowConfig { tags: 1, timeout: options.timeout };
    let triggers = WindowTriggers::open(&window, 0, config).doing("making a table of triggers")?;
    let signal = Signal::Add(args::BENCH_LITMUS_TRIGGER_SIGNAL as usize, 1);
    let when = When::tag(0).after(blocks);
    let (sent, at) = match form.form {
        args::BENCH_LITMUS_TRIGGER_STORES => (8, BESIDE),
        _ => (bytes, DATA),
    };
    triggers.put(when, &data, 0..sent, (1, at), Some(signal)).doing("registering a put")?;
    let probes = [0, 1].map(|node| Probe::with_warm_up(setup.processor(node), rounds));
    let [sender, receiver] = probes;
    let (sender, receiver) = (sender?, receiver?);
    let args = |node: u32, probe: &Probe| -> Result<bench_litmus_trigger, BenchError> {
        Ok(bench_litmus_trigger {
            timing: probe.args(),
            window: window_of(&window, node)?,
            tn: triggers.address(),
            data: data.address(),
            words,
            forbidden: forbidden.address(),
            build,
            first: u32::from(node == 0),
            form: form.form,
            reserved: 0,
        })
    };
    let launches = [
        kernel::launch(setup.processor(0), KERNEL, blocks, threads, &args(0, &sender)?),
        kernel::launch(setup.processor(1), KERNEL, 1, threads, &args(1, &receiver)?),
    ];
    kernel::run(&launches, options)?;
    for (node, probe) in [&sender, &receiver].into_iter().enumerate() {
        let report = window.member(node).doing("choosing a member")?.report();
        probe.finished(KERNEL, triggers.report().filter(|_| node == 0).or(report))?;
    }
    let seen = forbidden.load_u64(0).doing("reading kernel memory")?;
    let mut row = Row::new(&sender.samples()?).bytes(bytes as u64).with("rounds", rounds);
    (row.blocks, row.threads) = (Some(blocks), Some(threads));
    Ok((row, seen))
}
