//! What two processes say when they meet, and later on the same connection: frames that only who has the secret can make,
//! and only for this meeting.
//!
//! A frame is a length of two bytes, a body, and a code of 16 bytes: SipHash-2-4 under the secret of who speaks, all that
//! was said before on this connection, and the body. Each side puts a random number into its first frame, so no frame of
//! another meeting fits. Who is called speaks first, so that not even the first frame of a call can be one of another meeting: what a
//! call says has an effect. The two speak in turn until five frames are said (the caller the second one and the last one). Then both speak as they like, and a code has
//! the number of the frame among those of its side in place of what was said since. What is said is not hidden from who
//! listens.
//!
//! Before all that a caller shows a [pass], behind its connection at once, so that it keeps its place among callers
//! however many strangers come.

use std::io;

use ggas_members::meeting::{CODE, bad, code, is_code, random};

/// Longest body: papers with the longest address of a wire, of 4 KiB. UCX's have some 100 bytes for each network device.
const BODY_MAX: usize = 5120;
const LEN: usize = 2;
const MAGIC: &[u8; 8] = b"ggashost";
/// Of what is said, and of the packets.
const VERSION: u32 = 10;
/// In the order of this host's bytes.
const ORDER: u16 = 0x0102;
/// Frames that the two say in turn.
const IN_TURN: u64 = 5;

/// Which side speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Caller = 0,
    Called = 1,
}

impl Side {
    fn other(self) -> Side {
        if self == Side::Caller { Side::Called } else { Side::Caller }
    }
}

/// A conversation: makes frames, and takes them out of what came.
pub(super) struct Talk {
    secret: [u8; 16],
    side: Side,
    /// Of both sides.
    in_turn: u64,
    said: Vec<u8>,
    /// Frames of each side after those.
    after: [u64; 2],
}

impl Talk {
    pub fn new(secret: [u8; 16], side: Side) -> Talk {
        Talk { secret, side, in_turn: 0, said: Vec::new(), after: [0; 2] }
    }

    /// The frame of a body.
    pub fn say(&mut self, body: &[u8]) -> io::Result<Vec<u8>> {
        if body.len() > BODY_MAX {
            return Err(bad("what is to be said is too long"));
        }
        let code = self.code(self.side, body);
        let frame = [&(body.len() as u16).to_le_bytes()[..], body, &code].concat();
        self.note(self.side, &frame);
        Ok(frame)
    }

    /// Takes the first frame out of what came: its body. `None`: it is not whole yet.
    pub fn hear(&mut self, came: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        let Some((len, rest)) = came.split_first_chunk::<LEN>() else { return Ok(None) };
        let len = usize::from(u16::from_le_bytes(*len));
        if len > BODY_MAX {
            return Err(bad("what came is not from a process of this network"));
        }
        let Some(frame) = rest.get(..len + CODE) else { return Ok(None) };
        let (body, code) = frame.split_at(len);
        if !is_code(&self.code(self.side.other(), body), code) {
            // Another version may have other codes. Nobody has proven that it is one, but it explains more.
            if body.starts_with(MAGIC) {
                check_opening(&mut Rest(body))?;
            }
            return Err(bad(
                "what came is not from a process that has the network's secret: the files of the two differ",
            ));
        }
        let body = body.to_vec();
        let frame: Vec<u8> = came.drain(..LEN + len + CODE).collect();
        self.note(self.side.other(), &frame);
        Ok(Some(body))
    }

    fn note(&mut self, side: Side, frame: &[u8]) {
        if self.in_turn < IN_TURN {
            self.in_turn += 1;
            self.said.extend_from_slice(frame);
        } else {
            self.after[side as usize] += 1;
        }
    }

    fn code(&self, side: Side, body: &[u8]) -> [u8; CODE] {
        code(&self.secret, side as u8, &self.said, &[&self.after[side as usize].to_le_bytes(), body])
    }
}

/// What a caller says before it has heard anything: that it has the secret. No frame of a conversation fits in its place, since what
/// a caller says there is behind a challenge. Who recorded one can show it again: it gets a caller's place by that, and
/// nothing else.
///
/// # Errors
/// There are no random numbers.
pub(super) fn pass(secret: [u8; 16]) -> io::Result<Vec<u8>> {
    Talk::new(secret, Side::Caller).say(&Challenge::bytes(random()?))
}

/// Takes a caller's [`pass`] out of what came; false: it is not whole yet.
///
/// # Errors
/// It is none, or one of another version.
pub(super) fn take_pass(secret: [u8; 16], came: &mut Vec<u8>) -> io::Result<bool> {
    let body = Talk::new(secret, Side::Called).hear(came)?;
    body.map(|body| Challenge::check(&body)).transpose().map(|checked| checked.is_some())
}

/// What first frames begin with: what they are of, the version, and how numbers lie in memory here. The first two lie so in all versions.
fn opening() -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes(), &ORDER.to_ne_bytes()].concat()
}

fn check_opening(rest: &mut Rest<'_>) -> io::Result<()> {
    if rest.take(MAGIC.len())? != MAGIC {
        return Err(bad("what came is not of such a network"));
    }
    let version = rest.number(4)? as u32;
    if version != VERSION {
        return Err(unlike(format!(
            "the other process is of another version of ggas (networks of hosts {version}, and this one {VERSION}): install the \
             same one on all hosts"
        )));
    }
    if rest.take(2)? != ORDER.to_ne_bytes() {
        let why = "its host has the bytes of numbers in another order: the hosts of a network have to have the same";
        return Err(unlike(why.to_owned()));
    }
    Ok(())
}

