//! What a member receives: one area of its inbox for each sender, in which exactly the bytes arrive that are announced, in
//! order and once, and nothing else.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;

use ggas::{Access, HostBuffer, Notification, Port, Region};

use crate::board::{Board, State, Tally};
use crate::burst::{AREA, Burst, FILL, What, explain};

/// Areas of an inbox: many more than members at a time, so that one is long dead before another has its area.
pub const AREAS: usize = 64;
/// Bytes beside the inbox that nobody may write.
const FENCE: usize = 64 << 10;

pub struct Inbox {
    board: &'static Board,
    me: u32,
    region: Region,
    /// Memory of the same arena that is not registered, made right before and right behind.
    fences: [HostBuffer; 2],
    /// Senders by number, and who has an area.
    streams: HashMap<u32, Stream>,
    owners: [Option<u32>; AREAS],
    /// Areas that hold nothing now, and were not given to anyone since they were filled.
    is_clean: [bool; AREAS],
}

/// What one sender sends.
#[derive(Default)]
struct Stream {
    last: Option<u32>,
    now: Option<(Burst, usize)>,
}

/// A notification put of a burst, or of what is said about bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub from: u32,
    pub to: u32,
    pub number: u32,
    pub index: u32,
}

impl Note {
    pub fn encode(self) -> u64 {
        let Note { from, to, number, index } = self;
        u64::from(from) << 48 | u64::from(to) << 32 | u64::from(number) << 16 | u64::from(index)
    }

    pub fn decode(word: u64) -> Note {
        let part = |shift: u32| (word >> shift) as u32 & 0xffff;
        Note { from: part(48), to: part(32), number: part(16), index: part(0) }
    }
}

impl Inbox {
    pub fn new(board: &'static Board, me: u32, port: &Port) -> Inbox {
        let fence = || {
            let buffer = HostBuffer::zeroed(FENCE).unwrap();
            buffer.write(0, &[FILL; FENCE]);
            buffer
        };
        let before = fence();
        let buffer = HostBuffer::zeroed(AREAS * AREA).unwrap();
        buffer.write(0, &vec![FILL; AREAS * AREA]);
        let region = port.register_with(buffer, Access::WRITE).unwrap();
        let fences = [before, fence()];
        Inbox {
            board,
            me,
            region,
            fences,
            streams: HashMap::new(),
            owners: [None; AREAS],
            is_clean: [true; AREAS],
        }
    }

    pub fn nla(&self) -> u64 {
        self.region.nla(0).unwrap()
    }

    /// A sender is about to begin: makes its area as new. Whoever had it is long dead.
    pub fn welcome(&mut self, from: u32) {
        let area = self.board.entry(from).area.load(SeqCst) as usize;
        if let Some(before) = self.owners[area].filter(|before| *before != from) {
            assert!(self.board.state(before) >= State::Leaves, "{before} and {from} share area {area}");
            self.streams.remove(&before);
        }
        if self.is_clean[area] {
            self.is_untouched(area);
        } else {
            self.fill(area);
        }
        self.is_clean[area] = false;
        self.owners[area] = Some(from);
        self.streams.insert(from, Stream::default());
    }

    /// A notification of a burst. Returns its number where it is complete, and every byte right.
    pub fn noted(&mut self, note: Note) -> Option<u32> {
        let Note { from, to, number, index } = note;
        if to != self.me {
            self.stray(self.board.entry(from).area.load(SeqCst) as usize, &format!("{note:?}"));
            return None;
        }
        let Some(stream) = self.streams.get_mut(&from) else {
            assert_ne!(self.board.state(from), State::Here, "{note:?}, which nobody allowed");
            return None; // it failed before
        };
        if index == 0 {
            assert!(stream.now.is_none(), "{note:?} comes before all of {:?} has come", stream.last);
            assert!(stream.last.is_none_or(|last| last < number), "{note:?} comes after {:?}", stream.last);
            let seed = self.board.seed.load(SeqCst);
            stream.last = Some(number);
            stream.now = Some((Burst::of(seed, from, to, number), 0));
        }
        let (burst, at) = self.expected(from, |_| true, &format!("{note:?}"));
        let is_last = at + 1 == burst.items.len();
        assert!(stream_number(self.streams.get(&from)) == Some(number), "{note:?} of another burst");
        assert_eq!(at, index as usize, "{note:?}: something is lost, or came twice");
        is_last.then(|| self.complete(from, number))
    }

