//! Where the members of a committed group meet: memory of each, to which the others write.

use std::sync::{Arc, Mutex, OnceLock};

use ggas::{Connection, HostBuffer, Port, PostError, Region, Spec};

use crate::GaspiError;
use crate::collective::{Area, Arrival, Layout, Progress, Slot};
use crate::error::because;
use crate::shared::Shared;
use crate::stores::{Part, ShownPart, Stores};

/// Memory in which the members of a group meet.
#[derive(Debug)]
pub(crate) struct Memory {
    words: Arc<HostBuffer>,
    region: Region,
    layout: Layout,
    /// Where others map it.
    pub shown: Option<ShownPart>,
}

/// A member of a committed group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub rank: usize,
    /// Network logical address of its part.
    pub area: u64,
    pub shown: Option<ShownPart>,
}

impl Memory {
    /// The part of member `me` of so many.
    pub(crate) fn new((me, members): (usize, usize), bytes: u64, port: &Port) -> Result<Memory, GaspiError> {
        let layout = Layout::new(members, bytes);
        let words = Arc::new(HostBuffer::zeroed(layout.bytes(me)).map_err(because(GaspiError::Memory))?);
        let region = port.register_shared(words.clone()).map_err(because(GaspiError::Memory))?;
        Ok(Memory { words, region, layout, shown: None })
    }

    /// Lets the other members store to it.
    pub(crate) fn show(&mut self, stores: &Stores, group: u8) {
        self.shown = stores.show_part(group, self.words.address(), self.words.len());
    }

    pub(crate) fn nla(&self) -> Result<u64, GaspiError> {
        self.region.nla(0).map_err(because(GaspiError::Memory))
    }
}

/// By member: its part where this process stores to it.
#[derive(Debug)]
struct Parts {
    found: Vec<Option<Part>>,
    /// Those of all others.
    are_all: bool,
}

/// A committed group: where the members are, and how far its collectives are.
#[derive(Debug)]
pub(crate) struct Meeting {
    memory: Memory,
    group: u8,
    me: usize,
    members: Vec<Member>,
    /// Looked for by the first collective, and the same from then on, so that nothing overtakes anything.
    parts: OnceLock<Parts>,
    /// The first member's part, where all meet there. All members agree whether they do.
    hub: Option<OnceLock<Part>>,
    pub(crate) progress: Mutex<Progress>,
}

impl Meeting {
    /// Of members in the order of their ranks, of which this process is number `me`. `share_cores`: they do, and are on one host.
    pub(crate) fn new(
        group: u8,
        memory: Memory,
        me: usize,
        members: Vec<Member>,
        share_cores: bool,
    ) -> Arc<Meeting> {
        let (parts, progress) = (OnceLock::new(), Mutex::default());
        let is_shown = members.first().is_some_and(|first| first.shown.is_some());
        let hub = (share_cores && is_shown).then(OnceLock::new);
        Arc::new(Meeting { memory, group, me, members, parts, hub, progress })
    }

    /// A member's number and rank.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = (usize, usize)> {
        self.members.iter().map(|member| member.rank).enumerate()
    }

    /// The part of a member to which this process stores; `None`: it has not said yet where its memory is, or has no part there.
    fn find(&self, shared: &Shared, member: usize) -> Option<Result<Part, GaspiError>> {
        let Member { rank, shown, .. } = self.members[member];
        let bytes = self.memory.layout.bytes(member);
        shared.stores.part(rank, shared.me, self.group, shown?, bytes)
    }

    fn parts(&self, shared: &Shared) -> &Parts {
        self.parts.get_or_init(|| {
            let found: Vec<_> =
                (0..self.members.len()).map(|member| self.find(shared, member)?.ok()).collect();
            let are_all = found.iter().enumerate().all(|(at, part)| at == self.me || part.is_some());
            Parts { found, are_all }
        })
    }

    /// The part of a member where this process stores to it.
    fn part(&self, shared: &Shared, member: usize) -> Option<&Part> {
        self.parts(shared).found.get(member)?.as_ref()
    }
}

/// The meeting's memory, and puts to that of others.
pub(crate) struct Reach<'a> {
    pub shared: &'a Shared,
    pub meeting: &'a Meeting,
}

