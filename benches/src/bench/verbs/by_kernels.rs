//! Kernels post, a block for each queue pair, or ask a thread of the host, which serves all blocks (thesis 5.5.4).

use std::sync::atomic::Ordering;

use ggas::HostBuffer;
use ggas_kernels::{KernelMem, Launch, Mapped};

use super::by_host::{Poster, patience, wait};
use super::sides::Side;
use super::{DEPTH, Load, Way};
use crate::args::{BENCH_VERBS_PINGPONG, BENCH_VERBS_ROUNDS, bench_verbs, bench_verbs_end};
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::setup::Setup;
use crate::{BenchError, Samples};

const KERNEL: &str = "bench_verbs_requests";

/// Words of host memory by which blocks ask and are told, each in a line of its own.
struct Flags {
    mapped: Mapped,
    memory: HostBuffer,
}

/// Bytes of a block's two words.
const FLAGS: usize = 256;
const DONE: usize = 128;

impl Flags {
    fn new(setup: &Setup, blocks: u32) -> Result<Flags, BenchError> {
        let memory = HostBuffer::zeroed(FLAGS * blocks as usize).doing("allocating flags")?;
        // SAFETY: the flags are only accessed atomically, and the mapping is dropped before the memory.
        let mapped = unsafe { setup.processor(0).map_host(memory.as_ptr(), memory.len()) };
        Ok(Flags { mapped: mapped.doing("mapping flags")?, memory })
    }

    fn asked(&self, block: usize) -> u64 {
        self.memory.word(FLAGS * block).load(Ordering::Acquire)
    }

    fn tell(&self, block: usize, done: u64) {
        self.memory.store_u64(FLAGS * block + DONE, done);
    }
}

/// A side's kernel, and what it uses.
struct Program {
    probe: Probe,
    flags: Flags,
    args: bench_verbs,
    _memory: [KernelMem; 3],
}

impl Program {
    fn new(setup: &Setup, node: u32, ends: (&Side, &Side), load: Load) -> Result<Program, BenchError> {
        let (side, peer) = ends;
        let processor = setup.processor(0);
        let probe = Probe::with_warm_up(processor, load.rounds)?;
        let flags = Flags::new(setup, load.pairs)?;
        let assisted = load.way == Way::Assisted;
        let (ends, queues) = exported(setup, ends, load, &flags)?;
        let met = processor.alloc(8).doing("allocating kernel memory")?;
        let args = bench_verbs {
            timing: probe.args(),
            ends: ends.address(),
            met: met.address(),
            report: 0,
            timeout_ns: setup.options.timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            length: load.length(),
            lkey: side.mr.lkey().to_be(),
            rkey: peer.mr.remote().rkey.to_be(),
            operation: load.operation,
            bytes: load.bytes as u32,
            batch: load.batch,
            depth: DEPTH,
            form: BENCH_VERBS_ROUNDS,
            assisted: assisted.into(),
            first: u32::from(node == 0),
            node,
            looked_at: 0,
        };
        Ok(Program { probe, flags, args, _memory: [ends, queues, met] })
    }

    fn launch<'a>(&self, setup: &'a Setup, load: Load) -> Launch<'a> {
        let threads = super::threads(setup.options);
        kernel::launch(setup.processor(0), KERNEL, load.pairs, threads, &self.args)
    }
}

/// Times of rounds, and how many there were.
pub(super) fn run(setup: &Setup, sides: &[Side; 2], load: Load) -> Result<(Samples, u64), BenchError> {
    let [side, peer] = sides;
    let program = Program::new(setup, 0, (side, peer), load)?;
    let launches = [program.launch(setup, load)];
    run_all(setup, &[(side, peer)], load, &[&program], &launches)?;
    Ok((program.probe.samples()?, program.probe.rounds()))
}

