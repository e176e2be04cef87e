//! This process's network, node and rank, read from the environment.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::far::Meet;
use crate::shape::{NetworkShape, Shape};
use crate::{JobError, directory};

pub(crate) const RANK: &str = "GGAS_RANK";
pub(crate) const SIZE: &str = "GGAS_SIZE";
pub(crate) const PER_NODE: &str = "GGAS_PER_NODE";
pub(crate) const JOB: &str = "GGAS_JOB";
pub(crate) const NETWORK: &str = "GGAS_NETWORK";
pub(crate) const NODE: &str = "GGAS_NODE";
pub(crate) const RUNTIME_DIR: &str = "GGAS_RUNTIME_DIR";
pub(crate) const MEET: &str = "GGAS_MEET";
pub(crate) const SECRET: &str = "GGAS_SECRET";
pub(crate) const JOIN_TIMEOUT: &str = "GGAS_JOIN_TIMEOUT";
pub(crate) const QUIET: &str = "GGAS_QUIET";

/// The network of a user who names none.
pub const DEFAULT_NETWORK: &str = "default";
/// Networks of jobs, so that nobody joins one by chance.
pub(crate) const JOB_PREFIX: &str = "job-";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest name of a network or job: it becomes a file's name.
const MAX_NAME: usize = 64;
/// A node has 256 VPIDs (spec 2.1): each process needs one to communicate.
const PER_NODE_MAX: u32 = 256;

/// A rank of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) rank: u32,
    pub(crate) shape: Shape,
}

/// This process's place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The network's name.
    pub(crate) network: String,
    pub(crate) node: u16,
    /// Its rank, where it is of a job of several.
    pub(crate) rank: Option<Rank>,
    /// How long to wait for the other ranks.
    pub(crate) timeout: Duration,
    /// How the ranks meet, where they are on several hosts.
    pub(crate) meet: Option<Meet>,
}

/// Where variables come from; tests have their own.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Place {
    pub(crate) fn from(lookup: Lookup<'_>) -> Result<Place, JobError> {
        let timeout = join_timeout(lookup)?;
        let rank = number(lookup, RANK)?;
        let size = number(lookup, SIZE)?;
        let name = text(lookup, JOB)?;
        let per_node = number(lookup, PER_NODE)?;
        if rank.is_none() && size.is_none() {
            let told = [(JOB, name.is_some()), (PER_NODE, per_node.is_some())];
            if let Some((present, _)) = told.into_iter().find(|(_, is_set)| *is_set) {
                return Err(missing(present, RANK));
            }
            return Place::in_network(lookup, timeout);
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
        let name = match name {
            Some(name) => checked_name(JOB, &name)?.to_owned(),
            None if size == 1 => return Place::in_network(lookup, timeout),
            None => return Err(missing(SIZE, JOB)),
        };
        let network = format!("{JOB_PREFIX}{name}");
        let rank = Rank { rank, shape };
        let meet = meet(lookup)?;
        Ok(Place { network, node: shape.node_of(rank.rank), rank: Some(rank), timeout, meet })
    }

    /// A place of its own choice.
    fn in_network(lookup: Lookup<'_>, timeout: Duration) -> Result<Place, JobError> {
        let network = match text(lookup, NETWORK)? {
            Some(name) if !name.is_empty() => checked_name(NETWORK, &name)?.to_owned(),
            _ => DEFAULT_NETWORK.to_owned(),
        };
        let node = number(lookup, NODE)?.unwrap_or(0);
        let node = u16::try_from(node).map_err(|_| JobError::Setting {
            name: NODE,
            value: node.to_string(),
            advice: "write a node id, 0 to 65535".into(),
        })?;
        Ok(Place { network, node, rank: None, timeout, meet: None })
    }

    /// Shape that the network gets if this process makes it.
    pub(crate) fn shape(&self) -> NetworkShape {
        self.rank.map_or_else(NetworkShape::default, |rank| NetworkShape::of_job(rank.shape))
    }
}

/// Ranks on each node, for a job whose launcher says nothing of nodes.
pub(crate) fn per_node() -> Result<u32, JobError> {
    Ok(number(&|name| std::env::var_os(name), PER_NODE)?.unwrap_or(1))
}

/// How the ranks of a job over hosts meet, if it is over hosts.
fn meet(lookup: Lookup<'_>) -> Result<Option<Meet>, JobError> {
    let (place, secret) = (text(lookup, MEET)?, text(lookup, SECRET)?);
    let place = match (place, &secret) {
        (None, None) => return Ok(None),
        (Some(place), Some(_)) => place,
        (place, _) => {
            let (present, missing) = if place.is_some() { (MEET, SECRET) } else { (SECRET, MEET) };
            let advice = "ranks on several hosts all have GGAS_MEET (HOST:PORT of rank 0) and GGAS_SECRET; \
                          `ggas run --host` sets both";
            return Err(JobError::Incomplete { present, missing, advice });
        }
    };
    let port =
        place.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
    if port.is_none_or(|port: u16| port == 0) {
        let advice = "write HOST:PORT, where rank 0 is met".to_owned();
        return Err(JobError::Setting { name: MEET, value: place, advice });
    }
    let wrong = || JobError::Setting {
        name: SECRET,
        value: "...".to_owned(),
        advice: "write 32 hexadecimal digits, not all 0 (head -c16 /dev/urandom | xxd -p)".to_owned(),
    };
    let secret = parse_secret(secret.as_deref().unwrap_or_default()).ok_or_else(wrong)?;
    Ok(Some(Meet { places: vec![place], secret, listener: None }))
}

