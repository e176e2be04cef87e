//! What was posted to which queue, and what of it is done.

use std::collections::VecDeque;

use crate::GaspiError;
use crate::config::QUEUES_MAX;

/// Which notification tells of a request's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The requester's, of a put.
    Put,
    /// The requester's, of an immediate put.
    Immediate,
    /// The completer's, of a get.
    Get,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    queue: u8,
    /// Of the queue: an id may be another queue's by now.
    life: u64,
    cost: u32,
    way: Way,
}

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    exists: bool,
    life: u64,
    posted: u32,
    done: u32,
    has_failed: bool,
}

/// Requests of all queues. To one process, puts end in the order of their posts, and so do gets: notifications need not
/// say which request they are of.
#[derive(Debug)]
pub(crate) struct Ledger {
    queues: [Queue; QUEUES_MAX as usize],
    depth: u32,
    /// By rank: those that leave, those that fetch.
    puts: Vec<VecDeque<Request>>,
    gets: Vec<VecDeque<Request>>,
}

impl Ledger {
    pub(crate) fn new(ranks: usize, queues: u32, depth: u32) -> Ledger {
        let mut ledger = Ledger {
            queues: Default::default(),
            depth,
            puts: vec![VecDeque::new(); ranks],
            gets: vec![VecDeque::new(); ranks],
        };
        ledger.queues[..queues as usize].iter_mut().for_each(|queue| queue.exists = true);
        ledger
    }

    /// The lowest free id; `None`: all are in use.
    pub(crate) fn create(&mut self) -> Option<u8> {
        let at = self.queues.iter().position(|queue| !queue.exists)?;
        self.queues[at] = Queue { exists: true, life: self.queues[at].life, ..Queue::default() };
        Some(at as u8)
    }

    pub(crate) fn delete(&mut self, queue: u8) -> Result<(), GaspiError> {
        let queue = self.queue(queue)?;
        *queue = Queue { life: queue.life + 1, ..Queue::default() };
        Ok(())
    }

    pub(crate) fn count(&self) -> u32 {
        self.queues.iter().filter(|queue| queue.exists).count() as u32
    }

    fn queue(&mut self, queue: u8) -> Result<&mut Queue, GaspiError> {
        self.queues.get_mut(usize::from(queue)).filter(|queue| queue.exists).ok_or(GaspiError::Queue)
    }

    /// Requests that were posted and not collected.
    pub(crate) fn size(&mut self, queue: u8) -> Result<u32, GaspiError> {
        Ok(self.queue(queue)?.posted)
    }

    /// Whether `cost` more requests have room.
    pub(crate) fn check(&mut self, queue: u8, cost: u32) -> Result<(), GaspiError> {
        let depth = self.depth;
        if self.queue(queue)?.posted + cost > depth { Err(GaspiError::QueueFull) } else { Ok(()) }
    }

    /// A request to `rank` was posted, which ends with a notification of this way.
    pub(crate) fn posted(&mut self, queue: u8, rank: usize, cost: u32, way: Way) {
        let own = &mut self.queues[usize::from(queue)];
        own.posted += cost;
        let request = Request { queue, life: own.life, cost, way };
        self.side(rank, way).push_back(request);
    }

    /// A request was not posted since its target failed: the next wait says so.
    pub(crate) fn refused(&mut self, queue: u8) {
        self.queues[usize::from(queue)].has_failed = true;
    }

    fn side(&mut self, rank: usize, way: Way) -> &mut VecDeque<Request> {
        if way == Way::Get { &mut self.gets[rank] } else { &mut self.puts[rank] }
    }

    /// A notification has come. One of an error that no request waited for is of a part of the oldest request.
    pub(crate) fn done(&mut self, rank: usize, way: Way, is_error: bool) {
        let side = self.side(rank, way);
        let Some(request) = side.front().copied() else { return };
        let is_own = request.way == way;
        if is_own {
            side.pop_front();
        } else if !is_error {
            return;
        }
        self.end(request, is_own, is_error);
    }

