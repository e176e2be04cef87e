//! Workers of one `start`, and whoever waits for them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use super::backlog::Backlog;
use super::block::{Block, Pass, Plan};
use super::idle::Idle;
use super::stack::PooledStack;
use super::{CpuConfig, Pulse};
use crate::image;
use crate::launch::{Launch, LaunchError, MAX_BLOCK};
use crate::trap;

/// Set once a worker had to be left behind: kernel memory is never freed from then on.
static LEAKED: AtomicBool = AtomicBool::new(false);

/// True when some kernel that cannot be stopped may still use memory of its launch.
pub(crate) fn leaked() -> bool {
    LEAKED.load(Ordering::Acquire)
}

struct Shared {
    cancel: AtomicBool,
    kernels: Vec<&'static str>,
    pulses: Vec<Pulse>,
    backlog: Backlog,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    done: usize,
    failure: Option<LaunchError>,
    /// What threads did when the launch was cancelled, one text per block.
    waits: Vec<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kernels running on the executor. Dropping it cancels them.
pub(crate) struct CpuRun {
    /// In virtual time: blocks that run while somebody waits.
    waiting: Vec<Plan>,
    clock: Clock,
    shared: Arc<Shared>,
    no_pause_limit: Duration,
    finished: bool,
}

/// Starts all launches; their blocks live at once, but for those that [`Launch::resident`] lets wait.
pub(crate) fn start(config: &CpuConfig, launches: &[&Launch<'_>]) -> Result<CpuRun, LaunchError> {
    let (plans, backlog) = plan(launches, &config.clock)?;
    let (plans, waiting) = if config.clock.is_real() { (plans, Vec::new()) } else { (Vec::new(), plans) };
    let workers = config.workers.clamp(1, plans.len().max(1)).min(plans.len());
    let shares = deal(plans, workers);
    let shared = Arc::new(Shared {
        cancel: AtomicBool::new(false),
        kernels: launches.iter().filter_map(|l| image::host_kernel(l.kernel)).map(|k| k.name()).collect(),
        pulses: (0..workers).map(|_| Pulse::default()).collect(),
        backlog,
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let mut run = CpuRun {
        waiting,
        clock: config.clock.clone(),
        shared: shared.clone(),
        no_pause_limit: config.no_pause_limit,
        finished: false,
    };
    for (number, share) in shares.into_iter().enumerate() {
        let theirs = shared.clone();
        let spawned = thread::Builder::new()
            .name(format!("ggas-exec-{number}"))
            .spawn(move || work(&theirs, number, share));
        if let Err(error) = spawned {
            // The workers that did start see this and stop.
            shared.cancel.store(true, Ordering::Relaxed);
            shared.state().done += workers - number;
            run.wait(Clock::REAL.now() + Duration::from_secs(1)).ok();
            return Err(LaunchError::Resources(error));
        }
    }
    Ok(run)
}

/// Deals blocks out by their threads. Neighbours stay together: blocks of one
/// launch meet more often than those of different ones.
fn deal(plans: Vec<Plan>, workers: usize) -> Vec<Vec<Plan>> {
    let total: usize = plans.iter().map(|plan| plan.stacks.len()).sum();
    let mut shares: Vec<Vec<Plan>> = (0..workers).map(|_| Vec::new()).collect();
    let mut before = 0;
    for plan in plans {
        let threads = plan.stacks.len();
        // The share that its middle falls into.
        shares[(2 * before + threads) * workers / (2 * total)].push(plan);
        before += threads;
    }
    shares
}

/// Blocks that start at once, and those that wait for their turn.
fn plan(launches: &[&Launch<'_>], clock: &Clock) -> Result<(Vec<Plan>, Backlog), LaunchError> {
    let origin = clock.origin();
    let first = |launch: &Launch<'_>| launch.resident.map_or(launch.grid, |most| most.min(launch.grid));
    let threads: usize = launches.iter().map(|l| first(l) as usize * l.block.min(MAX_BLOCK) as usize).sum();
    let limit = PooledStack::limit();
    if threads > limit {
        return Err(LaunchError::TooManyThreads { threads, limit });
    }
    let (mut plans, mut lines) = (Vec::new(), Vec::new());
    for (number, launch) in launches.iter().enumerate() {
        let kernel = image::host_kernel(launch.kernel)
            .ok_or_else(|| LaunchError::UnknownKernel { kernel: launch.kernel.to_owned() })?;
        let unstarted = Arc::<AtomicU32>::default();
        let block = |block, stacks| Plan {
            kernel,
            launch: number,
            block,
            blocks: launch.grid,
            args: launch.args.clone(),
            threads: launch.block,
            stacks,
            clock: clock.clone(),
            origin,
            unstarted: unstarted.clone(),
        };
        for now in 0..first(launch) {
            let stacks = PooledStack::take(launch.block as usize).map_err(LaunchError::Resources)?;
            plans.push(block(now, stacks));
        }
        let later: VecDeque<Plan> =
            (first(launch)..launch.grid).map(|later| block(later, Vec::new())).collect();
        lines.push((kernel.name(), later, unstarted.clone()));
    }
    Ok((plans, Backlog::new(lines)))
}

fn work(shared: &Shared, number: usize, share: Vec<Plan>) {
    let mut blocks: Vec<Block> = share.into_iter().map(Block::new).collect();
    let run = AssertUnwindSafe(|| run_blocks(shared, number, &mut blocks));
    let outcome = catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let what = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Some(LaunchError::Device { what: what.unwrap_or_else(|| "no message".to_owned()) }))
    });
    let waits = if outcome.is_ok() { Vec::new() } else { blocks.iter().map(Block::describe_full).collect() };
    blocks.iter_mut().for_each(Block::abandon);
    drop(blocks);
    let mut state = shared.state();
    state.done += 1;
    state.waits.extend(waits);
    if let Err(Some(failure)) = outcome {
        shared.cancel.store(true, Ordering::Relaxed);
        state.failure.get_or_insert(failure);
    }
    drop(state);
    shared.changed.notify_all();
}

/// `Err(None)`: cancelled.
fn run_blocks(shared: &Shared, number: usize, blocks: &mut Vec<Block>) -> Result<(), Option<LaunchError>> {
    let mut idle = Idle::new(Clock::real());
    while !blocks.is_empty() {
        if shared.cancel.load(Ordering::Relaxed) {
            return Err(None);
        }
        idle.after_pass(pass(blocks, &shared.pulses[number], &shared.backlog, &shared.cancel).map_err(Some)?);
    }
    Ok(())
}

/// Runs each thread that can run once; blocks that have ended are gone then, and others in their places.
fn pass(
    blocks: &mut Vec<Block>,
    pulse: &Pulse,
    backlog: &Backlog,
    cancelled: &AtomicBool,
) -> Result<Pass, LaunchError> {
    let mut all = Pass::default();
    for block in &mut *blocks {
        let pass = block.pass(pulse, cancelled)?;
        all.waited |= pass.waited;
        all.moved |= pass.moved;
    }
    backlog.refill(blocks)?;
    Ok(all)
}

impl CpuRun {
    /// `timeout` from now on the clock of its kernels.
    pub fn deadline(&self, timeout: Duration) -> Instant {
        self.clock.deadline(timeout)
    }

    /// Waits for all launches until `deadline`, then cancels them and says what they waited for.
    pub fn wait(&mut self, deadline: Instant) -> Result<(), LaunchError> {
        let begun = self.clock.now();
        let all_done = if self.clock.is_real() { self.watch(deadline)? } else { self.run_here(deadline) };
        if !all_done && self.clock.is_real() {
            self.shared.cancel.store(true, Ordering::Relaxed);
            // Workers look between threads; the watchdog ends this if one does not come back. One that waits for a card
            // never runs its thread again.
            self.watch(Clock::REAL.deadline(self.no_pause_limit.saturating_add(Duration::from_secs(5))))?;
        }
        self.finished = true;
        let mut state = self.shared.state();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        if all_done {
            drop(state);
            // As after kernels of a GPU, whoever hears of the end finds what they stored. Of nodes that do not answer stores are lost.
            if let Err(failed) = trap::settle() {
                tracing::debug!(
                    "stores of kernels that ended may not have come: {}: {}",
                    failed.place,
                    failed.source
                );
            }
            return Ok(());
        }
        state.waits.sort();
        let more = state.waits.len().saturating_sub(8);
        state.waits.truncate(8);
        let mut waits = state.waits.join("\n  ");
        if more > 0 {
            waits += &format!("\n  and {more} more blocks");
        }
        waits += &self.shared.backlog.describe();
        Err(LaunchError::Timeout { after: self.clock.since(begun), waits })
    }

    /// Runs all blocks on this thread, in virtual time. True once they are done, or one has failed; false at the
    /// deadline.
    fn run_here(&mut self, deadline: Instant) -> bool {
        let mut blocks: Vec<Block> = self.waiting.drain(..).map(Block::new).collect();
        let (pulse, mut idle) = (Pulse::default(), Idle::new(self.clock.clone()));
        while !blocks.is_empty() {
            if self.clock.now() >= deadline {
                self.shared.state().waits.extend(blocks.iter().map(Block::describe_full));
                blocks.iter_mut().for_each(Block::abandon);
                return false;
            }
            match pass(&mut blocks, &pulse, &self.shared.backlog, &self.shared.cancel) {
                Ok(all) => idle.after_pass(all),
                Err(failure) => {
                    self.shared.state().failure.get_or_insert(failure);
                    blocks.iter_mut().for_each(Block::abandon);
                    return true;
                }
            }
        }
        true
    }

    /// True once all workers are done, false at the deadline.
    fn watch(&mut self, deadline: Instant) -> Result<bool, LaunchError> {
        const ROUND: Duration = Duration::from_millis(50);
        let workers = self.shared.pulses.len();
        let mut last: Vec<_> = self.shared.pulses.iter().map(|p| (p.read(), Clock::REAL.now())).collect();
        loop {
            let state = self.shared.state();
            if state.done >= workers {
                return Ok(true);
            }
            let now = Clock::REAL.now();
            if now >= deadline {
                return Ok(false);
            }
            let round = ROUND.min(deadline - now);
            let state = Clock::REAL.wait(&self.shared.changed, state, round);
            let state = state.unwrap_or_else(|| self.shared.state());
            if state.done >= workers {
                return Ok(true);
            }
            drop(state);
            for (pulse, (seen, since)) in self.shared.pulses.iter().zip(&mut last) {
                let reading = pulse.read();
                if reading != *seen || reading.1.is_none() {
                    (*seen, *since) = (reading, Clock::REAL.now());
                } else if Clock::REAL.since(*since) >= self.no_pause_limit {
                    return Err(self.leak(reading.1));
                }
            }
        }
    }

    /// Gives up on a thread that never returns to the scheduler.
    fn leak(&mut self, who: Option<(usize, u32, u32)>) -> LaunchError {
        LEAKED.store(true, Ordering::Release);
        self.shared.cancel.store(true, Ordering::Relaxed);
        self.finished = true;
        let (launch, block, thread) = who.unwrap_or_default();
        let kernel = self.shared.kernels.get(launch).copied().unwrap_or("?").to_owned();
        LaunchError::NoPause { kernel, block, thread, limit: self.no_pause_limit }
    }
}

impl Drop for CpuRun {
    fn drop(&mut self) {
        if !self.finished {
            // Kernels must not outlive the memory they were given; a failure has nobody to tell.
            self.wait(self.clock.now()).ok();
        }
    }
}
