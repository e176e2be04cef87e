//! Who sent how much to whom, for `ggas map traced:PREFIX`: a file for each process, as Open MPI's component `monitoring` writes it.
//!
//! Processes of a job are numbered by their ranks, and each file says how many there are. Of a network that is no job any numbers may be there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The variable that asks for everything that can be traced, with the prefix of the files.
const ASKED: &str = "GGAS_TRACE";

/// Numbers of processes of a network are below this.
const NUMBERS: usize = 1 << 16;

/// What this process has written so far, by file: windows, ports and GMPI each bring their own.
static WRITTEN: Mutex<BTreeMap<PathBuf, Vec<Moved>>> = Mutex::new(BTreeMap::new());

/// What went to a rank and came from it.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    sent: [u64; 2],
    got: [u64; 2],
}

/// What a process has sent to each other one, and got from there itself. Writes its file when it goes.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    number: usize,
    /// Of a job.
    ranks: Option<usize>,
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
        Trace { path: path.into(), number, ranks, moved: Vec::new(), process: std::process::id() }
    }

    /// Whether `GGAS_TRACE` asks for all that can be traced.
    pub fn is_asked() -> bool {
        prefix(ASKED).is_some()
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

    fn with(&mut self, other: usize) -> Option<&mut Moved> {
        if other >= self.ranks.unwrap_or(NUMBERS) {
            return None;
        }
        if self.moved.len() <= other {
            self.moved.resize(other + 1, Moved::default());
        }
        self.moved.get_mut(other)
    }

    /// Writes the file with what was counted so far, beside what others of this process have.
    pub fn write(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        let all = written.entry(self.path.clone()).or_default();
        all.resize(all.len().max(self.moved.len()), Moved::default());
        for (sum, moved) in all.iter_mut().zip(self.moved.drain(..)) {
            add(&mut sum.sent, moved.sent);
            add(&mut sum.got, moved.got);
        }
        if let Err(error) = fs::write(&self.path, text((self.number, self.ranks), all)) {
            tracing::warn!("the trace {} is not written: {error}", self.path.display());
        }
    }
}

fn prefix(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|prefix| !prefix.is_empty())
}

fn add(sum: &mut [u64; 2], more: [u64; 2]) {
    *sum = [sum[0].saturating_add(more[0]), sum[1].saturating_add(more[1])];
}

fn text((own, ranks): (usize, Option<usize>), moved: &[Moved]) -> String {
    let others = || moved.iter().enumerate().filter(|(other, _)| *other != own);
    let mut text = ranks.map_or("# NETWORK\n".to_owned(), |ranks| format!("# RANKS\t{ranks}\n"));
    text.push_str("# POINT TO POINT\n");
    for (to, Moved { sent: [bytes, times], .. }) in others().filter(|(_, moved)| moved.sent[0] > 0) {
        let _ = writeln!(text, "E\t{own}\t{to}\t{bytes} bytes\t{times} msgs sent");
    }
    if others().any(|(_, moved)| moved.got[0] > 0) {
        text.push_str("# OSC\n");
    }
    for (from, Moved { got: [bytes, times], .. }) in others().filter(|(_, moved)| moved.got[0] > 0) {
        let _ = writeln!(text, "R\t{own}\t{from}\t{bytes} bytes\t{times} msgs sent");
    }
    text
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_one_after_the_other_is_in_one_file() {
        let folder = std::env::temp_dir().join(format!("ggas-trace-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let mut first = Trace::new(&folder.join("run"), 1, Some(3));
        let mut second = Trace::new(&folder.join("run"), 1, Some(3));
        first.add(0, [10, 1]);
        first.add(1, [5, 1]);
        second.add(0, [7, 2]);
        second.add_got(2, [100, 3]);
        // A process that a rank started is none.
        second.add(3, [1, 1]);
        drop(first);
        drop(second);
        let text = fs::read_to_string(folder.join("run.1.prof")).expect("written");
        let expected = "# RANKS\t3\n# POINT TO POINT\nE\t1\t0\t17 bytes\t3 msgs sent\n# OSC\nR\t1\t2\t100 bytes\t3 msgs sent\n";
        assert_eq!(text, expected);
        fs::remove_dir_all(&folder).expect("gone");
    }

    #[test]
    fn what_was_written_is_written_once() {
        let folder = std::env::temp_dir().join(format!("ggas-trace-twice-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let mut trace = Trace::new(&folder.join("run"), 7, None);
        let read = || fs::read_to_string(folder.join("run.7.prof")).expect("written");
        trace.write();
        assert_eq!(read(), "# NETWORK\n# POINT TO POINT\n");
        trace.add(900, [10, 1]);
        trace.write();
        trace.add(900, [5, 2]);
        drop(trace);
        assert_eq!(read(), "# NETWORK\n# POINT TO POINT\nE\t7\t900\t15 bytes\t3 msgs sent\n");
        fs::remove_dir_all(&folder).expect("gone");
    }
}
