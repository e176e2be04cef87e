//! A send and a receive that are waited for together (`MPI_Sendrecv`).

use std::time::Instant;

use super::decode::is_shaped;
use super::short::{self, Message};
use super::{Daemon, Outcome, Waiting, answer};
use crate::carrier::Token;
use crate::memory::{Landed, Shape};
use crate::rings::Attribute;
use crate::{Class, Status};

/// How far one of them is.
#[derive(Debug)]
enum Half {
    /// The other process has not taken enough yet.
    Later(Message),
    Started(Token),
    Over(Result<Status, Class>, Option<Landed>),
}

/// Both.
#[derive(Debug)]
pub(super) struct Exchange {
    send: Half,
    receive: Half,
}

impl Daemon {
    pub(super) fn exchange(&self, call: &Attribute) -> Result<Outcome, Class> {
        // The message, or the shapes of one or both types.
        let mut carried = call.carried(12).unwrap_or_default();
        let shaped = [call.elements[3], call.elements[8]].map(is_shaped);
        let mut half = |first: usize, receives: bool| {
            let mut words = [0; 6];
            words[..5].copy_from_slice(&call.elements[first..first + 5]);
            words[5] = call.elements[11];
            let len = match (shaped[usize::from(receives)], shaped.contains(&true)) {
                (true, _) => carried.len().min(8 * Shape::WORDS),
                (false, true) => 0,
                (false, false) if receives => 0,
                (false, false) => carried.len(),
            };
            let own: Vec<u8> = carried.drain(..len).collect();
            let message = self.message(words, Some(own).filter(|own| !own.is_empty()), receives)?;
            Ok(message.map_or(Half::Over(Ok(Status::NOBODY), None), Half::Later))
        };
        // Both are checked before one begins.
        let exchange = Exchange { send: half(1, false)?, receive: half(6, true)? };
        Ok(Outcome::Waits(Waiting::Exchange(Box::new(exchange))))
    }

    fn step(&mut self, half: Half) -> Half {
        match half {
            Half::Later(message) if !self.carrier.has_room(&message.operation) => Half::Later(message),
            Half::Later(message) => match message.start(&mut *self.carrier) {
                Ok(token) => self.step(Half::Started(token)),
                Err(class) => Half::Over(Err(class), None),
            },
            Half::Started(token) => match self.carrier.test(token) {
                Some(ended) => Half::Over(ended, self.carrier.landed(token)),
                None => Half::Started(token),
            },
            over @ Half::Over(..) => over,
        }
    }

    pub(super) fn go_on_exchange(&mut self, exchange: Exchange, deadline: Instant) -> Outcome {
        let (receive, send) = (self.step(exchange.receive), self.step(exchange.send));
        match (receive, send) {
            (Half::Over(received, landed), Half::Over(sent, _)) => {
                let status = received.unwrap_or(Status::EMPTY);
                let error = received.and(sent).err();
                Outcome::Answer(short::bring(answer(error, false, &[Status { error, ..status }]), landed))
            }
            (receive, send) if self.is_over(deadline) => {
                let begun = !matches!(send, Half::Later(_));
                let mut came = None;
                for half in [receive, send] {
                    match half {
                        Half::Started(token) => self.carrier.forget(token),
                        Half::Over(_, landed) => came = came.or(landed),
                        Half::Later(_) => {}
                    }
                }
                let class = if begun { Class::TIMEOUT } else { Class::NO_MEM };
                Outcome::Answer(short::bring(answer(Some(class), false, &[]), came))
            }
            (receive, send) => Outcome::Waits(Waiting::Exchange(Box::new(Exchange { send, receive }))),
        }
    }
}
