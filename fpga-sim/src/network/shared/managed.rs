//! What happens to cables and nodes, and what that means for the packets of a process; the registers that show it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::cables::Cables;
use super::fabric::ProcessFabric;
use crate::network::links::faults::{Event, FaultError};
use crate::network::links::link::LinkCounters;
use crate::network::links::routing::{Broken, Routing};
use crate::network::links::torus::{Direction, Torus};
use crate::network::links::xbar::Managed;
use crate::packet::{Class, Packet};

/// Between two looks at whether something that packets wait for has changed. Others who change it tell nobody.
const LOOK: Duration = Duration::from_millis(1);

impl ProcessFabric {
    /// The network's cables and nodes: which work.
    pub fn cables(&self) -> &Cables {
        &self.ways.cables
    }

    /// Lets something happen to a cable or a node, for all members of the network, as
    /// [`Network::happen`](crate::network::in_process::network::Network::happen) does in one process.
    ///
    /// # Errors
    /// Those of [`Cables::happen`].
    pub fn happen(&self, event: Event) -> Result<(), FaultError> {
        self.cables().happen(event)?;
        self.look_again();
        Ok(())
    }

    /// Something on the packet's way does not work: it is not taken, and tried again once something has changed since
    /// `generation`.
    #[cold]
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    pub(super) fn wait_for_change(&self, generation: u64, packet: Packet) -> Result<(), Packet> {
        if !self.is_waiting.swap(true, Ordering::AcqRel) {
            self.watch_cables(generation);
        }
        Err(packet)
    }

    fn watch_cables(&self, generation: u64) {
        let this = self.this.clone();
        self.member().soon(LOOK, move || {
            let Some(fabric) = this.upgrade() else { return };
            if fabric.cables().generation() == generation {
                return fabric.watch_cables(generation);
            }
            // First this, then the wake: whoever finds its way shut again begins anew.
            fabric.is_waiting.store(false, Ordering::Release);
            fabric.look_again();
        });
    }

    /// The node is dead: what comes for it is thrown away.
    #[cold]
    pub(super) fn throw_away(&self, class: Class) -> Option<Packet> {
        while self.poll_class(class).is_some() {
            self.discard();
        }
        None
    }
}

impl Managed for ProcessFabric {
    fn torus(&self) -> &Torus {
        self.cables().torus()
    }

    fn routing(&self) -> Arc<Routing> {
        self.cables().routing()
    }

    fn broken(&self) -> Broken {
        self.cables().broken()
    }

    fn link_counters(&self, node: u16, direction: Direction) -> LinkCounters {
        LinkCounters { sent: self.nodes.sent(node, direction), ..LinkCounters::default() }
    }

    fn discarded(&self, node: u16) -> u64 {
        self.nodes.discarded(node)
    }

    fn happen(&self, event: Event) -> Result<(), FaultError> {
        self.happen(event)
    }

    /// They follow from what is broken alone: no process has tables of its own.
    fn change_routing(&self, _change: &dyn Fn(&Routing) -> Routing) {}
}
