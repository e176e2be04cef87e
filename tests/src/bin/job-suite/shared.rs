//! A window over all processes: stores to everyone's part, and barriers of kernels on the CPU executor.

use std::sync::Arc;

use ggas::kernels::{KernelMem, start};
use ggas::{Group, GroupConfig, Job, Processor, Window};
use ggas_selftest::args::{SELFTEST_BARRIER, selftest_coll};

use crate::patience;
use crate::trouble::Trouble;

/// Bytes of each part before the group's area: a word for the barriers' count, then one of each process.
const USER: usize = 4096;
const BARRIERS: u32 = 10;

pub struct Shared<'a> {
    job: &'a Job,
    cpu: Processor,
    window: Arc<Window>,
    group: Group,
    status: KernelMem,
    wrong: KernelMem,
}

impl<'a> Shared<'a> {
    pub fn new(job: &'a Job) -> Result<Self, Trouble> {
        let cpu = Processor::cpu();
        let config =
            GroupConfig { offset: USER, slot_bytes: 256, timeout: patience(), ..GroupConfig::default() };
        let bytes = config.end(job.size() as usize)?;
        let window = Arc::new(Window::across(job.membership(), job.node(), &cpu, bytes, patience())?);
        let group = Group::across(job.membership(), window.clone(), &config)?;
        let (status, wrong) = (cpu.alloc(8)?, cpu.alloc(8)?);
        Ok(Shared { job, cpu, window, group, status, wrong })
    }

    /// Everyone stores a word to every part and finds everyone's in its own; then barriers, which nobody leaves
    /// before all have come.
    pub fn run(&mut self, round: u64) -> Result<(), Trouble> {
        let (rank, size) = (self.job.rank() as usize, self.job.size() as usize);
        let value = |of: usize| round << 16 | of as u64 | 1 << 40;
        // Behind the two counters of the barriers.
        let offset = |of: usize| 16 + 8 * of;
        for part in 0..size {
            self.window.store_u64(part, offset(rank), value(rank))?;
        }
        for counter in [0, 8] {
            self.window.store_u64(rank, counter, 0)?;
        }
        self.job.barrier(patience())?;
        for from in 0..size {
            let found = self.window.load_u64(rank, offset(from))?;
            if found != value(from) {
                return Err(Trouble::Wrong(format!(
                    "rank {from}'s word is {found:#x}, not {:#x}",
                    value(from)
                )));
            }
        }
        let barriers = self.barriers(rank);
        // Who died explains what the kernel saw.
        self.group.check()?;
        barriers?;
        self.job.barrier(patience())?;
        Ok(())
    }

    fn barriers(&self, rank: usize) -> Result<(), Trouble> {
        let member = self.window.member(rank)?;
        self.status.store_u64(0, 0)?;
        let args = selftest_coll {
            group: self.group.member(rank)?.address(),
            status: self.status.address(),
            wrong: self.wrong.address(),
            input: member.global_pointer(0)?,
            input_stride: self.window.info().stride as u64,
            method: SELFTEST_BARRIER,
            rounds: BARRIERS,
            ..selftest_coll::default()
        };
        // SAFETY: the structure is this kernel's, and its memory outlives the wait.
        let launch = unsafe { ggas_selftest::launch(&self.cpu, "ggas_selftest_coll", 1, 32, &args) };
        start(&[launch])?.wait(4 * patience())?;
        let (status, wrong) = (self.status.load_u64(0)?, self.wrong.load_u64(0)?);
        match (status, wrong) {
            (0, 0) => Ok(()),
            (_, 1..) => Err(Trouble::Wrong(format!("{wrong} counts were wrong after a barrier"))),
            (status, _) => Err(Trouble::Late(format!("a barrier of kernels returned {status}"))),
        }
    }
}
