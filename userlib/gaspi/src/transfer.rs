//! Writes, reads and notifications: on their way to the card, or carried out here.

use std::time::Duration;

use extoll_abi::MAX_TRANSFER;
use ggas::{PostError, Spec};
use ggas_clock::Backoff;

use crate::ledger::{Ledger, Way};
use crate::passive::turn;
use crate::request::{Checked, End};
use crate::segment::FLAG;
use crate::shared::{Link, Shared};
use crate::{GaspiError, Timeout};

/// How long a post waits for room in any case. The card takes a command in far less unless what it is for stands still.
const PATIENCE: Duration = Duration::from_millis(100);

/// Why a request was cut off.
enum Cut {
    /// The card took nothing all the time.
    Time,
    Failed(String),
}

/// What of a request the card has.
#[derive(Default)]
struct Posted {
    commands: u32,
    notifications: u32,
}

impl Posted {
    #[inline]
    fn count(&mut self, ledger: &mut Ledger, is_told: bool) {
        self.commands += 1;
        if is_told {
            self.notifications += 1;
            ledger.posted();
        }
    }
}

impl Shared {
    /// Posts what the parts say, then the notification; in the order of posts, and nothing where the queue has no room.
    /// What ran out of time halfway is waited for, and is posted again as a whole by the next call.
    pub(crate) fn post(
        &self,
        queue: u8,
        rank: u16,
        parts: &[Checked],
        end: Option<End<'_>>,
        is_read: bool,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let count = parts.iter().filter(|part| part.bytes > 0).count() as u32;
        // A part and its notification are one request.
        let cost = if parts.len() > 1 { count + u32::from(end.is_some()) } else { 1 };
        if count == 0 && end.is_none() {
            return self.ledger().size(queue).map(drop);
        }
        let (rank, patience) = (usize::from(rank), timeout.duration().max(PATIENCE));
        // Requests to a process end in the order of their posts: one is posted at a time.
        let _turn = turn(self, &self.turns[rank], Timeout::Within(patience))?;
        let mut ledger = self.ledger();
        ledger.check(queue, cost)?;
        if let Some(direct) = self.direct(parts, end.as_ref(), is_read) {
            return self.post_direct(&mut ledger, queue, rank, cost, direct);
        }
        if end.is_some() {
            self.settle_direct(rank)?;
        }
        if !is_read && self.store(&mut ledger, rank, parts, end.as_ref()) {
            let life = ledger.began(queue, cost);
            ledger.ended(queue, life);
            return Ok(());
        }
        if self.has_departed(rank) {
            self.refuse(&mut ledger, queue, rank, "its process has ended");
            return Ok(());
        }
        drop(ledger);
        self.post_to_card((queue, cost), rank, parts, end.as_ref(), is_read, patience)
    }

    /// The same through the card.
    fn post_to_card(
        &self,
        (queue, cost): (u8, u32),
        rank: usize,
        parts: &[Checked],
        end: Option<&End<'_>>,
        is_read: bool,
        patience: Duration,
    ) -> Result<(), GaspiError> {
        self.gpu.card_used(rank);
        let way = match end {
            Some(End::Tell { .. }) => Way::Immediate,
            _ if is_read => Way::Get,
            _ => Way::Put,
        };
        let commands =
            || parts.iter().map(|part| part.bytes.div_ceil(MAX_TRANSFER.into()) as u32).sum::<u32>();
        let notifications = if is_read { commands() + u32::from(end.is_some()) } else { 1 };
        self.ledger().begin(queue, rank, cost, way, notifications);
        let mut posted = Posted::default();
        let sent = self.transfer(rank, parts, end, is_read, patience, &mut posted);
        let mut ledger = self.ledger();
        if !is_read {
            self.went_through_card(&mut ledger, rank, parts, end);
        }
        let Err(error) = sent else { return Ok(()) };
        let is_bare = matches!(error, Cut::Time) && posted.commands > posted.notifications;
        ledger.cut(rank, cost, way, notifications - posted.notifications, is_bare);
        match error {
            Cut::Time => return Err(GaspiError::Timeout),
            Cut::Failed(why) => self.refuse(&mut ledger, queue, rank, why),
        }
        Ok(())
    }

    /// A post to a rank whose process has ended is none.
    pub(crate) fn has_departed(&self, rank: usize) -> bool {
        self.deaths.has_any_departed() && self.is_gone(rank)
    }

