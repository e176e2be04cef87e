//! The members of a group that are in this process: the structures that kernels use.

use std::mem::offset_of;

use extoll_abi::layout::{GGAS_ERR_TIMEOUT, GGAS_GROUP_POISONED, GGAS_GROUP_TRACED, ggas_group};
use ggas_kernels::{KernelMem, MemoryError};
use ggas_rma::{KernelReport, ReportCell};
use ggas_window::Window;

use crate::{GroupConfig, GroupError};

/// Members in the order of their ranks; none where kernels do not reach all parts.
#[derive(Debug)]
pub(crate) struct Members {
    first: usize,
    members: Vec<Member>,
}

/// Where the bits of those that left are.
const LEFT: usize = size_of::<ggas_group>();

#[derive(Debug)]
pub(crate) struct Member {
    /// `struct ggas_group`, and [behind it](LEFT) a bit for each node whose process has left.
    memory: KernelMem,
    report: ReportCell,
    initial: Box<ggas_group>,
}

impl Members {
    pub fn new(window: &Window, config: &GroupConfig, one_shot_bytes: usize) -> Result<Members, GroupError> {
        let member = |rank| Member::new(window, config, one_shot_bytes, rank);
        let ranks = if window.info().mapped.is_ok() { window.local() } else { 0..0 };
        let members = ranks.map(member).collect::<Result<_, _>>()?;
        Ok(Members { first: window.local().start, members })
    }

    /// A member of this process; `rank` was checked, and that there are any.
    pub fn of(&self, rank: usize) -> &Member {
        &self.members[rank - self.first]
    }

    /// Whether a collective of these members failed.
    pub fn check(&self) -> Result<(), GroupError> {
        let ranked = || (self.first..).zip(&self.members);
        let reports = ranked().filter_map(|(rank, member)| Some((rank, member.report()?)));
        // A timeout is the cause of what the others report.
        if let Some((member, report)) =
            reports.max_by_key(|(rank, report)| (report.status == GGAS_ERR_TIMEOUT, std::cmp::Reverse(*rank)))
        {
            return Err(GroupError::Failed { member, report });
        }
        for (member, state) in ranked() {
            if state.is_poisoned()? {
                return Err(GroupError::Poisoned { member });
            }
        }
        Ok(())
    }

    /// Makes them as new.
    pub fn clear(&self) -> Result<(), GroupError> {
        for member in &self.members {
            member.memory.write(0, bytes_of(&member.initial))?;
            member.report.clear();
        }
        Ok(())
    }

    /// Whether any of them has its kernels on a GPU.
    pub fn on_gpu(&self) -> bool {
        self.members.iter().any(|member| member.memory.device_buffer().is_some())
    }

    /// Makes their kernels' collectives fail, those under way included; kernels may run, and need not.
    pub fn poison(&self) -> Result<(), MemoryError> {
        let at = offset_of!(ggas_group, poisoned);
        let poison = |member: &Member| member.memory.store_u32(at, GGAS_GROUP_POISONED);
        self.members.iter().try_for_each(poison)
    }

    /// Ends their kernels' waits for a node whose process has left, now and later. By one thread at a time.
    pub fn tell_left(&self, node: u32) -> Result<(), MemoryError> {
        let at = LEFT + node as usize / 64 * 8;
        self.members.iter().try_for_each(|member| {
            let word = member.memory.load_u64(at)?;
            member.memory.store_u64(at, word | 1 << (node % 64))
        })
    }
}

impl Member {
    fn new(
        window: &Window,
        config: &GroupConfig,
        one_shot_bytes: usize,
        rank: usize,
    ) -> Result<Self, GroupError> {
        let member = window.member(rank)?;
        let traced = member.trace_words();
        let report = ReportCell::with_words(member.processor(), traced.as_ref().map_or(&[], |words| words))?;
        let offset = config.offset as u64;
        let words = window.len().div_ceil(64);
        let memory = member.processor().alloc(LEFT + 8 * words)?;
        memory.write_u64s(LEFT, &vec![0; words])?;
        let initial = Box::new(ggas_group {
            base: member.global_pointer(0)? + offset,
            local: member.pointer_of(rank)? + offset,
            stride: window.info().stride as u64,
            slot_bytes: config.slot_bytes as u64,
            packed_bytes: config.packed_bytes as u64,
            report: report.address(),
            timeout_ns: config.timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            one_shot_bytes: one_shot_bytes as u64,
            node: rank as u32,
            nodes: window.len() as u32,
            master: config.master as u32,
            packed_channels: config.packed_channels as u32,
            poisoned: if traced.is_some() { GGAS_GROUP_TRACED } else { 0 },
            posted: window.info().passes_the_cards().into(),
            left: memory.address() + LEFT as u64,
            ..ggas_group::default()
        });
        Ok(Self { memory, report, initial })
    }

    /// Address of its `struct ggas_group`.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Bytes of its `struct ggas_group`, while no kernel runs.
    #[cfg(test)]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), MemoryError> {
        self.memory.read(offset, bytes)
    }

    pub fn report(&self) -> Option<KernelReport> {
        self.report.get()
    }

    pub fn is_poisoned(&self) -> Result<bool, GroupError> {
        let mut word = [0; 4];
        self.memory.read(offset_of!(ggas_group, poisoned), &mut word)?;
        Ok(u32::from_ne_bytes(word) & GGAS_GROUP_POISONED != 0)
    }
}

fn bytes_of(group: &ggas_group) -> &[u8] {
    // SAFETY: plain numbers without padding (the layout's offsets are asserted in extoll-abi).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(group).cast(), size_of::<ggas_group>()) }
}
