//! What each process has: a node, a processor, a window and a group; and how it runs kernels.

use std::sync::Arc;
use std::time::Duration;

use ggas_coll::{Group, GroupConfig, RunBy};
use ggas_device::sim::SimNetwork;
use ggas_kernels::{KernelMem, Processor, Running, start};
use ggas_members::Job;
use ggas_rma::Node;
use ggas_selftest::args::{
    SELFTEST_ALLREDUCE, SELFTEST_BARRIER, SELFTEST_GRID, SELFTEST_INT64, SELFTEST_WINDOW_OUT, selftest_coll,
};
use ggas_window::{Mapping, Window};

use crate::{Options, Outcome};

/// Bound of every step.
pub const SOON: Duration = Duration::from_secs(20);
/// Bytes of one transfer in the window's check.
pub const TRANSFER: usize = 64 << 10;
/// Where each node counts barriers in its part.
pub const ROUNDS: usize = 2048;

pub struct Process {
    pub rank: usize,
    pub size: usize,
    pub processor: Processor,
    pub window: Arc<Window>,
    pub group: Group,
    pub status: KernelMem,
    pub wrong: KernelMem,
    _network: SimNetwork,
}

impl Process {
    pub fn new(job: &Job, options: &Options) -> Outcome<Process> {
        let (rank, size) = (job.rank() as usize, job.size() as usize);
        ggas_selftest::add(); // before a GPU is opened
        let processor = if options.cpu { Processor::cpu() } else { Processor::gpu(rank)? };
        let network = SimNetwork::builder().join_as(job.member().clone())?;
        let node = Node::new(network.device(0)?);
        let user = SELFTEST_WINDOW_OUT as usize + (size + 1) * TRANSFER;
        let run_by = if options.run { RunBy::Processes } else { RunBy::Reach };
        let config = GroupConfig { offset: user, timeout: SOON, run_by, ..GroupConfig::default() };
        let window = Arc::new(Window::across(job, &node, &processor, config.end(size)?, SOON)?);
        let expected = match (job.spans_hosts(), options.cpu) {
            (true, _) => Mapping::Trapped,
            (_, true) => Mapping::Processes,
            (_, false) => Mapping::Peers,
        };
        if window.info().mapped != Ok(expected) {
            return Err(format!("the window is {}", window.info()).into());
        }
        let group = Group::across(job, window.clone(), &config)?;
        let (status, wrong) = (processor.alloc(8)?, processor.alloc(8)?);
        Ok(Process { rank, size, processor, window, group, status, wrong, _network: network })
    }

    /// Starts a kernel of the self-tests.
    pub fn start<T: Copy>(&self, kernel: &str, shape: (u32, u32), args: &T) -> Outcome<Running> {
        self.status.store_u64(0, 0)?;
        self.wrong.store_u64(0, 0)?;
        // SAFETY: the callers give this kernel's structure, whose memory outlives the wait.
        let launch = unsafe { ggas_selftest::launch(&self.processor, kernel, shape.0, shape.1, args) };
        Ok(start(&[launch])?)
    }

    /// Runs it to its end; fails where it saw something wrong.
    pub fn run<T: Copy>(&self, kernel: &str, shape: (u32, u32), args: &T) -> Outcome<()> {
        self.start(kernel, shape, args)?.wait(SOON)?;
        self.group.check()?;
        match (self.status.load_u64(0)?, self.wrong.load_u64(0)?) {
            (0, 0) => Ok(()),
            (status, wrong) => Err(format!(
                "{kernel} ended with status {status} and saw {wrong} wrong words; {:?}",
                self.window.member(self.rank)?.report()
            )
            .into()),
        }
    }

    fn coll(&self) -> Outcome<selftest_coll> {
        Ok(selftest_coll {
            group: self.group.member(self.rank)?.address(),
            status: self.status.address(),
            wrong: self.wrong.address(),
            ..selftest_coll::default()
        })
    }

    /// Barriers that check themselves, two a round.
    pub fn barriers(&self, rounds: u32) -> Outcome<selftest_coll> {
        Ok(selftest_coll {
            input: self.window.member(self.rank)?.global_pointer(0)? + ROUNDS as u64,
            input_stride: self.window.info().stride as u64,
            method: SELFTEST_BARRIER,
            rounds,
            ..self.coll()?
        })
    }

    /// `rounds` times the sum of `count` numbers of each process by a grid, checked.
    pub fn allreduce(&self, shape: (u32, u32), count: usize, rounds: u32) -> Outcome<Duration> {
        let value = |rank: usize, i: usize| (rank as i64 + 1) * (i as i64 - 7) * 1_000_003;
        let memory = self.processor.alloc(2 * 8 * count)?;
        memory.write(0, &(0..count).flat_map(|i| value(self.rank, i).to_ne_bytes()).collect::<Vec<u8>>())?;
        let args = selftest_coll {
            input: memory.address(),
            out: memory.address() + 8 * count as u64,
            count: count as u64,
            element: SELFTEST_INT64,
            method: SELFTEST_ALLREDUCE,
            form: SELFTEST_GRID,
            rounds,
            ..self.coll()?
        };
        let begun = std::time::Instant::now();
        self.run("ggas_selftest_coll_types", shape, &args)?;
        let took = begun.elapsed();
        let mut sums = vec![0; 8 * count];
        memory.read(8 * count, &mut sums)?;
        let expected = |i: usize| (0..self.size).map(|rank| value(rank, i)).sum::<i64>().to_ne_bytes();
        match sums.chunks_exact(8).enumerate().find(|(i, sum)| **sum != expected(*i)) {
            Some((i, sum)) => Err(format!("element {i} is {sum:?}, not {:?}", expected(i)).into()),
            None => Ok(took),
        }
    }
}
