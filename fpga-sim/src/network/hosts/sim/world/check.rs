//! What processes find out about each other, and whether that is right.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{AFTER_CUT, World};
use crate::network::hosts::events::End;
use crate::packet::ANYONE;

impl World {
    /// Notes whom a process finds gone.
    pub fn watch(&mut self, who: usize) {
        let seen = self.processes[who].seen.clone();
        let departures = seen.departures().load(Ordering::Relaxed);
        if std::mem::replace(&mut self.processes[who].departures, departures) == departures {
            return;
        }
        let now = self.now();
        for node in 0..self.at.len() as u16 {
            let met = (seen.process(node) >> 8).checked_sub(1);
            // Whom nobody met may be lost, too, of a job.
            let Some(gone) = met.or(self.job.then_some(node.into())) else { continue };
            match seen.end(node) {
                Some(End::Lost) => drop(self.lost.entry((who, gone as usize)).or_insert(now)),
                Some(End::Left) => drop(self.left.insert((who, gone as usize))),
                None => {}
            }
        }
    }

    /// Whether packets may go from one process to another.
    pub fn is_up(&self, who: usize, to: usize) -> bool {
        let (process, node) = (&self.processes[who], self.processes[to].node);
        process.core().has_heard(node)
            && process.core().is_open(node)
            && process.seen.process(node) >> 8 == to as u64 + 1
    }

    pub(super) fn check_knows(&mut self, who: usize, gone: usize, since: Duration) {
        let process = &self.processes[who];
        let (a, b) = (process.node, self.processes[gone].node);
        if !process.alive || process.leaves.is_some() || process.still_until >= since {
            return;
        }
        if self.processes[gone].alive && self.cuts.heals(a, b, self.now()).is_none() {
            return; // all cuts healed meanwhile
        }
        // What a cut held up comes before the end of a connection.
        let excused = !self.crashed.contains_key(&gone)
            && !self.processes[gone].alive
            && self.cuts.was_cut(a, b, since.saturating_sub(AFTER_CUT));
        assert!(excused || !self.is_up(who, gone), "{who} does not know that {gone} is gone since {since:?}");
    }

    /// Whether a packet now goes to this process, or to whoever is at its node.
    pub fn knows_no_other(&self, who: usize, to: usize) -> bool {
        let (seen, node) = (&self.processes[who].seen, self.processes[to].node);
        seen.era(node) == ANYONE || seen.process(node) >> 8 == to as u64 + 1
    }

    /// Packets that one took of another.
    pub fn count_came(&self, from: usize, to: usize) -> usize {
        (0..2).filter_map(|class| self.came.get(&(from, to, class))).sum()
    }

    /// When all is quiet: nothing waits, and between those who have not lost each other nothing was lost.
    pub fn check_quiet(&self) {
        for (who, process) in self.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            assert!(process.waiting.is_empty(), "{who}: {} packets wait", process.waiting.len());
            assert!(!process.core().holds(), "{who} holds packets back");
        }
        self.check_long();
        for ((from, to, class), went) in &self.went {
            let came = self.came.get(&(*from, *to, *class)).copied().unwrap_or(0);
            let whole = self.processes[*from].alive || self.left.contains(&(*from, *from));
            let lost = self.lost.contains_key(&(*from, *to)) || self.lost.contains_key(&(*to, *from));
            if self.processes[*to].alive && whole && !lost {
                assert_eq!(came, went.len(), "from {from} to {to}, class {class}");
            }
        }
    }
}
