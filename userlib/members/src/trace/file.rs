//! The file of a process.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::{fs, io};

use super::Moved;
use super::run::Run;
use crate::is_quiet;

/// What a file has in place of its end while the process counts.
pub(super) const OPEN: &str =
    "it has not ended yet, was killed, or ended by `_exit`, or by `exit` with GMPI open";

/// Whose file it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub number: usize,
    /// Of a job.
    pub ranks: Option<usize>,
    pub run: Run,
}

/// What is in a file; `end`: why it is not whole, if it is not.
pub(super) fn text(head: &Head, moved: &[Moved], end: Result<(), &str>) -> String {
    let own = head.number;
    let others = || moved.iter().enumerate().filter(|(other, _)| *other != own);
    let mut text = head.ranks.map_or("# NETWORK\n".to_owned(), |ranks| format!("# RANKS\t{ranks}\n"));
    let _ = writeln!(text, "{}\n# POINT TO POINT", head.run);
    for (to, Moved { sent: [bytes, times], .. }) in others().filter(|(_, moved)| moved.sent[0] > 0) {
        let _ = writeln!(text, "E\t{own}\t{to}\t{bytes} bytes\t{times} msgs sent");
    }
    if others().any(|(_, moved)| moved.got[0] > 0) {
        text.push_str("# OSC\n");
    }
    for (from, Moved { got: [bytes, times], .. }) in others().filter(|(_, moved)| moved.got[0] > 0) {
        let _ = writeln!(text, "R\t{own}\t{from}\t{bytes} bytes\t{times} msgs sent");
    }
    match end {
        Ok(()) => text.push_str("# END\n"),
        Err(why) => {
            let _ = writeln!(text, "# NOT WHOLE\t{}", why.replace('\n', " "));
        }
    }
    text
}

/// Puts a file in the place of the one that is there, whole or not at all. Where it cannot, an earlier one does not stay, and the user is told.
pub(super) fn write(path: &Path, text: &str) {
    let new = beside(path);
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&new);
        let _ = fs::remove_file(path);
        say(path, &error);
    }
}

/// Whether files of a prefix can be written.
pub(super) fn try_prefix(prefix: &Path) -> Result<(), String> {
    let new = beside(prefix);
    // A file system that is full may take a file, and no byte of it.
    let tried = fs::write(&new, "trace");
    let _ = fs::remove_file(&new);
    tried.map_err(|error| refusal(prefix, &error))
}

/// Where it is written first. No number is in front of its end, so nobody takes it for a file of a trace.
fn beside(path: &Path) -> PathBuf {
    let mut new = OsString::from(path);
    new.push(format!(".{}.new", std::process::id()));
    new.into()
}

/// What is wrong, and what to do.
fn refusal(path: &Path, error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::NotFound => "make the folder first, or name another in GGAS_TRACE",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room there, or name another folder in GGAS_TRACE"
        }
        _ => "name a folder in GGAS_TRACE that this user may write to",
    };
    format!("the trace {} cannot be written: {error}: {what}", path.display())
}

/// Who asks for a trace wants to know that there is none, whether the program logs or not. Once is enough.
fn say(path: &Path, error: &io::Error) {
    static SAID: Once = Once::new();
    tracing::warn!("the trace {} is not written: {error}", path.display());
    SAID.call_once(|| {
        if !is_quiet() {
            // Nobody may be there to read it.
            let _ = io::stderr().write_all(format!("ggas: {}\n", refusal(path, error)).as_bytes());
        }
    });
}
