//! Sections 4.4.1 and 4.4.2: writes between GPUs of two nodes by GASPI, and messages by MPI.

use extoll_sim::timed::{Flag, Node, Place, Ps, Put, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{INFINIBAND, report};
use crate::programs::{Span, on_all, pingpong};
use crate::{Claim, Figure, PaperError, Report, Settings};

const SIZES: [u64; 9] = [8, 64, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 256 << 10, LARGE, 4 << 20];
const LARGE: u64 = 1 << 20;
/// Messages whose bandwidth is taken are under way together, as in the OSU benchmarks.
const WINDOW: u64 = 64;
const ROUNDS: u64 = 4;
/// Longest direct transfer between K40: "a clear bend between 16 kB and 32 kB". Above it chunks, the best for both machines (4.3.9).
const LIMIT: u64 = 16 << 10;
const CHUNK: u64 = 256 << 10;

/// How memory of GPUs is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `gaspi_write`: one put, whatever its length.
    Write,
    /// `gaspi_gpu_write`: staged at the source above a limit.
    GpuWrite,
    /// `MPI_Isend`, with a message's software at both ends, and staged: above a limit at both of them (4.4.1), or always at the source, whose
    /// overhead alone counts (4.4.3).
    Mpi,
}

impl Way {
    pub const ALL: [Way; 3] = [Way::Write, Way::GpuWrite, Way::Mpi];

    pub fn name(self) -> &'static str {
        match self {
            Way::Write => "gaspi_write",
            Way::GpuWrite => "gaspi_gpu_write",
            Way::Mpi => "MPI",
        }
    }

    fn is_direct(self, bytes: u64) -> bool {
        self == Way::Write || bytes <= LIMIT
    }

    /// Bytes of its puts.
    fn pieces(self, bytes: u64) -> impl Iterator<Item = u64> {
        let piece = if self.is_direct(bytes) { bytes } else { CHUNK };
        (0..bytes).step_by(piece as usize).map(move |at| piece.min(bytes - at))
    }

    fn send(self, system: &System, node: Node<'_>, bytes: u64, arrived: &Flag) {
        if self == Way::Mpi {
            node.work(Ps::ns(system.host.send_ns));
        }
        let is_direct = self.is_direct(bytes);
        for piece in self.pieces(bytes) {
            let put = Put::new(1 - node.index(), piece).notified().arrived(arrived);
            let put = if is_direct || self != Way::Mpi { put.into(Place::Gpu) } else { put };
            if is_direct {
                node.put(put.from(Place::Gpu));
            } else {
                node.copy(piece);
                node.put(put);
            }
        }
    }

    /// Takes the transfer number `number`, from 0.
    fn receive(self, system: &System, node: Node<'_>, bytes: u64, number: u64, arrived: &Flag) {
        let count = self.pieces(bytes).count() as u64;
        for (place, piece) in (1..).zip(self.pieces(bytes)) {
            node.wait(arrived, number * count + place);
            if self == Way::Mpi && !self.is_direct(bytes) {
                node.copy(piece);
            }
        }
        if self == Way::Mpi {
            node.work(Ps::ns(system.host.receive_ns));
        }
    }

    /// MB/s of a window of transfers, until the other side has all and has said so.
    fn rate(self, system: &System, bytes: u64, seed: u64) -> Result<f64, PaperError> {
        let timed = Timed::new(system, 2, seed)?;
        let (arrived, answered, span) = (timed.flag(), timed.flag(), Span::default());
        let window = WINDOW.min((64 << 20) / bytes);
        on_all(&timed, 2, |node| {
            let me = node.index();
            let round = || {
                if me == 0 {
                    (0..window).for_each(|_| self.send(system, node, bytes, &arrived));
                    node.wait(&answered, 1);
                } else {
                    (0..window).for_each(|number| self.receive(system, node, bytes, number, &arrived));
                    node.put(Put::new(0, 8).notified().arrived(&answered));
                }
            };
            span.over(me, || node.now(), round);
        });
        Ok((window * bytes) as f64 / span.length().as_us())
    }

    /// Microseconds of half a round trip.
    fn latency(self, system: &System, bytes: u64, seed: u64) -> Result<f64, PaperError> {
        let timed = Timed::new(system, 2, seed)?;
        let (flags, span) = ([timed.flag(), timed.flag()], Span::default());
        on_all(&timed, 2, |node| {
            let me = node.index();
            let rounds = || {
                pingpong(
                    me,
                    ROUNDS,
                    |_| self.send(system, node, bytes, &flags[1 - me]),
                    |round| self.receive(system, node, bytes, round - 1, &flags[me]),
                )
            };
            span.over(me, || node.now(), rounds);
        });
        Ok(span.length().as_us() / (2 * ROUNDS) as f64)
    }
}

