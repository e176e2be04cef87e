//! The ring by the hosts alone, with threads of each that share its work.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::tn_allreduce::Work;
use crate::grid::bytes;
use crate::hosts::{Meeting, Shared, threads_for, together, until};
use crate::{BenchError, Check};

/// What a node's threads, and those of the one before, use.
struct Host {
    data: Shared,
    landing: Shared,
    /// Steps whose data came.
    came: AtomicU64,
    meeting: Meeting,
}

/// One allreduce, compared afterwards; how long it took.
pub(super) fn run(work: &Work, check: &mut Check) -> Result<Duration, BenchError> {
    let ring = work.ring;
    let threads = threads_for(4 * ring.elements / ring.nodes, ring.nodes as u32);
    let host = |node| Host {
        data: Shared::new(work.input(node).to_vec()),
        landing: Shared::new(vec![f32::NAN; ring.elements]),
        came: AtomicU64::new(0),
        meeting: Meeting::new(threads, work.timeout),
    };
    let mut hosts: Vec<Host> = (0..ring.nodes).map(host).collect();
    let took = together(ring.nodes as u32 * threads, work.timeout, |number, gate| {
        gate.pass()?;
        let (node, thread) = ((number / threads) as usize, (number % threads) as usize);
        steps(work, &hosts, node, (thread, threads as usize))
    })?;
    for (node, host) in hosts.iter_mut().enumerate() {
        work.check(node, &bytes(host.data.all()), check);
    }
    Ok(took)
}

/// One thread's share of all steps.
fn steps(
    work: &Work,
    hosts: &[Host],
    node: usize,
    (thread, threads): (usize, usize),
) -> Result<(), BenchError> {
    let ring = work.ring;
    let (host, next) = (&hosts[node], &hosts[ring.next(node)]);
    let share = |part: usize| -> Range<usize> { ring.range(part, thread, threads) };
    for step in 0..ring.steps() {
        let sent = share(ring.sent(node, step));
        let place = if ring.adds(step) { &next.landing } else { &next.data };
        {
            // SAFETY: what this node sends it changes no more before the sum of it has come around; the place of a step
            // is used by no other, and read behind the counter.
            let (from, to) = unsafe { (host.data.get(sent.clone()), place.get_mut(sent)) };
            to.copy_from_slice(from);
        }
        host.meeting.meet()?;
        if thread == 0 {
            next.came.store(step as u64 + 1, Ordering::Release);
            until("a part", work.timeout, || host.came.load(Ordering::Acquire) > step as u64)?;
        }
        host.meeting.meet()?;
        if ring.adds(step) {
            let came = share(ring.came(node, step));
            // SAFETY: a share of this thread's, whose data have come.
            let (landing, data) = unsafe { (host.landing.get(came.clone()), host.data.get_mut(came)) };
            data.iter_mut().zip(landing).for_each(|(sum, more)| *sum += more);
        }
    }
    Ok(())
}
