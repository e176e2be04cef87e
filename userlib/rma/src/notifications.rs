//! Notifications as an iterator.

use std::time::Duration;

use extoll_abi::Notification;

use crate::{Match, Port};

/// Consumes and frees notifications of a port; see [`Port::notifications`].
///
/// Without a timeout it ends when none is there. It may be used again afterwards.
#[derive(Debug)]
pub struct Notifications<'a> {
    port: &'a Port,
    wanted: Match,
    timeout: Duration,
}

impl<'a> Notifications<'a> {
    pub(crate) fn new(port: &'a Port) -> Notifications<'a> {
        Notifications { port, wanted: Match::any(), timeout: Duration::ZERO }
    }

    /// Only those that `wanted` accepts; the others stay in the queue.
    pub fn matching(self, wanted: Match) -> Notifications<'a> {
        Notifications { wanted, ..self }
    }

    /// Waits up to `timeout` for each.
    pub fn timeout(self, timeout: Duration) -> Notifications<'a> {
        Notifications { timeout, ..self }
    }
}

impl Iterator for Notifications<'_> {
    type Item = Notification;

    fn next(&mut self) -> Option<Notification> {
        if self.timeout.is_zero() {
            return self.port.poll_match(&self.wanted);
        }
        self.port.wait_match(&self.wanted, self.timeout).ok()
    }
}
