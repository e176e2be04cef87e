//! What the leaders of hosts pass to each other, by puts between their nodes: in *rounds*, in which each puts up to a slot of bytes to
//! each other one, or none, and a word behind them. A round ends when the words of all others are there.
//!
//! There are two sets of slots, here and there, used by turns. Who begins a round has the words of the one before from all others, and each
//! of them has got all of the one before that: so slots of the same set are free again, where they are put from and where they land. What
//! landed stays until the next round begins.

use std::sync::Arc;
use std::time::Duration;

use ggas_clock::{Backoff, Clock, Ladder};
use ggas_device::PeerEnd;
use ggas_kernels::{KernelMem, Mapped, Processor};
use ggas_rma::{Address, Connection, HostBuffer, Node, Port, PortConfig, PortError, PostError, Region, Spec};

use crate::across::{Across, ChoosingAcross, Through};
use crate::attached::{Attached, Source};
use crate::circle::{Circle, Ends};
use crate::plan::Fault;
use crate::process::{fault_of, is_later};
use crate::{Collective, Element, Op, SharedGpuError};

/// Words of different hosts lie in lines of their own.
const LINE: usize = 64;
/// Bytes of a slot, where hosts are few.
const SLOT: usize = 256 << 10;
/// Bytes of all slots of a leader, which are pinned.
const SLOTS: usize = 16 << 20;
/// Longest that a leader which goes away waits until its last puts are carried out.
const LAST: Duration = Duration::from_secs(1);
/// So long what another leader put may be under way once it is heard that it left: who leaves a network sees to it for as long.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// Bits of a word that stand for what the call is; the round's number is above.
const CALL_BITS: u32 = 24;

/// Where another leader is.
struct Link {
    connection: Connection,
    /// Of its words and slots.
    nla: u64,
    /// Of its slots in GPU memory.
    on_gpu: u64,
}

/// Slots in GPU memory, at the same places as those in host memory. Words are in host memory alone.
struct OnGpu {
    memory: Arc<KernelMem>,
    region: Region,
}

/// This rank as the leader of its host.
pub(crate) struct Leaders {
    // Unmapped, and unregistered, before the port closes.
    mapped: Mapped,
    region: Region,
    /// Where some call takes it.
    on_gpu: Option<OnGpu>,
    attached: Attached,
    port: Port,
    /// How calls are made.
    choosing: ChoosingAcross,
    /// How this one is.
    across: Across,
    /// Bytes that were put through host memory, and through the GPU's.
    put: [u64; 2],
    /// Bytes of these that were put from where a vector is.
    put_straight: u64,
    /// By host; `None`: this one.
    links: Vec<Option<Link>>,
    /// As the job numbers them.
    ranks: Vec<u32>,
    me: usize,
    slot: usize,
    /// Rounds that have begun, and those of them that are over.
    rounds: u64,
    over: u64,
    timeout: Duration,
    ladder: Ladder,
    ends: Ends,
    is_broken: bool,
}

