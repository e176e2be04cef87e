//! The copier's kernel on the CPU executor, driven through the rings that drive it on a GPU.

use std::time::{Duration, Instant};

use ggas_gpu::copier::ring::{BLOCK, Command, CopierArgs, ENTRIES, INLINE, RINGS, Ring, RingMemory, SMALL};
use ggas_kernels::{Launch, Processor, Running, start};

mod atomics;

const WAIT: Duration = Duration::from_secs(60);

/// The rings and runs of the kernel on them.
struct Copier {
    cpu: Processor,
    memory: &'static [RingMemory],
    rings: Vec<Ring>,
    running: Option<Running>,
}

impl Copier {
    fn new() -> Copier {
        let memory = RingMemory::leak(RINGS);
        let rings = memory.iter().map(Ring::new).collect();
        Copier { cpu: Processor::cpu(), memory, rings, running: None }
    }

    fn run(&mut self, idle: Duration) {
        let mut next = [0; RINGS];
        next.iter_mut().zip(&mut self.rings).for_each(|(next, ring)| *next = ring.open());
        let args = CopierArgs { rings: self.memory.as_ptr() as u64, next, idle_ns: idle.as_nanos() as u64 };
        // SAFETY: the structure is the kernel's; the rings live for good, and each test keeps its buffers until
        // their copies are done.
        let launch = unsafe { Launch::new(&self.cpu, "ggas_copier", RINGS as u32, BLOCK, &args) };
        self.running = Some(start(&[launch]).expect("the copier starts"));
    }

    /// Closes all rings and waits for the kernel.
    fn stop(&mut self) {
        for ring in &mut self.rings {
            until("room in a ring", || ring.close());
        }
        self.end();
    }

    fn end(&mut self) {
        self.running.take().expect("the copier runs").wait(WAIT).expect("the copier ends");
    }

    fn submit(&mut self, ring: usize, command: &Command<'_>) -> u64 {
        let mut number = None;
        until("room in a ring", || {
            number = self.rings[ring].submit(command);
            number.is_some()
        });
        number.unwrap_or_default()
    }

    fn wait(&self, ring: usize, number: u64) {
        until("a copy", || self.memory[ring].is_done(number));
    }

    fn carry_out(&mut self, ring: usize, command: &Command<'_>) {
        let number = self.submit(ring, command);
        self.wait(ring, number);
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < WAIT, "waited too long for {what}");
        std::thread::yield_now();
    }
}

/// Bytes that differ from their neighbours at every distance that matters.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A buffer whose first byte is aligned to 64.
fn aligned(bytes: &[u8], room: usize) -> (Vec<u8>, usize) {
    let mut memory = vec![0xa5; bytes.len() + room + 64];
    let at = memory.as_ptr().align_offset(64);
    memory[at..at + bytes.len()].copy_from_slice(bytes);
    (memory, at)
}

#[test]
fn copies_of_every_alignment_are_exact() {
    let mut copier = Copier::new();
    copier.run(WAIT);
    let (from, from_at) = aligned(&pattern(SMALL + 64), 0);
    let lengths =
        [1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 20, 23, 24, 31, 32, 33, 40, 100, 256, 511, 1000, SMALL];
    for len in lengths {
        for (dst_off, src_off) in
            [(0, 0), (8, 8), (8, 0), (0, 8), (4, 4), (4, 8), (1, 1), (3, 0), (0, 5), (7, 7)]
        {
            for ring in [0, 1] {
                let (to, to_at) = aligned(&vec![0x5a; SMALL + 128], 0);
                let dst = to[to_at..].as_ptr() as u64 + 64 + dst_off as u64;
                let src = from[from_at..].as_ptr() as u64 + src_off as u64;
                copier.carry_out(ring, &Command::Copy { dst, src, len: len as u32 });
                let to = &to[to_at..];
                let what = format!("{len} bytes, {src_off} to {dst_off}, ring {ring}");
                let (start, end) = (64 + dst_off, 64 + dst_off + len);
                assert_eq!(to[start..end], from[from_at + src_off..][..len], "{what}");
                let outside = to[..start].iter().chain(&to[end..SMALL + 128]);
                assert!(outside.clone().all(|byte| *byte == 0x5a), "{what}: wrote outside");
            }
        }
    }
    copier.stop();
}