/// One figure: the value of each way at each size, as rows and lines.
fn measure(
    report: &mut Report,
    value: impl Fn(Way, u64) -> Result<f64, PaperError>,
) -> Result<Vec<Vec<f64>>, PaperError> {
    let mut all = Vec::new();
    for way in Way::ALL {
        let values = SIZES.iter().map(|bytes| value(way, *bytes)).collect::<Result<Vec<_>, _>>()?;
        for (bytes, value) in SIZES.iter().zip(&values) {
            report.row([json!(way.name()), json!(bytes), json!(value)]);
        }
        let points = SIZES.iter().zip(&values).map(|(bytes, value)| (*bytes as f64, *value));
        report.picture.lines.push(Line::new(way.name(), points.collect()));
        all.push(values);
    }
    Ok(all)
}

fn place(bytes: u64) -> usize {
    SIZES.iter().position(|size| *size == bytes).unwrap_or_default()
}

pub(super) fn bandwidth(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(INFINIBAND)?;
    let mut report = report("thesis-4", figure, settings, &system, &["way", "bytes", "MB/s"]);
    let rates = measure(&mut report, |way, bytes| way.rate(&system, bytes, settings.seed))?;
    let rate = |way: Way, bytes: u64| rates[way as usize][place(bytes)];
    let named = |way: Way, bytes: u64| (way.name(), rate(way, bytes));
    let small = [Way::Mpi, Way::Write].map(|way| named(way, 1 << 10));
    let large = [Way::Write, Way::Mpi, Way::GpuWrite].map(|way| named(way, 4 << 20));
    report.claims = vec![
        Claim::order("small transfers outperform MPI, 1 KiB, MB/s", "4.4.1, Fig. 4.8", &small),
        Claim::near("gaspi_gpu_write over gaspi_write, 1 KiB", "4.4.1", 1.0, 0.05, "times")
            .judge(rate(Way::GpuWrite, 1 << 10) / rate(Way::Write, 1 << 10)),
        Claim::order("large transfers, 4 MiB, MB/s", "4.4.1, Fig. 4.8", &large),
        Claim::between(
            "gaspi_gpu_write over MPI, \"if only marginally\", 4 MiB",
            "4.4.1",
            1.0,
            1.25,
            "times",
        )
        .judge(rate(Way::GpuWrite, 4 << 20) / rate(Way::Mpi, 4 << 20)),
        Claim::near("before the bend: gaspi_gpu_write over gaspi_write, 16 KiB", "4.4.1", 1.0, 0.05, "times")
            .judge(rate(Way::GpuWrite, LIMIT) / rate(Way::Write, LIMIT)),
        Claim::at_least("behind the bend: the same, 32 KiB", "4.4.1", 1.2, "times")
            .judge(rate(Way::GpuWrite, 32 << 10) / rate(Way::Write, 32 << 10)),
    ];
    report.picture.y = Axis::new("MB/s", Scale::Logarithmic);
    Ok(report)
}

pub(super) fn latency(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(INFINIBAND)?;
    let columns = &["way", "bytes", "half round trip us"];
    let mut report = report("thesis-4", figure, settings, &system, columns);
    let times = measure(&mut report, |way, bytes| way.latency(&system, bytes, settings.seed))?;
    let us = |way: Way, bytes: u64| times[way as usize][place(bytes)];
    let small = [Way::Write, Way::Mpi].map(|way| (way.name(), us(way, 8)));
    report.claims = vec![
        Claim::order("small messages, 8 B, us", "4.4.2, Fig. 4.9", &small),
        Claim::near("gaspi_gpu_write over gaspi_write, 8 B", "4.4.2", 1.0, 0.05, "times")
            .judge(us(Way::GpuWrite, 8) / us(Way::Write, 8)),
        Claim::between(
            "staged: MPI over gaspi_gpu_write, \"do not differ by much\", 4 MiB",
            "4.4.2",
            1.0,
            1.25,
            "times",
        )
        .judge(us(Way::Mpi, 4 << 20) / us(Way::GpuWrite, 4 << 20)),
        Claim::at_least(
            "the direct transfer is \"much larger\": over the staged one, 4 MiB",
            "4.4.2",
            1.5,
            "times",
        )
        .judge(us(Way::Write, 4 << 20) / us(Way::GpuWrite, 4 << 20)),
    ];
    report.picture.y = Axis::new("half round trip, us", Scale::Logarithmic);
    Ok(report)
}
