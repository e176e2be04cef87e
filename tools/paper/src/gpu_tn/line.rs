//! Figure 8 (section 5.2): a kernel copies one cache line, which is sent to another node, whose host polls for it.

use extoll_sim::timed::{Block, Flag, Kernel, Node, Place, Ps, Put, System, Timed, Trigger};
use ggas_plot::{Axis, Line as Drawn, Picture, Scale};
use serde_json::json;

use super::SYSTEM;
use super::way::{Way, below, send};
use crate::memory::Memory;
use crate::parameters::parameters;
use crate::programs::{between_gpus, on_all};
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, Verdict, today};

/// Floats of a cache line of 64 bytes (Table 2).
const FLOATS: usize = 16;
const BYTES: u64 = 64;

/// When what happened, since the host began to launch the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    /// The kernel's block runs.
    pub began: Ps,
    /// The line is copied, and everything of the message that is the kernel's is done.
    pub copied: Ps,
    /// The kernel has ended.
    pub ended: Ps,
    /// The target's host has seen the data.
    pub seen: Ps,
}

/// What the initiator's tasks share.
#[derive(Clone)]
struct Initiator {
    times: Memory<Times>,
    source: Memory<Vec<f32>>,
    buffer: Memory<Vec<f32>>,
    end: Ps,
}

impl Initiator {
    /// The kernel's only block: copies the line; with a trigger, makes it visible and pulls.
    fn kernel(&self, block: &Block<'_>, trigger: Option<&Trigger>) {
        self.times.lock().began = block.now();
        block.compute(FLOATS as u64, 2 * BYTES);
        self.buffer.lock().copy_from_slice(&self.source.lock());
        if let Some(trigger) = trigger {
            block.fence();
            block.trigger(trigger);
        }
        let mut times = self.times.lock();
        times.copied = block.now();
        times.ended = block.now() + self.end;
    }

    fn launch(&self, node: Node<'_>, trigger: Option<Trigger>) {
        let initiator = self.clone();
        let kernel = Kernel::new("copy", 1);
        node.stream(0).launch(kernel, move |block| initiator.kernel(&block, trigger.as_ref()));
    }
}

/// One message on two nodes of `system`; data of `seed`, compared at the target.
pub(super) fn measure(system: &System, way: Way, seed: u64) -> Result<(Times, Checked), PaperError> {
    let timed = Timed::new(system, 2, seed)?;
    let mut random = fastrand::Rng::with_seed(seed);
    let sent: Vec<f32> = (0..FLOATS).map(|_| random.f32()).collect();
    let (source, buffer) = (Memory::new(sent.clone()), Memory::new(vec![0.0; FLOATS]));
    let target = Memory::new(vec![0.0; FLOATS]);
    let end = Ps::ns(system.gpu.end_ns);
    let initiator = Initiator { times: Memory::new(Times::default()), source, buffer, end };
    let arrived = timed.flag();
    let (start, seen) = (Memory::new(Ps::ZERO), Memory::new(Ps::ZERO));
    on_all(&timed, 2, |node| {
        if node.index() == 0 {
            initiate(&timed, way, message(&initiator, &target, &arrived), &initiator, &start);
        } else {
            node.wait(&arrived, 1);
            *seen.lock() = node.now();
        }
    });
    let mut checked = Checked::default();
    checked.compare(&target.lock(), &sent);
    let (start, times) = (*start.lock(), *initiator.times.lock());
    let since = |time: Ps| time - start;
    let times = Times {
        began: since(times.began),
        copied: since(times.copied),
        ended: since(times.ended),
        seen: since(*seen.lock()),
    };
    Ok((times, checked))
}

/// The put of the line; the bytes move when they are visible at the target.
fn message(initiator: &Initiator, target: &Memory<Vec<f32>>, arrived: &Flag) -> Put {
    let (buffer, target) = (initiator.buffer.clone(), target.clone());
    between_gpus(1, BYTES)
        .into(Place::Host)
        .arrived(arrived)
        .then(move || target.lock().copy_from_slice(&buffer.lock()))
}

/// The initiator's host. What it posts ahead, it posts before the time begins.
fn initiate(t: &Timed, way: Way, put: Put, initiator: &Initiator, start: &Memory<Ps>) {
    let node = t.node(0);
    match way {
        Way::Cpu => {
            *start.lock() = node.now();
            node.compute(FLOATS as u64, 2 * BYTES);
            initiator.buffer.lock().copy_from_slice(&initiator.source.lock());
            send(t, node, put);
        }
        Way::Hdn => {
            *start.lock() = node.now();
            initiator.launch(node, None);
            node.stream(0).synchronize();
            send(t, node, put);
        }
        Way::Gds => {
            let trigger = node.prepare(put, 1);
            *start.lock() = node.now();
            initiator.launch(node, None);
            node.stream(0).trigger(&trigger);
        }
        Way::Tn => {
            let trigger = node.prepare(put, 1);
            *start.lock() = node.now();
            initiator.launch(node, Some(trigger));
        }
    }
}

