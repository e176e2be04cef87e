//! Who sent how much to whom, for `ggas map traced:PREFIX`: a file for each process, as Open MPI's component `monitoring` writes it.
//!
//! Processes of a job are numbered by their ranks, and each file says how many there are. Of a network that is no job any numbers may be there.
//! A file says which run it is of, and at its end that it is whole: it has no such end while the process counts, nor where it was killed.

mod file;
mod lasting;
pub(crate) mod run;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::file::Head;
pub use self::lasting::Lasting;
use self::run::Run;

/// The variable that asks for everything that can be traced, with the prefix of the files.
const ASKED: &str = "GGAS_TRACE";

/// Numbers of processes of a network are below this.
const NUMBERS: usize = 1 << 16;

/// What this process has written so far, by file: windows, ports and GMPI each bring their own.
static WRITTEN: Mutex<BTreeMap<PathBuf, Written>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Written {
    head: Head,
    moved: Vec<Moved>,
    /// Traces that still count.
    open: usize,
    /// Why it will not be whole.
    lost: Option<String>,
    process: u32,
}

/// What went to a rank and came from it.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    sent: [u64; 2],
    got: [u64; 2],
}

/// What a process has sent to each other one, and got from there itself. Its file is whole once all traces of the process have gone.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    head: Head,
    /// By number: bytes, and the frames, puts and messages that had some. What was written is no longer here.
    moved: Vec<Moved>,
    /// A child made by `fork` has none of it.
    process: u32,
}

impl Trace {
    /// Of process `number`, into `PREFIX.NUMBER.prof`: of a rank of a job of so many, or of a process of a network.
    pub fn new(prefix: &Path, number: usize, ranks: Option<usize>) -> Trace {
        let mut path = OsString::from(prefix);
        path.push(format!(".{number}.prof"));
        let trace = Trace {
            path: path.into(),
            head: Head { number, ranks, run: Run::now() },
            moved: Vec::new(),
            process: std::process::id(),
        };
        let mut all = written();
        let written = trace.entry(&mut all);
        written.open += 1;
        if written.open == 1 {
            // What an earlier run has left is gone, and what becomes of this one is not taken for whole if the process is killed.
            written.write(&trace.path);
        }
        drop(all);
        trace
    }

    /// Whether `GGAS_TRACE` asks for all that can be traced.
    pub fn is_asked() -> bool {
        prefix(ASKED).is_some()
    }

    /// Whether what `GGAS_TRACE` asks for can be written here, if it does; else why not, and what to do.
    pub fn can_be_written() -> Result<(), String> {
        prefix(ASKED).map_or(Ok(()), |prefix| file::try_prefix(Path::new(&prefix)))
    }

    /// If `GGAS_TRACE` asks for it, or another variable that asks for some of it.
    pub fn asked(also: Option<&str>, number: usize, ranks: Option<usize>) -> Option<Trace> {
        let prefix = prefix(ASKED).or_else(|| prefix(also?))?;
        Some(Trace::new(Path::new(&prefix), number, ranks))
    }

    /// Counts what goes to a process: bytes, in so many frames, puts or messages. Nothing to one that is no rank of the job.
    pub fn add(&mut self, to: usize, sent: [u64; 2]) {
        self.with(to).into_iter().for_each(|moved| add(&mut moved.sent, sent));
    }

    /// Counts what this process has got from another one by itself.
    pub fn add_got(&mut self, from: usize, got: [u64; 2]) {
        self.with(from).into_iter().for_each(|moved| add(&mut moved.got, got));
    }

    /// Something is not counted, which the file is to say.
    pub fn lose(&self, why: &str) {
        tracing::warn!("a trace is not complete: {why}");
        if self.is_own() {
            self.entry(&mut written()).lost.get_or_insert_with(|| why.to_owned());
        }
    }

    fn with(&mut self, other: usize) -> Option<&mut Moved> {
        if other >= self.head.ranks.unwrap_or(NUMBERS) {
            return None;
        }
        if self.moved.len() <= other {
            self.moved.resize(other + 1, Moved::default());
        }
        self.moved.get_mut(other)
    }

    /// Whether this is not the copy of a child made by `fork`.
    pub fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// What is known of its file: anew where the process has gone on to another run, or is another one.
    fn entry<'a>(&self, all: &'a mut BTreeMap<PathBuf, Written>) -> &'a mut Written {
        let (head, process) = (&self.head, self.process);
        let new = || Written { head: head.clone(), moved: Vec::new(), open: 0, lost: None, process };
        let written = all.entry(self.path.clone()).or_insert_with(new);
        if (&written.head, written.process) != (head, process) {
            *written = new();
        }
        written
    }
}

impl Written {
    fn add(&mut self, moved: Vec<Moved>) {
        self.moved.resize(self.moved.len().max(moved.len()), Moved::default());
        for (sum, moved) in self.moved.iter_mut().zip(moved) {
            add(&mut sum.sent, moved.sent);
            add(&mut sum.got, moved.got);
        }
    }

    fn write(&self, path: &Path) {
        let end = match &self.lost {
            Some(why) => Err(why.as_str()),
            None if self.open > 0 => Err(file::OPEN),
            None => Ok(()),
        };
        file::write(path, &file::text(&self.head, &self.moved, end));
    }
}

fn written() -> MutexGuard<'static, BTreeMap<PathBuf, Written>> {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn prefix(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|prefix| !prefix.is_empty())
}

fn add(sum: &mut [u64; 2], more: [u64; 2]) {
    *sum = [sum[0].saturating_add(more[0]), sum[1].saturating_add(more[1])];
}

impl Drop for Trace {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        let moved = std::mem::take(&mut self.moved);
        let mut all = written();
        let written = self.entry(&mut all);
        written.add(moved);
        written.open = written.open.saturating_sub(1);
        if written.open == 0 {
            written.write(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
