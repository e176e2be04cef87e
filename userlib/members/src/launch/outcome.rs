//! How a job ended.

use std::fmt::{self, Write};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::launch::Stream;
use crate::ranks::ranks;

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
        f.write_str(&self.said(1))
    }
}

impl Exit {
    /// What so many processes did.
    fn said(self, processes: usize) -> String {
        let was = if processes == 1 { "was" } else { "were" };
        match self {
            Exit::Code(code) => format!("exited with status {code}"),
            Exit::Signal(signal) => match Signal::try_from(signal) {
                Ok(name) => format!("{was} killed by signal {signal} ({name})"),
                Err(_) => format!("{was} killed by signal {signal}"),
            },
        }
    }
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(super) exits: Vec<Exit>,
    /// Rank of the first of them, in a job over hosts.
    pub(super) first: u32,
    pub(super) first_failure: Option<u32>,
    /// The launcher itself failed.
    pub(super) broken: bool,
    pub(super) timed_out: Option<(Duration, Vec<u32>)>,
    pub(super) ended: Vec<u32>,
    /// The ranks in `ended` that the launcher killed (KILL), and why.
    pub(super) killed: Option<(Vec<u32>, String)>,
    pub(super) unwritten: Option<(Stream, Errno)>,
    pub(super) captured: Vec<[Vec<u8>; 2]>,
}

/// Exit code of a job that its time-out ended, as timeout(1) has it.
const TIMED_OUT: i32 = 124;
/// As of a process that SIGPIPE ended.
const READER_GONE: i32 = 128 + libc::SIGPIPE;
/// As of a process that SIGKILL ended.
const KILLED: i32 = 128 + libc::SIGKILL;

impl Outcome {
    /// How each process ended, in the order of ranks.
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

    /// Ranks that were still running when the time was over.
    pub fn timed_out(&self) -> Option<&[u32]> {
        self.timed_out.as_ref().map(|(_, ranks)| ranks.as_slice())
    }

    /// Ranks that the launcher ended.
    pub fn ended(&self) -> &[u32] {
        &self.ended
    }

    /// Ranks that the launcher had to kill: TERM, or a forwarded signal, did not end them in time.
    pub fn killed(&self) -> &[u32] {
        self.killed.as_ref().map_or(&[], |(ranks, _)| ranks)
    }

    /// The stream to which the launcher could not write the processes' output, and the error, with
    /// [`Output::Lines`](super::Output::Lines). `BrokenPipe`: the reader of the output has closed it.
    pub fn unwritten(&self) -> Option<(Stream, io::Error)> {
        self.unwritten.map(|(stream, errno)| (stream, errno.into()))
    }

    /// What a rank wrote, with [`Output::Capture`](super::Output::Capture).
    pub fn output(&self, rank: u32, stream: Stream) -> &[u8] {
        self.captured.get(rank as usize).map_or(&[], |streams| &streams[stream as usize])
    }

    /// Exit code of the job: 0 if all processes ended with 0, else the code of the first process that failed; 124 after
    /// the time-out. If no process failed by itself: 141 if the reader of the output has closed it, 1 if the output could
    /// not be written for another reason, 137 if the launcher had to kill a process, and 1 if the job did not begin.
    pub fn code(&self) -> i32 {
        if self.timed_out.is_some() {
            return TIMED_OUT;
        }
        if let Some(first) = self.first_failure {
            return self.exits[first as usize].code();
        }
        match (self.unwritten, self.broken, &self.killed) {
            (Some((_, Errno::EPIPE)), _, _) => READER_GONE,
            (Some(_), _, _) | (None, true, _) => 1,
            (None, false, Some(_)) => KILLED,
            (None, false, None) => i32::from(!self.exits.iter().all(|exit| exit.is_success())),
        }
    }

    /// The failures of the job, one in a line; empty if there are none, and if the job ended because the reader of its
    /// output had closed it.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let ranks = |list: &[u32]| ranks(&list.iter().map(|rank| self.first + rank).collect::<Vec<_>>());
        // Writing to a string does not fail.
        let mut say = |line: fmt::Arguments<'_>| {
            let _ = writeln!(text, "{line}");
        };
        if let Some((after, running)) = &self.timed_out {
            say(format_args!("the time of {after:?} is over: {} still running, ended", ranks(running)));
        }
        if self.broken {
            say(format_args!("the launcher's own thread panicked: see above"));
        }
        if let Some(first) = self.first_failure {
            say(format_args!("{} {} first", ranks(&[first]), self.exits[first as usize]));
        }
        match self.unwritten {
            Some((_, Errno::EPIPE)) => return text,
            Some((stream, errno)) => {
                say(format_args!("{stream} cannot be written: {}", io::Error::from(errno)));
            }
            None => {}
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
            say(format_args!("{} {}", ranks(&list), exit.said(list.len())));
        }
        let ended: Vec<u32> =
            self.ended.iter().copied().filter(|rank| !self.killed().contains(rank)).collect();
        if self.timed_out.is_none() && !ended.is_empty() {
            say(format_args!("{} ended by the launcher", ranks(&ended)));
        }
        if let Some((list, why)) = &self.killed {
            say(format_args!("{} killed by the launcher: {why}", ranks(list)));
        }
        text
    }
}
