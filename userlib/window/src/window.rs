//! Windows of the global address space.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::layout::ggas_window;
use ggas_device::SmfuWindow;
use ggas_gpu::CopierGuard;
use ggas_kernels::{KernelMem, Processor};
use ggas_members::{Lasting, Trace};
use ggas_rma::{Node, ReportCell};

use crate::memory::{At, Parts};
use crate::plan::new_number;
use crate::trace::{Members, OwnPart, Traced};
use crate::{Member, WindowError, WindowInfo};

/// Bound of the waits of kernels on a window, unless set.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Memory of several nodes in one address range: member `i`'s part lies at `base + i * stride` for every member
/// (thesis 6.5).
///
/// Kernels get their member's `struct ggas_window` ([`Member::address`]) and reach every part by plain loads and
/// stores. The host reads and writes parts, or goes through the SMFU with [`Member::store`] and [`Member::load`].
/// All bytes are zero at first.
///
/// ```
/// # use ggas_device::sim::SimNetwork;
/// use ggas_kernels::Processor;
/// use ggas_rma::Node;
/// use ggas_window::Window;
///
/// # let network = SimNetwork::builder().nodes(2).build()?;
/// # let nodes = [Node::new(network.device(0)?), Node::new(network.device(1)?)];
/// let cpu = Processor::cpu();
/// let window = Window::new(&[(&nodes[0], &cpu), (&nodes[1], &cpu)], 4096)?;
///
/// // Kernels of member 0 reach member 1's part here.
/// let there = window.member(0)?.pointer_of(1)?;
/// assert_eq!(there, window.member(1)?.pointer_of(1)?);
///
/// // The host on node 0 stores through the SMFU; node 1 sees it in its own part.
/// window.member(0)?.store(1, 8, &42u64.to_le_bytes())?;
/// let mut word = [0; 8];
/// window.member(0)?.load(1, 8, &mut word, std::time::Duration::from_secs(10))?;
/// assert_eq!(word, 42u64.to_le_bytes());
/// assert_eq!(window.load_u64(1, 8)?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Window {
    // The SMFU lets go of the parts before their memory goes.
    pub(crate) members: Vec<Part>,
    /// Rank of the first of `members`, which are those of this process.
    pub(crate) first: usize,
    /// Members in all processes.
    pub(crate) len: usize,
    pub(crate) parts: Arc<Parts>,
    pub(crate) info: WindowInfo,
    pub(crate) timeout: Duration,
    /// For atomics of others on this process's part.
    pub(crate) _copier: Option<CopierGuard>,
}

/// What a member of this process has.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) smfu: Result<Arc<dyn SmfuWindow>, String>,
    pub(crate) node: Node,
    pub(crate) processor: Processor,
    /// `struct ggas_window`.
    pub(crate) memory: KernelMem,
    pub(crate) report: Arc<ReportCell>,
    /// Where somebody asks what its kernels move, and the host in its place.
    pub(crate) traced: Option<Lasting<Traced>>,
}

/// A trace for which somebody asks.
pub(crate) enum Asked {
    /// Members are the ranks of a job.
    Ranks(Trace),
    /// Members are nodes.
    Nodes(Trace),
}

impl Window {
    /// A window of `bytes` bytes of each member: a node, and where its kernels run. Waits of kernels on it are
    /// bounded by 10 s.
    ///
    /// The SMFU of each node serves the window where it can (spec 6): on the model windows of 63 parts and 224 MiB together, or one of
    /// more parts, on consecutive nodes and of a power of two of bytes. [`info`](Self::info) tells.
    ///
    /// # Errors
    /// [`WindowError::NoMembers`], [`WindowError::Empty`], [`WindowError::Twice`], [`WindowError::TooLarge`],
    /// [`WindowError::MoreThanMachine`], [`WindowError::Device`], [`WindowError::Memory`].
    pub fn new(members: &[(&Node, &Processor)], bytes: usize) -> Result<Window, WindowError> {
        Window::with_timeout(members, bytes, TIMEOUT)
    }

