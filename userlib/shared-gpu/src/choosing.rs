//! Which mechanism the next copy has: by a table, or by how the copies before went (5.3.1, 5.3.2).

/// A mechanism of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// Through the host's staging buffer.
    Hs,
    /// Directly.
    Ipc,
}

impl Mechanism {
    pub(crate) fn other(self) -> Mechanism {
        match self {
            Mechanism::Hs => Mechanism::Ipc,
            Mechanism::Ipc => Mechanism::Hs,
        }
    }
}

/// Copies of a step, by mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) hs: usize,
    pub(crate) ipc: usize,
}

impl Counts {
    pub(crate) fn of(&self, mechanism: Mechanism) -> usize {
        match mechanism {
            Mechanism::Hs => self.hs,
            Mechanism::Ipc => self.ipc,
        }
    }

    fn of_mut(&mut self, mechanism: Mechanism) -> &mut usize {
        match mechanism {
            Mechanism::Hs => &mut self.hs,
            Mechanism::Ipc => &mut self.ipc,
        }
    }
}

/// What of a step's copies is assigned, complete, and may be assigned next.
#[derive(Clone, Debug)]
pub(crate) struct Choosing {
    /// Copies that may be issued now.
    credits: Counts,
    pub(crate) complete: Counts,
    pub(crate) assigned: Counts,
    is_dynamic: bool,
}

impl Choosing {
    /// So many of each, from the tuning table.
    pub(crate) fn by_table(credits: Counts) -> Choosing {
        let (complete, assigned) = (Counts::default(), Counts::default());
        Choosing { credits, complete, assigned, is_dynamic: false }
    }

    /// Nothing is known: one copy of each first (phase 1).
    pub(crate) fn dynamic() -> Choosing {
        Choosing { is_dynamic: true, ..Choosing::by_table(Counts { hs: 1, ipc: 1 }) }
    }

    /// Whether a copy may go through the host.
    pub(crate) fn may_use_host(&self) -> bool {
        self.credits.hs > 0
    }

    /// The mechanism for the next copy, if one may be issued: of those with credit the one that completed more; of equals, host-staged
    /// first, as the text names them, but by a table the one of which more are left.
    pub(crate) fn next(&mut self) -> Option<Mechanism> {
        let by = if self.is_dynamic { self.complete } else { self.credits };
        let mechanism = match (self.credits.hs > 0, self.credits.ipc > 0) {
            (true, true) if by.ipc > by.hs => Mechanism::Ipc,
            (true, _) => Mechanism::Hs,
            (false, true) => Mechanism::Ipc,
            (false, false) => return None,
        };
        *self.credits.of_mut(mechanism) -= 1;
        *self.assigned.of_mut(mechanism) += 1;
        Some(mechanism)
    }

    /// A copy is complete (phase 2): with `d` = completed of this mechanism, this one included, less completed of the other, one
    /// more may be issued where `d <= 0`, else `2^d`, but no more than are `left` to be assigned.
    pub(crate) fn completed(&mut self, mechanism: Mechanism, left: usize) {
        *self.complete.of_mut(mechanism) += 1;
        if !self.is_dynamic {
            return;
        }
        let ahead = self.complete.of(mechanism).saturating_sub(self.complete.of(mechanism.other()));
        let more = 1_usize.checked_shl(ahead.min(32) as u32).unwrap_or(left).min(left);
        let credit = self.credits.of_mut(mechanism);
        *credit = (*credit + more).min(left);
    }

    /// Whether the last copy, under way by this mechanism, is to be sent again by the other (phase 3): none of its mechanism has ever
    /// completed, and of the other one has, or there would be nothing to prefer.
    pub(crate) fn is_hopeless(&self, mechanism: Mechanism) -> bool {
        self.is_dynamic && self.complete.of(mechanism) == 0 && self.complete.of(mechanism.other()) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(choosing: &mut Choosing) -> Vec<Mechanism> {
        std::iter::from_fn(|| choosing.next()).collect()
    }

    #[test]
    fn a_mechanism_that_is_ahead_by_d_gets_two_to_the_d_and_another_one() {
        use Mechanism::*;
        let mut choosing = Choosing::dynamic();
        assert_eq!(drawn(&mut choosing), [Hs, Ipc], "one of each first");
        choosing.completed(Ipc, 20);
        assert_eq!(drawn(&mut choosing), [Ipc; 2], "d = 1");
        choosing.completed(Ipc, 18);
        assert_eq!(drawn(&mut choosing), [Ipc; 4], "d = 2");
        choosing.completed(Hs, 14);
        assert_eq!(drawn(&mut choosing), [Hs], "d = -1");
        choosing.completed(Hs, 13);
        assert_eq!(drawn(&mut choosing), [Hs], "d = 0");
        choosing.completed(Hs, 12);
        assert_eq!(drawn(&mut choosing), [Hs; 2], "d = 1");
        choosing.completed(Hs, 1);
        assert_eq!(drawn(&mut choosing), [Hs], "no more than are left");
    }

    #[test]
    fn a_table_is_drawn_to_its_end() {
        let mut choosing = Choosing::by_table(Counts { hs: 2, ipc: 3 });
        assert_eq!(drawn(&mut choosing).len(), 5);
        assert_eq!(choosing.assigned, Counts { hs: 2, ipc: 3 });
        choosing.completed(Mechanism::Hs, 5);
        assert_eq!(choosing.next(), None);
    }
}
