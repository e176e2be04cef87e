//! What sharing, copies, shared objects and files cost: medians, each beside what it is compared to. On two GPUs where there are
//! some, else on devices of the CPU executor.
//!
//!     cargo run --release -p ggas-hpe --example measure

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use ggas_gpu::{Gpu, GpuError};
use ggas_hpe::{Builder, HpeError, Locking, Runtime, Tracking, Use, Wait};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// So many devices; with one GPU only, a second is the executor's.
fn devices(count: usize) -> Result<Builder, GpuError> {
    let gpus: Vec<Gpu> = match ggas_gpu::probe() {
        Ok(found) => (0..found.len().min(count)).map(Gpu::open).collect::<Result<_, _>>()?,
        Err(_) => Vec::new(),
    };
    Ok(Runtime::builder().executors(count - gpus.len()).gpus(gpus))
}

fn main() -> Outcome {
    match ggas_gpu::probe() {
        Ok(found) => println!("devices: {} GPUs", found.len()),
        Err(why) => println!("devices: the CPU executor's: {why}"),
    }
    raw_copies()?;
    copies()?;
    sharing()?;
    for (name, tracking) in [
        ("mprotect", Tracking::Protect),
        ("mprotect, by thread", Tracking::ProtectByThread),
        ("userfaultfd", Tracking::Userfault),
    ] {
        match shared(name, tracking) {
            Err(error) if tracking == Tracking::Userfault => println!("{name}: not measured: {error}"),
            done => done?,
        }
    }
    files()
}

/// The median time of a call, in µs.
fn median(calls: usize, mut call: impl FnMut() -> Outcome) -> Result<f64, Box<dyn std::error::Error>> {
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let began = Instant::now();
        call()?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times[calls / 2].as_secs_f64() * 1e6)
}

/// Copies from GPU to GPU by the driver alone: what those of the library are compared to.
fn raw_copies() -> Outcome {
    if ggas_gpu::probe().map_or(0, |found| found.len()) < 2 {
        return Ok(());
    }
    let gpus = [Gpu::open(0)?, Gpu::open(1)?];
    println!("the driver's copy between two GPUs, until the host knows of its end: bytes, us");
    for bytes in [8, 64 << 10, 1 << 20, 16 << 20, 64 << 20] {
        let (from, to) = (gpus[0].alloc(bytes)?, gpus[1].alloc(bytes)?);
        let stream = gpus[0].stream()?;
        let time = median((256 << 20) / bytes.max(512 << 10), || {
            // SAFETY: memory of this function.
            unsafe { stream.copy(to.address(), from.address(), bytes)? };
            while !stream.is_done()? {
                std::hint::spin_loop();
            }
            Ok(())
        })?;
        println!("  {bytes:>9} {time:>9.2}");
    }
    Ok(())
}

fn copies() -> Outcome {
    println!("copy: bytes, memcpy us, host to device us, peer us, staged us");
    for bytes in [8, 64 << 10, 1 << 20, 16 << 20, 64 << 20] {
        let calls = (256 << 20) / bytes.max(512 << 10);
        let (source, mut target) = (vec![1u8; bytes], vec![0u8; bytes]);
        let mut row = vec![median(calls, || {
            target.copy_from_slice(std::hint::black_box(&source));
            Ok(())
        })?];
        for peers in [true, false] {
            let runtime = devices(2)?.peers(peers).build()?;
            let there: Vec<_> = runtime
                .devices()
                .iter()
                .map(|&device| runtime.alloc(device, bytes))
                .collect::<Result<_, _>>()?;
            let copy = |dst: *mut u8, src: *const u8| {
                // SAFETY: memory of this function.
                median(calls, || unsafe { Ok(runtime.copy(dst, src, bytes)?) })
            };
            let up = copy(there[0], source.as_ptr())?;
            if peers {
                row.push(up);
            }
            copy(there[1], there[0])?;
            row.push(copy(there[1], there[0])?);
        }
        println!("  {bytes:>9} {:>9.2} {:>9.2} {:>9.2} {:>9.2}", row[0], row[1], row[2], row[3]);
    }
    Ok(())
}