/// Times of round trips, and how many there were: a kernel at each end looks at the last word that the other one writes.
pub(super) fn pingpong(setup: &Setup, sides: &[Side; 2], load: Load) -> Result<(Samples, u64), BenchError> {
    let ends = [(&sides[0], &sides[1]), (&sides[1], &sides[0])];
    let mut programs = Vec::new();
    for (node, end) in (0..).zip(ends) {
        let mut program = Program::new(setup, node, end, load)?;
        program.args.form = BENCH_VERBS_PINGPONG;
        program.args.looked_at = end.0.mr.address() + load.arrival(0) + load.bytes - 8;
        programs.push(program);
    }
    let launches: Vec<_> = programs.iter().map(|program| program.launch(setup, load)).collect();
    run_all(setup, &ends, load, &programs.iter().collect::<Vec<_>>(), &launches)?;
    Ok((programs[0].probe.samples()?, programs[0].probe.rounds()))
}

/// Runs the kernels of some sides, with the adapters: by the executor's idle threads, or by this thread, which posts for kernels.
fn run_all(
    setup: &Setup,
    ends: &[(&Side, &Side)],
    load: Load,
    programs: &[&Program],
    launches: &[Launch],
) -> Result<(), BenchError> {
    if load.way == Way::Assisted {
        let running = kernel::begin(launches)?;
        let served = serve(setup, ends, load, programs);
        kernel::finish(running, setup.options).and(served)?;
    } else {
        let _idle = ends[0].0.run_when_idle(setup.processor(0));
        kernel::run(launches, setup.options)?;
    }
    programs.iter().try_for_each(|program| program.probe.finished(KERNEL, None))
}

/// The blocks' ends, and the completion queues that they name.
fn exported(
    setup: &Setup,
    (side, peer): (&Side, &Side),
    load: Load,
    flags: &Flags,
) -> Result<(KernelMem, KernelMem), BenchError> {
    const DOING: &str = "exporting queues";
    const QUEUE: usize = 64;
    let processor = setup.processor(0);
    let queues = processor.alloc(QUEUE * side.pairs.len()).doing(DOING)?;
    let ends = processor.alloc(size_of::<bench_verbs_end>() * side.pairs.len()).doing(DOING)?;
    for (number, pair) in side.pairs.iter().enumerate() {
        let (qp, cq) = match load.way {
            Way::Assisted => (0, 0),
            _ => {
                let cq = pair.send.export(&queues, QUEUE * number).doing(DOING)?;
                (pair.qp.export().doing(DOING)?, cq)
            }
        };
        let asked = flags.mapped.address() + (FLAGS * number) as u64;
        let local = side.mr.address() + load.source(number as u64, 0);
        let remote = peer.mr.remote().address + load.arrival(number as u64);
        let end = [qp, cq, asked, asked + DONE as u64, local, remote];
        ends.write_u64s(size_of::<bench_verbs_end>() * number, &end).doing(DOING)?;
    }
    Ok((ends, queues))
}

/// Makes the requests that blocks ask for, all by this thread.
fn serve(
    setup: &Setup,
    ends: &[(&Side, &Side)],
    load: Load,
    programs: &[&Program],
) -> Result<(), BenchError> {
    let all = programs[0].probe.rounds() * u64::from(load.batch);
    let mut posters = Vec::new();
    for (&end, program) in ends.iter().zip(programs) {
        let of_block = |block| (Poster::new(end, block, load, setup.options), &program.flags, block);
        posters.extend((0..load.pairs as usize).map(of_block));
    }
    let mut waits = patience(setup.options);
    while posters.iter().any(|(poster, ..)| poster.done < all) {
        let mut moved = ends[0].0.network().step();
        for (poster, flags, block) in &mut posters {
            while poster.posted < flags.asked(*block) && poster.post()? {
                moved = true;
            }
            if poster.take()? {
                flags.tell(*block, poster.done);
                moved = true;
            }
        }
        wait(&mut waits, (setup.options, moved), || "kernels ask for no more requests".to_owned())?;
    }
    Ok(())
}