#[test]
fn inline_writes_are_exact() {
    let mut copier = Copier::new();
    copier.run(WAIT);
    let bytes = pattern(INLINE);
    for len in 1..=INLINE {
        for offset in 0..16 {
            let (to, at) = aligned(&[0x5a; 64], 0);
            let dst = to[at..].as_ptr() as u64 + offset as u64;
            copier.carry_out(0, &Command::Write { dst, bytes: &bytes[..len] });
            let to = &to[at..at + 64];
            assert_eq!(to[offset..offset + len], bytes[..len], "{len} bytes at {offset}");
            assert!(to[..offset].iter().chain(&to[offset + len..]).all(|byte| *byte == 0x5a));
        }
    }
    copier.stop();
}

#[test]
fn overlapping_moves_are_exact() {
    let mut copier = Copier::new();
    copier.run(WAIT);
    // More than one round of the block, with units of 16, 8 and 1 bytes.
    for (len, distance) in [(200_000, 16), (200_000, 16_384), (70_001, 8_192), (9_001, 1), (9_000, 600)] {
        for up in [false, true] {
            let (mut memory, at) = aligned(&pattern(len + distance), 0);
            let (src, dst) = if up { (0, distance) } else { (distance, 0) };
            let mut expected = memory.clone();
            expected.copy_within(at + src..at + src + len, at + dst);
            let base = memory[at..].as_mut_ptr() as u64;
            let command = Command::Move { dst: base + dst as u64, src: base + src as u64, len: len as u32 };
            copier.carry_out(1, &command);
            assert!(memory == expected, "{len} bytes by {distance}, up {up}");
        }
    }
    copier.stop();
}

#[test]
fn many_commands_in_flight_on_all_rings() {
    let mut copier = Copier::new();
    copier.run(WAIT);
    let count = 3 * ENTRIES as usize;
    let from: Vec<u64> = (0..count as u64).map(|i| i << 32 | 1).collect();
    let to = vec![0u64; count];
    let mut last = [0; RINGS];
    for i in 0..count {
        let (dst, src) = (&raw const to[i] as u64, &raw const from[i] as u64);
        let ring = if i % 16 == 0 { 1 + i / 16 % 2 } else { 0 };
        last[ring] = match i % 3 {
            0 => copier.submit(ring, &Command::Copy { dst, src, len: 8 }),
            _ if ring > 0 => copier.submit(ring, &Command::Copy { dst, src, len: 8 }),
            _ => copier.submit(ring, &Command::Write { dst, bytes: &from[i].to_le_bytes() }),
        };
    }
    // The kernel ends behind all commands that it has.
    copier.stop();
    assert!(last.iter().enumerate().all(|(ring, number)| copier.memory[ring].is_done(*number)));
    assert_eq!(to, from);
}

#[test]
fn the_kernel_runs_again_where_it_ended() {
    let mut copier = Copier::new();
    let (from, to) = (vec![0x0123_4567_89ab_cdefu64; 1], vec![0u64; 6]);
    let command =
        |i: usize| Command::Copy { dst: &raw const to[i] as u64, src: from.as_ptr() as u64, len: 8 };
    for i in 0..2 {
        copier.run(WAIT);
        copier.carry_out(0, &command(i));
        copier.carry_out(2, &command(2 + i));
        copier.stop();
    }
    // Idle, the kernel ends by itself; what comes later waits for its next run.
    copier.run(Duration::from_millis(1));
    copier.end();
    let (late, bulk) = (copier.submit(0, &command(4)), copier.submit(1, &command(5)));
    assert!(!copier.memory[0].is_done(late) && copier.memory[0].closed().is_some());
    copier.rings.iter_mut().for_each(|ring| assert!(ring.close()));
    copier.run(WAIT);
    copier.wait(0, late);
    copier.wait(1, bulk);
    assert_eq!(to, [from[0]; 6]);
    copier.stop();
}
