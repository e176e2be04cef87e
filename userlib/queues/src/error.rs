//! What can go wrong with queues, and what to do about it.

use extoll_abi::layout::GGAS_QUEUES;
use ggas_kernels::MemoryError;
use ggas_members::JobError;
use ggas_rma::{DeviceError, KernelPortError, KernelReport, RegionError, ReportError};
use ggas_window::WindowError;

use crate::Way;

/// Errors of queues.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum QueuesError {
    /// A number of queues that there cannot be.
    #[error("{queues} queues: a member has 1 to {max}", max = GGAS_QUEUES)]
    Count {
        /// Queues asked for.
        queues: u32,
    },
    /// More flags than kernels can number.
    #[error("{flags} flags: a member has {most} at most")]
    Flags {
        /// Flags asked for.
        flags: u32,
        /// Most of them.
        most: u32,
    },
    /// Queues without members.
    #[error("queues need a member: give at least one node and its processor")]
    NoMembers,
    /// There is no such member.
    #[error("there is no member {member}: they are numbered from 0 to {last}")]
    NoSuchMember {
        /// The number.
        member: usize,
        /// The last one.
        last: usize,
    },
    /// The member is another process's.
    #[error("member {member} is of another process: this one has {own:?}")]
    Elsewhere {
        /// The number.
        member: usize,
        /// Members of this process.
        own: std::ops::Range<usize>,
    },
    /// Not one port was free.
    #[error(
        "member {member} gets no port for its queues: {source}; close ports, leave fewer to others (QueuesConfig::ports), \
         or, where all memory is mapped, use none (Way::Stores)"
    )]
    PortsInUse {
        /// The member.
        member: usize,
        /// What the device says.
        #[source]
        source: Box<DeviceError>,
    },
    /// A port could not be opened for another reason.
    #[error(transparent)]
    Port(Box<KernelPortError>),
    /// The network device was asked for where there is no port.
    #[error(
        "the network device needs ports, and these queues have none: open them with QueuesConfig::ports and not Way::Stores"
    )]
    NoPorts,
    /// No way leads there.
    #[error("member {from} does not reach memory of member {to} by {way}: {reason}; {advice}", advice = advice(*way))]
    Unreachable {
        /// Whose kernels.
        from: usize,
        /// Whose memory.
        to: usize,
        /// The way asked for.
        way: Way,
        /// Why.
        reason: String,
    },
    /// Memory of other members than these.
    #[error(
        "the memory has parts of {got} of the {members} members that the queues have in this process: give one for each, or a \
         window with the same members"
    )]
    Parts {
        /// Parts of it.
        got: usize,
        /// Members.
        members: usize,
    },
    /// `new` and `share` are for members of one process.
    #[error("some members are in other processes: call {call}")]
    Across {
        /// What to call.
        call: &'static str,
    },
    /// Members differ in what they ask for.
    #[error("member {member} has {theirs} {what}, and member 0 {first}: give all the same")]
    Unequal {
        /// What it is about.
        what: &'static str,
        /// The first member with another number.
        member: usize,
        /// Its number.
        theirs: u64,
        /// That of member 0.
        first: u64,
    },
    /// Another member failed.
    #[error("member {member}: {what}")]
    Peer {
        /// The member.
        member: usize,
        /// What happened there.
        what: String,
    },
    /// The members' own way to exchange failed.
    #[error("the members could not exchange where their memory is: {0}")]
    Exchange(String),
    /// The job's did.
    #[error(transparent)]
    Job(Box<JobError>),
    /// A process of the job died.
    #[error(
        "the process of member {member} is gone: writes to it fail, and so do waits that name it; open new queues without it"
    )]
    PeerLost {
        /// The member.
        member: usize,
    },
    /// A kernel's wait on a queue failed, or it asked for what there is not.
    #[error("{}{report}", whose(*member, report))]
    Failed {
        /// The member.
        member: usize,
        /// What the kernel left.
        report: Box<KernelReport>,
    },
    /// A window.
    #[error(transparent)]
    Window(Box<WindowError>),
    /// Registering memory.
    #[error(transparent)]
    Region(Box<RegionError>),
    /// Memory of kernels.
    #[error(transparent)]
    Memory(Box<MemoryError>),
    /// Memory for reports.
    #[error(transparent)]
    Report(Box<ReportError>),
}

ggas_errors::debug_as_display!(QueuesError);

/// Errors of layers below are large, and rare.
macro_rules! boxed {
    ($($variant:ident($error:ty)),*) => {$(
        impl From<$error> for QueuesError {
            fn from(error: $error) -> QueuesError {
                QueuesError::$variant(Box::new(error))
            }
        }
    )*};
}

boxed!(
    Port(KernelPortError),
    Job(JobError),
    Window(WindowError),
    Region(RegionError),
    Memory(MemoryError),
    Report(ReportError)
);

/// Reports of queues name their member, those of their ports the node.
fn whose(member: usize, report: &KernelReport) -> String {
    if report.is_of_queues() { String::new() } else { format!("member {member}: ") }
}

fn advice(way: Way) -> &'static str {
    match way {
        Way::Stores => "let the network device carry it (Way::Auto, Way::Device)",
        Way::Auto | Way::Device => "open the queues with ports",
    }
}
