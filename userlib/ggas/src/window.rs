//! Windows of the global address space.

use std::time::Duration;

use extoll_abi::layout::ggas_window;
use ggas_device::{SmfuMap, SmfuWindow};
use ggas_kernels::{KernelMem, Processor};
use ggas_rma::{KernelReport, Node, ReportCell};

use crate::memory::{At, Parts};
use crate::{WindowError, WindowInfo};

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
/// window.member(0)?.load(1, 8, &mut word, std::time::Duration::from_secs(1))?;
/// assert_eq!(word, 42u64.to_le_bytes());
/// assert_eq!(window.load_u64(1, 8)?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Window {
    // The SMFU lets go of the parts before their memory goes.
    members: Vec<Part>,
    parts: Parts,
    info: WindowInfo,
}

#[derive(Debug)]
struct Part {
    smfu: Result<Box<dyn SmfuWindow>, String>,
    node: Node,
    processor: Processor,
    /// `struct ggas_window`.
    memory: KernelMem,
    report: ReportCell,
}

impl Window {
    /// A window of `bytes` bytes of each member: a node, and where its kernels run. Waits of kernels on it are
    /// bounded by 10 s.
    ///
    /// The SMFU of each node serves the window where it can: one window at a time, 224 MiB together, 63 parts, or
    /// more on consecutive nodes with parts of a power of two of bytes (spec 6). [`info`](Self::info) tells.
    ///
    /// # Errors
    /// [`WindowError::NoMembers`], [`WindowError::Empty`], [`WindowError::Twice`], [`WindowError::TooLarge`],
    /// [`WindowError::Device`], [`WindowError::Memory`].
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
        let nodes = ids.clone();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(WindowError::Twice(twice[0]));
        }
        let processors: Vec<&Processor> = members.iter().map(|(_, processor)| *processor).collect();
        let (parts, stride) = Parts::new(&processors, bytes)?;
        let mut info =
            WindowInfo { mapped: parts.mapping(), atomics: parts.atomics(), trapped: Ok(()), bytes, stride };
        let members = members
            .iter()
            .enumerate()
            .map(|(rank, (node, processor))| Part::new(node, processor, rank, &nodes, &parts, &info, timeout))
            .collect::<Result<Vec<_>, _>>()?;
        info.trapped =
            members.iter().try_for_each(|member| member.smfu.as_ref().map(|_| ()).map_err(Clone::clone));
        Ok(Window { members, parts, info })
    }

    /// What the window can do.
    pub fn info(&self) -> &WindowInfo {
        &self.info
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Bytes of each part.
    pub fn bytes(&self) -> usize {
        self.info.bytes
    }

    /// Member `rank`, in the order given to [`new`](Self::new).
    ///
    /// # Errors
    /// [`WindowError::NoSuchMember`].
    pub fn member(&self, rank: usize) -> Result<Member<'_>, WindowError> {
        self.check_member(rank)?;
        Ok(Member { window: self, rank })
    }

    /// All members in order.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Member<'_>> {
        (0..self.members.len()).map(|rank| Member { window: self, rank })
    }

    /// Copies out of the part of `member`. Bytes that others write meanwhile are old or new.
    ///
    /// # Errors
    /// [`WindowError::NoSuchMember`], [`WindowError::Range`], [`WindowError::Gpu`].
    pub fn read(&self, member: usize, offset: usize, into: &mut [u8]) -> Result<(), WindowError> {
        self.parts.read(member, self.locate(member, offset, into.len())?, into)
    }

    /// Copies into the part of `member`.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write(&self, member: usize, offset: usize, from: &[u8]) -> Result<(), WindowError> {
        self.parts.write(member, self.locate(member, offset, from.len())?, from)
    }

    /// Loads an aligned word of `member`'s part with acquire order.
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`WindowError::Unaligned`].
    pub fn load_u64(&self, member: usize, offset: usize) -> Result<u64, WindowError> {
        self.parts.load_u64(member, self.locate_word(member, offset)?)
    }

    /// Stores an aligned word of `member`'s part with release order.
    ///
    /// # Errors
    /// As for [`load_u64`](Self::load_u64).
    pub fn store_u64(&self, member: usize, offset: usize, value: u64) -> Result<(), WindowError> {
        self.parts.store_u64(member, self.locate_word(member, offset)?, value)
    }

    fn check_member(&self, member: usize) -> Result<(), WindowError> {
        let last = self.members.len() - 1;
        if member > last { Err(WindowError::NoSuchMember { member, last }) } else { Ok(()) }
    }

    /// Checks a range in the part of `member`.
    fn locate(&self, member: usize, offset: usize, len: usize) -> Result<At, WindowError> {
        self.check_member(member)?;
        if offset.checked_add(len).is_none_or(|end| end > self.info.bytes) {
            return Err(WindowError::Range { offset, len, bytes: self.info.bytes });
        }
        Ok(At { offset, stride: self.info.stride })
    }

    fn locate_word(&self, member: usize, offset: usize) -> Result<At, WindowError> {
        if !offset.is_multiple_of(8) {
            return Err(WindowError::Unaligned(offset));
        }
        self.locate(member, offset, 8)
    }
}

