//! Groups: flags and staging in a window, and one structure per member.

use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::layout::{GGAS_ERR_TIMEOUT, ggas_group};
use ggas_kernels::KernelMem;
use ggas_rma::{KernelReport, ReportCell};
use ggas_window::Window;

use crate::GroupError;
use crate::area::Area;

/// How a group is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// First byte of the group's area in each part of the window, a multiple of 256.
    pub offset: usize,
    /// Bytes that one node sends to another in one exchange, a multiple of 256;
    /// longer vectors take several. Default 64 KiB.
    pub slot_bytes: usize,
    /// Bound of every wait in a collective; default 10 s.
    pub timeout: Duration,
    /// Rank of the node that collects check-ins at barriers; default 0.
    pub master: usize,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self { offset: 0, slot_bytes: 64 << 10, timeout: Duration::from_secs(10), master: 0 }
    }
}

impl GroupConfig {
    /// Bytes that each part of the window needs for a group of `nodes`, its offset included.
    ///
    /// # Errors
    /// [`GroupError::SlotBytes`], [`GroupError::TooLarge`].
    pub fn end(&self, nodes: usize) -> Result<usize, GroupError> {
        let area = Area::new(nodes, self.slot_bytes)?;
        let too_large = GroupError::TooLarge { nodes, slot_bytes: self.slot_bytes };
        self.offset.checked_add(area.bytes).ok_or(too_large)
    }
}

/// All members of a window as a group for collectives.
///
/// Kernels of every member call the same collectives in the same order. When one
/// fails, by a timeout or because a member died, the group is poisoned: collectives
/// fail at once until [`reset`](Self::reset).
#[derive(Debug)]
pub struct Group {
    window: Arc<Window>,
    members: Vec<Member>,
    area: Area,
    offset: usize,
}

#[derive(Debug)]
struct Member {
    /// `struct ggas_group`.
    memory: KernelMem,
    report: ReportCell,
    initial: ggas_group,
}

impl Group {
    /// A group of all members of `window`, in bytes `config.offset` to
    /// [`config.end`](GroupConfig::end) of each part, which are the group's from now on.
    ///
    /// # Errors
    /// [`GroupError::NotMapped`] where kernels cannot reach the parts by pointers;
    /// sizes that do not fit; memory.
    pub fn new(window: Arc<Window>, config: &GroupConfig) -> Result<Group, GroupError> {
        let nodes = window.len();
        let area = Area::new(nodes, config.slot_bytes)?;
        let end = config.end(nodes)?;
        if !config.offset.is_multiple_of(256) {
            return Err(GroupError::Offset(config.offset));
        }
        if end > window.bytes() {
            return Err(GroupError::NoRoom { offset: config.offset, end, bytes: window.bytes() });
        }
        if config.master >= nodes {
            return Err(GroupError::Master { master: config.master, nodes });
        }
        if let Err(reason) = &window.info().mapped {
            return Err(GroupError::NotMapped { reason: reason.clone() });
        }
        let members = (0..nodes).map(|rank| Member::new(&window, config, rank)).collect::<Result<_, _>>()?;
        let group = Group { members, area, offset: config.offset, window };
        group.reset()?;
        Ok(group)
    }

    /// The window it lies in.
    pub fn window(&self) -> &Arc<Window> {
        &self.window
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Member `rank`, as in the window.
    ///
    /// # Errors
    /// [`GroupError::NoSuchMember`].
    pub fn member(&self, rank: usize) -> Result<GroupMember<'_>, GroupError> {
        let member =
            self.members.get(rank).ok_or(GroupError::NoSuchMember { member: rank, last: self.len() - 1 })?;
        Ok(GroupMember { member, rank })
    }

    /// Whether a collective failed since the last reset: names the timeout behind
    /// it rather than the members that it took along. Not while kernels run.
    ///
    /// # Errors
    /// [`GroupError::Failed`], [`GroupError::Poisoned`], [`GroupError::Memory`].
    pub fn check(&self) -> Result<(), GroupError> {
        let mut found: Option<(usize, KernelReport)> = None;
        for (rank, member) in self.members.iter().enumerate() {
            if let Some(report) = member.report.get() {
                if found.is_none() || report.status == GGAS_ERR_TIMEOUT {
                    found = Some((rank, report));
                }
                if report.status == GGAS_ERR_TIMEOUT {
                    break;
                }
            }
        }
        if let Some((member, report)) = found {
            return Err(GroupError::Failed { member, report });
        }
        for (rank, member) in self.members.iter().enumerate() {
            if member.is_poisoned()? {
                return Err(GroupError::Poisoned { member: rank });
            }
        }
        Ok(())
    }

    /// Makes the group as new. Not while kernels of any member run.
    ///
    /// # Errors
    /// [`GroupError::Window`], [`GroupError::Memory`].
    pub fn reset(&self) -> Result<(), GroupError> {
        let zeros = vec![0; self.area.flags];
        for (rank, member) in self.members.iter().enumerate() {
            self.window.write(rank, self.offset, &zeros)?;
            member.memory.write(0, bytes_of(&member.initial))?;
            member.report.clear();
        }
        Ok(())
    }
}

impl Member {
    fn new(window: &Window, config: &GroupConfig, rank: usize) -> Result<Self, GroupError> {
        let member = window.member(rank)?;
        let report = ReportCell::new(member.processor())?;
        let offset = config.offset as u64;
        let initial = ggas_group {
            base: member.global_pointer(0)? + offset,
            local: member.pointer_of(rank)? + offset,
            stride: window.info().stride as u64,
            slot_bytes: config.slot_bytes as u64,
            report: report.address(),
            timeout_ns: config.timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            node: rank as u32,
            nodes: window.len() as u32,
            master: config.master as u32,
            poisoned: 0,
            barrier_epoch: 0,
            data_epoch: 0,
            grid_epoch: 0,
            grid_arrived: 0,
            grid_status: 0,
            grid_result: 0,
            reserved: 0,
        };
        Ok(Self { memory: member.processor().alloc(size_of::<ggas_group>())?, report, initial })
    }

    fn is_poisoned(&self) -> Result<bool, GroupError> {
        let mut word = [0; 4];
        self.memory.read(offset_of!(ggas_group, poisoned), &mut word)?;
        Ok(u32::from_ne_bytes(word) != 0)
    }
}

/// A member of a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupMember<'a> {
    member: &'a Member,
    rank: usize,
}

impl GroupMember<'_> {
    /// Its rank in group and window.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Address of its `struct ggas_group`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.member.memory.address()
    }

    /// What a wait of its kernels reported, if one failed.
    pub fn report(&self) -> Option<KernelReport> {
        self.member.report.get()
    }

    /// True after a failed collective. Not while its kernels run.
    ///
    /// # Errors
    /// [`GroupError::Memory`].
    pub fn is_poisoned(&self) -> Result<bool, GroupError> {
        self.member.is_poisoned()
    }
}

fn bytes_of(group: &ggas_group) -> &[u8] {
    // SAFETY: plain numbers without padding (the layout's offsets are asserted in extoll-abi).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(group).cast(), size_of::<ggas_group>()) }
}
