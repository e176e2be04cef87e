//! What the host asks of all members together: these calls wait.

use ggas_clock::{Backoff, Ladder};

use super::super::{Comm, Place, Token, Win};
use super::collectives::Begin;
use super::group::Part;
use super::schedule;
use super::*;
use crate::carrier::Carrier;

impl Own {
    /// Works until `over`, which gets what it asked for.
    fn until<T>(
        &mut self,
        what: &'static str,
        mut over: impl FnMut(&mut Own) -> Option<T>,
    ) -> Result<T, GmpiError> {
        let clock = self.clock.clone();
        let mut wait = Backoff::on(Ladder::SHORT, &clock, self.timeout);
        loop {
            if let Some(value) = over(self) {
                return Ok(value);
            }
            if self.failed {
                return Err(GmpiError::Failed { what, class: Class::INTERN });
            }
            if !self.progress() {
                wait.pause().map_err(|waited| GmpiError::Timeout { what, waited })?;
            }
        }
    }

    fn wait(&mut self, what: &'static str, token: Token) -> Result<(), GmpiError> {
        let how = self.until(what, |own| own.test(token))?;
        how.map(drop).map_err(|class| GmpiError::Failed { what, class })
    }

    /// What all members of a communicator give, by rank.
    fn gather<const N: usize>(
        &mut self,
        what: &'static str,
        comm: Comm,
        words: [u64; N],
    ) -> Result<Vec<[u64; N]>, GmpiError> {
        let refuse = |class| GmpiError::Failed { what, class };
        let Place { rank, size } = self.place(comm).ok_or(refuse(Class::COMM))?;
        let block = 8 * N;
        let mut data = vec![0; block * size as usize];
        let own: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        data[rank as usize * block..][..block].copy_from_slice(&own);
        let rounds = schedule::allgather(rank, size, block);
        let begin = Begin { rounds, data, combine: None, result: None, keeps: false };
        let token = self.collective(comm, begin).map_err(refuse)?;
        self.wait(what, token)?;
        let data =
            self.gathered.take().filter(|(of, _)| *of == token).map(|(_, data)| data).unwrap_or_default();
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let said = |block: &[u8]| {
            let mut words = [0; N];
            words.iter_mut().zip(block.chunks_exact(8)).for_each(|(to, bytes)| *to = word(bytes));
            words
        };
        Ok(data.chunks_exact(block).map(said).collect())
    }

    pub(super) fn split_group(
        &mut self,
        of: Comm,
        color: Option<u32>,
        key: i32,
    ) -> Result<Option<Comm>, GmpiError> {
        const NONE: u64 = u64::MAX;
        let color = color.map_or(NONE, u64::from);
        let all =
            self.gather("a split of a communicator", of, [color, i64::from(key) as u64, self.next_context])?;
        // Groups of one split have no member in common, so one context serves all.
        let context = all.iter().map(|[_, _, next]| *next).max().unwrap_or_default();
        self.next_context = context + 2;
        if color == NONE {
            self.refuse_all();
            return Ok(None);
        }
        let members = self.group(of).map(|group| group.members.clone()).unwrap_or_default();
        let mut chosen: Vec<(i64, u32)> = all
            .iter()
            .zip(&members)
            .filter(|([of, ..], _)| *of == color)
            .map(|([_, key, _], member)| (*key as i64, *member))
            .collect();
        // Stable: members of one key keep their order.
        chosen.sort_by_key(|(key, _)| *key);
        let members: Vec<u32> = chosen.into_iter().map(|(_, member)| member).collect();
        let rank = members.iter().position(|member| *member == self.rank).unwrap_or_default() as u32;
        self.groups.push(Some(Group { context, rank, members, collectives: 0, freed: None }));
        self.refuse_all();
        Ok(Some(self.groups.len() - 1))
    }

    pub(super) fn make_window_of(&mut self, comm: Comm, own: Span) -> Result<Win, GmpiError> {
        let what = "making a window";
        let region = self.regions.get(own.index);
        let nla = region.map(|region| region.nla(own.offset)).transpose()?.unwrap_or_default();
        // Members name a window by its number, which is the same for all.
        let number = self.windows.len() as u64;
        let all = self.gather(what, comm, [nla, own.len as u64, number, self.next_context])?;
        let number = all.iter().map(|[_, _, number, _]| *number).max().unwrap_or(number) as usize;
        self.windows.resize(number, None);
        let parts = all.iter().map(|[nla, bytes, ..]| Part { nla: *nla, bytes: *bytes }).collect();
        // Its own communicator: the other one may be freed before it, and their calls do not meet.
        let context = all.iter().map(|[.., next]| *next).max().unwrap_or_default();
        self.next_context = context + 2;
        let of = self.group(comm).map_err(|class| GmpiError::Failed { what, class })?;
        let group = Group { context, collectives: 0, ..of.clone() };
        self.groups.push(Some(group));
        self.refuse_all();
        self.windows.push(Some(Window { comm: self.groups.len() - 1, own, parts }));
        // Nobody asks for bytes of it before all know it.
        self.gather(what, comm, [0])?;
        Ok(number)
    }

    /// All meet, and what is under way leaves: behind that nobody writes to anybody. Where members are dead there is no meeting, but what
    /// the others are owed leaves all the same.
    pub(super) fn leave(&mut self) -> Result<(), GmpiError> {
        let what = "the end of GMPI";
        let mut met = Ok(());
        if !self.known.contains(&true) || self.closing.is_some() {
            let token = self.begin_closing().map_err(|class| GmpiError::Failed { what, class })?;
            // Where a death ends it, what is owed leaves first.
            met = self.wait(what, token).map(drop);
        }
        self.until(what, |own| own.is_quiet().then_some(()))?;
        self.watch = None;
        met
    }

    /// The barrier behind which processes leave, one after the other: who still is in it may find others gone.
    pub(super) fn begin_closing(&mut self) -> Result<Token, Class> {
        if let Some(token) = self.closing {
            return Ok(token);
        }
        let rounds = schedule::barrier(self.rank, self.known.len() as u32);
        let begin = Begin { rounds, data: Vec::new(), combine: None, result: None, keeps: false };
        let token = self.collective(0, begin)?;
        self.closing = Some(token);
        Ok(token)
    }

    /// Whether all that was to be sent has left this process, and its card: a frame may still wait there for a process that
    /// is met only then, with others behind it, and would be lost with the memory that it lies in.
    pub(super) fn is_quiet(&self) -> bool {
        self.flow.is_empty() && self.net.port().is_idle()
    }
}
