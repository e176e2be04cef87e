//! How the members of a group agree on it.
//!
//! A commit has a number of its process. Each member proposes its commit to all others. Who has an open commit and gets a
//! proposal of the same group agrees to it, naming both numbers. A commit is over once each other member has agreed to this
//! very one; no earlier or later commit of the same id, given up or done, is taken for it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::group::{GROUP_ALL, Groups};
use crate::meeting::{Meeting, Member, Memory};
use crate::shared::Shared;
use crate::wire::{Message, Proposal};
use crate::{GaspiError, Timeout};

/// A commit that is not over.
#[derive(Debug)]
pub(crate) struct Open {
    own: Proposal,
    memory: Memory,
    /// Who has agreed, and what it proposed.
    agreed: HashMap<usize, Proposal>,
}

/// What members want to commit, the last of each, by group and rank; and the number of the own commits so far.
#[derive(Debug, Default)]
pub(crate) struct Proposals {
    theirs: HashMap<(u8, usize), Proposal>,
    commits: u64,
}

fn checksum(ranks: &[u16]) -> u64 {
    // FNV-1a: groups of the same size that differ have different ones, all but certainly.
    ranks
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, rank| (sum ^ u64::from(*rank)).wrapping_mul(0x0100_0000_01b3))
}

/// Whether two members mean the same group.
fn is_same(one: &Proposal, two: &Proposal) -> bool {
    (one.size, one.checksum) == (two.size, two.checksum)
}

fn agreement(group: u8, own: &Proposal, theirs: &Proposal) -> Message {
    Message::Agree { group, mine: own.number, yours: theirs.number }
}

impl Groups {
    /// Opens a commit unless it is open, and tells the others through `post`, which does not wait; its members.
    /// `None`: the group is committed.
    fn open(
        &self,
        group: u8,
        me: u16,
        memory: impl FnOnce((usize, usize)) -> Result<Memory, GaspiError>,
        mut post: impl FnMut(usize, Message),
    ) -> Result<Option<Vec<usize>>, GaspiError> {
        let state = &mut *self.state();
        let entry = state.groups.get_mut(&group).ok_or(GaspiError::Group)?;
        if self.is_committed(group) {
            return Ok(None);
        }
        let own_place = entry.ranks.binary_search(&me).map_err(|_| GaspiError::Group)?;
        let members: Vec<usize> = entry.ranks.iter().map(|rank| usize::from(*rank)).collect();
        if entry.open.is_none() {
            let memory = memory((own_place, members.len()))?;
            state.proposals.commits += 1;
            let number = state.proposals.commits;
            let (size, checksum) = (members.len() as u32, checksum(&entry.ranks));
            let own = Proposal { number, size, checksum, area: memory.nla()?, shown: memory.shown };
            entry.open = Some(Open { own, memory, agreed: HashMap::new() });
            // With the lock: an agreement to what comes meanwhile goes behind the proposal that it names.
            for rank in members.iter().copied().filter(|rank| *rank != usize::from(me)) {
                post(rank, Message::Propose { group, proposal: own });
                if let Some(theirs) = state.proposals.theirs.get(&(group, rank))
                    && is_same(theirs, &own)
                {
                    post(rank, agreement(group, &own, theirs));
                }
            }
        }
        Ok(Some(members))
    }

    /// A member wants to commit.
    pub(crate) fn proposed(
        &self,
        group: u8,
        rank: usize,
        theirs: Proposal,
        post: impl FnOnce(usize, Message),
    ) {
        let state = &mut *self.state();
        state.proposals.theirs.insert((group, rank), theirs);
        let open = state.groups.get(&group).and_then(|group| group.open.as_ref());
        if let Some(open) = open.filter(|open| is_same(&open.own, &theirs)) {
            post(rank, agreement(group, &open.own, &theirs));
        }
    }

    /// A member has given up the commit of this number.
    pub(crate) fn withdrawn(&self, group: u8, rank: usize, number: u64) {
        let state = &mut *self.state();
        if state.proposals.theirs.get(&(group, rank)).is_some_and(|theirs| theirs.number == number) {
            state.proposals.theirs.remove(&(group, rank));
        }
        if let Some(open) = state.groups.get_mut(&group).and_then(|group| group.open.as_mut())
            && open.agreed.get(&rank).is_some_and(|theirs| theirs.number == number)
        {
            open.agreed.remove(&rank);
        }
    }

