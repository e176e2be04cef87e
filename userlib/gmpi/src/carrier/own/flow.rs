//! What waits to be sent to each other process: frames and puts, in one order.

use std::collections::VecDeque;

use ggas::Region;

use super::super::Token;
use super::net::{Header, Net};
use crate::GmpiError;

/// Which operation is over once an item has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Nothing,
    /// Once it was sent: its bytes are ours.
    Sent(Token),
    /// Once the other process has taken it: what was put before it has been read.
    Taken(Token),
}

/// One thing to send.
#[derive(Debug)]
pub enum Item {
    Frame { header: Header, payload: Vec<u8>, then: Then },
    Put { region: usize, offset: usize, len: usize, nla: u64 },
}

/// All that waits.
#[derive(Debug, Default)]
pub struct Flow {
    waiting: Vec<VecDeque<Item>>,
    /// Number of the frame that has to be taken, by process.
    untaken: Vec<VecDeque<(u64, Token)>>,
}

impl Flow {
    pub fn new(size: usize) -> Flow {
        Flow { waiting: (0..size).map(|_| VecDeque::new()).collect(), untaken: vec![VecDeque::new(); size] }
    }

    /// Behind what waits already.
    pub fn push(&mut self, to: usize, item: Item) {
        self.waiting[to].push_back(item);
    }

    /// How many items wait for `to`.
    pub fn len(&self, to: usize) -> usize {
        self.waiting[to].len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Sends what there is room for. Operations that are over are added to `over`; whether anything went.
    pub fn send(
        &mut self,
        net: &mut Net,
        regions: &[Region],
        over: &mut Vec<Token>,
    ) -> Result<bool, GmpiError> {
        let mut went = false;
        for to in 0..self.waiting.len() {
            while self.step(to, net, regions, over)? {
                went = true;
            }
            let taken = net.taken_by(to);
            while let Some((number, token)) = self.untaken[to].front().copied() {
                if taken <= number {
                    break;
                }
                over.push(token);
                self.untaken[to].pop_front();
                went = true;
            }
        }
        Ok(went)
    }

    /// The first item that waits for `to`, or a piece of it.
    fn step(
        &mut self,
        to: usize,
        net: &mut Net,
        regions: &[Region],
        over: &mut Vec<Token>,
    ) -> Result<bool, GmpiError> {
        let Some(item) = self.waiting[to].front_mut() else { return Ok(false) };
        match item {
            Item::Frame { header, payload, then } => {
                if !net.send(to, *header, payload)? {
                    return Ok(false);
                }
                match *then {
                    Then::Nothing => {}
                    Then::Sent(token) => over.push(token),
                    Then::Taken(token) => self.untaken[to].push_back((net.sent_to(to) - 1, token)),
                }
            }
            Item::Put { region, offset, len, nla } if *len > 0 => {
                let put = net.put(to, &regions[*region], *offset, *len, *nla)?;
                (*offset, *len, *nla) = (*offset + put, *len - put, *nla + put as u64);
                if *len > 0 {
                    return Ok(put > 0);
                }
            }
            Item::Put { .. } => {}
        }
        self.waiting[to].pop_front();
        Ok(true)
    }

    /// The process is gone: the operations that waited for it.
    pub fn lose(&mut self, to: usize) -> Vec<Token> {
        let waiting = self.waiting[to].drain(..).filter_map(|item| match item {
            Item::Frame { then: Then::Sent(token) | Then::Taken(token), .. } => Some(token),
            _ => None,
        });
        let waiting: Vec<Token> = waiting.collect();
        waiting.into_iter().chain(self.untaken[to].drain(..).map(|(_, token)| token)).collect()
    }
}
