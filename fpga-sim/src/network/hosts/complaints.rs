//! Why this process does not reach others, for whoever set the network up. Packets that go nowhere are no error of the program that
//! posted them, so nobody else would say it.

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use super::shared::Shared;

/// Complaints that are remembered, so that each is made once; there are no more.
const MOST: usize = 256;
/// Beside them, those that anybody can cause who reaches a port.
const OF_STRANGERS: usize = 16;

#[derive(Default)]
pub(super) struct Complaints(Mutex<State>);

#[derive(Default)]
struct State {
    said: HashSet<String>,
    of_strangers: HashSet<String>,
    /// Since when calls of a node have come to nothing.
    unmet: HashMap<u16, Instant>,
}

impl Complaints {
    /// Says something once: on standard error, unless the program has its own place for such.
    pub fn say(&self, what: String) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.said.len() < MOST && state.said.insert(what.clone()) {
            drop(state);
            print(&what);
        }
    }

    /// As [`Complaints::say`], of somebody who has not proven to be of this network. So many such are made at most that they push out
    /// no others.
    pub fn say_of_stranger(&self, what: String) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.of_strangers.len() < OF_STRANGERS && state.of_strangers.insert(what.clone()) {
            drop(state);
            print(&what);
        }
    }

    /// A call came to nothing. What is to say of it: who may not have begun yet is given so much time, in which calls have to be answered,
    /// too. Of a job all have `begun`.
    fn unmet(
        &self,
        node: u16,
        error: &io::Error,
        now: Instant,
        bound: Duration,
        begun: bool,
    ) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(*state.unmet.entry(node).or_insert(now));
        let (late, s) = (passed >= bound, bound.as_secs_f32());
        match error.kind() {
            ErrorKind::ConnectionRefused if begun => {
                let why = "nobody listens there any more: has it ended, or does a firewall close the port?";
                (passed >= bound / 5).then(|| why.to_owned())
            }
            ErrorKind::ConnectionRefused if late => Some(format!(
                "calls have been refused for {s} s: has its process been started, and does no firewall close the port?"
            )),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe if late => {
                Some(format!("whoever listens there has hung up for {s} s: is it a process of this network?"))
            }
            ErrorKind::ConnectionRefused
            | ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe => None,
            ErrorKind::TimedOut => Some(format!(
                "no answer in {s} s: is that host up, does no firewall close the port, and is its process of this network, and of the \
                 same version of ggas?"
            )),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::PermissionDenied => {
                Some(format!("{error}: is that host up, and does no firewall close the port?"))
            }
            _ => Some(error.to_string()),
        }
    }

    /// It is met.
    pub fn met(&self, node: u16) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unmet.remove(&node);
    }
}

fn print(what: &str) {
    match tracing::dispatcher::has_been_set() {
        true => tracing::warn!("{what}"),
        false => eprintln!("ggas: {what}"),
    }
}

impl Shared {
    /// A call came to nothing.
    pub fn unmet(&self, node: u16, error: &io::Error) {
        let (who, place) = (self.who, &self.places[usize::from(node)]);
        tracing::info!("{who} {node} at {place} is not met: {error}");
        // A way that is cut for a while, or a death of which the others hear.
        if self.with_core(|core| core.has_come(node)) {
            return;
        }
        if let Some(why) =
            self.complaints.unmet(node, error, Clock::REAL.now(), self.bounds.meeting, who == "rank")
        {
            self.complaints.say(format!("{who} {node} is not met at {place}: {why}"));
        }
    }

    /// A process was met, and nothing that was sent over the wire came there.
    pub fn unheard(&self, node: u16) {
        let (who, place, (provider, ports)) = (self.who, &self.places[usize::from(node)], &self.carries);
        self.complaints.say(format!(
            "{who} {node} is met at {place}, but no packet by {provider} has come there in {} s, and after {} s it is lost. Those go to \
             other ports: let firewalls leave them open ({ports} says which ones are used)",
            self.bounds.unreached.as_secs_f32() / 4.0,
            self.bounds.unreached.as_secs_f32()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_come_yet_is_given_time() {
        let (complaints, begin, patience) = (Complaints::default(), Instant::now(), Duration::from_secs(5));
        let unmet = |kind: ErrorKind, at| complaints.unmet(3, &kind.into(), begin + at, patience, false);
        for kind in [ErrorKind::ConnectionRefused, ErrorKind::UnexpectedEof] {
            assert_eq!(unmet(kind, Duration::ZERO), None);
            assert_eq!(unmet(kind, patience - Duration::from_millis(1)), None);
            assert!(unmet(kind, patience).unwrap().contains("for 5 s"));
            complaints.met(3);
            assert_eq!(unmet(kind, patience), None);
            complaints.met(3);
        }
        // A host that does not answer, or has no name, will not be another one soon.
        assert!(unmet(ErrorKind::TimedOut, Duration::ZERO).unwrap().contains("firewall"));
        assert!(unmet(ErrorKind::HostUnreachable, Duration::ZERO).unwrap().contains("firewall"));
        let name = io::Error::new(ErrorKind::NotFound, "its name has no address");
        assert!(
            complaints.unmet(3, &name, begin, patience, false).unwrap().contains("its name has no address")
        );
        let refused = ErrorKind::ConnectionRefused.into();
        complaints.met(3);
        assert_eq!(complaints.unmet(3, &refused, begin, patience, true), None);
        let soon = begin + patience / 4;
        assert!(complaints.unmet(3, &refused, soon, patience, true).unwrap().contains("any more"));
    }

    #[test]
    fn each_is_made_once_and_not_without_end() {
        let complaints = Complaints::default();
        (0..2 * MOST).for_each(|number| complaints.say(format!("of a test: {}", number / 2)));
        assert_eq!(complaints.0.lock().unwrap().said.len(), MOST);
        complaints.say("of a test: one more".to_owned());
        assert_eq!(complaints.0.lock().unwrap().said.len(), MOST);
        (0..2 * OF_STRANGERS)
            .for_each(|number| complaints.say_of_stranger(format!("of a stranger: {number}")));
        assert_eq!(complaints.0.lock().unwrap().of_strangers.len(), OF_STRANGERS);
    }
}
