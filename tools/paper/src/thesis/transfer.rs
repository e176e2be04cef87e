//! Section 3.4: what hosts send between memories of GPUs, directly and through memory of the hosts.

use extoll_sim::timed::{Flag, Node, Place, Ps, Put, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{INFINIBAND, SYSTEM, report};
use crate::programs::{Span, on_all, pingpong};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict, today};

/// Messages whose bandwidth is taken, and their number.
const LARGE: u64 = 1 << 20;
const PUTS: u64 = 16;
/// Payloads of Fig. 3.12.
const SIZES: [u64; 8] = [64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, LARGE, 4 << 20];
/// Blocks of the pipeline; the section tells none, 4.3.9 has 256 to 512 KiB.
const CHUNK: u64 = 256 << 10;
const ROUNDS: u64 = 4;

/// MB/s of large puts that a host posts, from and into memory of hosts or GPUs.
fn rate(system: &System, from: Place, into: Place, seed: u64) -> Result<f64, PaperError> {
    let timed = Timed::new(system, 2, seed)?;
    let (arrived, span) = (timed.flag(), Span::default());
    on_all(&timed, 1, |node| {
        let put = || Put::new(1, LARGE).from(from).into(into).notified().arrived(&arrived);
        let puts = || {
            (0..PUTS).for_each(|_| node.put(put()));
            node.wait(&arrived, PUTS);
        };
        span.over(0, || node.now(), puts);
    });
    Ok((PUTS * LARGE) as f64 / span.length().as_us())
}

/// The four directions, and the table's MB/s of InfiniBand and of the RMA unit.
const DIRECTIONS: [(&str, Place, Place, [f64; 2]); 4] = [
    ("host to host", Place::Host, Place::Host, [3212.0, 892.0]),
    ("host to GPU", Place::Host, Place::Gpu, [3212.0, 892.0]),
    ("GPU to host", Place::Gpu, Place::Host, [968.0, 769.0]),
    ("GPU to GPU", Place::Gpu, Place::Gpu, [969.0, 767.0]),
];

fn directions(figure: &Figure, settings: &Settings, by_rma: bool) -> Result<Report, PaperError> {
    let system = settings.system(if by_rma { SYSTEM } else { INFINIBAND })?;
    let mut report = report("thesis-3", figure, settings, &system, &["direction", "bytes", "MB/s"]);
    let mut rates = Vec::new();
    for (number, (name, from, into, paper)) in (1..).zip(DIRECTIONS) {
        let rate = rate(&system, from, into, settings.seed)?;
        report.row([json!(name), json!(LARGE), json!(rate)]);
        let value = paper[usize::from(by_rma)];
        let claim = Claim::near(name, "3.4.2, Table 3.1", value, value / 10.0, "MB/s");
        let today = today::direction(&name.to_lowercase().replace(" to ", "-"));
        report.claims.push(claim.judge(rate).because(|| paths(&system)).today(today));
        report.picture.lines.push(Line::new(name, vec![(f64::from(number), rate)]));
        rates.push(rate);
    }
    let slower = [("from the GPU", rates[2].max(rates[3])), ("from the host", rates[0].min(rates[1]))];
    report.claims.push(Claim::order("GPU memory as the source slows down, MB/s", "3.4.2", &slower));
    report.picture.x = Axis::new("direction", Scale::Linear);
    report.picture.y = Axis::new("MB/s", Scale::Linear);
    Ok(report)
}

pub(super) fn by_infiniband(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    directions(figure, settings, false)
}

pub(super) fn by_rma(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    directions(figure, settings, true)
}

