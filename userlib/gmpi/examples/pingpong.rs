//! Half a ping-pong between kernels (Fig. 6 of the paper), beside kernels that end for each message, and what a call costs by its arguments.
//!
//! `ggas run -n 2 -- pingpong`, `mpirun -n 2 pingpong`: over what started it, by GMPI. With `ends` as its argument the host sends and
//! receives each message between two kernels, by the same carrier and on the thread that starts them.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas::kernels::{KernelMem, Processor, start};
use ggas::{Job, device};
use ggas_gmpi::carrier::mpi::Mpi;
use ggas_gmpi::carrier::own::Own;
use ggas_gmpi::carrier::{Carrier, Operation, Type};
use ggas_gmpi::layout::GMPI_UNSIGNED_LONG;
use ggas_gmpi::{Config, Gmpi, Joined, PLACEMENTS, Placement, Polling, Span, Staging};
use ggas_selftest::args::selftest_gmpi_ping;

const SOON: Duration = Duration::from_secs(120);
const SIZES: [usize; 6] = [8, 512, 4096, 65_536, 262_144, 1 << 20];

/// What a kernel uses beside the memory that it sends from and receives into.
struct Side {
    processor: Processor,
    memory: Arc<KernelMem>,
    words: KernelMem,
}

impl Side {
    fn new(processor: Processor) -> Result<Side, Box<dyn Error>> {
        let memory = Arc::new(processor.alloc(2 << 20)?);
        let words = processor.alloc(24)?;
        Ok(Side { processor, memory, words })
    }

    /// Microseconds of a round of a kernel.
    fn run(&self, gmpi: &Gmpi, bytes: usize, rounds: u32, echo: u32) -> Result<f64, Box<dyn Error>> {
        let (memory, words) = (self.memory.address(), self.words.address());
        let args = selftest_gmpi_ping {
            buf: gmpi.address(),
            from: memory,
            to: memory + (1 << 20),
            request: words,
            time: words + 8,
            wrong: words + 16,
            count: (bytes / 8) as u32,
            rounds,
            first: 0,
            echo,
        };
        // SAFETY: the structure is this kernel's, and its memory lives until the kernel has ended.
        let launch =
            unsafe { ggas_selftest::launch(&self.processor, "ggas_selftest_gmpi_ping", 1, 32, &args) };
        start(&[launch])?.wait(SOON)?;
        gmpi.check()?;
        match self.words.load_u64(16)? {
            0 => Ok(self.words.load_u64(8)? as f64 / 1000.0 / f64::from(rounds - rounds / 10)),
            wrong => Err(format!("{} rounds were wrong; error {}", wrong as u32, wrong >> 32).into()),
        }
    }
}

/// Rounds for so many bytes.
fn rounds(bytes: usize) -> u32 {
    (2000 * 4096 / bytes.max(4096)).clamp(100, 2000) as u32
}

/// Best of five: the machine may be busy with something else.
fn best(mut measure: impl FnMut() -> Result<f64, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    (0..5).try_fold(f64::MAX, |least, _| Ok(least.min(measure()?)))
}

fn by_kernels() -> Result<(), Box<dyn Error>> {
    let which = std::env::args().nth(1);
    let placement = match which.as_deref() {
        Some("copied") => Placement::Copied,
        Some("mapped") => Placement::Mapped,
        _ => Placement::Tagged,
    };
    let config = Config { polling: Polling::Yield, placement, ..Config::default() };
    let Joined { gmpi, processor, job } = Gmpi::join(&config)?;
    let side = Side::new(processor)?;
    gmpi.attach(&side.memory)?;
    let speaks = gmpi.rank() == 0;
    if speaks {
        println!("{}, rings {placement:?}, kernels on {}", gmpi.carrier(), side.processor.name());
    }
    for bytes in SIZES.into_iter().filter(|_| gmpi.size() == 2) {
        let half = best(|| Ok(side.run(&gmpi, bytes, rounds(bytes), 0)? / 2.0))?;
        if speaks {
            println!("in-kernel          {bytes:>8} B  {half:>9.2} us");
        }
    }
    gmpi.close()?;
    if job.is_some() && speaks {
        attributes(&side)?;
    }
    Ok(())
}

