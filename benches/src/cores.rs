//! Keeping processes to cores of their own.

use std::ops::Range;
use std::{fs, io};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::BenchError;
use crate::error::Doing;

/// Keeps this process, one of `size`, to its share of the cores it may use, and gives their numbers. All its threads
/// and those that they start later keep to them. `None`: only where each process gets a core.
///
/// # Errors
/// [`BenchError::Option`] with fewer cores than processes.
pub(crate) fn pin(rank: usize, size: usize, wanted: Option<bool>) -> Result<Vec<usize>, BenchError> {
    let own = share_of(rank, size, wanted)?;
    if own.is_empty() {
        return Ok(own);
    }
    let mut set = CpuSet::new();
    own.iter().try_for_each(|core| set.set(*core)).doing("naming cores")?;
    for thread in threads()? {
        // One that ended meanwhile needs none.
        match sched_setaffinity(thread, &set) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error).doing("keeping to some cores"),
        }
    }
    Ok(own)
}

/// The cores that process `rank` of `size` is kept to, all shares alike; none where it is not.
///
/// # Errors
/// As for [`pin`].
pub(crate) fn share_of(rank: usize, size: usize, wanted: Option<bool>) -> Result<Vec<usize>, BenchError> {
    if wanted == Some(false) {
        return Ok(Vec::new());
    }
    let allowed = sched_getaffinity(Pid::from_raw(0)).doing("asking for the cores of this process")?;
    let allowed: Vec<_> =
        (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect();
    let own = allowed.get(share(allowed.len(), rank, size)).unwrap_or_default();
    if own.is_empty() && wanted == Some(true) {
        let advice = format!("{size} processes, but only {} cores to keep them to", allowed.len());
        return Err(BenchError::option("pin", "true", advice));
    }
    Ok(own.to_vec())
}

/// The threads of this process.
fn threads() -> Result<Vec<Pid>, BenchError> {
    let tasks = fs::read_dir("/proc/self/task").doing("listing the threads of this process")?;
    let id = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(tasks.filter_map(id).map(Pid::from_raw).collect())
}

/// The cores of one of `size` processes, all shares alike.
fn share(cores: usize, rank: usize, size: usize) -> Range<usize> {
    let each = cores / size.max(1);
    rank * each..(rank + 1) * each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_alike_and_apart() {
        assert_eq!(share(2, 0, 2), 0..1);
        assert_eq!(share(2, 1, 2), 1..2);
        assert_eq!(share(16, 2, 3), 10..15);
        assert!(share(2, 1, 3).is_empty());
    }

    #[test]
    fn more_processes_than_cores_stay_free_unless_asked() {
        assert!(share_of(5, 1 << 20, None).unwrap().is_empty());
        assert!(share_of(5, 1 << 20, Some(true)).unwrap_err().to_string().contains("cores"));
        assert!(share_of(0, 1, Some(false)).unwrap().is_empty());
        assert!(!share_of(0, 1, None).unwrap().is_empty());
    }
}
