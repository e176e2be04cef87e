//! What queues will be.

use std::fmt;
use std::time::Duration;

use extoll_abi::layout::GGAS_QUEUES;
use ggas_rma::PortConfig;

use crate::QueuesError;

/// How kernels of a member reach memory of another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// By stores where the memory is mapped, else by the network device.
    #[default]
    Auto,
    /// Loads and stores: NVLink, memory of one host, the SMFU of a card.
    Stores,
    /// Commands of the queue's port: the model, an RMA engine, the card.
    Device,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Auto => "auto",
            Way::Stores => "stores",
            Way::Device => "device",
        })
    }
}

/// Most flags of a member: kernels number them, and the words behind them, by 32 bits, and a wait for any of them tells which by 31.
const FLAGS: u32 = 1 << 30;

/// Number and shape of queues. All members give the same numbers of queues and flags.
#[derive(Clone, Copy, Debug)]
pub struct QueuesConfig {
    /// Queues of each member, 1 to 32; 8 unless set. More than one lets blocks post at the same time without order between
    /// them (thesis 5.7.4: 2 to 32).
    pub queues: u32,
    /// Most ports of each member that they use; as many as queues unless set. Where a node has fewer free VPIDs (251 in all,
    /// spec 9.2, and 32 on engines), queues share the ports there are: they then wait for each other's operations.
    pub ports: u32,
    /// Flags of each member that programs name, 2^30 at most; 256 unless set. Two more for each member, for `notify_gpu`, come of themselves.
    pub flags: u32,
    /// How memory is reached that says nothing else ([`Memory::by`](crate::Memory::by)). With [`Way::Stores`] no ports are opened;
    /// with [`Way::Auto`] they are, even where all memory turns out to be mapped.
    pub way: Way,
    /// Shape of the ports, and how kernels post to them ([`PortConfig::path`]). Its `kernel_timeout` is not used: `timeout` is.
    pub port: PortConfig,
    /// Operations that may be under way on a port when a post returns; a quarter of what the notification queue holds
    /// unless set, and never more than that.
    pub under_way: Option<u32>,
    /// Bound of every wait of kernels, in posts too, and of each step of the set-up.
    pub timeout: Duration,
}

impl Default for QueuesConfig {
    fn default() -> QueuesConfig {
        QueuesConfig {
            queues: 8,
            ports: GGAS_QUEUES,
            flags: 256,
            way: Way::Auto,
            port: PortConfig::default(),
            under_way: None,
            timeout: Duration::from_secs(10),
        }
    }
}

impl QueuesConfig {
    pub(crate) fn check(&self) -> Result<(), QueuesError> {
        if !(1..=GGAS_QUEUES).contains(&self.queues) {
            return Err(QueuesError::Count { queues: self.queues });
        }
        if self.flags > FLAGS {
            return Err(QueuesError::Flags { flags: self.flags, most: FLAGS });
        }
        if self.ports == 0 && self.way == Way::Device {
            return Err(QueuesError::NoPorts);
        }
        Ok(())
    }

    /// Ports to open on each member.
    pub(crate) fn wanted_ports(&self) -> u32 {
        if self.way == Way::Stores { 0 } else { self.ports.min(self.queues) }
    }

    /// Operations under way on a port at most.
    pub(crate) fn limit(&self) -> u32 {
        let quarter = u32::try_from(self.port.queue_bytes / 16 / 4).unwrap_or(u32::MAX);
        self.under_way.unwrap_or(quarter).clamp(1, quarter.max(1))
    }

    /// Bytes of a member's flags and what is beside them (`struct ggas_queues`).
    pub(crate) fn flag_bytes(&self, members: usize) -> usize {
        self.flags_proper(members) + 8 * 2 * GGAS_QUEUES as usize
    }

    /// Of these, the bytes of the flags, `notify_gpu`'s among them.
    pub(crate) fn flags_proper(&self, members: usize) -> usize {
        8 * (self.flags as usize + 2 * members)
    }

    pub(crate) fn timeout_ns(&self) -> u64 {
        self.timeout.as_nanos().try_into().unwrap_or(u64::MAX)
    }
}