/// Calls that the daemon answers at once, by how many elements it reads.
fn attributes(side: &Side) -> Result<(), Box<dyn Error>> {
    for placement in PLACEMENTS {
        let config = Config { polling: Polling::Yield, placement, ..Config::default() };
        let network = device::sim::SimNetwork::builder().nodes(1).build()?;
        let own = Own::local(&[ggas::Node::new(network.device(0)?)])?.into_iter().next();
        let own = own.ok_or("no node")?;
        let gmpi = Gmpi::with(&side.processor, &config, move || Ok(Box::new(own)))?;
        for elements in [1, 3, 7, 15, 23, 31] {
            let time = best(|| side.run(&gmpi, 8, 2000, elements))?;
            println!("attribute, {placement:?}  {elements:>2} elements  {time:>9.2} us");
        }
        gmpi.close()?;
    }
    Ok(())
}

/// Waits for an operation.
fn finish(carrier: &mut dyn Carrier, operation: &Operation) -> Result<(), Box<dyn Error>> {
    let token = carrier.start(operation).map_err(|class| class.to_string())?;
    loop {
        if let Some(ended) = carrier.test(token) {
            return ended.map(drop).map_err(|class| class.to_string().into());
        }
        if !carrier.progress() {
            std::thread::yield_now();
        }
    }
}

/// A kernel that does nothing, as it ends after its part of a round.
fn launch(side: &Side, buf: &KernelMem) -> Result<(), Box<dyn Error>> {
    let words = side.words.address();
    let args = selftest_gmpi_ping {
        buf: buf.address(),
        time: words + 8,
        wrong: words + 16,
        count: 1,
        ..selftest_gmpi_ping::default()
    };
    // SAFETY: as above; the kernel makes no round.
    let launch = unsafe { ggas_selftest::launch(&side.processor, "ggas_selftest_gmpi_ping", 1, 32, &args) };
    Ok(start(&[launch])?.wait(SOON)?)
}

fn by_ends_of_kernels() -> Result<(), Box<dyn Error>> {
    let job = Job::join()?;
    let mut carrier: Box<dyn Carrier> = match job.size() {
        1 => Box::new(Mpi::open(Staging::Needed)?),
        _ => Box::new(Own::join(&job, SOON)?),
    };
    let side = Side::new(job.processor()?.0)?;
    let buf = side.processor.alloc(64)?;
    carrier.attach(0, side.memory.clone())?;
    let rank = carrier.place(0).ok_or("no world")?.rank;
    if rank == 0 {
        println!("{}, kernels on {}", carrier.name(), side.processor.name());
    }
    for bytes in SIZES {
        let span = |offset| Span { index: 0, memory: side.memory.clone(), offset, len: bytes };
        let of = Type(GMPI_UNSIGNED_LONG);
        let send = Operation::Send { at: span(0), of, to: 1 - rank, tag: 0, comm: 0 };
        let receive = Operation::Recv { at: span(1 << 20), of, from: Some(1 - rank), tag: Some(0), comm: 0 };
        let half = best(|| {
            let count = rounds(bytes).min(500);
            let begin = Instant::now();
            for _ in 0..count {
                // The kernel that wrote the data ends; the one that reads what came begins.
                launch(&side, &buf)?;
                let (first, second) = if rank == 0 { (&send, &receive) } else { (&receive, &send) };
                finish(&mut *carrier, first)?;
                if rank == 1 {
                    launch(&side, &buf)?;
                }
                finish(&mut *carrier, second)?;
            }
            Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(count) / 2.0)
        })?;
        if rank == 0 {
            println!("launch-synchronise {bytes:>8} B  {half:>9.2} us");
        }
    }
    Ok(carrier.finish()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("ends") => by_ends_of_kernels(),
        _ => by_kernels(),
    }
}
