//! Which message goes to which receive: MPI's rule, among messages and receives in the order in which they came.

use std::collections::VecDeque;

use super::super::Token;

/// Where a message belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Of the communicator, and for what.
    pub context: u64,
    /// Rank in the world.
    pub source: u32,
    pub tag: i32,
}

/// What a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub context: u64,
    pub source: Option<u32>,
    pub tag: Option<i32>,
}

impl Wanted {
    fn takes(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

/// A message that came before its receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<B> {
    pub envelope: Envelope,
    pub body: B,
}

/// Receives that wait for messages, and messages that wait for receives.
#[derive(Debug)]
pub struct Matching<B> {
    posted: VecDeque<(Wanted, Token)>,
    unexpected: VecDeque<Message<B>>,
}

impl<B> Default for Matching<B> {
    fn default() -> Self {
        Self { posted: VecDeque::new(), unexpected: VecDeque::new() }
    }
}

impl<B> Matching<B> {
    /// A receive: the first message that it takes; else it waits.
    pub fn post(&mut self, wanted: Wanted, token: Token) -> Option<Message<B>> {
        let found = self.unexpected.iter().position(|message| wanted.takes(&message.envelope));
        match found {
            Some(index) => self.unexpected.remove(index),
            None => {
                self.posted.push_back((wanted, token));
                None
            }
        }
    }

    /// A message: the first receive that takes it and the message back; else it waits.
    pub fn arrive(&mut self, message: Message<B>) -> Option<(Token, Message<B>)> {
        let found = self.posted.iter().position(|(wanted, _)| wanted.takes(&message.envelope));
        match found.and_then(|index| self.posted.remove(index)) {
            Some((_, token)) => Some((token, message)),
            None => {
                self.unexpected.push_back(message);
                None
            }
        }
    }

    /// The message that a receive would get.
    pub fn probe(&self, wanted: &Wanted) -> Option<&Message<B>> {
        self.unexpected.iter().find(|message| wanted.takes(&message.envelope))
    }

    /// Takes out the messages that wait in contexts of which this says so.
    pub fn drop_contexts(&mut self, says: impl Fn(u64) -> bool) -> Vec<Message<B>> {
        let (gone, kept) =
            self.unexpected.drain(..).partition(|message: &Message<B>| says(message.envelope.context));
        self.unexpected = kept;
        VecDeque::into_iter(gone).collect()
    }

    /// Takes out the message that came last of those that wait.
    pub fn drop_last(&mut self) -> Option<Message<B>> {
        self.unexpected.pop_back()
    }

    /// Messages that nobody has received.
    #[cfg(test)]
    pub fn kept(&self) -> impl Iterator<Item = &Message<B>> {
        self.unexpected.iter()
    }

    /// A receive is given up; whether it still waited.
    pub fn cancel(&mut self, token: Token) -> bool {
        let found = self.posted.iter().position(|(_, posted)| *posted == token);
        found.and_then(|index| self.posted.remove(index)).is_some()
    }

    /// Drops the messages of a process that this says of.
    pub fn drop_from(&mut self, source: u32, says: impl Fn(&B) -> bool) {
        self.unexpected.retain(|message| message.envelope.source != source || !says(&message.body));
    }

    /// Takes out the receives that only a process that is gone could serve; `left`: contexts in which nobody else is.
    pub fn lose(&mut self, source: u32, left: &[u64]) -> Vec<Token> {
        let hopeless = |wanted: &Wanted| {
            wanted.source.map_or_else(|| left.contains(&wanted.context), |wanted_from| wanted_from == source)
        };
        let (lost, kept) = self.posted.drain(..).partition(|(wanted, _)| hopeless(wanted));
        self.posted = kept;
        VecDeque::into_iter(lost).map(|(_, token)| token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(source: u32, tag: i32, body: u32) -> Message<u32> {
        Message { envelope: Envelope { context: 4, source, tag }, body }
    }

    fn wanted(source: Option<u32>, tag: Option<i32>) -> Wanted {
        Wanted { context: 4, source, tag }
    }

    #[test]
    fn messages_of_one_sender_do_not_overtake() {
        let mut matching = Matching::default();
        for body in 0..3 {
            assert!(matching.arrive(message(1, 7, body)).is_none());
        }
        assert!(matching.arrive(message(2, 7, 9)).is_none());
        assert_eq!(matching.probe(&wanted(None, Some(7))).map(|message| message.body), Some(0));
        assert_eq!(matching.post(wanted(Some(2), None), 1).map(|message| message.body), Some(9));
        for body in 0..3 {
            assert_eq!(matching.post(wanted(None, Some(7)), 2).map(|message| message.body), Some(body));
        }
    }

    #[test]
    fn the_first_receive_that_takes_a_message_gets_it() {
        let mut matching = Matching::default();
        assert!(matching.post(wanted(Some(1), Some(5)), 10).is_none());
        assert!(matching.post(wanted(None, None), 11).is_none());
        assert!(matching.post(wanted(None, Some(5)), 12).is_none());
        assert_eq!(matching.arrive(message(2, 5, 0)).map(|(token, _)| token), Some(11));
        assert_eq!(matching.arrive(message(1, 5, 1)).map(|(token, _)| token), Some(10));
        let other = Message { envelope: Envelope { context: 5, source: 1, tag: 5 }, body: 2 };
        assert!(matching.arrive(other).is_none(), "another communicator");
        assert!(matching.cancel(12) && !matching.cancel(12));
    }

    #[test]
    fn receives_from_a_dead_process_are_taken_out() {
        let mut matching: Matching<u32> = Matching::default();
        assert!(matching.post(wanted(Some(1), None), 1).is_none());
        assert!(matching.post(wanted(None, None), 2).is_none());
        assert_eq!(matching.lose(1, &[]), [1]);
        assert_eq!(matching.lose(3, &[4]), [2]);
    }
}
