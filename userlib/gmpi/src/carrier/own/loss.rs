//! Processes that are gone.

use std::sync::atomic::Ordering;

use super::matching::Wanted;
use super::{Own, Pending};
use crate::Class;

impl Own {
    /// Whether all who could send what is wanted are gone.
    pub(super) fn is_hopeless(&self, wanted: &Wanted) -> bool {
        wanted.source.map_or_else(|| self.is_left_alone(), |source| self.known[source as usize])
    }

    pub(super) fn is_left_alone(&self) -> bool {
        let mut others = self.known.iter().enumerate().filter(|(rank, _)| *rank as u32 != self.rank);
        self.known.len() > 1 && others.all(|(_, gone)| *gone)
    }

    /// Takes in who died since.
    pub(super) fn lose(&mut self) {
        for rank in 0..self.known.len() {
            let lost = self.net.is_lost(rank) || self.gone[rank].load(Ordering::Acquire);
            if !lost || std::mem::replace(&mut self.known[rank], true) {
                continue;
            }
            self.losses += 1;
            self.net.lose(rank);
            self.limits.lose(rank);
            let mut ended = self.flow.lose(rank);
            ended.extend(self.matching.lose(rank as u32, self.is_left_alone()));
            let hopeless = |pending: &Pending| match pending {
                Pending::Collective(running) => {
                    self.group(running.comm).is_ok_and(|group| group.rank_of(rank as u32).is_some())
                }
                Pending::Arriving { from, .. } => *from as usize == rank,
                Pending::Send { to, .. } => *to as usize == rank,
                Pending::Flush { waits } => waits.contains(&(rank as u32)),
                Pending::Fetch { from } => *from as usize == rank,
                _ => false,
            };
            ended.extend(
                self.pending.iter().filter(|(_, pending)| hopeless(pending)).map(|(token, _)| *token),
            );
            for token in ended {
                if self.pending.remove(&token).is_some() {
                    self.end(token, Err(Class::PROC_FAILED));
                }
            }
        }
    }
}
