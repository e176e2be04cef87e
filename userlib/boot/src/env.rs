//! What the environment says about this process's place in a job.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

use extoll_sim::process::Shape;

use crate::JobError;

pub(crate) const RANK: &str = "GGAS_RANK";
pub(crate) const SIZE: &str = "GGAS_SIZE";
pub(crate) const PER_NODE: &str = "GGAS_PER_NODE";
pub(crate) const JOB: &str = "GGAS_JOB";
pub(crate) const JOB_FD: &str = "GGAS_JOB_FD";
pub(crate) const RUNTIME_DIR: &str = "GGAS_RUNTIME_DIR";
pub(crate) const JOIN_TIMEOUT: &str = "GGAS_JOIN_TIMEOUT";

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest name of a job: it becomes part of a file's name.
const MAX_NAME: usize = 64;
/// A node has 256 VPIDs (spec 2.1): each process needs one to communicate.
const PER_NODE_MAX: u32 = 256;

/// How the processes find each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nobody else is there.
    Alone,
    /// The launcher holds the other end of this socket.
    Launcher(RawFd),
    /// Rank 0 listens under the job's name.
    Rendezvous { name: String },
}

/// This process's place in its job.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) shape: Shape,
    pub(crate) way: Way,
    pub(crate) timeout: Duration,
}

/// Where variables come from; tests have their own.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Place {
    pub(crate) fn from(lookup: Lookup<'_>) -> Result<Place, JobError> {
        let timeout = join_timeout(lookup)?;
        let rank = number(lookup, RANK)?;
        let size = number(lookup, SIZE)?;
        let fd = number(lookup, JOB_FD)?;
        let name = text(lookup, JOB)?;
        let per_node = number(lookup, PER_NODE)?;
        if rank.is_none() && size.is_none() {
            let told = [(JOB_FD, fd.is_some()), (JOB, name.is_some()), (PER_NODE, per_node.is_some())];
            if let Some((present, _)) = told.into_iter().find(|(_, is_set)| *is_set) {
                return Err(missing(present, RANK));
            }
            return Ok(Place { rank: 0, shape: Shape::new(1, 1)?, way: Way::Alone, timeout });
        }
        let rank = rank.ok_or_else(|| missing(SIZE, RANK))?;
        let size = size.ok_or_else(|| missing(RANK, SIZE))?;
        let shape = checked_shape(size, per_node.unwrap_or(1))?;
        if rank >= size {
            return Err(JobError::Setting {
                name: RANK,
                value: rank.to_string(),
                advice: format!("ranks of a job of {size} processes ({SIZE}) are 0 to {}", size - 1),
            });
        }
        let way = match (fd, name) {
            (Some(fd), _) => Way::Launcher(RawFd::try_from(fd).map_err(|_| JobError::Setting {
                name: JOB_FD,
                value: fd.to_string(),
                advice: "only a launcher sets it".into(),
            })?),
            (None, Some(name)) => Way::Rendezvous { name: checked_name(name)? },
            (None, None) if size == 1 => Way::Alone,
            (None, None) => return Err(missing(SIZE, JOB)),
        };
        Ok(Place { rank, shape, way, timeout })
    }
}

/// A job of this shape, in which every process can open a port.
pub(crate) fn checked_shape(processes: u32, per_node: u32) -> Result<Shape, JobError> {
    let shape = Shape::new(processes, per_node)?;
    let on_a_node = per_node.min(processes);
    if on_a_node > PER_NODE_MAX {
        return Err(JobError::Crowded { per_node: on_a_node, most: PER_NODE_MAX });
    }
    Ok(shape)
}

fn missing(present: &'static str, missing: &'static str) -> JobError {
    JobError::Incomplete {
        present,
        missing,
        advice: "set GGAS_RANK, GGAS_SIZE and GGAS_JOB (a name that all processes of the job share) in every process, \
                 or start the program with `ggas run -n N -- program`; for a job of one process unset them all",
    }
}

fn text(lookup: Lookup<'_>, name: &'static str) -> Result<Option<String>, JobError> {
    lookup(name)
        .map(|value| {
            value.into_string().map_err(|value| JobError::Setting {
                name,
                value: value.to_string_lossy().into_owned(),
                advice: "it is no UTF-8".into(),
            })
        })
        .transpose()
}

