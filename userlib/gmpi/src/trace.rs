//! Who sent how much to whom, for `ggas map traced:PREFIX`: a file for each process, as Open MPI's component `monitoring` writes it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The variable that asks for it, with the prefix of the files.
const ASKED: &str = "GGAS_GMPI_TRACE";

/// What a process has sent to each other one. Writes its file when it goes.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    rank: usize,
    /// Bytes, and the frames, puts and messages from kernel to kernel that had some, by rank.
    sent: Vec<[u64; 2]>,
}

impl Trace {
    /// Of process `rank` of `size`, into `PREFIX.RANK.prof`.
    pub fn new(prefix: &Path, rank: usize, size: usize) -> Trace {
        let mut path = OsString::from(prefix);
        path.push(format!(".{rank}.prof"));
        Trace { path: path.into(), rank, sent: vec![[0; 2]; size] }
    }

    /// If the variable asks for it.
    pub fn asked(rank: usize, size: usize) -> Option<Trace> {
        let prefix = std::env::var_os(ASKED).filter(|prefix| !prefix.is_empty())?;
        Some(Trace::new(Path::new(&prefix), rank, size))
    }

    /// Counts what goes in so many frames, puts or messages.
    pub fn add(&mut self, to: usize, [bytes, times]: [u64; 2]) {
        let [all, all_times] = &mut self.sent[to];
        (*all, *all_times) = (*all + bytes, *all_times + times);
    }

    fn text(&self) -> String {
        let mut text = "# POINT TO POINT\n".to_owned();
        let others = self.sent.iter().enumerate().filter(|(to, sent)| *to != self.rank && sent[0] > 0);
        for (to, [bytes, times]) in others {
            let _ = writeln!(text, "E\t{}\t{to}\t{bytes} bytes\t{times} msgs sent", self.rank);
        }
        text
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, self.text()) {
            tracing::warn!("{ASKED}: {} is not written: {error}", self.path.display());
        }
    }
}
