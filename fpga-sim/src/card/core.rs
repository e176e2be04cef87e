//! What lies under a card's core lock: the units, and the loop that runs them.

mod needs;

use std::sync::Arc;
use std::time::Instant;

use super::board::Board;
use super::chip::Chip;
use super::front::FrontEnd;
use super::quantum;
use crate::network::fabric::{First, Pending};
use crate::packet::{Class, Packet};
use crate::short_put::ShortPut;
use crate::units::snq::Trigger;
pub(super) use needs::Mood;

/// Rounds of all units in one run, before the thread may do something else.
const ROUNDS: usize = 64;
/// Packets taken in one go, of each class.
const PACKETS: usize = 64;
/// Bytes after which no further packet is taken in this go.
const BYTES: u64 = 256 << 10;

/// What a round can bring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    Nothing,
    /// Requests came, and nothing is left of them to do.
    Settled,
    /// The request that the fabric gave, and nothing else.
    First,
    /// Packets, and nothing else.
    Packets,
    Anything,
}

/// Where the fabric gives the card a request at once.
struct Gate<'a> {
    chip: &'a mut Chip,
    held: &'a mut Option<Packet>,
    /// So many requests more may be settled.
    left: usize,
}

impl First for Gate<'_> {
    #[inline]
    fn is_free(&self) -> bool {
        self.held.is_none() & (self.left > 0)
    }

    #[inline]
    fn take(&mut self, packet: &mut Packet) {
        *self.held = Some(packet.take());
    }

    #[inline]
    fn put(&mut self, put: &ShortPut, bytes: &[u8]) -> bool {
        let settled = self.chip.take_short(put, bytes);
        self.left -= usize::from(settled);
        settled
    }

    #[inline]
    fn settle(&mut self, packet: &mut Packet, bytes: &[u8]) -> bool {
        let settled = self.chip.settle(packet, bytes);
        self.left -= usize::from(settled);
        settled
    }
}

pub(super) struct Core {
    board: Arc<Board>,
    pub(super) chip: Chip,
    /// The fabric has link work to do, at any time.
    has_links: bool,
    /// The fabric has to be asked for packets.
    polled: bool,
    /// A driver goes on where a call has run the card for long enough.
    driven: bool,
    /// Whose turn is first in the next round.
    turn: u8,
    /// A request that no unit has room for.
    held: Option<Packet>,
    /// Packets may have arrived.
    arrivals: bool,
    /// When the link layer wants to be called.
    links_again: Option<Instant>,
    links_worked: bool,
    /// Nothing in here waits or can go on, as the last look found. What changes that comes from outside, or is done in here, which
    /// [forgets it](Core::stir).
    still: bool,
    /// Off the network: what is there is another card's.
    off: bool,
}

impl Core {
    pub(super) fn new(board: &Arc<Board>, front: &Arc<FrontEnd>, driven: bool) -> Core {
        Core {
            chip: Chip::new(board, front),
            has_links: board.fabric.has_links(),
            polled: board.fabric.polled(),
            board: board.clone(),
            driven,
            turn: 0,
            held: None,
            arrivals: false,
            links_again: None,
            links_worked: false,
            still: false,
            off: false,
        }
    }

    /// Has the card do nothing any more.
    pub(super) fn turn_off(&mut self) {
        self.off = true;
    }

    /// Something is done with the units other than by [`Core::run`].
    #[inline]
    pub(super) fn stir(&mut self) {
        self.still = false;
    }

    /// A command or a request was dealt with other than by [`Core::run`].
    #[inline]
    pub(super) fn note_work(&mut self) {
        self.still &= self.chip.rests();
    }

    /// Runs all units until nothing moves, or for long enough. Returns whether anything moved, and how soon the card must run again.
    #[inline]
    pub(super) fn run(&mut self, board: &Board) -> (bool, Mood) {
        if self.off {
            return (false, self.mood());
        }
        let (mut worked, mut asks) = (false, true);
        for _ in 0..ROUNDS {
            // What a round sent over links, it sent after their step, so links are asked until nothing moves.
            let more = self.more(asks);
            if more == More::Nothing {
                return (worked, Mood::Idle);
            }
            if more == More::Settled {
                (worked, asks) = (true, false);
                continue;
            }
            let mut moved = false;
            self.still = false;
            board.memory.session(&mut || {
                moved = match more {
                    More::First => self.receive_first(),
                    More::Packets => self.receive_news(),
                    _ => self.round(),
                }
            });
            if !moved {
                return (worked, self.mood());
            }
            worked = true;
            // Who waits for what came gets it before a fabric is asked for more.
            asks = more == More::Anything;
            if self.driven && quantum::is_over(&board.clock) {
                break;
            }
        }
        self.arrivals = true; // more to do: look again even without news
        (worked, self.mood())
    }

    /// A round of which nothing can come but the request that is held.
    #[inline]
    fn receive_first(&mut self) -> bool {
        let Some(mut packet) = self.held.take() else { return false };
        let room = self.chip.has_room(&packet);
        if room {
            self.chip.accept(&mut packet);
        } else {
            (self.held, self.arrivals) = (Some(packet), true);
        }
        room
    }

