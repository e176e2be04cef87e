//! Who sent how much to whom, for `ggas map traced:PREFIX`: a file for each process, as Open MPI's component `monitoring` writes it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The variable that asks for everything that can be traced, with the prefix of the files.
const ASKED: &str = "GGAS_TRACE";

/// What this process has written so far, by file: windows, and GMPI, each bring their own.
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
    rank: usize,
    /// By rank: bytes, and the frames, puts and messages that had some.
    moved: Vec<Moved>,
}

impl Trace {
    /// Of process `rank` of `size`, into `PREFIX.RANK.prof`.
    pub fn new(prefix: &Path, rank: usize, size: usize) -> Trace {
        let mut path = OsString::from(prefix);
        path.push(format!(".{rank}.prof"));
        Trace { path: path.into(), rank, moved: vec![Moved::default(); size] }
    }

    /// Whether `GGAS_TRACE` asks for all that can be traced.
    pub fn is_asked() -> bool {
        prefix(ASKED).is_some()
    }

    /// If `GGAS_TRACE` asks for it, or another variable that asks for some of it.
    pub fn asked(also: Option<&str>, rank: usize, size: usize) -> Option<Trace> {
        let prefix = prefix(ASKED).or_else(|| prefix(also?))?;
        Some(Trace::new(Path::new(&prefix), rank, size))
    }

    /// Counts what goes to a rank: bytes, in so many frames, puts or messages.
    pub fn add(&mut self, to: usize, sent: [u64; 2]) {
        add(&mut self.moved[to].sent, sent);
    }

    /// Counts what this process has got from a rank by itself.
    pub fn add_got(&mut self, from: usize, got: [u64; 2]) {
        add(&mut self.moved[from].got, got);
    }
}

fn prefix(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|prefix| !prefix.is_empty())
}

fn add(sum: &mut [u64; 2], more: [u64; 2]) {
    *sum = [sum[0].saturating_add(more[0]), sum[1].saturating_add(more[1])];
}

fn text(rank: usize, moved: &[Moved]) -> String {
    let others = || moved.iter().enumerate().filter(|(other, _)| *other != rank);
    let mut text = format!("# RANKS\t{}\n# POINT TO POINT\n", moved.len());
    for (to, Moved { sent: [bytes, times], .. }) in others().filter(|(_, moved)| moved.sent[0] > 0) {
        let _ = writeln!(text, "E\t{rank}\t{to}\t{bytes} bytes\t{times} msgs sent");
    }
    if others().any(|(_, moved)| moved.got[0] > 0) {
        text.push_str("# OSC\n");
    }
    for (from, Moved { got: [bytes, times], .. }) in others().filter(|(_, moved)| moved.got[0] > 0) {
        let _ = writeln!(text, "R\t{rank}\t{from}\t{bytes} bytes\t{times} msgs sent");
    }
    text
}

impl Drop for Trace {
    fn drop(&mut self) {
        let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        let all = written.entry(self.path.clone()).or_default();
        all.resize(all.len().max(self.moved.len()), Moved::default());
        for (sum, moved) in all.iter_mut().zip(&self.moved) {
            add(&mut sum.sent, moved.sent);
            add(&mut sum.got, moved.got);
        }
        if let Err(error) = fs::write(&self.path, text(self.rank, all)) {
            tracing::warn!("the trace {} is not written: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_one_after_the_other_is_in_one_file() {
        let folder = std::env::temp_dir().join(format!("ggas-trace-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let mut first = Trace::new(&folder.join("run"), 1, 3);
        let mut second = Trace::new(&folder.join("run"), 1, 3);
        first.add(0, [10, 1]);
        first.add(1, [5, 1]);
        second.add(0, [7, 2]);
        second.add_got(2, [100, 3]);
        drop(first);
        drop(second);
        let text = fs::read_to_string(folder.join("run.1.prof")).expect("written");
        let expected = "# RANKS\t3\n# POINT TO POINT\nE\t1\t0\t17 bytes\t3 msgs sent\n# OSC\nR\t1\t2\t100 bytes\t3 msgs sent\n";
        assert_eq!(text, expected);
        fs::remove_dir_all(&folder).expect("gone");
    }
}