    /// A member has agreed, in its commit `theirs`, to this process's commit `own`.
    pub(crate) fn agreed(&self, group: u8, rank: usize, theirs: u64, own: u64) {
        let state = &mut *self.state();
        let proposal =
            state.proposals.theirs.get(&(group, rank)).filter(|proposal| proposal.number == theirs);
        let open = state.groups.get_mut(&group).and_then(|group| group.open.as_mut());
        if let (Some(proposal), Some(open)) = (proposal, open.filter(|open| open.own.number == own)) {
            open.agreed.insert(rank, *proposal);
        }
    }

    /// Forgets a group; the others hear through `post` that a commit which is open is given up. What it had in common with
    /// them, if it was committed.
    fn remove(
        &self,
        group: u8,
        me: usize,
        mut post: impl FnMut(usize, Message),
    ) -> Result<Option<Arc<Meeting>>, GaspiError> {
        if group == GROUP_ALL {
            return Err(GaspiError::Group);
        }
        let state = &mut *self.state();
        let gone = state.groups.remove(&group).ok_or(GaspiError::Group)?;
        if let Some(open) = gone.open {
            let number = open.own.number;
            let others = gone.ranks.into_iter().map(usize::from).filter(|rank| *rank != me);
            others.for_each(|rank| post(rank, Message::Withdraw { group, number }));
        }
        Ok(self.leave(group))
    }

    /// Members that have not agreed yet; none: the group is committed now.
    fn missing(&self, group: u8, me: usize, members: &[usize]) -> Result<Vec<usize>, GaspiError> {
        let state = &mut *self.state();
        let entry = state.groups.get_mut(&group).ok_or(GaspiError::Group)?;
        let Some(open) = &entry.open else {
            // Another thread has come first.
            return if self.is_committed(group) { Ok(Vec::new()) } else { Err(GaspiError::Group) };
        };
        let has_agreed = |rank: &usize| *rank == me || open.agreed.contains_key(rank);
        let missing: Vec<usize> = members.iter().copied().filter(|rank| !has_agreed(rank)).collect();
        if missing.is_empty()
            && let Some(Open { own, memory, agreed }) = entry.open.take()
        {
            let member = |rank: &usize| {
                let said = agreed.get(rank).unwrap_or(&own);
                Member { rank: *rank, area: said.area, shown: said.shown }
            };
            let places = members.iter().map(member).collect();
            let at = members.iter().position(|rank| *rank == me).ok_or(GaspiError::Group)?;
            self.commit(group, at, memory, places);
            let used = |of: u8, rank: &usize, theirs: &Proposal| {
                of == group && agreed.get(rank).is_some_and(|agreed| agreed.number == theirs.number)
            };
            state.proposals.theirs.retain(|(of, rank), theirs| !used(*of, rank, theirs));
        }
        Ok(missing)
    }
}

impl Shared {
    pub(crate) fn group_delete(&self, group: u8) -> Result<(), GaspiError> {
        if group == GROUP_ALL {
            return Err(GaspiError::Group);
        }
        self.groups.ranks(group)?;
        let is_gone = |rank| rank != self.me && self.is_gone(rank);
        if let Err(error) = self.stores.end_part(group, is_gone) {
            tracing::warn!(
                "group {group} is not deleted: a process has stopped that takes part in it ({error})"
            );
            return Err(GaspiError::Failed);
        }
        let meeting = self.groups.remove(group, self.me, |rank, message| self.post_message(rank, message))?;
        self.free_meetings(meeting);
        self.gpu.group_deleted(group);
        Ok(())
    }