impl Leaders {
    /// Collective over the circle's world: `None` where this rank leads no host, as the circle's members do. All have the same
    /// `choosing`.
    pub(crate) fn new(
        circle: &Circle<'_>,
        node: Option<&Node>,
        processor: &Processor,
        choosing: ChoosingAcross,
        timeout: Duration,
        ladder: Ladder,
    ) -> Result<Option<Leaders>, SharedGpuError> {
        let hosts = circle.ranks();
        let slot = slot_bytes(hosts);
        let end = layout(hosts, slot).end;
        let make = || {
            let port = node.ok_or(SharedGpuError::OtherHost)?.open_port(PortConfig::default())?;
            let memory = HostBuffer::zeroed(end).map_err(PortError::from)?;
            let region = port.register(memory)?;
            // SAFETY: the region keeps the memory, and goes behind the mapping; all use of it is by addresses.
            let mapped = unsafe { processor.map_host(region.address() as *mut u8, region.len()) }?;
            let Address { node, vpid } = port.address();
            let on_gpu = choosing.needs_gpu().then(|| OnGpu::new(&port, processor, end)).transpose()?;
            let nla = on_gpu.as_ref().map_or(Ok(0), |slots| slots.region.nla(0))?;
            let place = [u64::from(node), u64::from(vpid), region.nla(0)?, nla];
            Ok((port, region, on_gpu, mapped, place))
        };
        let made = circle.agree(circle.rank().map(|_| make()).transpose())?;
        let said = made.iter().flat_map(|(.., place)| place).flat_map(|word| word.to_ne_bytes());
        let all = circle.exchange(&said.collect::<Vec<u8>>())?;
        let Some(((port, region, on_gpu, mapped, _), me)) = made.zip(circle.rank()) else { return Ok(None) };
        let link = |(host, said): (usize, &Vec<u8>)| {
            let words: Vec<u64> = said.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
            let other = SharedGpuError::Peer {
                rank: circle.members()[host] as usize,
                what: "it runs another version".to_owned(),
            };
            let [node, vpid, nla, on_gpu] = words[..] else { return Err(other) };
            let connection = port.connect(Address::new(node as u16, vpid as u8));
            Ok((host != me).then_some(Link { connection, nla, on_gpu }))
        };
        let links = all.iter().enumerate().map(link).collect::<Result<_, _>>()?;
        let ends = circle.world().watch();
        let ranks = circle.members().to_vec();
        let (rounds, over, is_broken) = (0, 0, false);
        Ok(Some(Leaders {
            mapped,
            region,
            on_gpu,
            attached: Attached::default(),
            port,
            choosing,
            across: Across::default(),
            put: [0; 2],
            put_straight: 0,
            links,
            ranks,
            me,
            slot,
            rounds,
            over,
            timeout,
            ladder,
            ends,
            is_broken,
        }))
    }

    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Has the next rounds made as is chosen for a call with results of so many bytes.
    pub(crate) fn take(&mut self, collective: Collective, bytes: usize) {
        self.across = self.choosing.choice(collective, bytes).0;
    }

    /// How rounds are made.
    pub(crate) fn across(&self) -> Across {
        self.across
    }

    /// Bytes that this leader has put to others through such memory.
    pub(crate) fn put_bytes(&self, through: Through) -> u64 {
        self.put[through as usize]
    }

    /// Bytes that were put from attached memory.
    pub(crate) fn straight_bytes(&self) -> u64 {
        self.put_straight
    }

    /// Has puts be from this memory itself.
    pub(crate) fn attach(&mut self, memory: &Arc<KernelMem>) {
        self.attached.add(memory);
    }

    pub(crate) fn detach(&mut self, memory: &Arc<KernelMem>) {
        self.attached.remove(memory);
    }

    /// Where a vector's bytes are put from themselves, in a round that is not a call's last; `None`: by a slot.
    pub(crate) fn straight(&mut self, at: u64, bytes: usize) -> Option<Source> {
        if bytes == 0 {
            return None;
        }
        self.attached.find(&self.port, at, bytes, self.across.through)
    }

    /// Slots in GPU memory, if rounds go through these.
    fn on_gpu(&self) -> Option<&OnGpu> {
        self.on_gpu.as_ref().filter(|_| self.across.through == Through::Gpu)
    }

    /// Hosts, and which of them this is.
    pub(crate) fn hosts(&self) -> usize {
        self.ranks.len()
    }

    pub(crate) fn me(&self) -> usize {
        self.me
    }

    /// Most bytes to a host in a round.
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    /// The set of slots of the round that begins next: even or odd.
    pub(crate) fn next(&self) -> usize {
        self.rounds as usize & 1
    }

    /// Where what a host puts in a round of this set lands; the own slot is free for what this host has beside it.
    pub(crate) fn landing(&self, set: usize, host: usize) -> usize {
        layout(self.hosts(), self.slot).landing + (set * self.hosts() + host) * self.slot
    }

    /// A slot that is put from in a round of this set; there are as many as hosts.
    pub(crate) fn stage(&self, set: usize, number: usize) -> usize {
        self.landing(2 + set, number)
    }

    /// Where such a place is for copies of the processor.
    pub(crate) fn address(&self, place: usize) -> u64 {
        self.on_gpu().map_or(self.mapped.address(), |slots| slots.memory.address()) + place as u64
    }

