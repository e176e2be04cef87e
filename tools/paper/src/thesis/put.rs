//! Section 5.6.3: ping-pong and bandwidth of puts between the memories of two GPUs, four and three ways.

use extoll_sim::timed::{Block, Flag, Kernel, Node, Place, Ps, Put, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{SYSTEM, report};
use crate::programs::{Span, between_gpus, free_notification, on_all, pingpong};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict, today};

/// Who starts a put, and how its end is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The kernel; notifications in host memory at both ends.
    Notified,
    /// The kernel; the target's polls the last word in GPU memory.
    Polled,
    /// The host, for the kernel, which asks by a word in host memory.
    Assisted,
    /// The host, without kernels.
    Host,
}

impl Way {
    const ALL: [Way; 4] = [Way::Notified, Way::Polled, Way::Assisted, Way::Host];

    fn name(self) -> &'static str {
        match self {
            Way::Notified => "GPU, notifications",
            Way::Polled => "GPU, no notification",
            Way::Assisted => "host-assisted",
            Way::Host => "host",
        }
    }

    /// The benchmark's method that does the same on GPUs of today.
    fn today(self) -> &'static str {
        match self {
            Way::Notified => "notification",
            Way::Polled => "poll",
            Way::Assisted => "host-assisted",
            Way::Host => "host-driven",
        }
    }
}

/// Round trips that are timed together.
const ROUNDS: u64 = 20;
/// Payloads of the figures.
const SIZES: [u64; 8] = [4, 16, 64, 256, 1024, 4096, 16 << 10, 64 << 10];
/// Puts in a row that a bandwidth is taken over.
const PUTS: u64 = 16;

/// What a side has: flags that are counted up as its words and notifications are written.
#[derive(Clone)]
struct End {
    /// Data of the other side are here (its completer notification, or the last word).
    arrived: Flag,
    /// Own puts have left (requester notifications).
    left: Flag,
    /// Asked of the host by the kernel.
    asked: Flag,
}

impl End {
    fn new(timed: &Timed) -> End {
        End { arrived: timed.flag(), left: timed.flag(), asked: timed.flag() }
    }
}

fn put(to: usize, bytes: u64, mine: &End, theirs: &End) -> Put {
    between_gpus(to, bytes).sent(&mine.left).arrived(&theirs.arrived)
}

/// Half a round trip: node 0 pings. Kernels' launches are not in it.
fn latency_of(system: &System, way: Way, bytes: u64, seed: u64) -> Result<Ps, PaperError> {
    let timed = Timed::new(system, 2, seed)?;
    let ends = [End::new(&timed), End::new(&timed)];
    let span = Span::default();
    let store = Ps::ns(system.gpu.store_ns);
    on_all(&timed, 2, |node| {
        let me = node.index();
        let side = Side { me, way, bytes, store, mine: ends[me].clone(), theirs: ends[1 - me].clone() };
        if way == Way::Host {
            span.over(
                me,
                || node.now(),
                || pingpong(me, ROUNDS, |_| side.host_puts(node), |round| side.host_waits(node, round)),
            );
            return;
        }
        let (kernel, span, side_of_kernel) = (Kernel::new("pingpong", 1), span.clone(), side.clone());
        node.stream(0).launch(kernel, move |block| {
            let side = &side_of_kernel;
            span.over(
                me,
                || block.now(),
                || {
                    pingpong(
                        me,
                        ROUNDS,
                        |round| side.kernel_puts(&block, round),
                        |round| side.kernel_waits(&block, round),
                    );
                },
            );
        });
        if way == Way::Assisted {
            for round in 1..=ROUNDS {
                node.wait(&side.mine.asked, round);
                node.put(side.put());
            }
        }
        node.stream(0).synchronize();
    });
    Ok(Ps(span.length().0 / (2 * ROUNDS)))
}

/// What one side does in a round.
#[derive(Clone)]
struct Side {
    me: usize,
    way: Way,
    bytes: u64,
    store: Ps,
    mine: End,
    theirs: End,
}

impl Side {
    fn put(&self) -> Put {
        let put = put(1 - self.me, self.bytes, &self.mine, &self.theirs);
        if self.way == Way::Polled || self.way == Way::Assisted { put } else { put.notified() }
    }

    fn host_puts(&self, node: Node<'_>) {
        node.put(self.put());
    }

    fn host_waits(&self, node: Node<'_>, round: u64) {
        node.wait(&self.mine.arrived, round);
    }

    fn kernel_puts(&self, block: &Block<'_>, round: u64) {
        match self.way {
            Way::Assisted => {
                block.work(self.store);
                self.mine.asked.add(1);
            }
            Way::Notified => {
                block.put(self.put());
                block.wait(&self.mine.left, round, Place::Host);
                free_notification(block);
            }
            _ => block.put(self.put()),
        }
    }

    fn kernel_waits(&self, block: &Block<'_>, round: u64) {
        if self.way == Way::Notified {
            block.wait(&self.mine.arrived, round, Place::Host);
            free_notification(block);
        } else {
            block.wait(&self.mine.arrived, round, Place::Gpu);
        }
    }
}

