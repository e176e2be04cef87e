//! The files of a prefix, and what each says of its run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::wrong;
use crate::MapError;

/// Most bytes of a rank's file: a line of 300 bytes for each of 1,024 ranks, of each of four kinds, and its communicators.
const MOST_BYTES: u64 = 16 << 20;

/// The file of one process.
#[derive(Debug)]
pub(super) struct Found {
    pub number: usize,
    pub path: PathBuf,
    pub head: Head,
}

/// Who wrote a file, and as what.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Open MPI; of a run of so many ranks, where it says so.
    OpenMpi { ranks: Option<usize> },
    /// This suite.
    Ours { of: Of, time: [u64; 2], end: Result<(), String> },
    /// An earlier version of it, which does not say of which run.
    Older,
}

/// Of what the process was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// A job of so many ranks, and what names it.
    Job { ranks: usize, name: String },
    /// A network that is no job: its processes may have any numbers.
    Network,
}

/// All files of a prefix, by number.
pub(super) fn find(prefix: &Path) -> Result<Vec<Found>, MapError> {
    let found = numbers_of(prefix)?.into_iter().map(|number| {
        let path = file_of(prefix, number);
        let head = head(&read(&path)?).map_err(|message| wrong(&path, message))?;
        Ok(Found { number, path, head })
    });
    found.collect()
}

pub(super) fn file_of(prefix: &Path, rank: usize) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!(".{rank}.prof"));
    PathBuf::from(name)
}

/// The numbers of the files, ascending.
fn numbers_of(prefix: &Path) -> Result<Vec<usize>, MapError> {
    let whole = prefix.as_os_str().as_bytes();
    // What a path has for its last part is another one where the prefix ends with `/`.
    let (folder, name) = match whole.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (Path::new(OsStr::from_bytes(&whole[..=at])), &whole[at + 1..]),
        None => (Path::new("."), whole),
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(MapError::File { path: folder.to_owned(), source }),
    };
    let number = |entry: fs::DirEntry| {
        let rest = entry.file_name().as_bytes().strip_prefix(name)?.strip_prefix(b".")?.to_vec();
        let digits = String::from_utf8(rest).ok()?.strip_suffix(".prof")?.to_owned();
        let number: usize = digits.parse().ok()?;
        // None that has another name as well.
        (number.to_string() == digits).then_some(number)
    };
    let mut numbers: Vec<usize> = entries.flatten().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

pub(super) fn read(path: &Path) -> Result<String, MapError> {
    let read = ggas_files::read_to_string(path, MOST_BYTES);
    read.map_err(|source| MapError::File { path: path.to_owned(), source })
}

fn head(text: &str) -> Result<Head, String> {
    let first = text.lines().next().unwrap_or_default();
    let job = first.strip_prefix("# RANKS\t");
    match first {
        "# POINT TO POINT" => return Ok(Head::OpenMpi { ranks: world(text) }),
        "# NETWORK" => {}
        _ if job.is_some() => {}
        _ => {
            return Err(
                "it is no trace of Open MPI or of this suite: remove it, or name another prefix".to_owned()
            );
        }
    }
    let Some(run) = text.lines().nth(1).and_then(|line| line.strip_prefix("# RUN\t")) else {
        return Ok(Head::Older);
    };
    let words: Vec<&str> = run.split('\t').collect();
    let times = words.get(1..3).and_then(|times| Some([times[0].parse().ok()?, times[1].parse().ok()?]));
    let of = match (job.map(str::parse), words.first()) {
        (Some(Ok(ranks)), Some(name)) => Some(Of::Job { ranks, name: (*name).to_owned() }),
        (None, Some(_)) => Some(Of::Network),
        _ => None,
    };
    match of.zip(times) {
        Some((of, time)) => Ok(Head::Ours { of, time, end: end(text) }),
        None => {
            Err("its head has no ranks or no run: it is damaged, or of another version: trace the run again"
                .to_owned())
        }
    }
}

/// Whether a file of ours is whole; else why not.
fn end(text: &str) -> Result<(), String> {
    match text.lines().last().unwrap_or_default() {
        "# END" => Ok(()),
        last => Err(match last.strip_prefix("# NOT WHOLE\t") {
            Some(why) => {
                format!("it is not whole: {why}: let the process end by itself, and trace the run again")
            }
            None => "its end is missing: it was cut as it was copied: copy it again".to_owned(),
        }),
    }
}

/// How many ranks Open MPI says that there were.
fn world(text: &str) -> Option<usize> {
    let all = text.lines().find_map(|line| line.strip_prefix("D\tMPI_COMM_WORLD\tprocs: "))?;
    Some(all.split(',').count())
}
