//! Messages that nobody waits for: what has no room yet is sent later, behind what was given before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::wire::Message;

/// Messages that have no room yet, by receiver. As many as a receiver has asked for: who takes none asks for none.
#[derive(Default)]
pub(crate) struct Outbox(Mutex<BTreeMap<usize, VecDeque<Message>>>);

impl Outbox {
    /// Gives a message to `send`, which does not wait and says whether it is done with it; `true`: it is the first that has
    /// to be [`flush`](Self::flush)ed later.
    pub(crate) fn post(
        &self,
        rank: usize,
        message: Message,
        mut send: impl FnMut(usize, &Message) -> bool,
    ) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Only behind those that wait: the order is that of the posts.
        if !waiting.contains_key(&rank) && send(rank, &message) {
            return false;
        }
        let is_first = waiting.is_empty();
        waiting.entry(rank).or_default().push_back(message);
        is_first
    }

    /// Gives all that wait to `send`, as far as it takes them; `true`: some are left.
    pub(crate) fn flush(&self, mut send: impl FnMut(usize, &Message) -> bool) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|rank, messages| {
            while messages.front().is_some_and(|message| send(*rank, message)) {
                messages.pop_front();
            }
            !messages.is_empty()
        });
        !waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Answer;
    use std::cell::RefCell;

    #[test]
    fn nothing_is_dropped_and_each_receiver_gets_its_messages_in_order() {
        let (outbox, full, taken) = (Outbox::default(), RefCell::new(vec![true, false]), RefCell::default());
        let send = |rank: usize, message: &Message| {
            let is_taken = !full.borrow()[rank];
            if is_taken && let Message::Answer { call, .. } = message {
                let taken: &RefCell<Vec<(usize, u64)>> = &taken;
                taken.borrow_mut().push((rank, *call));
            }
            is_taken
        };
        let answer = |call| Message::Answer { call, answer: Answer::Done };
        assert!(outbox.post(0, answer(1), send));
        assert!(!outbox.post(1, answer(2), send), "another receiver has room");
        assert!(outbox.flush(send), "still no room");
        full.borrow_mut()[0] = false;
        // Not before the first one, and one flush is for both.
        assert!(!outbox.post(0, answer(3), send));
        assert!(!outbox.flush(send));
        assert_eq!(*taken.borrow(), [(1, 2), (0, 1), (0, 3)]);
        assert!(!outbox.post(0, answer(4), send));
    }
}