    /// A put of a burst.
    pub fn landed(&mut self, told: &Notification) {
        let end = told.word0 + u64::from(told.size());
        let at = told.word0.checked_sub(self.nla()).filter(|at| *at < (AREAS * AREA) as u64);
        let Some(at) = at.map(|at| at as usize) else { panic!("a put outside of the inbox: {told}") };
        let area = at / AREA;
        let meant = self.owners[area].filter(|from| {
            self.board.address(*from) == told.remote()
                && self.streams.get(from).is_some_and(|stream| stream.now.is_some())
        });
        let Some(from) = meant else { return self.stray(area, &told.to_string()) };
        if !told.error().is_empty() {
            // A sender that dies may fail in the middle of it.
            assert_ne!(self.board.state(from), State::Here, "an error of one that lives: {told}");
            self.streams.remove(&from);
            return;
        }
        let first = self.nla() + (area * AREA) as u64;
        let ends_there = |at: usize, len: usize| first + (at + len) as u64 == end;
        let (burst, index) = self.expected(from, |item| item != What::Note, &told.to_string());
        let item = burst.items[index];
        assert!(ends_there(item.at, item.len), "{told} instead of item {index}, {item:?}, of {from}");
        let bytes = burst.bytes(index);
        self.is(area * AREA + item.at, &bytes, &format!("item {index} of {from}, {item:?}"));
    }

    /// The next item of a sender's burst that is told of, which is passed by this.
    fn expected(&mut self, from: u32, is: impl Fn(What) -> bool, told: &str) -> (&Burst, usize) {
        let stream = self.streams.get_mut(&from);
        let Some((burst, next)) = stream.and_then(|stream| stream.now.as_mut()) else {
            panic!("{told} of {from} outside of any burst")
        };
        let found = (*next..burst.items.len()).find(|index| burst.items[*index].is_told);
        let found = found.filter(|index| is(burst.items[*index].what));
        let index = found.unwrap_or_else(|| panic!("{told} of {from}, where item {next} comes next"));
        *next = index + 1;
        (burst, index)
    }

    /// All of a burst has come: the area holds its bytes, and else what was there before.
    fn complete(&mut self, from: u32, number: u32) -> u32 {
        let stream = self.streams.get_mut(&from).expect("it was looked up");
        let (burst, _) = stream.now.take().expect("a burst");
        let area = self.owners[..].iter().position(|owner| *owner == Some(from)).expect("its area");
        self.is(area * AREA, &burst.area(), &format!("all of burst {number} of {from}"));
        self.fill(area);
        self.board.entry(self.me).count(Tally::Bursts);
        number
    }

    /// Something came that was meant for one who had this VPID before.
    fn stray(&mut self, area: usize, told: &str) {
        if let Err(why) = self.board.may_have_strayed(area as u32, self.me) {
            panic!("{told} came to {} in area {area}, which nobody may have sent: {why}", self.me);
        }
        self.board.entry(self.me).count(Tally::Strays);
        self.is_clean[area] = false;
        // Whoever has sent it has not been welcome yet.
        self.owners[area] = None;
    }

    /// Bytes that nobody may have written are as they were.
    pub fn check(&self) {
        for (fence, which) in self.fences.iter().zip(["before", "behind"]) {
            let mut bytes = [0; FENCE];
            fence.read(0, &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == FILL), "memory {which} the inbox was written");
        }
        (0..AREAS).filter(|area| self.is_clean[*area]).for_each(|area| self.is_untouched(area));
    }

    fn is_untouched(&self, area: usize) {
        let found = self.bytes(area * AREA, AREA);
        if let Some(at) = found.iter().position(|byte| *byte != FILL)
            && let Err(why) = self.board.may_have_strayed(area as u32, self.me)
        {
            let what = explain(&found[at..AREA.min(at + 8)]);
            panic!("area {area} of {} was written at {at}: {what}; {why}", self.me);
        }
    }

    fn is(&self, offset: usize, expected: &[u8], what: &str) {
        let found = self.bytes(offset, expected.len());
        if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
            let end = found.len().min(at + 8);
            let wrong = found.iter().zip(expected).filter(|(found, expected)| found != expected).count();
            panic!(
                "{what}: {wrong} of {} bytes are wrong, the first at {at}: {} instead of {}",
                found.len(),
                explain(&found[at..end]),
                explain(&expected[at..end])
            );
        }
    }

    fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.region.read(offset, &mut bytes).unwrap();
        bytes
    }

    fn fill(&self, area: usize) {
        self.region.write(area * AREA, &[FILL; AREA]).unwrap();
    }

    pub fn unregister(self) {
        self.region.unregister().unwrap();
    }
}

fn stream_number(stream: Option<&Stream>) -> Option<u32> {
    stream.and_then(|stream| stream.last)
}
