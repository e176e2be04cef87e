//! What notifications a node must get, in which order.

use std::collections::VecDeque;

use ggas::{Command, Kind, Notification};

/// What a notification must say; `None`: left open by the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub kind: Kind,
    pub command: Command,
    pub word0: Option<u64>,
    /// Bits [22:0] of word 1.
    pub field: Option<u32>,
}

impl Expected {
    fn fits(&self, n: &Notification) -> bool {
        self.word0.is_none_or(|word| word == n.word0)
            && self.field.is_none_or(|field| u64::from(field) == n.word1 & 0x7f_ffff)
    }
}

/// Notifications of one stream keep their order; the completer has one for what comes and one for answers.
fn stream(kind: Kind, command: Command) -> usize {
    match kind {
        Kind::Requester => 0,
        Kind::Responder => 1,
        Kind::Completer => 2 + usize::from(command.is_response()),
    }
}

/// What a node must get about one other node.
#[derive(Default)]
pub struct Streams {
    expected: [VecDeque<Expected>; 4],
    /// Some may never come, and nobody counts them: a node has died.
    pub uncertain: bool,
}

impl Streams {
    pub fn push(&mut self, expected: Expected) {
        self.expected[stream(expected.kind, expected.command)].push_back(expected);
    }

    /// Takes in what came; how many before it never will, which is 0 unless `gaps`.
    ///
    /// # Panics
    /// Where it was not to come.
    pub fn take(&mut self, kind: Kind, command: Command, n: &Notification, gaps: bool) -> usize {
        let stream = &mut self.expected[stream(kind, command)];
        let looked_at = if gaps || self.uncertain { stream.len() } else { 1 };
        let fits = |e: &Expected| (e.kind, e.command) == (kind, command) && e.fits(n);
        let Some(at) = stream.iter().take(looked_at).position(fits) else {
            panic!("came: {n:x?}; was to come: {:x?} of {}", stream.front(), stream.len());
        };
        stream.drain(..=at);
        if self.uncertain { 0 } else { at }
    }

    /// What has not come.
    pub fn missing(&self) -> usize {
        self.expected.iter().map(VecDeque::len).sum()
    }

    /// The first of it.
    pub fn first_missing(&self) -> Option<&Expected> {
        self.expected.iter().find_map(VecDeque::front)
    }

    /// Nothing of it will come any more.
    pub fn forget(&mut self) {
        *self = Streams::default();
    }
}