fn number(lookup: Lookup<'_>, name: &'static str) -> Result<Option<u32>, JobError> {
    let Some(value) = text(lookup, name)? else { return Ok(None) };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(JobError::Setting { name, value, advice: "write a whole number, 0 or more".into() }),
    }
}

/// How long to wait for the others.
pub(crate) fn join_timeout(lookup: Lookup<'_>) -> Result<Duration, JobError> {
    let Some(value) = text(lookup, JOIN_TIMEOUT)? else { return Ok(DEFAULT_TIMEOUT) };
    match value.trim().parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(JobError::Setting {
            name: JOIN_TIMEOUT,
            value,
            advice: "write seconds, 0.001 to 86400".into(),
        }),
    }
}

fn checked_name(name: String) -> Result<String, JobError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(good) && !name.starts_with('.') {
        return Ok(name);
    }
    let advice = format!("use 1 to {MAX_NAME} letters, digits and ._-, the first no dot");
    Err(JobError::Setting { name: JOB, value: name, advice })
}

/// The directory in which rank 0 listens, and whether it is ours to make.
pub(crate) fn runtime_dir(lookup: Lookup<'_>) -> Result<PathBuf, JobError> {
    let set = |name| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set(RUNTIME_DIR).or_else(|| set("XDG_RUNTIME_DIR")) {
        return Ok(dir);
    }
    match set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache"))) {
        Some(cache) => Ok(cache.join("ggas")),
        None => Err(JobError::Incomplete {
            present: JOB,
            missing: RUNTIME_DIR,
            advice: "neither XDG_RUNTIME_DIR nor HOME is set: name a directory of mode 0700 that the processes of \
                     the job share",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pairs: &[(&str, &str)]) -> Result<Place, JobError> {
        Place::from(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn plain_start_is_a_job_of_one() {
        let place = place(&[]).unwrap();
        assert_eq!((place.rank, place.shape.processes(), place.way), (0, 1, Way::Alone));
        assert_eq!(place.timeout, DEFAULT_TIMEOUT);
    }

    #[test]
    fn launcher_and_rendezvous() {
        let of_four =
            [(RANK, "3"), (SIZE, "4"), (PER_NODE, "2"), (JOB_FD, "7"), (JOB, "a"), (JOIN_TIMEOUT, "0.5")];
        let four = place(&of_four).unwrap();
        assert_eq!((four.rank, four.shape.per_node(), four.way), (3, 2, Way::Launcher(7)));
        assert_eq!(four.timeout, Duration::from_millis(500));
        let named = place(&[(RANK, "0"), (SIZE, "2"), (JOB, "sweep-7.b")]).unwrap();
        assert_eq!((named.shape.per_node(), named.way), (1, Way::Rendezvous { name: "sweep-7.b".into() }));
        assert_eq!(place(&[(RANK, "0"), (SIZE, "1")]).unwrap().way, Way::Alone);
    }

    #[test]
    fn bad_values_say_what_to_write() {
        let wrong: [(&[(&str, &str)], &str); 13] = [
            (&[(RANK, "2"), (SIZE, "2"), (JOB, "a")], "are 0 to 1"),
            (&[(RANK, "-1"), (SIZE, "2"), (JOB, "a")], "whole number"),
            (&[(RANK, "0"), (SIZE, "0"), (JOB, "a")], "process"),
            (&[(RANK, "0"), (SIZE, "100000"), (JOB, "a")], "process"),
            (&[(RANK, "0"), (SIZE, "2"), (PER_NODE, "0"), (JOB, "a")], "node"),
            (&[(RANK, "0"), (SIZE, "300"), (PER_NODE, "300"), (JOB, "a")], "at most 256"),
            (&[(RANK, "0"), (SIZE, "2")], "GGAS_JOB is not"),
            (&[(RANK, "0")], "GGAS_SIZE is not"),
            (&[(SIZE, "2"), (JOB, "a")], "GGAS_RANK is not"),
            (&[(JOB, "a")], "GGAS_JOB is set and GGAS_RANK is not"),
            (&[(RANK, "0"), (SIZE, "2"), (JOB, "../x")], "letters"),
            (&[(RANK, "0"), (SIZE, "2"), (JOB, "")], "letters"),
            (&[(JOIN_TIMEOUT, "soon")], "seconds"),
        ];
        for (pairs, part) in wrong {
            let said = place(pairs).unwrap_err().to_string();
            assert!(said.contains(part), "{pairs:?}: {said}");
        }
    }
}
