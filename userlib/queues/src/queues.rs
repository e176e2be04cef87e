//! Queues of all members.

use std::ops::Range;
use std::sync::Arc;

use extoll_abi::Address;
use extoll_abi::layout::{GGAS_ERR_ARGUMENT, GGAS_ERR_TIMEOUT};
use ggas_kernels::Processor;
use ggas_members::Job;
use ggas_rma::{Armed, KernelReport, Node};
use ggas_window::{Moves, Window};
use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoint, PeerTables};
use crate::exchange::Peers;
use crate::loss::Loss;
use crate::{Exchange, Memory, QueuesConfig, QueuesError, Shared, Way};

/// Queues of several members, by which their kernels write to each other's memory, read it, set flags and wait (`ggas/queue.cuh`).
///
/// A GPU is the endpoint: the queues are shared by all blocks of all kernels of a member, wherever and whenever they
/// run. Kernels get the [address](Self::address) of their member's queues, and while they run these are [armed](Self::arm).
///
/// Dropping them closes the ports. Memory [shared](Self::share) by them, and kernels, are done with before.
#[derive(Debug)]
pub struct Queues {
    // Ports see no more of the flags once these are gone.
    flags: Shared,
    /// For members across the processes of a job.
    loss: Option<Loss>,
    tables: Arc<PeerTables>,
    members: Members,
}

/// The members of this process, and how many there are.
#[derive(Debug)]
pub(crate) struct Members {
    pub endpoints: Vec<Endpoint>,
    /// Number of the first of them.
    pub first: usize,
    /// Members in all processes.
    pub len: usize,
    pub config: QueuesConfig,
}

impl Members {
    /// Numbers of those in this process.
    pub fn local(&self) -> Range<usize> {
        self.first..self.first + self.endpoints.len()
    }

    fn endpoint(&self, member: usize) -> Result<&Endpoint, QueuesError> {
        Ok(&self.endpoints[place(member, self.local(), self.len)?])
    }
}

/// Which of the members `own` of this process a member of `len` is.
pub(crate) fn place(member: usize, own: Range<usize>, len: usize) -> Result<usize, QueuesError> {
    if member >= len {
        return Err(QueuesError::NoSuchMember { member, last: len - 1 });
    }
    if own.contains(&member) { Ok(member - own.start) } else { Err(QueuesError::Elsewhere { member, own }) }
}

/// What a member says of itself.
#[derive(Serialize, Deserialize)]
struct Said {
    queues: u32,
    flags: u32,
    /// Node and VPID of each port.
    ports: Vec<(u16, u8)>,
}

impl Queues {
    /// Queues of members that are all in this process: a node each, and where its kernels run.
    ///
    /// # Errors
    /// [`QueuesError::Count`], [`QueuesError::Flags`], [`QueuesError::NoMembers`], [`QueuesError::PortsInUse`] where a node has not one free
    /// port, [`QueuesError::Port`], [`QueuesError::Unreachable`], [`QueuesError::Window`], [`QueuesError::Memory`].
    pub fn new(members: &[(&Node, &Processor)], config: &QueuesConfig) -> Result<Queues, QueuesError> {
        config.check()?;
        if members.is_empty() {
            return Err(QueuesError::NoMembers);
        }
        let open = || {
            let endpoint = |(number, (node, processor)): (usize, &(&Node, &Processor))| {
                Endpoint::open(number, node, processor, config, None)
            };
            members.iter().enumerate().map(endpoint).collect()
        };
        let flags = || {
            let window = Window::with_timeout(members, config.flag_bytes(members.len()), config.timeout)?;
            Ok(Memory::from(Arc::new(window.without_smfu())))
        };
        Queues::set_up(open(), 0, members.len(), Peers::Here, config, flags)
    }

