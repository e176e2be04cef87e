//! What the processes of the test know of each other: a file that all of them map, made of atomics.
//!
//! Each member that ever is has a number and an entry. Its state says `Here` only while it is certain to live and to serve
//! its port: the driver takes that back before it kills it, the member before it leaves. So who finds `Here` knows that
//! an end, and whatever follows from it, comes later.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use ggas::Address;

use crate::burst::NUMBERS;

/// Members that can ever be: patterns name them in 12 bits, and the last number is nobody's.
pub const MEMBERS: usize = 4095;
/// Bursts that a member's entry remembers.
const REMEMBERED: usize = 64;
/// How long a VPID is given to nobody once its owner is gone (`fpga-sim/README.md`), less the resolution of its clock.
const REST: Duration = Duration::from_millis(249);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
#[repr(u32)]
pub enum State {
    Unborn,
    Joins,
    Here,
    Leaves,
    Dying,
    Gone,
}

#[repr(C)]
pub struct Board {
    pub seed: AtomicU64,
    /// Counted up by the driver: everyone is to send to everyone who is there.
    pub epoch: AtomicU64,
    members: [Entry; MEMBERS],
}

/// What a member says of itself, but for `state`, `area` and `asked_to_leave`, which the driver writes too.
#[repr(C)]
pub struct Entry {
    state: AtomicU32,
    /// Which area of every inbox is for what it sends.
    pub area: AtomicU32,
    pub asked_to_leave: AtomicU32,
    address: AtomicU32,
    /// First byte of its inbox, and of what others may get.
    pub inbox: AtomicU64,
    pub library: AtomicU64,
    /// When it began to open its port, and when it had it.
    pub opening: AtomicU64,
    pub opened: AtomicU64,
    /// When its end began.
    ended: AtomicU64,
    /// The last epoch in which it has sent to everyone.
    pub epoch: AtomicU64,
    /// Bursts received and checked, gets checked, errors in place of them, and what came for one that had the VPID before.
    pub tally: [AtomicU64; 4],
    sent: [Sent; REMEMBERED],
}

#[derive(Clone, Copy)]
pub enum Tally {
    Bursts,
    Gets,
    Errors,
    Strays,
}

/// A burst, as its sender notes it.
#[repr(C)]
pub struct Sent {
    number: AtomicU32,
    to: AtomicU32,
    /// When it began to look whether the target is there.
    looked: AtomicU64,
    /// When the card had taken all of it; 0: nobody looked.
    taken: AtomicU64,
}

