//! One block of threads: its fibers, its barrier and its warps.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use corosensei::{Coroutine, CoroutineResult};
use ggas_clock::Clock;

use super::Pulse;
use super::ffi::{Access, Event, Shared, Site, Thread, WarpOp, ggas_exec_enter};
use super::stack::PooledStack;
use crate::image::HostKernel;
use crate::launch::LaunchError;
use crate::report::QueueWait;
use crate::{mmio, trap};

const WARP: usize = 32;
/// A warp that pauses at least once in so many operations of it is in a loop that waits.
const WAIT_LOOP: u32 = 16;

type Fiber = Coroutine<u64, Event, (), PooledStack>;

#[derive(Clone, Copy)]
enum State {
    Ready { input: u64 },
    Barrier(Site),
    Warp { op: WarpOp, mask: u32, value: u64, argument: u32 },
    Exited,
}

struct Slot {
    // Before `thread`: a fiber must be gone before what it points to.
    fiber: Option<Fiber>,
    thread: Box<Thread>,
    state: State,
}

/// What a block is made of; prepared by the caller of `start`, turned into fibers on a worker.
pub(super) struct Plan {
    pub kernel: &'static HostKernel,
    pub launch: usize,
    pub block: u32,
    pub blocks: u32,
    pub args: Arc<super::Args>,
    pub threads: u32,
    /// One for each thread; none yet in a plan that waits for its turn.
    pub stacks: Vec<PooledStack>,
    pub clock: Clock,
    /// What the device clock counts from.
    pub origin: Instant,
    /// Blocks of the grid that have not started.
    pub unstarted: Arc<AtomicU32>,
}

/// What a thread did until it gave up its OS thread.
enum Step {
    /// Another round of a wait.
    Waited,
    /// Something that brings the launch further.
    Moved,
    /// A warp operation in a loop that waits.
    Neither,
}

/// What the threads of a block did in one pass.
#[derive(Clone, Copy, Default)]
pub(super) struct Pass {
    pub waited: bool,
    pub moved: bool,
}

pub(super) struct Block {
    kernel: &'static HostKernel,
    launch: usize,
    number: u32,
    slots: Vec<Slot>,
    ready: VecDeque<u32>,
    /// Per warp: its operations since one of its lanes paused.
    since_pause: Vec<u32>,
    at_barrier: usize,
    barrier_any: bool,
    exited: usize,
    // Last: the fibers use them.
    _shared: Box<Shared>,
    _args: Arc<super::Args>,
}

impl Block {
    pub fn new(plan: Plan) -> Self {
        let threads = plan.stacks.len();
        let mut shared = Box::new(Shared::new(plan.clock, plan.origin, plan.unstarted));
        let slots = (0..).zip(plan.stacks).map(|(number, stack)| {
            let mut thread =
                Box::new(Thread::new(number, threads as u32, plan.block, plan.blocks, &raw mut *shared));
            let this: *mut Thread = &raw mut *thread;
            let (run, args) = (plan.kernel.run, plan.args.as_ptr());
            // SAFETY: the closure owns only plain pointers, which stay valid until the fiber is
            // gone (`Slot`, `Block`: order of fields), so it may be dropped without unwinding.
            let fiber = unsafe {
                Coroutine::with_stack_unchecked(stack, move |yielder: &corosensei::Yielder<u64, Event>, _| {
                    (*this).set_yielder(yielder);
                    run(args.cast());
                })
            };
            Slot { fiber: Some(fiber), thread, state: State::Ready { input: 0 } }
        });
        Self {
            kernel: plan.kernel,
            launch: plan.launch,
            number: plan.block,
            slots: slots.collect(),
            ready: (0..threads as u32).collect(),
            since_pause: vec![u32::MAX; threads.div_ceil(WARP)],
            at_barrier: 0,
            barrier_any: false,
            exited: 0,
            _shared: shared,
            _args: plan.args,
        }
    }

    /// Which launch it is of.
    pub fn launch(&self) -> usize {
        self.launch
    }

    pub fn finished(&self) -> bool {
        self.exited == self.slots.len()
    }

    /// Runs every ready thread once, as long as the launch is not `cancelled`.
    pub fn pass(&mut self, pulse: &Pulse, cancelled: &AtomicBool) -> Result<Pass, LaunchError> {
        let mut pass = Pass::default();
        for _ in 0..self.ready.len() {
            // Threads may each wait for an answer of a card.
            if cancelled.load(Ordering::Relaxed) {
                break;
            }
            let Some(thread) = self.ready.pop_front() else { break };
            pulse.enter(self.launch, self.number, thread);
            match self.run(thread as usize, pulse, cancelled)? {
                Step::Waited => pass.waited = true,
                Step::Moved => pass.moved = true,
                Step::Neither => {}
            }
        }
        pulse.leave();
        if self.ready.is_empty() && !self.finished() {
            return Err(self.stuck());
        }
        Ok(pass)
    }

