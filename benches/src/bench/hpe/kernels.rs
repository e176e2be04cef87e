//! The kernels of HPE's programs by themselves, on the CPU executor. `hpe-stencil`, `hpe-fft` and `hpe-sort` run them on several devices.

use std::time::Duration;

use crate::args::{
    BENCH_HPE_SORT_RUN, bench_hpe_fft, bench_hpe_sequence, bench_hpe_sort_merge, bench_hpe_sort_pivot,
    bench_hpe_sort_runs, bench_hpe_stencil,
};
use ggas_kernels::{KernelMem, Launch, Processor, start};

/// What lies behind what a kernel may write.
const GUARD: u32 = 0xdead_beef;

fn run<T: Copy>(cpu: &Processor, kernel: &str, args: &T) {
    ggas_kernels::add(&crate::image::KERNELS).unwrap();
    // SAFETY: the structure is this kernel's, and the memory lives beyond the wait.
    let launch = unsafe { Launch::new(cpu, kernel, 2, 32, args) };
    start(&[launch]).unwrap().wait(Duration::from_secs(60)).unwrap();
}

/// Words in kernel memory, with a guard behind them.
fn words(cpu: &Processor, words: &[u32]) -> KernelMem {
    let memory = cpu.alloc(4 * words.len() + 4).unwrap();
    let bytes: Vec<u8> = words.iter().chain(&[GUARD]).flat_map(|word| word.to_le_bytes()).collect();
    memory.write(0, &bytes).unwrap();
    memory
}

/// The words, once the guard is as it was.
fn read(memory: &KernelMem) -> Vec<u32> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    let mut words: Vec<u32> =
        bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words.pop(), Some(GUARD), "a kernel wrote behind its memory");
    words
}

fn numbers(count: usize, step: u32) -> Vec<u32> {
    (0..count as u32).map(|i| i.wrapping_mul(step) >> 20).collect()
}

#[test]
fn runs_and_merges_sort_any_number_of_numbers() {
    let cpu = Processor::cpu();
    let run_length = BENCH_HPE_SORT_RUN as usize;
    for count in [0, 1, run_length - 1, run_length, run_length + 1, 100, 1000] {
        let mut wanted = numbers(count, 0x9e37_79b1);
        let mut memory = [words(&cpu, &wanted), words(&cpu, &wanted)];
        wanted.sort_unstable();
        let count = count as u64;
        run(&cpu, "bench_hpe_sort_short", &bench_hpe_sort_runs { data: memory[0].address(), count });
        let mut width = run_length as u64;
        while width < count {
            let [in_, out] = [0, 1].map(|i: usize| memory[i].address());
            run(&cpu, "bench_hpe_sort_double", &bench_hpe_sort_merge { in_, out, count, width });
            memory.swap(0, 1);
            width *= 2;
        }
        assert_eq!(read(&memory[0]), wanted, "{count} numbers");
        read(&memory[1]);
    }
}

/// Where each place of two merged sequences is, found across chunks, and never beyond them.
#[test]
fn pivots_are_those_of_a_merge() {
    let cpu = Processor::cpu();
    let (chunk, lengths) = (7, [19usize, 12]);
    let [a, b] = lengths.map(|length| {
        let mut sorted: Vec<u32> = numbers(length, 0x8000_0001).iter().map(|number| number % 9).collect();
        sorted.sort_unstable();
        sorted
    });
    let chunks: Vec<_> = a.chunks(chunk).chain(b.chunks(chunk)).map(|part| words(&cpu, part)).collect();
    let table = cpu.alloc(8 * chunks.len()).unwrap();
    table.write_u64s(0, &chunks.iter().map(KernelMem::address).collect::<Vec<_>>()).unwrap();
    let found = cpu.alloc(16).unwrap();
    let sequence = |first: usize, length: usize| bench_hpe_sequence {
        table: table.address(),
        chunk: chunk as u64,
        first: first as u64,
        begin: 0,
        length: length as u64,
    };
    // Equal numbers: those of `a` first.
    let mut merged: Vec<(u32, bool)> =
        a.iter().map(|x| (*x, false)).chain(b.iter().map(|x| (*x, true))).collect();
    merged.sort_by_key(|number| *number);
    let of_a = |at: usize| merged.iter().take(at).filter(|(_, of_b)| !of_b).count() as u64;
    let whole = a.len() + b.len();
    for at in 0..=whole {
        let args = bench_hpe_sort_pivot {
            a: sequence(0, a.len()),
            b: sequence(a.len().div_ceil(chunk), b.len()),
            at: [at as u64, (whole + 100) as u64],
            found: found.address(),
        };
        run(&cpu, "bench_hpe_sort_search", &args);
        assert_eq!(found.read_u64s(0, 2).unwrap(), [of_a(at), a.len() as u64], "place {at}");
    }
}

