//! Section 4.4.3: what a transfer takes from the work of the host that posts it. Section 4.5.1: what a kernel's end costs it.

use extoll_sim::timed::{Flag, Kernel, Node, Place, Ps, Put, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::gaspi::Way;
use super::{INFINIBAND, report};
use crate::programs::{Span, on_all};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict, today};

/// Payloads of Fig. 4.10.
const SIZES: [u64; 6] = [64, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Up to so many bytes `gaspi_gpu_write` goes directly, and above in such chunks: the best for a K20 (4.3.9).
const LIMIT: u64 = 8 << 10;
const CHUNK: u64 = 256 << 10;

impl Way {
    /// Whether it is one put.
    fn is_whole(self, bytes: u64) -> bool {
        self == Way::Write || (self == Way::GpuWrite && bytes <= LIMIT)
    }

    /// Begins a transfer to node 1.
    fn post(self, system: &System, node: Node<'_>, bytes: u64, sent: &Flag) {
        let put = |bytes| Put::new(1, bytes).into(Place::Gpu).notified().sent(sent);
        if self == Way::Mpi {
            node.work(Ps::ns(system.host.send_ns));
        }
        if self.is_whole(bytes) {
            return node.put(put(bytes).from(Place::Gpu));
        }
        for chunk in chunks(bytes) {
            node.copy(chunk);
            node.put(put(chunk));
        }
    }

    /// Waits for its end.
    fn wait(self, system: &System, node: Node<'_>, bytes: u64, sent: &Flag) {
        let puts = if self.is_whole(bytes) { 1 } else { chunks(bytes).count() as u64 };
        node.wait(sent, puts);
        if self == Way::Mpi {
            node.work(Ps::ns(system.host.receive_ns));
        }
    }

    /// From the post to the end, with so much work between.
    fn time(self, system: &System, bytes: u64, work: Ps, seed: u64) -> Result<Ps, PaperError> {
        let timed = Timed::new(system, 2, seed)?;
        let (sent, span) = (timed.flag(), Span::default());
        on_all(&timed, 1, |node| {
            let transfer = || {
                self.post(system, node, bytes, &sent);
                node.work(work);
                self.wait(system, node, bytes, &sent);
            };
            span.over(0, || node.now(), transfer);
        });
        Ok(span.length())
    }

    /// What a transfer adds to work that is as long as it takes itself.
    fn overhead(self, system: &System, bytes: u64, seed: u64) -> Result<Ps, PaperError> {
        let work = self.time(system, bytes, Ps::ZERO, seed)?;
        Ok(self.time(system, bytes, work, seed)? - work)
    }
}

fn chunks(bytes: u64) -> impl Iterator<Item = u64> {
    (0..bytes).step_by(CHUNK as usize).map(move |at| CHUNK.min(bytes - at))
}

pub(super) fn post_work_wait(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(INFINIBAND)?;
    let mut report = report("thesis-4", figure, settings, &system, &["way", "bytes", "overhead us"]);
    let mut lines = Vec::new();
    for way in Way::ALL {
        let mut points = Vec::new();
        for bytes in SIZES {
            let us = way.overhead(&system, bytes, settings.seed)?.as_us();
            report.row([json!(way.name()), json!(bytes), json!(us)]);
            points.push((bytes as f64, us));
        }
        lines.push(Line::new(way.name(), points));
    }
    let us = |way: Way, size: usize| lines[way as usize].strokes[0][size].1;
    let large = SIZES.len() - 1;
    let order = Way::ALL.map(|way| (way.name(), us(way, large)));
    report.claims = vec![
        hardly("gaspi_write's overhead is hardly measurable, 1 MiB", us(Way::Write, large))
            .today(today::overhead("copy")),
        hardly("gaspi_gpu_write's is not for small messages, 1 KiB", us(Way::GpuWrite, 1)),
        Claim::order("overhead of 1 MiB in us", "4.4.3, Fig. 4.10", &order).today(today::overhead("staged")),
    ];
    report.picture.y = Axis::new("overhead, us", Scale::Logarithmic);
    report.picture.lines = lines;
    Ok(report)
}

/// Beside works of some microseconds and more.
fn hardly(text: &str, us: f64) -> Verdict {
    Claim::at_most(text, "4.4.3", 1.0, "us").judge(us)
}

/// A kernel that does nothing, from its launch until the host knows of its end.
pub(super) fn synchronization(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    const BLOCKS: usize = 64;
    const LAUNCHES: u64 = 10;
    let system = settings.system(INFINIBAND)?;
    let timed = Timed::new(&system, 1, settings.seed)?;
    on_all(&timed, 1, |node| {
        for _ in 0..LAUNCHES {
            node.stream(0).launch(Kernel::new("nothing", BLOCKS), |_| {});
            node.stream(0).synchronize();
        }
    });
    let us = timed.now().as_us() / LAUNCHES as f64;
    let mut report = report("thesis-4", figure, settings, &system, &["way", "us"]);
    report.row([json!("stream"), json!(us)]);
    let text = "stream synchronization; the system's launch and end are taken from it";
    report.claims =
        vec![Claim::near(text, "Table 4.1", 12.25, 0.61, "us").judge(us).today(today::synchronization())];
    report.picture.x = Axis::new("blocks", Scale::Linear);
    report.picture.y = Axis::new("us", Scale::Linear);
    report.picture.lines = vec![Line::new("stream", vec![(BLOCKS as f64, us)])];
    Ok(report)
}
