//! `card-stores`: descriptors that kernels write to a card's page by three stores each, every one of them judged.

use std::time::{Duration, Instant};

use ggas::{KernelPort, Notification, PageStores, Path as PostPath, Port, PortConfig};
use ggas_kernels::KernelMem;

use super::litmus::in_one_process;
use crate::args::{bench_card_stores, bench_peer};
use crate::error::Doing;
use crate::kernel;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Path, Progress, Report, Row, Samples, Team, Via};

/// Bits of a payload that count a thread's descriptors.
const COUNT_BITS: u32 = 40;

/// Bytes of the receiver's queue where it is to be full: 256 entries.
const SMALL_QUEUE: usize = 4096;

/// Samples of a row.
const SAMPLES: u64 = 100;

/// How long a receiver whose queue is to be full takes nothing.
const PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct CardStores;

impl Bench for CardStores {
    fn name(&self) -> &'static str {
        "card-stores"
    }

    fn about(&self) -> &'static str {
        "descriptors that kernels store to a page of the model, each one judged by who takes them"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["one-block", "four-blocks", "four-ports", "congested"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        if options.via != Via::Sim {
            let advice = "only the model has pages that the host watches; use sim";
            return Err(BenchError::option("via", options.via, advice));
        }
        if options.path == Some(Path::Slots) {
            return Err(BenchError::option("path", Path::Slots, "it is about the card path; leave it out"));
        }
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), methods.len() as u64);
        for method in methods {
            progress.now(method);
            let (row, check) = measure(task, Plan::of(method, options))?;
            report.push(row.method(method), check);
            progress.step();
        }
        let note = "written again: descriptors that the card rejected; repeated, misplaced: words that no post stores";
        report.notes.push(note.to_owned());
        Ok(report)
    }
}

/// Who posts how much, and how the receiver takes it.
struct Plan {
    ports: usize,
    blocks: u32,
    threads: u32,
    /// Of each thread.
    posts: u64,
    /// The receiver's queue is small, and it takes what is there only when nothing more comes.
    congested: bool,
}

impl Plan {
    fn of(method: &str, options: &Options) -> Plan {
        let gpu = options.device == Device::Gpu;
        let (ports, blocks) = match method {
            "one-block" => (1, 1),
            "four-ports" => (4, 1),
            _ => (1, 4),
        };
        let congested = method == "congested";
        let threads = options.threads.first().copied().unwrap_or(if gpu { 128 } else { 32 });
        let all = match (options.iterations, gpu) {
            (Some(all), _) => all,
            (None, true) => 2_500_000,
            (None, false) => 20_000,
        };
        let posts = all.div_ceil(ports as u64 * u64::from(blocks) * u64::from(threads)).max(1);
        Plan { ports, blocks, threads, posts, congested }
    }

    fn threads_of_port(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.threads)
    }

    fn total(&self) -> u64 {
        self.ports as u64 * self.threads_of_port() * self.posts
    }
}

/// A port of kernels on node 0.
struct Sender {
    port: KernelPort,
    status: KernelMem,
}

/// A port of the host on node 1, which takes what one sender's threads post.
struct Receiver {
    port: Port,
    /// Of each thread: the number of its next descriptor.
    next: Vec<u64>,
    missing: u64,
}

impl Sender {
    fn open(setup: &Setup) -> Result<Sender, BenchError> {
        let config = PortConfig { path: Some(PostPath::Card), watch_page: true, ..setup.port_config() };
        let port = setup.node(0)?.open_kernel_port(config, setup.processor(0));
        let status = setup.processor(0).alloc(8).doing("allocating kernel memory")?;
        Ok(Sender { port: port.doing("opening a port for kernels")?, status })
    }

    fn args(&self, to: &Receiver, plan: &Plan) -> bench_card_stores {
        let address = to.port.address();
        let peer = bench_peer { target: 0, node: address.node.into(), vpid: address.vpid.into() };
        let (port, status) = (self.port.address(), self.status.address());
        bench_card_stores { peer, port, status, posts: plan.posts }
    }

    /// How many descriptors were stored; `check` gets what else the page saw.
    fn stored(&self, plan: &Plan, check: &mut Check) -> Result<u64, BenchError> {
        let status = self.status.load_u64(0).doing("reading kernel memory")?;
        if status != 0 {
            let report = self.port.report().map_or(String::new(), |report| format!(": {report}"));
            check.wrong(1, || format!("the kernel ended with status {status}{report}"));
        }
        let missing = || BenchError::Unsupported("the port's page is not watched".to_owned());
        let PageStores { descriptors, repeated, begun, misplaced, .. } =
            self.port.stores().ok_or_else(missing)?;
        check.equal("words stored twice", 0, repeated);
        check.equal("words of half a descriptor", 0, begun);
        check.equal("words elsewhere", 0, misplaced);
        let posted = plan.threads_of_port() * plan.posts;
        if descriptors < posted {
            check
                .wrong(posted - descriptors, || format!("{descriptors} descriptors of {posted} were stored"));
        }
        Ok(descriptors)
    }
}

