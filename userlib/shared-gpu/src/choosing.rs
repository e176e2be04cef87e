//! Which mechanism the next copy has: by a table, or by how the copies before went (5.3.1, 5.3.2). The text has two mechanisms; its
//! rules hold for any that overlap (5.5).

use serde::{Deserialize, Serialize};

use crate::Lane;

/// Who makes a copy that does not go through the host. Multicast never does: a copy has one receiver, and memory that is written so is
/// set up by all GPUs of a fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Copier {
    /// The GPU's copy engine, as in the text.
    #[default]
    Engine,
    /// A kernel of the rank, by loads and stores of its threads.
    Stores,
    /// A kernel of the rank, by the multiprocessors' copy units; by stores where they have none or a vector does not lie at a multiple of 16
    /// bytes.
    Bulk,
}

impl Copier {
    pub(crate) const ALL: [Copier; 3] = [Copier::Engine, Copier::Stores, Copier::Bulk];
    /// Those of the text.
    pub(crate) const TEXT: &[Copier] = &[Copier::Engine];

    /// Where its copies queue.
    pub(crate) fn lane(self) -> Lane {
        match self {
            Copier::Engine => Lane::Direct,
            Copier::Stores | Copier::Bulk => Lane::Kernels,
        }
    }
}

/// A mechanism of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// Through the host's staging buffer.
    Hs,
    /// Directly.
    Ipc(Copier),
}

impl Mechanism {
    /// Those of the text, in its order, and behind them today's.
    const ALL: [Mechanism; 4] = [
        Mechanism::Hs,
        Mechanism::Ipc(Copier::Engine),
        Mechanism::Ipc(Copier::Stores),
        Mechanism::Ipc(Copier::Bulk),
    ];

    fn lane(self) -> Lane {
        match self {
            Mechanism::Hs => Lane::Staged,
            Mechanism::Ipc(copier) => copier.lane(),
        }
    }
}

/// Copies of a step, by mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Through the host.
    pub staged: usize,
    /// Directly, by [`Copier::Engine`].
    pub engine: usize,
    /// By [`Copier::Stores`].
    pub stores: usize,
    /// By [`Copier::Bulk`].
    pub bulk: usize,
}

impl Copies {
    /// So many through the host, and the others of `all` by `copier`.
    pub(crate) fn new(all: usize, staged: usize, copier: Copier) -> Copies {
        let mut copies = Copies { staged: staged.min(all), ..Copies::default() };
        *copies.of_mut(Mechanism::Ipc(copier)) = all - copies.staged;
        copies
    }

    /// All of them.
    pub fn all(&self) -> usize {
        self.staged + self.direct()
    }

    /// Those that did not go through the host.
    pub fn direct(&self) -> usize {
        self.engine + self.stores + self.bulk
    }

    pub(crate) fn of(&self, mechanism: Mechanism) -> usize {
        match mechanism {
            Mechanism::Hs => self.staged,
            Mechanism::Ipc(Copier::Engine) => self.engine,
            Mechanism::Ipc(Copier::Stores) => self.stores,
            Mechanism::Ipc(Copier::Bulk) => self.bulk,
        }
    }

    fn of_mut(&mut self, mechanism: Mechanism) -> &mut usize {
        match mechanism {
            Mechanism::Hs => &mut self.staged,
            Mechanism::Ipc(Copier::Engine) => &mut self.engine,
            Mechanism::Ipc(Copier::Stores) => &mut self.stores,
            Mechanism::Ipc(Copier::Bulk) => &mut self.bulk,
        }
    }

    /// Who makes most of the direct ones; the engine, where there are none.
    pub(crate) fn copier(&self) -> Copier {
        match self.most(|one| one != Mechanism::Hs) {
            Some(Mechanism::Ipc(copier)) => copier,
            _ => Copier::Engine,
        }
    }

