//! Processes that are gone.

use std::sync::atomic::Ordering;

use super::super::Token;
use super::group::{Group, Running};
use super::matching::Wanted;
use super::schedule::Round;
use super::{Body, Own, Pending};
use crate::{Class, GmpiError};

impl Own {
    /// Whether all who could send what is wanted are gone.
    pub(super) fn is_hopeless(&self, wanted: &Wanted) -> bool {
        let alone =
            || self.groups.iter().flatten().any(|of| of.context == wanted.context && self.is_left(of));
        wanted.source.map_or_else(alone, |source| self.known[source as usize])
    }

    /// Whether all other members are gone, of which there were some.
    fn is_left(&self, of: &Group) -> bool {
        let is_gone = |member: &u32| *member == self.rank || self.known[*member as usize];
        of.members.len() > 1 && of.members.iter().all(is_gone)
    }

    /// Whether the barrier at the end still waits for a process; `ended`: receives that only that one could serve. Who has been through it
    /// leaves, and has told all that others need for it.
    fn needs(&self, closing: Token, rank: usize, ended: &[Token]) -> bool {
        let is_part =
            |token: &Token| matches!(self.pending.get(token), Some(Pending::Part { of }) if *of == closing);
        let names = |round: &Round| {
            let to = round.sends.iter().any(|(to, _)| *to as usize == rank);
            to || round.receives.iter().any(|(from, ..)| *from as usize == rank)
        };
        let later = |running: &Running| running.rounds.iter().skip(1).any(names);
        ended.iter().any(is_part)
            || matches!(self.pending.get(&closing), Some(Pending::Collective(running)) if later(running))
    }

    /// Takes in who died since.
    pub(super) fn lose(&mut self) -> Result<(), GmpiError> {
        let is_new = |rank: &usize| {
            !self.known[*rank] && (self.net.is_lost(*rank) || self.gone[*rank].load(Ordering::Acquire))
        };
        let lost: Vec<usize> = (0..self.known.len()).filter(is_new).collect();
        if lost.is_empty() {
            return Ok(());
        }
        // What they had sent before still counts, and may have come since the last look.
        self.net.port().device().drain_lost();
        self.take_frames()?;
        self.advance();
        for rank in lost {
            self.known[rank] = true;
            self.losses += 1;
            self.net.lose(rank);
            self.limits.lose(rank);
            let mut ended = self.flow.lose(rank);
            let left = self.groups.iter().flatten().filter(|of| self.is_left(of));
            let left: Vec<u64> = left.map(|of| of.context).collect();
            ended.extend(self.matching.lose(rank as u32, &left));
            let closes = self.closing.filter(|of| self.net.has_left(rank) && !self.needs(*of, rank, &ended));
            let hopeless = |pending: &Pending| match pending {
                Pending::Collective(running) => {
                    self.group_of(running.comm).is_ok_and(|group| group.rank_of(rank as u32).is_some())
                }
                Pending::Arriving { from, .. } => *from as usize == rank,
                Pending::Send { to, .. } => *to as usize == rank,
                Pending::Flush { waits } => waits.contains(&(rank as u32)),
                Pending::Fetch { from } => *from as usize == rank,
                _ => false,
            };
            ended.extend(
                self.pending
                    .iter()
                    .filter(|(token, pending)| closes != Some(**token) && hopeless(pending))
                    .map(|(token, _)| *token),
            );
            for token in ended {
                if self.pending.remove(&token).is_some() {
                    self.end(token, Err(Class::PROC_FAILED));
                }
            }
            // Nobody puts them any more.
            self.matching.drop_from(rank as u32, |body| matches!(body, Body::Asks { .. }));
        }
        Ok(())
    }
}
