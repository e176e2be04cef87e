//! Figure 5: from a kernel's store of an attribute until it knows that the daemon has it.

use extoll_sim::timed::System;
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::costs::Placement;
use super::daemon::with_daemons;
use super::ring::Call;
use super::{SYSTEM, report};
use crate::programs::Span;
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict, today};

/// Calls of which the mean is taken; looks of both sides meet at other moments in each.
const CALLS: u64 = 64;
const MOST: u64 = 31;
/// Table 3: what a kernel's launch and the wait for its end cost, us.
const LAUNCHED: f64 = 10.9;

fn time(system: &System, placement: Placement, arguments: u64, seed: u64) -> Result<f64, PaperError> {
    let span = Span::default();
    with_daemons(system, placement, seed, (1, 1, CALLS), |_, me, ring| {
        let span = span.clone();
        Box::new(move |block| {
            let calls = || {
                for count in 1..=CALLS {
                    ring.post(&block, Call::Nothing { arguments });
                    ring.synchronize(&block, count);
                }
            };
            span.over(me, || block.now(), calls);
        })
    })?;
    Ok(span.length().as_us() / CALLS as f64)
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let x = Axis::new("arguments", Scale::Linear);
    let columns = &["arguments", "gdrcopy us", "mapped us", "cudaMemcpy us"];
    let mut report = report(figure, settings, &system, columns, x);
    let mut times: Vec<[f64; 3]> = Vec::new();
    for arguments in 1..=MOST {
        let mut us = [0.0; 3];
        for (us, placement) in us.iter_mut().zip(Placement::ALL) {
            *us = time(&system, placement, arguments, settings.seed)?;
        }
        report.row([json!(arguments), json!(us[0]), json!(us[1]), json!(us[2])]);
        times.push(us);
    }
    let line = |at: usize| {
        let points = (1..=MOST).zip(&times).map(|(arguments, us)| (arguments as f64, us[at]));
        Line::new(Placement::ALL[at].name(), points.collect())
    };
    report.picture.lines = (0..3).map(line).collect();
    report.claims = claims(|placement, arguments| times[arguments as usize - 1][placement as usize]);
    report.notes.push(
        "costs of single reads are gdrcopy's own, with a P100 on another host; no parameter was taken in view of Fig. 5".to_owned(),
    );
    Ok(report)
}

fn claims(us: impl Fn(Placement, u64) -> f64) -> Vec<Verdict> {
    let gdr = |arguments: u64| us(Placement::Gdr, arguments);
    let all: Vec<f64> = (1..=MOST).map(gdr).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    // The most arguments up to which no call is dearer than a kernel that ends.
    let paying = all.iter().take_while(|us| **us <= LAUNCHED).count();
    let loads = || {
        "gdrcopy's loop reads 16 bytes with each load, and until eight of them are due together each costs a crossing of the bus, so \
         each second argument costs one; the paper's flat part would be one read for the first 64 bytes"
            .to_owned()
    };
    let calls = |arguments: u64| today::gmpi_call("mapped", arguments);
    let order = [Placement::Gdr, Placement::Mapped, Placement::Copied].map(|way| (way.name(), us(way, 7)));
    let copies = [Placement::Gdr, Placement::Copied].map(|way| (way.name(), us(way, 7)));
    vec![
        Claim::near("up to 7 arguments: the mean of 1 to 7", "IV C, Fig. 5", 4.5, 1.0, "us")
            .judge(all.iter().take(7).sum::<f64>() / 7.0)
            .because(loads)
            .today(calls(7)),
        Claim::near("almost constant up to 7: 7 arguments over 1", "IV C, Fig. 5", 1.0, 0.15, "times")
            .judge(gdr(7) / gdr(1))
            .because(loads),
        Claim::between("least of all", "IV C: 4 to 13 us", 3.0, 5.0, "us").judge(least).because(loads),
        Claim::between("most of all", "IV C: 4 to 13 us", 11.0, 15.0, "us").judge(most).today(calls(MOST)),
        Claim::at_most("22 arguments cost less than a kernel that ends", "IV C, Table 3", 11.0, "us")
            .judge(gdr(22))
            .today(calls(23)),
        Claim::between("arguments up to which calls are cheaper", "IV C: 22 or 23", 20.0, 25.0, "").judge(paying as f64).because(|| {
            "the loop's groups of 128 bytes make 17 to 23 arguments cheaper than 16, so the curve is no straight line"
                .to_owned()
        }),
        Claim::order("7 arguments, us: gdrcopy is shorter than cudaMemcpy", "III D", &copies).today(today::gmpi_call("copied", 7)),
        Claim::order("7 arguments, us: gdrcopy is shorter than mapped memory", "III D", &order[..2]).because(|| {
            "in mapped memory a call crosses the bus by the kernel's posted store and comes back by the kernel's looks; with gdrcopy the \
             host reads over it, once for each 16 bytes. The paper tells only \"a couple of us\" of the mapped way"
                .to_owned()
        }),
    ]
}
