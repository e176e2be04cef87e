//! The copier: what it moves, how fast, and that it stops and starts where it must.

use std::sync::Arc;
use std::time::Instant;

use ggas_gpu::{Copier, CopyState, DeviceBuffer, Gpu, Launch, Module, start};
use ggas_selftest::args::gputest_ping;

use crate::harness::{Outcome, SHORT, Shared, Suite, pattern, statistics, until};
use crate::text;

const MIB: usize = 1 << 20;

/// What the checks copy between: addresses of `MIB * 16` bytes each.
struct Places {
    gpu: DeviceBuffer,
    mapped: Shared,
    plain: Vec<u64>,
}

impl Places {
    fn new(gpu: &Gpu) -> Result<Places, String> {
        let bytes = 16 * MIB;
        let buffer = gpu.alloc(2 * bytes).map_err(text)?;
        Ok(Places { gpu: buffer, mapped: Shared::new(gpu, bytes / 8)?, plain: vec![0; bytes / 8] })
    }

    fn on_gpu(&self) -> u64 {
        self.gpu.address()
    }

    /// The other half of the GPU's buffer.
    fn also_on_gpu(&self) -> u64 {
        self.gpu.address() + 16 * MIB as u64
    }
}

pub fn checks(suite: &mut Suite, gpus: &[Module]) {
    let first = &gpus[0];
    let Ok(copier) = Copier::of(first.gpu()) else { return };
    let Ok(places) = Places::new(first.gpu()) else { return };
    suite.check("copies, not armed: all kinds exact", || exact(&copier, &places));
    suite.check("copies, not armed: 8 bytes within the GPU", || latency(&copier, &places, 8, 2000));
    let armed = match copier.arm() {
        Ok(armed) => armed,
        Err(error) => return suite.always("arm the copier", || Err(text(error))),
    };
    suite.check("copies: all kinds exact", || exact(&copier, &places));
    suite.check("copies: overlapping ranges exact", || overlapping(&copier, &places));
    suite.check("copies: write of 8 bytes to the GPU, done", || {
        timed(5000, || write(&copier, places.on_gpu(), &[7; 8]))
    });
    suite.check("copies: write of 16 bytes to mapped host memory, done", || {
        timed(5000, || write(&copier, places.mapped.address(0), &[7; 16]))
    });
    suite.check("copies: 8 bytes, host to GPU, done", || {
        timed(5000, || copy(&copier, places.on_gpu(), places.mapped.address(0), 8))
    });
    suite.check("copies: 8 bytes, GPU to host, done", || {
        timed(5000, || copy(&copier, places.mapped.address(0), places.on_gpu(), 8))
    });
    for bytes in [8, 64, 512, 4096, 8192, 16384, 65536, 262_144, MIB, 8 * MIB] {
        let name = format!("copies: {bytes} bytes within the GPU, done");
        suite.check(&name, || latency(&copier, &places, bytes, if bytes > 65536 { 300 } else { 3000 }));
    }
    suite.check("copies: 8 bytes, 256 in flight", || rate(&copier, &places, 8, 200_000));
    suite.check("copies: 1 KiB, 256 in flight", || rate(&copier, &places, 1024, 100_000));
    suite.check("copies: 64 KiB, 256 in flight", || rate(&copier, &places, 65536, 10_000));
    suite.check("copies: 8 MiB, 64 in flight", || rate(&copier, &places, 8 * MIB, 256));
    suite.check("copier: doorbell, write to GPU memory, polled there", || answered(first, &copier));
    suite.check("copier: paused around a free, then goes on", || paused(&copier, &places));
    if gpus.len() > 1 {
        suite.check("copies: to and from a peer GPU", || peer(&copier, &gpus[1]));
    }
    drop(armed);
    suite.check("copier: stops, starts again 20 times", || again(&copier, &places));
}

fn wait(copier: &Copier, id: u64) -> Result<(), String> {
    let mut state = CopyState::Pending;
    until("a copy", SHORT, || {
        state = copier.poll(id);
        state != CopyState::Pending
    })?;
    if state == CopyState::Done { Ok(()) } else { Err("a copy failed".into()) }
}

