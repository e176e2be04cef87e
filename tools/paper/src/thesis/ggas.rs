//! Section 6.6: threads of one GPU store to and load from the memory of another.

use extoll_sim::timed::{Kernel, Place, Ps, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{SYSTEM, report};
use crate::programs::{Span, between_gpus, on_all, pingpong};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict, today};

/// Bytes that a thread moves.
const WORD: u64 = 8;
/// Payloads of Fig. 6.7.
const SIZES: [u64; 8] = [8, 64, 256, 1024, 2048, 4096, 8192, 64 << 10];
const ROUNDS: u64 = 20;
/// Blocks of 64 threads in the bandwidth's kernel: 8,192 threads.
const BLOCKS: usize = 128;
/// Bytes that each block moves in Fig. 6.8 for the whole to be 1 MiB.
const SHARE: u64 = (1 << 20) / BLOCKS as u64;

/// Half a round trip of stores by one block, each side polling its own memory.
fn write(system: &System, bytes: u64, seed: u64) -> Result<Ps, PaperError> {
    let timed = Timed::new(system, 2, seed)?;
    let flags = [timed.flag(), timed.flag()];
    let span = Span::default();
    on_all(&timed, 2, |node| {
        let me = node.index();
        let (mine, theirs, span) = (flags[me].clone(), flags[1 - me].clone(), span.clone());
        node.stream(0).launch(Kernel::new("write", 1), move |block| {
            let store = |_| block.store(between_gpus(1 - me, bytes).arrived(&theirs));
            let rounds = || pingpong(me, ROUNDS, store, |round| block.wait(&mine, round, Place::Gpu));
            span.over(me, || block.now(), rounds);
        });
        node.stream(0).synchronize();
    });
    Ok(Ps(span.length().0 / (2 * ROUNDS)))
}

/// A load of so many bytes by one block, one after another.
fn read(system: &System, bytes: u64, seed: u64) -> Result<Ps, PaperError> {
    let timed = Timed::new(system, 2, seed)?;
    let span = Span::default();
    on_all(&timed, 1, |node| {
        let span = span.clone();
        node.stream(0).launch(Kernel::new("read", 1), move |block| {
            span.over(0, || block.now(), || (0..ROUNDS).for_each(|_| block.load(1, bytes)));
        });
        node.stream(0).synchronize();
    });
    Ok(Ps(span.length().0 / ROUNDS))
}

pub(super) fn latency(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let mut report =
        report("thesis-6", figure, settings, &system, &["bytes", "threads", "write us", "read us"]);
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for bytes in SIZES {
        let written = write(&system, bytes, settings.seed)?.as_us();
        let read = read(&system, bytes, settings.seed)?.as_us();
        report.row([json!(bytes), json!(bytes / WORD), json!(written), json!(read)]);
        writes.push((bytes as f64, written));
        reads.push((bytes as f64, read));
    }
    let at = |points: &[(f64, f64)], bytes: f64| points.iter().find(|p| p.0 == bytes).map(|p| p.1);
    let crossing = writes.iter().zip(&reads).find(|(write, read)| read.1 < write.1).map(|(write, _)| write.0);
    report.claims = vec![
        Claim::near("remote store, 8 B", "6.6.1", 3.0, 0.75, "us")
            .judge(at(&writes, 8.0))
            .because(|| parts(&system))
            .today(today::store()),
        Claim::near("remote store, 4 KiB (512 threads)", "6.6.1", 3.0, 0.75, "us")
            .judge(at(&writes, 4096.0))
            .because(|| wire(&system, 4096))
            .today(today::by_threads("write")),
        Claim::near("remote load, 8 B", "6.6.1", 5.6, 1.4, "us")
            .judge(at(&reads, 8.0))
            .because(|| parts(&system))
            .today(today::load()),
        Claim::near("remote load, 4 KiB (512 threads)", "6.6.1", 5.6, 1.4, "us")
            .judge(at(&reads, 4096.0))
            .because(|| wire(&system, 4096))
            .today(today::by_threads("read")),
        Claim::between("loads are quicker than stores from this size on", "6.6.1", 1025.0, 65536.0, "B")
            .judge(crossing)
            .because(|| "both go over the same link, the load's answer behind its request".to_owned()),
    ];
    report.picture.y = Axis::new("us", Scale::Logarithmic);
    report.picture.lines = vec![Line::new("write", writes), Line::new("read", reads)];
    Ok(report)
}

/// What the wire alone takes.
fn wire(system: &System, bytes: u64) -> String {
    let us = bytes as f64 / system.network.link_bytes_per_ns / 1e3;
    format!("{bytes} B alone take {us:.1} us on a link of {:.2} GB/s", system.network.link_bytes_per_ns)
}

