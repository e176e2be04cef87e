//! What happens to links and cards of a [`World`], and how management reacts.

use std::sync::Arc;
use std::time::Instant;

use super::{Ticket, World};
use crate::network::links::faults::Event;
use crate::network::links::routing::{PORT_HOST, Routing};
use crate::network::links::torus::Direction;

impl<P> World<P> {
    /// Carries out a fault or its repair. Events for nodes or links that the torus lacks do nothing.
    pub fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::LinkDown(node, port) => {
                self.broken.set_link(&self.torus, node, port, true);
            }
            Event::LinkUp(node, port) => {
                self.broken.set_link(&self.torus, node, port, false);
                self.hurry(now, node, port);
            }
            Event::Kill(node) if self.torus.index(node).is_some() => self.kill(now, node),
            Event::Return(node) if self.broken.is_dead(node) => {
                self.broken.revive(node);
                self.node(node).stopped = false;
                self.happen(now, Event::Reroute);
            }
            Event::Stop(node) if self.torus.index(node).is_some() => self.node(node).stopped = true,
            Event::Resume(node) if self.torus.index(node).is_some() => {
                self.node(node).stopped = false;
                Direction::ALL.iter().for_each(|&port| self.hurry(now, node, port));
                self.woken.push(node);
            }
            Event::Starve(node) if self.torus.index(node).is_some() => self.node(node).starved = true,
            Event::Feed(node) if self.torus.index(node).is_some() => {
                self.node(node).starved = false;
                self.woken.push(node);
            }
            Event::Reroute => self.install(now, Arc::new(Routing::avoiding(self.torus, &self.broken))),
            _ => {}
        }
        self.step(now);
    }

    /// Both ends of a cable repeat at once what is unacknowledged.
    fn hurry(&mut self, now: Instant, node: u16, port: Direction) {
        let Some(other) = self.torus.neighbour(node, port) else { return };
        for (node, port) in [(node, port), (other, port.opposite())] {
            if let Some(link) = &mut self.node(node).links[port.index()] {
                link.hurry(now);
                self.dirty.push((node, port));
            }
        }
    }

    fn kill(&mut self, now: Instant, node: u16) {
        self.broken.kill(node);
        self.empty_inbox(node);
        self.woken.push(node);
        // The new tables discard what is under way from and to the dead node.
        self.happen(now, Event::Reroute);
    }

    /// Switches to new route tables (see the module's description).
    pub fn install(&mut self, now: Instant, routing: Arc<Routing>) {
        self.routing = routing;
        self.agenda.forget_links();
        for node in &mut self.nodes {
            node.links.iter_mut().flatten().for_each(|link| link.reset());
            node.timers = [None; 6];
        }
        let again: Vec<(u16, Ticket)> = self
            .flights
            .iter()
            .map(|(&number, flight)| {
                (flight.from, Ticket { number, to: flight.to, channel: flight.channel, hops: 0 })
            })
            .collect();
        again.into_iter().for_each(|(from, ticket)| self.forward(from, PORT_HOST, ticket));
        self.step(now);
    }
}
