//! Figure 9a: finite differences with four points of boundary, boundaries first, their exchange beside the rest (5.3).

use extoll_sim::timed::{Flag, Kernel, Ps, System};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::machine::{Machine, Way};
use super::thread::Thread;
use super::{SYSTEM, named, report, sizes};
use crate::memory::Memory;
use crate::programs::places;
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict, today};

/// Points along a side. The text tells 1 to 9 MB of exchange; four planes of 256 x 256 floats are 1 MB, of 768 x 768 9 MB, so the grids are
/// taken to be cubes.
const SIDES: [u64; 3] = [256, 512, 768];
const PLANES: u64 = 4;
const FLOAT: u64 = 4;
/// Of a point: 25 points of a star of radius 4, by differences that are symmetric.
const OPERATIONS: u64 = 29;
/// Bytes of memory: tiles of 16 x 16 read (256 + 4 x 64) / 256 floats for each point, and write one (paper's reference 9).
const TOUCHED: u64 = 12;
const STEPS: u64 = 3;
pub(super) const GPUS: [usize; 2] = [2, 4];
const SHOWN: [Way; 5] = [Way::Naive, Way::Pinned, Way::Double, Way::Software, Way::Peer];

pub(super) fn boundary(side: u64) -> u64 {
    PLANES * side * side * FLOAT
}

/// Neighbours, in an order in which nobody waits for a chain of others.
fn partners(me: usize, gpus: usize) -> Vec<usize> {
    let (left, right) = (me.checked_sub(1), Some(me + 1).filter(|right| *right < gpus));
    let order = if me.is_multiple_of(2) { [right, left] } else { [left, right] };
    order.into_iter().flatten().collect()
}

/// A kernel over so many points.
fn launch(machine: &Machine, me: usize, points: u64) -> Flag {
    let blocks = places(&machine.system);
    let share = points / blocks as u64;
    machine.gpu(me).stream(0).launch(Kernel::new("stencil", blocks), move |block| {
        block.compute(share * OPERATIONS, share * TOUCHED);
    })
}

/// A step, and the part of it that exchanges take, in us.
fn step(system: &System, way: Way, (side, gpus): (u64, usize), seed: u64) -> Result<[f64; 2], PaperError> {
    let machine = Machine::new(system, way, seed)?;
    let times = Memory::new([Ps::ZERO; 2]);
    machine.run(gpus, |me| {
        let (thread, host) = (Thread::new(&machine, me), machine.host(me));
        let partners = partners(me, gpus);
        let edges = PLANES * side * side * partners.len() as u64;
        let all = side * side * side / gpus as u64;
        let mut exchanging = Ps::ZERO;
        for _ in 0..STEPS {
            let first = launch(&machine, me, edges);
            host.wait(&first, 1);
            let rest = launch(&machine, me, all - edges);
            let began = thread.now();
            for partner in &partners {
                thread.exchange(*partner, boundary(side));
            }
            exchanging += thread.now() - began;
            host.wait(&rest, 1);
        }
        let (mut times, now) = (times.lock(), thread.now());
        *times = [times[0].max(now), times[1].max(exchanging)];
    });
    let times = *times.lock();
    Ok(times.map(|time| time.as_us() / STEPS as f64))
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["GPUs", "side", "exchange bytes", "way", "step us", "exchange us", "speed-up over naive"];
    let axes = (sizes(), Axis::new("speed-up over naive", Scale::Linear));
    let mut report = report(figure, settings, &system, columns, axes);
    let mut gains = Vec::new();
    for gpus in GPUS {
        let mut points = Vec::new();
        for side in SIDES {
            let mut naive = f64::NAN;
            for way in SHOWN {
                let [us, exchange] = step(&system, way, (side, gpus), settings.seed)?;
                if way == Way::Naive {
                    naive = us;
                }
                let bytes = boundary(side);
                let gain = naive / us;
                report.row([
                    json!(gpus),
                    json!(side),
                    json!(bytes),
                    json!(way.name()),
                    json!(us),
                    json!(exchange),
                    json!(gain),
                ]);
                if way == Way::Peer {
                    points.push((bytes as f64, gain));
                }
            }
        }
        report.picture.lines.push(Line::new(&format!("peer-DMA, {gpus} GPUs"), points.clone()));
        gains.push(points);
    }
    report.claims = claims(&gains);
    report.notes.push(
        "sides of cubes are ours, from the sizes of the exchange; operations and bytes of a point from the method (the paper's reference 9). GPUs 1 \
         and 2 are on different buses and copy through the host in every way. No parameter was taken in view of Fig. 9"
            .to_owned(),
    );
    Ok(report)
}

fn claims(gains: &[Vec<(f64, f64)>]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (at, (low, high)) in [(0, (1.04, 1.23)), (1, (1.15, 1.63))] {
        let gpus = GPUS[at];
        let hidden = || {
            "an exchange that is shorter than the computation beside it is hidden in every way, and one that is longer is not; so a point's cost \
             decides, which the paper does not tell"
                .to_owned()
        };
        for (bytes, gain) in &gains[at] {
            let text = format!("{gpus} GPUs, {}: peer-DMA over naive", named(*bytes as u64));
            verdicts
                .push(Claim::between(&text, "5.3, Fig. 9a", low, high, "times").judge(*gain).because(hidden));
        }
        let [Some(first), Some(last)] =
            [gains[at].first(), gains[at].last()].map(|gain| gain.map(|gain| gain.1))
        else {
            continue;
        };
        let order = [("the largest", last), ("the smallest", first)];
        let text = format!("{gpus} GPUs: the largest gains are those of small inputs");
        verdicts.push(Claim::order(&text, "5.3, Fig. 9a", &order).because(hidden));
    }
    let best = |at: usize| gains[at].iter().map(|gain| gain.1).fold(0.0, f64::max);
    let order = [("2 GPUs", best(0)), ("4 GPUs", best(1))];
    verdicts.push(
        Claim::order("four GPUs gain more than two, best gain", "5.3, Fig. 9a", &order)
            .today(today::hpe_stencil()),
    );
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_the_papers_and_neighbours_meet() {
        assert_eq!([boundary(256), boundary(768)], [1 << 20, 9 << 20]);
        assert_eq!(partners(0, 2), [1]);
        assert_eq!((partners(1, 4), partners(2, 4)), (vec![0, 2], vec![3, 1]));
        assert_eq!((partners(0, 4), partners(3, 4)), (vec![1], vec![2]));
    }
}
