//! Waits and tests: how far the requests are that a call names.

use std::time::Instant;

use super::requests::{self, Progress};
use super::{Daemon, Outcome, Waiting, answer, short};
use crate::rings::Attribute;
use crate::{Class, Status, layout};

/// Which of the requests that are over a call completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All, once all are over.
    All,
    /// One.
    Any,
    /// All that are over, at least one.
    Some,
    /// None: it only looks whether all are over.
    Look,
}

/// What a call asks for.
#[derive(Debug)]
pub(super) struct Asked {
    wanted: Wanted,
    /// Whether statuses are.
    tells: bool,
    /// Whether errors are told by statuses alone (`GMPI_ERR_IN_STATUS`).
    many: bool,
    handles: Vec<u64>,
}

impl Asked {
    pub fn one(wanted: Wanted, handle: u64) -> Asked {
        Asked { wanted, tells: true, many: false, handles: vec![handle] }
    }
}

/// How far a request is for the port that asks.
enum Far {
    /// There is none to wait for: no request, or a persistent one that was not started.
    Idle,
    Open,
    Over(Status),
}

impl Far {
    fn status(&self) -> Status {
        match self {
            Far::Idle => Status::EMPTY,
            Far::Open => Status { error: Some(Class::PENDING), ..Status::EMPTY },
            Far::Over(status) => *status,
        }
    }
}

impl Daemon {
    /// Requests that a call names.
    pub(super) fn listed(&self, call: &Attribute) -> Result<Vec<u64>, Class> {
        let count = usize::try_from(call.elements[1]).map_err(|_| Class::COUNT)?;
        let most = layout::GMPI_REQUESTS as usize;
        if count > most { Err(Class::COUNT) } else { Ok(call.elements[2..2 + count].to_vec()) }
    }

    pub(super) fn asked(&self, wanted: Wanted, call: &Attribute) -> Result<Asked, Class> {
        let many = matches!(wanted, Wanted::All | Wanted::Some);
        Ok(Asked { wanted, tells: call.tells(), many, handles: self.listed(call)? })
    }

    /// Whether a request of this handle may have been, and is over.
    fn was(&self, handle: u64) -> bool {
        let (port, number) = requests::parts(handle);
        self.ports.get(port).is_some_and(|port| number > 0 && number <= port.rings.taken())
    }

    /// Whether it may be that its call is still in the ring of another port.
    fn may_come(&self, port: usize, handle: u64) -> bool {
        let (of, number) = requests::parts(handle);
        of != port && of < self.ports.len() && number > 0
    }

    fn far(&mut self, port: usize, handle: u64) -> Far {
        match self.requests.look(handle, &mut *self.carrier) {
            Progress::Idle => Far::Idle,
            Progress::Open => Far::Open,
            Progress::Over(status) => Far::Over(status),
            Progress::Unknown if handle == 0 => Far::Idle,
            Progress::Unknown if self.was(handle) => Far::Over(Status::EMPTY),
            Progress::Unknown if self.may_come(port, handle) => Far::Open,
            Progress::Unknown => Far::Over(Status { error: Some(Class::REQUEST), ..Status::EMPTY }),
        }
    }

    /// Whether a call waits for requests of which one is open.
    pub(super) fn waits_for_open(&mut self, waiting: &Waiting) -> bool {
        let Waiting::Requests(asked) = waiting else { return false };
        asked.handles.iter().any(|handle| self.requests.look(*handle, &mut *self.carrier) == Progress::Open)
    }

    /// Looks at requests and completes what is wanted: then those are closed, and their statuses are told. In no other case is one closed.
    /// `deadline`: of a call that waits; `None`: of one that tests.
    pub(super) fn look_at(&mut self, port: usize, asked: Asked, deadline: Option<Instant>) -> Outcome {
        let Asked { wanted, tells, many, ref handles } = asked;
        let is_late = deadline.is_some_and(|deadline| self.is_over(deadline));
        // Mostly one of them is open, and a look at it moves what the others need, too.
        if wanted == Wanted::All && deadline.is_some() && !is_late {
            let is_open = |handle: &u64| matches!(self.far(port, *handle), Far::Open);
            if handles.iter().any(is_open) {
                return Outcome::Waits(Waiting::Requests(asked));
            }
        }
        let far: Vec<Far> = handles.iter().map(|handle| self.far(port, *handle)).collect();
        let open = far.iter().any(|far| matches!(far, Far::Open));
        let mut over: Vec<usize> = (0..far.len()).filter(|i| matches!(far[*i], Far::Over(_))).collect();
        let is_done = match wanted {
            Wanted::All | Wanted::Look => !open,
            Wanted::Any | Wanted::Some => !over.is_empty() || !open,
        };
        match wanted {
            Wanted::All | Wanted::Look => over = (0..far.len()).collect(),
            Wanted::Any => over.truncate(1),
            Wanted::Some => {}
        }
        let statuses: Vec<Status> = over.iter().map(|i| far[*i].status()).collect();
        let told = if tells { &statuses[..] } else { &[] };
        match deadline {
            _ if is_done => {}
            None => return Outcome::Answer(answer(None, false, &[])),
            Some(_) if is_late => return Outcome::Answer(answer(Some(Class::TIMEOUT), false, told)),
            Some(_) => return Outcome::Waits(Waiting::Requests(asked)),
        }
        let error = statuses.iter().find_map(|status| status.error);
        let error = if many { error.map(|_| Class::IN_STATUS) } else { error };
        let mut words = answer(error, !open, told);
        let mut landed = Vec::new();
        over.iter().for_each(|i| self.requests.take_landed(handles[*i], &mut landed));
        if wanted != Wanted::Look {
            over.iter().for_each(|i| self.requests.close(handles[*i]));
            words[0] |= over.iter().fold(0, |all, i| all | 1 << i) << layout::GMPI_ANSWER_OVER_SHIFT;
        }
        Outcome::Answer(short::bring(words, landed))
    }
}