impl Part {
    fn new(
        node: &Node,
        processor: &Processor,
        rank: usize,
        nodes: &[u16],
        parts: &Parts,
        info: &WindowInfo,
        timeout: Duration,
    ) -> Result<Part, WindowError> {
        let map = SmfuMap {
            nodes: nodes.to_vec(),
            stride: info.stride as u64,
            part_bytes: info.bytes as u64,
            local: parts.span(rank, info.stride, info.bytes),
        };
        // SAFETY: members are dropped before the parts.
        let smfu = unsafe { node.device().map_smfu(&map) }.map_err(|error| error.to_string());
        let report = ReportCell::new(processor)?;
        let memory = processor.alloc(size_of::<ggas_window>())?;
        let base = if info.mapped.is_ok() { parts.local(0, info.stride) } else { 0 };
        let window = ggas_window {
            base,
            local: parts.local(rank, info.stride),
            stride: info.stride as u64,
            size: info.bytes as u64,
            node: rank as u32,
            nodes: nodes.len() as u32,
            report: report.address(),
            timeout_ns: timeout.as_nanos().try_into().unwrap_or(u64::MAX),
        };
        memory.write(0, bytes_of(&window))?;
        Ok(Part { smfu, node: node.clone(), processor: processor.clone(), memory, report })
    }
}

fn bytes_of(window: &ggas_window) -> &[u8] {
    // SAFETY: plain numbers without padding (the layout's offsets are asserted in extoll-abi).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(window).cast(), size_of::<ggas_window>()) }
}

/// A window as one of its members sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    window: &'a Window,
    rank: usize,
}

impl<'a> Member<'a> {
    fn part(&self) -> &'a Part {
        &self.window.members[self.rank]
    }

    /// Its place in the window.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Its node.
    pub fn node(&self) -> &'a Node {
        &self.part().node
    }

    /// Where its kernels run.
    pub fn processor(&self) -> &'a Processor {
        &self.part().processor
    }

    /// Address of its `struct ggas_window`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.part().memory.address()
    }

    /// Pointer for this member's kernels to the part of `member`: the local one for its own, which exists in every
    /// window (thesis 6.5.2).
    ///
    /// # Errors
    /// [`WindowError::NoSuchMember`], [`WindowError::NotMapped`].
    pub fn pointer_of(&self, member: usize) -> Result<u64, WindowError> {
        if member == self.rank {
            return Ok(self.window.parts.local(member, self.window.info.stride));
        }
        self.global_pointer(member)
    }

    /// Pointer into the global range to the part of `member`, its own included (thesis 6.5.2).
    ///
    /// # Errors
    /// [`WindowError::NoSuchMember`], [`WindowError::NotMapped`].
    pub fn global_pointer(&self, member: usize) -> Result<u64, WindowError> {
        self.window.check_member(member)?;
        match &self.window.info.mapped {
            Ok(_) => Ok(self.window.parts.local(member, self.window.info.stride)),
            Err(reason) => Err(WindowError::NotMapped { reason: reason.clone() }),
        }
    }

    /// Stores bytes to the part of `member` through the SMFU of this member's node. Posted: returns before the
    /// bytes arrive; stores to one member arrive in order.
    ///
    /// # Errors
    /// [`WindowError::NotTrapped`], [`WindowError::Range`], [`WindowError::NoSuchMember`], [`WindowError::Device`].
    pub fn store(&self, member: usize, offset: usize, from: &[u8]) -> Result<(), WindowError> {
        self.window.locate(member, offset, from.len())?;
        Ok(self.smfu()?.store(self.window_offset(member, offset), from)?)
    }

    /// Loads bytes of the part of `member` through the SMFU, after this member's stores to it.
    ///
    /// # Errors
    /// As for [`store`](Self::store); [`WindowError::Device`] also when no answer comes within `timeout`.
    pub fn load(
        &self,
        member: usize,
        offset: usize,
        into: &mut [u8],
        timeout: Duration,
    ) -> Result<(), WindowError> {
        self.window.locate(member, offset, into.len())?;
        Ok(self.smfu()?.load(self.window_offset(member, offset), into, timeout)?)
    }

    fn window_offset(&self, member: usize, offset: usize) -> u64 {
        (member * self.window.info.stride + offset) as u64
    }

    fn smfu(&self) -> Result<&'a dyn SmfuWindow, WindowError> {
        match &self.part().smfu {
            Ok(smfu) => Ok(&**smfu),
            Err(reason) => Err(WindowError::NotTrapped { reason: reason.clone() }),
        }
    }

    /// What a kernel's wait on this member's window reported, if one failed.
    pub fn report(&self) -> Option<KernelReport> {
        self.part().report.get()
    }

    /// Forgets a report. Not while kernels run.
    pub fn clear_report(&self) {
        self.part().report.clear();
    }
}
