//! How a job ended.

use std::fmt::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::ranks::ranks;
use crate::{Refusal, launch::Stream};

/// How one process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Exit {
    /// Whether all went well.
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    /// As shells say it: the status, or 128 and the signal.
    pub fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Exit {
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Exit::Code(code) => write!(f, "exited with status {code}"),
            Exit::Signal(signal) => match Signal::try_from(signal) {
                Ok(name) => write!(f, "was killed by signal {signal} ({name})"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(super) exits: Vec<Exit>,
    pub(super) first_failure: Option<u32>,
    pub(super) refusal: Option<Refusal>,
    pub(super) timed_out: Option<(Duration, Vec<u32>)>,
    pub(super) ended: Vec<u32>,
    pub(super) captured: Vec<[Vec<u8>; 2]>,
}

/// Exit code of a job that its time-out ended, as timeout(1) has it.
const TIMED_OUT: i32 = 124;

impl Outcome {
    /// How each rank ended.
    pub fn exits(&self) -> &[Exit] {
        &self.exits
    }

    /// Whether every process ended with 0.
    pub fn is_success(&self) -> bool {
        self.code() == 0
    }

    /// The rank that failed first, not those that the launcher ended.
    pub fn first_failure(&self) -> Option<u32> {
        self.first_failure
    }

    /// Why the job never began.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Ranks that were still running when the time was over.
    pub fn timed_out(&self) -> Option<&[u32]> {
        self.timed_out.as_ref().map(|(_, ranks)| ranks.as_slice())
    }

    /// Ranks that the launcher ended.
    pub fn ended(&self) -> &[u32] {
        &self.ended
    }

    /// What a rank wrote, with [`Output::Capture`](super::Output::Capture).
    pub fn output(&self, rank: u32, stream: Stream) -> &[u8] {
        self.captured.get(rank as usize).map_or(&[], |streams| &streams[stream as usize])
    }

    /// Exit code for the whole: 0 if all are, else that of the first that failed; 124 after the time-out.
    pub fn code(&self) -> i32 {
        if self.timed_out.is_some() {
            return TIMED_OUT;
        }
        let failed = self.first_failure.map(|rank| self.exits[rank as usize].code());
        let other = i32::from(self.refusal.is_some() || !self.exits.iter().all(|exit| exit.is_success()));
        failed.unwrap_or(other)
    }

    /// What went wrong, in lines; nothing if nothing did.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let mut say = |line: fmt::Arguments<'_>| {
            let _ = writeln!(text, "{line}");
        };
        if let Some((after, running)) = &self.timed_out {
            say(format_args!("the time of {after:?} is over: {} still running, ended", ranks(running)));
        }
        if let Some(refusal) = &self.refusal {
            say(format_args!("the job did not begin: {refusal}"));
        }
        if let Some(first) = self.first_failure {
            say(format_args!("rank {first} {} first", self.exits[first as usize]));
        }
        let mut others: Vec<(Exit, Vec<u32>)> = Vec::new();
        for (rank, exit) in (0..).zip(&self.exits) {
            if exit.is_success() || Some(rank) == self.first_failure || self.ended.contains(&rank) {
                continue;
            }
            match others.iter_mut().find(|(other, _)| other == exit) {
                Some((_, list)) => list.push(rank),
                None => others.push((*exit, vec![rank])),
            }
        }
        for (exit, list) in others {
            say(format_args!("{} {exit}", ranks(&list)));
        }
        if self.timed_out.is_none() && !self.ended.is_empty() {
            say(format_args!("{} ended by the launcher", ranks(&self.ended)));
        }
        text
    }
}
