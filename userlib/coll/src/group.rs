//! Groups: flags and staging in a window, and one structure per member.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use ggas_members::Job;
use ggas_rma::KernelReport;
use ggas_window::{Setup, Window};
use serde::{Deserialize, Serialize};

use crate::area::{self, Area};
use crate::loss::Loss;
use crate::members::{Member, Members};
use crate::run::{Processes, RunBy};
use crate::{Choices, GroupError, TunedBy};

/// How a group is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// First byte of the group's area in each part of the window, a multiple of 256.
    pub offset: usize,
    /// Bytes that one node sends to another in one exchange through staging, a multiple of 256;
    /// longer vectors take several exchanges. Default 64 KiB.
    pub slot_bytes: usize,
    /// Blocks of a grid that have packet buffers, and so a share in collectives by packets, at most
    /// `GGAS_CHANNELS`. Default 32.
    pub packed_channels: usize,
    /// Bytes of packets, half of them data, that one node sends to another in one exchange of a block with packet
    /// buffers, a multiple of 256; longer vectors take several exchanges. Default 16 KiB.
    pub packed_bytes: usize,
    /// Bytes up to which an allreduce by packets goes in one step; longer vectors go in two. Default: as `tuned_by`
    /// says.
    pub one_shot_bytes: Option<usize>,
    /// The source of choices that the caller does not force; default: the table of this host.
    pub tuned_by: TunedBy,
    /// Bound of every wait in a collective; default 10 s.
    pub timeout: Duration,
    /// By whom [`Group::run`] makes collectives between processes; default: by kernels where they reach all parts.
    pub run_by: RunBy,
    /// Rank of the node that collects check-ins at barriers through a master; default 0.
    pub master: usize,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            offset: 0,
            slot_bytes: 64 << 10,
            packed_channels: 32,
            packed_bytes: 16 << 10,
            one_shot_bytes: None,
            tuned_by: TunedBy::Host,
            timeout: Duration::from_secs(10),
            run_by: RunBy::Reach,
            master: 0,
        }
    }
}

impl GroupConfig {
    /// The default layout with buffer sizes for a number of nodes. Each node has buffers for all other nodes, so the
    /// memory of all buffers grows with the square of the number. Up to 32 nodes buffers have the default sizes. With
    /// more nodes buffers are smaller, so that the packet buffers of all nodes take at most 1 GiB, and staging at most
    /// another; from 257 nodes on fewer blocks have packet buffers (`packed_channels`).
    pub fn for_nodes(nodes: usize) -> Self {
        area::shrunk(nodes, Self::default())
    }

    /// Bytes that each part of the window needs for a group of `nodes`, its offset included.
    ///
    /// # Errors
    /// Sizes that are impossible.
    pub fn end(&self, nodes: usize) -> Result<usize, GroupError> {
        let area = Area::new(nodes, self)?;
        let too_large = GroupError::TooLarge { nodes, slot_bytes: self.slot_bytes };
        self.offset.checked_add(area.bytes).ok_or(too_large)
    }
}

/// All members of a window as a group for collectives.
///
/// Kernels of every member call the same collectives in the same order, and so do hosts ([`run`](Self::run)). When one
/// fails, by a timeout or because a member died, the group is poisoned: collectives
/// fail at once until [`reset`](Self::reset).
#[derive(Debug)]
pub struct Group {
    window: Arc<Window>,
    pub(crate) members: Arc<Members>,
    area: Area,
    offset: usize,
    choices: Choices,
    pub(crate) timeout: Duration,
    /// Where processes make the collectives.
    pub(crate) processes: Option<Processes>,
    /// For a group across processes.
    loss: Option<Loss>,
}

