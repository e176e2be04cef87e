//! Latency and bandwidth between segments in GPU memory of two processes, each with a GPU of its own.
//!
//! `cargo build --release -p ggas-gaspi --example gpu_segments && ggas run -n 2 -- target/release/examples/gpu_segments stores`
//!
//! The word says how hosts write: `stores`, `engine`, `hybrid`, `card` for the network device, `by-size`, or `tuned` as `ggas tune` has
//! measured. Without GPUs the executor stands
//! in, which says nothing about GPUs.

use std::error::Error;
use std::time::{Duration, Instant};

use ggas::Processor;
use ggas::kernels::{KernelMem, start};
use ggas_gaspi::{
    Config, GROUP_ALL, Gaspi, GpuConfig, GpuContext, GpuCopies, GpuWay, Notice, Part, Policy, Timeout,
};
use ggas_selftest::args::{SELFTEST_GASPI_PING, SELFTEST_GASPI_WRITE, selftest_gaspi};

type Outcome<T> = Result<T, Box<dyn Error>>;

const SOON: Duration = Duration::from_secs(60);
const WITHIN: Timeout = Timeout::Within(SOON);
/// Bytes that a rank sends; as many are received.
const HALF: u64 = 64 << 20;
const TRIPS: u32 = 2000;
/// Segments: both in GPU memory, notifications in host memory; in GPU memory; in host memory.
const SEGMENTS: [(u8, Policy, &str); 3] = [
    (0, Policy::Gpu, "GPU, notifications on the host"),
    (1, Policy::GpuNotified, "GPU, notifications on the GPU"),
    (2, Policy::Host, "host"),
];

fn main() -> Outcome<()> {
    let word = std::env::args().nth(1).unwrap_or_else(|| "by-size".to_owned());
    let (way, copies) = match word.as_str() {
        "stores" => (GpuWay::Auto, GpuCopies::Stores),
        "engine" => (GpuWay::Auto, GpuCopies::Engine),
        "hybrid" => (GpuWay::Auto, GpuCopies::Hybrid),
        "card" => (GpuWay::Card, GpuCopies::BySize),
        "by-size" | "tuned" => (GpuWay::Auto, GpuCopies::BySize),
        other => return Err(format!("{other}: say stores, engine, hybrid, card, by-size or tuned").into()),
    };
    ggas_selftest::add();
    let gaspi = Gaspi::init(Config::default(), WITHIN)?;
    if gaspi.ranks() != 2 {
        return Err("start two processes: ggas run -n 2 -- gpu_segments".into());
    }
    let usual = if word == "tuned" { GpuConfig::tuned(&gaspi) } else { GpuConfig::default() };
    gaspi.gpu_init(GpuConfig { way, copies, ..usual })?;
    for (id, policy, _) in SEGMENTS {
        gaspi.segment_create_on(id, 2 * HALF, GROUP_ALL, WITHIN, policy)?;
    }
    if gaspi.rank() == 0 {
        let (processor, _) = gaspi.job().processor()?;
        println!("hosts write by {word}; kernels run on {}", processor.name());
        println!(
            "half a round trip of 8 bytes, write_notify to waitsome, microseconds     min   median      p99"
        );
    }
    for (id, _, name) in SEGMENTS {
        hosts_ping(&gaspi, id, name)?;
    }
    let context = gaspi.gpu_context(2, WITHIN)?;
    let is_gpu = matches!(context.processor(), Processor::Gpu(_));
    if is_gpu && ["stores", "by-size", "tuned"].contains(&&*word) {
        for (id, _, name) in SEGMENTS {
            kernels_ping(&gaspi, &context, id, name)?;
        }
        kernels_write(&gaspi, &context)?;
    }
    hosts_write(&gaspi)?;
    gaspi.barrier(GROUP_ALL, WITHIN)?;
    Ok(())
}

fn hosts_ping(gaspi: &Gaspi, id: u8, name: &str) -> Outcome<()> {
    let other = 1 - gaspi.rank();
    // Notifications in GPU memory are no place for hosts to wait at.
    let trips = if id == 1 { 200 } else { TRIPS };
    let mut times = Vec::new();
    gaspi.barrier(GROUP_ALL, WITHIN)?;
    for value in 1..=trips {
        let part = Part { local: id, local_offset: 0, remote: id, remote_offset: HALF, bytes: 8 };
        let send = || gaspi.write_notify(&[part], &Notice { segment: id, id: 0, value }, other, 0);
        let receive = || -> Outcome<()> {
            gaspi.notify_waitsome(id, 0, 1, WITHIN)?;
            if gaspi.notify_reset(id, 0)? != value {
                return Err("another value has come".into());
            }
            Ok(())
        };
        let began = Instant::now();
        if gaspi.rank() == 0 {
            send()?;
            receive()?;
            times.push(began.elapsed());
        } else {
            receive()?;
            send()?;
        }
        gaspi.wait(0, WITHIN)?;
    }
    if gaspi.rank() == 0 {
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6 / 2.0;
        println!("hosts, {name:32} {:>37.2} {:8.2} {:8.2}", at(0), at(50), at(99));
    }
    Ok(())
}

