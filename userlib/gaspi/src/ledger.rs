//! What was posted to which queue, and what of it is done.

use std::collections::VecDeque;

use crate::GaspiError;
use crate::config::QUEUES_MAX;
use crate::stores::Order;

/// In place of a queue: of requests that are nobody's.
const PROBE: u8 = u8::MAX;

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
    way: Way,
    /// Notifications of it that are still to come.
    left: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    exists: bool,
    life: u64,
    /// Requests that were posted and not collected.
    size: u32,
    /// Of these, those that are not over, and what was posted of requests that ran out of time.
    open: u32,
    has_failed: bool,
}

/// Requests of all queues. To one process, puts end in the order of their posts, and so do gets: notifications need not
/// say which request they are of. The last put of a request has a notification, since those before are done then; each
/// get has one, since one may fail where those behind do not.
#[derive(Debug)]
pub(crate) struct Ledger {
    queues: [Queue; QUEUES_MAX as usize],
    depth: u32,
    /// By rank: those that leave, those that fetch.
    puts: Vec<VecDeque<Request>>,
    gets: Vec<VecDeque<Request>>,
    /// Notifications of commands that the card has.
    under_way: u32,
    /// Queues and ranks with puts behind which no notification was posted.
    bare: Vec<(u8, usize)>,
    /// By rank: requests that have left.
    over: Vec<u64>,
    /// By rank.
    orders: Vec<Order>,
}