/// What bounds large transfers.
fn paths(system: &System) -> String {
    let System { network, bus, .. } = system;
    format!(
        "the link carries {:.2} GB/s (thesis 3.4), less a header of {} B on {}; the card reads the host's memory at {:.2} and the \
         GPU's at {:.2} GB/s",
        network.link_bytes_per_ns,
        network.header_bytes,
        network.packet_bytes,
        bus.read_bytes_per_ns,
        bus.gpu_read_bytes_per_ns
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Hosts,
    Direct,
    Staged,
}

impl Way {
    const ALL: [Way; 3] = [Way::Hosts, Way::Direct, Way::Staged];

    fn name(self) -> &'static str {
        match self {
            Way::Hosts => "host to host",
            Way::Direct => "GPU to GPU",
            Way::Staged => "GPU to GPU, staged",
        }
    }

    /// Sends a message; a pipeline of copies and puts where it is staged.
    fn send(self, node: Node<'_>, bytes: u64, arrived: &Flag) {
        let to = 1 - node.index();
        let put = |bytes| Put::new(to, bytes).notified().arrived(arrived);
        match self {
            Way::Hosts => node.put(put(bytes)),
            Way::Direct => node.put(put(bytes).from(Place::Gpu).into(Place::Gpu)),
            Way::Staged => chunks(bytes).for_each(|chunk| {
                node.copy(chunk);
                node.put(put(chunk));
            }),
        }
    }

    /// Takes the message number `message`, from 0.
    fn receive(self, node: Node<'_>, bytes: u64, message: u64, arrived: &Flag) {
        if self != Way::Staged {
            return node.wait(arrived, message + 1);
        }
        let count = chunks(bytes).count() as u64;
        for (number, chunk) in (1..).zip(chunks(bytes)) {
            node.wait(arrived, message * count + number);
            node.copy(chunk);
        }
    }

    /// Half a round trip.
    fn latency(self, system: &System, bytes: u64, seed: u64) -> Result<Ps, PaperError> {
        let timed = Timed::new(system, 2, seed)?;
        let (flags, span) = ([timed.flag(), timed.flag()], Span::default());
        on_all(&timed, 2, |node| {
            let me = node.index();
            let rounds = || {
                pingpong(
                    me,
                    ROUNDS,
                    |_| self.send(node, bytes, &flags[1 - me]),
                    |round| self.receive(node, bytes, round - 1, &flags[me]),
                )
            };
            span.over(me, || node.now(), rounds);
        });
        Ok(Ps(span.length().0 / (2 * ROUNDS)))
    }
}

fn chunks(bytes: u64) -> impl Iterator<Item = u64> {
    (0..bytes).step_by(CHUNK as usize).map(move |at| CHUNK.min(bytes - at))
}

pub(super) fn staging(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["way", "bytes", "half round trip us", "MB/s"];
    let mut report = report("thesis-3", figure, settings, &system, columns);
    let mut times = Vec::new();
    for way in Way::ALL {
        let mut points = Vec::new();
        for bytes in SIZES {
            let us = way.latency(&system, bytes, settings.seed)?.as_us();
            report.row([json!(way.name()), json!(bytes), json!(us), json!(bytes as f64 / us)]);
            points.push((bytes as f64, us));
        }
        report.picture.lines.push(Line::new(way.name(), points.clone()));
        times.push(points);
    }
    let us = |way: Way, size: usize| times[way as usize][size].1;
    report.claims = staging_claims(&system, us);
    report.picture.y = Axis::new("half round trip, us", Scale::Logarithmic);
    Ok(report)
}

fn staging_claims(system: &System, us: impl Fn(Way, usize) -> f64) -> Vec<Verdict> {
    let (large, largest) = (SIZES.len() - 2, SIZES.len() - 1);
    let rate = |way: Way, size: usize| SIZES[size] as f64 / us(way, size);
    let order = [Way::Direct, Way::Staged, Way::Hosts].map(|way| (way.name(), rate(way, largest)));
    let call = system.gpu.copy_call_ns / 1e3;
    vec![
        Claim::at_least("small messages: staged over direct, 1 KiB", "3.4.1, Fig. 3.12", 2.0, "times")
            .judge(us(Way::Staged, 1) / us(Way::Direct, 1))
            .today(today::staged(1024)),
        Claim::near(
            "small messages: direct against host to host, 64 B",
            "3.4.1, Fig. 3.12",
            1.0,
            0.25,
            "times",
        )
        .judge(us(Way::Direct, 0) / us(Way::Hosts, 0)),
        Claim::order("large messages, 4 MiB, MB/s", "3.4.1, Fig. 3.12", &order).because(|| {
            format!(
                "each chunk of {} KiB costs two copies of {call:.0} us and more, beside its way",
                CHUNK >> 10
            )
        }),
        Claim::at_most(
            "direct slows down above 1 MiB: the rate of 4 MiB over that of 1 MiB",
            "3.4.1",
            0.95,
            "times",
        )
        .judge(rate(Way::Direct, largest) / rate(Way::Direct, large))
        .because(|| {
            "the thesis finds no reason in the cards, and the model's bus reads all lengths alike".to_owned()
        }),
    ]
}