    /// A round of which nothing can come but packets.
    #[inline]
    fn receive_news(&mut self) -> bool {
        self.board.news.take();
        self.receive()
    }

    #[inline]
    fn round(&mut self) -> bool {
        let turn = self.turn;
        let mut moved = self.step_links();
        // What is held came before, and nobody tells of it again. It may wait for long, and responses do not wait for it: the fabric is
        // asked as ever.
        let told = self.board.news.take() || self.arrivals && self.held.is_none();
        let (pending, settled) = if told { (Pending::Packets, false) } else { self.pending() };
        moved |= settled;
        if pending != Pending::Nothing || self.held.is_some() {
            moved |= self.receive();
        }
        let chip = &mut self.chip;
        if !chip.receiver.inbound().is_empty() {
            moved |= chip.continue_writes(turn);
        }
        if chip.smfu.is_waiting() {
            moved |= chip.continue_smfu();
        }
        if chip.notifier.has_backlog() {
            moved |= chip.notifier.drain(self.board.clock.now());
        }
        if chip.sender.responses() != 0 {
            moved |= chip.sender.resume_responses(&mut chip.notifier);
        }
        if chip.sender.has_stalled() {
            moved |= chip.sender.resume(&mut chip.notifier, turn);
        }
        moved |= self.take_commands(turn);
        let chip = &mut self.chip;
        if chip.notifier.has_awaiting() {
            moved |= chip.notifier.finish_awaited();
        }
        if chip.translation.has_flushes() {
            moved |= chip.translation.finish_flushes();
        }
        if self.board.counters.take_failed() {
            self.board.raise(Trigger::RmaError);
        }
        if self.has_system_work() {
            moved |= self.chip.run_system();
        }
        self.turn = turn.wrapping_add(1);
        moved
    }

    #[inline]
    fn step_links(&mut self) -> bool {
        if !self.has_links {
            return false;
        }
        let work = self.board.fabric.step(self.board.node, self.board.clock.now());
        self.links_again = work.again;
        self.links_worked = work.worked;
        work.worked
    }

    /// Commands and messages, from pages and from slots.
    #[inline]
    fn take_commands(&mut self, turn: u8) -> bool {
        let chip = &mut self.chip;
        let mut moved = chip.take_commands(turn);
        if chip.velo.is_waiting() {
            moved |= chip.velo.resume(turn);
        }
        if chip.velo.is_ready() {
            moved |= chip.velo.take_messages(turn);
        }
        if !chip.slots.attached().is_empty() {
            moved |= chip.poll_slots(turn);
        }
        if !chip.velo.slots.attached().is_empty() {
            moved |= chip.velo.poll_slots(turn);
        }
        if chip.has_triggers() {
            moved |= chip.run_triggers(turn);
        }
        moved
    }

    /// Takes what the network brought. Responses come first and are never held up.
    #[inline]
    fn receive(&mut self) -> bool {
        let mut moved = false;
        let mut left = false;
        let mut bytes = 0;
        for taken in 0.. {
            if taken == PACKETS || bytes >= BYTES {
                left = true;
                break;
            }
            let response = self.board.fabric.poll(self.board.node, Class::Response);
            let Some(mut packet) = response else { break };
            bytes += u64::from(packet.len);
            self.chip.accept(&mut packet);
            moved = true;
        }
        for taken in 0.. {
            if taken == PACKETS || bytes >= BYTES {
                left = true;
                break;
            }
            let packet = self.held.take();
            let packet = packet.or_else(|| self.board.fabric.poll(self.board.node, Class::Request));
            let Some(mut packet) = packet else { break };
            if !self.chip.has_room(&packet) {
                self.held = Some(packet);
                break;
            }
            bytes += u64::from(packet.len);
            self.chip.accept(&mut packet);
            moved = true;
        }
        self.arrivals = left || self.held.is_some();
        moved
    }

    /// Takes a request of this process to itself, which needs no network; gives it back while its unit has no room.
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    pub(super) fn take_own(&mut self, mut packet: Packet) -> Result<(), Packet> {
        if !self.chip.has_room(&packet) {
            return Err(packet);
        }
        if !self.off {
            self.chip.accept(&mut packet);
        }
        Ok(())
    }

    /// What waits that nobody told of; whether some of it is settled.
    #[inline]
    fn pending(&mut self) -> (Pending, bool) {
        if !self.polled {
            return (Pending::Nothing, false);
        }
        let Core { board, chip, held, .. } = self;
        let mut gate = Gate { chip, held, left: PACKETS };
        let pending = board.fabric.pending(board.node, &mut gate);
        (pending, gate.left < PACKETS)
    }

    #[inline]
    fn has_system_work(&self) -> bool {
        self.chip.system.is_ready() || self.watches()
    }

    /// Whether the card has to look at the time, or at read pointers that drivers write without telling it.
    #[inline]
    fn watches(&self) -> bool {
        self.chip.system.has_timer() || self.chip.watches_arming()
    }
}
