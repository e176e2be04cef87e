//! What ranks and rank 0's hub say to each other once they have proven who they are: a length of four bytes and a body.

use std::io;

use serde::{Deserialize, Serialize};

use crate::EXCHANGE_MAX;
use crate::meeting::bad;

/// Of all that is said. Another one is refused.
pub(super) const VERSION: u32 = 3;
const MAGIC: [u8; 8] = *b"ggas-job";
const LENGTH: usize = 4;
/// Longest papers of a transport: with the longest address of a wire, of 4 KiB.
pub(super) const PAPERS_MAX: usize = 5120;
/// Longest body of a rank; of the hub, where there are so many ranks.
pub(super) const FROM_RANK: usize = EXCHANGE_MAX + 64;
pub(super) const FROM_HUB: usize = (EXCHANGE_MAX + 64) * crate::shape::PROCESSES_MAX as usize;

/// What a rank says first. The magic and the version lie before the rest, and will always.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The job's network.
    pub job: String,
    pub rank: u32,
    pub size: u32,
    pub per_node: u32,
    /// Of the network as it is on this rank's host: ranks with the same one share memory.
    pub token: u64,
    /// The host's name.
    pub host: String,
    /// Port on which the rank's transport is met.
    pub port: u16,
    pub nonce: u64,
}

impl Hello {
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend(postcard::to_stdvec(self).map_err(io::Error::other)?);
        Ok(bytes)
    }

    /// Or why it is none, for who said it.
    pub fn of(bytes: &[u8]) -> Result<Hello, String> {
        let rest = bytes.strip_prefix(&MAGIC).and_then(|rest| rest.split_first_chunk());
        let (version, rest) = rest.ok_or("what came is not of a job")?;
        match u32::from_le_bytes(*version) {
            VERSION => postcard::from_bytes(rest).map_err(|_| "what came is damaged".to_owned()),
            theirs => Err(format!(
                "it is of another version of ggas (jobs over hosts {theirs}, and rank 0's {VERSION}): install the same one \
                 on all hosts"
            )),
        }
    }
}

/// What rank 0 answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub nonce: u64,
    /// Why the rank may not come.
    pub refused: Option<String>,
}

/// Where a rank is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Whereabouts {
    pub token: u64,
    pub host: String,
    /// Address and port at which its transport is met.
    pub place: String,
    /// The number that its process said first: names it, for ever.
    pub nonce: u64,
}

/// What a rank says to the hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FromRank {
    /// It has entered this call; with bytes: an exchange.
    Enter {
        call: u64,
        bytes: Option<Vec<u8>>,
    },
    /// Who has not entered this call (0: not come)?
    Who {
        call: u64,
    },
    /// A message for a rank on another host.
    Tell {
        to: u32,
        kind: u16,
        body: Vec<u8>,
    },
    /// It has got so many more messages of that rank.
    Took {
        from: u32,
        messages: u32,
    },
    /// What its transport tells those of all other ranks, once.
    Papers(Vec<u8>),
    Leave,
}

/// What the hub says to ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FromHub {
    /// All have come.
    Start(Vec<Whereabouts>),
    /// The job cannot be: why.
    Refused(String),
    /// All have entered this call, with these bytes.
    All { call: u64, bytes: Vec<Option<Vec<u8>>> },
    /// They have not entered this call.
    Missing { call: u64, ranks: Vec<u32> },
    /// A message of a rank on another host.
    Told { from: u32, kind: u16, body: Vec<u8> },
    /// That rank has got so many more messages.
    Took { by: u32, messages: u32 },
    /// Of all ranks, once all that are there have said theirs.
    Papers(Vec<Option<Vec<u8>>>),
    /// A rank has left or is lost, having entered this call last.
    Gone { rank: u32, left: bool, entered: u64 },
}

/// The frame of what is said.
pub(super) fn frame(said: &impl Serialize) -> Vec<u8> {
    // Vectors take what is written; there is nothing in these types that has no encoding.
    let body = postcard::to_stdvec(said).unwrap_or_default();
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// Takes the first frame out of what came. `None`: it is not whole yet.
pub(super) fn take<T: serde::de::DeserializeOwned>(came: &mut Vec<u8>, most: usize) -> io::Result<Option<T>> {
    let Some((len, rest)) = came.split_first_chunk::<LENGTH>() else { return Ok(None) };
    let len = u32::from_le_bytes(*len) as usize;
    if len > most {
        return Err(bad("what came is too long"));
    }
    let Some(body) = rest.get(..len) else { return Ok(None) };
    let said = postcard::from_bytes(body).map_err(|_| bad("what came is damaged"))?;
    came.drain(..LENGTH + len);
    Ok(Some(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let (job, host) = ("job-a".to_owned(), "h1".to_owned());
        Hello { job, rank: 3, size: 4, per_node: 1, token: 9, host, port: 7000, nonce: 5 }
    }

    #[test]
    fn another_version_is_told_so() {
        let mut bytes = hello().bytes().unwrap();
        assert_eq!(Hello::of(&bytes), Ok(hello()));
        bytes[8] += 1;
        let why = Hello::of(&bytes).unwrap_err();
        assert!(
            why.contains("jobs over hosts 4, and rank 0's 3") && why.contains("install the same"),
            "{why}"
        );
        for garbage in [&b"GET / HTTP/1.1"[..], b"ggas-job", b"ggas-job\x01\0\0\0\xff", b""] {
            assert!(Hello::of(garbage).is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn frames_come_in_pieces() {
        let said = FromRank::Enter { call: 7, bytes: Some(vec![1, 2, 3]) };
        let whole = [frame(&said), frame(&FromRank::Leave)].concat();
        let mut came = Vec::new();
        let mut heard = Vec::new();
        for byte in whole {
            came.push(byte);
            heard.extend(take::<FromRank>(&mut came, FROM_RANK).unwrap());
        }
        assert_eq!(heard, [said, FromRank::Leave]);
        assert!(take::<FromRank>(&mut vec![0xff; 8], FROM_RANK).is_err(), "too long");
        assert!(take::<FromRank>(&mut vec![1, 0, 0, 0, 99], FROM_RANK).is_err(), "of no kind");
    }
}
