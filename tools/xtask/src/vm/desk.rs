//! Which guests run next.

use super::kernel::Kernel;
use super::lab::Job;
use super::scenario::{Boot, Scenario};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Hands out jobs to as many as there is room for: first those of several guests, for which one guest after the other
/// would leave no room, one behind the other, and beside them the others; of each the longest first.
pub struct Desk<'a> {
    room: u32,
    state: Mutex<State<'a>>,
    changed: Condvar,
}

struct State<'a> {
    /// Jobs that wait.
    jobs: Vec<Job<'a>>,
    /// Guests that there is room for now.
    free: u32,
    /// Who may still bring jobs.
    bringers: u32,
}

impl<'a> Desk<'a> {
    /// For this number of guests at a time; `bringers` call [`Desk::bring`] once each.
    pub fn new(room: u32, bringers: u32) -> Desk<'a> {
        let state = State { jobs: Vec::new(), free: room, bringers };
        Desk { room, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Adds jobs to those that wait.
    pub fn bring(&self, jobs: impl IntoIterator<Item = Job<'a>>) {
        let slow = |job: &Job| {
            let Boot { machine, .. } = &job.boot;
            let debug = job.built.kernel.kernel == Kernel::Debug;
            (self.room_of(machine) == 0, self.room_of(machine), debug, machine.limit)
        };
        let mut state = self.state();
        state.jobs.extend(jobs);
        state.jobs.sort_by_key(|job| std::cmp::Reverse(slow(job)));
        state.bringers -= 1;
        self.changed.notify_all();
    }

    /// What a job's guests take of the room: nothing where they wait most of the time. Those of one job wait for each
    /// other now and then, so beside them there is always room for one that does not.
    fn room_of(&self, machine: &Scenario) -> u32 {
        if machine.waits { 0 } else { machine.guests.min((self.room - 1).max(2)) }
    }

    /// Guests that run at a time, but those that wait most of it.
    pub fn room(&self) -> u32 {
        self.room
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job that there is room for, and that room; `None` once none is left and none can come.
    pub fn take(&self) -> Option<(Job<'a>, Room<'_, 'a>)> {
        let mut state = self.state();
        while !state.jobs.is_empty() || state.bringers > 0 {
            let free = state.free;
            if let Some(at) = state.jobs.iter().position(|job| self.room_of(&job.boot.machine) <= free) {
                let job = state.jobs.remove(at);
                let room = self.room_of(&job.boot.machine);
                state.free -= room;
                return Some((job, Room(self, room)));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// Room for a job's guests, given back however the job ends.
pub struct Room<'d, 'a>(&'d Desk<'a>, u32);

impl Drop for Room<'_, '_> {
    fn drop(&mut self) {
        self.0.state().free += self.1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::Installed;
    use super::super::lab::Built;
    use super::*;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Duration;

    /// Name, kernel, guests, seconds, whether it waits.
    type Kind = (&'static str, Kernel, u32, u64, bool);

    const KINDS: [Kind; 7] = [
        ("short", Kernel::V6_12, 1, 10, false),
        ("three", Kernel::V6_12, 3, 20, false),
        ("long", Kernel::V6_12, 1, 90, false),
        ("debug", Kernel::Debug, 1, 30, false),
        ("pair", Kernel::V6_1, 2, 40, false),
        ("debug pair", Kernel::Debug, 2, 30, false),
        ("waits", Kernel::V6_12, 2, 90, true),
    ];

    fn scenario(&(name, _, guests, seconds, waits): &Kind) -> Scenario {
        let mut scenario = Scenario::all().unwrap().swap_remove(0);
        scenario.name = name.into();
        (scenario.guests, scenario.waits, scenario.limit) = (guests, waits, Duration::from_secs(seconds));
        scenario
    }

    #[test]
    fn guests_of_one_job_find_room_beside_those_that_are_alone() {
        let scenarios = KINDS.map(|kind| scenario(&kind));
        let jobs = KINDS.iter().zip(&scenarios).map(|((_, kernel, ..), scenario)| {
            let kernel = Installed::built(*kernel, String::new(), PathBuf::new(), PathBuf::new());
            let built = Arc::new(Built { kernel, modules: Vec::new() });
            Job { built, boot: Boot::of(vec![scenario]).unwrap() }
        });
        let desk = Desk::new(3, 1);
        desk.bring(jobs);
        let next = |name: &str| {
            let (job, room) = desk.take().unwrap();
            assert_eq!(job.boot.machine.name, name);
            room
        };
        let _waits = next("waits");
        let (pair, alone) = (next("debug pair"), next("debug"));
        drop(pair);
        let pair = next("pair");
        drop(alone);
        let alone = next("long");
        drop(pair);
        // Three wait for each other as well.
        let three = next("three");
        drop((alone, three));
        next("short");
        assert!(desk.take().is_none());
    }
}
