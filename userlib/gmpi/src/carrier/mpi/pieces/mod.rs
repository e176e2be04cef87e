//! Long messages in pieces, so that copies between host and GPU of one piece go on while the library passes others.
//!
//! All members of the world agree, as they begin, on the size of a piece (`GGAS_GMPI_PIECE`, the smallest that one of them has; 0: none).
//! Then a message that is longer goes as a *head* on its communicator, so that matching, order and wildcards are the library's own, and
//! as pieces on another one that kernels do not know (a *shadow*), under a tag that the head names. Heads have a length of their own:
//! a message of just as many bytes goes by head and piece, too. What is no head has at most a piece's bytes. So the length of what came
//! says which it is, and no receive has to be of the message's kind: each end stages or does not.

mod heads;
mod probe;
mod receive;
mod send;

use std::collections::{HashMap, VecDeque};

use self::heads::HEAD;
use self::probe::Kept;
use self::receive::Incoming;
use self::send::Outgoing;
use super::shim::{Call, Told};
use super::{Mpi, class};
use crate::carrier::{Operation, Token, Type};
use crate::{Class, GmpiError, Status, layout};

/// Says how many bytes a piece has; 0, or not set: messages do not go in pieces.
const SETTING: &str = "GGAS_GMPI_PIECE";
/// What pieces may have.
const SIZES: std::ops::RangeInclusive<usize> = 256..=1 << 30;
/// Pieces of a message that are on their way at once.
const AHEAD: usize = 4;
/// Receives that are looked at in one round though nobody asks for them, at least.
const LOOKS: usize = 4;
/// Rounds in which all of them are looked at.
const ROUNDS: usize = 16;
/// Tokens of messages that may go in pieces: those of the library's requests are numbers of its own, which are used again.
const TOKEN: Token = 1 << 62;

type Test = unsafe extern "C" fn(u64, *mut i32, *mut Told) -> i32;

/// One of them, or a receive that may get one.
enum Way {
    Send(Box<Outgoing>),
    Receive(Box<Incoming>),
}

struct Passage {
    way: Way,
    /// Nobody will ask for it.
    is_given_up: bool,
    ended: Option<Result<Status, Class>>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Pieces {
    /// Bytes of a piece; 0: there are none.
    size: usize,
    /// Tags of the shadows, which are used in turn.
    tags: u64,
    sent: u64,
    tokens: Token,
    all: HashMap<Token, Passage>,
    /// Those that go on by themselves: all but receives that wait for a message.
    moving: Vec<Token>,
    /// Those receives, and some that do not wait any more: a few of them are looked at in turn, since who sends to one may wait for it, and
    /// nobody else here asks.
    waiting: VecDeque<Token>,
    /// Questions of single messages since others have gone on.
    asked: usize,
    /// What probes have taken out of the library's queue, in its order.
    kept: Vec<Kept>,
}

impl Pieces {
    pub fn is_on(&self) -> bool {
        self.size > 0
    }

    /// How many there are.
    pub fn under_way(&self) -> usize {
        self.all.len()
    }

    /// Whether a token is of one of them.
    pub fn is_of(token: Token) -> bool {
        token & (TOKEN | super::FLUSH) == TOKEN
    }

    /// The type by which so many bytes are sent that are one message of the library: receives do not know whether that or a head comes.
    pub fn type_of(&self, len: usize, of: Type) -> Type {
        if self.is_on() && len <= self.size { Type(layout::GMPI_BYTE) } else { of }
    }

    /// Bytes of piece `number` of so many, from its first one on.
    fn part(&self, number: usize, total: usize) -> (usize, usize) {
        let at = number * self.size;
        (at, self.size.min(total - at))
    }

    fn count(&self, total: usize) -> usize {
        total.div_ceil(self.size)
    }

    /// Whether it is a receive that no message has come for.
    fn waits(&self, token: Token) -> bool {
        self.all.get(&token).is_some_and(|passage| match &passage.way {
            Way::Receive(message) => {
                passage.ended.is_none() && !passage.is_given_up && message.waits_for_head()
            }
            Way::Send(_) => false,
        })
    }