impl Ledger {
    pub(crate) fn new(ranks: usize, queues: u32, depth: u32) -> Ledger {
        let mut ledger = Ledger {
            queues: Default::default(),
            depth,
            puts: vec![VecDeque::new(); ranks],
            gets: vec![VecDeque::new(); ranks],
            under_way: 0,
            bare: Vec::new(),
            over: vec![0; ranks],
            orders: vec![Order::default(); ranks],
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
        let own = self.queue(queue)?;
        *own = Queue { life: own.life + 1, ..Queue::default() };
        self.bare.retain(|(of, _)| *of != queue);
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
        Ok(self.queue(queue)?.size)
    }

    /// Whether `cost` more requests have room.
    pub(crate) fn check(&mut self, queue: u8, cost: u32) -> Result<(), GaspiError> {
        let depth = self.depth;
        if self.queue(queue)?.size + cost > depth { Err(GaspiError::QueueFull) } else { Ok(()) }
    }

    /// A request to `rank` is about to be posted, which ends with its last notification of this way; there is at least one.
    pub(crate) fn begin(&mut self, queue: u8, rank: usize, cost: u32, way: Way, notifications: u32) {
        let own = &mut self.queues[usize::from(queue)];
        own.size += cost;
        own.open += 1;
        let request = Request { queue, life: own.life, way, left: notifications };
        self.side(rank, way).push_back(request);
    }

    /// Whether stores to a rank may overtake what went through the card.
    #[inline]
    pub(crate) fn order(&mut self, rank: usize) -> &mut Order {
        &mut self.orders[rank]
    }

    /// A get was posted that finds out what has arrived at a rank; no queue waits for it.
    pub(crate) fn probe(&mut self, rank: usize) {
        self.gets[rank].push_back(Request { queue: PROBE, life: 0, way: Way::Get, left: 1 });
        self.orders[rank].probing();
        self.posted();
    }

    /// One of its commands that have a notification was posted.
    #[inline]
    pub(crate) fn posted(&mut self) {
        self.under_way += 1;
    }

    /// Notifications that the card has still to write.
    #[inline]
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// The request that began last was cut off before so many of its notifications were asked for. What was posted is
    /// waited for; the whole request may come again. `is_bare`: of its puts, whose end nothing tells.
    pub(crate) fn cut(&mut self, rank: usize, cost: u32, way: Way, missing: u32, is_bare: bool) {
        let Some(request) = self.side(rank, way).back_mut() else { return };
        request.left -= missing;
        let Request { queue, left, .. } = *request;
        let own = &mut self.queues[usize::from(queue)];
        own.size -= cost;
        if left == 0 {
            own.open -= 1;
            self.side(rank, way).pop_back();
        }
        if is_bare && !self.bare.contains(&(queue, rank)) {
            self.bare.push((queue, rank));
        }
    }

    /// The ranks with puts of a queue behind which a notification has to be posted.
    pub(crate) fn bare(&self, queue: u8) -> Option<usize> {
        self.bare.iter().find(|(of, _)| *of == queue).map(|(_, rank)| *rank)
    }

    /// It was, or the rank is gone.
    pub(crate) fn covered(&mut self, queue: u8, rank: usize) {
        self.bare.retain(|bare| *bare != (queue, rank));
    }

    /// A request that no notification of the card ends was posted; the queue's life, for its end.
    pub(crate) fn began(&mut self, queue: u8, cost: u32) -> u64 {
        let own = &mut self.queues[usize::from(queue)];
        own.size += cost;
        own.open += 1;
        own.life
    }

    /// It is over.
    pub(crate) fn ended(&mut self, queue: u8, life: u64) {
        let own = &mut self.queues[usize::from(queue)];
        if own.exists && own.life == life {
            own.open -= 1;
        }
    }

    /// Requests that left for a rank so far, and those that were to.
    pub(crate) fn puts_over(&self, rank: usize) -> u64 {
        self.over[rank]
    }

    pub(crate) fn puts_posted(&self, rank: usize) -> u64 {
        self.over[rank] + self.puts[rank].len() as u64
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
        let Some(request) = side.front_mut() else { return };
        let is_own = request.way == way;
        if !is_own && !is_error {
            return;
        }
        request.left -= u32::from(is_own);
        let request = *request;
        if request.left == 0 {
            side.pop_front();
            self.over[rank] += u64::from(way != Way::Get);
        }
        self.under_way = self.under_way.saturating_sub(is_own.into());
        self.end(rank, request, request.left == 0, is_error);
    }

    fn end(&mut self, rank: usize, request: Request, is_over: bool, is_error: bool) {
        if request.queue == PROBE {
            return self.orders[rank].probed(is_error);
        }
        let queue = &mut self.queues[usize::from(request.queue)];
        if queue.exists && queue.life == request.life {
            queue.open -= u32::from(is_over);
            queue.has_failed |= is_error;
        }
    }

    /// Whether something is fetched from a rank.
    pub(crate) fn fetches(&self, rank: usize) -> bool {
        !self.gets[rank].is_empty()
    }

    /// A process is gone: what it was to send does not come. Whether a queue waits for any of it.
    pub(crate) fn lose(&mut self, rank: usize) -> bool {
        let lost = std::mem::take(&mut self.gets[rank]);
        for request in &lost {
            self.under_way = self.under_way.saturating_sub(request.left);
            self.end(rank, *request, true, true);
        }
        lost.iter().any(|request| request.queue != PROBE)
    }

    /// The same where nothing has to be looked for; `false`: something is under way, or has failed.
    #[inline]
    pub(crate) fn collect_idle(&mut self, queue: u8) -> Result<bool, GaspiError> {
        let is_bare = self.bare(queue).is_some();
        let queue = self.queue(queue)?;
        if queue.has_failed || queue.open > 0 || is_bare {
            return Ok(false);
        }
        queue.size = 0;
        Ok(true)
    }

    /// Whether all requests of a queue are over, which are collected then.
    ///
    /// # Errors
    /// [`GaspiError::Failed`] once where some have failed; the queue goes on.
    pub(crate) fn collect(&mut self, queue: u8) -> Result<Option<()>, GaspiError> {
        let is_bare = self.bare(queue).is_some();
        let queue = self.queue(queue)?;
        if std::mem::take(&mut queue.has_failed) {
            return Err(GaspiError::Failed);
        }
        if queue.open > 0 || is_bare {
            return Ok(None);
        }
        queue.size = 0;
        Ok(Some(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of one command.
    fn post(ledger: &mut Ledger, queue: u8, rank: usize, way: Way) {
        ledger.begin(queue, rank, 1, way, 1);
        ledger.posted();
    }

    #[test]
    fn a_queue_is_bounded_and_empty_once_all_is_done() {
        let mut ledger = Ledger::new(2, 1, 4);
        assert_eq!(ledger.collect(0), Ok(Some(())), "nothing posted");
        for way in [Way::Put, Way::Immediate, Way::Get] {
            ledger.check(0, 1).unwrap();
            post(&mut ledger, 0, 1, way);
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
        post(&mut ledger, 0, 0, Way::Immediate);
        post(&mut ledger, 0, 0, Way::Put);
        post(&mut ledger, 1, 0, Way::Put);
        // The data of the first, which only its notification was to tell of.
        ledger.done(0, Way::Put, true);
        assert_eq!(ledger.collect(0), Err(GaspiError::Failed));
        assert_eq!(ledger.collect(0), Ok(None));
        ledger.done(0, Way::Immediate, false);
        ledger.done(0, Way::Put, false);
        assert_eq!((ledger.collect(0), ledger.collect(1)), (Ok(Some(())), Ok(None)));
        post(&mut ledger, 1, 0, Way::Get);
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
        post(&mut ledger, 15, 0, Way::Put);
        ledger.delete(15).unwrap();
        assert_eq!((ledger.size(15), ledger.delete(15)), (Err(GaspiError::Queue), Err(GaspiError::Queue)));
        assert_eq!(ledger.create(), Some(15));
        post(&mut ledger, 15, 0, Way::Put);
        ledger.done(0, Way::Put, false);
        assert_eq!(ledger.collect(15), Ok(None), "that was the old one's");
        ledger.done(0, Way::Put, false);
        assert_eq!(ledger.collect(15), Ok(Some(())));
        assert_eq!(ledger.size(16), Err(GaspiError::Queue));
    }

    #[test]
    fn a_request_of_several_gets_ends_with_the_last_and_fails_with_any() {
        let mut ledger = Ledger::new(1, 1, 8);
        ledger.begin(0, 0, 2, Way::Get, 3);
        (0..3).for_each(|_| ledger.posted());
        assert_eq!((ledger.under_way(), ledger.size(0)), (3, Ok(2)));
        ledger.done(0, Way::Get, true);
        assert_eq!(ledger.collect(0), Err(GaspiError::Failed));
        ledger.done(0, Way::Get, false);
        assert_eq!(ledger.collect(0), Ok(None));
        ledger.done(0, Way::Get, false);
        assert_eq!((ledger.collect(0), ledger.under_way()), (Ok(Some(())), 0));
    }

    #[test]
    fn what_was_posted_of_a_request_that_was_cut_off_is_waited_for() {
        let mut ledger = Ledger::new(1, 1, 8);
        // One of three gets.
        ledger.begin(0, 0, 3, Way::Get, 3);
        ledger.posted();
        ledger.cut(0, 3, Way::Get, 2, false);
        assert_eq!((ledger.size(0), ledger.collect(0)), (Ok(0), Ok(None)));
        // Again, whole; its notifications are not taken for those of the first attempt.
        ledger.begin(0, 0, 3, Way::Get, 3);
        (0..3).for_each(|_| ledger.posted());
        (0..3).for_each(|_| ledger.done(0, Way::Get, false));
        assert_eq!((ledger.size(0), ledger.collect(0)), (Ok(3), Ok(None)));
        ledger.done(0, Way::Get, false);
        assert_eq!(ledger.collect(0), Ok(Some(())));
        // Nothing of it.
        ledger.begin(0, 0, 3, Way::Get, 3);
        ledger.cut(0, 3, Way::Get, 3, false);
        assert_eq!(ledger.collect(0), Ok(Some(())));
        // A put without its notification.
        ledger.begin(0, 0, 2, Way::Immediate, 1);
        ledger.cut(0, 2, Way::Immediate, 1, true);
        assert_eq!((ledger.bare(0), ledger.size(0), ledger.collect(0)), (Some(0), Ok(0), Ok(None)));
        ledger.covered(0, 0);
        ledger.begin(0, 0, 0, Way::Immediate, 1);
        assert_eq!(ledger.collect(0), Ok(None));
        ledger.done(0, Way::Immediate, false);
        assert_eq!(ledger.collect(0), Ok(Some(())));
    }
}