/// What the model's costs are, one way.
fn parts(system: &System) -> String {
    let System { network, bus, card, gpu, .. } = system;
    format!(
        "the thesis tells no costs of bus, FPGA and GPU; those assumed in extoll-fpga.toml are one way \
         {:.2} us of GPU, {:.2} of bus, {:.2} of card and {:.2} of link",
        (gpu.store_ns + gpu.poll_ns) / 1e3,
        2.0 * bus.write_ns / 1e3,
        2.0 * card.window_ns / 1e3,
        (network.link_ns + network.switch_ns) / 1e3
    )
}

/// The time of a grid's stores, and of its loads, so many bytes of each block.
fn times(system: &System, share: u64, seed: u64) -> Result<[f64; 2], PaperError> {
    let timed = Timed::new(system, 2, seed)?;
    let arrived = timed.flag();
    on_all(&timed, 1, |node| {
        let arrived = arrived.clone();
        node.stream(0).launch(Kernel::new("stores", BLOCKS), move |block| {
            block.store(between_gpus(1, share).arrived(&arrived));
            block.wait(&arrived, BLOCKS as u64, Place::Gpu);
        });
        node.stream(0).synchronize();
    });
    let stores = timed.now().as_us();
    let timed = Timed::new(system, 2, seed)?;
    on_all(&timed, 1, |node| {
        let kernel = Kernel::new("loads", BLOCKS);
        node.stream(0).launch(kernel, move |block| block.load(1, share));
        node.stream(0).synchronize();
    });
    Ok([stores, timed.now().as_us()])
}

/// MB/s of a grid's stores, and of its loads.
fn rates(system: &System, seed: u64) -> Result<(f64, f64), PaperError> {
    let bytes = (SHARE * BLOCKS as u64) as f64;
    let [stores, loads] = times(system, SHARE, seed)?;
    Ok((bytes / stores, bytes / loads))
}

/// From which size on what a copy of a kernel's costs beyond the transfer, a launch by the GPU and its end, is a tenth of it at
/// most: of stores, and of loads.
fn negligible(system: &System, seed: u64) -> Result<[Option<f64>; 2], PaperError> {
    let overhead = (system.gpu.launch_ns + system.gpu.end_ns) / 1e3;
    let mut from = [None, None];
    for bytes in (10..=20).map(|log2| 1u64 << log2) {
        let us = times(system, bytes.div_ceil(BLOCKS as u64), seed)?;
        for (from, us) in from.iter_mut().zip(us) {
            if from.is_none() && overhead <= us / 10.0 {
                *from = Some(bytes as f64);
            }
        }
    }
    Ok(from)
}

fn crossings(system: &System, [writes, reads]: [Option<f64>; 2]) -> [Verdict; 2] {
    let why = || {
        let gpu = &system.gpu;
        format!(
            "the thesis tells no cost of a copy that a kernel begins; the model takes a launch's and its end's, {:.1} us, and calls \
             a tenth of the transfer's time negligible",
            (gpu.launch_ns + gpu.end_ns) / 1e3
        )
    };
    let written = today::device_copy("store", "engine-write");
    let read = today::device_copy("load", "engine-read");
    [("written", 16384.0, writes, written), ("read", 262_144.0, reads, read)].map(
        |(what, paper, ours, today)| {
            let text = format!("what a kernel's copies cost is negligible from this size on, {what}");
            Claim::between(&text, "6.6.2", paper / 2.0, paper * 2.0, "B")
                .judge(ours)
                .because(why)
                .today(today)
        },
    )
}

/// Why stores are quicker than in the thesis.
fn wide(system: &System) -> String {
    let packets = "the GPU's stores leave in packets of 64 B (Table 6.1), and the model's in full ones";
    format!("the link carries {:.0} MB/s (thesis 3.4); {packets}", system.network.link_bytes_per_ns * 1e3)
}

pub(super) fn bandwidth(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let (stores, loads) = rates(&system, settings.seed)?;
    let mut report = report("thesis-6", figure, settings, &system, &["what", "bytes", "MB/s"]);
    let bytes = SHARE * BLOCKS as u64;
    report.row([json!("stores"), json!(bytes), json!(stores)]);
    report.row([json!("loads"), json!(bytes), json!(loads)]);
    report.claims = vec![
        Claim::near("remote stores, 1 MiB", "6.6.2, Fig. 6.8", 800.0, 200.0, "MB/s")
            .judge(stores)
            .because(|| wide(&system)),
        Claim::near("remote loads, 1 MiB", "6.6.2, Fig. 6.8", 600.0, 150.0, "MB/s").judge(loads).because(
            || {
                "GPU and SMFU had 25 reads on their way at most (6.6.2); the model does not count them"
                    .to_owned()
            },
        ),
        Claim::order("bandwidth in MB/s", "6.6.2", &[("loads", loads), ("stores", stores)]),
    ];
    report.claims.extend(crossings(&system, negligible(&system, settings.seed)?));
    report.picture.y = Axis::new("MB/s", Scale::Linear);
    report.picture.lines = vec![
        Line::new("stores", vec![(bytes as f64, stores)]),
        Line::new("loads", vec![(bytes as f64, loads)]),
    ];
    Ok(report)
}