impl Group {
    /// A group of all members of `window`, in bytes `config.offset` to
    /// [`config.end`](GroupConfig::end) of each part, which are the group's from now on.
    ///
    /// # Errors
    /// [`GroupError::NotMapped`] where kernels cannot reach the parts by pointers;
    /// sizes that do not fit; memory.
    pub fn new(window: Arc<Window>, config: &GroupConfig) -> Result<Group, GroupError> {
        if window.local().len() < window.len() {
            return Err(GroupError::Across { call: "Group::across" });
        }
        let choices = choices_of(&window, config)?;
        let group = Group::unset(window, config, choices)?;
        group.mapped()?;
        group.clear()?;
        Ok(group)
    }

    /// The part that this process has of a group in `window`, which is one [on nodes](Window::on_nodes). Make the call on
    /// every node with the same layout, and let the nodes meet before a kernel calls a collective: flags are cleared then.
    /// Nobody watches the other nodes; a collective that waits for one in vain fails by its time-out.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn on_nodes(window: Arc<Window>, config: &GroupConfig) -> Result<Group, GroupError> {
        let choices = choices_of(&window, config)?;
        let group = Group::unset(window, config, choices)?;
        group.mapped()?;
        group.clear()?;
        Ok(group)
    }

    /// A group of all members of `window`, which lies [across](Window::across) the processes of `job`. Collective: all
    /// processes call `across` with the same layout; their time-outs may differ. The time limit is that of the window's
    /// set-up.
    ///
    /// Where kernels do not reach all parts, as of processes that share a GPU, [`run`](Self::run) makes the group's collectives, and
    /// kernels have none.
    ///
    /// When a process of the job dies, the group is poisoned in all other processes: collectives of kernels, those
    /// under way included, return `GGAS_ERR_POISONED` at once, and [`check`](Self::check) names the process. A group with
    /// a dead member stays poisoned.
    ///
    /// A process that leaves the job (drops its [`Job`]) ends no collective that it has done its part of. Who waits for it fails at once, as
    /// do those that wait for that one, and [`check`](Self::check) says [`GroupError::PeerLeft`]; where stores pass network cards a second later.
    ///
    /// # Errors
    /// As for [`new`](Self::new); [`GroupError::Unequal`] and [`GroupError::MixedModels`] on all ranks; [`GroupError::Window`] where another process
    /// failed, died, or did not make the call in time.
    pub fn across(job: &Job, window: Arc<Window>, config: &GroupConfig) -> Result<Group, GroupError> {
        let setup = Setup::new(job, window.timeout());
        let choices = choices_of(&window, config);
        same_layout(&setup, window.len(), config, choices.as_ref().ok())?;
        let made = choices.and_then(|choices| Group::unset(window, config, choices)).and_then(|mut group| {
            group.loss = Some(Loss::watch(job, &group.window, &group.members));
            group.clear()?;
            Ok((group, config.tuned_by.table()?))
        });
        // Once all have answered, everyone's flags are cleared.
        let (mut group, table) = setup.agree(made)?;
        group.processes = Processes::new(job, &group.window, group.area(), config, table)?;
        group.processes.is_none().then(|| group.mapped()).transpose()?;
        Ok(group)
    }

    /// Fails where kernels have no collectives.
    fn mapped(&self) -> Result<(), GroupError> {
        let mapped = self.window.info().mapped.as_ref();
        mapped.map(drop).map_err(|reason| GroupError::NotMapped { reason: reason.clone() })
    }

    /// A group whose flags nobody has cleared yet.
    fn unset(window: Arc<Window>, config: &GroupConfig, choices: Choices) -> Result<Group, GroupError> {
        let nodes = window.len();
        let area = Area::new(nodes, config)?;
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
        let members = Arc::new(Members::new(&window, config, choices.one_shot_bytes)?);
        let &GroupConfig { offset, timeout, .. } = config;
        Ok(Group { members, area, offset, choices, timeout, window, processes: None, loss: None })
    }

    /// The choices of the group for calls that do not force one.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// The window that the group lies in.
    pub fn window(&self) -> &Arc<Window> {
        &self.window
    }

    /// Bytes of each part of the window that are the group's.
    pub(crate) fn area(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.area.bytes
    }

    /// Number of members, in all processes.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// Member `rank`, as in the window.
    ///
    /// # Errors
    /// [`GroupError::NoSuchMember`]; [`GroupError::Window`] for a member of another process; [`GroupError::NotMapped`] where kernels have
    /// no collectives.
    pub fn member(&self, rank: usize) -> Result<GroupMember<'_>, GroupError> {
        if rank >= self.len() {
            return Err(GroupError::NoSuchMember { member: rank, last: self.len() - 1 });
        }
        self.window.member(rank)?;
        self.mapped()?;
        Ok(GroupMember { member: self.members.of(rank), rank })
    }

    /// Whether a collective failed since the last reset. The error names a process that died, else the wait that timed
    /// out first, rather than members that failed in consequence. In a group across processes, each process sees the
    /// errors of its own member; where another's failure is all that it sees, or the network device knows of a death, it waits
    /// up to 2 s for the news of it.
    /// Do not call it while kernels run.
    ///
    /// # Errors
    /// [`GroupError::PeerLost`], [`GroupError::PeerLeft`], [`GroupError::Failed`], [`GroupError::Poisoned`], [`GroupError::Memory`].
    pub fn check(&self) -> Result<(), GroupError> {
        self.check_loss()?;
        let seen = match self.processes.as_ref().is_some_and(Processes::is_broken) {
            true => Err(GroupError::Poisoned { member: self.window.local().start }),
            false => self.members.check(),
        };
        // Where it ended accesses of kernels, a network device may know of a death before the job does.
        let of_a_death = match &seen {
            Err(error) => error.is_consequence(),
            Ok(()) => self.window.lost_part().is_some(),
        };
        let waited_for = match &seen {
            Err(GroupError::Failed { report, .. }) => report.peer,
            _ => None,
        };
        match &self.loss {
            Some(loss) if of_a_death => loss.check_for_news(waited_for).and(seen),
            _ => seen,
        }
    }

    /// Clears the failure, so that collectives work again. Do not call it while kernels of any member run.
    ///
    /// # Errors
    /// [`GroupError::Window`], [`GroupError::Memory`]; [`GroupError::Across`] for a group across processes.
    pub fn reset(&self) -> Result<(), GroupError> {
        match self.loss {
            None => self.clear(),
            Some(_) => Err(GroupError::Across { call: "Group::reset_across" }),
        }
    }

    /// Clears the failure of a group across processes. Collective: each process calls it when its own kernels have ended.
    /// The time limit is that of the window's set-up.
    ///
    /// # Errors
    /// [`GroupError::PeerLost`]: a group with a dead member stays poisoned; make a new job. [`GroupError::Window`]
    /// where another process failed or did not make the call in time.
    pub fn reset_across(&self, job: &Job) -> Result<(), GroupError> {
        self.check_loss()?;
        let setup = Setup::new(job, self.window.timeout());
        let met: Result<Vec<()>, _> = setup.exchange(&());
        let done = met.map_err(GroupError::from).and_then(|_| setup.agree(self.clear()));
        let again = |processes: &Processes| processes.reset(job);
        let done = done.and_then(|()| self.processes.as_ref().map_or(Ok(()), again));
        // A death is why the others did not come.
        self.check_loss()?;
        done
    }

    pub(crate) fn check_loss(&self) -> Result<(), GroupError> {
        self.loss.as_ref().map_or(Ok(()), Loss::check)
    }

    /// Clears this process's part of the group, but for the poison of a death.
    fn clear(&self) -> Result<(), GroupError> {
        self.window.local().try_for_each(|rank| self.window.zero(rank, self.offset, self.area.zeroed))?;
        match &self.loss {
            Some(loss) => loss.clear(&self.members),
            None => self.members.clear(),
        }
    }
}

