//! Programs: how they begin, wait, pay for their calls, and end.

use std::sync::MutexGuard;
use std::time::Duration;

use super::flag::{Flag, Poll};
use super::gpu::{Block, Body};
use super::state::{Outside, State, What};
use super::{Ps, Timed};
use crate::drivers::tasks::{self, Program, Stack, Wait};

impl Timed {
    /// Runs programs of hosts, each on its node and with a name for messages, and all that they launch, until all have
    /// ended. What is still on its way goes on in the next call.
    ///
    /// # Panics
    /// As the first program does that panics: the others are left where they are. Where all of them wait for ever. Where
    /// there is no such node.
    pub fn run<F: FnOnce()>(&self, programs: impl IntoIterator<Item = (usize, String, F)>) {
        let mut hosts = Programs::default();
        for (node, name, program) in programs {
            let node = self.node(node).index;
            let mut state = self.state();
            let now = state.now;
            let id = state.begin_task(now, node, None);
            // SAFETY: the program runs only inside this call, which its borrows outlive.
            let program = unsafe { Program::new(self.owner(), name, Stack::new(), program) };
            hosts.insert(id, program, None);
        }
        let mut quiet = Quiet::default();
        loop {
            let mut state = self.state();
            if state.live == 0 {
                break;
            }
            if state.next().is_none() || quiet.is_over(&state) {
                drop(state);
                panic!("all programs wait for ever, and nothing is on its way: {}", hosts.names());
            }
            let outside = state.advance();
            drop(state);
            match outside {
                Outside::Resume(id, body) => self.resume(&mut hosts, id, body),
                outside => self.finish(outside),
            }
        }
        let mut state = self.state();
        state.now = state.now.max(hosts.finished);
    }

    fn resume(&self, hosts: &mut Programs, id: u32, body: Option<Box<Body>>) {
        if let Some(body) = body {
            hosts.begin(self, id, *body);
        }
        let Some(begun) = hosts.get(id) else { return };
        if begun.program.resume().is_some() {
            return;
        }
        let place = begun.place;
        hosts.end(id);
        let mut state = self.state();
        hosts.finished = hosts.finished.max(state.here());
        state.end_task(id);
        if let Some((node, stream)) = place {
            state.end_block(node, stream);
        }
        (state.running, state.debt) = (None, Ps::ZERO);
    }

    /// Gives away the turn of the program that runs here, until then, but not before it has paid.
    pub(super) fn suspend(&self, until: Ps, news: bool) {
        self.suspend_in(self.state(), until, news);
    }

    /// The same for a time from now on, in whole nanoseconds as clocks show them.
    pub(super) fn suspend_for(&self, time: Duration) {
        let state = self.state();
        let until = Ps::of(state.here().duration() + time);
        self.suspend_in(state, until, false);
    }

    #[inline]
    fn suspend_in(&self, mut state: MutexGuard<'_, State>, until: Ps, news: bool) {
        let Some(id) = state.running.take() else { return };
        let (turn, at) = (state.tasks[id as usize].turn, until.max(state.here()));
        state.debt = Ps::ZERO;
        if at < Ps::NEVER {
            state.schedule(at, What::Task(id, turn));
        }
        if news {
            let node = state.tasks[id as usize].node;
            state.cards.sleep(node, (id, turn));
        }
        drop(state);
        tasks::suspend(self.owner(), Wait { until: at.0, news });
    }

    /// The program is busy for so long.
    pub(super) fn sleep(&self, time: Ps) {
        if self.is_running_here() {
            let until = self.state().busy(time);
            self.suspend(until, false);
        } else {
            self.run_events(self.now() + time, false);
        }
    }

    /// The program is busy for so long, from its next wait on; what it does before happens at its own time.
    pub(super) fn charge(&self, time: Ps) {
        if self.is_running_here() {
            self.state().charge(time);
        } else {
            self.sleep(time);
        }
    }

    /// The program pays now for what it did.
    pub(super) fn settle(&self) {
        if self.is_running_here() && self.state().debt > Ps::ZERO {
            self.suspend(Ps::ZERO, false);
        }
    }

    pub(super) fn raise(&self, flag: &Flag, by: u64) {
        self.settle();
        let mut state = self.state();
        let here = state.here();
        flag.raise(by, |waiting| state.see(waiting, here));
    }

    pub(super) fn wait(&self, flag: &Flag, least: u64, poll: Poll) {
        if !self.is_running_here() {
            while !flag.is_at_least(least) {
                let at = self.state().next();
                self.run_events(at.unwrap_or(Ps::NEVER), true);
            }
            return;
        }
        let mut state = self.state();
        let Some(id) = state.running else { return };
        let turn = state.tasks[id as usize].turn;
        let until = match flag.is_at_least(least) {
            true => state.busy(poll.look),
            false => {
                let since = state.poll();
                flag.await_at_least(least, (id, turn), since, poll);
                Ps::NEVER
            }
        };
        drop(state);
        self.suspend(until, false);
    }
}

/// Finds waits that nothing will end though cards look about for ever: they would be a hang.
#[derive(Default)]
struct Quiet {
    news: u64,
    since: Ps,
}

/// So long cards are looked at that move nothing, while nobody else goes on: a day.
const PATIENCE: Ps = Ps(24 * 3600 * 1_000_000_000_000);

impl Quiet {
    fn is_over(&mut self, state: &State) -> bool {
        let news = state.activity();
        if news != self.news {
            (self.news, self.since) = (news, state.now);
        }
        state.now.saturating_sub(self.since) > PATIENCE
    }
}

/// A program that has begun.
struct Begun {
    program: Program,
    /// Node and stream of a block.
    place: Option<(u32, u32)>,
}

/// Programs that have not ended. On the way of a panic they are left where they are.
#[derive(Default)]
struct Programs {
    /// By number.
    programs: Vec<Option<Begun>>,
    stacks: Vec<Stack>,
    /// When the last one that has ended did so.
    finished: Ps,
}

impl Programs {
    fn insert(&mut self, id: u32, program: Program, place: Option<(u32, u32)>) {
        let at = id as usize;
        if self.programs.len() <= at {
            self.programs.resize_with(at + 1, || None);
        }
        self.programs[at] = Some(Begun { program, place });
    }

    fn begin(&mut self, timed: &Timed, id: u32, body: Body) {
        let Some(this) = timed.this.upgrade() else { return };
        let Body { code, name, node, stream, index, blocks } = body;
        let stack = self.stacks.pop().unwrap_or_else(Stack::new);
        let program = move || code(Block { timed: &this, node, index, blocks });
        let name = format!("block {index} of {name} on node {node}");
        // SAFETY: it borrows nothing.
        let program = unsafe { Program::new(timed.owner(), name, stack, program) };
        self.insert(id, program, Some((node, stream)));
    }

    fn get(&mut self, id: u32) -> Option<&mut Begun> {
        self.programs.get_mut(id as usize)?.as_mut()
    }

    fn end(&mut self, id: u32) {
        if let Some(begun) = self.programs[id as usize].take() {
            self.stacks.push(begun.program.end());
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.programs.iter().flatten().map(|begun| begun.program.name()).collect();
        names.join(", ")
    }
}
