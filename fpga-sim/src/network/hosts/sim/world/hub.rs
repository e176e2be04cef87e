//! Jobs: what their processes know of each other, and what they hear of rank 0, which is process 0.

use std::time::Duration;

use ggas_members::HubNews;

use super::{Event, SILENCE, World};
use crate::network::hosts::known::Known;
use crate::network::hosts::meeting::Meetings;

/// How long rank 0 takes to tell a death.
const TELLS: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
pub enum Says {
    Papers,
    Gone { node: u16, left: bool },
}

impl World {
    /// Its processes are those of a job. Of some jobs it is never told how they are reached.
    pub fn be_job(&mut self) {
        self.job = true;
        let late = Duration::from_micros(self.random.u64(..400_000));
        self.papers = (self.random.u8(..8) > 0).then_some(late);
    }

    pub(super) fn know_others(&mut self, meetings: &mut Meetings) {
        if !self.job {
            return;
        }
        let names = (1..=self.at.len() as u64).map(|number| number << 8).collect();
        meetings.job = true;
        meetings.known = Some(Known::new([7; 16], meetings.me, names));
        if let Some(late) = self.papers {
            let at = self.now() + late.mul_f64(self.random.f64());
            self.plan(at, Event::Hub { to: meetings.me.into(), says: Says::Papers });
        }
    }

    /// Whether somebody tells of ends.
    pub fn tells_ends(&self) -> bool {
        !self.job || self.processes[0].alive
    }

    /// Rank 0 tells of an end, or its own end tells.
    pub(super) fn tell_end(&mut self, gone: usize, host_lives: bool) {
        if self.job && (gone == 0 || self.processes[0].alive) {
            let left = self.processes[gone].leaves.is_some() && host_lives;
            let after = if host_lives { Duration::ZERO } else { SILENCE };
            self.tell_all(gone as u16, left, after);
        }
    }

    /// Where nobody tells of ends, who leaves says so to those alone to which it has a way.
    pub fn note_unsaid(&mut self, who: usize) {
        if !self.tells_ends() {
            let core = self.processes[who].core();
            let others = (0..self.at.len()).filter(|other| !core.is_open(*other as u16));
            self.unsaid.extend(others.map(|other| (other, who)));
        }
    }

    fn tell_all(&mut self, node: u16, left: bool, after: Duration) {
        for to in (0..self.processes.len()).filter(|to| *to != usize::from(node)) {
            let at = self.now() + after + TELLS.mul_f64(self.random.f64());
            self.plan(at, Event::Hub { to, says: Says::Gone { node, left } });
        }
    }

    /// Rank 0 does not reach a process that lives.
    pub fn lose(&mut self, who: usize) {
        if who > 0 && self.processes[0].alive {
            self.tell_all(who as u16, false, Duration::ZERO);
            let at = self.now() + TELLS;
            self.plan(at, Event::Hub { to: who, says: Says::Gone { node: 0, left: false } });
        }
    }

    pub(super) fn hear_hub(&mut self, to: usize, says: Says) {
        let still = self.processes[to].still_until;
        if still > self.now() {
            return self.plan(still, Event::Hub { to, says });
        }
        if !self.processes[to].alive {
            return;
        }
        let news = match says {
            Says::Gone { node, left } => HubNews::Gone { rank: node.into(), left },
            Says::Papers => {
                let papers = |at: usize| Some(Known::own("sim", &at.to_le_bytes()));
                HubNews::Papers((0..self.at.len()).map(papers).collect())
            }
        };
        self.processes[to].core().hear_hub(news);
        self.step(to);
    }

    /// Connections that were ever made.
    pub fn connections(&self) -> usize {
        self.tcps.len()
    }
}