/// The table's choices, and those that the caller forces.
fn choices_of(window: &Window, config: &GroupConfig) -> Result<Choices, GroupError> {
    let mut choices = config.tuned_by.choices(window)?;
    choices.one_shot_bytes = config.one_shot_bytes.unwrap_or(choices.one_shot_bytes);
    Ok(choices)
}

/// Fails unless all processes lay the group out alike and choose alike.
fn same_layout(
    setup: &Setup<'_>,
    nodes: usize,
    config: &GroupConfig,
    choices: Option<&Choices>,
) -> Result<(), GroupError> {
    let &GroupConfig { offset, slot_bytes, packed_channels, packed_bytes, master, run_by, .. } = config;
    let sizes = [offset, slot_bytes, packed_channels, packed_bytes, master, nodes, run_by as usize];
    let sizes = sizes.map(|value| value as u64);
    let choices = choices.map(|choices| (choices.device.clone(), fingerprint(choices)));
    all_alike(&setup.exchange(&Layout { sizes, choices })?)
}

/// What a process says of its part of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Layout {
    sizes: [u64; 7],
    /// The kind of its processor, and a number that stands for all that it chose.
    choices: Option<(String, u64)>,
}

fn all_alike(all: &[Layout]) -> Result<(), GroupError> {
    // Who has no choices fails by itself, and tells the others then.
    if all.iter().any(|layout| layout.choices.is_none()) {
        return Ok(());
    }
    let device = |rank: usize| all[rank].choices.as_ref().map_or("", |(device, _)| device.as_str());
    if let Some(rank) = (0..all.len()).find(|rank| device(*rank) != device(0)) {
        let (device, first) = (device(rank).to_owned(), device(0).to_owned());
        return Err(GroupError::MixedModels { rank, device, first });
    }
    match all.iter().position(|layout| *layout != all[0]) {
        Some(rank) => Err(GroupError::Unequal { rank }),
        None => Ok(()),
    }
}