/// MB/s of puts to the other node. The kernel waits for each before the next, the host has a queue (section 5.6.3).
fn stream(system: &System, way: Way, bytes: u64, seed: u64) -> Result<f64, PaperError> {
    let timed = Timed::new(system, 2, seed)?;
    let ends = [End::new(&timed), End::new(&timed)];
    let span = Span::default();
    let store = Ps::ns(system.gpu.store_ns);
    let [mine, theirs] = ends;
    let side = Side { me: 0, way, bytes, store, mine, theirs };
    on_all(&timed, 1, |node| {
        let side = side.clone();
        if way == Way::Host {
            span.over(
                0,
                || node.now(),
                || {
                    (0..PUTS).for_each(|_| side.host_puts(node));
                    node.wait(&side.mine.left, PUTS);
                },
            );
            return;
        }
        let (kernel, span, of_kernel) = (Kernel::new("puts", 1), span.clone(), side.clone());
        node.stream(0).launch(kernel, move |block| {
            span.over(
                0,
                || block.now(),
                || {
                    for round in 1..=PUTS {
                        of_kernel.kernel_puts(&block, round);
                        if way == Way::Assisted {
                            block.wait(&of_kernel.mine.left, round, Place::Host);
                        }
                    }
                },
            );
        });
        if way == Way::Assisted {
            for round in 1..=PUTS {
                node.wait(&side.mine.asked, round);
                node.put(side.put());
            }
        }
        node.stream(0).synchronize();
    });
    Ok((PUTS * bytes) as f64 / span.length().as_us())
}

pub(super) fn latency(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let mut lines = Vec::new();
    let mut report = report("thesis-5", figure, settings, &system, &["way", "bytes", "half round trip us"]);
    for way in Way::ALL {
        let mut points = Vec::new();
        for bytes in SIZES {
            let us = latency_of(&system, way, bytes, settings.seed)?.as_us();
            report.row([json!(way.name()), json!(bytes), json!(us)]);
            points.push((bytes as f64, us));
        }
        lines.push(Line::new(way.name(), points));
    }
    let us = |way: Way| lines[way as usize].strokes[0][0].1;
    report.claims = latency_claims(&system, us);
    report.picture.y = Axis::new("half round trip, us", Scale::Logarithmic);
    report.picture.lines = lines;
    Ok(report)
}

/// What a put of the host's is made of in the model.
fn parts(system: &System) -> String {
    let System { network, bus, card, host, .. } = system;
    let of_bus = (2.0 * bus.write_ns + bus.read_ns) / 1e3;
    let of_card = (card.requester_ns + 2.0 * card.translate_ns + card.completer_ns + card.notify_ns) / 1e3;
    let of_link = (network.link_ns + network.switch_ns) / 1e3;
    let of_host = (host.post_ns + host.look_ns) / 1e3;
    format!(
        "the thesis tells no costs of bus, FPGA and GPU; those assumed in extoll-fpga.toml are for a put \
         of the host {of_host:.2} us of software, {of_bus:.2} of bus, {of_card:.2} of card and \
         {of_link:.2} of link, and none was fitted to this figure"
    )
}

fn latency_claims(system: &System, us: impl Fn(Way) -> f64) -> Vec<Verdict> {
    let order = [Way::Host, Way::Polled, Way::Assisted, Way::Notified].map(|way| (way.name(), us(way)));
    let paper = [(Way::Notified, 15.9), (Way::Polled, 5.1), (Way::Assisted, 6.4), (Way::Host, 4.9)];
    let mut claims = vec![
        Claim::order("latency of small messages in us", "5.6.3", &order)
            .because(|| "the host's help costs the model one store, one look and the host's post".to_owned()),
        Claim::near(
            "notifications cost the GPU, as a multiple of the host's latency",
            "5.6.3",
            3.0,
            0.75,
            "times",
        )
        .judge(us(Way::Notified) / us(Way::Host))
        .because(|| "Table 5.5 counts 44 reads of host memory a round trip, polls included".to_owned()),
    ];
    claims.extend(paper.map(|(way, value)| {
        Claim::near(way.name(), "5.6.3", value, value / 4.0, "us")
            .judge(us(way))
            .because(|| parts(system))
            .today(today::put(way.today()))
    }));
    claims
}

pub(super) fn bandwidth(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let mut lines = Vec::new();
    let mut report = report("thesis-5", figure, settings, &system, &["way", "bytes", "MB/s"]);
    for way in [Way::Notified, Way::Assisted, Way::Host] {
        let mut points = Vec::new();
        for bytes in SIZES.into_iter().chain([1 << 20]) {
            let rate = stream(&system, way, bytes, settings.seed)?;
            report.row([json!(way.name()), json!(bytes), json!(rate)]);
            points.push((bytes as f64, rate));
        }
        lines.push(Line::new(way.name(), points));
    }
    let rate = |line: usize, at: usize| lines[line].strokes[0][at].1;
    let last = SIZES.len();
    let small = [("GPU, notifications", rate(0, 4)), ("host", rate(2, 4))];
    report.claims = vec![
        Claim::near("host, large messages between GPUs", "Table 3.1 (b)", 767.0, 77.0, "MB/s")
            .judge(rate(2, last)),
        Claim::order("bandwidth at 1 KiB in MB/s", "5.6.3", &small),
        Claim::at_most("the GPU's share of the host's bandwidth at 1 MiB stays low", "5.6.3", 90.0, "%")
            .judge(100.0 * rate(0, last) / rate(2, last))
            .because(|| {
                "the model waits for one notification a put, which is little beside the time of 1 MiB; \
                 the thesis supposes that polling over the bus takes bandwidth from the data, and the \
                 model's bus has no such contention"
                    .to_owned()
            }),
    ];
    report.picture.y = Axis::new("MB/s", Scale::Logarithmic);
    report.picture.lines = lines;
    Ok(report)
}