    /// As of a card: the post is taken, and the wait tells what became of it.
    #[cold]
    fn refuse(&self, ledger: &mut Ledger, queue: u8, rank: usize, why: impl std::fmt::Display) {
        tracing::warn!("a request to rank {rank} was not posted: {why}");
        self.mark(rank);
        ledger.refused(queue);
    }

    /// Hands the commands of a request to the card, and counts them.
    fn transfer(
        &self,
        rank: usize,
        parts: &[Checked],
        end: Option<&End<'_>>,
        is_read: bool,
        patience: Duration,
        posted: &mut Posted,
    ) -> Result<(), Cut> {
        let Link { data: link, one, .. } = &self.links[rank];
        let mut left: u64 = parts.iter().map(|part| part.bytes).sum();
        for part in parts {
            for at in (0..part.bytes).step_by(MAX_TRANSFER as usize) {
                let bytes = (part.bytes - at).min(MAX_TRANSFER.into());
                left -= bytes;
                let (data, offset) = (&part.segment.data, part.offset + at as usize);
                let (bytes, remote) = (bytes as usize, part.remote + at);
                let is_told = is_read || left == 0 && end.is_none();
                self.command(rank, patience, is_told, posted, || match (is_read, is_told) {
                    (true, _) => link.try_get(data, offset, bytes, remote, Spec::COMPLETER),
                    (_, true) => link.try_put(data, offset, bytes, remote, Spec::REQUESTER),
                    _ => link.try_put(data, offset, bytes, remote, Spec::empty()),
                })?;
            }
        }
        let Some(end) = end else { return Ok(()) };
        self.command(rank, patience, true, posted, || match end {
            End::Tell { value, flag, .. } => {
                link.try_immediate_put((*value).into(), 8, *flag, Spec::REQUESTER)
            }
            // Behind the data, of the same process: a word that is 1.
            End::Fetch { segment, id } => {
                let offset = u64::from(*id) * FLAG;
                link.try_get(&segment.flags, offset as usize, 8, *one, Spec::COMPLETER)
            }
        })
    }

    /// Hands a command to the card once there is room for it and for its notification: one that finds no room stops the card.
    /// Nobody else is held up by the wait but who posts to the same process.
    fn command(
        &self,
        rank: usize,
        patience: Duration,
        is_told: bool,
        posted: &mut Posted,
        post: impl Fn() -> Result<(), PostError>,
    ) -> Result<(), Cut> {
        let mut backoff = None;
        loop {
            {
                let mut ledger = self.ledger();
                if self.has_departed(rank) {
                    return Err(Cut::Failed("its process has ended".into()));
                }
                let done = if self.has_room(&mut ledger) { post() } else { Err(PostError::WouldBlock) };
                match done {
                    Ok(()) => {
                        posted.count(&mut ledger, is_told);
                        return Ok(());
                    }
                    Err(PostError::WouldBlock) => {}
                    Err(error) => return Err(Cut::Failed(error.to_string())),
                }
            }
            let backoff = backoff.get_or_insert_with(|| Backoff::new(self.clock(), patience));
            backoff.pause().map_err(|_| Cut::Time)?;
            self.data.progress();
        }
    }

    /// Whether the card may be asked for one more notification.
    #[inline]
    fn has_room(&self, ledger: &mut Ledger) -> bool {
        if ledger.under_way() >= self.notifications {
            self.data.progress();
            self.take_notifications(ledger);
            self.look_for_losses(ledger);
        }
        ledger.under_way() < self.notifications
    }

    /// Waits for that.
    pub(crate) fn make_room(&self, ledger: &mut Ledger) -> Result<(), GaspiError> {
        Timeout::Within(self.data.config().post_timeout)
            .wait(self.clock(), || Ok(self.has_room(ledger).then_some(())))
    }

    /// Posts the notifications that are missing behind puts whose request was cut off: a word of each rank that is 1
    /// becomes 1 again.
    pub(crate) fn cover(&self, ledger: &mut Ledger, queue: u8) {
        let Some(rank) = ledger.bare(queue) else { return };
        // Who posts to the rank now is behind them.
        let Ok(_turn) = self.turns[rank].try_lock() else { return };
        let Link { data, one, .. } = &self.links[rank];
        match data.try_immediate_put(1, 8, *one, Spec::REQUESTER) {
            Ok(()) => {
                ledger.begin(queue, rank, 0, Way::Immediate, 1);
                ledger.posted();
                ledger.covered(queue, rank);
            }
            Err(PostError::WouldBlock) => {}
            Err(error) => {
                tracing::warn!("rank {rank}: {error}");
                self.mark(rank);
                ledger.covered(queue, rank);
                ledger.refused(queue);
            }
        }
    }
}
