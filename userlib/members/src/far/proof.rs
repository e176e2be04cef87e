//! How a rank and rank 0 prove to each other that they have the secret of their job.
//!
//! Each frame of the beginning has a code of 16 bytes: SipHash-2-4 under the secret of who speaks, all that was said before on
//! this connection, and the body. Each side has a random number in its first frame, and the rank confirms after that of rank
//! 0: no frame of another meeting fits. What is said is not hidden from who listens.

use std::io::{self, Read, Write};

use crate::meeting::{CODE, bad, code, is_code};

/// Longest body.
const BODY_MAX: usize = 2048;

/// Which side speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Rank = 1,
    Hub = 2,
}

/// The beginning of a conversation.
pub(super) struct Talk<'a, S> {
    stream: &'a mut S,
    secret: [u8; 16],
    side: Side,
    said: Vec<u8>,
}

impl<'a, S: Read + Write> Talk<'a, S> {
    pub fn new(stream: &'a mut S, secret: [u8; 16], side: Side) -> Talk<'a, S> {
        Talk { stream, secret, side, said: Vec::new() }
    }

    pub fn say(&mut self, body: &[u8]) -> io::Result<()> {
        let len = u16::try_from(body.len()).ok().filter(|_| body.len() <= BODY_MAX);
        let len = len.ok_or_else(|| bad("what is to be said is too long"))?;
        let frame = [&len.to_le_bytes()[..], body, &self.code(self.side, body)].concat();
        self.stream.write_all(&frame)?;
        self.said.extend_from_slice(&frame);
        Ok(())
    }

    pub fn hear(&mut self) -> io::Result<Vec<u8>> {
        let mut len = [0; 2];
        self.stream.read_exact(&mut len)?;
        let mut body = vec![0; usize::from(u16::from_le_bytes(len))];
        if body.len() > BODY_MAX {
            return Err(bad("what came is not of a job"));
        }
        let mut code = [0; CODE];
        self.stream.read_exact(&mut body)?;
        self.stream.read_exact(&mut code)?;
        let other = if self.side == Side::Rank { Side::Hub } else { Side::Rank };
        if !is_code(&self.code(other, &body), &code) {
            return Err(bad("what came is not from a process that has the job's secret"));
        }
        self.said.extend_from_slice(&[&len[..], &body, &code].concat());
        Ok(body)
    }

    fn code(&self, side: Side, body: &[u8]) -> [u8; CODE] {
        code(&self.secret, side as u8, &self.said, &[body])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meeting::random;
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_who_has_the_secret_is_heard_and_once() {
        let (mut one, mut two) = UnixStream::pair().unwrap();
        Talk::new(&mut one, [7; 16], Side::Rank).say(b"hello").unwrap();
        assert_eq!(Talk::new(&mut two, [7; 16], Side::Hub).hear().unwrap(), b"hello");
        Talk::new(&mut one, [8; 16], Side::Rank).say(b"hello").unwrap();
        assert!(Talk::new(&mut two, [7; 16], Side::Hub).hear().is_err(), "another secret");
        // Recorded, and played into another conversation.
        let (mut thief, mut victim) = UnixStream::pair().unwrap();
        let mut caller = Talk::new(&mut thief, [7; 16], Side::Rank);
        caller.say(b"first").unwrap();
        let mut hub = Talk::new(&mut victim, [7; 16], Side::Hub);
        hub.hear().unwrap();
        hub.say(&random().unwrap().to_le_bytes()).unwrap();
        caller.say(b"first").unwrap(); // without what the hub said
        assert!(hub.hear().is_err());
    }
}
