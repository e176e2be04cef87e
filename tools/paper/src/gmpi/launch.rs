//! Table 3: what the way without GMPI costs for each call of MPI.

use extoll_sim::timed::{Kernel, Node, Ps, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::costs::numbers;
use super::{SYSTEM, report};
use crate::programs::{Span, on_all};
use crate::{Claim, Figure, PaperError, Report, Settings, today};

const LAUNCHES: u64 = 10;
/// Ways of the table and its us.
const WAYS: [(&str, f64); 3] =
    [("launch", 3.23), ("cudaDeviceSynchronize", 12.5), ("cudaStreamSynchronize", 10.9)];

/// A launch, its end awaited where the way says so.
fn time(system: &System, way: usize, seed: u64) -> Result<f64, PaperError> {
    let timed = Timed::new(system, 1, seed)?;
    let span = Span::default();
    on_all(&timed, 1, |node: Node<'_>| {
        let launches = || {
            for _ in 0..LAUNCHES {
                node.stream(0).launch(Kernel::new("nothing", 1), |_| {});
                if way > 0 {
                    node.stream(0).synchronize();
                }
                if way == 1 {
                    node.work(numbers().ns("device_sync_ns"));
                }
            }
        };
        span.over(0, || node.now(), launches);
    });
    Ok(Ps(span.length().0 / LAUNCHES).as_us())
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let x = Axis::new("way", Scale::Linear);
    let mut report = report(figure, settings, &system, &["way", "us", "paper us"], x);
    for (way, (name, paper)) in WAYS.into_iter().enumerate() {
        let us = time(&system, way, settings.seed)?;
        report.row([json!(name), json!(us), json!(paper)]);
        let text = format!("{name}; the system's launch and end are taken from it");
        let claim = Claim::near(&text, "Table 3", paper, paper / 20.0, "us").judge(us);
        report.claims.push(if way == 0 { claim } else { claim.today(today::synchronization()) });
        report.picture.lines.push(Line::new(name, vec![(way as f64, us)]));
    }
    Ok(report)
}