/// Copies of 1 MiB to one device by 1 and by 16 threads: together, per second; time that they waited for the lock.
fn sharing() -> Outcome {
    const BYTES: usize = 1 << 20;
    println!(
        "sharing, 1 MiB: wait, lock; copies/s of 1 thread, of 16, lock waits us/copy of 16, slowest thread's part of the mean"
    );
    for (name, wait, locking) in [
        ("poll 20 us, short", Wait::PAPER, Locking::Short),
        ("spin first, short", Wait::SPIN_FIRST, Locking::Short),
        ("poll 20 us, coarse", Wait::PAPER, Locking::Coarse),
        ("spin first, coarse", Wait::SPIN_FIRST, Locking::Coarse),
    ] {
        let run = |threads: usize| -> Result<(f64, f64, f64), HpeError> {
            let runtime = devices(1)?.wait(wait).locking(locking).build()?;
            let device = runtime.devices()[0];
            let ends = Instant::now() + Duration::from_secs(2);
            let counts = std::thread::scope(|scope| {
                let work = || -> Result<u64, HpeError> {
                    let source = vec![1u8; BYTES];
                    let there = runtime.alloc(device, BYTES)?;
                    let mut copies = 0;
                    while Instant::now() < ends {
                        // SAFETY: memory of this thread.
                        unsafe { runtime.copy(there, source.as_ptr(), BYTES)? };
                        copies += 1;
                    }
                    Ok(copies)
                };
                let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("no panic"))
                    .collect::<Result<Vec<_>, _>>()
            })?;
            let (sum, least) = (counts.iter().sum::<u64>() as f64, *counts.iter().min().unwrap_or(&0) as f64);
            let waited = runtime.counts().locks[0].time.as_secs_f64() * 1e6 / sum;
            Ok((sum / 2.0, waited, least / (sum / threads as f64)))
        };
        let (one, _, _) = run(1)?;
        let (many, waited, least) = run(16)?;
        println!("  {name:<20} {one:>8.0} {many:>8.0} {waited:>8.1} {least:>6.2}");
    }
    Ok(())
}

fn shared(name: &str, tracking: Tracking) -> Outcome {
    for block in [4096, 64 << 10] {
        let size = 64 * block;
        let runtime = devices(1)?.block(block).tracking(tracking).build()?;
        let start = runtime.alloc_shared(runtime.devices()[0], size)?;
        let all = [(start.cast_const(), Use::Write)];
        let (source, mut target) = (vec![1u8; block], vec![0u8; block]);
        let copy = median(1000, || {
            target.copy_from_slice(std::hint::black_box(&source));
            Ok(())
        })?;
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..30 {
            for (writes, times) in times.iter_mut().enumerate() {
                runtime.launch(&all, || ())?;
                for at in (0..size).step_by(block) {
                    let began = Instant::now();
                    // SAFETY: a byte of the object.
                    unsafe {
                        if writes == 1 {
                            start.add(at).write_volatile(1)
                        } else {
                            _ = start.add(at).read_volatile()
                        }
                    }
                    times.push(began.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
        let [read, write] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        runtime.launch(&all, || ())?;
        let untouched = median(1000, || Ok(runtime.launch(&all, || ())?))?;
        let stored = median(100, || {
            // SAFETY: a byte of the object.
            unsafe { start.write_volatile(1) };
            Ok(runtime.launch(&all, || ())?)
        })?;
        println!(
            "{name}: block {block}: fault, read {read:.2} us, write {write:.2} us, of which copy {copy:.2} us; \
             launch untouched {untouched:.2} us; write to one block and launch {stored:.2} us"
        );
    }
    Ok(())
}

fn files() -> Outcome {
    println!("file in page cache to device: bytes, pread to pinned us, pread then copy us, read_file us");
    for bytes in [1 << 20, 64 << 20] {
        let path = std::env::temp_dir().join(format!("ggas-hpe-measure-{}", std::process::id()));
        std::fs::write(&path, vec![1u8; bytes])?;
        let file = std::fs::File::open(&path)?;
        std::fs::remove_file(&path)?;
        let runtime = devices(1)?.build()?;
        let there = runtime.alloc(runtime.devices()[0], bytes)?;
        let mut host = vec![0u8; bytes];
        let calls = if bytes > 1 << 20 { 10 } else { 200 };
        let read = |host: &mut [u8]| std::os::unix::fs::FileExt::read_exact_at(&file, host, 0);
        let alone = median(calls, || Ok(read(&mut host)?))?;
        let serial = median(calls, || {
            read(&mut host)?;
            // SAFETY: memory of this function.
            unsafe { Ok(runtime.copy(there, host.as_ptr(), bytes)?) }
        })?;
        let direct = median(calls, || {
            // SAFETY: the same.
            let got = unsafe { runtime.read_file(file.as_raw_fd(), there, bytes, Some(0))? };
            if got == bytes { Ok(()) } else { Err(format!("{got} bytes read").into()) }
        })?;
        println!("  {bytes:>9} {alone:>9.0} {serial:>9.0} {direct:>9.0}");
    }
    Ok(())
}
