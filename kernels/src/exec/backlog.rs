//! Blocks that start when others have ended ([`Launch::resident`](crate::Launch::resident)).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::block::{Block, Plan};
use super::stack::PooledStack;
use crate::launch::LaunchError;

/// What has not started, by launch.
#[derive(Default)]
pub(super) struct Backlog {
    launches: Vec<Line>,
}

/// The blocks of one launch, in the order of their numbers.
#[derive(Default)]
struct Line {
    kernel: &'static str,
    plans: Mutex<VecDeque<Plan>>,
    unstarted: Arc<AtomicU32>,
}

impl Backlog {
    /// Of launches, of which those of this backlog's `plans` wait.
    pub fn new(lines: Vec<(&'static str, VecDeque<Plan>, Arc<AtomicU32>)>) -> Backlog {
        let line = |(kernel, plans, unstarted): (_, VecDeque<Plan>, Arc<AtomicU32>)| {
            unstarted.store(plans.len() as u32, Ordering::Relaxed);
            Line { kernel, plans: Mutex::new(plans), unstarted }
        };
        Backlog { launches: lines.into_iter().map(line).collect() }
    }

    /// Takes the blocks that have ended away, and has as many others of their launches start.
    pub fn refill(&self, blocks: &mut Vec<Block>) -> Result<(), LaunchError> {
        let mut ended = Vec::new();
        blocks.retain(|block| {
            if block.finished() {
                ended.push(block.launch());
            }
            !block.finished()
        });
        // Behind the removal: their stacks serve those that start.
        for launch in ended {
            if let Some(plan) = self.next(launch)? {
                blocks.push(Block::new(plan));
            }
        }
        Ok(())
    }

    fn next(&self, launch: usize) -> Result<Option<Plan>, LaunchError> {
        let Some(line) = self.launches.get(launch) else { return Ok(None) };
        let plan = line.plans.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(mut plan) = plan else { return Ok(None) };
        line.unstarted.fetch_sub(1, Ordering::Relaxed);
        plan.stacks = PooledStack::take(plan.threads as usize).map_err(LaunchError::Resources)?;
        Ok(Some(plan))
    }

    /// What to say of them where the launch ran out of time; empty if all have started.
    pub fn describe(&self) -> String {
        let left = |line: &Line| {
            let unstarted = line.unstarted.load(Ordering::Relaxed);
            (unstarted > 0).then(|| {
                format!(
                    "\n  {}: {unstarted} blocks have not started, since those that live have not ended: no block may wait \
                     for a later one where few live at a time (Launch::resident)",
                    line.kernel
                )
            })
        };
        self.launches.iter().filter_map(left).collect()
    }
}