    /// As [`new`](Self::new), with the bound of kernels' waits.
    ///
    /// # Errors
    /// As for `new`.
    pub fn with_timeout(
        members: &[(&Node, &Processor)],
        bytes: usize,
        timeout: Duration,
    ) -> Result<Window, WindowError> {
        if members.is_empty() {
            return Err(WindowError::NoMembers);
        }
        if bytes == 0 {
            return Err(WindowError::Empty);
        }
        let mut ids: Vec<u16> = members.iter().map(|(node, _)| node.id()).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(WindowError::Twice(twice[0]));
        }
        let processors: Vec<&Processor> = members.iter().map(|(_, processor)| *processor).collect();
        Window::of_parts(members, Parts::new(&processors, bytes)?, bytes, timeout)
    }

    /// Of these parts, so many bytes from each other.
    pub(crate) fn of_parts(
        members: &[(&Node, &Processor)],
        (parts, stride): (Parts, usize),
        bytes: usize,
        timeout: Duration,
    ) -> Result<Window, WindowError> {
        let nodes: Vec<u16> = members.iter().map(|(node, _)| node.id()).collect();
        let mut info =
            WindowInfo { mapped: parts.mapping(), atomics: parts.atomics(), trapped: Ok(()), bytes, stride };
        let parts = Arc::new(parts);
        let whose = (&nodes[..], Some(new_number()));
        let members = members
            .iter()
            .enumerate()
            .map(|(rank, (node, processor))| {
                Part::new(node, processor, (rank, None), whose, &parts, &info, timeout)
            })
            .collect::<Result<Vec<_>, _>>()?;
        info.trapped =
            members.iter().try_for_each(|member| member.smfu.as_ref().map(|_| ()).map_err(Clone::clone));
        Ok(Window { first: 0, len: members.len(), members, parts, info, timeout, _copier: None })
    }

    /// A member whose process died, where network devices carry accesses to its part and know of it: sooner, it may be, than
    /// the job does.
    pub fn lost_part(&self) -> Option<usize> {
        match &*self.parts {
            Parts::Card(card) => card.lost(self.len),
            _ => None,
        }
    }

    /// Leaves the nodes' SMFUs to other windows, where loads and stores of this one's kernels do not need them: then
    /// [`Member::store`] and [`Member::load`] are refused.
    pub fn without_smfu(mut self) -> Window {
        if !self.info.passes_the_cards() {
            let reason = || "it leaves the SMFU to other windows".to_owned();
            self.members.iter_mut().for_each(|member| member.smfu = Err(reason()));
            self.info.trapped = Err(reason());
        }
        self
    }

    /// What the window can do.
    pub fn info(&self) -> &WindowInfo {
        &self.info
    }

    /// Number of members, in all processes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Ranks of the members of this process: all, but for a window [`across`](Self::across) processes.
    pub fn local(&self) -> Range<usize> {
        self.first..self.first + self.members.len()
    }

    /// Bound of the waits of kernels on it, and of its set-up.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Bytes of each part.
    pub fn bytes(&self) -> usize {
        self.info.bytes
    }

    /// Member `rank`, in the order given to [`new`](Self::new).
    ///
    /// # Errors
    /// [`WindowError::NoSuchMember`]; [`WindowError::Elsewhere`] for a member of another process.
    pub fn member(&self, rank: usize) -> Result<Member<'_>, WindowError> {
        self.check_member(rank)?;
        match rank.checked_sub(self.first).and_then(|own| self.members.get(own)) {
            Some(part) => Ok(Member { window: self, part, rank }),
            None => Err(WindowError::Elsewhere { member: rank, own: self.local() }),
        }
    }

    /// The members of this process in order.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Member<'_>> {
        let part = |(i, part)| Member { window: self, part, rank: self.first + i };
        self.members.iter().enumerate().map(part)
    }

    /// Copies out of the part of `member`. Bytes that others write meanwhile are old or new.
    ///
    /// # Errors
    /// [`WindowError::NoSuchMember`], [`WindowError::Range`], [`WindowError::Gpu`]; [`WindowError::NotMapped`] for
    /// the part of another process where the window is not mapped: [`Member::load`] goes there.
    pub fn read(&self, member: usize, offset: usize, into: &mut [u8]) -> Result<(), WindowError> {
        self.parts.read(member, self.locate(member, offset, into.len())?, into)?;
        self.moved(member, into.len(), true);
        Ok(())
    }

    /// Copies into the part of `member`.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write(&self, member: usize, offset: usize, from: &[u8]) -> Result<(), WindowError> {
        self.parts.write(member, self.locate(member, offset, from.len())?, from)?;
        self.moved(member, from.len(), false);
        Ok(())
    }

    /// Makes bytes of `member`'s part zero. In host memory of this process, pages that nobody ever wrote stay without
    /// memory behind them.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn zero(&self, member: usize, offset: usize, len: usize) -> Result<(), WindowError> {
        self.parts.zero(member, self.locate(member, offset, len)?, len)?;
        self.moved(member, len, false);
        Ok(())
    }

    /// Loads an aligned word of `member`'s part with acquire order.
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`WindowError::Unaligned`].
    pub fn load_u64(&self, member: usize, offset: usize) -> Result<u64, WindowError> {
        let value = self.parts.load_u64(member, self.locate_word(member, offset)?)?;
        self.moved(member, 8, true);
        Ok(value)
    }

    /// Stores an aligned word of `member`'s part with release order.
    ///
    /// # Errors
    /// As for [`load_u64`](Self::load_u64).
    pub fn store_u64(&self, member: usize, offset: usize, value: u64) -> Result<(), WindowError> {
        self.parts.store_u64(member, self.locate_word(member, offset)?, value)?;
        self.moved(member, 8, false);
        Ok(())
    }

    /// Counts what the host of this process's member moved to another one, or got from there, where somebody asks. With several members
    /// in a process nobody does.
    #[inline]
    fn moved(&self, member: usize, bytes: usize, is_got: bool) {
        if let [part] = &self.members[..] {
            part.moved(member, bytes, is_got);
        }
    }

    pub(crate) fn check_member(&self, member: usize) -> Result<(), WindowError> {
        let last = self.len - 1;
        if member > last { Err(WindowError::NoSuchMember { member, last }) } else { Ok(()) }
    }

    /// Checks a range in the part of `member`.
    pub(crate) fn check_range(&self, member: usize, offset: usize, len: usize) -> Result<(), WindowError> {
        self.check_member(member)?;
        if offset.checked_add(len).is_none_or(|end| end > self.info.bytes) {
            return Err(WindowError::Range { offset, len, bytes: self.info.bytes });
        }
        Ok(())
    }

    /// A range in the part of `member`, if this process can reach that.
    fn locate(&self, member: usize, offset: usize, len: usize) -> Result<At, WindowError> {
        self.check_range(member, offset, len)?;
        match &self.info.mapped {
            Err(reason) if !self.local().contains(&member) => {
                Err(WindowError::NotMapped { reason: reason.clone() })
            }
            _ => Ok(At { offset, stride: self.info.stride }),
        }
    }

    fn locate_word(&self, member: usize, offset: usize) -> Result<At, WindowError> {
        if !offset.is_multiple_of(8) {
            return Err(WindowError::Unaligned(offset));
        }
        self.locate(member, offset, 8)
    }
}

