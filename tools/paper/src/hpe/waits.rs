//! Figure 8: what threads wait for locks (HPE), and for each other's buffers (CUDA-base, double-buffered).

use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::copies::{LARGE, SIZES, copy};
use super::machine::Way;
use super::{SYSTEM, named, report, sizes};
use crate::{Claim, Figure, PaperError, Report, Settings, today};

const WAYS: [Way; 2] = [Way::Software, Way::Double];

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["way", "directions", "bytes", "us waited"];
    let axes = (sizes(), Axis::new("us", Scale::Linear));
    let mut report = report(figure, settings, &system, columns, axes);
    let mut waits = Vec::new();
    for both in [false, true] {
        for way in WAYS {
            let directions = if both { "both ways" } else { "one way" };
            let mut points = Vec::new();
            for bytes in SIZES {
                let us = copy(&system, way, both, bytes, settings.seed)?.waited.as_us();
                report.row([json!(way.name()), json!(directions), json!(bytes), json!(us)]);
                points.push((bytes as f64, us));
            }
            report.picture.lines.push(Line::new(&format!("{}, {directions}", way.name()), points.clone()));
            waits.push(points);
        }
    }
    let us = |both: bool, way: usize, bytes: u64| {
        let size = SIZES.iter().position(|size| *size == bytes).unwrap_or_default();
        waits[2 * usize::from(both) + way][size].1
    };
    for (both, bytes) in [(false, 1 << 20), (false, LARGE), (true, LARGE)] {
        let order = [0, 1].map(|way| (WAYS[way].name(), us(both, way, bytes)));
        let text =
            format!("{}, {}, us: HPE waits less", if both { "both ways" } else { "one way" }, named(bytes));
        let verdict = Claim::order(&text, "5.2, Fig. 8", &order).because(|| {
            "by hand both threads of the model are in step, so each finds the other's buffer as it needs it; HPE's meet in locks at each piece"
                .to_owned()
        });
        report.claims.push(verdict.today(today::hpe_lock()));
    }
    let small = [1, 0].map(|way| (WAYS[way].name(), us(true, way, 256 << 10)));
    report.claims.push(Claim::order("both ways, 256 KB, us: HPE waits more", "5.2, Fig. 8", &small).because(
        || "in the model both threads meet in a context's lock for a call's time at most".to_owned(),
    ));
    report.claims.push(
        Claim::near("HPE's wait grows linearly: 256 MB over 64 MB, both ways", "5.2", 4.0, 1.0, "times")
            .judge(us(true, 0, LARGE) / us(true, 0, 64 << 20))
            .because(|| {
                "it is the looks of two threads that meet, which follow their own periods".to_owned()
            }),
    );
    report.notes.push(
        "the sum of both threads; of CUDA-base the waits for a full or free buffer. No parameter was taken in view of Fig. 8".to_owned(),
    );
    Ok(report)
}