fn copy(copier: &Copier, dst: u64, src: u64, len: usize) -> Result<(), String> {
    // SAFETY: callers pass places of the suite, which outlive the wait.
    let id = unsafe { copier.copy(dst, src, len) };
    wait(copier, id)
}

fn write(copier: &Copier, dst: u64, bytes: &[u8]) -> Result<(), String> {
    // SAFETY: as in `copy`.
    let id = unsafe { copier.write(dst, bytes) };
    wait(copier, id)
}

fn timed(rounds: usize, mut once: impl FnMut() -> Result<(), String>) -> Outcome {
    let mut samples = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begin = Instant::now();
        once()?;
        samples.push(begin.elapsed());
    }
    Ok(statistics(samples))
}

fn latency(copier: &Copier, places: &Places, bytes: usize, rounds: usize) -> Outcome {
    timed(rounds, || copy(copier, places.also_on_gpu(), places.on_gpu(), bytes))
}

/// Bytes at an address of host memory of the suite.
fn host(address: u64, len: usize) -> Vec<u8> {
    // SAFETY: callers pass ranges of live host memory that no kernel writes now.
    unsafe { std::slice::from_raw_parts(address as *const u8, len) }.to_vec()
}

fn put_host(address: u64, bytes: &[u8]) {
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
}

/// Round trips host → GPU → GPU → host over all lengths and alignments that take different ways.
fn exact(copier: &Copier, places: &Places) -> Outcome {
    let lengths = [1, 7, 8, 16, 24, 100, 512, 513, 4096, 4097, 70_001, 262_144, 262_145, 3 * MIB + 5];
    let plain = places.plain.as_ptr() as u64;
    let mut count = 0;
    for len in lengths {
        for (there, here) in [(0, 0), (8, 0), (3, 5), (4, 8), (0, 1)] {
            for host_side in [places.mapped.address(0), plain] {
                let (dst, src) = (places.on_gpu() + there, host_side + here);
                let data = pattern(len, count);
                put_host(src, &data);
                copy(copier, dst, src, len)?;
                copy(copier, places.also_on_gpu() + here, dst, len)?;
                let back = host_side + 8 * MIB as u64 + there;
                copy(copier, back, places.also_on_gpu() + here, len)?;
                if host(back, len) != data {
                    return Err(format!("{len} bytes at +{here} to +{there} came back changed"));
                }
                count += 1;
            }
        }
        if len <= 512 {
            let data = pattern(len, 99);
            for offset in [0, 8, 3] {
                write(copier, places.on_gpu() + offset, &data)?;
                let mut seen = vec![0; len];
                places.gpu.read(offset, &mut seen).map_err(text)?;
                if seen != data {
                    return Err(format!("a write of {len} bytes at +{offset} arrived changed"));
                }
            }
        }
    }
    Ok(format!("{count} round trips"))
}

fn overlapping(copier: &Copier, places: &Places) -> Outcome {
    for (len, distance) in [(100_000, 16), (100_000, 4096), (5000, 1), (MIB, 24)] {
        for up in [false, true] {
            let mut expected = pattern(len + distance, len as u64);
            places.gpu.write(0, &expected).map_err(text)?;
            let (src, dst) = if up { (0, distance) } else { (distance, 0) };
            copy(copier, places.on_gpu() + dst as u64, places.on_gpu() + src as u64, len)?;
            expected.copy_within(src..src + len, dst);
            let mut seen = vec![0; len + distance];
            places.gpu.read(0, &mut seen).map_err(text)?;
            if seen != expected {
                return Err(format!("{len} bytes by {distance}, up {up}"));
            }
        }
    }
    Ok(String::new())
}