    /// Where it is for the host, if rounds go through host memory.
    pub(crate) fn on_host(&self, place: usize) -> u64 {
        self.region.address() + place as u64
    }

    /// A round: `puts` says from where how many bytes go to each other host. What is there was written before, and stays until the round
    /// after the next one, but what is attached until the next one is over. All hosts say the same `call`.
    pub(crate) fn round(
        &mut self,
        call: u32,
        puts: impl Fn(usize) -> Option<(Source, usize)>,
    ) -> Result<(), SharedGpuError> {
        if self.is_broken {
            return Err(SharedGpuError::Broken);
        }
        let set = self.next();
        self.rounds += 1;
        let word = self.rounds << CALL_BITS | u64::from(call & ((1 << CALL_BITS) - 1));
        let (mut put_bytes, mut straight) = (0, 0);
        let (landing, flag) = (self.landing(set, self.me) as u64, flag(set, self.hosts(), self.me) as u64);
        for (host, link) in self.links.iter().enumerate() {
            let Some(Link { connection, nla, on_gpu }) = link else { continue };
            let (region, slots) = self.on_gpu().map_or((&self.region, nla), |slots| (&slots.region, on_gpu));
            let put = match puts(host).filter(|(_, bytes)| *bytes > 0) {
                Some((from, bytes)) => {
                    let (region, from) = match from {
                        Source::Slot(from) => (region, from),
                        Source::Attached(which, from) => {
                            straight += bytes as u64;
                            (self.attached.region(which).ok_or(SharedGpuError::Broken)?, from)
                        }
                    };
                    put_bytes += bytes as u64;
                    connection.put(region, from, bytes, slots + landing, Spec::empty())
                }
                None => Ok(()),
            };
            // Posts to one port arrive in their order.
            put.and_then(|()| connection.immediate_put(word, 8, nla + flag, Spec::empty()))
                .map_err(|error| self.refused(host, error))?;
        }
        let through = if self.on_gpu().is_some() { Through::Gpu } else { Through::Host };
        self.put[through as usize] += put_bytes;
        self.put_straight += straight;
        (0..self.hosts()).filter(|host| *host != self.me).try_for_each(|host| self.wait(set, host, word))?;
        self.over = self.rounds;
        Ok(())
    }

    /// Until the word of a host is there.
    fn wait(&self, set: usize, host: usize, word: u64) -> Result<(), SharedGpuError> {
        let mut backoff = Backoff::on(self.ladder, Clock::REAL, self.timeout);
        loop {
            // Whatever a put that failed has to say, its host's end says, too; to look drives a model.
            while self.port.poll().is_some() {}
            let left = self.ends.left(UNDER_WAY);
            let seen = self.region.load_u64(flag(set, self.hosts(), host))?;
            if seen != word && seen >> CALL_BITS == word >> CALL_BITS {
                return Err(SharedGpuError::Mismatch { rank: self.ranks[host] as usize });
            }
            // A host that has given up may have said its word before.
            self.check()?;
            if seen == word {
                return Ok(());
            }
            if left.contains(&self.ranks[host]) {
                return Err(SharedGpuError::PeerLeft { rank: self.ranks[host] });
            }
            backoff.pause().map_err(|waited| SharedGpuError::Timeout {
                rank: self.ranks[host] as usize,
                what: "its host's part of a collective over hosts",
                waited,
            })?;
        }
    }

    /// Whether a rank died, or another leader has given up this round, or one before it: who is in a later one has done its part of this.
    fn check(&self) -> Result<(), SharedGpuError> {
        self.ends.check()?;
        (0..self.hosts()).try_for_each(|host| {
            let word = self.region.load_u64(given_up(self.hosts(), host))?;
            if word != 0 && is_later(word, self.rounds as u32) { Ok(()) } else { Fault::check(word) }
        })
    }

