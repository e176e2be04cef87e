//! Short messages: those that are sent come in the call's attribute, those that are received go back in an answer, so neither is copied
//! from or to the kernels' memory by the host (`kernels/include/ggas/impl/gmpi_short.h`).

use super::Daemon;
use crate::Class;
use crate::carrier::{Carrier, Operation, Token};
use crate::layout::{
    GMPI_ANSWER_ERROR_BITS, GMPI_ANSWER_MESSAGE, GMPI_ANSWER_MESSAGES_SHIFT, GMPI_ELEMENTS,
    GMPI_MESSAGE_BYTES_SHIFT,
};
use crate::memory::Landed;

/// A message, or an allreduce, and its bytes where its call carried them.
#[derive(Debug)]
pub(super) struct Message {
    pub operation: Operation,
    carried: Option<Vec<u8>>,
    /// Kernels can store what comes.
    answers: bool,
}

impl Message {
    /// Whether its call brought its bytes.
    pub fn is_carried(&self) -> bool {
        self.carried.is_some()
    }

    pub fn start(&self, carrier: &mut dyn Carrier) -> Result<Token, Class> {
        match (&self.carried, &self.operation) {
            // Its bytes are in its memory, too.
            (Some(_), Operation::Allreduce { .. }) if !self.answers => carrier.start(&self.operation),
            (Some(bytes), _) => carrier.start_short(&self.operation, bytes),
            (None, Operation::Recv { .. }) if self.answers => carrier.start_short(&self.operation, &[]),
            (None, _) => carrier.start(&self.operation),
        }
    }
}

impl Daemon {
    /// An operation with what its call carried, which is checked against its count.
    pub(super) fn carry(&self, operation: Operation, carried: Option<Vec<u8>>) -> Result<Message, Class> {
        let answers = match &operation {
            Operation::Send { at, .. } | Operation::Allreduce { from: at, .. }
                if carried.as_ref().is_some_and(|bytes| bytes.len() != at.len) =>
            {
                return Err(Class::COUNT);
            }
            Operation::Recv { at, .. } | Operation::Allreduce { to: at, .. } => {
                at.shape.is_none()
                    && self.attached.is_reached(at)
                    && at.address() >> GMPI_MESSAGE_BYTES_SHIFT == 0
            }
            _ => false,
        };
        Ok(Message { operation, carried, answers })
    }
}

/// Adds messages to an answer; those for which it has no room are stored here.
pub(super) fn bring(mut answer: Vec<u64>, landed: impl IntoIterator<Item = Landed>) -> Vec<u64> {
    for message in landed {
        let (len, words) = (message.bytes.len(), message.bytes.len().div_ceil(8));
        if len <= GMPI_ANSWER_MESSAGE as usize && answer.len() + 1 + words <= GMPI_ELEMENTS as usize {
            answer[0] += 1 << GMPI_ANSWER_MESSAGES_SHIFT;
            answer.push(message.at.address() | (len as u64) << GMPI_MESSAGE_BYTES_SHIFT);
            answer.extend(message.bytes.chunks(8).map(word));
        } else if let Err(class) = message.store()
            && answer[0] & ((1 << GMPI_ANSWER_ERROR_BITS) - 1) == 0
        {
            answer[0] |= u64::from(class.0);
        }
    }
    answer
}

/// Up to 8 bytes, the first one lowest.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