/// Copies within the GPU, up to 256 (long ones: 64) in flight.
fn rate(copier: &Copier, places: &Places, bytes: usize, count: usize) -> Outcome {
    let room = if bytes > MIB { 64 } else { 256 };
    let places_of_this_size = (16 * MIB / bytes).max(1);
    let mut flying = std::collections::VecDeque::new();
    let begin = Instant::now();
    for i in 0..count {
        let offset = (i % places_of_this_size * bytes) as u64;
        if flying.len() == room {
            wait(copier, flying.pop_front().unwrap_or_default())?;
        }
        // SAFETY: the places outlive the waits below.
        flying.push_back(unsafe {
            copier.copy(places.also_on_gpu() + offset, places.on_gpu() + offset, bytes)
        });
    }
    for id in flying {
        wait(copier, id)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let per_second = count as f64 / seconds;
    Ok(format!("{:.2} M/s, {:.1} GB/s", per_second / 1e6, per_second * bytes as f64 / 1e9))
}

/// A kernel rings in host memory, the host answers through the copier into GPU memory that the kernel polls.
fn answered(module: &Module, copier: &Copier) -> Outcome {
    const ROUNDS: u64 = 10_000;
    let words = Shared::new(module.gpu(), 64)?;
    let answer = module.gpu().alloc(64).map_err(text)?;
    let ping = gputest_ping {
        request: words.address(0),
        answer: answer.address(),
        rounds: ROUNDS,
        second: 0,
        status: words.address(32),
        timeout_ns: 8_000_000_000,
    };
    // SAFETY: the structure is the kernel's; words and answer live until it has ended.
    let mut running =
        start(&[unsafe { Launch::new(module, "ggas_gputest_ping", 1, 1, &ping) }]).map_err(text)?;
    let mut begin = Instant::now();
    for i in 1..=ROUNDS {
        until("the doorbell", SHORT, || words.load(0) >= i)?;
        // SAFETY: as above.
        unsafe { copier.write(answer.address(), &i.to_le_bytes()) };
        if i == 1 {
            begin = Instant::now();
        }
    }
    let took = begin.elapsed();
    running.wait(SHORT).map_err(text)?;
    match words.load(32) {
        1 => Ok(format!("round trip {:.2} us", took.as_secs_f64() * 1e6 / (ROUNDS - 1) as f64)),
        status => Err(format!("the kernel ended with status {status}")),
    }
}

fn paused(copier: &Arc<Copier>, places: &Places) -> Outcome {
    let mut samples = Vec::new();
    for i in 0..50u64 {
        let buffer = copier.gpu().alloc(4096).map_err(text)?;
        let begin = Instant::now();
        drop(buffer);
        samples.push(begin.elapsed());
        if ggas_gpu::deferred_calls() != 0 || !copier.is_armed() {
            return Err(format!("{} put off, armed {}", ggas_gpu::deferred_calls(), copier.is_armed()));
        }
        write(copier, places.mapped.address(0), &i.to_le_bytes())?;
        if places.mapped.load(0) != i {
            return Err("a write after the pause did not arrive".into());
        }
    }
    Ok(format!("a free takes {}", statistics(samples)))
}

fn again(copier: &Arc<Copier>, places: &Places) -> Outcome {
    let mut starts = Vec::new();
    for i in 0..20u64 {
        let begin = Instant::now();
        let armed = copier.arm().map_err(text)?;
        starts.push(begin.elapsed());
        write(copier, places.mapped.address(1), &i.to_le_bytes())?;
        copy(copier, places.on_gpu(), places.mapped.address(0), 8192)?;
        drop(armed);
        // Goes through the driver, or is the last that the kernel takes.
        write(copier, places.mapped.address(2), &i.to_le_bytes())?;
        if (places.mapped.load(1), places.mapped.load(2)) != (i, i) {
            return Err(format!("round {i}: a write was lost"));
        }
    }
    Ok(format!("a start takes {}", statistics(starts)))
}

fn peer(copier: &Copier, other: &Module) -> Outcome {
    let local = copier.gpu().alloc(2 * MIB).map_err(text)?;
    let remote = other.gpu().alloc(2 * MIB).map_err(text)?;
    for len in [8, 100, 4096, 65536, MIB + 3] {
        let data = pattern(len, 5);
        local.write(0, &data).map_err(text)?;
        copy(copier, remote.address(), local.address(), len)?;
        copy(copier, local.address() + MIB as u64 / 2, remote.address(), len)?;
        let mut seen = vec![0; len];
        local.read(MIB as u64 / 2, &mut seen).map_err(text)?;
        if seen != data {
            return Err(format!("{len} bytes came back changed"));
        }
    }
    let there = timed(3000, || copy(copier, remote.address(), local.address(), 8))?;
    let back = timed(3000, || copy(copier, local.address(), remote.address(), 8))?;
    Ok(format!("8 bytes there {there}, back {back}"))
}
