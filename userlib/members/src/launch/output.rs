//! What the processes write: brought together line by line, by one thread.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ggas_clock::Clock;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};

use crate::channel::poll_until;

/// Longest line that is kept together.
const LINE_MAX: usize = 256 << 10;
/// Once all processes have ended: how long the pipes may be silent before they are left to whoever holds them open.
const SILENCE: Duration = Duration::from_millis(300);

/// Which of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stream::Out => "standard output",
            Stream::Err => "standard error",
        })
    }
}

/// Takes a line of a rank, with its end.
pub type LineFn = Box<dyn FnMut(u32, Stream, &[u8]) + Send>;

/// What becomes of what the processes write.
#[derive(Default)]
pub enum Output {
    /// They write where the launcher does, without its help.
    #[default]
    Inherit,
    /// Nothing.
    Null,
    /// Whole lines to the launcher's streams, each with the rank in front if `prefix`.
    Lines {
        /// `[3] ` in front of each line; coloured on a terminal, unless `NO_COLOR` is set.
        prefix: bool,
    },
    /// Kept for [`Outcome::output`](super::Outcome::output).
    Capture,
    /// Whole lines to a function, in a thread of the launcher.
    Each(LineFn),
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Output::Inherit => "Inherit",
            Output::Null => "Null",
            Output::Lines { .. } => "Lines",
            Output::Capture => "Capture",
            Output::Each(_) => "Each",
        })
    }
}

/// One stream of one process.
pub(super) struct Source {
    pub(super) rank: u32,
    pub(super) stream: Stream,
    pub(super) pipe: OwnedFd,
    /// A line that has not ended.
    held: Vec<u8>,
}

impl Source {
    pub(super) fn new(rank: u32, stream: Stream, pipe: OwnedFd) -> Source {
        Source { rank, stream, pipe, held: Vec::new() }
    }
}

/// What is told of a stream of the launcher's that cannot be written, once of each.
pub(super) type LossFn = Box<dyn FnMut(Stream, Errno) + Send>;

/// Reads all sources to their end, and gives what was captured. `ended` hangs up when all processes have ended. What
/// cannot be written is read all the same: the processes are ended for it by who is told, not by chance.
pub(super) fn collect(
    mut sources: Vec<Source>,
    output: Output,
    (first, size): (u32, u32),
    ended: &OwnedFd,
    lost: LossFn,
) -> Vec<[Vec<u8>; 2]> {
    let mut sink = Sink::new(output, (first, size), lost);
    let mut all_ended = false;
    while !sources.is_empty() {
        let mut fds: Vec<PollFd<'_>> =
            sources.iter().map(|source| PollFd::new(source.pipe.as_fd(), PollFlags::POLLIN)).collect();
        if !all_ended {
            fds.push(PollFd::new(ended.as_fd(), PollFlags::POLLIN));
        }
        let silence = all_ended.then(|| Clock::REAL.now() + SILENCE);
        match poll_until(&mut fds, silence) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        all_ended |= ready.get(sources.len()) == Some(&true);
        let mut ready = ready.into_iter();
        sources.retain_mut(|source| ready.next() != Some(true) || sink.take(source).unwrap_or(false));
    }
    for source in &mut sources {
        sink.rest(source);
    }
    sink.captured
}

struct Sink {
    output: Output,
    /// Rank of the first process.
    first: u32,
    digits: usize,
    colours: [bool; 2],
    captured: Vec<[Vec<u8>; 2]>,
    lost: LossFn,
    /// Streams that take no more.
    closed: [bool; 2],
    /// Read into, and lines with their prefixes.
    bytes: Vec<u8>,
    lines: Vec<u8>,
}

impl Sink {
    fn new(output: Output, (first, size): (u32, u32), lost: LossFn) -> Sink {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let colours = [colour && io::stdout().is_terminal(), colour && io::stderr().is_terminal()];
        let captured = match output {
            Output::Capture => vec![Default::default(); size as usize],
            _ => Vec::new(),
        };
        let digits = (size.max(1) - 1).to_string().len();
        let (closed, bytes, lines) = ([false; 2], vec![0; 64 << 10], Vec::new());
        Sink { output, first, digits, colours, captured, lost, closed, bytes, lines }
    }

    /// Reads once; `false` at the end.
    fn take(&mut self, source: &mut Source) -> io::Result<bool> {
        let n = match nix::unistd::read(&source.pipe, &mut self.bytes) {
            Ok(0) => {
                self.rest(source);
                return Ok(false);
            }
            Ok(n) => n,
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        };
        source.held.extend_from_slice(&self.bytes[..n]);
        if let Some(end) = source.held.iter().rposition(|byte| *byte == b'\n') {
            let rest = source.held.split_off(end + 1);
            let lines = std::mem::replace(&mut source.held, rest);
            self.give(source.rank, source.stream, &lines);
        }
        if source.held.len() > LINE_MAX {
            self.rest(source);
        }
        Ok(true)
    }

    /// What has no line end gets one.
    fn rest(&mut self, source: &mut Source) {
        if source.held.is_empty() {
            return;
        }
        let mut line = std::mem::take(&mut source.held);
        line.push(b'\n');
        self.give(source.rank, source.stream, &line);
    }

    fn give(&mut self, rank: u32, stream: Stream, lines: &[u8]) {
        if self.closed[stream as usize] {
            return;
        }
        if let Err(errno) = self.try_give(rank, stream, lines) {
            self.closed[stream as usize] = true;
            (self.lost)(stream, errno);
        }
    }

    fn try_give(&mut self, rank: u32, stream: Stream, lines: &[u8]) -> Result<(), Errno> {
        match &mut self.output {
            Output::Inherit | Output::Null => Ok(()),
            Output::Capture => {
                self.captured[rank as usize][stream as usize].extend_from_slice(lines);
                Ok(())
            }
            Output::Each(function) => {
                lines.split_inclusive(|byte| *byte == b'\n').for_each(|line| function(rank, stream, line));
                Ok(())
            }
            Output::Lines { prefix: false } => write(stream, lines),
            Output::Lines { prefix: true } => {
                self.lines.clear();
                let (on, off) = if self.colours[stream as usize] {
                    (format!("\x1b[{}m", 31 + (self.first + rank) % 6), "\x1b[0m")
                } else {
                    (String::new(), "")
                };
                let prefix = format!("{on}[{:>1$}]{off} ", self.first + rank, self.digits);
                for line in lines.split_inclusive(|byte| *byte == b'\n') {
                    self.lines.extend_from_slice(prefix.as_bytes());
                    self.lines.extend_from_slice(line);
                }
                write(stream, &self.lines)
            }
        }
    }
}

/// Writes all at once, also where the stream does not block by the will of whoever else has it.
fn write(stream: Stream, mut bytes: &[u8]) -> Result<(), Errno> {
    let (out, err) = (io::stdout(), io::stderr());
    let to = match stream {
        Stream::Out => out.as_fd(),
        Stream::Err => err.as_fd(),
    };
    while !bytes.is_empty() {
        match nix::unistd::write(to, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                poll_until(&mut [PollFd::new(to, PollFlags::POLLOUT)], None)
                    .map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// A pipe's reading end that blocks only in `poll`.
pub(super) fn without_blocking(pipe: OwnedFd) -> io::Result<OwnedFd> {
    nix::fcntl::fcntl(&pipe, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
    Ok(pipe)
}