    /// Ends the use of this, here and at all other leaders.
    pub(crate) fn fail(&mut self, error: &SharedGpuError) {
        if std::mem::replace(&mut self.is_broken, true) {
            return;
        }
        let own = self.ranks[self.me] as usize;
        let word = match error {
            SharedGpuError::Mismatch { rank } => Fault::Unequal.word(*rank),
            error => Fault::of(error, own).unwrap_or(Fault::Failed.word(own)),
        };
        let word = fault_of((self.over as u32).wrapping_add(1), word);
        let at = given_up(self.hosts(), self.me) as u64;
        for Link { connection, nla, .. } in self.links.iter().flatten() {
            // Whom it does not reach is gone, or waits no longer than its time-out.
            let _ = connection.try_immediate_put(word, 8, nla + at, Spec::empty());
        }
    }

    /// What a post that was refused means.
    fn refused(&self, host: usize, error: PostError) -> SharedGpuError {
        match error {
            PostError::PeerLost(peer) if peer.end == PeerEnd::Left => {
                SharedGpuError::PeerLeft { rank: self.ranks[host] }
            }
            PostError::PeerLost(_) => SharedGpuError::PeerLost { rank: self.ranks[host] },
            error => error.into(),
        }
    }
}

impl OnGpu {
    /// On the CPU executor in its memory.
    fn new(port: &Port, processor: &Processor, bytes: usize) -> Result<OnGpu, SharedGpuError> {
        let memory = Arc::new(processor.alloc(bytes)?);
        let region = port.register_kernel_memory(memory.clone())?;
        Ok(OnGpu { memory, region })
    }
}

impl Drop for Leaders {
    fn drop(&mut self) {
        // Others may wait for what is not carried out yet.
        let mut backoff = Backoff::on(self.ladder, Clock::REAL, LAST);
        while !self.port.is_idle() && backoff.pause().is_ok() {}
    }
}

/// A number that stands for what the call is, of which leaders compare some bits.
pub(crate) fn call(kind: Collective, root: usize, bytes: usize, element: Element, op: Option<Op>) -> u32 {
    let words = [kind as u64, root as u64, bytes as u64, element as u64, op.map_or(0, |op| op as u64 + 1)];
    // FNV-1a, folded.
    let hash = words
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ hash >> 24 ^ hash >> 48) as u32
}

/// Bytes of a slot, of so many hosts.
fn slot_bytes(hosts: usize) -> usize {
    (SLOTS / (4 * hosts.max(1))).min(SLOT) / 256 * 256
}

/// Where slots begin in a leader's memory, and where that ends.
struct Layout {
    landing: usize,
    end: usize,
}

fn layout(hosts: usize, slot: usize) -> Layout {
    let landing = (3 * hosts * LINE).next_multiple_of(4096);
    Layout { landing, end: landing + 4 * hosts * slot }
}

/// Where the word of a host lies that ends a round of this set.
fn flag(set: usize, hosts: usize, host: usize) -> usize {
    LINE * (set * hosts + host)
}

/// Where that lies by which a host gives up.
fn given_up(hosts: usize, host: usize) -> usize {
    LINE * (2 * hosts + host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_suit_any_number_of_hosts() {
        for hosts in [1, 2, 3, 16, 17, 64, 256] {
            let slot = slot_bytes(hosts);
            assert!(slot >= 4096 && slot.is_multiple_of(256), "{hosts} hosts: {slot}");
            let Layout { landing, end } = layout(hosts, slot);
            assert!(given_up(hosts, hosts - 1) + 8 <= landing && end - landing <= SLOTS, "{hosts} hosts");
        }
    }

    #[test]
    fn calls_that_differ_have_other_numbers() {
        let all = [
            call(Collective::Reduce, 3, 4096, Element::Float, Some(Op::Sum)),
            call(Collective::Allreduce, 3, 4096, Element::Float, Some(Op::Sum)),
            call(Collective::Reduce, 2, 4096, Element::Float, Some(Op::Sum)),
            call(Collective::Reduce, 3, 4100, Element::Float, Some(Op::Sum)),
            call(Collective::Reduce, 3, 4096, Element::Int32, Some(Op::Sum)),
            call(Collective::Reduce, 3, 4096, Element::Float, Some(Op::Max)),
            call(Collective::Broadcast, 3, 4096, Element::Float, None),
        ]
        .map(|call| call & 0xff_ffff);
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at} in {all:x?}");
        }
    }
}