fn parse_secret(digits: &str) -> Option<[u8; 16]> {
    let fits = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = fits.then(|| u128::from_str_radix(digits, 16).ok())??;
    (number != 0).then(|| number.to_be_bytes())
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

/// How long this process waits for the lock of a network that it joins.
pub(crate) fn patience() -> Duration {
    // Where many join at once, each holds it for about a millisecond.
    join_timeout(&|name| std::env::var_os(name)).unwrap_or(DEFAULT_TIMEOUT).max(Duration::from_secs(1))
}

/// Whether this process is to print nothing of its own accord on standard error (`GGAS_QUIET`).
pub fn is_quiet() -> bool {
    std::env::var_os(QUIET).is_some_and(|value| !value.is_empty() && value != *"0")
}

/// A network's name that may be one.
pub(crate) fn checked_network(name: &str) -> Result<&str, JobError> {
    match is_name(name) {
        true => Ok(name),
        false => Err(JobError::NetworkName { name: name.to_owned(), most: MAX_NAME }),
    }
}

fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(good) && !name.starts_with('.')
}

fn checked_name<'a>(variable: &'static str, name: &'a str) -> Result<&'a str, JobError> {
    if is_name(name) {
        return Ok(name);
    }
    let advice = format!("use 1 to {MAX_NAME} letters, digits and ._-, the first no dot");
    Err(JobError::Setting { name: variable, value: name.into(), advice })
}

/// The directory of this user's networks.
pub(crate) fn runtime_dir() -> PathBuf {
    let set = std::env::var_os(RUNTIME_DIR).filter(|value| !value.is_empty());
    set.map_or_else(directory::default_path, PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pairs: &[(&str, &str)]) -> Result<Place, JobError> {
        Place::from(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn plain_starts_are_in_the_users_network() {
        let plain = place(&[]).unwrap();
        assert_eq!((plain.network.as_str(), plain.node, plain.rank), (DEFAULT_NETWORK, 0, None));
        assert_eq!((plain.timeout, plain.shape()), (DEFAULT_TIMEOUT, NetworkShape::default()));
        let named = place(&[(NETWORK, "lab"), (NODE, "3")]).unwrap();
        assert_eq!((named.network.as_str(), named.node), ("lab", 3));
        assert_eq!(place(&[(RANK, "0"), (SIZE, "1")]).unwrap().rank, None);
    }

    #[test]
    fn ranks_are_in_the_network_of_their_job() {
        let of_four = [(RANK, "3"), (SIZE, "4"), (PER_NODE, "2"), (JOB, "a"), (JOIN_TIMEOUT, "0.5")];
        let four = place(&of_four).unwrap();
        assert_eq!((four.network.as_str(), four.node), ("job-a", 1));
        assert_eq!(four.rank, Some(Rank { rank: 3, shape: Shape::new(4, 2).unwrap() }));
        assert_eq!(four.timeout, Duration::from_millis(500));
        assert_eq!((four.shape().nodes(), four.shape().rank_slots()), (2, 0..4));
    }

    #[test]
    fn ranks_on_several_hosts_have_a_place_and_a_secret() {
        const DIGITS: &str = "00112233445566778899aabbccddeeff";
        let two = [(RANK, "0"), (SIZE, "2"), (JOB, "a")];
        let with = |more: &[(&'static str, &'static str)]| place(&[&two[..], more].concat());
        let meet = with(&[(MEET, "h1:7000"), (SECRET, DIGITS)]).unwrap().meet.unwrap();
        assert_eq!((meet.places[0].as_str(), meet.secret[15]), ("h1:7000", 0xff));
        assert!(!format!("{meet:?}").contains("255"), "a secret is not shown");
        assert!(with(&[]).unwrap().meet.is_none());
        for (more, part) in [
            (vec![(MEET, "h1:7000")], "GGAS_SECRET is not"),
            (vec![(SECRET, DIGITS)], "GGAS_MEET is not"),
            (vec![(MEET, "h1"), (SECRET, DIGITS)], "HOST:PORT"),
            (vec![(MEET, "h1:0"), (SECRET, DIGITS)], "HOST:PORT"),
            (vec![(MEET, "h1:7000"), (SECRET, "12")], "32 hexadecimal"),
        ] {
            let said = with(&more).unwrap_err().to_string();
            assert!(said.contains(part), "{more:?}: {said}");
        }
    }

    #[test]
    fn bad_values_say_what_to_write() {
        let wrong: [(&[(&str, &str)], &str); 15] = [
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
            (&[(NETWORK, "a/b")], "letters"),
            (&[(NODE, "70000")], "node id"),
        ];
        for (pairs, part) in wrong {
            let said = place(pairs).unwrap_err().to_string();
            assert!(said.contains(part), "{pairs:?}: {said}");
        }
    }
}
