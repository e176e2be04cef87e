//! Section VI B's open question: does a daemon that polls GPU memory slow the kernel that computes there?

use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::costs::numbers;
use super::{SYSTEM, report};
use crate::{Claim, Figure, PaperError, Report, Settings};

/// Daemons that look one behind the other.
const DAEMONS: [u32; 4] = [1, 2, 4, 8];

/// Percent of the memory's time that looks take at worst: each opens a row of its own in one of the controllers.
fn taken(daemons: u32) -> f64 {
    let numbers = numbers();
    let looks = f64::from(daemons) / numbers.get("load_ns");
    100.0 * looks * numbers.get("row_ns") / numbers.get("controllers")
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["daemons", "looks a us", "MB/s of 16 B", "at most, % of the memory's time"];
    let x = Axis::new("daemons", Scale::Linear);
    let mut report = report(figure, settings, &system, columns, x);
    let load_us = numbers().get("load_ns") / 1e3;
    for daemons in DAEMONS {
        let looks = f64::from(daemons) / load_us;
        report.row([json!(daemons), json!(looks), json!(16.0 * looks), json!(taken(daemons))]);
    }
    let points = DAEMONS.into_iter().map(|daemons| (f64::from(daemons), taken(daemons))).collect();
    report.picture.lines = vec![Line::new("looks", points)];
    report.picture.y = Axis::new("% of the memory's time, at most", Scale::Linear);
    let text =
        "a daemon's looks take from a kernel that is bound by memory what is missing at 60% of performance";
    report.claims = vec![Claim::at_least(text, "VI B, VIII", 40.0, "%").judge(taken(1)).because(|| {
        format!(
            "one load over the bus is under way at a time, one each {load_us:.2} us; even if each opens and closes a row of one of the \
             {} memory controllers, {:.0}% of the memory's time are left to the kernel: whatever slowed it was not that",
            numbers().get("controllers"),
            100.0 - taken(1)
        )
    })];
    report.notes.push(
        "an upper bound from the parts' times, not a run: the timed model has no memory controllers. `ggas bench gmpi-polling` asks real \
         GPUs; it has not run on one"
            .to_owned(),
    );
    Ok(report)
}
