//! A process that nobody drives uses no CPU. Alone in its program, so that all threads that wait are its own.

#[allow(dead_code, reason = "shared with other tests")]
#[path = "process/members.rs"]
mod members;

mod common;

use std::time::{Duration, Instant};

use common::{PATIENCE, least_used};
use extoll_abi::{Access, Spec};

/// CPU time of the threads that wait for peers, once as many as expected are there.
fn cpu_of_wakers(expected: usize) -> Option<Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let of = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let times = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        matches!(name.trim(), "extoll-wake" | "ggas-post")
            .then(|| times.split(' ').next()?.parse().ok())
            .flatten()
    };
    let times: Vec<u64> = tasks.filter_map(of).collect();
    (times.len() == expected).then(|| Duration::from_nanos(times.iter().sum()))
}

#[test]
fn an_idle_job_sleeps_and_a_busy_one_is_served() {
    let job = members::members(4, 2);
    let (a, b) = (&job[0], &job[3]);
    let (p, q) = (a.open(1), b.open(1));
    let (from, to) = (a.private(4096), b.private(4096));
    let src = a.node.register(p.vpid, &from, Access::READ);
    let dst = b.node.register(q.vpid, &to, Access::WRITE);
    for round in 1..=3u64 {
        from.store(0, round);
        p.put(q.address(), Spec::NONE, src, dst, 8);
        let deadline = Instant::now() + PATIENCE;
        while to.load(0) != round {
            assert!(Instant::now() < deadline, "nobody took the put");
            std::thread::sleep(Duration::from_micros(100));
        }
        let idle = Duration::from_micros(500);
        let used = least_used(idle, || {
            // A few naps, then sleep.
            std::thread::sleep(Duration::from_millis(50));
            let before = cpu_of_wakers(8).unwrap();
            std::thread::sleep(Duration::from_millis(500));
            cpu_of_wakers(8).unwrap() - before
        });
        assert!(used < idle, "idle threads used {used:?} in half a second");
    }
}
