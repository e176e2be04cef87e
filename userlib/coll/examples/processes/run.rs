//! Collectives by the processes, on whichever hosts they are.

use std::time::Instant;

use ggas_coll::{BetweenHosts, Collective, Element, GroupError, Op, Vectors};
use ggas_members::Job;

use crate::Outcome;
use crate::member::Table;
use crate::setup::{Process, SOON, TRANSFER};

/// Rounds that are timed.
const ROUNDS: u32 = 5;

/// A number that a rank has for another.
fn number(from: usize, to: usize, i: usize) -> i64 {
    (from as i64 + 1) * 1_000_003 - (to as i64 + 7) * 1009 + i as i64 % 97
}

/// All collectives, of one number and of as many as there is room for.
pub fn checks(table: &Table<'_>, process: &Process) -> Outcome<()> {
    let (me, n) = (process.rank, process.size);
    let sum = |to: usize, i: usize| (0..n).map(|from| number(from, to, i)).sum::<i64>();
    let op = Op::Sum;
    for count in [1, TRANSFER / 16 / n] {
        let vectors = Vectors { input: 0, output: TRANSFER, count, element: Element::Int64, shape: None };
        let row = |what: &str, kind: Collective, parts: usize, of: &dyn Fn(usize, usize) -> i64| {
            let numbers = (0..n).flat_map(|to| (0..count).map(move |i| number(me, to, i)));
            let own: Vec<u8> = numbers.flat_map(i64::to_ne_bytes).collect();
            process.window.write(me, vectors.input, &own)?;
            process.window.write(me, vectors.output, &own)?;
            let begun = Instant::now();
            for _ in 0..ROUNDS {
                process.group.run(kind, &vectors)?;
            }
            let took = begun.elapsed();
            let mut got = vec![0; 8 * count * parts];
            process.window.read(me, vectors.output, &mut got)?;
            let at = (0..parts).flat_map(|part| (0..count).map(move |i| (part, i)));
            let expected: Vec<u8> = at.flat_map(|(part, i)| of(part, i).to_ne_bytes()).collect();
            let took =
                if got == expected { Ok(took) } else { Err(format!("{what} of {count} is wrong").into()) };
            table.row(&format!("{what} of {count} int64 by processes"), took, ROUNDS)
        };
        row("barrier", Collective::Barrier, 0, &|_, _| 0)?;
        row("allreduce", Collective::Allreduce { op }, 1, &|_, i| sum(0, i))?;
        row("broadcast", Collective::Broadcast { root: n - 1 }, 1, &|_, i| number(n - 1, 0, i))?;
        let of_root = |_: usize, i: usize| if me == n - 1 { sum(0, i) } else { number(me, 0, i) };
        row("reduce", Collective::Reduce { root: n - 1, op }, 1, &of_root)?;
        row("allgather", Collective::AllGather, n, &|from, i| number(from, 0, i))?;
        row("alltoall", Collective::AllToAll, n, &|from, i| number(from, me, i))?;
        row("reduce-scatter", Collective::ReduceScatter { op }, 1, &|_, i| sum(me, i))?;
    }
    let BetweenHosts { through_host, through_gpu, straight } = process.group.between_hosts();
    if through_host + through_gpu > 0 {
        println!(
            "PUT   rank {me}: between hosts {through_host} bytes through host memory, {through_gpu} through GPU memory, {straight} of \
             these from the window itself"
        );
    }
    Ok(table.job.barrier(SOON)?)
}

/// The last rank kills itself in front of an allreduce.
pub fn death(job: &Job, process: &Process) -> Outcome<()> {
    let victim = process.size - 1;
    let vectors = Vectors { input: 0, output: TRANSFER, count: 1000, element: Element::Float, shape: None };
    let sum = Collective::Allreduce { op: Op::Sum };
    process.group.run(sum, &vectors)?;
    job.barrier(SOON)?;
    if process.rank == victim {
        // SAFETY: ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    let begun = Instant::now();
    let told = process.group.run(sum, &vectors);
    let took = begun.elapsed();
    match (told, process.group.check()) {
        (Err(_), Err(GroupError::PeerLost { rank })) if rank as usize == victim => {}
        other => return Err(format!("the group says {other:?}").into()),
    }
    if took > SOON / 2 {
        return Err(format!("the collective ended {took:?} after its begin").into());
    }
    let took = took.as_secs_f64() * 1e6;
    println!("PASS  rank {}: a collective without rank {victim} ended after {took:>15.2} us", job.rank());
    Ok(())
}