    fn next_tag(&mut self) -> i32 {
        self.sent += 1;
        (self.sent % self.tags) as i32
    }
}

impl Drop for Pieces {
    /// The library may go on reading and writing what they have.
    fn drop(&mut self) {
        std::mem::forget((std::mem::take(&mut self.all), std::mem::take(&mut self.kept)));
    }
}

/// What the environment says; an error in words.
fn wanted() -> Result<usize, String> {
    let Some(text) = std::env::var_os(SETTING) else { return Ok(0) };
    let bytes = text.to_str().and_then(|text| text.parse().ok());
    bytes.filter(|bytes| *bytes == 0 || SIZES.contains(bytes)).ok_or_else(|| {
        let (least, most) = (SIZES.start(), SIZES.end());
        format!("{SETTING} is {text:?}: 0, or the bytes of a piece, {least} to {most}")
    })
}

impl Mpi {
    /// Whether messages go in pieces, and how long those are: the same everywhere, and so is the refusal of a size that cannot be. Collective
    /// over the world, and waits.
    pub(super) fn agree_on_pieces(&mut self) -> Result<(), GmpiError> {
        const WRONG: u64 = u64::MAX;
        let wanted = wanted();
        let own = wanted.as_ref().map_or(WRONG, |bytes| *bytes as u64);
        let failed = |class| GmpiError::Failed { what: "agreeing on the bytes of a piece", class };
        let members = self.place_of(0).map_err(failed)?.size as usize;
        let mut all = vec![0u64; members];
        // SAFETY: there are as many places as members.
        class(unsafe { (self.shim.gather)(0, own, all.as_mut_ptr()) }).map_err(failed)?;
        if all.contains(&WRONG) {
            let other = || format!("{SETTING} is not what it may be in another process");
            let why = wanted.err().unwrap_or_else(other);
            // SAFETY: nothing is called behind it, here or by others.
            class(unsafe { (self.shim.close)() }).map_err(failed)?;
            return Err(GmpiError::Mpi(why));
        }
        let size = all.into_iter().min().unwrap_or(0);
        if size != own {
            tracing::warn!("{SETTING} is not the same everywhere: it counts as {size}, not {own}");
        }
        if size > 0 {
            let mut most = 0;
            // SAFETY: the place is ours.
            class(unsafe { (self.shim.pieces)(&mut most) }).map_err(failed)?;
            (self.pieces.size, self.pieces.tags) = (size as usize, u64::from(most.max(0) as u32) + 1);
        }
        Ok(())
    }

    /// Begins a message, or a receive, where some go in pieces.
    pub(super) fn start_message(
        &mut self,
        operation: &Operation,
        short: Option<&[u8]>,
    ) -> Result<Token, Class> {
        let way = match operation {
            Operation::Send { at, .. } if at.len > self.pieces.size || at.len == HEAD => {
                Way::Send(Box::new(self.send_in_pieces(operation, short)?))
            }
            Operation::Recv { .. } => {
                Way::Receive(Box::new(self.receive_perhaps_pieces(operation, short.is_some())?))
            }
            _ => return self.begin(operation, short),
        };
        self.pieces.tokens += 1;
        let token = TOKEN | self.pieces.tokens;
        match way {
            Way::Send(_) => self.pieces.moving.push(token),
            Way::Receive(_) => self.pieces.waiting.push_back(token),
        }
        self.pieces.all.insert(token, Passage { way, is_given_up: false, ended: None });
        Ok(token)
    }

    /// Goes on with one; whether anything moved.
    fn step_message(&mut self, token: Token) -> bool {
        let Some(mut passage) = self.pieces.all.remove(&token) else { return false };
        if passage.ended.is_none() {
            let (moved, ended) = match &mut passage.way {
                Way::Send(message) => message.step(self),
                Way::Receive(message) => {
                    let waited = message.waits_for_head();
                    let (moved, ended) = message.step(self, token);
                    if waited && !message.waits_for_head() && ended.is_none() && !passage.is_given_up {
                        self.pieces.moving.push(token);
                    }
                    (moved, ended)
                }
            };
            if ended.is_some() {
                passage.ended = ended;
                self.pieces.moving.retain(|moving| *moving != token);
            }
            if passage.ended.is_none() || !passage.is_given_up {
                self.pieces.all.insert(token, passage);
            }
            return moved;
        }
        self.pieces.all.insert(token, passage);
        false
    }