#[test]
fn a_stencil_updates_the_planes_that_it_is_told_and_inner_points_only() {
    let cpu = Processor::cpu();
    let (side, planes) = (5u32, 3u32);
    let plane = (side * side) as usize;
    let one = 1f32.to_bits();
    let [input, beside] = [3, 1].map(|planes| words(&cpu, &vec![one; planes * plane]));
    for (begin, end) in [(0, 3), (1, 2), (0, 9), (2, 1)] {
        let out = words(&cpu, &vec![0; planes as usize * plane]);
        let args = bench_hpe_stencil {
            in_: input.address(),
            out: out.address(),
            below: beside.address(),
            above: beside.address(),
            side,
            planes,
            begin,
            end,
            weights: [0.25, 0.0625, 0.03125, 0.0],
        };
        run(&cpu, "bench_hpe_stencil_planes", &args);
        for (i, seen) in read(&out).into_iter().enumerate() {
            let (z, y, x) = (i / plane, i / side as usize % side as usize, i % side as usize);
            let inner = (1..4).contains(&y) && (1..4).contains(&x);
            let is_updated = inner && (begin as usize..end.min(planes) as usize).contains(&z);
            assert_eq!(seen, if is_updated { one } else { 0 }, "{begin}..{end}, point {x} {y} {z}");
        }
    }
}

/// The transform of eight ones, on one device and on two, of which each has half.
#[test]
fn butterflies_across_two_devices_are_those_of_one() {
    let cpu = Processor::cpu();
    let twiddles: Vec<u32> =
        [[1.0, 0.0], [0.5f32.sqrt(), -0.5f32.sqrt()], [0.0, -1.0], [-0.5f32.sqrt(), -0.5f32.sqrt()]]
            .concat()
            .into_iter()
            .map(f32::to_bits)
            .collect();
    let twiddles = words(&cpu, &twiddles);
    let input: Vec<u32> = (0..16).map(|i| (i as f32 * 0.3).sin().to_bits()).collect();
    let whole = words(&cpu, &input);
    let args = |data: &KernelMem, first, count, half| bench_hpe_fft {
        data: data.address(),
        partner: 0,
        out: 0,
        twiddles: twiddles.address(),
        points: 8,
        first,
        count,
        half,
    };
    for half in [4, 2, 1] {
        run(&cpu, "bench_hpe_fft_alone", &args(&whole, 0, 8, half));
    }
    let halves = [words(&cpu, &input[..8]), words(&cpu, &input[8..])];
    let outs = [words(&cpu, &[0; 8]), words(&cpu, &[0; 8])];
    for device in 0..2 {
        let (partner, out) = (halves[1 - device].address(), outs[device].address());
        let across = bench_hpe_fft { partner, out, ..args(&halves[device], 4 * device as u64, 4, 4) };
        run(&cpu, "bench_hpe_fft_across", &across);
    }
    for (device, half) in [(0, 2), (0, 1), (1, 2), (1, 1)] {
        run(&cpu, "bench_hpe_fft_alone", &args(&outs[device], 4 * device as u64, 4, half));
    }
    assert_eq!([read(&outs[0]), read(&outs[1])].concat(), read(&whole));
    // A butterfly that is wider than what there is changes nothing.
    let before = read(&outs[0]);
    run(&cpu, "bench_hpe_fft_alone", &args(&outs[0], 0, 4, 4));
    assert_eq!(read(&outs[0]), before);
}