impl Reach<'_> {
    /// Whether this process reaches a member through the card only.
    pub(crate) fn uses_card(&self) -> bool {
        !self.meeting.parts(self.shared).are_all
    }

    fn to(&self, member: usize, at: usize) -> (&Connection, u64) {
        let Member { rank, area, .. } = self.meeting.members[member];
        // What another process has told; a card refuses an address that is none.
        (&self.shared.links[rank].control, area.wrapping_add(at as u64))
    }

    /// The part of a member where this process stores to it. As of a card, what a dead one is told fails; between hosts the network
    /// may hear of its end later.
    fn part(&self, member: usize) -> Result<Option<&Part>, GaspiError> {
        let part = self.meeting.part(self.shared, member);
        let rank = self.meeting.members[member].rank;
        if self.shared.has_departed(rank) {
            self.shared.mark(rank);
            return Err(GaspiError::Dead);
        }
        Ok(part)
    }

    fn hub(&self) -> Result<Option<&Part>, GaspiError> {
        let Some(hub) = &self.meeting.hub else { return Ok(None) };
        if hub.get().is_none() {
            let Some(part) = self.meeting.find(self.shared, 0) else { return Ok(None) };
            // All threads have the same.
            let _ = hub.set(part?);
        }
        Ok(hub.get())
    }

    /// What a post that failed means to a collective.
    fn failed(&self, member: usize, error: PostError) -> GaspiError {
        self.shared.mark(self.meeting.members[member].rank);
        match error {
            PostError::PeerLost(_) => because(GaspiError::Dead)(error),
            _ => because(GaspiError::Device)(error),
        }
    }
}

impl Area for Reach<'_> {
    fn flag(&self, at: usize) -> u64 {
        self.meeting.memory.words.load_u64(at)
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.meeting.memory.words.read(at, into);
    }

    fn members(&self) -> (usize, usize) {
        (self.meeting.me, self.meeting.members.len())
    }

    fn layout(&self) -> &Layout {
        &self.meeting.memory.layout
    }

    fn has_hub(&self) -> bool {
        self.meeting.hub.is_some()
    }

    /// It is not there before the first member has said where its memory is.
    fn arrive(&self, arrival: &Arrival<'_>) -> Result<Option<u64>, GaspiError> {
        let number = self.hub()?.and_then(|hub| hub.arrive(arrival));
        if number.is_some() {
            // The member's word and the common count, and a word with the value.
            let value = arrival.value.as_ref().map_or(0, |(.., value)| 8 + value.len());
            self.moved(0, 16 + value, false);
        }
        Ok(number)
    }

    fn read_hub(&self, at: usize, into: &mut [u8]) {
        if let Ok(Some(hub)) = self.hub() {
            hub.read(at, into);
            self.moved(0, into.len(), true);
        }
    }

    fn tell(&self, member: usize, at: usize, value: u64) -> Result<(), GaspiError> {
        if let Some(part) = self.part(member)? {
            part.tell(at, value);
            self.moved(member, 8, false);
            return Ok(());
        }
        let (link, nla) = self.to(member, at);
        link.immediate_put(value, 8, nla, Spec::empty()).map_err(|error| self.failed(member, error))
    }

    fn give(
        &self,
        member: usize,
        Slot { at, stage }: Slot,
        flag: u64,
        common: u64,
        value: &[u8],
    ) -> Result<(), GaspiError> {
        if let Some(part) = self.part(member)? {
            part.give(at, [flag, common], value);
            self.moved(member, 16 + value.len(), false);
            return Ok(());
        }
        let words = &self.meeting.memory.words;
        words.store_u64(stage, common);
        words.write(stage + 8, value);
        self.put(member, stage, at + 8, 8 + value.len())?;
        self.tell(member, at, flag)
    }
}

impl Reach<'_> {
    /// As of [`Shared::moved`].
    fn moved(&self, member: usize, bytes: usize, is_got: bool) {
        self.shared.moved(self.meeting.members[member].rank, bytes as u64, is_got);
    }

    /// Copies from the own part to another member's, through the card.
    fn put(&self, member: usize, from: usize, to: usize, bytes: usize) -> Result<(), GaspiError> {
        let (link, nla) = self.to(member, to);
        let most = extoll_abi::MAX_TRANSFER as usize;
        for at in (0..bytes).step_by(most) {
            let piece = most.min(bytes - at);
            let region = &self.meeting.memory.region;
            link.put(region, from + at, piece, nla.wrapping_add(at as u64), Spec::REQUESTER)
                .map_err(|error| self.failed(member, error))?;
            self.shared.puts.posted(self.meeting.members[member].rank);
        }
        Ok(())
    }
}