    fn end(&mut self, request: Request, is_over: bool, is_error: bool) {
        let queue = &mut self.queues[usize::from(request.queue)];
        if queue.exists && queue.life == request.life {
            queue.done += if is_over { request.cost } else { 0 };
            queue.has_failed |= is_error;
        }
    }

    /// Whether something is fetched from a rank.
    pub(crate) fn fetches(&self, rank: usize) -> bool {
        !self.gets[rank].is_empty()
    }

    /// A process is gone: what it was to send does not come.
    pub(crate) fn lose(&mut self, rank: usize) {
        for request in std::mem::take(&mut self.gets[rank]) {
            self.end(request, true, true);
        }
    }

    /// Whether all requests of a queue are over, which are collected then.
    ///
    /// # Errors
    /// [`GaspiError::Failed`] once where some have failed; the queue goes on.
    pub(crate) fn collect(&mut self, queue: u8) -> Result<Option<()>, GaspiError> {
        let queue = self.queue(queue)?;
        if std::mem::take(&mut queue.has_failed) {
            return Err(GaspiError::Failed);
        }
        if queue.done < queue.posted {
            return Ok(None);
        }
        (queue.posted, queue.done) = (0, 0);
        Ok(Some(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_bounded_and_empty_once_all_is_done() {
        let mut ledger = Ledger::new(2, 1, 4);
        assert_eq!(ledger.collect(0), Ok(Some(())), "nothing posted");
        for way in [Way::Put, Way::Immediate, Way::Get] {
            ledger.check(0, 1).unwrap();
            ledger.posted(0, 1, 1, way);
        }
        assert_eq!(ledger.check(0, 2), Err(GaspiError::QueueFull));
        ledger.check(0, 1).unwrap();
        ledger.done(1, Way::Get, false);
        ledger.done(1, Way::Put, false);
        assert_eq!((ledger.collect(0), ledger.size(0)), (Ok(None), Ok(3)));
        ledger.done(1, Way::Immediate, false);
        assert_eq!((ledger.collect(0), ledger.size(0)), (Ok(Some(())), Ok(0)));
    }

    #[test]
    fn an_error_shows_once_and_the_rest_is_collected_later() {
        let mut ledger = Ledger::new(1, 2, 8);
        ledger.posted(0, 0, 1, Way::Immediate);
        ledger.posted(0, 0, 1, Way::Put);
        ledger.posted(1, 0, 1, Way::Put);
        // The data of the first, which only its notification was to tell of.
        ledger.done(0, Way::Put, true);
        assert_eq!(ledger.collect(0), Err(GaspiError::Failed));
        assert_eq!(ledger.collect(0), Ok(None));
        ledger.done(0, Way::Immediate, false);
        ledger.done(0, Way::Put, false);
        assert_eq!((ledger.collect(0), ledger.collect(1)), (Ok(Some(())), Ok(None)));
        ledger.posted(1, 0, 1, Way::Get);
        ledger.done(0, Way::Put, false);
        ledger.lose(0);
        assert_eq!(ledger.collect(1), Err(GaspiError::Failed));
        assert_eq!(ledger.collect(1), Ok(Some(())));
    }

    #[test]
    fn ids_are_dense_and_a_new_queue_knows_nothing_of_an_old_one() {
        let mut ledger = Ledger::new(1, 8, 8);
        let new: Vec<u8> = std::iter::from_fn(|| ledger.create()).collect();
        assert_eq!((new, ledger.count()), ((8..16).collect(), 16));
        ledger.posted(15, 0, 1, Way::Put);
        ledger.delete(15).unwrap();
        assert_eq!((ledger.size(15), ledger.delete(15)), (Err(GaspiError::Queue), Err(GaspiError::Queue)));
        assert_eq!(ledger.create(), Some(15));
        ledger.posted(15, 0, 1, Way::Put);
        ledger.done(0, Way::Put, false);
        assert_eq!(ledger.collect(15), Ok(None), "that was the old one's");
        ledger.done(0, Way::Put, false);
        assert_eq!(ledger.collect(15), Ok(Some(())));
        assert_eq!(ledger.size(16), Err(GaspiError::Queue));
    }
}
