//! A send and a receive that are waited for together (`MPI_Sendrecv`).

use std::time::Instant;

use super::{Daemon, Outcome, Waiting, answer};
use crate::carrier::{Operation, Token};
use crate::rings::Attribute;
use crate::{Class, Status};

/// How far one of them is.
#[derive(Debug)]
enum Half {
    /// The other process has not taken enough yet.
    Later(Operation),
    Started(Token),
    Over(Result<Status, Class>),
}

/// Both.
#[derive(Debug)]
pub(super) struct Exchange {
    send: Half,
    receive: Half,
}

impl Daemon {
    pub(super) fn exchange(&self, call: &Attribute) -> Result<Outcome, Class> {
        let half = |first: usize, receives: bool| {
            let mut words = [0; 6];
            words[..5].copy_from_slice(&call.elements[first..first + 5]);
            words[5] = call.elements[11];
            let operation = self.message(words, receives)?;
            Ok(operation.map_or(Half::Over(Ok(Status::NOBODY)), Half::Later))
        };
        // Both are checked before one begins.
        let exchange = Exchange { send: half(1, false)?, receive: half(6, true)? };
        Ok(Outcome::Waits(Waiting::Exchange(Box::new(exchange))))
    }

    fn step(&mut self, half: Half) -> Half {
        match half {
            Half::Later(operation) if !self.carrier.has_room(&operation) => Half::Later(operation),
            Half::Later(operation) => match self.carrier.start(&operation) {
                Ok(token) => self.step(Half::Started(token)),
                Err(class) => Half::Over(Err(class)),
            },
            Half::Started(token) => self.carrier.test(token).map_or(Half::Started(token), Half::Over),
            over @ Half::Over(_) => over,
        }
    }

    pub(super) fn go_on_exchange(&mut self, exchange: Exchange, deadline: Instant) -> Outcome {
        let (receive, send) = (self.step(exchange.receive), self.step(exchange.send));
        match (receive, send) {
            (Half::Over(received), Half::Over(sent)) => {
                let status = received.unwrap_or(Status::EMPTY);
                let error = received.and(sent).err();
                Outcome::Answer(answer(error, false, &[Status { error, ..status }]))
            }
            (receive, send) if self.is_over(deadline) => {
                let begun = !matches!(send, Half::Later(_));
                for half in [receive, send] {
                    if let Half::Started(token) = half {
                        self.carrier.forget(token);
                    }
                }
                let class = if begun { Class::TIMEOUT } else { Class::NO_MEM };
                Outcome::Answer(answer(Some(class), false, &[]))
            }
            (receive, send) => Outcome::Waits(Waiting::Exchange(Box::new(Exchange { send, receive }))),
        }
    }
}
