//! `alltoall`: every node puts to every other one in each round, driven by the host.

use std::time::Instant;

use ggas::{Connection, Port, Spec};

use crate::ends::Place;
use crate::error::Doing;
use crate::host::require_memory;
use crate::payload::{Payload, RoundData};
use crate::setup::{Setup, Worker};
use crate::stats::room_for;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

/// Rounds at first in which every byte is compared. They need not take turns with the timed ones: the last rounds
/// are compared too.
const CHECKED_ROUNDS: u64 = 4;

/// Nodes at most: each has a connection to all others.
const MAX_NODES: u32 = 128;

pub(crate) struct AllToAll;

impl Bench for AllToAll {
    fn name(&self) -> &'static str {
        "alltoall"
    }

    fn about(&self) -> &'static str {
        "every node puts to every other one and consumes what came, by the host"
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let nodes = u64::from(options.nodes);
        if options.nodes > MAX_NODES {
            let advice = format!("alltoall takes 2 to {MAX_NODES} nodes");
            return Err(BenchError::option("nodes", nodes, advice));
        }
        let sizes = options.sizes_or(&[8, 1024, 16_384], 1..=1 << 20, 1)?;
        for &bytes in &sizes {
            // Two sources and two arrivals for each pair of nodes, and what the check compares with.
            require_memory(bytes, 6 * nodes * nodes * bytes)?;
        }
        let mut report = task.report();
        progress.begin(self.name(), sizes.len() as u64);
        for &bytes in &sizes {
            progress.now(format!("{bytes} bytes"));
            let (row, check) = measure(task, bytes)?;
            report.push(row, check);
            progress.step();
        }
        Ok(report)
    }
}

