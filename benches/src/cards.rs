//! Nodes that are cards, and the machine at the other end of one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas::{Address, Connection, Device, Match, Node, Port, PortConfig, Spec, WaitError};
use ggas_device::hw;

use crate::error::Doing;
use crate::{BenchError, Team};

/// Class of a greeting.
const HELLO: u8 = 250;
/// Class of what follows: a length in bytes, then words.
const DATA: u8 = 251;
/// Of those that a port for this may have: the lowest that are free.
const VPIDS: u8 = 16;
/// From one greeting to the next.
const AGAIN: Duration = Duration::from_millis(100);
/// The other machine's program may be started much later.
const START: Duration = Duration::from_secs(60);

/// Two nodes on this machine's cards, or the one that this process has, and the first one's id. The names of cards
/// are those of [`hw::open_all`], which nodes take in turn.
pub(crate) fn nodes(team: &Team) -> Result<(Vec<Node>, u32), BenchError> {
    let cards = hw::open_all().doing("opening cards")?;
    let node = |index: u32| Node::new(cards[index as usize % cards.len()].clone());
    Ok(match team.own_node() {
        None => ((0..2).map(node).collect(), 0),
        Some(own) => (vec![node(0)], own),
    })
}

/// The other machine's process. What they tell each other goes through notification puts.
pub(crate) struct Machine {
    port: Port,
    there: Connection,
}

impl Machine {
    /// Waits for the other one's answer.
    pub fn meet(peer: u16) -> Result<Self, BenchError> {
        let card: Arc<dyn Device> = hw::open().doing("opening a card")?;
        if card.info().node == peer {
            let advice = "that is this machine's card; name the other one's node id";
            return Err(BenchError::option("machine", peer, advice));
        }
        let port = Node::new(card).open_port(PortConfig::default()).doing("opening a port")?;
        let there = greet(&port, peer).doing_with(|| format!("meeting the machine of node {peer}"))?;
        let machine = Self { port, there };
        machine.settle().doing_with(|| format!("meeting the machine of node {peer}"))?;
        Ok(machine)
    }

    /// After the other's greeting has come, one of ours arrives, and what it says next comes after its last one.
    fn settle(&self) -> Result<(), MeetError> {
        self.there.notification_put(HELLO, 0, Spec::COMPLETER)?;
        self.exchange(&[], START)?;
        let hello = Match::any().class(HELLO).from(self.there.remote());
        while self.port.poll_match(&hello).is_some() {}
        Ok(())
    }

    /// 0 for the lower node id.
    pub fn rank(&self) -> u32 {
        (self.port.address().node > self.there.remote().node).into()
    }

    /// Gives `own` to the other one; what both gave, in the order of their ranks.
    pub fn exchange(&self, own: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, MeetError> {
        let send = |word| self.there.notification_put(DATA, word, Spec::COMPLETER);
        send(own.len() as u64)?;
        for chunk in own.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            send(u64::from_le_bytes(word))?;
        }
        let wanted = Match::any().class(DATA).from(self.there.remote());
        let next = || self.port.wait_match(&wanted, timeout).map(|came| came.word0);
        let len = next()? as usize;
        let mut theirs = Vec::with_capacity(len.min(1 << 16));
        while theirs.len() < len {
            let word = next()?.to_le_bytes();
            theirs.extend_from_slice(&word[..(len - theirs.len()).min(8)]);
        }
        let own = own.to_vec();
        Ok(if self.rank() == 0 { vec![own, theirs] } else { vec![theirs, own] })
    }
}

/// Greets the ports of a node until one of them greets this one. Before the other port is open greetings go nowhere. Which
/// VPID it has depends on what was open there lately.
fn greet(port: &Port, peer: u16) -> Result<Connection, MeetError> {
    let greeting = Match::any().class(HELLO).from_node(peer);
    let end = Instant::now() + START;
    loop {
        for vpid in 0..VPIDS {
            port.connect(Address::new(peer, vpid)).notification_put(HELLO, 0, Spec::COMPLETER)?;
        }
        match port.wait_match(&greeting, AGAIN) {
            Ok(came) => return Ok(port.connect(came.remote())),
            Err(WaitError::Timeout { .. }) if Instant::now() < end => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Why the other machine was not heard.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeetError {
    #[error(transparent)]
    Post(#[from] ggas::PostError),
    #[error(
        "{0}; run the same command there, with this card's node id, and close other ports of both cards first"
    )]
    Wait(#[from] WaitError),
}
