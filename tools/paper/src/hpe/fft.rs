//! Figures 9b and 10b: a radix-2 transform over several GPUs, which swap data in pairs at each step (5.1).

use extoll_sim::timed::{Kernel, Ps, System};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::machine::{Machine, Way};
use super::stencil::GPUS;
use super::thread::Thread;
use super::{SYSTEM, named, report, sizes};
use crate::memory::Memory;
use crate::programs::places;
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict, today};

/// Bytes that a GPU sends in a step: the smallest is one buffer, as the text says of the smallest input; above tens and hundreds of MB.
const EXCHANGED: [u64; 3] = [2 << 20, 16 << 20, 128 << 20];
/// Half of a GPU's numbers: a butterfly of all of them has one of its two in the partner.
const OF_PART: u64 = 2;
/// A complex number of floats: ten operations for two of them, each read and written once in a step.
const COMPLEX: u64 = 8;
const OPERATIONS: u64 = 5;
const TOUCHED: u64 = 16;
const STEPS: u64 = 4;

/// Who swaps with whom: within a bus, and on four GPUs in each second step across buses.
fn partner(me: usize, gpus: usize, step: u64) -> usize {
    if gpus == 4 && step % 2 == 1 { me ^ 2 } else { me ^ 1 }
}

/// A step, and the exchange's share of it in percent.
fn step(system: &System, way: Way, (bytes, gpus): (u64, usize), seed: u64) -> Result<[f64; 2], PaperError> {
    let machine = Machine::new(system, way, seed)?;
    let times = Memory::new([Ps::ZERO; 2]);
    let (blocks, points) = (places(system), OF_PART * bytes / COMPLEX);
    machine.run(gpus, |me| {
        let (thread, host) = (Thread::new(&machine, me), machine.host(me));
        let mut exchanging = Ps::ZERO;
        for number in 0..STEPS {
            let share = points / blocks as u64;
            let pass = machine.gpu(me).stream(0).launch(Kernel::new("pass", blocks), move |block| {
                block.compute(share * OPERATIONS, share * TOUCHED);
            });
            host.wait(&pass, 1);
            let began = thread.now();
            thread.exchange(partner(me, gpus, number), bytes);
            exchanging += thread.now() - began;
        }
        let (mut times, now) = (times.lock(), thread.now());
        if now > times[0] {
            *times = [now, exchanging];
        }
    });
    let [time, exchanging] = *times.lock();
    Ok([time.as_us() / STEPS as f64, 100.0 * exchanging.as_us() / time.as_us()])
}

/// A way at one size.
struct Point {
    gpus: usize,
    bytes: u64,
    way: Way,
    gain: f64,
    share: f64,
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["GPUs", "exchange bytes", "way", "step us", "exchange %", "speed-up over naive"];
    let axes = (sizes(), Axis::new("speed-up over naive", Scale::Linear));
    let mut report = report(figure, settings, &system, columns, axes);
    let mut points: Vec<Point> = Vec::new();
    for gpus in GPUS {
        for bytes in EXCHANGED {
            let mut naive = f64::NAN;
            for way in Way::ALL {
                let [us, share] = step(&system, way, (bytes, gpus), settings.seed)?;
                if way == Way::Naive {
                    naive = us;
                }
                let gain = naive / us;
                report.row([
                    json!(gpus),
                    json!(bytes),
                    json!(way.name()),
                    json!(us),
                    json!(share),
                    json!(gain),
                ]);
                points.push(Point { gpus, bytes, way, gain, share });
            }
        }
        for way in [Way::Software, Way::OneQueue, Way::Peer] {
            let of = points.iter().filter(|point| point.gpus == gpus && point.way == way);
            let line = of.map(|point| (point.bytes as f64, point.gain)).collect();
            report.picture.lines.push(Line::new(&format!("{}, {gpus} GPUs", way.name()), line));
        }
    }
    report.claims = claims(&points);
    report.notes.push(
        "half of a GPU's numbers are swapped in each step: our reading of \"data must be exchanged between different pairs at each step\", made with \
         the shares of Fig. 10b known; no cost was taken from the figures"
            .to_owned(),
    );
    Ok(report)
}

fn claims(points: &[Point]) -> Vec<Verdict> {
    let find = |gpus: usize, bytes: u64, way: Way| {
        points.iter().find(|point| point.gpus == gpus && point.bytes == bytes && point.way == way)
    };
    let gain = |gpus, bytes, way| find(gpus, bytes, way).map(|point| point.gain);
    let share = |gpus, bytes, way| find(gpus, bytes, way).map(|point| point.share);
    let mut verdicts = Vec::new();
    for (gpus, peer, software) in [(2, (1.58, 2.6), (1.15, 1.42)), (4, (1.17, 1.61), (1.01, 1.6))] {
        for bytes in EXCHANGED {
            let text = |what: &str| format!("{gpus} GPUs, {}: {what} over naive", named(bytes));
            let one = gain(gpus, bytes, Way::OneQueue).unwrap_or(f64::NAN);
            let queues = || {
                format!(
                    "contexts make both threads' copies at once in the model; with one copy a context it is {one:.2} times"
                )
            };
            verdicts.push(
                Claim::between(&text("peer-DMA"), "5.3, Fig. 9b", peer.0, peer.1, "times")
                    .judge(gain(gpus, bytes, Way::Peer))
                    .because(|| {
                        "on four GPUs each second swap is between buses, and costs what HPE's software does"
                            .to_owned()
                    }),
            );
            // The text excepts the smallest input on four GPUs.
            if gpus == 2 || bytes > EXCHANGED[0] {
                verdicts.push(
                    Claim::between(&text("HPE software"), "5.3, Fig. 9b", software.0, software.1, "times")
                        .judge(gain(gpus, bytes, Way::Software))
                        .because(queues),
                );
                verdicts.push(
                    Claim::between(
                        &text("HPE software, one copy a context,"),
                        "5.3, Fig. 9b",
                        software.0,
                        software.1,
                        "times",
                    )
                    .judge(one)
                    .because(|| {
                        "one piece of a buffer goes down and then up, as in pinned memory".to_owned()
                    }),
                );
            }
        }
    }
    let large = EXCHANGED[2];
    for (gpus, least) in [(2, 86.0), (4, 87.0)] {
        for way in [Way::Naive, Way::Double, Way::OneQueue] {
            let text = format!("{gpus} GPUs, 128 MB: the exchange's share, {}", way.name());
            verdicts.push(
                Claim::at_least(&text, "5.3, Fig. 10b", least, "%")
                    .judge(share(gpus, large, way))
                    .because(|| "by hand both directions of the lanes are in use at once".to_owned()),
            );
        }
    }
    verdicts.push(
        Claim::near("2 GPUs, 128 MB: the exchange's share, HPE peer-DMA", "5.3, Fig. 10b", 80.0, 5.0, "%")
            .judge(share(2, large, Way::Peer))
            .today(today::hpe_fft()),
    );
    let lower = share(4, large, Way::Naive).zip(share(4, large, Way::Peer)).map(|(naive, peer)| naive - peer);
    verdicts.push(
        Claim::at_least(
            "4 GPUs, 128 MB: peer-DMA's share is lower than naive's by",
            "5.3, Fig. 10b",
            5.0,
            "%",
        )
        .judge(lower)
        .because(|| "half of its swaps are HPE's software".to_owned()),
    );
    verdicts
}