    /// Queues of the processes of a job: member `i` is the process of rank `i`. Collective: all processes call it, in the same
    /// order as other collective calls of the job. When a process dies, writes to it and waits that name it fail.
    ///
    /// # Errors
    /// As for [`new`](Self::new); [`QueuesError::Unequal`]; where one process fails, the others get [`QueuesError::Peer`];
    /// [`QueuesError::Job`] names a process that died or did not make the call in time.
    pub fn across(
        job: &Job,
        node: &Node,
        processor: &Processor,
        config: &QueuesConfig,
    ) -> Result<Queues, QueuesError> {
        config.check()?;
        let (rank, size) = (job.rank() as usize, job.size() as usize);
        let open = Moves::asked(processor, rank, size)
            .map_err(QueuesError::from)
            .and_then(|moves| Endpoint::open(rank, node, processor, config, moves))
            .map(|endpoint| vec![endpoint]);
        let flags = || {
            let bytes = config.flag_bytes(size);
            // Nobody stores to memory of another host, and what a node has there of windows, on a card one, is the program's.
            if job.spans_hosts() {
                return Ok(Memory::from(Arc::new(processor.alloc(bytes)?)));
            }
            let window = Window::across(job, node, processor, bytes, config.timeout)?;
            Ok(Memory::from(Arc::new(window.without_smfu())))
        };
        let peers = Peers::Across(job, config.timeout);
        let mut queues = Queues::set_up(open, rank, size, peers, config, flags)?;
        queues.loss = Some(Loss::watch(job, &queues.tables));
        Ok(queues)
    }

    /// Queues of members that no job joins, of which this process has one: `place` is its number and how many there are. All
    /// goes by the network device; nobody watches the other processes. Collective, as `exchange` is.
    ///
    /// # Errors
    /// As for [`across`](Self::across); [`QueuesError::NoPorts`] with [`Way::Stores`].
    pub fn apart(
        exchange: &dyn Exchange,
        place: (usize, usize),
        node: &Node,
        processor: &Processor,
        config: &QueuesConfig,
    ) -> Result<Queues, QueuesError> {
        config.check()?;
        if config.wanted_ports() == 0 {
            return Err(QueuesError::NoPorts);
        }
        let (member, members) = place;
        if member >= members {
            return Err(QueuesError::NoSuchMember { member, last: members.saturating_sub(1) });
        }
        let open = Endpoint::open(member, node, processor, config, None).map(|endpoint| vec![endpoint]);
        let flags = || Ok(Memory::from(Arc::new(processor.alloc(config.flag_bytes(members))?)));
        Queues::set_up(open, member, members, Peers::Across(exchange, config.timeout), config, flags)
    }

    fn set_up(
        open: Result<Vec<Endpoint>, QueuesError>,
        first: usize,
        len: usize,
        peers: Peers<'_>,
        config: &QueuesConfig,
        flags: impl FnOnce() -> Result<Memory, QueuesError>,
    ) -> Result<Queues, QueuesError> {
        let said = |endpoint: &Endpoint| {
            let address = |port: &ggas_rma::KernelPort| {
                let Address { node, vpid } = port.port_address();
                (node, vpid)
            };
            let ports = endpoint.ports.iter().map(address).collect();
            Said { queues: config.queues, flags: config.flags, ports }
        };
        let (endpoints, own) = match open {
            Ok(endpoints) => {
                let own = endpoints.iter().map(said).collect();
                (endpoints, Ok(own))
            }
            Err(error) => (Vec::new(), Err(error)),
        };
        let all = peers.gather(own)?;
        if all.len() != len {
            return Err(QueuesError::Exchange(format!("{} members answered, not {len}", all.len())));
        }
        same("queues", all.iter().map(|said| said.queues))?;
        same("flags", all.iter().map(|said| said.flags))?;
        let address = |&(node, vpid)| Address::new(node, vpid);
        let addresses: Vec<Vec<Address>> =
            all.iter().map(|said| said.ports.iter().map(address).collect()).collect();
        let members = Members { endpoints, first, len, config: *config };
        let tables = Arc::new(PeerTables::new(&members.endpoints, &addresses)?);
        // Flags go the way that each memory goes, so both are there if they can be.
        let flags = flags()?;
        let way = if config.way == Way::Stores { Way::Stores } else { Way::Auto };
        let flags = Shared::new(&members, peers, flags.by(way), &|_, _| true)?;
        for (own, (member, endpoint)) in members.local().zip(&members.endpoints).enumerate() {
            endpoint.set_up(config, &tables, own, (member, len), flags.address(member)?)?;
        }
        Ok(Queues { flags, loss: None, tables, members })
    }

    /// Shares memory of members that are all in this process with their kernels.
    ///
    /// # Errors
    /// [`QueuesError::Across`], [`QueuesError::Parts`], [`QueuesError::Unreachable`], [`QueuesError::Region`],
    /// [`QueuesError::Memory`].
    pub fn share(&self, memory: impl Into<Memory>) -> Result<Shared, QueuesError> {
        if self.members.endpoints.len() < self.members.len {
            return Err(QueuesError::Across { call: "Queues::share_across" });
        }
        self.share_with(Peers::Here, memory.into())
    }