/// Times of the three ways with kernels.
pub(super) fn all(system: &System, seed: u64) -> Result<([Times; 3], Checked), PaperError> {
    let (mut times, mut checked) = ([Times::default(); 3], Checked::default());
    for (time, way) in times.iter_mut().zip(Way::GPU) {
        let (measured, compared) = measure(system, way, seed)?;
        *time = measured;
        checked.add(compared);
    }
    Ok((times, checked))
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let (times, checked) = all(&system, settings.seed)?;
    let mut report = Report {
        parameters: parameters(settings, SYSTEM),
        claims: claims(&times),
        checked,
        notes: vec![
            "posting ahead (GDS, GPU-TN) is not in the time; the target's host polls its memory in all of \
             them"
                .to_owned(),
            "section 4.2.2 speaks of a counter that is decremented, 3.1 of one that counts up to the \
             threshold: as 3.1"
                .to_owned(),
            "GPU-TN's message begins while its kernel still runs: its total is launch, kernel and message"
                .to_owned(),
        ],
        ..Report::of(
            "gpu-tn",
            figure,
            settings,
            &system,
            &["way", "launch us", "kernel us", "end us", "message us", "total us"],
            picture(&times),
        )
    };
    for (way, times) in Way::GPU.into_iter().zip(times) {
        let leaves = if way == Way::Tn { times.copied } else { times.ended };
        let us = |from: Ps, to: Ps| json!((to - from).as_us());
        report.row([
            json!(way.name()),
            us(Ps::ZERO, times.began),
            us(times.began, times.copied),
            us(times.copied, times.ended),
            us(leaves, times.seen),
            json!(times.seen.as_us()),
        ]);
    }
    Ok(report)
}

fn claims([hdn, gds, tn]: &[Times; 3]) -> Vec<Verdict> {
    let us = |times: &Times| times.seen.as_us();
    let parts = |a: &Times, b: &Times| {
        format!(
            "{:.2} against {:.2} us, of which {:.2} us lie between the kernel's copy and its end",
            us(a),
            us(b),
            (b.ended - b.copied).as_us()
        )
    };
    let order = [("GPU-TN", us(tn)), ("GDS", us(gds)), ("HDN", us(hdn))];
    vec![
        Claim::order("latency in us", "5.2, Fig. 8", &order).today(today::message()),
        Claim::near("GPU-TN below GDS", "5.2, Fig. 8", 25.0, 10.0, "%")
            .judge(below(us(tn), us(gds)))
            .because(|| parts(tn, gds)),
        Claim::near("GPU-TN below HDN", "5.2, Fig. 8", 35.0, 10.0, "%")
            .judge(below(us(tn), us(hdn)))
            .because(|| parts(tn, hdn)),
        Claim::near("GDS below HDN", "5.2", 10.0, 10.0, "%")
            .judge(below(us(gds), us(hdn)))
            .because(|| parts(gds, hdn)),
        Claim::at_least("GPU-TN's kernel longer than GDS's, by", "5.2", 0.0, "us")
            .judge((tn.copied - tn.began).as_us() - (gds.copied - gds.began).as_us()),
        Claim::at_least("the target has the data before the initiator's kernel ends, by", "5.2", 0.0, "us")
            .judge(tn.ended.as_us() - tn.seen.as_us())
            .because(|| format!("the message takes {:.2} us", (tn.seen - tn.copied).as_us())),
    ]
}

/// Time to the right, a row for each way.
fn picture(times: &[Times; 3]) -> Picture {
    let stage = |label: &str, of: fn(&Times, Way) -> (Ps, Ps), offset: f64| {
        let strokes = Way::GPU.iter().zip(times).enumerate().map(|(row, (way, times))| {
            let (from, to) = of(times, *way);
            let y = 3.0 - row as f64 + offset;
            vec![(from.as_us(), y), (to.as_us(), y)]
        });
        Drawn { label: label.to_owned(), strokes: strokes.collect() }
    };
    let lines = vec![
        stage("kernel launch", |t, _| (Ps::ZERO, t.began), 0.0),
        stage("kernel", |t, _| (t.began, t.copied), 0.0),
        stage("kernel end", |t, _| (t.copied, t.ended), 0.0),
        stage("message", |t, way| (if way == Way::Tn { t.copied } else { t.ended }, t.seen), -0.2),
    ];
    Picture {
        title: "GPU-TN, Fig. 8: one cache line".to_owned(),
        x: Axis::new("us", Scale::Linear),
        y: Axis::new("3: HDN, 2: GDS, 1: GPU-TN", Scale::Linear),
        lines,
    }
}
