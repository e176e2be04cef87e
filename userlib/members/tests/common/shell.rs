//! A process of the member program that a test has do one thing after the other.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use super::{SOON, until};

pub struct Shell {
    pub child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Shell {
    /// Starts the command, which is the member program or leads to it, with `-`.
    pub fn start(mut command: Command) -> Shell {
        command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: a system call that is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let mut child = command.spawn().expect("it starts");
        let (tell, lines) = channel();
        let output = child.stdout.take().expect("a pipe");
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| tell.send(line).ok())
        });
        let input = child.stdin.take();
        Shell { child, input, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it begin something, whose [`answer`](Self::answer) comes later.
    pub fn begin(&mut self, command: &str) {
        // One that has ended shows by its answer.
        let _ = writeln!(self.input.as_mut().expect("it is open"), "{command}");
    }

    /// What it says to the oldest command that has no answer yet.
    #[track_caller]
    pub fn answer(&mut self) -> String {
        let mut text = Vec::new();
        loop {
            match self.lines.recv_timeout(SOON) {
                Ok(line) if line == "." => return text.join("\n"),
                Ok(line) => text.push(line),
                Err(error) => panic!("no answer of {}: {error}, {text:?}", self.pid()),
            }
        }
    }

    /// The next line, of one that answers no more.
    #[track_caller]
    pub fn line(&mut self) -> String {
        self.lines.recv_timeout(SOON).expect("a line")
    }

    /// Has it do something.
    #[track_caller]
    pub fn ask(&mut self, command: &str) -> String {
        self.begin(command);
        self.answer()
    }

    /// Has it do something that says nothing if it goes well.
    #[track_caller]
    pub fn does(&mut self, command: &str) {
        assert_eq!(self.ask(command), "", "{command}");
    }

    /// Has it do something that is refused with these words.
    #[track_caller]
    pub fn is_refused(&mut self, command: &str, words: &[&str]) {
        let said = self.ask(command);
        assert!(said.starts_with("error: "), "{command}: {said}");
        for word in words {
            assert!(said.contains(word), "no `{word}` in {said}");
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a signal to our own child, which is not waited for yet.
        unsafe { libc::kill(self.pid() as i32, signal) };
    }

    /// Kills it, and waits until that is done.
    pub fn kill(mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.child.wait();
    }

    /// Lets it end by itself.
    pub fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        let mut status = None;
        until("an end", || {
            status = self.child.try_wait().expect("our child");
            status.is_some()
        });
        status.expect("it was there")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Whether a process is over, or waits to be reaped: no thread of it holds its files any more.
pub fn ended(pid: u32) -> bool {
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    main_thread_ended(pid) && threads() <= 1
}

/// Whether the first thread of a process is over; others may still run.
pub fn main_thread_ended(pid: u32) -> bool {
    !std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The id in what `list` says of a member: `3.1:4711`.
pub fn pid_of(member: &str) -> u32 {
    member.rsplit_once(':').and_then(|(_, pid)| pid.parse().ok()).expect("a number")
}
