//! One port of the daemon's: the call that it is in, and what flushes and fences tell of puts and gets.

use std::time::Instant;

use super::{ERROR, Outcome, Waiting};
use crate::rings::{Attribute, Rings};
use crate::{Class, GmpiError, layout};

/// One port: a kernel's block makes one call after the other.
#[derive(Debug)]
pub(super) struct Port {
    pub rings: Rings,
    /// The call that is not over.
    pub waiting: Option<(Waiting, Instant)>,
    /// Windows of which a put or get failed, and how the first one did, until a flush or fence tells.
    failed: Vec<(u64, Class)>,
    /// What the call that is made now tells so.
    tells: Option<Class>,
}

/// Most windows whose failures a port keeps: kernels may name any number.
const FAILED: usize = 64;

impl Port {
    pub fn new(rings: Rings) -> Port {
        Port { rings, waiting: None, failed: Vec::new(), tells: None }
    }

    /// Answers the call that is not over.
    pub fn answer(&mut self, mut words: Vec<u64>) -> Result<(), GmpiError> {
        if let Some(class) = self.tells.take()
            && words[0] & ERROR == 0
        {
            words[0] |= u64::from(class.0);
        }
        self.rings.answer(&words)
    }

    /// Keeps what a call that nobody waits for said. A flush or fence takes what was kept of its window.
    pub fn note(&mut self, call: &Attribute, outcome: &Outcome) {
        let (function, of) = (call.function(), call.elements);
        match (function, outcome) {
            (layout::GMPI_CALL_PUT | layout::GMPI_CALL_GET, Outcome::Answer(words))
                if words[0] & ERROR != 0 =>
            {
                let win = of[8];
                if self.failed.len() < FAILED && self.failed.iter().all(|(other, _)| *other != win) {
                    self.failed.push((win, Class((words[0] & ERROR) as u32)));
                }
            }
            (layout::GMPI_CALL_WIN_FLUSH | layout::GMPI_CALL_WIN_FENCE, _) => {
                let found = self.failed.iter().position(|(win, _)| *win == of[2]);
                self.tells = found.map(|found| self.failed.swap_remove(found).1);
            }
            _ => {}
        }
    }
}