fn fingerprint(choices: &Choices) -> u64 {
    let mut hasher = DefaultHasher::new();
    choices.hash(&mut hasher);
    hasher.finish()
}

/// A member of a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupMember<'a> {
    member: &'a Member,
    rank: usize,
}

impl GroupMember<'_> {
    /// The member's rank in group and window.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Address of its `struct ggas_group`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.member.address()
    }

    /// The report of a failed wait of the member's kernels, if there is one.
    pub fn report(&self) -> Option<KernelReport> {
        self.member.report()
    }

    /// True after a failed collective. Not while its kernels run.
    ///
    /// # Errors
    /// [`GroupError::Memory`].
    pub fn is_poisoned(&self) -> Result<bool, GroupError> {
        self.member.is_poisoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(device: &str, choices: u64, slot_bytes: u64) -> Layout {
        Layout { sizes: [0, slot_bytes, 1, 1, 0, 2, 0], choices: Some((device.to_owned(), choices)) }
    }

    #[test]
    fn mixed_models_are_named_before_other_differences() {
        let same = layout("NVIDIA H200", 7, 256);
        assert!(all_alike(&[same.clone(), same.clone()]).is_ok());
        let error = all_alike(&[same.clone(), same.clone(), layout("NVIDIA A100", 8, 512)]).unwrap_err();
        assert!(matches!(error, GroupError::MixedModels { rank: 2, .. }), "{error}");
        assert!(
            ["NVIDIA A100", "NVIDIA H200"].iter().all(|name| error.to_string().contains(name)),
            "{error}"
        );
        for other in [layout("NVIDIA H200", 8, 256), layout("NVIDIA H200", 7, 512)] {
            let error = all_alike(&[same.clone(), other]).unwrap_err();
            assert!(matches!(error, GroupError::Unequal { rank: 1 }), "{error}");
        }
        assert!(all_alike(&[same, Layout { sizes: [0; 7], choices: None }]).is_ok(), "it fails by itself");
    }
}
