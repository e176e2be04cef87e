//! Papers: what the transports of all ranks have to know of each other. They go to all at once, so that nobody is called for them.

use std::io;

use super::Serving;
use crate::far::frame::{FromHub, PAPERS_MAX};
use crate::meeting::bad;

/// By rank.
pub(super) struct Papers {
    of: Vec<Option<Vec<u8>>>,
    told: bool,
}

impl Papers {
    /// Of a job of so many.
    pub fn of(size: usize) -> Papers {
        Papers { of: vec![None; size], told: false }
    }

    /// A rank says its own: once, and no more than fit.
    pub fn hear(&mut self, rank: usize, papers: Vec<u8>) -> io::Result<()> {
        if papers.len() > PAPERS_MAX || self.of[rank].is_some() {
            return Err(bad("its papers are too long, or come again"));
        }
        self.of[rank] = Some(papers);
        Ok(())
    }
}

impl Serving {
    /// Tells all ranks, once those of all that are there have come. Who has none, since it has no transport, keeps them from the others, who
    /// then call each other.
    pub(super) fn tell_papers(&mut self) {
        let Papers { of, told } = &self.papers;
        let none = |rank: &usize| of[*rank].is_none() && !self.gone[*rank];
        if *told || !self.started || (0..of.len()).any(|rank| none(&rank)) {
            return;
        }
        let papers = std::mem::take(&mut self.papers.of);
        // Later ones come again, or too late.
        self.papers = Papers { of: vec![Some(Vec::new()); papers.len()], told: true };
        self.tell_all(&FromHub::Papers(papers));
    }
}
