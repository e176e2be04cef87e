//! Short puts that have nothing in their way. A part of [`Core`].

use ggas_wire::Taken;

use super::super::link::CREDITS;
use super::super::message::{self, Head, SHORT_MAX};
use super::super::wire::Wire;
use super::Core;
use super::held::BUSY;
use crate::packet::{ANYONE, Class};
use crate::short_put::ShortPut;

impl<W: Wire> Core<W> {
    /// Sends a short put to a process with which all is well, at once; `false`: something is in its way, and nothing was done.
    #[inline]
    pub fn send_short(&mut self, put: &ShortPut, bytes: &[u8]) -> bool {
        let (to, class) = (self.places.process(put.destination), Class::Request as usize);
        let Some(link) = self.links.get_mut(usize::from(to)).filter(|_| to != self.me) else { return false };
        let (Some(ticket), Some(peer)) = (link.theirs, link.peer) else { return false };
        let credit = link.sent[class].wrapping_sub(link.taken_there[class]) < CREDITS;
        let meant = (put.process == link.era) | (put.process == ANYONE);
        let waits = self.may_hold && link.untaken() >= BUSY;
        if !credit | !meant | waits | !link.held.is_empty() | !self.long.releases.is_empty() {
            return false;
        }
        let mut message = [0; SHORT_MAX];
        let len = message::encode_short(put, bytes, Head { ticket, taken: link.taken }, &mut message);
        // What else there is to say of it, who sends it again hears, too.
        if !matches!(self.wire.send(peer, &message[..len]), Ok(Taken::Yes)) {
            return false;
        }
        (link.ways.used, link.told) = (true, link.taken);
        link.sent[class] = link.sent[class].wrapping_add(1);
        self.seen.asks.spare();
        true
    }
}