    /// The mechanism with most copies among some; `None` where none of them has any; of equals, the first.
    fn most(&self, among: impl Fn(Mechanism) -> bool) -> Option<Mechanism> {
        let used = Mechanism::ALL.into_iter().filter(|one| among(*one) && self.of(*one) > 0);
        used.reduce(|best, one| if self.of(one) > self.of(best) { one } else { best })
    }
}

/// What of a step's copies is assigned, complete, and may be assigned next.
#[derive(Clone, Debug)]
pub(crate) struct Choosing {
    /// Copies that may be issued now.
    credits: Copies,
    pub(crate) complete: Copies,
    pub(crate) assigned: Copies,
    is_dynamic: bool,
}

impl Choosing {
    /// So many of each, from the tuning table.
    pub(crate) fn by_table(credits: Copies) -> Choosing {
        let (complete, assigned) = (Copies::default(), Copies::default());
        Choosing { credits, complete, assigned, is_dynamic: false }
    }

    /// Nothing is known: one copy of each first (phase 1), through the host and by these.
    pub(crate) fn dynamic(copiers: &[Copier]) -> Choosing {
        let mut credits = Copies { staged: 1, ..Copies::default() };
        copiers.iter().for_each(|copier| *credits.of_mut(Mechanism::Ipc(*copier)) = 1);
        Choosing { is_dynamic: true, ..Choosing::by_table(credits) }
    }

    /// What a gather has taught (stage 3, phase 1): mechanisms that never completed are not used; of several, one copy of each begins.
    pub(crate) fn taught(&self) -> Choosing {
        let mut credits = Copies::default();
        let used = || Mechanism::ALL.into_iter().filter(|one| self.complete.of(*one) > 0);
        used().for_each(|one| *credits.of_mut(one) = 1);
        let mut used = used();
        match (used.next(), used.next()) {
            (Some(only), None) => {
                *credits.of_mut(only) = usize::MAX;
                Choosing::by_table(credits)
            }
            _ => Choosing { is_dynamic: true, ..Choosing::by_table(credits) },
        }
    }

    /// Whether a copy may go through the host.
    pub(crate) fn may_use_host(&self) -> bool {
        self.credits.staged > 0
    }

    /// The mechanism for the next copy, if one may be issued: of those with credit the one that completed more; of equals, host-staged
    /// first, as the text names them, but by a table the one of which more are left.
    pub(crate) fn next(&mut self) -> Option<Mechanism> {
        let by = if self.is_dynamic { self.complete } else { self.credits };
        let credits = self.credits;
        let with_credit = Mechanism::ALL.into_iter().filter(|one| credits.of(*one) > 0);
        let mechanism = with_credit.reduce(|best, one| if by.of(one) > by.of(best) { one } else { best })?;
        *self.credits.of_mut(mechanism) -= 1;
        *self.assigned.of_mut(mechanism) += 1;
        Some(mechanism)
    }

    /// A copy is complete (phase 2): with `d` = completed of this mechanism, this one included, less completed of the best of the others, one
    /// more may be issued where `d <= 0`, else `2^d`, but no more than are `left` to be assigned.
    pub(crate) fn completed(&mut self, mechanism: Mechanism, left: usize) {
        *self.complete.of_mut(mechanism) += 1;
        if !self.is_dynamic {
            return;
        }
        let best = self.complete.most(|other| other != mechanism).map_or(0, |other| self.complete.of(other));
        let ahead = self.complete.of(mechanism).saturating_sub(best);
        let more = 1_usize.checked_shl(ahead.min(32) as u32).unwrap_or(left).min(left);
        let credit = self.credits.of_mut(mechanism);
        *credit = (*credit + more).min(left);
    }

    /// By which mechanism the last copy, under way by this one, is to be sent again (phase 3): none of its mechanism has ever
    /// completed, and of another one has, or there would be nothing to prefer. That one does not queue behind it.
    pub(crate) fn instead_of(&self, mechanism: Mechanism) -> Option<Mechanism> {
        if !self.is_dynamic || self.complete.of(mechanism) > 0 {
            return None;
        }
        self.complete.most(|other| other.lane() != mechanism.lane())
    }
}

