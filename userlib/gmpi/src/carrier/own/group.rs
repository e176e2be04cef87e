//! Communicators, windows, and collectives that run.

use std::collections::VecDeque;
use std::ops::Range;

use super::super::{Token, Type};
use super::schedule::{Round, Take};
use crate::Class;
use crate::memory::Span;

/// A communicator.
#[derive(Clone, Debug)]
pub struct Group {
    /// Of messages of programs; the next one is that of collectives.
    pub context: u64,
    /// Own rank.
    pub rank: u32,
    /// Ranks in the world, by rank.
    pub members: Vec<u32>,
    /// Collectives that were begun.
    pub collectives: u32,
    /// It was freed: receives and collectives that were under way then, and go on.
    pub freed: Option<Vec<Token>>,
}

impl Group {
    /// Rank of a process of the world.
    pub fn rank_of(&self, world: u32) -> Option<u32> {
        self.members.iter().position(|member| *member == world).map(|rank| rank as u32)
    }
}

/// One member's part of a window.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub nla: u64,
    pub bytes: u64,
}

/// A window.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its own: of the same members as that which it was made on.
    pub comm: usize,
    pub own: Span,
    pub parts: Vec<Part>,
}

/// A collective under way.
#[derive(Debug, Default)]
pub struct Running {
    pub comm: usize,
    /// Tag of its messages.
    pub tag: i32,
    pub rounds: VecDeque<Round>,
    pub data: Vec<u8>,
    pub combine: Option<(u32, Type)>,
    /// Which bytes go where in the end; `None`: nowhere.
    pub result: Option<(Range<usize>, Span)>,
    /// The result is kept, and not written.
    pub keeps: bool,
    /// A member sent more or less than was expected: their arguments do not match.
    pub error: Option<Class>,
    /// Receives of the round, by their tokens, with what has come of each.
    pub receives: Vec<(Token, Range<usize>, Take)>,
    pub begun: bool,
    /// Pieces that wait to be asked for, as no credit was left, with the rank in the world of whom they are for.
    pub held: VecDeque<(u32, Vec<u8>)>,
    /// Of those, how many are on offer.
    pub offered: usize,
}

impl Running {
    /// Whether the round is over.
    pub fn is_idle(&self) -> bool {
        self.receives.is_empty() && self.held.is_empty() && self.offered == 0
    }

    /// Takes what came for one of its receives; false: for none.
    pub fn take(&mut self, token: Token, bytes: &[u8]) -> bool {
        let Some(index) = self.receives.iter().position(|(receive, ..)| *receive == token) else {
            return false;
        };
        let (_, range, take) = self.receives.swap_remove(index);
        if range.len() != bytes.len() {
            self.error = Some(Class::TRUNCATE);
        }
        let len = range.len().min(bytes.len());
        let into = &mut self.data[range.start..range.start + len];
        match (take, self.combine) {
            (Take::Combine, Some((op, of))) => {
                // That there is such an operation was checked at the start.
                let _ = super::reduce::combine(op, of, into, &bytes[..len]);
            }
            _ => into.copy_from_slice(&bytes[..len]),
        }
        true
    }
}
