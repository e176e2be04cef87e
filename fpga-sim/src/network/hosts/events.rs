//! What the protocol of meetings is made of: its bounds, and what it has others do.

use std::time::Duration;

use super::proof::{Papers, Word};

/// How long things may take. All processes of a network have the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// A process from which nothing is heard for so long is lost.
    pub silence: Duration,
    /// How often a process says that it lives.
    pub beat: Duration,
    /// A meeting.
    pub meeting: Duration,
    /// How long packets to a node are thrown away after nobody was met there.
    pub nobody: Duration,
    /// A process that was met, and to which nothing comes over the wire for so long, is lost; as is one of a job that is not met for so
    /// long. Longer than a silence: where packets are lost, TCP tries to connect after 1, 3 and 7 s.
    pub unreached: Duration,
    /// So long after it was last wanted a host that does not answer is called again and again.
    pub wanted: Duration,
    /// Where calls of a process of a job are refused for so long it is lost. That it left is known sooner.
    pub refused: Duration,
    /// What a process had sent before its connection broke may come so much later.
    pub linger: Duration,
}

impl Bounds {
    pub fn of(silence: Duration) -> Bounds {
        Bounds {
            silence,
            beat: silence / 10,
            meeting: silence,
            nobody: Duration::from_millis(250),
            unreached: 2 * silence,
            wanted: 12 * silence,
            refused: silence / 5,
            linger: Duration::from_millis(20),
        }
    }
}

/// Names a connection of the lobby, for ever.
pub(super) type Connection = u64;

/// For the lobby.
#[derive(Debug)]
pub(super) enum Out {
    /// Connect to the node; then `Meetings::connected` or `broke`.
    Call(u16, Connection),
    Say(Connection, Vec<u8>),
    /// Something is due sooner than the last look told.
    Look,
    /// Once all is said; nothing is told of it.
    Close(Connection),
    /// There was no answer, or no whole one, from the node's place in time.
    Unanswered(u16),
    /// The process at a node is met, but nothing that is sent to it over the wire comes.
    Unheard(u16),
}

/// For packets.
#[derive(Debug)]
pub(super) enum News {
    /// A meeting begins: packets from the node have to have this ticket from now on, and no others. With whom, where that is known:
    /// then packets may come before [`News::Met`].
    Opened { node: u16, ticket: u64, process: Option<u64> },
    /// Packets may go to the process.
    Met { node: u16, process: u64, papers: Papers },
    /// The process leaves: nothing may go there. Tell `Meetings::has_all` when as much came.
    Leaves { node: u16, sent: [u32; 2], taken: [u32; 2] },
    /// To say to the process with its packets, once there is room; a beat, if there is room now.
    Tell { node: u16, word: Word },
    /// The same to a process that leaves, all of whose packets are here: it is gone then.
    Farewell { node: u16 },
    /// Nothing can go there any more; more may come, for a moment.
    Broke { node: u16 },
    /// The process is gone, and nothing that comes from it counts.
    Gone { node: u16, end: End },
    /// A meeting is over, or there is none: what waits for the node has to be tried again.
    Settled { node: u16 },
    /// The same while a call goes on: who is met by it has the ticket of that call.
    Unanswered { node: u16 },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It left in order.
    Left = 1,
    /// It died, or its host, or nothing was heard of it for too long, or it broke the rules.
    Lost,
}

/// What becomes of packets to a node where nobody is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Wait,
    ThrowAway,
}