    /// Goes on with all that go on by themselves, and looks at some that wait.
    pub(super) fn step_messages(&mut self) -> bool {
        self.pieces.asked = 0;
        let mut moved = self.look_at_waiting();
        if !self.pieces.moving.is_empty() {
            for token in self.pieces.moving.clone() {
                moved |= self.step_message(token);
            }
        }
        moved
    }

    fn look_at_waiting(&mut self) -> bool {
        let (mut looks, mut moved) = (0, false);
        let most = LOOKS.max(self.pieces.waiting.len().div_ceil(ROUNDS));
        for _ in 0..self.pieces.waiting.len() {
            if looks == most {
                break;
            }
            let Some(token) = self.pieces.waiting.pop_front() else { break };
            if self.pieces.waits(token) {
                looks += 1;
                moved |= self.step_message(token);
                if self.pieces.waits(token) {
                    self.pieces.waiting.push_back(token);
                }
            }
        }
        moved
    }

    /// A message is asked for. The daemon asks for each between two of its rounds, in which others go on: who asks more often has no rounds,
    /// and waits perhaps for what another process gets of those.
    pub(super) fn note_question(&mut self) {
        self.pieces.asked += 1;
        if self.pieces.asked > self.started.len() + self.pieces.under_way() {
            self.step_messages();
        }
    }

    pub(super) fn test_message(&mut self, token: Token) -> Option<Result<Status, Class>> {
        self.step_message(token);
        let ended = self.pieces.all.get_mut(&token)?.ended.take()?;
        self.pieces.all.remove(&token);
        Some(ended)
    }

    /// Nobody will ask for it: the rest of what began is sent, and received to no place.
    pub(super) fn forget_message(&mut self, token: Token) {
        let Some(mut passage) = self.pieces.all.remove(&token) else { return };
        if passage.ended.is_some() {
            return;
        }
        passage.is_given_up = true;
        let ended = match &mut passage.way {
            Way::Send(message) => message.give_up(self),
            Way::Receive(message) => message.give_up(self),
        };
        if ended.is_some() {
            return self.pieces.moving.retain(|moving| *moving != token);
        }
        if !self.pieces.moving.contains(&token) {
            self.pieces.moving.push(token);
        }
        self.pieces.all.insert(token, passage);
    }

    /// A call of the host that waits, while messages in pieces go on: who is to end it may wait for one of them.
    pub(super) fn pass_plain(&mut self, call: Call) -> Result<(), Class> {
        let request = self.begin_part(&call)?;
        loop {
            if let Some((ended, _)) = self.test_part(request) {
                return ended;
            }
            if !self.step_messages() {
                self.clock.yield_now();
            }
        }
    }

    /// Begins one call of the library for a part of a message.
    fn begin_part(&self, call: &Call) -> Result<Token, Class> {
        let mut token = 0;
        // SAFETY: the communicator is one; the callers keep the buffer, as long as the count says, until the request is over.
        class(unsafe { (self.shim.start)(call, &mut token) }).map(|()| token)
    }

    /// Whether it is over: how, and what came.
    fn test_part(&self, token: Token) -> Option<(Result<(), Class>, Told)> {
        self.test_by(self.shim.test, token)
    }

    /// The same of one that was cancelled: -1 bytes have come then, or it had got a message before.
    fn test_cancelled_part(&self, token: Token) -> Option<(Result<(), Class>, Told)> {
        self.test_by(self.shim.test_cancelled, token)
    }

    fn test_by(&self, test: Test, token: Token) -> Option<(Result<(), Class>, Told)> {
        let (mut over, mut told) = (0, Told::default());
        // SAFETY: the request is one that was started and not told to be over.
        let ended = class(unsafe { test(token, &mut over, &mut told) });
        (over != 0).then_some((ended, told))
    }
}