impl Receiver {
    fn open(setup: &Setup, plan: &Plan) -> Result<Receiver, BenchError> {
        let mut config = PortConfig { path: Some(PostPath::Card), ..setup.port_config() };
        if plan.congested {
            (config.queue_bytes, config.segment_bytes) = (SMALL_QUEUE, SMALL_QUEUE);
        }
        let port = setup.node(1)?.open_port(config).doing("opening a port")?;
        let threads = plan.threads_of_port();
        Ok(Receiver { port, next: vec![1; threads as usize], missing: threads * plan.posts })
    }

    /// Takes what is there, and says how much that was.
    fn take(&mut self, check: &mut Check) -> u64 {
        let mut taken = 0;
        while let Some(notification) = self.port.poll() {
            self.judge(&notification, check);
            taken += 1;
        }
        self.missing = self.missing.saturating_sub(taken);
        taken
    }

    /// Each thread's descriptors come once, in order and whole.
    fn judge(&mut self, notification: &Notification, check: &mut Check) {
        let (thread, count) =
            (notification.word0 >> COUNT_BITS, notification.word0 & ((1 << COUNT_BITS) - 1));
        let next = self.next.get_mut(thread as usize).map(|next| std::mem::replace(next, count + 1));
        if next != Some(count) || notification.class() != count as u8 || !notification.error().is_empty() {
            check.wrong(1, || format!("{notification:?} was not posted, or came behind {next:?}"));
        }
    }
}

fn measure(task: Task, plan: Plan) -> Result<(Row, Check), BenchError> {
    let setup = Setup::new(task, Worker::Kernels)?;
    let mut receivers =
        (0..plan.ports).map(|_| Receiver::open(&setup, &plan)).collect::<Result<Vec<_>, _>>()?;
    let senders = (0..plan.ports).map(|_| Sender::open(&setup)).collect::<Result<Vec<_>, _>>()?;
    let ends = senders.iter().zip(&receivers);
    let args: Vec<_> = ends.map(|(sender, receiver)| sender.args(receiver, &plan)).collect();
    let kernel =
        |args| kernel::launch(setup.processor(0), "bench_card_stores_send", plan.blocks, plan.threads, args);
    let mut check = Check::default();
    let samples = {
        let _armed: Vec<_> = senders.iter().map(|sender| sender.port.arm()).collect();
        let running = kernel::begin(&args.iter().map(kernel).collect::<Vec<_>>())?;
        let samples = receive(&mut receivers, &plan, task.options.timeout, &mut check);
        kernel::finish(running, task.options)?;
        samples
    };
    let mut stored = 0;
    for sender in &senders {
        stored += sender.stored(&plan, &mut check)?;
    }
    let again = stored.saturating_sub(plan.total());
    let mut row = Row::new(&samples).with("judged", plan.total()).with("written again", again);
    row.rate_per_s = samples.rate_per_s();
    (row.blocks, row.threads) = (Some(plan.blocks * plan.ports as u32), Some(plan.threads));
    Ok((row, check))
}

/// Takes all that is posted. A sample is the time between two hundredths of it.
fn receive(receivers: &mut [Receiver], plan: &Plan, timeout: Duration, check: &mut Check) -> Samples {
    let per_sample = (plan.total() / SAMPLES).max(1);
    let (mut times, mut taken, mut sampled) = (Vec::new(), 0, 0);
    let (mut last, mut heard) = (Instant::now(), Instant::now());
    while receivers.iter().any(|receiver| receiver.missing > 0) {
        let some: u64 = receivers.iter_mut().map(|receiver| receiver.take(check)).sum();
        if some == 0 {
            if heard.elapsed() > timeout {
                let missing: u64 = receivers.iter().map(|receiver| receiver.missing).sum();
                check.wrong(missing, || format!("{missing} descriptors did not arrive"));
                break;
            }
            std::thread::yield_now();
            continue;
        }
        taken += some;
        heard = Instant::now();
        if taken - sampled >= per_sample {
            times.push(last.elapsed().as_nanos() as f64 / (taken - sampled) as f64);
            (last, sampled) = (Instant::now(), taken);
        }
        if plan.congested {
            std::thread::sleep(PAUSE);
        }
    }
    Samples::new(times, per_sample)
}
