//! What ranks tell each other: places, requests and answers, in words of the host's order.

use crate::error::{HpeError, Refusal};

/// Bytes of a request, in a slot of its own at who serves it.
pub(crate) const REQUEST: usize = 64;

/// What a rank is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// To get bytes from who asks, and to store them.
    Store,
    /// To load bytes, and to put them to who asks.
    Load,
    /// To say how this host's processes open what the bytes lie in, and to put that to who asks.
    Name,
}

/// A block of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub ask: Ask,
    /// Whose memory the one that serves calls so.
    pub address: u64,
    pub len: usize,
    /// Where the bytes are, or go to, at who asks.
    pub nla: u64,
}

impl Request {
    pub fn bytes(&self) -> [u8; REQUEST] {
        let ask = match self.ask {
            Ask::Store => 1,
            Ask::Load => 2,
            Ask::Name => 3,
        };
        let mut bytes = [0; REQUEST];
        for (word, value) in
            bytes.as_chunks_mut().0.iter_mut().zip([ask, self.address, self.len as u64, self.nla])
        {
            *word = value.to_ne_bytes();
        }
        bytes
    }

    /// `None`: what another rank wrote is no request.
    pub fn of(bytes: &[u8; REQUEST]) -> Option<Request> {
        let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        let ask = match words.next()? {
            1 => Ask::Store,
            2 => Ask::Load,
            3 => Ask::Name,
            _ => return None,
        };
        Some(Request { ask, address: words.next()?, len: words.next()? as usize, nla: words.next()? })
    }
}

/// A block is done, or why not, as a word.
pub(crate) fn answer(done: Result<(), Refusal>) -> u64 {
    match done {
        Ok(()) => 0,
        Err(Refusal::Unknown) => 1,
        Err(Refusal::AcrossObjects) => 2,
        Err(Refusal::Failed(errno)) => 3 | u64::from(errno as u32) << 8,
    }
}

/// What such a word says.
pub(crate) fn answered(word: u64) -> Result<(), Refusal> {
    match word & 0xff {
        0 => Ok(()),
        1 => Err(Refusal::Unknown),
        2 => Err(Refusal::AcrossObjects),
        _ => Err(Refusal::Failed((word >> 8) as i32)),
    }
}

/// Why this rank does not serve a block.
pub(crate) fn refusal(error: &HpeError) -> Refusal {
    match error {
        HpeError::Unknown { .. } | HpeError::NoMemory { .. } | HpeError::NoDevice { .. } => Refusal::Unknown,
        HpeError::AcrossObjects { .. } => Refusal::AcrossObjects,
        error => Refusal::Failed(error.errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_come_as_they_went() {
        for ask in [Ask::Store, Ask::Load, Ask::Name] {
            let request = Request { ask, address: 0x200_0000_1000, len: 77, nla: u64::MAX };
            assert_eq!(Request::of(&request.bytes()), Some(request));
        }
        assert_eq!(Request::of(&[0; REQUEST]), None);
        assert_eq!(Request::of(&[0xff; REQUEST]), None);
        for said in
            [Ok(()), Err(Refusal::Unknown), Err(Refusal::AcrossObjects), Err(Refusal::Failed(libc::ENODEV))]
        {
            assert_eq!(answered(answer(said)), said);
        }
    }
}
