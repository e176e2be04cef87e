//! Figure 7: the ping-pong of Fig. 6, and the two ways without GMPI beside it.

use extoll_sim::timed::{Block, Kernel, Node, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::costs::Placement;
use super::daemon::with_daemons;
use super::messages::Messages;
use super::ring::{Call, Ring};
use super::{SYSTEM, report};
use crate::programs::{Span, on_all};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict, today};

const SIZES: [u64; 8] = [4, 64, 512, 1 << 10, 4 << 10, 8 << 10, 32 << 10, 64 << 10];
const ROUNDS: u64 = 16;
/// Calls of MPI of each side in a round.
const CALLS: u64 = 3;
/// The paper does not print SYNC's program: a kernel before each send of both sides, or of one.
const WAYS: [&str; 4] = ["MVAPICH2-GDR", "MVAPICH2-GDR-SYNC", "GMPI", "SYNC, one kernel a round"];
const GDR: usize = 0;
const SYNC: usize = 1;
const GMPI: usize = 2;
const SYNC_ONE: usize = 3;

/// A round of one side (Fig. 6).
fn by_calls(block: &Block<'_>, ring: &Ring, me: usize, bytes: u64, round: u64) {
    let send = [Call::Isend { bytes }];
    let receive = [Call::Irecv, Call::Wait { arguments: 2 }];
    let calls = if me == 0 { [&send[..], &receive[..]] } else { [&receive[..], &send[..]] };
    calls.into_iter().flatten().for_each(|call| ring.post(block, *call));
    ring.synchronize(block, CALLS * round);
}

/// The same by hosts, with kernels that end before a send.
fn by_hosts(node: Node<'_>, messages: &Messages, way: usize, bytes: u64, round: u64) {
    let me = node.index();
    let send = || {
        if way == SYNC || way == SYNC_ONE && me == 0 {
            node.stream(0).launch(Kernel::new("between two messages", 1), |_| {});
            node.stream(0).synchronize();
        }
        messages.isend(node, bytes);
    };
    if me == 0 {
        send();
    }
    messages.irecv(node);
    messages.wait(node, round);
    if me == 1 {
        send();
    }
}

/// Microseconds of a round trip.
fn time(system: &System, way: usize, bytes: u64, seed: u64) -> Result<f64, PaperError> {
    let span = Span::default();
    if way == GMPI {
        with_daemons(system, Placement::Gdr, seed, (2, 1, CALLS * ROUNDS), |_, me, ring| {
            let span = span.clone();
            Box::new(move |block| {
                let rounds = || (1..=ROUNDS).for_each(|round| by_calls(&block, &ring, me, bytes, round));
                span.over(me, || block.now(), rounds);
            })
        })?;
    } else {
        let timed = Timed::new(system, 2, seed)?;
        let messages = Messages::new(&timed, system);
        on_all(&timed, 2, |node| {
            let rounds = || (1..=ROUNDS).for_each(|round| by_hosts(node, &messages, way, bytes, round));
            span.over(node.index(), || node.now(), rounds);
        });
    }
    Ok(span.length().as_us() / ROUNDS as f64)
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let x = Axis::new("bytes", Scale::Sizes);
    let columns =
        &["bytes", "MVAPICH2-GDR us", "MVAPICH2-GDR-SYNC us", "GMPI us", "SYNC, one kernel a round, us"];
    let mut report = report(figure, settings, &system, columns, x);
    let mut times: Vec<[f64; 4]> = Vec::new();
    for bytes in SIZES {
        let mut us = [0.0; 4];
        for (way, us) in us.iter_mut().enumerate() {
            *us = time(&system, way, bytes, settings.seed)?;
        }
        report.row([json!(bytes), json!(us[GDR]), json!(us[SYNC]), json!(us[GMPI]), json!(us[SYNC_ONE])]);
        times.push(us);
    }
    let line = |way: usize| {
        let points = SIZES.iter().zip(&times).map(|(bytes, us)| (*bytes as f64, us[way]));
        Line::new(WAYS[way], points.collect())
    };
    report.picture.lines = (0..4).map(line).collect();
    report.picture.y = Axis::new("round trip, us", Scale::Logarithmic);
    report.claims =
        claims(|bytes| SIZES.iter().position(|size| *size == bytes).map_or([f64::NAN; 4], |at| times[at]));
    report.notes.push(
        "SYNC: each side has a kernel of its own before each of its sends, launched and awaited in the round; the paper does not print that \
         program, so the last column has one with a kernel on one side only. Messages are one put of any length: no rendezvous. No parameter was taken in view of Fig. 7"
            .to_owned(),
    );
    Ok(report)
}

fn claims(us: impl Fn(u64) -> [f64; 4]) -> Vec<Verdict> {
    let named = |ways: [usize; 2]| ways.map(|way| (WAYS[way], us(4)[way]));
    let over = |bytes: u64| us(bytes)[GMPI] / us(bytes)[SYNC];
    let calls = |bytes: u64| {
        let [gdr, sync, gmpi, one] = us(bytes);
        format!(
            "in the model three calls of each side add {:.1} us to a round of hosts, two kernels that end add {:.1}, a single one {:.1}; the \
             authors expected no difference either, and lay the rest to \"the synchronization on the local device memory\", of which they give \
             no cost",
            gmpi - gdr,
            sync - gdr,
            one - gdr
        )
    };
    let calls = |bytes: u64| move || calls(bytes);
    vec![
        Claim::order(
            "4 B, us: kernels that end cost more than hosts alone",
            "VI A, Fig. 7",
            &named([GDR, SYNC]),
        ),
        Claim::order("4 B, us: GMPI costs more than kernels that end", "VI A, Fig. 7", &named([SYNC, GMPI]))
            .because(calls(4))
            .today(today::gmpi_pingpong(8)),
        Claim::near(
            "4 B: GMPI over kernels that end",
            "VI A: approximately 10 us of overhead",
            10.0,
            4.0,
            "us",
        )
        .judge(us(4)[GMPI] - us(4)[SYNC])
        .because(calls(4)),
        Claim::near("4 B: kernels that end over GMPI", "VIII: approximately 70%", 0.7, 0.1, "times")
            .judge(1.0 / over(4))
            .because(calls(4)),
        Claim::near("the same, as the authors expected it from Fig. 5", "VI A", 1.0, 0.25, "times")
            .judge(1.0 / over(4))
            .because(calls(4)),
        Claim::near("4 KiB: GMPI over kernels that end", "VI A, Fig. 7", 1.0, 0.2, "times")
            .judge(over(4 << 10))
            .because(calls(4 << 10))
            .today(today::gmpi_pingpong(4096)),
        Claim::near("64 KiB: GMPI over kernels that end", "VI A, Fig. 7", 1.0, 0.1, "times")
            .judge(over(64 << 10))
            .today(today::gmpi_pingpong(65_536)),
        Claim::at_most("the difference is reduced: 64 KiB over 4 B, of GMPI/SYNC - 1", "VI A", 1.0, "times")
            .judge((over(64 << 10) - 1.0).abs() / (over(4) - 1.0).abs()),
    ]
}