    fn run(&mut self, thread: usize, pulse: &Pulse, cancelled: &AtomicBool) -> Result<Step, LaunchError> {
        let slot = &mut self.slots[thread];
        let (State::Ready { mut input }, Some(fiber)) = (slot.state, &mut slot.fiber) else {
            return Ok(Step::Neither);
        };
        // SAFETY: the thread's record lives as long as its fiber.
        unsafe { ggas_exec_enter(&raw mut *slot.thread) };
        loop {
            let event = match fiber.resume(input) {
                CoroutineResult::Yield(event) => event,
                CoroutineResult::Return(()) => {
                    slot.fiber = None;
                    slot.state = State::Exited;
                    self.exited += 1;
                    self.release_warp_groups(thread / WARP);
                    return Ok(Step::Moved);
                }
            };
            match event {
                Event::Mmio { address, value, bytes } => {
                    // SAFETY: kernels store to registers that their arguments name (`Launch::new`).
                    unsafe { mmio::store(address, value, bytes) };
                    input = 0;
                }
                Event::Access(access) => {
                    // It is bounded by itself, and may take longer than a thread may run.
                    pulse.leave();
                    carry_out(access, self.kernel, self.number, thread as u32)?;
                    if cancelled.load(Ordering::Relaxed) {
                        // Nobody waits for the kernel any more; its memory may be gone.
                        slot.state = State::Ready { input: 0 };
                        self.ready.push_back(thread as u32);
                        return Ok(Step::Moved);
                    }
                    pulse.enter(self.launch, self.number, thread as u32);
                    input = 0;
                }
                Event::Pause { attempt } => {
                    slot.state = State::Ready { input: 0 };
                    self.ready.push_back(thread as u32);
                    if attempt <= 1 {
                        return Ok(Step::Moved);
                    }
                    self.since_pause[thread / WARP] = 0;
                    return Ok(Step::Waited);
                }
                Event::Barrier { site, predicate } => {
                    slot.state = State::Barrier(site);
                    self.at_barrier += 1;
                    self.barrier_any |= predicate;
                    return self.release_barrier().map(|()| Step::Moved);
                }
                Event::Warp { op, mask, value, argument } => {
                    slot.state = State::Warp { op, mask, value, argument };
                    self.release_warp(thread / WARP, op, mask);
                    let since_pause = &mut self.since_pause[thread / WARP];
                    *since_pause = since_pause.saturating_add(1);
                    // Each of the lanes counts the operation.
                    let waits = *since_pause < WAIT_LOOP * WARP as u32;
                    return Ok(if waits { Step::Neither } else { Step::Moved });
                }
            }
        }
    }

    fn release_barrier(&mut self) -> Result<(), LaunchError> {
        if self.at_barrier < self.slots.len() {
            return Ok(());
        }
        let mut sites = self.slots.iter().filter_map(|slot| match slot.state {
            State::Barrier(site) => Some(site),
            _ => None,
        });
        let first = sites.next();
        if !sites.all(|site| Some(site) == first) {
            return Err(self.stuck());
        }
        for slot in &mut self.slots {
            slot.state = State::Ready { input: u64::from(self.barrier_any) };
        }
        self.at_barrier = 0;
        self.barrier_any = false;
        self.ready.extend(0..self.slots.len() as u32);
        Ok(())
    }

    /// Completes a warp operation if all lanes of its mask have come. Lanes that
    /// exited, or that the block does not have, count as not named.
    fn release_warp(&mut self, warp: usize, op: WarpOp, mask: u32) {
        let first = warp * WARP;
        let end = self.slots.len().min(first + WARP);
        let lanes = &mut self.slots[first..end];
        let (mut live, mut came) = (0u32, 0u32);
        let mut values = [0u64; WARP];
        for (lane, slot) in lanes.iter().enumerate() {
            match slot.state {
                State::Exited => continue,
                State::Warp { op: theirs, mask: named, value, .. } if (theirs, named) == (op, mask) => {
                    came |= 1 << lane;
                    values[lane] = value;
                }
                _ => {}
            }
            live |= 1 << lane;
        }
        if came == 0 || came != mask & live {
            return;
        }
        let ballot = (0..WARP).filter(|&l| values[l] != 0).fold(0u64, |m, l| m | 1 << l);
        for (lane, slot) in lanes.iter_mut().enumerate().filter(|(lane, _)| came & 1 << lane != 0) {
            let State::Warp { argument, value, .. } = slot.state else { continue };
            let input = match op {
                WarpOp::Sync => 0,
                WarpOp::Ballot => ballot,
                // A lane that is not there leaves the caller its own value.
                WarpOp::Shuffle if came & 1u32.unbounded_shl(argument) == 0 => value,
                WarpOp::Shuffle => values[argument as usize % WARP],
            };
            slot.state = State::Ready { input };
            self.ready.push_back((first + lane) as u32);
        }
    }

