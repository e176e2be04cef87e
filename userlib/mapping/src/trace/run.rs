//! Which of the files are of one run: other ones may have left some of the same prefix.

use std::path::{Path, PathBuf};

use super::files::{Found, Head, Of, file_of};
use super::wrong;
use crate::MapError;

/// The files of a run, by number.
pub(super) struct Run {
    pub files: Vec<Found>,
    pub is_network: bool,
    /// Those of others.
    pub left_out: Vec<PathBuf>,
}

/// The last run of this suite, or what Open MPI has written. `found` has a file.
pub(super) fn choose(prefix: &Path, found: Vec<Found>) -> Result<Run, MapError> {
    let is_open_mpi = |file: &&Found| matches!(file.head, Head::OpenMpi { .. });
    let theirs = found.iter().filter(is_open_mpi).count();
    if theirs == found.len() {
        return of_open_mpi(prefix, found);
    }
    if let Some(file) = found.iter().find(is_open_mpi) {
        return Err(wrong(
            &file.path,
            "other files of this prefix are of this suite, this one is not: remove those of the other run"
                .to_owned(),
        ));
    }
    let last = found.iter().filter_map(|file| times(file).map(|time| (time[1], file)));
    let Some((_, Found { head: Head::Ours { of, time, .. }, .. })) = last.max_by_key(|(written, _)| *written)
    else {
        let message =
            "another version of this suite wrote it, which does not say of which run: trace the run again"
                .to_owned();
        return Err(wrong(&found[0].path, message));
    };
    let of = of.clone();
    let since = match of {
        Of::Job { .. } => 0,
        Of::Network => since(&found, time[0].min(time[1])),
    };
    let is_of_run = |file: &Found| matches!(&file.head, Head::Ours { of: theirs, time, .. } if *theirs == of && time[1] >= since);
    let (files, others): (Vec<Found>, Vec<Found>) = found.into_iter().partition(is_of_run);
    let left_out: Vec<PathBuf> = others.into_iter().map(|file| file.path).collect();
    if let Of::Job { ranks, .. } = of {
        all_ranks(prefix, &files, ranks, &left_out)?;
    }
    for file in &files {
        if let Head::Ours { end: Err(why), .. } = &file.head {
            return Err(wrong(&file.path, why.clone()));
        }
    }
    Ok(Run { files, is_network: of == Of::Network, left_out })
}

/// When a process began to count, and when it had written its file.
fn times(file: &Found) -> Option<[u64; 2]> {
    match &file.head {
        Head::Ours { time, .. } => Some(*time),
        _ => None,
    }
}

/// When the first of those began that were in a network together, each at the same time as another one, with the last.
fn since(found: &[Found], last: u64) -> u64 {
    let of_network = |file: &&Found| matches!(file.head, Head::Ours { of: Of::Network, .. });
    let mut all: Vec<[u64; 2]> = found.iter().filter(of_network).filter_map(times).collect();
    all.sort_unstable_by_key(|time| std::cmp::Reverse(time[1]));
    let together = |since: u64, [begun, written]: [u64; 2]| (written >= since).then(|| since.min(begun));
    all.into_iter()
        .try_fold(last, |since, time| together(since, time).ok_or(since))
        .unwrap_or_else(|since| since)
}

fn of_open_mpi(prefix: &Path, mut files: Vec<Found>) -> Result<Run, MapError> {
    let without_gap = (0..).zip(&files).take_while(|(rank, file)| *rank == file.number).count();
    let ranks = match files.first() {
        Some(Found { number: 0, head: Head::OpenMpi { ranks }, .. }) => ranks.unwrap_or(without_gap),
        _ => {
            return Err(wrong(
                &file_of(prefix, 0),
                "rank 0 has no file: keep those of all ranks together".to_owned(),
            ));
        }
    };
    let behind = files.partition_point(|file| file.number < ranks);
    let left_out: Vec<PathBuf> = files.split_off(behind).into_iter().map(|file| file.path).collect();
    all_ranks(prefix, &files, ranks, &left_out)?;
    let is_other =
        |file: &&Found| matches!(file.head, Head::OpenMpi { ranks: Some(theirs) } if theirs != ranks);
    match files.iter().find(is_other) {
        Some(Found { path, .. }) => {
            let message = format!(
                "it is of a run of other than {ranks} ranks, and rank 0's is not: remove the files of other runs"
            );
            Err(wrong(path, message))
        }
        None => Ok(Run { files, is_network: false, left_out }),
    }
}

/// Fails where one of so many ranks has no file.
fn all_ranks(prefix: &Path, files: &[Found], ranks: usize, left_out: &[PathBuf]) -> Result<(), MapError> {
    let Some(missing) = (0..ranks).find(|rank| files.get(*rank).is_none_or(|file| file.number != *rank))
    else {
        return Ok(());
    };
    let there = file_of(prefix, missing);
    let is_there = if left_out.contains(&there) { " (the one that is there is of another run)" } else { "" };
    let message = format!(
        "a run of {ranks} ranks wrote it, but rank {missing} has no file of that run{is_there}: it was killed, used nothing that is traced, or \
         its file is elsewhere: keep those of all ranks together"
    );
    Err(wrong(files.first().map_or(&there, |file| &file.path), message))
}
