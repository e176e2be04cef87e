//! Figure 3.5: how many allreduces by GSB pay for its set-up, on a K20.

use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_shared_gpu::Algorithm;
use serde_json::json;

use super::machine::{Machine, Way, by_size};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const RANKS: [usize; 3] = [4, 8, 16];
const COLUMNS: &[&str] = &["processes", "bytes", "set-up us", "saved by a call us", "calls"];
/// "Large": from where on the time depends on the size (3.3.2: oblivious to it up to 128 KB).
const LARGE: usize = 256 << 10;

pub(super) struct Point {
    pub(super) ranks: usize,
    pub(super) bytes: usize,
    setup_us: f64,
    /// Below 0: GSB is slower.
    pub(super) saved_us: f64,
}

impl Point {
    /// That pay for the set-up; none: no number of calls does.
    pub(super) fn calls(&self) -> Option<f64> {
        (self.saved_us > 0.0).then(|| (self.setup_us / self.saved_us).ceil())
    }
}

impl Machine {
    /// What `MPI_Init` does for GSB and not for the library (3.2.1): rank 0 allocates the buffer and names it; the others open it, each
    /// behind the one before, for the driver maps memory of one process at a time; and rank 0 opens an event of each of them.
    fn us_of_setup(&self, ranks: usize) -> f64 {
        let others = (ranks - 1) as f64;
        let each = self.number("open_memory_us") + self.number("open_event_us");
        self.number("allocate_us") + self.number("name_us") + others * each
    }
}

pub(super) fn points(machine: &Machine) -> Vec<Point> {
    let us = |way, ranks, bytes| machine.us_of(way, ranks, bytes).unwrap_or(f64::NAN);
    let point = |ranks: usize, bytes: usize| {
        let saved_us = us(Way::Mpi, ranks, bytes) - us(Way::Ours(Algorithm::Gsb), ranks, bytes);
        Point { ranks, bytes, setup_us: machine.us_of_setup(ranks), saved_us }
    };
    by_size(RANKS, 2..=24).map(|(ranks, bytes)| point(ranks, bytes)).collect()
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let machine = Machine::k20();
    let points = points(&machine);
    let mut report = machine.report((figure, settings), COLUMNS, claims(&points), picture(&points))?;
    let worth = |ranks: usize| {
        let own = points.iter().find(|point| point.ranks == ranks && point.bytes == 1 << 20);
        own.map_or(f64::NAN, |point| point.saved_us / 1e3)
    };
    report.notes.push(format!(
        "The text tells no time of the set-up: those of CUDA's calls are assumed. A single call of 1 MB pays for one of up to {:.1}, {:.1} and \
         {:.1} ms with 4, 8 and 16 processes, whatever they are.",
        worth(4),
        worth(8),
        worth(16)
    ));
    for point in &points {
        let calls = point.calls().map_or(json!(null), |calls| json!(calls));
        let (setup, saved) = (json!(point.setup_us), json!(point.saved_us));
        report.row([json!(point.ranks), json!(point.bytes), setup, saved, calls]);
    }
    Ok(report)
}

pub(super) fn claims(points: &[Point]) -> Vec<Verdict> {
    const SOURCE: &str = "3.3.3, Fig. 3.5";
    let of = |ranks: usize| points.iter().filter(move |point| point.ranks == ranks);
    let large = || points.iter().filter(|point| point.bytes >= LARGE);
    let single = large().filter(|point| point.calls() == Some(1.0)).count() as f64 / large().count() as f64;
    let most = large().map(|point| point.calls().unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
    let starts = || {
        "GSB has no gain there in the model (figure 3.3: the text tells no cost of starting a copy), so no number of calls pays"
            .to_owned()
    };
    let mut claims = vec![
        Claim::at_least("from 256 KB on: cases in which one call pays", SOURCE, 0.5, "of 1").judge(single),
        Claim::at_most("from 256 KB on: most calls that it takes (\"a few\")", SOURCE, 10.0, "calls")
            .judge(most),
    ];
    for ranks in RANKS {
        // "More calls for smaller messages".
        let calls: Vec<f64> = of(ranks).filter_map(Point::calls).collect();
        let rises = calls.windows(2).filter(|pair| pair[1] > pair[0]).count() as f64;
        let text = format!("{ranks} processes: sizes at which more calls are needed than at the one below");
        claims.push(Claim::at_most(&text, SOURCE, 0.0, "sizes").judge(rises));
    }
    for ranks in RANKS {
        let least = of(ranks)
            .filter(|point| point.calls().is_some())
            .map(|point| point.bytes as f64)
            .reduce(f64::min);
        let text = format!("{ranks} processes: smallest size at which any number of calls pays");
        // "Above 16 KB" with 16, all sizes with fewer (Fig. 3.3).
        let claim = match ranks {
            16 => Claim::between(&text, SOURCE, 16384.0, 32768.0, "B"),
            _ => Claim::at_most(&text, SOURCE, 4.0, "B"),
        };
        claims.push(claim.judge(least).because(starts));
    }
    claims
}

fn picture(points: &[Point]) -> Picture {
    let line = |ranks: usize| {
        let own = points.iter().filter(|point| point.ranks == ranks);
        let shown = own.filter_map(|point| Some((point.bytes as f64, point.calls()?)));
        Line::new(&format!("{ranks} processes"), shown.collect())
    };
    Picture {
        title: "Faraji, Fig. 3.5: allreduces that pay for the set-up".to_owned(),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("calls", Scale::Logarithmic),
        lines: RANKS.into_iter().map(line).collect(),
    }
}