/// The two cannot be of one network: whoever set them up has to change something.
pub(super) fn unlike(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}

/// What who is called says before anything else: what a call says is said to this process, and now.
pub(super) struct Challenge;

impl Challenge {
    /// Its bytes, and those of a number that was never used before.
    pub fn bytes(number: u64) -> Vec<u8> {
        [opening(), number.to_le_bytes().to_vec()].concat()
    }

    pub fn check(bytes: &[u8]) -> io::Result<()> {
        let mut rest = Rest(bytes);
        check_opening(&mut rest)?;
        rest.number(8).map(drop)
    }
}

/// Who a side is: behind the challenge, the first frame of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub from: u16,
    pub to: u16,
    pub answer: Answer,
    /// Names the process that speaks, for ever.
    pub incarnation: u64,
}

/// What the called side thinks of the call; a caller's says [`Answer::Come`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Come = 0,
    /// It meets the caller already, on another connection.
    Busy,
    /// The caller was found lost here, which is final.
    Lost,
}

impl Hello {
    /// Its bytes, and those of a number that was never used before.
    pub fn bytes(self, number: u64) -> Vec<u8> {
        let mut bytes = opening();
        bytes.extend_from_slice(&self.from.to_le_bytes());
        bytes.extend_from_slice(&self.to.to_le_bytes());
        bytes.push(self.answer as u8);
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes
    }

    pub fn of(bytes: &[u8]) -> io::Result<Hello> {
        let mut rest = Rest(bytes);
        check_opening(&mut rest)?;
        let (from, to) = (rest.number(2)? as u16, rest.number(2)? as u16);
        let answer = match rest.number(1)? {
            0 => Answer::Come,
            1 => Answer::Busy,
            2 => Answer::Lost,
            _ => return Err(bad("what came is no answer")),
        };
        Ok(Hello { from, to, answer, incarnation: rest.number(8)? })
    }
}

/// The second one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Papers {
    /// What the other side has to put into its packets.
    pub ticket: u64,
    /// What both have to use.
    pub provider: String,
    /// Of the wire.
    pub address: Vec<u8>,
}

impl Papers {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.ticket.to_le_bytes().to_vec();
        for part in [self.provider.as_bytes(), &self.address] {
            bytes.extend_from_slice(&(part.len() as u16).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    pub fn of(bytes: &[u8]) -> io::Result<Papers> {
        let mut rest = Rest(bytes);
        let ticket = rest.number(8)?;
        let mut part = || {
            let len = rest.number(2)? as usize;
            rest.take(len).map(<[u8]>::to_vec)
        };
        let (provider, address) = (part()?, part()?);
        let provider = String::from_utf8(provider).map_err(|_| bad("a provider has no such name"))?;
        Ok(Papers { ticket, provider, address })
    }
}

/// What the processes of a job tell each other by way of rank 0, to whom all have proven themselves.
pub(super) mod of_job {
    use super::{Papers, Rest, check_opening, io, opening};

    pub fn bytes(provider: &str, address: &[u8]) -> Vec<u8> {
        let papers = Papers { ticket: 0, provider: provider.to_owned(), address: address.to_vec() };
        [opening(), papers.bytes()].concat()
    }

    pub fn of(bytes: &[u8]) -> io::Result<(String, Vec<u8>)> {
        let mut rest = Rest(bytes);
        check_opening(&mut rest)?;
        let Papers { provider, address, .. } = Papers::of(rest.0)?;
        Ok((provider, address))
    }
}

/// What the two say after the meeting; of a job whose processes [know each other](super::known), with their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The process lives; whether anything of the other one has come over the wire.
    Beat { came: bool },
    /// It leaves: how many packets of each class it has sent, and taken, over all.
    Goodbye { sent: [u32; 2], taken: [u32; 2] },
    /// All that it sent has come.
    Farewell,
}

impl Word {
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Word::Beat { came } => vec![0, came.into()],
            Word::Goodbye { sent, taken } => {
                let numbers = [sent, taken].concat().into_iter().flat_map(u32::to_le_bytes);
                std::iter::once(1).chain(numbers).collect()
            }
            Word::Farewell => vec![2],
        }
    }

    /// One that came with packets, where it is said that a process lives by their coming.
    pub fn with_packets(bytes: &[u8]) -> Option<Word> {
        let word = Word::of(bytes).ok().filter(|word| !matches!(word, Word::Beat { .. }))?;
        (word.bytes() == bytes).then_some(word)
    }

    pub fn of(bytes: &[u8]) -> io::Result<Word> {
        let mut rest = Rest(bytes);
        let pair = |rest: &mut Rest<'_>| io::Result::Ok([rest.number(4)? as u32, rest.number(4)? as u32]);
        match rest.number(1)? {
            0 => Ok(Word::Beat { came: rest.number(1)? != 0 }),
            1 => Ok(Word::Goodbye { sent: pair(&mut rest)?, taken: pair(&mut rest)? }),
            2 => Ok(Word::Farewell),
            _ => Err(bad("what came is no word")),
        }
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| bad("what came is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, len: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(self.take(len)?);
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests;
