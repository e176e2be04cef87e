//! Figure 7: throughput of copies between two GPUs of a bus.

use extoll_sim::timed::{Ps, System};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::machine::{Machine, Way};
use super::thread::Thread;
use super::{SYSTEM, named, report, sizes};
use crate::memory::Memory;
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict, today};

pub(super) const SIZES: [u64; 8] =
    [256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20, LARGE];
pub(super) const LARGE: u64 = 256 << 20;
const DIRECTIONS: [&str; 2] = ["one way", "both ways"];

/// A copy: its time, and what both threads waited for each other and for locks.
pub(super) struct Copied {
    pub time: Ps,
    pub waited: Ps,
}

pub(super) fn copy(
    system: &System,
    way: Way,
    both: bool,
    bytes: u64,
    seed: u64,
) -> Result<Copied, PaperError> {
    let machine = Machine::new(system, way, seed)?;
    let (ends, waited) = (Memory::new(Ps::ZERO), Memory::new(Ps::ZERO));
    machine.run(2, |me| {
        let thread = Thread::new(&machine, me);
        match (both, me) {
            (true, _) => thread.exchange(1 - me, bytes),
            (false, 0) => thread.send(1, bytes),
            (false, _) => thread.receive(0, bytes),
        }
        let (mut ends, now) = (ends.lock(), thread.now());
        *ends = (*ends).max(now);
        *waited.lock() += thread.waited();
    });
    let (time, waited) = (*ends.lock(), *waited.lock());
    Ok(Copied { time, waited })
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["way", "directions", "bytes", "us", "GB/s"];
    let axes = (sizes(), Axis::new("GB/s", Scale::Linear));
    let mut report = report(figure, settings, &system, columns, axes);
    let mut rates = [[[0.0; SIZES.len()]; Way::ALL.len()]; 2];
    for both in [false, true] {
        for (at, way) in Way::ALL.into_iter().enumerate() {
            for (size, bytes) in SIZES.into_iter().enumerate() {
                let us = copy(&system, way, both, bytes, settings.seed)?.time.as_us();
                let rate = (1 + u64::from(both)) as f64 * bytes as f64 / us / 1e3;
                let directions = DIRECTIONS[usize::from(both)];
                report.row([json!(way.name()), json!(directions), json!(bytes), json!(us), json!(rate)]);
                rates[usize::from(both)][at][size] = rate;
            }
            let points =
                SIZES.iter().zip(rates[usize::from(both)][at]).map(|(bytes, rate)| (*bytes as f64, rate));
            let name = format!("{}, {}", way.name(), DIRECTIONS[usize::from(both)]);
            report.picture.lines.push(Line::new(&name, points.collect()));
        }
    }
    report.claims = claims(|both, way, bytes| {
        let size = SIZES.iter().position(|size| *size == bytes).unwrap_or_default();
        rates[usize::from(both)][way as usize][size]
    });
    report.notes.push(
        "both GPUs on one bus; both ways: the sum of both directions. No rate was taken from a figure; the memory's rate of a core was worked \
         out of the processor's data with the claim of 40% known. \"One copy a context\" is our reading of \"exclusive access to the \
         contexts\", made in view of the claim on both ways: that it holds there is no evidence, what it gives in Fig. 9b is"
            .to_owned(),
    );
    Ok(report)
}

fn claims(rate: impl Fn(bool, Way, u64) -> f64) -> Vec<Verdict> {
    let over = |both: bool, a: Way, b: Way, bytes: u64| rate(both, a, bytes) / rate(both, b, bytes);
    let mut verdicts = Vec::new();
    for (both, bytes) in [(false, 256 << 10), (false, LARGE), (true, 256 << 10), (true, LARGE)] {
        let best = Way::ALL[..5].iter().map(|way| rate(both, *way, bytes)).fold(0.0, f64::max);
        let order = [("the best software", best), ("peer-DMA", rate(both, Way::Peer, bytes))];
        let text =
            format!("{}, {}, GB/s: peer-DMA is the highest", DIRECTIONS[usize::from(both)], named(bytes));
        verdicts.push(Claim::order(&text, "5.2, Fig. 7", &order));
    }
    let share = |way: Way| 100.0 * over(false, way, Way::Peer, LARGE);
    let intermediate = || {
        "down and up go over lanes of their own at the same time, so in the model two buffers cost only their calls, 20 us of polls and the \
         first piece; what else copies through the host cost on this chipset the paper does not tell"
            .to_owned()
    };
    verdicts.push(
        Claim::near("one way, 256 MB: HPE software of peer-DMA", "5.2, Fig. 7", 70.0, 10.0, "%")
            .judge(share(Way::Software))
            .because(intermediate)
            .today(today::hpe_copy("staged")),
    );
    let contexts = || {
        format!(
            "contexts locked for calls only, as 4.1 has it, leave both directions of the lanes to both threads; where a context makes one copy at \
             a time peer-DMA is {:.2} times as quick, as the paper's reason, \"exclusive access to contexts\", says",
            over(true, Way::Peer, Way::OneQueue, LARGE)
        )
    };
    verdicts.push(
        Claim::between(
            "both ways, 256 MB: peer-DMA over HPE software, \"almost 2x\"",
            "5.2, Fig. 7",
            1.6,
            2.1,
            "times",
        )
        .judge(over(true, Way::Peer, Way::Software, LARGE))
        .because(contexts)
        .today(today::hpe_copy("both-ways")),
    );
    verdicts.push(
        Claim::between(
            "both ways, 256 MB: the same with one copy a context, a way made for this claim",
            "5.2, Fig. 7",
            1.6,
            2.1,
            "times",
        )
        .judge(over(true, Way::Peer, Way::OneQueue, LARGE)),
    );
    verdicts.push(
        Claim::near("one way, 256 MB: pinned over naive", "5.2, Fig. 7", 1.4, 0.15, "times").judge(over(
            false,
            Way::Pinned,
            Way::Naive,
            LARGE,
        )),
    );
    let software = [Way::Naive, Way::Pinned, Way::Double].map(|way| (way.name(), rate(false, way, LARGE)));
    verdicts.push(Claim::order(
        "one way, 256 MB, GB/s: double buffering is the best of CUDA-base",
        "5.2, Fig. 7",
        &software,
    ));
    verdicts.push(
        Claim::near("no benefit of double buffering yet: over pinned, 1 MB", "5.2", 1.0, 0.1, "times")
            .judge(over(false, Way::Double, Way::Pinned, 1 << 20))
            .because(|| "a single piece needs no second buffer".to_owned()),
    );
    verdicts.push(
        Claim::at_least("benefit of double buffering above 1 MB: over pinned, 4 MB", "5.2", 1.2, "times")
            .judge(over(false, Way::Double, Way::Pinned, 4 << 20)),
    );
    verdicts.push(
        Claim::near("peer-DMA over the best of CUDA-base, 256 MB, both ways", "1, 7: 2x", 2.0, 0.4, "times")
            .judge(over(true, Way::Peer, Way::Double, LARGE))
            .because(|| {
                "by hand both directions of the lanes are in use, too; one way it is the same".to_owned()
            }),
    );
    verdicts
}