fn measure(task: Task, bytes: u64) -> Result<(Row, Check), BenchError> {
    let options = task.options;
    let nodes = u64::from(options.nodes);
    let setup = Setup::new(task, Worker::Host)?;
    let mut members = setup
        .local()
        .map(|node| Member::open(&setup, node, bytes as usize))
        .collect::<Result<Vec<_>, _>>()?;
    let places = members.iter().map(|member| Ok(Place::new(&member.port, member.payload.nla(0)?)));
    let places = setup.share(places.collect::<Result<_, BenchError>>()?)?;
    for member in &mut members {
        member.connect(&places);
    }
    let mut check = Check::default();
    let mut round = 0;
    for _ in 0..CHECKED_ROUNDS {
        exchange(&mut members, round, options)?;
        members.iter().try_for_each(|member| member.check(round, &mut check))?;
        round += 1;
    }
    setup.share::<()>(Vec::new())?;
    let count = options.iterations.unwrap_or((400_000 / (nodes * nodes)).clamp(50, 2000));
    let mut samples = room_for(count);
    let begun = Instant::now();
    for _ in 0..count {
        let begun = Instant::now();
        exchange(&mut members, round, options)?;
        samples.push(begun.elapsed().as_nanos() as f64);
        round += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    members.iter().try_for_each(|member| member.check(round - 1, &mut check))?;
    let longest = samples.iter().copied().fold(0.0, f64::max);
    let all = setup.share(vec![(seconds, longest)])?;
    let (samples, check) = setup.collect(Some(Samples::new(samples, 1)), check)?;
    let fastest = all.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
    let slowest = all.iter().map(|(seconds, _)| *seconds).fold(1e-9, f64::max);
    let mut row = Row::new(&samples).bytes(bytes).bandwidth_of((nodes - 1) * bytes);
    row.rate_per_s = Some((nodes * (nodes - 1) * count) as f64 / slowest);
    if task.team.size() > 1 {
        let worst = all.iter().map(|(_, longest)| *longest).fold(0.0, f64::max);
        row = row.with("slowest_over_fastest", slowest / fastest.max(1e-9)).with("worst_us", worst / 1e3);
    }
    Ok((row, check))
}

/// A round of the nodes here. A node begins its next round when everybody's data of this one came, so nobody is
/// ahead of another node by more than one round, and two places of arrival for each sender suffice.
fn exchange(members: &mut [Member], round: u64, options: &Options) -> Result<(), BenchError> {
    members.iter().try_for_each(|member| member.send(round))?;
    members.iter_mut().try_for_each(|member| member.receive(round, options))
}

/// A node's port, and a buffer with two sources for each receiver, then two places for each sender.
struct Member {
    node: usize,
    port: Port,
    payload: Payload,
    data: Data,
    /// To each other node, and where its buffer begins.
    peers: Vec<Peer>,
    /// Rounds that have come from each node.
    came: Vec<u64>,
}

struct Peer {
    node: usize,
    connection: Connection,
    nla: u64,
}

/// What the nodes send, and where it lies.
#[derive(Clone, Copy)]
struct Data {
    seed: u64,
    nodes: usize,
    bytes: usize,
}

impl Data {
    /// What `from` sends `to`. It changes with every use of a place of arrival.
    fn of(&self, from: usize, to: usize) -> RoundData {
        RoundData::new(self.seed, (from * self.nodes + to) as u64, self.bytes)
    }

    /// Which of the two contents round `round` sends.
    fn content(round: u64) -> u64 {
        round / 2 % 2
    }

    fn stride(&self) -> usize {
        self.bytes.next_multiple_of(64)
    }

    fn source(&self, to: usize, content: u64) -> usize {
        (content as usize * self.nodes + to) * self.stride()
    }

    fn arrival(&self, from: usize, round: u64) -> usize {
        ((2 + round as usize % 2) * self.nodes + from) * self.stride()
    }
}

impl Member {
    fn open(setup: &Setup, node: u32, bytes: usize) -> Result<Self, BenchError> {
        let nodes = setup.options.nodes as usize;
        let data = Data { seed: setup.options.seed, nodes, bytes };
        let port = setup.open_port(node)?;
        let payload = Payload::new(setup, node, &port, 4 * nodes * data.stride())?;
        let node = node as usize;
        for other in (0..nodes).filter(|other| *other != node) {
            let sent = data.of(node, other);
            for content in 0..2 {
                payload.write(data.source(other, content), &sent.of(content))?;
            }
            let expected = data.of(other, node);
            for round in 0..2 {
                payload.write(data.arrival(other, round), expected.poison())?;
            }
        }
        Ok(Self { node, port, payload, data, peers: Vec::new(), came: vec![0; nodes] })
    }

    /// Connects to all others, beginning with the next one so that not all send to the same node at first.
    fn connect(&mut self, places: &[Place]) {
        let nodes = places.len();
        let peer = |node: usize| {
            let place = places.get(node)?;
            Some(Peer { node, connection: self.port.connect(place.address()), nla: place.nla })
        };
        self.peers = (1..nodes).filter_map(|step| peer((self.node + step) % nodes)).collect();
    }

    fn send(&self, round: u64) -> Result<(), BenchError> {
        let Self { data, payload, node, .. } = self;
        let to = data.arrival(*node, round) as u64;
        for peer in &self.peers {
            let at = data.source(peer.node, Data::content(round));
            let posted = peer.connection.put(&payload.region, at, data.bytes, peer.nla + to, Spec::COMPLETER);
            posted.doing_with(|| format!("posting a put to node {}", peer.node))?;
        }
        Ok(())
    }

    /// Consumes notifications until this round has come from every other node.
    fn receive(&mut self, round: u64, options: &Options) -> Result<(), BenchError> {
        let mut missing = self
            .peers
            .iter()
            .filter(|peer| self.came.get(peer.node).is_none_or(|came| *came <= round))
            .count();
        while missing > 0 {
            let waiting = || format!("waiting for {missing} nodes in round {round}");
            let notification = self.port.wait(options.timeout).doing_with(waiting)?;
            if !notification.error().is_empty() {
                return Err(BenchError::Refused(format!("{notification:?}")));
            }
            if let Some(came) = self.came.get_mut(usize::from(notification.remote().node)) {
                missing -= usize::from(*came == round);
                *came += 1;
            }
        }
        Ok(())
    }

    /// Compares what came from everybody in round `round`.
    fn check(&self, round: u64, check: &mut Check) -> Result<(), BenchError> {
        for Peer { node: from, .. } in &self.peers {
            let seen = self.payload.read(self.data.arrival(*from, round), self.data.bytes)?;
            let expected = self.data.of(*from, self.node).of(Data::content(round));
            check.bytes(&format!("what node {from} sent to node {}", self.node), &expected, &seen);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_uses_of_a_place_share_a_byte() {
        let data = Data { seed: 1, nodes: 3, bytes: 100 };
        let (sent, again) = (data.of(0, 1).of(Data::content(1)), data.of(0, 1).of(Data::content(3)));
        assert_eq!(data.arrival(0, 1), data.arrival(0, 3));
        assert!(sent.iter().zip(&again).all(|(a, b)| a != b));
        assert_ne!(data.of(0, 1).of(0), data.of(1, 0).of(0));
        assert_eq!(data.arrival(2, 1) + data.stride(), 4 * data.nodes * data.stride());
    }
}