/// Runs the kernel with one of its forms; its nanoseconds, the longest of all blocks.
fn run(context: &GpuContext, (blocks, threads): (u32, u32), args: selftest_gaspi) -> Outcome<u64> {
    let processor = context.processor();
    let results: KernelMem = processor.alloc(16 + 8 * blocks as usize)?;
    let args = selftest_gaspi {
        gaspi: context.address(),
        status: results.address(),
        wrong: results.address() + 8,
        time: results.address() + 16,
        ..args
    };
    // SAFETY: the arguments are this kernel's, and their memory outlives the wait.
    let launch = unsafe { ggas_selftest::launch(processor, "ggas_selftest_gaspi", blocks, threads, &args) };
    start(&[launch])?.wait(2 * SOON)?;
    if results.load_u64(0)? != 0 {
        return Err(format!("a kernel failed: {:?}", context.check()).into());
    }
    Ok(results.read_u64s(16, blocks as usize)?.into_iter().max().unwrap_or(0))
}

fn arguments(form: u32, segment: u32, bytes: u64, rounds: u32) -> selftest_gaspi {
    let (gaspi, status, wrong, time) = (0, 0, 0, 0);
    selftest_gaspi { gaspi, status, wrong, time, bytes, each: HALF, form, segment, rounds, first: 8 }
}

fn kernels_ping(gaspi: &Gaspi, context: &GpuContext, id: u8, name: &str) -> Outcome<()> {
    let mut times = Vec::new();
    for _ in 0..5 {
        gaspi.barrier(GROUP_ALL, WITHIN)?;
        let time = run(context, (1, 32), arguments(SELFTEST_GASPI_PING, id.into(), 8, TRIPS))?;
        times.push(time as f64 / f64::from(TRIPS) / 2e3);
    }
    if gaspi.rank() == 0 {
        times.sort_unstable_by(f64::total_cmp);
        println!("kernels (averages), {name:32} {:24.2} {:8.2} {:8.2}", times[0], times[2], times[4]);
    }
    Ok(())
}

/// Blocks that share a write.
fn kernels_write(gaspi: &Gaspi, context: &GpuContext) -> Outcome<()> {
    if gaspi.rank() == 0 {
        println!("writes of kernels, GB/s         8 blocks  32 blocks  64 blocks  128 blocks");
        for bytes in [1 << 20, 4 << 20, 16 << 20, HALF] {
            let rounds = ((256 << 20) / bytes) as u32;
            print!("{:>8} KiB                  ", bytes >> 10);
            for blocks in [8, 32, 64, 128] {
                let time = run(context, (blocks, 512), arguments(SELFTEST_GASPI_WRITE, 1, bytes, rounds))?;
                print!(" {:10.1}", bytes as f64 * f64::from(rounds) / time as f64);
            }
            println!();
        }
    }
    gaspi.barrier(GROUP_ALL, WITHIN)?;
    Ok(())
}

/// Writes of hosts, one behind the other; the last with a notification that the other side sees.
fn hosts_write(gaspi: &Gaspi) -> Outcome<()> {
    let names = ["GPU to GPU", "GPU to host", "host to GPU", "host to host"];
    let pairs = [(0u8, 0u8), (0, 2), (2, 0), (2, 2)];
    if gaspi.rank() == 0 {
        println!(
            "writes of hosts, GB/s     {:>13} {:>13} {:>13} {:>13}",
            names[0], names[1], names[2], names[3]
        );
    }
    for shift in [12, 14, 16, 18, 20, 22, 24, 26] {
        let bytes = 1u64 << shift;
        let rounds = ((128 << 20) / bytes).clamp(2, 200) as u32;
        let mut line = format!("{:>8} KiB             ", bytes >> 10);
        for (local, remote) in pairs {
            let mut best = Duration::MAX;
            for turn in 0..4 {
                let data: Vec<u8> =
                    (0..bytes).map(|i| (i * 7 + turn * 13 + u64::from(local)) as u8).collect();
                gaspi.store(local, 0, &data)?;
                gaspi.barrier(GROUP_ALL, WITHIN)?;
                let part = Part { local, local_offset: 0, remote, remote_offset: HALF, bytes };
                if gaspi.rank() == 0 {
                    let began = Instant::now();
                    for _ in 1..rounds {
                        gaspi.write(&part, 1, 0)?;
                    }
                    gaspi.write_notify(&[part], &Notice { segment: remote, id: 1, value: 1 }, 1, 0)?;
                    gaspi.notify_waitsome(2, 2, 1, WITHIN)?;
                    best = best.min(began.elapsed());
                    gaspi.notify_reset(2, 2)?;
                    gaspi.wait(0, WITHIN)?;
                } else {
                    gaspi.notify_waitsome(remote, 1, 1, WITHIN)?;
                    gaspi.notify_reset(remote, 1)?;
                    gaspi.notify(&Notice { segment: 2, id: 2, value: 1 }, 0, 0)?;
                    gaspi.wait(0, WITHIN)?;
                    let mut got = vec![0; bytes as usize];
                    gaspi.load(remote, HALF, &mut got)?;
                    if got != data {
                        return Err(format!("{bytes} bytes from {local} to {remote} are not as sent").into());
                    }
                }
            }
            line += &format!(" {:13.2}", bytes as f64 * f64::from(rounds) / best.as_secs_f64() / 1e9);
        }
        if gaspi.rank() == 0 {
            println!("{line}");
        }
    }
    if gaspi.rank() == 0 {
        println!("all data were right");
    }
    Ok(())
}