/// Nanoseconds of a clock that is the same in all processes.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours; the call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Board {
    /// Makes the file, all of whose members are unborn.
    pub fn create(path: &Path) -> &'static Board {
        let file = File::create_new(path).expect("a new file");
        file.set_len(size_of::<Board>() as u64).expect("room for it");
        Board::open(path)
    }

    /// Maps the file as long as this process lives.
    pub fn open(path: &Path) -> &'static Board {
        let file = File::options().read(true).write(true).open(path).expect("the driver made it");
        let (len, access) = (size_of::<Board>(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping of a file.
        let map =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert!(map != libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        // SAFETY: mapped for good, page-aligned, of this size; atomics may have any value.
        unsafe { &*map.cast::<Board>() }
    }

    pub fn entry(&self, member: u32) -> &Entry {
        &self.members[member as usize]
    }

    pub fn state(&self, member: u32) -> State {
        self.entry(member).state()
    }

    /// Members that are there.
    pub fn here(&self) -> Vec<u32> {
        self.all().filter(|member| self.state(*member) == State::Here).collect()
    }

    /// Every member that is or was.
    pub fn all(&self) -> impl Iterator<Item = u32> + '_ {
        (0..MEMBERS as u32).take_while(|member| self.state(*member) != State::Unborn)
    }

    pub fn address(&self, member: u32) -> Address {
        let address = self.entry(member).address.load(SeqCst);
        Address::new((address >> 8) as u16, address as u8)
    }

    /// Later members that have, or had, the address of this one.
    pub fn successors(&self, member: u32) -> impl Iterator<Item = u32> + '_ {
        let opened = |of: u32| self.entry(of).opened.load(SeqCst);
        let later = move |other: &u32| opened(*other) > opened(member);
        self.all().filter(later).filter(move |other| self.address(*other) == self.address(member))
    }

    /// Nobody had the VPID of this member right before it.
    pub fn check_rest(&self, member: u32) {
        let opened = |of: u32| self.entry(of).opened.load(SeqCst);
        // The address of one that has none yet says nothing.
        let before = self.all().filter(|other| (1..opened(member)).contains(&opened(*other)));
        for other in before.filter(|other| self.address(*other) == self.address(member)) {
            let ended = self.entry(other).ended.load(SeqCst);
            let has_rested = ended != 0 && opened(member) >= ended + REST.as_nanos() as u64;
            assert!(
                has_rested,
                "{member} has the VPID of {other}, which ended at {ended}: {}",
                opened(member)
            );
        }
    }

    /// Sums up what all members counted.
    pub fn tally(&self, what: Tally) -> u64 {
        self.all().map(|member| self.entry(member).tally[what as usize].load(SeqCst)).sum()
    }

    /// Says whether `to` may have got what was meant for one that had its VPID before: its address was looked up so early
    /// and used so late that the VPID had rested meanwhile. Never what the card had taken before `to` was there.
    pub fn may_stray(&self, looked: u64, taken: u64, to: u32) -> bool {
        let entry = self.entry(to);
        let (opening, opened) = (entry.opening.load(SeqCst), entry.opened.load(SeqCst));
        opened >= looked + REST.as_nanos() as u64 && (taken == 0 || taken >= opening)
    }

    /// As [`may_stray`](Self::may_stray), for any burst of those who send into an area.
    pub fn may_have_strayed(&self, area: u32, to: u32) -> Result<(), String> {
        let mut found = Vec::new();
        for from in self.all().filter(|from| self.entry(*from).area.load(SeqCst) == area) {
            for sent in &self.entry(from).sent {
                let [number, meant] = [&sent.number, &sent.to].map(|word| word.load(SeqCst));
                let [looked, taken] = [&sent.looked, &sent.taken].map(|word| word.load(SeqCst));
                if looked == 0 || meant == to || self.address(meant) != self.address(to) {
                    continue;
                }
                if self.may_stray(looked, taken, to) {
                    return Ok(());
                }
                found.push(format!("burst {number} of {from} for {meant}, looked {looked}, taken {taken}"));
            }
        }
        let entry = self.entry(to);
        Err(format!("opened {} to {}; {found:?}", entry.opening.load(SeqCst), entry.opened.load(SeqCst)))
    }
}

impl Entry {
    pub fn state(&self) -> State {
        match self.state.load(SeqCst) {
            0 => State::Unborn,
            1 => State::Joins,
            2 => State::Here,
            3 => State::Leaves,
            4 => State::Dying,
            _ => State::Gone,
        }
    }

    /// Sets a state, unless a later one is set.
    pub fn set_state(&self, state: State) {
        if state >= State::Leaves {
            let _ = self.ended.compare_exchange(0, now(), SeqCst, SeqCst);
        }
        self.state.fetch_max(state as u32, SeqCst);
    }

    pub fn set_address(&self, address: Address) {
        self.address.store(u32::from(address.node) << 8 | u32::from(address.vpid), SeqCst);
    }

    pub fn count(&self, what: Tally) {
        self.tally[what as usize].fetch_add(1, SeqCst);
    }

    /// Notes a burst that is about to be sent.
    pub fn begin(&self, number: u32, to: u32) -> &Sent {
        let sent = &self.sent[number as usize % REMEMBERED];
        assert!(number < NUMBERS);
        sent.looked.store(0, SeqCst);
        sent.taken.store(0, SeqCst);
        sent.number.store(number, SeqCst);
        sent.to.store(to, SeqCst);
        sent.looked.store(now(), SeqCst);
        sent
    }
}

impl Sent {
    pub fn is_taken(&self) {
        self.taken.store(now(), SeqCst);
    }
}
