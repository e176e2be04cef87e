//! Posting through a write-combining buffer: a committed count, and a ring of what was written for the case that the
//! card rejects it (spec 2.4, 7).

use ggas_clock::Clock;

use crate::{RegisterMap, wcb::Wcb};

/// Entries of the replay ring; the committed count is modulo this.
pub const REPLAY_RING: usize = 256;

/// What is stored into a write-combining buffer of a `Unit` in one go: a descriptor or a message.
pub trait WcbLine<Unit: ?Sized> {
    /// Stores the words in ascending order, after what they refer to, and flushes the processor's own buffer.
    fn store(&self, unit: &Unit);

    /// The clock of the unit.
    fn clock(unit: &Unit) -> &Clock;

    /// Lets a model work; whether it had anything to do.
    fn progress(unit: &Unit) -> bool;
}

/// Nothing could be written: the ring is full, or a rejection is still being worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNow;

/// The writer's side of a VPID's write-combining buffer. One writer at a time: the caller holds a lock.
#[derive(Debug)]
pub struct WcbWriter<L> {
    /// The state register; mapped as long as the port, which owns this, lives.
    wcb: Wcb,
    ring: Box<[L; REPLAY_RING]>,
    /// Lines written, modulo 256.
    wp: u8,
}

impl<L: Copy + Default> WcbWriter<L> {
    /// A writer of a buffer that nothing was written to yet. It looks at the state register once in `batch` posts; 0:
    /// the register is memory, and every look is free.
    pub fn new(registers: &RegisterMap, batch: u8) -> WcbWriter<L> {
        let wcb = Wcb::new(registers, batch);
        WcbWriter { wcb, ring: Box::new([L::default(); REPLAY_RING]), wp: 0 }
    }

    /// Writes a line, which `fill` makes in place, of what stood there 256 lines ago.
    ///
    /// # Errors
    /// [`NotNow`].
    #[inline]
    pub fn try_post<U: ?Sized>(&mut self, unit: &U, fill: impl FnOnce(&mut L)) -> Result<(), NotNow>
    where
        L: WcbLine<U>,
    {
        if self.wcb.is_due(self.wp) && !self.has_room(unit) {
            return Err(NotNow);
        }
        let at = self.wp;
        fill(&mut self.ring[usize::from(at)]);
        self.wp = at.wrapping_add(1);
        self.store(unit, at);
        if self.wcb.is_memory() && self.take_back_rejected() { Err(NotNow) } else { Ok(()) }
    }

    /// Whether there is room for one more; rejected lines are written again before.
    #[inline]
    fn has_room<U: ?Sized>(&mut self, unit: &U) -> bool
    where
        L: WcbLine<U>,
    {
        let mut state = self.wcb.look();
        if state.rejected() != 0 {
            if !self.replay(unit) {
                return false;
            }
            state = self.wcb.look();
        }
        self.wp.wrapping_add(1) != state.committed()
    }

    /// A consumer finds nothing: perhaps because the card rejected what would bring it. `now`: it is about to sleep.
    pub fn service<U: ?Sized>(&mut self, unit: &U, now: bool)
    where
        L: WcbLine<U>,
    {
        let look = self.wcb.is_suspect(self.wp) || now;
        if look && self.wcb.look().rejected() != 0 {
            self.replay(unit);
        }
    }

    /// Where the card shows at once that it rejected the only outstanding line, the last one, it counts as not written.
    /// So nothing waits for a replay after its writer has turned to other things.
    #[inline]
    fn take_back_rejected(&mut self) -> bool {
        let state = self.wcb.look();
        let alone = self.wp.wrapping_sub(state.committed()) == 1;
        if state.rejected() != 1 || !alone || !state.idle() {
            return false;
        }
        self.wcb.set(state.acknowledged());
        if self.wcb.look().rejected() != 0 {
            return false; // seen again, and replayed, by the next caller
        }
        self.wp = self.wp.wrapping_sub(1);
        true
    }

    /// Writes rejected lines again, in their order. `false`: the card is still taking or rejecting what was written
    /// before, or rejects again; ask later.
    pub fn replay<U: ?Sized>(&mut self, unit: &U) -> bool
    where
        L: WcbLine<U>,
    {
        let state = self.wcb.look();
        if state.rejected() == 0 {
            return true;
        }
        let missing = self.wp.wrapping_sub(state.committed());
        if !state.idle() || state.rejected() != missing {
            return false;
        }
        self.wcb.set(state.acknowledged());
        if self.wcb.look().rejected() != 0 {
            return false; // the write is to be repeated until the count reads 0 (spec 2.4)
        }
        let mut at = self.wp.wrapping_sub(missing);
        while at != self.wp {
            self.store(unit, at);
            at = at.wrapping_add(1);
        }
        self.wcb.look().rejected() == 0
    }

    /// Stores entry `at` of the ring, the last one so far, and sees to it that the card has all of it.
    #[inline]
    fn store<U: ?Sized>(&mut self, unit: &U, at: u8)
    where
        L: WcbLine<U>,
    {
        let (line, clock) = (&self.ring[usize::from(at)], L::clock(unit));
        line.store(unit);
        while self.wcb.posted(clock) && self.wcb.has_lost(at.wrapping_add(1), clock, &|| L::progress(unit)) {
            line.store(unit);
        }
    }

    /// Lines written and not committed yet.
    pub fn outstanding(&self) -> u8 {
        self.wp.wrapping_sub(self.wcb.peek().committed())
    }
}
