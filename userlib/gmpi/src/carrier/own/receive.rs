//! Receives and their messages: matched, asked for, put to their place.

use super::super::Token;
use super::flow::{Item, Then};
use super::matching::{Envelope, Message};
use super::net::PAYLOAD;
use super::{Body, Own, Pending, Target, kind};
use crate::layout::GMPI_ANSWER_MESSAGE;
use crate::memory::Landed;
use crate::{Class, GmpiError, Status};

impl Own {
    /// A message: for a receive, or kept until there is one.
    pub(super) fn arrived(&mut self, message: Message<Body>) {
        let context = message.envelope.context;
        match self.matching.arrive(message) {
            Some((token, message)) => self.matched(token, message),
            None if self.is_over(context) => self.refuse_last(),
            None => {}
        }
    }

    /// A receive has its message.
    pub(super) fn matched(&mut self, token: Token, message: Message<Body>) {
        let source = message.envelope.source;
        if matches!(message.body, Body::Bytes(_)) {
            self.net.received(source as usize);
        }
        match self.pending.remove(&token) {
            Some(Pending::Part { of }) => match message.body {
                Body::Bytes(bytes) => {
                    self.pending.insert(token, Pending::Part { of });
                    self.take_piece(token, &bytes);
                }
                Body::Asks { len, send } => self.accept_piece(of, token, source, len, send),
            },
            Some(Pending::Receive { at, comm }) => self.received(token, at, comm, message),
            _ => {}
        }
    }

    /// Bytes of a receive: to their place, or kept.
    fn land(&mut self, token: Token, at: Target, mut bytes: Vec<u8>) -> Result<(), Class> {
        bytes.truncate(at.span.len);
        let landed = Landed { at: at.span, bytes };
        if !at.keeps || landed.bytes.len() > GMPI_ANSWER_MESSAGE as usize {
            return landed.store();
        }
        if !landed.bytes.is_empty() && !self.forgotten.contains(&token) {
            self.landed.insert(token, landed);
        }
        Ok(())
    }

    /// Bytes that a receive was told of before, which come in their order.
    pub(super) fn came(&mut self, token: Token, at: u64, all: u64, bytes: Vec<u8>) {
        let Some(Pending::Arriving { at: target, status, .. }) = self.pending.get_mut(&token) else {
            return self.take_piece(token, &bytes);
        };
        if (bytes.len() as u64) < all {
            if target.span.write(at as usize, &bytes).is_err() {
                status.error = Some(Class::INTERN);
            }
            if at + (bytes.len() as u64) < all {
                return;
            }
            let Some(Pending::Arriving { status, .. }) = self.pending.remove(&token) else { return };
            return self.end(token, status.error.map_or(Ok(status), Err));
        }
        if let Some(Pending::Arriving { at, status, .. }) = self.pending.remove(&token) {
            let landed = self.land(token, at, bytes);
            self.end(token, landed.and(status.error.map_or(Ok(status), Err)));
        }
    }

    fn received(&mut self, token: Token, at: Target, comm: usize, message: Message<Body>) {
        let Envelope { source, tag, .. } = message.envelope;
        let rank = self.group_of(comm).ok().and_then(|group| group.rank_of(source));
        let len = match &message.body {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Asks { len, .. } => *len,
        };
        let fits = len.min(at.span.len as u64);
        let error = (len > fits).then_some(Class::TRUNCATE);
        let status = Status { source: rank.map_or(-1, |rank| rank as i32), tag, bytes: fits, error };
        match message.body {
            Body::Bytes(bytes) => {
                let landed = self.land(token, at, bytes);
                self.end(token, landed.and(error.map_or(Ok(status), Err)));
            }
            Body::Asks { send, .. } if source == self.rank => {
                let bytes = match self.pending.get_mut(&send) {
                    Some(Pending::Send { bytes: Some(bytes), .. }) => Ok(std::mem::take(bytes)),
                    Some(Pending::Send { at: from, .. }) => from.read().map_err(|_| Class::INTERN),
                    _ => Ok(Vec::new()),
                };
                let landed = bytes.and_then(|bytes| self.land(token, at, bytes));
                self.limits.granted(source);
                self.sent(send);
                self.end(token, landed.and(error.map_or(Ok(status), Err)));
            }
            Body::Asks { send, .. } => {
                let (index, offset) = (at.span.index, at.span.offset);
                let nla = self.regions.get(index).and_then(|region| region.nla(offset).ok());
                let words = [send, nla.unwrap_or_default(), fits, token, at.span.shape.is_some().into()];
                self.pending.insert(token, Pending::Arriving { at, status, from: source });
                self.frame(source, kind::GRANT, words, Vec::new(), Then::Nothing);
            }
        }
    }

    /// The receiver of a long message has said where it may go. What does not lie together at one end goes in frames.
    pub(super) fn granted(
        &mut self,
        to: u32,
        send: Token,
        nla: u64,
        len: u64,
        receive: Token,
        frames: bool,
    ) -> Result<(), GmpiError> {
        self.limits.granted(to);
        if matches!(self.pending.get(&send), Some(Pending::Piece { .. })) {
            self.piece_granted(send, receive);
            return Ok(());
        }
        let Some(Pending::Send { at, bytes, .. }) = self.pending.get_mut(&send) else { return Ok(()) };
        let bytes = match bytes.take() {
            None if frames || at.shape.is_some() => Some(at.read()?),
            bytes => bytes,
        };
        let len = (len as usize).min(at.len);
        if let Some(bytes) = bytes {
            for from in (0..len.max(1)).step_by(PAYLOAD) {
                let end = (from + PAYLOAD).min(len);
                let then = if end == len { Then::Sent(send) } else { Then::Nothing };
                let words = [receive, from as u64, len as u64, 0, 0];
                self.frame(to, kind::PIECE, words, bytes[from..end].to_vec(), then);
            }
            return Ok(());
        }
        let item = Item::Put { region: at.index, offset: at.offset, len, nla };
        self.flow.push(to as usize, item);
        self.frame(to, kind::SENT, [receive, 0, 0, 0, 0], Vec::new(), Then::Taken(send));
        Ok(())
    }
}
