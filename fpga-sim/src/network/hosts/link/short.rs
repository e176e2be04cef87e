//! Messages that have a short put and nothing else. A part of [`Intake`].

use super::super::message::{self, Head};
use super::{CREDITS, Intake, Link};
use crate::packet::Class;

impl<P, G> Intake<'_, P, G> {
    /// A message that has one short put and nothing else, of a peer with which all is well, where the card has it at once. `false`, and
    /// nothing was done: it is no such message.
    #[inline]
    pub(super) fn short(&mut self, bytes: &[u8]) -> bool {
        let Ok((head, _)) = Head::of(bytes) else { return false };
        let (node, class) = (head.ticket as u16, Class::Request as usize);
        let known =
            |link: &&mut Link<P>| head.ticket != 0 && link.ticket == head.ticket && link.last.is_none();
        let may = self.has_first() && self.may_settle();
        let Some(link) = self.links.get_mut(usize::from(node)).filter(known) else { return false };
        let (from, to) = (self.places.node(node), self.places.node(self.me));
        let Some((mut put, place)) = message::decode_short(bytes, from, to) else { return false };
        let ends = [put.source, put.destination].map(|at| self.places.process(at));
        let credit = link.received[class].wrapping_sub(link.taken[class]) < CREDITS;
        let (Some(news), Some(first)) = (link.is_news(head.taken), &mut self.first) else { return false };
        put.process = link.era;
        if !may || !credit || ends != [node, self.me] || !first.put(&put, place.bytes(put.len)) {
            return false;
        }
        (link.ways.came, link.ways.fresh, link.taken_there) = (true, true, head.taken);
        *self.retry |= news && std::mem::take(&mut link.waits);
        link.received[class] = link.received[class].wrapping_add(1);
        if link.take(class) {
            self.owed.push_back(node);
        }
        self.at_once = true;
        true
    }
}