    pub(crate) fn group_commit(&self, group: u8, timeout: Timeout) -> Result<(), GaspiError> {
        let memory = |place| {
            let mut memory = Memory::new(place, self.config.reduction_bytes(), &self.control)?;
            memory.show(&self.stores, group);
            Ok(memory)
        };
        let post = |rank, message| self.post_message(rank, message);
        let Some(members) = self.groups.open(group, self.me as u16, memory, post)? else { return Ok(()) };
        timeout.wait(self.clock(), || {
            // Before the look: what a silent member has said was taken in.
            let silent = members.iter().copied().filter(|rank| self.is_silent(*rank)).collect::<Vec<_>>();
            let missing = self.groups.missing(group, self.me, &members)?;
            if let Some(rank) = missing.iter().find(|rank| silent.contains(rank)) {
                self.mark(*rank);
                return Err(GaspiError::Failed);
            }
            Ok(missing.is_empty().then_some(()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::cell::RefCell;
    use std::collections::{BTreeMap, VecDeque};

    const GROUP: u8 = 1;
    const MEMBERS: usize = 4;

    /// All members in one place; between two of them, messages keep their order.
    struct Together<'a> {
        port: &'a ggas::Port,
        groups: Vec<Groups>,
        posted: RefCell<BTreeMap<(usize, usize), VecDeque<Message>>>,
        /// Commits that are over: by member and number, the numbers of the others.
        done: BTreeMap<(usize, u64), BTreeMap<usize, u64>>,
    }

    impl Together<'_> {
        fn post(&self, from: usize) -> impl Fn(usize, Message) {
            move |to, message| self.posted.borrow_mut().entry((from, to)).or_default().push_back(message)
        }

        /// The oldest message of a pair arrives; `false`: none is under way.
        fn deliver(&self, random: &mut fastrand::Rng) -> bool {
            let mut posted = self.posted.borrow_mut();
            posted.retain(|_, messages| !messages.is_empty());
            let Some(number) = (!posted.is_empty()).then(|| random.usize(..posted.len())) else {
                return false;
            };
            let next = posted.iter_mut().nth(number);
            let Some(((from, to), message)) =
                next.and_then(|(pair, messages)| Some((*pair, messages.pop_front()?)))
            else {
                return false;
            };
            drop(posted);
            match message {
                Message::Propose { group, proposal } => {
                    self.groups[to].proposed(group, from, proposal, self.post(to));
                }
                Message::Agree { group, mine, yours } => self.groups[to].agreed(group, from, mine, yours),
                Message::Withdraw { group, number } => self.groups[to].withdrawn(group, from, number),
                other => panic!("{other:?}"),
            }
            true
        }

        fn open(&self, me: usize) {
            let members = (0..MEMBERS as u16).collect();
            self.groups[me].state().groups.entry(GROUP).or_default().ranks = members;
            let memory = |place| Memory::new(place, 8, self.port);
            self.groups[me].open(GROUP, me as u16, memory, self.post(me)).unwrap();
        }

        /// Whether the member's commit is over; it is looked at as a call does.
        fn look(&mut self, me: usize) -> bool {
            let numbers = self.groups[me].state().groups.get(&GROUP).and_then(|group| {
                let Open { own, agreed, .. } = group.open.as_ref()?;
                let others = agreed.iter().map(|(rank, theirs)| (*rank, theirs.number)).collect();
                Some((own.number, others))
            });
            let members: Vec<usize> = (0..MEMBERS).collect();
            let is_over =
                self.groups[me].missing(GROUP, me, &members).is_ok_and(|missing| missing.is_empty());
            if let (true, Some((number, others))) = (is_over, numbers) {
                self.done.insert((me, number), others);
            }
            is_over
        }
    }

    /// Members commit, give up, delete what is committed and begin again at random moments: two commits that end with each
    /// other are each other's, and in the end one that nobody gives up comes to its end.
    #[test]
    fn commits_end_with_those_that_end_with_them() {
        let cluster = ggas::Cluster::builder().nodes(1).build().unwrap();
        let port = cluster.node(0).unwrap().open_port(ggas::PortConfig::default()).unwrap();
        let mut removed = 0;
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let groups = (0..MEMBERS).map(|_| Groups::default()).collect();
            let mut all = Together { port: &port, groups, posted: RefCell::default(), done: BTreeMap::new() };
            for _ in 0..400 {
                let me = random.usize(..MEMBERS);
                match random.u8(..20) {
                    0 => removed += u32::from(all.groups[me].remove(GROUP, me, all.post(me)).is_ok()),
                    1..3 => all.open(me),
                    3..8 => drop(all.look(me)),
                    _ => drop(all.deliver(&mut random)),
                }
            }
            for ((me, number), others) in &all.done {
                for (other, theirs) in others {
                    let back = all.done.get(&(*other, *theirs)).map(|others| others[me]);
                    assert!(back.is_none_or(|back| back == *number), "seed {seed}: {:?}", all.done);
                }
            }
            for me in 0..MEMBERS {
                let _ = all.groups[me].remove(GROUP, me, all.post(me));
            }
            while all.deliver(&mut random) {}
            // Some find the proposals of others there, some do not.
            for me in 0..MEMBERS {
                all.open(me);
                while random.bool() && all.deliver(&mut random) {}
            }
            while all.deliver(&mut random) {}
            assert!((0..MEMBERS).all(|me| all.look(me)), "seed {seed}");
        }
        assert!(removed > 1000, "{removed}");
    }
}