    /// After a lane exited: the others of its warp may have waited for it only.
    fn release_warp_groups(&mut self, warp: usize) {
        let lanes = warp * WARP..self.slots.len().min((warp + 1) * WARP);
        for lane in lanes {
            if let State::Warp { op, mask, .. } = self.slots[lane].state {
                self.release_warp(warp, op, mask);
            }
        }
    }

    fn name(&self) -> String {
        self.kernel.name().to_owned()
    }

    /// Why no thread of the block can ever run again.
    fn stuck(&self) -> LaunchError {
        let detail = self.describe();
        let sites: Vec<Site> = self
            .slots
            .iter()
            .filter_map(|slot| match slot.state {
                State::Barrier(site) => Some(site),
                _ => None,
            })
            .collect();
        let divergent = self.exited > 0 || sites.windows(2).any(|pair| pair[0] != pair[1]);
        let (kernel, block) = (self.name(), self.number);
        if divergent && !sites.is_empty() {
            LaunchError::Divergence { kernel, block, detail }
        } else {
            LaunchError::Deadlock { kernel, block, detail }
        }
    }

    /// What the threads do, in groups: "31 threads at the barrier of x.cu:7 (first: 0)".
    pub fn describe(&self) -> String {
        let mut groups: Vec<(String, usize, usize)> = Vec::new();
        for (number, slot) in self.slots.iter().enumerate() {
            let what = slot.what();
            match groups.iter_mut().find(|(known, ..)| *known == what) {
                Some((_, count, _)) => *count += 1,
                None => groups.push((what, 1, number)),
            }
        }
        let mut text = String::new();
        for (what, count, first) in groups.into_iter().take(4) {
            let separator = if text.is_empty() { "" } else { "; " };
            let threads = if count == 1 { "thread" } else { "threads" };
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{count} {threads} {what} (first: {first})");
        }
        text
    }

    /// `describe` with kernel and block, for a launch that ran out of time.
    pub fn describe_full(&self) -> String {
        format!("{} block {}: {}", self.kernel.name(), self.number, self.describe())
    }

    /// Drops the fibers where they stand. Kernels own nothing, so there is nothing to unwind.
    pub fn abandon(&mut self) {
        for slot in &mut self.slots {
            if let Some(fiber) = &mut slot.fiber {
                // SAFETY: host kernels are C++ without destructors that matter, and `fiber`'s
                // closure owns only plain pointers.
                unsafe { fiber.force_reset() };
            }
        }
    }
}

/// Carries an access to a trapped address out for a thread that waits for it.
fn carry_out(mut access: Access, kernel: &HostKernel, block: u32, thread: u32) -> Result<(), LaunchError> {
    let Access { kind, address, len, .. } = access;
    // SAFETY: the fiber of this thread asked, and is suspended.
    let value = unsafe { access.value() };
    trap::access(kind, address, value).map_err(|failed| LaunchError::Access {
        kernel: kernel.name().to_owned(),
        block,
        thread,
        access: format!("{kind} of {len} bytes"),
        place: failed.place,
        source: failed.source,
    })
}

impl Slot {
    fn what(&self) -> String {
        match self.state {
            State::Exited => "exited".to_owned(),
            State::Barrier(site) => format!("at the barrier of {site}"),
            State::Warp { op, mask, .. } => format!("in a warp {op:?} with mask {mask:#010x}"),
            State::Ready { .. } if self.thread.wait != 0 => {
                let t = &self.thread;
                if QueueWait::is_one(t.wait) {
                    let (peer, address) = ((t.peer != !0).then_some(t.peer), t.address);
                    let (wait, expected, seen, line) = (t.wait, t.expected, t.seen, t.line);
                    let of = QueueWait { wait, peer, address, expected, seen, line };
                    return format!("last waited for {of}");
                }
                let peer = if t.peer == !0 { String::new() } else { format!(" of node {}", t.peer) };
                format!(
                    "last waited for {}{peer} at line {}: address {:#x}, expected {}, seen {}",
                    crate::report::wait_name(t.wait),
                    t.line,
                    t.address,
                    t.expected,
                    t.seen
                )
            }
            State::Ready { .. } => "running".to_owned(),
        }
    }
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: kernels pass __FILE__ literals.
        let file = unsafe { CStr::from_ptr(self.file) }.to_string_lossy();
        write!(f, "{}:{}", file.rsplit('/').next().unwrap_or(&file), self.line)
    }
}