    /// The same of members in several processes. Collective: all call it in the same order, and give memory of the same kind.
    ///
    /// # Errors
    /// As for [`share`](Self::share); where one process fails, the others get [`QueuesError::Peer`].
    pub fn share_across(
        &self,
        exchange: &dyn Exchange,
        memory: impl Into<Memory>,
    ) -> Result<Shared, QueuesError> {
        self.share_with(Peers::Across(exchange, self.members.config.timeout), memory.into())
    }

    fn share_with(&self, peers: Peers<'_>, memory: Memory) -> Result<Shared, QueuesError> {
        let reached = |from, to| matches!(self.flags.way(from, to), Ok(Way::Stores));
        Shared::new(&self.members, peers, memory, &reached)
    }

    /// Address of the `struct ggas_queues` of a member of this process, for arguments of its kernels.
    ///
    /// # Errors
    /// [`QueuesError::NoSuchMember`], [`QueuesError::Elsewhere`].
    pub fn address(&self, member: usize) -> Result<u64, QueuesError> {
        Ok(self.members.endpoint(member)?.address())
    }

    /// Where the kernels of a member of this process run.
    ///
    /// # Errors
    /// As for [`address`](Self::address).
    pub fn processor(&self, member: usize) -> Result<&Processor, QueuesError> {
        Ok(&self.members.endpoint(member)?.processor)
    }

    /// Ports that the queues of a member of this process use: fewer than queues where VPIDs are short.
    ///
    /// # Errors
    /// As for [`address`](Self::address).
    pub fn ports(&self, member: usize) -> Result<usize, QueuesError> {
        Ok(self.members.endpoint(member)?.ports.len())
    }

    /// Queues of each member.
    pub fn queues(&self) -> u32 {
        self.members.config.queues
    }

    /// Members in all processes.
    pub fn len(&self) -> usize {
        self.members.len
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.members.len == 0
    }

    /// Numbers of the members of this process.
    pub fn local(&self) -> Range<usize> {
        self.members.local()
    }

    /// Makes devices look for what kernels post. Hold the guards from before a launch until after the kernels have ended.
    pub fn arm(&self) -> Vec<Armed<'_>> {
        self.members.endpoints.iter().flat_map(Endpoint::arm).collect()
    }

    /// The first failure that kernels of a member of this process left.
    ///
    /// # Errors
    /// As for [`address`](Self::address).
    pub fn report(&self, member: usize) -> Result<Option<KernelReport>, QueuesError> {
        Ok(self.members.endpoint(member)?.report())
    }

    /// Forgets reports. Not while kernels run.
    pub fn clear_reports(&self) {
        self.members.endpoints.iter().for_each(Endpoint::clear_report);
    }

    /// Makes all flags of the members of this process 0, so that rounds may be counted from the start again; counts of notifications
    /// go on. Not while kernels of any member run, nor while flags are under way to these members: all have waited and met before
    /// (`ggas_queue_quiet`, then a barrier), and meet again before they send.
    ///
    /// # Errors
    /// [`QueuesError::Window`], [`QueuesError::Memory`].
    pub fn reset_flags(&self) -> Result<(), QueuesError> {
        self.flags.clear(self.members.config.flags_proper(self.members.len))
    }

    /// Whether all went well so far. Of several members' reports this is the one most likely to be the cause: what was refused
    /// before operations that met errors, and these before time-outs, which are often only their consequence.
    ///
    /// # Errors
    /// [`QueuesError::PeerLost`], [`QueuesError::Failed`].
    pub fn check(&self) -> Result<(), QueuesError> {
        self.loss.as_ref().map_or(Ok(()), Loss::check)?;
        let members = self.local().zip(&self.members.endpoints);
        let reports = members.filter_map(|(member, endpoint)| Some((member, endpoint.report()?)));
        let rank = |status| match status {
            GGAS_ERR_ARGUMENT => 0,
            GGAS_ERR_TIMEOUT => 2,
            _ => 1,
        };
        match reports.min_by_key(|(_, report)| rank(report.status)) {
            Some((member, report)) => Err(QueuesError::Failed { member, report: Box::new(report) }),
            None => Ok(()),
        }
    }
}

/// All members say the same number.
fn same(what: &'static str, said: impl Iterator<Item = u32>) -> Result<(), QueuesError> {
    let said: Vec<u64> = said.map(u64::from).collect();
    match said.iter().enumerate().find(|(_, theirs)| **theirs != said[0]) {
        Some((member, &theirs)) => Err(QueuesError::Unequal { what, member, theirs, first: said[0] }),
        None => Ok(()),
    }
}