impl Part {
    /// Sets member `rank` up; `nodes` are those of all members, and the number that they have for the window, if they agreed on one. Its kernels are traced if they reach other parts.
    pub(crate) fn new(
        node: &Node,
        processor: &Processor,
        (rank, asked): (usize, Option<Asked>),
        (nodes, number): (&[u16], Option<u64>),
        parts: &Arc<Parts>,
        info: &WindowInfo,
        timeout: Duration,
    ) -> Result<Part, WindowError> {
        let smfu = parts.smfu(node, (nodes, number), rank, info);
        let of = |nodes: Option<(Node, Vec<u16>)>, len| Members { own: rank, len, nodes };
        let traced = match asked {
            None => None,
            Some(Asked::Ranks(trace)) => Some((trace, of(None, nodes.len()))),
            Some(Asked::Nodes(trace)) => Some((trace, of(Some((node.clone(), nodes.to_vec())), nodes.len()))),
        };
        let part = || OwnPart { parts: parts.clone(), stride: info.stride, bytes: info.bytes };
        let traced = traced.map(|(trace, of)| Traced::new(trace, processor, of, part())).transpose()?;
        let report = match &traced {
            Some(traced) => traced.report().clone(),
            None => Arc::new(ReportCell::with_words(processor, &[])?),
        };
        let memory = processor.alloc(size_of::<ggas_window>())?;
        let base = if info.mapped.is_ok() { parts.global(0, info.stride) } else { 0 };
        let window = ggas_window {
            base,
            local: parts.local(rank, info.stride),
            stride: info.stride as u64,
            // What is traced is looked at where others are refused.
            size: if traced.is_some() && info.mapped.is_ok() { 0 } else { info.bytes as u64 },
            node: rank as u32,
            nodes: nodes.len() as u32,
            report: report.address(),
            timeout_ns: timeout.as_nanos().try_into().unwrap_or(u64::MAX),
        };
        memory.write(0, bytes_of(&window))?;
        let traced = traced.map(Lasting::new);
        Ok(Part { smfu, node: node.clone(), processor: processor.clone(), memory, report, traced })
    }

    /// As of [`Window::moved`].
    #[inline]
    pub(crate) fn moved(&self, member: usize, bytes: usize, is_got: bool) {
        if let Some(traced) = &self.traced {
            Part::count(traced, member, bytes, is_got);
        }
    }

    #[cold]
    fn count(traced: &Lasting<Traced>, member: usize, bytes: usize, is_got: bool) {
        traced.with(|traced| traced.moved(member, bytes, is_got));
    }
}

impl Window {
    /// Counts what was put into rings of this process's members that begin in `only`, which are cleared behind that.
    pub(crate) fn trace_rings(&self, only: &Range<usize>) -> Result<(), WindowError> {
        let mut traced = self.members.iter().filter_map(|part| part.traced.as_ref());
        traced.try_for_each(|traced| traced.with(|traced| traced.rings(Some(only.clone()))).unwrap_or(Ok(())))
    }
}

fn bytes_of(window: &ggas_window) -> &[u8] {
    // SAFETY: plain numbers without padding (the layout's offsets are asserted in extoll-abi).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(window).cast(), size_of::<ggas_window>()) }
}