#[cfg(test)]
mod tests {
    use super::Mechanism::*;
    use super::*;

    const ENGINE: Mechanism = Ipc(Copier::Engine);
    const STORES: Mechanism = Ipc(Copier::Stores);
    const BULK: Mechanism = Ipc(Copier::Bulk);

    fn drawn(choosing: &mut Choosing) -> Vec<Mechanism> {
        std::iter::from_fn(|| choosing.next()).collect()
    }

    #[test]
    fn a_mechanism_that_is_ahead_by_d_gets_two_to_the_d_and_another_one() {
        let mut choosing = Choosing::dynamic(Copier::TEXT);
        assert_eq!(drawn(&mut choosing), [Hs, ENGINE], "one of each first");
        choosing.completed(ENGINE, 20);
        assert_eq!(drawn(&mut choosing), [ENGINE; 2], "d = 1");
        choosing.completed(ENGINE, 18);
        assert_eq!(drawn(&mut choosing), [ENGINE; 4], "d = 2");
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
    fn of_more_mechanisms_the_best_of_the_others_counts() {
        let mut choosing = Choosing::dynamic(&Copier::ALL);
        assert_eq!(drawn(&mut choosing), [Hs, ENGINE, STORES, BULK], "one of each first");
        choosing.completed(STORES, 20);
        assert_eq!(drawn(&mut choosing), [STORES; 2], "d = 1");
        choosing.completed(BULK, 18);
        assert_eq!(drawn(&mut choosing), [BULK], "d = 0");
        choosing.completed(ENGINE, 17);
        assert_eq!(drawn(&mut choosing), [ENGINE], "d = 0: not ahead of all");
        choosing.completed(STORES, 16);
        assert_eq!(drawn(&mut choosing), [STORES; 2], "d = 1");
        choosing.completed(STORES, 14);
        assert_eq!(drawn(&mut choosing), [STORES; 4], "d = 2");
    }

    #[test]
    fn a_hopeless_copy_is_sent_again_by_the_best_that_does_not_queue_behind_it() {
        let mut choosing = Choosing::dynamic(&Copier::ALL);
        assert_eq!(choosing.instead_of(STORES), None, "nothing is better");
        choosing.completed(BULK, 0);
        assert_eq!(choosing.instead_of(STORES), None, "it would wait for the same kernel's end");
        assert_eq!((choosing.instead_of(ENGINE), choosing.instead_of(Hs)), (Some(BULK), Some(BULK)));
        choosing.completed(Hs, 0);
        choosing.completed(ENGINE, 0);
        choosing.completed(ENGINE, 0);
        assert_eq!((choosing.instead_of(STORES), choosing.instead_of(BULK)), (Some(ENGINE), None));
        assert_eq!(Choosing::by_table(Copies::new(3, 1, Copier::Bulk)).instead_of(Hs), None);
    }

    #[test]
    fn what_never_completed_is_not_used_again() {
        let mut choosing = Choosing::dynamic(&Copier::ALL);
        choosing.completed(BULK, 9);
        assert_eq!(choosing.taught().next(), Some(BULK));
        assert!(!choosing.taught().may_use_host());
        choosing.completed(Hs, 8);
        assert_eq!(drawn(&mut choosing.taught()), [Hs, BULK], "one of each first");
    }

    #[test]
    fn a_table_is_drawn_to_its_end() {
        let table = Copies::new(5, 2, Copier::Stores);
        assert_eq!(table, Copies { staged: 2, stores: 3, ..Copies::default() });
        let mut choosing = Choosing::by_table(table);
        assert_eq!(drawn(&mut choosing).len(), 5);
        assert_eq!(choosing.assigned, table);
        choosing.completed(Hs, 5);
        assert_eq!(choosing.next(), None);
        assert_eq!(Copies::new(2, 9, Copier::Engine).all(), 2);
    }
}
