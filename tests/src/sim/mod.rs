//! Whole networks in virtual time: cards, links, faults and the programs of all nodes, drawn from a seed and checked
//! against a model of every byte, every notification and every message.
//!
//! [`run`] is one network. The same seed is the same network, packet by packet: [`Outcome::digest`] says so. What can
//! happen is drawn by [`Plan`]; each node runs a program that opens its port when it likes, sends random commands to
//! those that are there, reads its notifications now and then and sometimes stands still for minutes (`program`); another
//! one breaks and mends links and nodes (`trouble`).

mod area;
mod commands;
mod member;
mod messages;
mod plan;
mod program;
mod stores;
mod streams;
mod trouble;
mod world;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use extoll_sim::Simulation;

pub use plan::Plan;
use world::World;

/// What one network did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of every packet with its time, every notification, and the counters at the end.
    pub digest: u64,
    /// Packets that cards sent, tries without credit included.
    pub packets: u64,
    /// Commands that programs posted.
    pub commands: u64,
    /// Messages that programs sent.
    pub messages: u64,
    /// Stores and loads, and puts among them.
    pub accesses: u64,
    /// Nodes.
    pub nodes: usize,
    /// Virtual time that it took.
    pub time: Duration,
}

/// What is seen of a network from outside.
#[derive(Default)]
struct Seen {
    hash: DefaultHasher,
    packets: u64,
    /// When the last packet was sent.
    last: Duration,
}

/// Runs the network of a seed.
///
/// # Panics
/// Where anything is not as the model says: a byte, a notification, an error, a wait that does not end.
pub fn run(plan: &Plan) -> Outcome {
    let simulation = Simulation::new(plan.seed);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let world = World::new(plan, &simulation);
    let (watcher, time) = (seen.clone(), Arc::downgrade(&simulation));
    world.network().watch(move |from, packet| {
        let mut seen = watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Vec::with_capacity(64);
        packet.wire_bytes(&mut bytes);
        let now = time.upgrade().map_or(seen.last, |time| time.elapsed());
        assert!(now >= seen.last, "time goes back from {:?} to {now:?}", seen.last);
        seen.last = now;
        (now, from, bytes).hash(&mut seen.hash);
        seen.packets += 1;
    });
    let programs = (0..plan.nodes).map(|node| (format!("the program of node {node}"), Task::Node(node)));
    let all = programs.chain([("what breaks and mends".to_owned(), Task::Trouble)]);
    let world_of = &world;
    simulation.run(all.map(|(name, task)| {
        let run = move || match task {
            Task::Node(node) => program::run(world_of, node),
            Task::Trouble => trouble::run(world_of),
        };
        (name, run)
    }));
    world.verify();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    world.hash(&mut seen.hash);
    (simulation.elapsed(), simulation.turns()).hash(&mut seen.hash);
    Outcome {
        digest: seen.hash.finish(),
        packets: seen.packets,
        commands: world.commands.get(),
        messages: world.messages.get(),
        accesses: world.accesses.get(),
        nodes: plan.nodes,
        time: simulation.elapsed(),
    }
}

#[derive(Clone, Copy)]
enum Task {
    Node(usize),
    Trouble,
}
