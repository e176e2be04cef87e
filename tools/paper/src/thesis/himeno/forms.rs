//! The programs: what a node's host does, and the kernels that it launches.

use extoll_sim::timed::{Block, Flag, Kernel, Node, Place, Put, Stream};

use super::{Form, Member, Side};
use crate::programs::between_gpus;

/// Up to so many bytes a one-sided write of the host goes directly (section 4.3.8, K20: 4 to 8 kB); longer ones are
/// copied to the host in chunks of this size.
const DIRECT: u64 = 8 << 10;
const CHUNK: u64 = 256 << 10;
/// Streams of the GPU: of compute kernels, and of the kernel that controls them.
const COMPUTE: usize = 0;
const CONTROL: usize = 1;

pub(super) fn host(node: Node<'_>, member: &Member, iterations: u64) {
    match member.himeno.form {
        Form::Hybrid | Form::Mpi => {
            for iteration in 0..iterations {
                Side::BOTH.into_iter().for_each(|sent| half(node, member, sent, iteration + 1));
            }
        }
        Form::InKernel => {
            for iteration in 0..iterations {
                launch_and_send(node, member, Side::Top, iteration);
                launch_and_send(node, member, Side::Bottom, iteration);
            }
        }
        Form::Stream => {
            for iteration in 0..iterations {
                Side::BOTH.into_iter().for_each(|sent| in_stream(node, member, sent, iteration + 1));
            }
        }
        Form::Device | Form::Ggas => {
            let member = member.clone();
            node.stream(CONTROL).launch(Kernel::new("control", 1), move |block| {
                (1..=iterations).for_each(|count| control(&block, &member, count));
            });
            node.stream(CONTROL).synchronize();
        }
    }
    node.stream(COMPUTE).synchronize();
}

/// Computes one side.
fn launch(stream: Stream<'_>, member: &Member) -> Flag {
    let (kernel, member) = (Kernel::new("himeno", member.blocks), member.clone());
    stream.launch(kernel, move |block| member.compute(&block, 1))
}

/// Half an iteration of a host that controls the exchange: sends one side's boundary, has the other one computed, and
/// sees to it that the first one's has come (Fig. 4.16).
fn half(node: Node<'_>, member: &Member, sent: Side, count: u64) {
    let two_sided = member.himeno.form == Form::Mpi;
    let bytes = member.himeno.boundary();
    let partner = member.partner(sent);
    if let Some(to) = partner {
        if two_sided {
            node.copy(bytes);
            node.work(member.software[0]);
            node.put(member.put(sent, to, bytes).from(Place::Host).into(Place::Host).notified());
        } else {
            write(node, member, sent, to);
        }
    }
    launch(node.stream(COMPUTE), member);
    if partner.is_some() {
        node.wait(member.came(sent), count);
        if two_sided {
            node.work(member.software[1]);
            node.copy(bytes);
        }
    }
    node.stream(COMPUTE).synchronize();
}

/// A one-sided write of a boundary, staged at the source if it is long (Fig. 4.5).
fn write(node: Node<'_>, member: &Member, side: Side, to: usize) {
    let mut left = member.himeno.boundary();
    if left <= DIRECT {
        return node.put(member.put(side, to, left).notified());
    }
    while left > CHUNK {
        node.copy(CHUNK);
        node.put(Put::new(to, CHUNK).into(Place::Gpu));
        left -= CHUNK;
    }
    node.copy(left);
    node.put(member.put(side, to, left).from(Place::Host).notified());
}

/// A kernel of which all blocks wait for the boundary, and the last sends the new one (Listing 5.6).
fn launch_and_send(node: Node<'_>, member: &Member, side: Side, iteration: u64) {
    let (kernel, member) = (Kernel::new("himeno", member.blocks), member.clone());
    node.stream(COMPUTE).launch(kernel, move |block| {
        member.wait(&block, side, iteration);
        member.compute(&block, 1);
        let computed = &member.computed[side as usize];
        computed.add(1);
        if computed.value() == (iteration + 1) * member.blocks as u64 {
            member.send(&block, side);
        }
    });
}

/// Half an iteration by kernels of one stream (Fig. 5.22).
fn in_stream(node: Node<'_>, member: &Member, sent: Side, count: u64) {
    let stream = node.stream(COMPUTE);
    let is_sent = member.partner(sent).is_some();
    if is_sent {
        let member = member.clone();
        stream.launch(Kernel::new("send", 1), move |block| member.send(&block, sent));
    }
    launch(stream, member);
    if is_sent {
        let member = member.clone();
        stream.launch(Kernel::new("wait", 1), move |block| member.wait(&block, sent, count));
    }
}

/// An iteration of the kernel that begins the others (Figs 5.23, 6.19).
fn control(block: &Block<'_>, member: &Member, count: u64) {
    let stream = block.timed().node(member.me).stream(COMPUTE);
    if member.himeno.form == Form::Ggas {
        let (kernel, storing) = (Kernel::new("himeno", member.blocks), member.clone());
        let ended = stream.launch(kernel, move |block| store(&block, &storing));
        block.wait(&ended, 1, Place::Gpu);
        if member.himeno.communicates && member.himeno.nodes > 1 {
            member.barrier.meet(block, count);
        }
        return;
    }
    for side in Side::BOTH {
        member.send(block, side);
        let ended = launch(stream, member);
        block.wait(&ended, 1, Place::Gpu);
        member.wait(block, side, count);
    }
}

/// A block computes its columns and stores both ends of them to the neighbours (Listing 6.7).
fn store(block: &Block<'_>, member: &Member) {
    let share = member.himeno.boundary().div_ceil(member.blocks as u64);
    let store = |side: Side| {
        if let Some(to) = member.partner(side) {
            block.store(between_gpus(to, share));
        }
    };
    store(Side::Bottom);
    member.compute(block, 2);
    store(Side::Top);
}
